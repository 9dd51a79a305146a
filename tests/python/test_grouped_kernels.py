"""Kernels that take several planes, rows or lines at a time give what they give for each one alone."""

import itertools
import math

import pytest
import taper


def same(a, b):
    assert a.shape == b.shape
    assert taper.equal(a.isnan(), b.isnan())
    assert taper.equal(a.nan_to_num(), b.nan_to_num())


def image(*shape, dtype=taper.float32):
    x = taper.randn(*shape, generator=taper.Generator().manual_seed(7)).to(dtype)
    x.view(-1)[::13] = 0.5  # equal elements: the first of them has its place in the indices
    x.view(-1)[4] = math.nan
    return x


@pytest.mark.parametrize("dtype", [taper.float32, taper.float64, taper.bfloat16])
@pytest.mark.parametrize("size", [(8, 8), (5, 7), (4, 3), (20, 40)])
@pytest.mark.parametrize("window", [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (5, 1, 2, 1)])
def test_max_pools_of_many_planes(dtype, size, window):
    kernel, stride, padding, dilation = window
    x = image(3, 7, *size, dtype=dtype)  # 21 planes: two groups of eight, and some alone
    pool = taper.nn.MaxPool2d(kernel, stride, padding, dilation, return_indices=True)
    values, places = pool(x)
    for n, c in itertools.product(range(3), range(7)):
        alone = pool(x[n : n + 1, c : c + 1].clone())
        same(values[n : n + 1, c : c + 1], alone[0])
        assert taper.equal(places[n : n + 1, c : c + 1], alone[1])


@pytest.mark.parametrize("output", [(7, 7), (4, 2), (3, 5), (1, 1)])
@pytest.mark.parametrize("size", [(8, 8), (12, 10), (9, 33), (5, 4), (9, 10)])
def test_adaptive_pools_window_by_window(output, size):
    x = image(2, 5, *size).double().nan_to_num(0.25)
    mean = taper.nn.functional.adaptive_avg_pool2d(x, output)
    most = taper.nn.functional.adaptive_max_pool2d(x, output)
    for i, j in itertools.product(range(output[0]), range(output[1])):
        rows = slice(i * size[0] // output[0], -(-(i + 1) * size[0] // output[0]))
        columns = slice(j * size[1] // output[1], -(-(j + 1) * size[1] // output[1]))
        window = x[..., rows, columns]
        assert taper.allclose(mean[..., i, j], window.mean((-2, -1)), rtol=1e-12)
        same(most[..., i, j], window.amax((-2, -1)))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("window", [(2, 2, 0), (3, 2, 1), (5, 1, 2), (4, 3, 1)])
def test_average_pools_window_by_window(window, include):
    kernel, stride, padding = window
    x = image(2, 3, 9, 20).double().nan_to_num(0.25)
    got = taper.nn.functional.avg_pool2d(x, kernel, stride, padding, count_include_pad=include)
    for i, j in itertools.product(range(got.shape[-2]), range(got.shape[-1])):
        top, left = i * stride - padding, j * stride - padding
        inside = x[..., max(top, 0) : top + kernel, max(left, 0) : left + kernel]
        count = kernel * kernel if include else inside.shape[-1] * inside.shape[-2]
        assert taper.allclose(got[..., i, j], inside.sum((-2, -1)) / count, rtol=1e-12)


@pytest.mark.parametrize("dtype", [taper.float32, taper.float64])
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, math.inf])
@pytest.mark.parametrize("rows", [(4, 64), (7, 70), (2, 3), (9, 200)])
def test_distances_of_several_rows(dtype, p, rows):
    x, y = image(rows[0], 20, dtype=dtype), image(rows[1], 20, dtype=dtype).flip(0)
    all_of_them = taper.cdist(x, y, p)
    for i in range(rows[0] - 1):
        same(all_of_them[i : i + 2], taper.cdist(x[i : i + 2], y, p))


@pytest.mark.parametrize("length", [30, 128, 500, 1024, 4096, 8192])
@pytest.mark.parametrize("transform", ["fft", "ifft", "rfft", "irfft"])
def test_transforms_of_several_lines(length, transform):
    x = image(19, length).nan_to_num(0.25)
    x = x if transform == "rfft" else taper.complex(x, x.flip(0))
    run = getattr(taper.fft, transform)
    both = run(x)
    for i in (0, 7, 18):
        alone = run(x[i : i + 1])
        assert taper.allclose(both[i : i + 1], alone, rtol=1e-4, atol=1e-4 * float(alone.abs().max()))


@pytest.mark.parametrize("dtype", [taper.int64, taper.int32, taper.uint8, taper.int8, taper.bool])
@pytest.mark.parametrize("spread", [3, 1000, 10**12])
def test_unique_by_counts_and_by_order(dtype, spread):
    x = taper.randint(-spread, spread, (50, 40), generator=taper.Generator().manual_seed(3)).to(dtype)
    values, inverse, counts = taper.unique(x, return_inverse=True, return_counts=True)
    assert values.tolist() == sorted(set(x.view(-1).tolist()))
    assert taper.equal(values[inverse], x)
    assert int(counts.sum()) == x.numel()
    assert taper.equal(values, taper.unique(x))


def test_kron_of_wide_and_narrow_rows():
    for a, b in [((4, 5), (6, 3)), ((4, 2), (5, 300)), ((1, 5), (6, 3)), ((5,), (4, 3)), ((4, 3, 2), (6, 2))]:
        x, y = image(*a).double().nan_to_num(2.0), image(*b).double().nan_to_num(2.0)
        got = taper.kron(x, y)
        x, y = (v.view((1,) * (max(len(a), len(b)) - v.ndim) + v.shape) for v in (x, y))
        for place in itertools.product(*(range(n) for n in x.shape)):
            block = got[tuple(slice(i * n, (i + 1) * n) for i, n in zip(place, y.shape, strict=True))]
            assert taper.equal(block, x[place] * y)


def all_paths(log_probs, target):
    """The probability of a target as the sum over every path of labels, by the definition."""
    total = 0.0
    for path in itertools.product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        merged = [label for label, _ in itertools.groupby(path) if label]
        if merged == target:
            total += math.exp(sum(float(log_probs[t, label]) for t, label in enumerate(path)))
    return -math.log(total) if total else math.inf


@pytest.mark.parametrize("target", [[1], [1, 1], [1, 2], [2, 1, 2], [1, 1, 1]])
def test_ctc_by_every_path(target):
    scores = taper.randn(5, 1, 3, generator=taper.Generator().manual_seed(1), dtype=taper.float64)
    log_probs = scores.log_softmax(2).requires_grad_()
    loss = taper.nn.functional.ctc_loss(
        log_probs, taper.tensor([target]), taper.tensor([5]), taper.tensor([len(target)]), reduction="sum"
    )
    assert math.isclose(float(loss.detach()), all_paths(log_probs[:, 0].detach(), target), rel_tol=1e-12)
    assert taper.autograd.gradcheck(
        lambda s: taper.nn.functional.ctc_loss(
            s.log_softmax(2), taper.tensor([target]), taper.tensor([5]), taper.tensor([len(target)]), reduction="sum"
        ),
        (scores.requires_grad_(),),
    )
