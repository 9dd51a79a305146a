"""Children by every method have the same modules."""

import multiprocessing
import subprocess
import sys
import torch


def work(queue):
    import torch.nn.functional
    import taper

    queue.put((torch is taper, torch.arange(4).sum().item()))


if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(method, queue.get(timeout=60))
        child.join()
    print(
        subprocess.run(
            [sys.executable, "-c", "import torch; print(torch.__spec__.name)"], capture_output=True, text=True
        ).stdout.strip()
    )
