"""Shares tensors by files with a child; with an argument it is killed at its end."""

import os
import signal
import sys
import taper as torch
import taper.multiprocessing as mp

mp.set_sharing_strategy("file_system")


def child(queue, done):
    queue.put(torch.ones(5) * 2)
    done.get()


if __name__ == "__main__":
    x = torch.zeros(4).share_memory_()
    path = x.untyped_storage()._shared_path()
    queue, done = mp.SimpleQueue(), mp.SimpleQueue()
    process = mp.Process(target=child, args=(queue, done))
    process.start()
    got = queue.get()
    print(os.path.exists(path), got.tolist(), path, got.untyped_storage()._shared_path(), flush=True)
    done.put(None)
    process.join()
    if sys.argv[1:]:
        os.kill(os.getpid(), signal.SIGKILL)
