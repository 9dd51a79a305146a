"""Classes whose special methods, bases and tables change, and modules of the package that are changed in other ways."""

import abc
import collections
import contextlib
import enum
import functools
import random
import string
import sys
import types
import typing
import weakref

import numpy as np
import taper as torch
from state.base import Box, cleanup, nothing, plain, source
from taper import nn


@plain
def a_deleted_attribute():
    class Holder:
        k = 1.0

    holder = Holder()
    holder.k = 2.0

    def change():
        if "k" in holder.__dict__:
            del holder.k
        else:
            holder.k = Holder.k = Holder.k + 3

    return lambda: holder.k, change


@plain
def a_shadowing_attribute():
    class Base:
        k = 1.0

    class Derived(Base):
        pass

    derived, count = Derived(), [1.0]

    def change():
        count[0] += 1
        Derived.k = count[0]

    return lambda: derived.k, change


@plain
def a_special_method_set_later():
    class Holder:
        def __call__(self):
            return 1.0

    holder, count = Holder(), [1.0]

    def change():
        count[0] += 1
        n = count[0]
        Holder.__call__ = lambda self: n
        Holder.__len__ = lambda self: int(n)

    return lambda: holder() + (len(holder) if hasattr(Holder, "__len__") else 0), change


@plain
def a_getattribute_set_later():
    holder = Box()

    class Strange(Box):
        def __getattribute__(self, name):
            return 7.0

    def change():
        holder.__class__ = Strange if type(holder) is Box else Box
        object.__setattr__(holder, "k", 2.0)

    return lambda: holder.k, change


@plain
def a_missing_key():
    class Table(dict):
        default = 1.0

        def __missing__(self, key):
            return self.default

    table = Table()

    def change():
        table.default += 1

    return lambda: table["anything"], change


@plain
def keys_with_state():
    class Key:
        def __init__(self, k):
            self.k = k

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return self.k == other.k

    a, b = Key(1.0), Key(1.0)
    table = {a: 5.0}

    def change():
        b.k = 3.0 - b.k

    return lambda: table.get(b, 1.0), change


@plain
def ordering_with_state():
    @functools.total_ordering
    class Item:
        sign = 1

        def __init__(self, k):
            self.k = k

        def __lt__(self, other):
            return self.k * Item.sign < other.k * Item.sign

        def __eq__(self, other):
            return self.k == other.k

    items = [Item(1.0), Item(2.0)]

    def change():
        Item.sign = -Item.sign

    return lambda: sorted(items)[0].k + max(items).k, change


@plain
def members_of_an_enum():
    class Mode(enum.Enum):
        A = 1
        B = 2

    Mode.A.weight, Mode.B.weight = 1.0, 2.0

    def change():
        Mode.A.weight += 1

    return lambda: sum(each.weight for each in Mode), change


@plain
def an_instance_check():
    class Meta(type):
        answer = True

        def __instancecheck__(cls, instance):
            return Meta.answer

    class Kind(metaclass=Meta):
        pass

    def change():
        Meta.answer = not Meta.answer

    return lambda: 2.0 if isinstance(1, Kind) else 3.0, change


@source
def a_registered_class():
    class Kind(abc.ABC):
        pass

    box = Box()

    def change():
        Kind.register(Box)

    return lambda: 2.0 if isinstance(box, Kind) else 3.0, change


@source
def a_protocol():
    @typing.runtime_checkable
    class Named(typing.Protocol):
        name: str

    box = Box()

    def change():
        if hasattr(box, "name"):
            del box.name
        else:
            box.name = "a"

    return lambda: 2.0 if isinstance(box, Named) else 3.0, change


@plain
def a_table_of_functions():
    table = {"f": lambda: 1.0, "g": lambda: 2.0}
    which = ["f"]

    def change():
        which[0] = "g" if which[0] == "f" else "f"
        table["g"] = lambda n=len(which[0]) + table["g"](): n

    return lambda: table[which[0]](), change


@plain
def a_list_of_closures():
    numbers = [1.0, 2.0]
    functions = [lambda i=i: numbers[i] for i in range(2)]

    def change():
        numbers[1] += 1
        functions.append(lambda: numbers[0])

    return lambda: sum(f() for f in functions), change


