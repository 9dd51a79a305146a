"""horovod.run: a function in several processes of this machine."""

import os


def _rank(rank, size, port, secret, func, args, kwargs, queue):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size), **secret)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    try:
        queue.put((rank, func(*args, **kwargs), None))
    except BaseException as error:  # the caller's to raise
        queue.put((rank, None, error))
        raise


def run(func, args, kwargs, size):
    """The results by rank; the first error is raised."""
    from taper import multiprocessing
    from taper._launch.options import free_port, new_secret

    spawn, port, secret = multiprocessing.get_context("spawn"), free_port(), new_secret()
    queue = spawn.Queue()
    common = port, secret, func, args, kwargs or {}, queue
    processes = [spawn.Process(target=_rank, args=(rank, size, *common)) for rank in range(size)]
    for process in processes:
        process.start()
    try:
        results = [None] * size
        for _ in range(size):
            rank, result, error = queue.get()
            if error is not None:
                raise error
            results[rank] = result
        return results
    finally:
        for process in processes:
            if any(other.exitcode for other in processes):
                process.terminate()
            process.join()
