"""Whole weights of a ZeRO checkpoint."""

from distributed_names_begin import fails, r
import torch
import torch.distributed as dist
import torch.nn as nn

import sys
import deepspeed
from deepspeed.utils.zero_to_fp32 import (
    convert_zero_checkpoint_to_fp32_state_dict,
    get_fp32_state_dict_from_zero_checkpoint,
    load_state_dict_from_zero_checkpoint,
)


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


for stage, bits in ((1, True), (3, True), (2, False)):
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
        "zero_optimization": {"stage": stage},
        "bf16": {"enabled": bits},
    }
    engine, _, _, _ = deepspeed.initialize(model=net(), config=config)
    for i in range(3):
        loss = engine(torch.randn(4, 5).to(torch.bfloat16 if bits else torch.float32)).float().square().mean()
        engine.backward(loss)
        engine.step()
    folder = f"{sys.argv[1]}/stage{stage}"
    engine.save_checkpoint(folder)
    if r == 0:
        state = get_fp32_state_dict_from_zero_checkpoint(folder)
        assert list(state) == list(net().state_dict())
        assert all(t.dtype == torch.float32 and t.device.type == "cpu" for t in state.values())
        whole = load_state_dict_from_zero_checkpoint(net(), folder)
        assert all(torch.equal(a, state[name]) for name, a in whole.state_dict().items())
        assert any(not torch.equal(a, net().state_dict()[name]) for name, a in state.items())
        if bits:  # float32 copies, not what the model computes with
            assert any(not torch.equal(a, a.bfloat16().float()) for a in state.values())
        convert_zero_checkpoint_to_fp32_state_dict(folder, folder + "/whole.bin")
        assert list(torch.load(folder + "/whole.bin")) == list(state)
        fails(ValueError, "Unable to find 'latest'", lambda: get_fp32_state_dict_from_zero_checkpoint(sys.argv[1]))
    dist.barrier()
