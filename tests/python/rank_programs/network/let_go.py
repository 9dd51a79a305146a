"""Pairs of processes let go of a store in a file at about the same moment; prints how many files stay."""

import os
import sys
import torch.distributed as dist

stay = 0
for n in range(200):
    path = os.path.join(sys.argv[1], f"store{n}")
    children = []
    for i in range(2):
        child = os.fork()
        if child == 0:
            store = dist.FileStore(path, 2)
            store.set(f"here{i}", "1")
            store.wait(["here0", "here1"])
            del store
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    stay += os.path.exists(path)
print(stay)
