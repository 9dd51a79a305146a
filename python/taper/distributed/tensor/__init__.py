"""torch.distributed.tensor: tensors of which each rank has a part (DTensor), and modules made of them."""

from taper.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from taper.distributed.tensor._dtensor import DTensor, distribute_tensor  # noqa: F401
from taper.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard  # noqa: F401

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
    "empty",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randn",
    "zeros",
]


def distribute_module(module, device_mesh=None, partition_fn=None, input_fn=None, output_fn=None):
    """Makes the parameters of a module DTensors, as partition_fn(name, module, mesh) does, or copies on all ranks; its
    buffers as well."""
    from taper.nn import Parameter

    for name, child in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, child, device_mesh)
        for key, p in list(child._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                child.register_parameter(
                    key,
                    Parameter(
                        distribute_tensor(p.data, device_mesh, [Replicate()] * device_mesh.ndim), p.requires_grad
                    ),
                )
        for key, buffer in list(child._buffers.items()):
            if buffer is not None and not isinstance(buffer, DTensor):
                child._buffers[key] = distribute_tensor(buffer, device_mesh, [Replicate()] * device_mesh.ndim)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda module, inputs: input_fn(module, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda module, inputs, outputs: output_fn(module, outputs, device_mesh))
    return module


def _maker(name):
    def make(*size, device_mesh=None, placements=None, **kwargs):
        import taper

        size = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        whole = (
            taper.full(size, kwargs.pop("fill_value"), **kwargs)
            if name == "full"
            else getattr(taper, name)(size, **kwargs)
        )
        return distribute_tensor(whole, device_mesh, placements)

    make.__name__, make.__doc__ = name, f"torch.{name} as a DTensor."
    return make


empty, ones, zeros, rand, randn = map(_maker, ("empty", "ones", "zeros", "rand", "randn"))


def _range_maker(name):
    def make(start, end, steps, *, device_mesh=None, placements=None, **kwargs):
        import taper

        return distribute_tensor(getattr(taper, name)(start, end, steps, **kwargs), device_mesh, placements)

    make.__name__, make.__doc__ = name, f"torch.{name} as a DTensor."
    return make


linspace, logspace = map(_range_maker, ("linspace", "logspace"))


def full(size, fill_value, *, device_mesh=None, placements=None, **kwargs):
    """torch.full as a DTensor."""
    return _maker("full")(size, fill_value=fill_value, device_mesh=device_mesh, placements=placements, **kwargs)
