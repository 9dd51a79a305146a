"""Remote modules."""

from rpc_begin import fails, rank, world
import torch
import torch.distributed.rpc as rpc
import torch.nn as nn

from torch.distributed.nn import RemoteModule

rpc.init_rpc(f"w{rank}", rank=rank, world_size=world)
if rank == 0:
    module = RemoteModule("w1/cpu", nn.Linear, args=(3, 2))
    x = torch.ones(1, 3)
    assert torch.equal(module(x), module.forward_async(x).wait())
    assert module(x).shape == (1, 2)
    assert [p.to_here().shape for p in module.remote_parameters()] == [
        (2, 3),
        (2,),
    ]
    assert module.get_module_rref().owner().name == "w1"
    fails(ValueError, "Method ``parameters`` not supported for RemoteModule", module.parameters)
rpc.shutdown()
