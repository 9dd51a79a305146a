"""torch.distributed.fsdp.fully_shard: makes a module one whose parameters lie in parts on the ranks of a mesh. Called
on the inner modules first, then on the root."""

from dataclasses import dataclass
from typing import Any

from taper._C import Tensor
from taper.distributed.device_mesh import init_device_mesh
from taper.distributed.fsdp._unit import Unit, units_of
from taper.nn.parallel.scatter_gather import _like

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of the whole parameters, of gradients while they are reduced, and of what a module gives."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parts stay where they are."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts rest in the CPU's memory."""

    pin_memory: bool = True


class UnshardHandle:
    """A gather under way."""

    def wait(self):
        """It is done when it is asked for."""


class FSDPModule:
    """What a module is as well after fully_shard."""

    def unshard(self, async_op=False):
        self._fsdp_unit.unshard()
        return UnshardHandle() if async_op else None

    def reshard(self):
        self._fsdp_unit.reshard()

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Off: gradients only add up, whole, until a backward with it on."""
        for unit in units_of(self) if recurse else [self._fsdp_unit]:
            unit.sync = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward):
        """Every backward reduces what it must."""

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Copies of a mesh with two dimensions are averaged in each backward."""

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        for unit in units_of(self) if recurse else [self._fsdp_unit]:
            unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Parameters always go after a backward."""

    def set_gradient_divide_factor(self, factor):
        self._fsdp_unit.reduce_factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_modules_to_forward_prefetch(self, modules):
        """Gathers are not started ahead."""

    def set_modules_to_backward_prefetch(self, modules):
        """Gathers are not started ahead."""

    def set_unshard_in_backward(self, unshard_in_backward):
        """Parameters are gathered where a backward needs them."""


def cast(value, dtype):
    """Every floating tensor in lists, tuples and dicts as that dtype."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: cast(item, dtype) for key, item in value.items()}
    return _like(value, [cast(item, dtype) for item in value]) if isinstance(value, (list, tuple)) else value


def fully_shard(
    module,
    *,
    mesh=None,
    reshard_after_forward=None,
    shard_placement_fn=None,
    mp_policy=MixedPrecisionPolicy(),
    offload_policy=OffloadPolicy(),
    ignored_params=None,
    dp_mesh_dims=None,
):
    """Shards the parameters of a module (or of a list of modules, as one unit) that no inner call has; the module
    becomes an FSDPModule."""
    from taper import distributed as dist

    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    mesh = mesh or init_device_mesh(
        next((p.device.type for m in modules for p in m.parameters()), "cpu"), (dist.get_world_size(),)
    )
    for one in modules:
        _shard_one(
            one,
            mesh,
            True if reshard_after_forward is None else bool(reshard_after_forward),
            mp_policy,
            ignored_params or (),
        )
    return module


def _shard_one(module, mesh, reshard_after_forward, mp_policy, ignored):
    unit = Unit(module, mesh, reshard_after_forward, mp_policy.param_dtype, mp_policy.reduce_dtype, ignored)
    module._fsdp_unit = unit
    module.__class__ = type(
        f"FSDP{type(module).__name__}", (FSDPModule, type(module)), {"__module__": type(module).__module__}
    )

    def before(_, args, kwargs):
        unit.before_forward()
        if mp_policy.param_dtype is not None and mp_policy.cast_forward_inputs:
            return cast(args, mp_policy.param_dtype), cast(kwargs, mp_policy.param_dtype)
        return None

    def after(_, args, output):
        output = output if mp_policy.output_dtype is None else cast(output, mp_policy.output_dtype)
        unit.after_forward(output)
        return output

    module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    module.register_forward_hook(after)


def register_fsdp_forward_method(module, method_name):
    """Another method than forward that runs with whole parameters."""
    method, unit = getattr(module, method_name), module._fsdp_unit

    def wrapped(*args, **kwargs):
        unit.before_forward()
        output = method(*args, **kwargs)
        unit.after_forward(output)
        return output

    setattr(module, method_name, wrapped)
