"""__torch_function__: which function a call is said to be of, and in which order its operands come."""
import pytest

import taper as torch


class Logged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func.__name__, [type(a).__name__ for a in args]))
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("expression, name, kinds", [
    ("x + 1", "add", ["Logged", "int"]), ("1 + x", "add", ["Logged", "int"]), ("x - 1", "sub", ["Logged", "int"]), ("1 - x", "__rsub__", ["Logged", "int"]),
    ("x / 2", "div", ["Logged", "int"]), ("x % 2", "remainder", ["Logged", "int"]), ("x ** 2", "pow", ["Logged", "int"]), ("2 ** x", "__rpow__", ["Logged", "int"]),
    ("x @ x", "matmul", ["Logged", "Logged"]), ("x < x", "lt", ["Logged", "Logged"]), ("x == x", "__eq__", ["Logged", "Logged"]),
    ("torch.ones(2, 2) + x", "add", ["Tensor", "Logged"]), ("x[0]", "__getitem__", ["Logged", "int"]),
])
def test_operators_are_named_as_pytorch_names_them(expression, name, kinds):
    x = torch.full((2, 2), 3.0).as_subclass(Logged)
    Logged.calls.clear()
    result = eval(expression, {"x": x, "torch": torch})
    assert Logged.calls[0] == (name, kinds) and type(result) is Logged
    plain = eval(expression, {"x": torch.full((2, 2), 3.0), "torch": torch})
    assert torch.equal(result.as_subclass(torch.Tensor), plain)


def test_the_function_is_the_tensors_method():
    seen = []

    class Table(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return 7

    assert torch.ones(2).as_subclass(Table) + 1 == 7 and seen == [torch.Tensor.add]
