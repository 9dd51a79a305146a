"""Kernels of their own beside what they mean, written with plain operators."""

import pytest

import taper as torch
import taper.nn.functional as F


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_grid_sample_in_floats(padding, align):
    """Two dims, float32 and bilinear has a kernel of its own; float64 takes the general way."""
    torch.manual_seed(0)
    for shape, out in (((2, 3, 7, 9), (5, 131)), ((1, 1, 1, 1), (4, 4)), ((3, 2, 16, 1), (2, 2))):
        x, grid = torch.randn(*shape), torch.rand(shape[0], *out, 2) * 3 - 1.5
        grid[0, 0, 0], grid[0, 0, 1], grid[0, 1, 1] = (
            torch.tensor([1.0, -1.0]),
            torch.tensor([1e30, 0.0]),
            torch.tensor([0.0, -1e30]),
        )
        got = F.grid_sample(x, grid, padding_mode=padding, align_corners=align)
        want = F.grid_sample(x.double(), grid.double(), padding_mode=padding, align_corners=align)
        assert torch.allclose(got.double(), want, atol=1e-5)


def test_what_is_outside_of_a_grid_counts_as_nothing():
    x = torch.full((1, 1, 2, 2), float("inf"))
    grid = torch.tensor([[[[5.0, 5.0], [-5.0, 0.0], [0.0, 1e30]]]])
    assert F.grid_sample(x, grid, align_corners=False).flatten().tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_rows(dtype, mode):
    torch.manual_seed(0)
    for width in (1, 5, 64, 100):
        table = torch.randn(30, width, dtype=dtype, requires_grad=True)
        index, offsets = torch.randint(0, 30, (50,)), torch.tensor([0, 0, 7, 8, 30, 50])
        for padding in (None, 3):
            got = F.embedding_bag(index, table, offsets, mode=mode, padding_idx=padding)
            bags = []
            for first, last in zip(offsets.tolist(), offsets.tolist()[1:] + [50]):
                rows = [table[i] for i in index[first:last].tolist() if i != padding]
                total = torch.stack(rows).sum(0) if rows else torch.zeros(width, dtype=dtype)
                bags.append(total / max(len(rows), 1) if mode == "mean" else total)
            tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
            assert torch.allclose(got, torch.stack(bags), atol=tolerance)
            weight = torch.randn_like(got)
            (a,) = torch.autograd.grad((got * weight).sum(), table)
            (b,) = torch.autograd.grad((torch.stack(bags) * weight).sum(), table)
            assert torch.allclose(a, b, atol=tolerance)
    with pytest.raises(RuntimeError, match="idx < num_embeddings"):
        F.embedding_bag(torch.tensor([1, 30]), table, torch.tensor([0]))


def test_no_bags_at_all():
    table = torch.randn(5, 4, requires_grad=True)
    for offsets, last in ((torch.tensor([], dtype=torch.int64), False), (torch.tensor([0]), True)):
        out = F.embedding_bag(torch.tensor([1, 2]), table, offsets, include_last_offset=last, mode="sum")
        assert out.shape == (0, 4)
        assert torch.equal(torch.autograd.grad(out.sum(), table)[0], torch.zeros(5, 4))


def test_bags_twice_differentiated():
    table = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    index, offsets = torch.tensor([0, 5, 5, 2, 1]), torch.tensor([0, 3])
    assert torch.autograd.gradgradcheck(lambda t: F.embedding_bag(index, t, offsets, mode="sum") ** 2, (table,))


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_distances_of_pairs(p):
    torch.manual_seed(0)
    for shape in ((2, 3), (9, 4), (40, 33), (1, 2), (0, 2)):
        x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        i, j = torch.triu_indices(shape[0], shape[0], 1)
        got, want = torch.pdist(x, p), torch.cdist(x, x, p)[i, j]
        assert torch.allclose(got, want)
        weight = torch.randn_like(got)
        assert torch.allclose(
            torch.autograd.grad((got * weight).sum(), x)[0], torch.autograd.grad((want * weight).sum(), x)[0]
        )
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.pdist(torch.randn(3, 2), -1.0)


@pytest.mark.parametrize("queries,keys", [(64, 64), (33, 33), (256, 256), (300, 300), (40, 90), (90, 40), (600, 600)])
def test_causal_attention(queries, keys):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True) for n in (queries, keys, keys))
    got = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    scores = (q @ k.transpose(1, 2) / 8**0.5).masked_fill(
        torch.ones(queries, keys, dtype=torch.bool).triu(1), float("-inf")
    )
    want, weight = scores.softmax(-1) @ v, torch.randn(2, queries, 8, dtype=torch.float64)
    assert torch.allclose(got, want)
    for a, b in zip(
        torch.autograd.grad((got * weight).sum(), (q, k, v)), torch.autograd.grad((want * weight).sum(), (q, k, v))
    ):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("m,n,k", [(512, 128, 768), (129, 511, 700), (97, 1030, 257), (300, 300, 65), (384, 64, 1024)])
def test_products_of_turned_matrices(m, n, k):
    """Tiles beside each other share an a that was turned around."""
    torch.manual_seed(0)
    a, b = torch.randn(k, m), torch.randn(k, n)
    assert torch.allclose((a.t() @ b).double(), a.double().t() @ b.double(), atol=1e-3)
    assert torch.allclose((a.t() @ b.t().contiguous().t()).double(), a.double().t() @ b.double(), atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8])
