"""__torch_function__: which function a call is said to be of, and in which order its operands come."""

import pytest

import taper as torch


class Logged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func.__name__, [type(a).__name__ for a in args]))
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize(
    "expression, name, kinds",
    [
        ("x + 1", "add", ["Logged", "int"]),
        ("1 + x", "add", ["Logged", "int"]),
        ("x - 1", "sub", ["Logged", "int"]),
        ("1 - x", "__rsub__", ["Logged", "int"]),
        ("x / 2", "div", ["Logged", "int"]),
        ("x % 2", "remainder", ["Logged", "int"]),
        ("x ** 2", "pow", ["Logged", "int"]),
        ("2 ** x", "__rpow__", ["Logged", "int"]),
        ("x @ x", "matmul", ["Logged", "Logged"]),
        ("x < x", "lt", ["Logged", "Logged"]),
        ("x == x", "__eq__", ["Logged", "Logged"]),
        ("torch.ones(2, 2) + x", "add", ["Tensor", "Logged"]),
        ("x[0]", "__getitem__", ["Logged", "int"]),
    ],
)
def test_operators_are_named_as_pytorch_names_them(expression, name, kinds):
    x = torch.full((2, 2), 3.0).as_subclass(Logged)
    Logged.calls.clear()
    result = eval(expression, {"x": x, "torch": torch})
    assert Logged.calls[0] == (name, kinds)
    assert type(result) is Logged
    plain = eval(expression, {"x": torch.full((2, 2), 3.0), "torch": torch})
    assert torch.equal(result.as_subclass(torch.Tensor), plain)


def test_the_function_is_the_tensors_method():
    seen = []

    class Table(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return 7

    assert torch.ones(2).as_subclass(Table) + 1 == 7
    assert seen == [torch.Tensor.add]


# ---- Modes ----
class Noting(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_sees_factories_functions_methods_and_signs():
    with Noting() as mode:
        a = torch.ones(2) + 1
        a.sum()
        torch.mm(torch.eye(2), torch.eye(2))
    torch.ones(1) + 1
    assert mode.seen == ["ones", "add", "sum", "eye", "eye", "mm"]  # as PyTorch names them


def test_modes_inside_modes_and_what_they_change():
    class Wide(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if func is torch.zeros:
                kwargs["dtype"] = torch.float64
            return func(*args, **kwargs)

    with Noting() as outer, Wide():
        assert torch.zeros(2).dtype == torch.float64
    assert outer.seen == ["zeros"]
    assert torch.zeros(2).dtype == torch.float32


def test_a_mode_that_fails_or_declines_is_left_whole():
    class Failing(torch.overrides.TorchFunctionMode):
        answer = None

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if self.answer is NotImplemented:
                return NotImplemented
            raise ValueError("no")

    with Failing() as mode:
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                torch.ones(1)
        mode.answer = NotImplemented
        with pytest.raises(TypeError, match="no implementation found"):
            torch.ones(1)
    assert torch.ones(1).item() == 1


def test_modes_belong_to_their_thread():
    import threading

    with Noting() as mode:
        thread = threading.Thread(target=lambda: torch.ones(2).sum())
        thread.start()
        thread.join()
    assert mode.seen == []


def test_detach_asks_and_keeps_the_type():
    class Marked(torch.Tensor):
        pass

    class Logged(torch.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__name__)
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    assert type(torch.ones(2).as_subclass(Marked).detach()) is Marked
    assert type(torch.ones(2).as_subclass(Logged).detach()) is torch.Tensor
    assert Logged.seen == ["detach"]


def test_which_functions_may_be_overridden():
    seen, ignored, testing = (
        torch.overrides.get_overridable_functions(),
        torch.overrides.get_ignored_functions(),
        torch.overrides.get_testing_overrides(),
    )
    assert torch.add in seen[torch]
    assert torch.nn.functional.linear in seen[torch.nn.functional]
    assert torch.Tensor.add in seen[torch.Tensor]
    assert torch.zeros in ignored
    assert torch.tensor in ignored
    assert torch.add not in ignored
    assert testing[torch.add](1, 2) == -1
    assert torch.zeros not in testing
    assert torch.DisableTorchFunctionSubclass is torch._C.DisableTorchFunctionSubclass
