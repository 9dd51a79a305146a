"""Tensors and modules, which guards follow, and what is asked of them that no graph knows."""

import copy
import math
import types
import weakref

import numpy as np
import taper as torch
from taper import nn
from state.base import cleanup, plain, source


@plain
def by_tensor_in_place():
    t = torch.ones(3)
    return lambda: t.sum(), lambda: t.add_(1)


@plain
def by_tensor_rebound():
    t = torch.ones(3)

    def change():
        nonlocal t
        t = t + 1

    return lambda: t.mean(), change


@plain
def by_tensor_data():
    t = torch.ones(3)

    def change():
        t.data = t.data + 1

    return lambda: t.mean(), change


@plain
def by_tensor_set():
    t = torch.ones(3)
    return lambda: t.sum(), lambda: t.set_(torch.full((4,), t.sum().item()))


@plain
def by_tensor_shape():
    t = torch.arange(6.0).reshape(2, 3)

    def change():
        t.resize_(*t.shape[::-1])

    return lambda: t[0].sum() + t.shape[0], change


@plain
def by_tensor_transposed():
    t = torch.arange(9.0).reshape(3, 3)
    return lambda: (t * torch.arange(3.0)).sum(0)[1], lambda: t.t_()


@plain
def by_tensor_view():
    t = torch.arange(6.0)
    view = t[2:4]
    return lambda: view.sum(), lambda: t.add_(1)


@plain
def by_numpy_memory():
    a = np.ones(3, dtype=np.float32)
    t = torch.from_numpy(a)

    def change():
        a[0] += 1

    return lambda: t.sum(), change


@plain
def by_tensor_flag():
    t = torch.ones(3)

    def change():
        t.requires_grad_(not t.requires_grad)

    return lambda: 2.0 if t.requires_grad else 3.0, change


@plain
def by_tensor_attribute():
    t = torch.ones(3)
    t.k = 1.0

    def change():
        t.k += 1

    return lambda: t.k, change


@plain
def by_dtype_of_a_tensor():
    t = torch.ones(3)

    def change():
        t.data = t.data.double() if t.dtype == torch.float32 else t.data.float()

    return lambda: 2.0 if t.dtype == torch.float32 else 3.0, change


@plain
def by_gradient():
    t = torch.ones(1, requires_grad=True)

    def change():
        t.grad = torch.ones(1) if t.grad is None else t.grad + 1

    return lambda: 1.0 if t.grad is None else t.grad.sum(), change


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.k, self.options = nn.Parameter(torch.full((1,), 2.0)), 1.0, {"a": [1.0]}
        self.register_buffer("b", torch.ones(1))
        self.inner = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.inner.weight, 0.5)

    def forward(self, x):
        return self.inner(x * self.w + self.b) * self.k + self.options["a"][0]


def module(change, is_plain=True):
    def made():
        m = Small()
        one = torch.ones(1)
        return lambda: m(one), lambda: change(m)

    made.__name__ = change.__name__
    return source(made, is_plain)


@module
def module_attribute(m):
    m.k += 1


@module
def module_option(m):
    m.options["a"][0] += 1


@module
def module_parameter(m):
    with torch.no_grad():
        m.w.add_(1)


@module
def module_parameter_replaced(m):
    m.w = nn.Parameter(m.w.detach() + 1)


@module
def module_buffer_replaced(m):
    m.b = m.b + 1


@module
def module_child_replaced(m):
    w = m.inner.weight.item()
    m.inner = nn.Linear(1, 1, bias=False)
    nn.init.constant_(m.inner.weight, w + 1)


@module
def module_frozen(m):
    m.w.requires_grad_(not m.w.requires_grad)


@module
def module_hook(m):
    m.register_forward_hook(lambda module, args, out: out + 1)


@module
def module_pre_hook(m):
    m.inner.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


@module
def module_forward_replaced(m):
    before = m.forward
    m.forward = lambda x: before(x) + 1


@module
def module_class_changed(m):
    m.__class__ = type("Other", (Small,), {"forward": lambda self, x: Small.forward(self, x) + self.k})


@module
def module_state_loaded(m):
    m.load_state_dict({key: value + 1 for key, value in m.state_dict().items()})


@plain
def module_hook_removed():
    m = Small()
    handles = [m.register_forward_hook(lambda module, args, out: out + 1) for _ in range(4)]
    one = torch.ones(1)
    return lambda: m(one), lambda: handles and handles.pop().remove()


@plain
def module_mode():
    m = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1), nn.Dropout(0.0))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    x = torch.arange(4.0).reshape(4, 1)
    return lambda: m(x).sum(), lambda: m.train(not m.training)


@plain
def module_list():
    m = nn.ModuleList([nn.Linear(1, 1, bias=False)])
    nn.init.constant_(m[0].weight, 0.5)
    one = torch.ones(1)

    def read():
        y = one
        for each in m:
            y = each(y)
        return y

    def change():
        m.append(copy.deepcopy(m[0]))

    return read, change


@source
def module_hook_of_all():
    m, one, handles = Small(), torch.ones(1), []

    def change():
        if handles:
            handles.pop().remove()
        else:
            handles.append(
                nn.modules.module.register_module_forward_hook(
                    lambda module, args, out: out + 1 if module is m else None
                )
            )

    cleanup.append(lambda: [handle.remove() for handle in handles])
    return lambda: m(one), change