@plain
def a_bound_method_made():
    box = Box()
    method = types.MethodType(lambda self: self.k * 2, box)

    def change():
        box.k += 1

    return lambda: method(), change


@plain
def a_partial_method():
    class Holder:
        k = 1.0

        def value(self, add):
            return self.k + add

        more = functools.partialmethod(value, 5)

    holder = Holder()

    def change():
        holder.k += 1

    return lambda: holder.more(), change


@plain
def super_calls():
    class Base:
        k = 1.0

        def value(self):
            return self.k

    class Derived(Base):
        def value(self):
            return super().value() + 1

    derived = Derived()

    def change():
        Base.k += 1

    return lambda: derived.value(), change


@plain
def a_text_subclass():
    class Name(str):
        k = 1.0

    name = Name("abc")
    name.k = 1.0

    def change():
        name.k += 1

    return lambda: len(name) + name.k, change


@plain
def a_number_subclass():
    class Rate(float):
        pass

    held = [Rate(1.0)]
    held[0].scale = 2.0

    def change():
        held[0].scale += 1

    return lambda: held[0] * held[0].scale, change


@plain
def a_module_with_a_property():
    class Kind(types.ModuleType):
        @property
        def k(self):
            return self.inside

    module = sys.modules["taper_test_module"] = Kind("taper_test_module")
    module.inside = 1.0

    def read():
        import taper_test_module

        return taper_test_module.k

    def change():
        module.inside += 1

    return read, change


@plain
def a_module_with_getattr():
    module = sys.modules["taper_test_module"] = types.ModuleType("taper_test_module")
    inside = [1.0]
    module.__getattr__ = lambda name: inside[0]

    def read():
        import taper_test_module

        return taper_test_module.anything

    def change():
        inside[0] += 1

    return read, change


@plain
def an_exit_stack():
    numbers = [1.0]

    class Scope:
        def __enter__(self):
            return numbers[0]

        def __exit__(self, *unused):
            pass

    def read():
        with contextlib.ExitStack() as stack, contextlib.nullcontext(2.0) as two, contextlib.suppress(KeyError):
            return stack.enter_context(Scope()) + two

    def change():
        numbers[0] += 1

    return read, change


@plain
def stars_and_defaults():
    rest, named = [1.0, 2.0], {"k": 3.0}

    def f(*args, k=0.0, **more):
        return sum(args) + k + len(more)

    def change():
        rest.append(1.0)
        named["k"] += 1
        named[f"m{len(rest)}"] = 1

    return lambda: f(*rest, **named), change


@plain
def a_formatter():
    box = {"k": 1.0}

    def change():
        box["k"] += 1

    return lambda: float("%(k)s" % box) + float("{k}".format(**box)), change


@source
def a_string_formatter():
    box = Box()

    def change():
        box.k += 1

    return lambda: float(string.Formatter().format("{0.k}", box)), change


@source
def a_weak_method():
    box = Box()
    method = weakref.WeakMethod(box.value)

    def change():
        box.k += 1

    return lambda: method()(), change


@source
def a_system_generator():
    return lambda: 1.0 if random.SystemRandom().random() < 2 else 0.0, nothing


@source
def a_numpy_seed_inside():
    return lambda: (np.random.seed(4), np.random.rand())[1], nothing


@source
def a_numpy_generator_inside():
    held = [1]

    def change():
        held[0] += 1

    return lambda: np.random.default_rng(held[0]).random(), change


@source
def numpy_functions():
    held = [1.0, 2.0]

    def change():
        held[0] += 1

    return (
        lambda: (
            float(np.mean(held)) + float(np.prod(held)) + float(np.array(held).max()) + np.arange(int(held[0])).sum()
        ),
        change,
    )


@source
def a_vectorized_function():
    held = [1.0]
    f = np.vectorize(lambda v: v * held[0])

    def change():
        held[0] += 1

    return lambda: float(f(2.0)), change