def test_the_kth_smallest(dtype):
    """The values of a sort, NaN included, and where one of them stands (test_pytorch_choices.py: which of equal ones)."""
    torch.manual_seed(0)
    for n in (1, 2, 7, 300, 70001):
        x = (torch.randn(3, n) * 20).round().to(dtype)
        if dtype.is_floating_point and n > 2:
            x[1, n // 2] = float("nan")
            x[2, 0], x[2, 1] = float("inf"), -0.0
        values = x.sort(dim=1).values
        for k in {1, (n + 1) // 2, n}:
            got = x.kthvalue(k, dim=1)
            assert torch.equal(got.values.nan_to_num(9), values[:, k - 1].nan_to_num(9))
            assert torch.equal(x.gather(1, got.indices[:, None])[:, 0].nan_to_num(9), got.values.nan_to_num(9))
        median = x[[0, 2]].median(dim=1)
        assert torch.equal(median.values, values[[0, 2], (n - 1) // 2])
        assert torch.equal(x[0].median(), values[0, (n - 1) // 2])
        if dtype.is_floating_point and n > 2:
            assert x.median(dim=1).indices[1] == n // 2
            assert x[1].median().isnan()
            assert x[1].nanmedian() == values[1, (n - 2) // 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("align", [False, True])
def test_places_that_are_no_numbers(dtype, align):
    """A grid's NaN or infinity gives NaN where its weights do, and the border where padding brings it inside."""
    nan, inf = float("nan"), float("inf")
    image = torch.arange(1.0, 17).to(dtype).reshape(1, 1, 4, 4)
    grid = torch.tensor([[nan, 0], [0, nan], [inf, 0], [-inf, 0], [3, nan], [1e10, 0]], dtype=dtype).reshape(
        1, 1, -1, 2
    )

    def at(mode, padding):
        return F.grid_sample(image, grid, mode, padding, align).flatten()

    assert at("bilinear", "zeros").isnan().tolist() == [True] * 5 + [False]
    assert at("bilinear", "border").tolist() == [7, 2.5, 10, 7, 4, 10]
    assert at("bilinear", "reflection")[:5].tolist() == [7, 2.5, 7, 7, 1]
    assert at("nearest", "zeros").tolist() == [0] * 6
    assert at("nearest", "border").tolist() == [9, 3, 12, 9, 4, 12]
    for padding in ("zeros", "border", "reflection"):
        assert at("bicubic", padding).isnan().tolist() == [True] * 5 + [False]
    places, whole = grid[:, :, :2].clone().requires_grad_(), image.clone().requires_grad_()
    F.grid_sample(whole, places, align_corners=align).sum().backward()
    assert places.grad.flatten().isnan().tolist() == [False, True, True, False]
    assert not whole.grad.any()


@pytest.mark.parametrize("dtype, most", [(torch.float16, 65504.0), (torch.bfloat16, 3.3895313892515355e38)])
def test_next_numbers_of_narrow_dtypes(dtype, most):
    inf, eps, least = float("inf"), torch.finfo(dtype).eps, 2.0 ** (-24 if dtype == torch.float16 else -133)
    cases = [
        (0, 1, least),
        (0, -1, -least),
        (least, 0, 0),
        (1, 2, 1 + eps),
        (1, 0, 1 - eps / 2),
        (-1, -2, -1 - eps),
        (100, 200, 100 + 64 * eps),
        (inf, 0, most),
        (-inf, 0, -most),
        (most, inf, inf),
        (2, 2, 2),
    ]
    x, y, result = (torch.tensor(column, dtype=dtype) for column in zip(*cases))
    assert torch.nextafter(x, y).tolist() == result.tolist()
    assert torch.nextafter(x, torch.full_like(x, float("nan"))).isnan().all()


def gradient(f, *values, dtype=torch.float32):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    return torch.autograd.grad(f(x).sum(), x)[0].tolist()


def test_gradients_at_the_ends():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert gradient(F.mish, 11.0, 20.0, 30.0, 100.0, 1000.0, dtype=dtype) == pytest.approx([1.0] * 5)
    assert gradient(F.mish, 8.0, dtype=torch.float16) == [1.0]
    assert gradient(torch.sinc, 0.0, 1e-30, -1e-30) == [0.0] * 3
    near = [-1e-15, -1e-17, -1e-20]
    assert torch.digamma(torch.tensor(near, dtype=torch.float64)).tolist() == pytest.approx(
        [1e15, 1e17, 1e20], rel=1e-14
    )
    assert gradient(torch.lgamma, *near, dtype=torch.float64) == pytest.approx([1e15, 1e17, 1e20], rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_clamped_zeros_keep_their_signs(dtype):
    zeros = torch.tensor([-0.0, 0.0] * 20, dtype=dtype)
    low, high = torch.zeros((), dtype=dtype), torch.full((40,), -0.0, dtype=dtype)
    for held in (
        zeros.clamp(0, 2),
        zeros.clamp(-2, -0.0),
        zeros.clamp(min=0),
        zeros.clamp(max=-0.0),
        zeros.clamp(low, low),
        zeros.clamp(min=low),
        zeros.clamp(max=high),
        F.hardtanh(zeros, 0, 2),
        F.relu6(zeros),
    ):
        assert held.signbit().tolist() == zeros.signbit().tolist()
