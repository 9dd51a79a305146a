"""Tensor subclasses as Python objects: what a program keeps on them comes back, is copied and is saved with them."""

import copy
import io

import taper as torch
from taper.utils._pytree import tree_map


class Slotted(torch.Tensor):
    """Holds its elements in a slot, as wrappers of PyTorch's own tests do."""

    __slots__ = ["elem"]

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device, requires_grad=requires_grad
        )
        made.elem = elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(x):
            return x.elem if isinstance(x, Slotted) else x

        out = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(lambda x: Slotted(x) if isinstance(x, torch.Tensor) else x, out)


def test_slots_come_back_with_a_tensor_that_only_the_tape_held():
    x = Slotted(torch.tensor([1.0, 2.0, 3.0]), requires_grad=True)
    (grad,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    assert torch.equal(grad.elem, torch.tensor([2.0, 4.0, 6.0]))
    (second,) = torch.autograd.grad(grad.sum(), x)
    assert torch.equal(second.elem, torch.full((3,), 2.0))


def test_slots_are_copied_and_saved():
    x = Slotted(torch.tensor([1.0, 2.0]))
    x.note = "kept"
    copied = copy.deepcopy(x)
    assert type(copied) is Slotted
    assert copied.elem is not x.elem
    assert torch.equal(copied.elem, x.elem)
    assert copied.note == "kept"
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    with torch.serialization.safe_globals([Slotted]):
        loaded = torch.load(file)
    assert type(loaded) is Slotted
    assert torch.equal(loaded.elem, x.elem)
    assert loaded.note == "kept"


class Restored(Slotted):
    def __setstate__(self, state):
        self.__dict__.update(state[0])
        for name, value in state[1].items():
            setattr(self, name, value)
        self.restored = True


def test_a_class_with_setstate_is_asked():
    file = io.BytesIO()
    torch.save(Restored(torch.ones(2)), file)
    file.seek(0)
    assert torch.load(file, weights_only=False).restored


def test_a_gradient_is_the_same_object_each_time():
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    first = id(x.grad)
    kept = [torch.zeros(1) for _ in range(8)]  # would take the place of an object that was let go
    assert id(x.grad) == first
    assert len(kept) == 8
    x.grad.note = 1
    assert x.grad.note == 1


def test_a_guard_against_handlers_works_from_the_moment_it_is_made():
    seen = []

    class Logged(Slotted):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = Logged(torch.ones(2))
    guard = torch._C._DisableTorchDispatch()
    torch.ops.aten.view.default(x, [2, 1])
    assert not seen
    del guard
    x.view(2, 1)
    assert seen == ["aten.view.default"]


def test_cycles_of_parameters_and_plain_subclasses_are_collected():
    import gc
    import weakref

    class Plain(torch.Tensor):
        pass

    for make in (torch.nn.Parameter, lambda t: t.as_subclass(Plain)):
        made = make(torch.ones(2))
        made.cycle = [made]
        seen = weakref.ref(made)
        del made
        gc.collect()
        assert seen() is None
        assert not gc.garbage
