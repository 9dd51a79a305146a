"""Checkpoints of an engine: weights, float32 copies and optimiser state by the parameters' names, so that another
number of ranks, or another stage, can load them."""

import os

import taper
from taper import distributed as dist
from taper.distributed import checkpoint as dcp
from taper.distributed.checkpoint.default_planner import DefaultLoadPlanner
from taper.distributed.checkpoint.state_dict import StateDictOptions, _init_optim_state, get_model_state_dict
from taper.distributed.tensor._dtensor import DTensor

_ABOUT = "engine.pt"  # what is no tensor: steps, options, the client's own


def _owned(engine):
    """(name, what the optimiser steps) of this rank's parameters."""
    return [
        (engine._names[p], master)
        for p, master in engine._masters.items()
        if engine._owner.get(p, engine.global_rank) == engine.global_rank
    ]


def _collect(engine):
    """Weights by name in float32 where there are such, and the optimiser's state by name."""
    weights = {name: value for name, value in get_model_state_dict(engine.module).items()}
    masters = (
        {name: master.detach() for name, master in _owned(engine)}
        if engine._compute is not None and engine._config.stage != 3
        else {}
    )
    state = {}
    for name, master in _owned(engine):
        kept = engine.optimizer.state.get(master, {})
        state[name] = master._state_of_whole(kept) if isinstance(master, DTensor) else dict(kept)
    return weights, masters, state


def save(engine, folder, tag, client_state, latest):
    tag = tag or f"global_step{engine.global_steps}"
    path = os.path.join(folder, str(tag))
    weights, masters, state = _collect(engine)
    groups = [
        {key: value for key, value in group.items() if key != "params"} for group in engine.optimizer.param_groups
    ]
    about = {
        "global_steps": engine.global_steps,
        "micro_steps": engine.micro_steps,
        "skipped_steps": engine.skipped_steps,
        "client_state": client_state,
        "lr_scheduler": engine.lr_scheduler.state_dict() if engine.lr_scheduler is not None else None,
        "groups": groups,
        "loss_scale": engine.loss_scale,
    }
    if engine.global_rank == 0:
        os.makedirs(path, exist_ok=True)
        taper.save(about, os.path.join(path, _ABOUT))
    dcp.save({"module": weights, "master": masters, "optimizer": state}, checkpoint_id=path)
    if latest and engine.global_rank == 0:
        temporary = os.path.join(folder, ".latest.part")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(str(tag))
        os.replace(temporary, os.path.join(folder, "latest"))
    if dist.is_initialized():
        dist.barrier()
    return True


def _tag(folder, tag):
    if tag is not None:
        return str(tag)
    try:
        with open(os.path.join(folder, "latest"), encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def load(engine, folder, tag, with_optimizer, with_schedule):
    tag = _tag(folder, tag)
    path = os.path.join(folder, tag) if tag is not None else None
    if path is None or not os.path.exists(os.path.join(path, ".metadata")):
        return None, {}
    if with_optimizer:
        _init_optim_state(engine.optimizer)
    weights, masters, state = _collect(engine)
    wanted = {"module": weights, "master": masters, "optimizer": state if with_optimizer else {}}
    dcp.load(
        {key: value for key, value in wanted.items() if value},
        checkpoint_id=path,
        planner=DefaultLoadPlanner(allow_partial_load=True),
    )
    _give_back(engine, weights, masters, path)
    told = taper.load(os.path.join(path, _ABOUT), weights_only=True)
    if with_optimizer:
        for name, master in _owned(engine):
            engine.optimizer.state[master].update(
                {key: value.to_local() if isinstance(value, DTensor) else value for key, value in state[name].items()}
            )
        for group, saved in zip(engine.optimizer.param_groups, told["groups"]):
            group.update(saved)
    if with_schedule and engine.lr_scheduler is not None and told["lr_scheduler"] is not None:
        engine.lr_scheduler.load_state_dict(told["lr_scheduler"])
    engine.global_steps, engine.micro_steps, engine.skipped_steps = (
        told["global_steps"],
        told["micro_steps"],
        told["skipped_steps"],
    )
    if engine.scaler is not None:
        engine.scaler.scale = told["loss_scale"]
    return path, told["client_state"]


def _give_back(engine, weights, masters, path):
    """Float32 copies that the checkpoint lacks (it was saved without, or by stage 3, whose weights are float32) come
    from the weights."""
    if not masters:
        return
    known = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    with taper.no_grad():
        for name, master in _owned(engine):
            if f"master.{name}" not in known:
                whole = {"module": {name: taper.empty_like(master)}}
                dcp.load(whole, checkpoint_id=path, no_dist=True)
                master.copy_(whole["module"][name])
    engine._share()


def whole_weights(engine):
    """The weights as a whole, in the dtype that the model computes in."""
    whole = get_model_state_dict(engine.module, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    dtype = engine._compute
    return {
        name: value.to(dtype) if dtype is not None and value.is_floating_point() else value
        for name, value in whole.items()
    }