@plain
def layers_by_name():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(2):
                setattr(self, f"layer{i}", nn.Linear(1, 1, bias=False))
                nn.init.constant_(getattr(self, f"layer{i}").weight, 0.5)
            self.n = 2

        def forward(self, x):
            for i in range(self.n):
                x = getattr(self, f"layer{i}")(x)
            return x

    m, one = Layers(), torch.ones(1)

    def change():
        m.n = 3 - m.n

    return lambda: m(one), change


@plain
def layers_in_a_list():
    layers, one = [nn.Linear(1, 1, bias=False) for _ in range(2)], torch.ones(1)
    for layer in layers:
        nn.init.constant_(layer.weight, 0.5)

    def change():
        with torch.no_grad():
            layers[0].weight.mul_(2)
        layers.append(layers[1])

    return lambda: functools.reduce(lambda x, layer: layer(x), layers, one), change


@plain
def an_added_parameter():
    m = nn.ParameterList([torch.ones(1)])

    def change():
        m.append(torch.ones(1))

    return lambda: sum(p.sum() for p in m.parameters()) + len(list(m.named_parameters())), change


@plain
def a_buffer_of_none():
    m = nn.Module()
    m.register_buffer("b", None)

    def change():
        m.b = torch.ones(1) if m.b is None else None

    return lambda: 1.0 if m.b is None else m.b + 1, change


@plain
def another_dtype():
    m = nn.Linear(1, 1, bias=False)
    nn.init.constant_(m.weight, 0.5)

    def change():
        m.to(torch.float64 if m.weight.dtype == torch.float32 else torch.float32)

    return lambda: m(torch.ones(1, dtype=m.weight.dtype)).float(), change


@plain
def a_parametrization():
    m, one = nn.Linear(1, 1, bias=False), torch.ones(1)
    nn.init.constant_(m.weight, 0.5)

    class Twice(nn.Module):
        def forward(self, w):
            return w * 2

    def change():
        if not nn.utils.parametrize.is_parametrized(m):
            nn.utils.parametrize.register_parametrization(m, "weight", Twice())

    return lambda: m(one), change


@source
def a_distribution():
    held = [torch.distributions.Normal(0.0, 1.0)]

    def change():
        held[0] = torch.distributions.Normal(1.0, held[0].scale.item() + 1)

    return lambda: held[0].log_prob(torch.ones(1)) + held[0].sample(), change


@source
def a_checkpoint():
    held, x = [1.0], torch.ones(1, requires_grad=True)

    def change():
        held[0] += 1

    return lambda: torch.utils.checkpoint.checkpoint(lambda t: torch.sin(t) * held[0], x, use_reentrant=False), change


class Scaled(torch.autograd.Function):
    k = 1.0

    @staticmethod
    def forward(ctx, x):
        ctx.k = Scaled.k
        return x * Scaled.k

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.k


@source
def a_function_with_state():
    x = torch.ones(1, requires_grad=True)
    cleanup.append(lambda: setattr(Scaled, "k", 1.0))

    def change():
        Scaled.k += 1

    return lambda: Scaled.apply(x) + torch.autograd.grad(Scaled.apply(x).sum(), x)[0], change


