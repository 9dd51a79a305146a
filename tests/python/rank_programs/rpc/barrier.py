"""Some workers wait for each other."""

import os
import sys

from rpc_begin import fails, rank, world
import torch.distributed.rpc as rpc

folder = sys.argv[1]
rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)
if rank > 0:
    for turn in range(3):
        open(os.path.join(folder, f"barrier-{turn}-{rank}"), "w").close()
        rpc.api._barrier({"w1", "w2"})
        # Whoever comes out has waited for the other one, every time.
        assert os.path.exists(os.path.join(folder, f"barrier-{turn}-{3 - rank}"))
else:
    fails(RuntimeError, "worker w0 is not one of", lambda: rpc.api._barrier({"w1", "w2"}))
rpc.shutdown()
