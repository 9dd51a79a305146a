"""Rank 1 dies after the third batch; the second attempt begins at the commit after the second."""

import os
import torch
import horovod.torch as hvd

hvd.init()
net = torch.nn.Linear(1, 1, bias=False)
with torch.no_grad():
    net.weight.fill_(0.0)
state = hvd.elastic.TorchState(model=net, batch=0)


@hvd.elastic.run
def train(state):
    while state.batch < 5:
        with torch.no_grad():
            state.model.weight.add_(1.0)
        state.batch += 1
        if state.batch == 2:
            state.commit()
        if state.batch == 3 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and hvd.rank() == 1:
            os._exit(1)
    return state.batch


assert train(state) == 5, state.batch
assert net.weight.item() == 5.0, net.weight
print("restarts", os.environ["TORCHELASTIC_RESTART_COUNT"])
