"""torch.utils: data loaders, checkpointing, extensions in C++, TensorBoard, and helpers around tensors."""


def _refuse_backward(grads):
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run "
        "backward on a tensor that was swapped. For a module m with "
        "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device or dtype of "
        "the module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To resolve this, please "
        "only change the device/dtype before running forward (or after both forward and backward)."
    )


def _poison(tensor):
    """Is a graph that reached this leaf all that holds on to it besides its object? A backward of that graph, which
    would find another tensor, is refused then."""
    if not (tensor.is_leaf and tensor.requires_grad):
        return False
    from taper import _C
    from taper.autograd.graph import get_gradient_edge

    node = get_gradient_edge(tensor).node
    if _C._use_count(tensor) != 2:
        return False
    node.register_prehook(_refuse_backward)
    return True


def swap_tensors(t1, t2):
    """Exchanges what two tensor objects stand for: data, history, class and attributes."""
    from copyreg import _slotnames
    from weakref import getweakrefs

    from taper import _C

    for name, tensor in (("t1", t1), ("t2", t2)):
        if getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = set(_slotnames(type(t1)))
    if slots != set(_slotnames(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for name, tensor in (("t1", t1), ("t2", t2)):
        count = _C._use_count(tensor)
        if count == 2 and _poison(tensor):
            continue
        if count > 1:
            raise RuntimeError(
                f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {count} make sure you "
                "are not holding references to the tensor in other places."
            )
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for slot in slots:
        one, two = getattr(t1, slot, None), getattr(t2, slot, None)
        setattr(t1, slot, two)
        setattr(t2, slot, one)
    _C._swap_tensor_impl(t1, t2)


def set_module(obj, mod):
    """Says of a class or function that it is of another module."""
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name):  # its modules are loaded at first use
    if name == "cmake_prefix_path":  # find_package(Torch), for C++ programs
        import os

        return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "share", "cmake")
    from importlib import import_module
    from importlib.util import find_spec

    if name.startswith("__") or find_spec("taper.utils." + name) is None:
        raise AttributeError(f"module 'torch.utils' has no attribute '{name}'")
    return import_module("taper.utils." + name)