@source
def patched_function_of_the_package():
    before, count = torch.nn.functional.relu, [0.0]

    def put(*unused):
        count[0] += 1
        n = count[0]
        torch.nn.functional.relu = lambda x, inplace=False: before(x) + n

    cleanup.append(lambda: setattr(torch.nn.functional, "relu", before))
    m, one = nn.ReLU(), torch.ones(1)
    return lambda: torch.nn.functional.relu(one) + m(one), put


@source
def patched_class_of_the_package():
    before, count = nn.Linear.forward, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        nn.Linear.forward = lambda self, x: before(self, x) + n

    cleanup.append(lambda: setattr(nn.Linear, "forward", before))
    m, one = nn.Linear(1, 1), torch.ones(1)
    nn.init.constant_(m.weight, 0.5), nn.init.constant_(m.bias, 0.5)
    return lambda: m(one), put


@source
def patched_method_of_tensors():
    before, count = torch.Tensor.relu, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        torch.Tensor.relu = lambda self: before(self) + n

    cleanup.append(lambda: setattr(torch.Tensor, "relu", before))
    one = torch.ones(1)
    return lambda: one.relu(), put


@source
def patched_builtin():
    import builtins

    before, count = builtins.abs, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        builtins.abs = lambda v: before(v) + n

    cleanup.append(lambda: setattr(builtins, "abs", before))
    return lambda: abs(-1.0), put


@source
def patched_math():
    before, count = math.sqrt, [0.0]

    def put():
        count[0] += 1
        n = count[0]
        math.sqrt = lambda v: before(v) + n

    cleanup.append(lambda: setattr(math, "sqrt", before))
    return lambda: math.sqrt(4.0), put


@source
def optimiser_rate():
    p = nn.Parameter(torch.ones(1))
    o = torch.optim.SGD([p], lr=1.0)

    def change():
        o.param_groups[0]["lr"] *= 0.5

    return lambda: o.param_groups[0]["lr"], change


@source
def schedule_rate():
    p = nn.Parameter(torch.ones(1))
    o = torch.optim.SGD([p], lr=1.0)
    s = torch.optim.lr_scheduler.ExponentialLR(o, 0.5)

    def change():
        o.step()
        s.step()

    return lambda: s.get_last_lr()[0] + s.last_epoch, change


@source
def tensor_version():
    t = torch.ones(3)
    return lambda: t._version, lambda: t.add_(1)


@source
def tensor_is_leaf():
    held = [torch.ones(1, requires_grad=True)]

    def change():
        held[0] = held[0] * 1 if held[0].is_leaf else torch.ones(1, requires_grad=True)

    return lambda: 2.0 if held[0].is_leaf else 3.0, change


@source
def tensor_item():
    t = torch.ones(1)
    return lambda: t.item() + float(t) + int(t), lambda: t.add_(1)


@source
def tensor_as_text():
    t = torch.ones(1)
    return lambda: len(str(t)) + len(f"{t}"), lambda: t.mul_(100)


@source
def tensor_as_str():
    t = torch.ones(1)
    return lambda: len(str(t)), lambda: t.mul_(100)


@source
def tensor_as_repr():
    t = torch.ones(1)
    return lambda: len(repr(t)), lambda: t.mul_(100)


@source
def tensor_by_a_text_s_percent():
    t = torch.ones(1)
    return lambda: len("%s" % t), lambda: t.mul_(100)


@source
def tensor_as_ascii():
    t = torch.ones(1)
    return lambda: len(ascii(t)), lambda: t.mul_(100)


@source
def tensor_in_the_text_of_a_list():
    t = torch.ones(1)
    return lambda: len(str([t])) + len(repr({"a": (t,)})), lambda: t.mul_(100)


@source
def tensor_in_the_text_of_an_object():
    held = types.SimpleNamespace(t=torch.ones(1))
    return lambda: len(str(held)), lambda: held.t.mul_(100)


@source
def parameter_as_text():
    p = nn.Parameter(torch.ones(1))
    return lambda: len(str(p)), lambda: p.data.mul_(100)


@source
def tensor_computed_as_text():
    t = torch.ones(1)
    return lambda: len(str(t * 2)), lambda: t.mul_(100)


def more_digits():
    torch.set_printoptions(precision=torch.get_printoptions()["precision"] + 1)


@source
def print_options_by_a_text():
    cleanup.append(lambda: torch.set_printoptions(profile="default"))
    return lambda: len(str(torch.tensor([1.23456789]))), more_digits


@source
def print_options_by_their_name():
    cleanup.append(lambda: torch.set_printoptions(profile="default"))
    return lambda: torch.get_printoptions()["precision"], more_digits


@source
def print_options_by_the_object():
    cleanup.append(lambda: torch.set_printoptions(profile="default"))
    return lambda: torch._tensor_str.PRINT_OPTS.precision, more_digits


@source
def tensor_as_list():
    t = torch.ones(2)
    return lambda: sum(t.tolist()) + sum(float(v) for v in t), lambda: t.add_(1)


@source
def tensor_as_array():
    t = torch.ones(2)
    return lambda: float(t.numpy().sum()) + float(np.asarray(t)[0]), lambda: t.add_(1)


@source
def tensor_by_a_weak_reference():
    held = [torch.ones(1)]
    w = [weakref.ref(held[0])]

    def change():
        held[0] = held[0] + 1
        w[0] = weakref.ref(held[0])

    return lambda: w[0]().sum(), change


@source
def tensor_storage():
    t = torch.ones(3)
    return lambda: t.untyped_storage().nbytes(), lambda: t.resize_(t.numel() + 2)
