"""Kernels that take other ways by layout and size, beside the CPU: on an OpenCL device (PoCL where there is no GPU)."""

import os

os.environ.setdefault("TAPER_XPU_DEVICES", "all")
import pytest
import taper as torch
import taper.nn.functional as F

if not torch.xpu.is_available():
    pytest.skip("no OpenCL device here", allow_module_level=True)


def compared(function, *inputs, tolerance=1e-5):
    """Results and gradients on both devices."""
    results = []
    for device in ("cpu", "xpu"):
        leaves = [x.to(device).detach() for x in inputs]
        for x in leaves:
            x.requires_grad_(x.is_floating_point())
        out = function(*leaves)
        torch.manual_seed(1)
        out.backward(torch.randn(out.shape).to(device))
        results.append([out, *(x.grad for x in leaves if x.requires_grad)])
    for a, b in zip(*results):
        assert a.shape == b.shape
        assert torch.allclose(a.detach(), b.detach().cpu(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("channels", [3, 8])  # one at a time, and as many as 16 bytes hold
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
    ],
)
def test_pools_of_channels_last(pool, channels):
    torch.manual_seed(0)
    compared(pool, torch.randn(2, channels, 9, 7).contiguous(memory_format=torch.channels_last))


@pytest.mark.parametrize("shapes", [((5, 3), (5, 3), -1), ((2, 3, 4), (2, 3, 1), 1), ((3, 4), (3, 4), 0)])
def test_cross(shapes):
    torch.manual_seed(0)
    first, second, dim = shapes
    compared(lambda a, b: torch.linalg.cross(a, b, dim=dim), torch.randn(first), torch.randn(second))
    compared(
        lambda a, b: torch.linalg.cross(a, b, dim=dim),
        torch.randn(first[::-1]).permute(*range(len(first))[::-1]),
        torch.randn(second),
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
def test_bags(mode, padding):
    torch.manual_seed(0)
    numbers, offsets = torch.randint(0, 10, (20,)), torch.tensor([0, 3, 3, 9])

    def bags(weight):
        device = weight.device
        return F.embedding_bag(numbers.to(device), weight, offsets.to(device), mode=mode, padding_idx=padding)

    compared(bags, torch.randn(10, 6))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
@pytest.mark.parametrize("case", [((4, 300), 1), ((5, 7), 0), ((3, 1), 1)])
def test_mode(dtype, case):
    torch.manual_seed(0)
    shape, dim = case
    x = torch.randint(0, 5, shape).to(dtype)
    if dtype == torch.float32:
        x.view(-1)[::3] = float("nan")
    ours, theirs = torch.mode(x.to("xpu"), dim), torch.mode(x, dim)
    assert torch.equal(ours[1].cpu(), theirs[1])
    assert torch.equal(
        ours[0].cpu().nan_to_num(7) if dtype == torch.float32 else ours[0].cpu(),
        theirs[0].nan_to_num(7) if dtype == torch.float32 else theirs[0],
    )


@pytest.mark.parametrize("rows", [1, 33])
def test_the_backward_of_layer_norm(rows):
    torch.manual_seed(0)
    compared(
        lambda x, w, b: F.layer_norm(x, (96,), w, b),
        torch.randn(rows, 96),
        torch.randn(96),
        torch.randn(96),
        tolerance=1e-4,
    )
