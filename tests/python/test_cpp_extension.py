"""C++ extensions: built by torch.utils.cpp_extension against Taper's headers, called with tensors, reached as
torch.ops."""

from pathlib import Path

import pytest
import taper as torch
from taper.utils import cpp_extension

SOURCE = Path(__file__).parent / "extensions" / "functions.cpp"


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extension")
    return cpp_extension.load(
        "cpp_extension_test", [str(SOURCE)], build_directory=str(folder), extra_cflags=["-Wall", "-Werror"]
    )


def test_tensors_travel_both_ways(extension):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16)
    assert torch.equal(extension.squares(x), torch.tensor([1.0, 4.0, 9.0], dtype=torch.float16))
    total, count = extension.folded([torch.ones(2, 3), torch.ones(2, 3)], None, [0], 0.5)
    assert count == 6
    assert total.tolist() == [2.0, 2.0, 2.0]
    assert extension.folded([torch.ones(2)], torch.ones(2), [0], 1.0)[0].item() == 4.0


def test_errors_are_pythons(extension):
    with pytest.raises(RuntimeError, match="squares: expected one dim, got 2"):
        extension.squares(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        extension.squares(torch.arange(3))
    with pytest.raises(IndexError):
        extension.element(torch.ones(2), 7)
    with pytest.raises(TypeError):
        extension.squares(3)


def test_operators_are_under_torch_ops(extension):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    torch.ops.cpp_extension_test.cube(x).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
    assert torch.ops.cpp_extension_test.plus(torch.ones(1), 2, None).item() == 3.0
    assert torch.ops.cpp_extension_test.plus(torch.ones(1), 2, 0.5).item() == 3.5
    assert torch.ops.cpp_extension_test.squares(torch.tensor([3.0])).item() == 9.0


def test_dicts_and_tuples_travel_both_ways(extension):
    ops = torch.ops.cpp_extension_test
    scaled = ops.scaled({"a": torch.ones(1), "b": torch.ones(2)}, [("b", 2.0), ("a", 3.0)])
    assert {key: t.tolist() for key, t in scaled.items()} == {"b": [2.0, 2.0], "a": [3.0]}
    shape, filled = ops.shape([1, 2], {1: True})
    assert list(shape) == [1, 2]
    assert filled.tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match="Key 'c' is not defined"):
        ops.scaled({"a": torch.ones(1)}, [("c", 1.0)])
    with pytest.raises(Exception, match="list of 2 items, got 3"):
        ops.shape([1, 2, 3], {})


def test_cuda_sources_are_refused(tmp_path):
    with pytest.raises(NotImplementedError, match="for the CPU"):
        cpp_extension.load("none", [str(tmp_path / "kernel.cu")])
