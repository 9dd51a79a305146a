"""What test_thread_changes.py runs: a thread changes tensors in the way that the argument names, two compute."""

import random
import sys
import threading
import taper as torch

torch.set_num_threads(2)
mode, rounds = sys.argv[1], 300
t = torch.randn(200, 200, requires_grad=mode == "backward")
view = torch.randn(200, 200) if mode == "swap" else t[1:]
left = threading.Event()


def change():
    for _ in range(rounds):
        try:
            if mode == "resize":
                t.resize_(random.choice([10, 200 * 200]))
            elif mode == "storage":
                t.untyped_storage().resize_(random.choice([0, 4 * 200 * 200]))
            elif mode == "set":
                t.set_(torch.randn(random.choice([3, 200]), 200))
            elif mode in ("data", "backward"):
                t.data = torch.randn(random.choice([3, 200]), 200)
            elif mode == "inplace":
                t.t_(), t.unsqueeze_(0), t.squeeze_(0)
            elif mode == "swap":
                torch.utils.swap_tensors(t, torch.randn(random.choice([3, 200]), 200))
            elif mode == "grad":
                t.requires_grad_(random.random() < 0.5)
                t.grad = None
        except RuntimeError:
            pass
    left.set()


def compute():
    works = [
        lambda: t @ torch.randn(200, 3),
        lambda: torch.sort(t.view(-1)),
        lambda: (t.sum(0), t.exp()),
        lambda: t.add_(1),
        lambda: (t * 2).contiguous(),
        lambda: t.clone().tolist(),
        lambda: view.sum(),
    ]
    if mode == "backward":
        works = [
            lambda: (t * t).exp().sum().backward(),
            lambda: (t @ t.t()).sum().backward(),
            lambda: setattr(t, "grad", None),
        ]
    while not left.is_set():
        try:
            random.choice(works)()
        except (RuntimeError, IndexError):
            pass


threads = [threading.Thread(target=f) for f in (change, compute, compute)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("survived")
