"""Workers that answer calls, and wait until a stranger has tried."""

from network_begin import listening
import os

import sys
import time
import torch
import torch.distributed.rpc as rpc
from torch.distributed.rpc import api

rank = int(os.environ["RANK"])
rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
agent = api._get_current_rpc_agent()
assert set(listening()) <= {"127.0.0.1", "::1"}, listening()
assert rpc.rpc_sync(f"w{1 - rank}", max, args=(3, 4)) == 4
if rank == 0:
    with open(sys.argv[1] + "/ports.tmp", "w") as file:
        file.write(f"{agent.listener.getsockname()[1]} {agent.store.port}")
    os.rename(sys.argv[1] + "/ports.tmp", sys.argv[1] + "/ports")
while not os.path.exists(sys.argv[1] + "/tried"):
    time.sleep(0.02)
assert rpc.rpc_sync(f"w{1 - rank}", torch.add, args=(torch.ones(2), 1)).tolist() == [2.0, 2.0]
rpc.shutdown()