@source
def a_function_mode():
    class Adds(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result + 1 if isinstance(result, torch.Tensor) else result

    held, one = [None], torch.ones(1)

    def leave():
        if held[0] is not None:
            held[0].__exit__(None, None, None)
            held[0] = None

    def change():
        if held[0] is None:
            held[0] = Adds()
            held[0].__enter__()
        else:
            leave()

    cleanup.append(leave)
    return lambda: torch.sin(one), change


@source
def a_tensor_subclass():
    class Own(torch.Tensor):
        k = 1.0

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return (
                super().__torch_function__(function, types, args, kwargs or {}) * Own.k
                if function is torch.sin
                else super().__torch_function__(function, types, args, kwargs or {})
            )

    t = torch.ones(1).as_subclass(Own)

    def change():
        Own.k += 1

    return lambda: torch.sin(t).as_subclass(torch.Tensor), change


@source
def gradients_inside():
    w, k = torch.ones(1, requires_grad=True), [1.0]

    def change():
        k[0] += 1
        with torch.no_grad():
            w.add_(1)

    return lambda: torch.autograd.grad((w**2 * k[0]).sum(), w)[0], change


@source
def an_optimiser_inside():
    w = nn.Parameter(torch.ones(1))
    o = torch.optim.SGD([w], lr=0.5)

    def read():
        o.zero_grad()
        (w * 2).sum().backward()
        o.step()
        return w.detach().clone()

    def change():
        o.param_groups[0]["lr"] *= 0.5

    return read, change


@source
def a_tensor_hook():
    w, k = torch.ones(1, requires_grad=True), [1.0]
    one = torch.ones(1)

    def change():
        k[0] += 1
        n = k[0]
        w.register_hook(lambda grad: grad * n)

    def read():
        w.grad = None
        (w * 2).sum().backward()
        return w.grad + one

    return read, change


@source
def saved_tensor_hooks():
    w = torch.ones(1, requires_grad=True)
    held, counts = [None], [0]

    def leave():
        if held[0] is not None:
            held[0].__exit__(None, None, None)
            held[0] = None

    def pack(t):
        counts[0] += 1
        return t

    def change():
        if held[0] is None:
            held[0] = torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t)
            held[0].__enter__()
        else:
            leave()

    cleanup.append(leave)
    return lambda: torch.exp(w) + counts[0], change


@source
def a_default_device():
    def change():
        torch.set_default_device("meta" if torch.get_default_device().type == "cpu" else "cpu")

    cleanup.append(lambda: torch.set_default_device("cpu"))
    return lambda: 2.0 if torch.empty(1).device.type == "cpu" else 3.0, change


@plain
def a_user_dict_of_tensors():
    table = collections.UserDict(w=torch.ones(1))

    def change():
        table["w"] = table["w"] + 1

    return lambda: table["w"] * 2, change


@plain
def a_partial_set_anew():
    f = functools.partial(lambda k: k, 1.0)

    def change():
        f.__setstate__((f.func, (f.args[0] + 1,), {}, {}))

    return lambda: f(), change


@plain
def an_object_in_a_class_of_the_package():
    nn.Module.test_box = Box()
    cleanup.append(lambda: delattr(nn.Module, "test_box"))
    m = nn.Identity()

    def change():
        m.test_box.k += 1

    return lambda: m.test_box.k, change


@plain
def a_property_in_a_class_of_the_package():
    box, one = Box(), torch.ones(1)
    torch.Tensor.test_value = property(lambda self: box.k)
    cleanup.append(
        lambda: "test_value" in vars(torch.Tensor) and delattr(torch.Tensor, "test_value")
    )  # a program may have it twice

    def change():
        box.k += 1

    return lambda: one.test_value, change


@plain
def another_metaclass():
    class First(type):
        k = 1.0

    class Second(First):
        k = 2.0

    class Holder(metaclass=First):
        pass

    def change():
        Holder.__class__ = Second if type(Holder) is First else First

    return lambda: Holder.k + (type(Holder) is First), change


@source
def a_hook_of_all_optimisers():
    w, handles = nn.Parameter(torch.ones(1)), []
    o = torch.optim.SGD([w], lr=0.5)

    def read():
        o.zero_grad()
        (w * 2).sum().backward()
        o.step()
        return w.detach().clone()

    def after(*unused):
        w.data.add_(5)

    def change():
        if handles:
            handles.pop().remove()
        else:
            handles.append(torch.optim.optimizer.register_optimizer_step_post_hook(after))

    cleanup.append(lambda: [handle.remove() for handle in handles])
    return read, change


@source
def cached_parametrizations():
    class Twice(nn.Module):
        def forward(self, w):
            return w * 2

    m, one, held = nn.Linear(1, 1, bias=False), torch.ones(1), []
    nn.init.constant_(m.weight, 0.5)
    nn.utils.parametrize.register_parametrization(m, "weight", Twice())

    def change():
        with torch.no_grad():
            m.parametrizations.weight.original.add_(1)
        if held:
            held.pop().__exit__(None, None, None)
        else:
            held.append(nn.utils.parametrize.cached())
            held[-1].__enter__()

    cleanup.append(lambda: held and held.pop().__exit__(None, None, None))
    return lambda: m(one), change
