"""Sparse products, coalescing and conversions against dense tensors: every dtype, both kinds of index, empty matrices,
duplicates, gradients twice over, and the same bits on any number of threads."""

import pytest
import taper as torch

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.complex64]


def numbers(*shape, dtype=torch.float64, seed=0):
    """Small whole numbers: products and sums of a few are exact in every dtype."""
    made = torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed))
    return made.to(dtype) * (1 + 1j) if dtype.is_complex else made.to(dtype)


def scattered(rows, columns, stored, dtype=torch.float64, seed=0):
    """A COO matrix with duplicates, in no order, and the same dense."""
    at = torch.stack([numbers(stored, seed=seed).abs() * 7 % rows, numbers(stored, seed=seed + 1).abs() * 5 % columns])
    at = at.to(torch.int64) if rows and columns else at.to(torch.int64)[:, :0]
    values = numbers(at.shape[1], dtype=dtype, seed=seed + 2)
    dense = torch.zeros(rows, columns, dtype=dtype)
    for i, j, v in zip(*at.tolist(), values):
        dense[i, j] += v
    return torch.sparse_coo_tensor(at, values, (rows, columns)), dense


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 3, 16, 75])
def test_products_with_dense_matrices(layout, dtype, width):
    sparse, whole = scattered(9, 6, 20, dtype)
    right = numbers(6, width, dtype=dtype, seed=5)
    expected = (whole.to(torch.complex128) @ right.to(torch.complex128)).to(torch.complex128)
    made = sparse.to_sparse(layout=layout) @ right
    assert made.dtype == dtype
    assert torch.equal(made.to(torch.complex128), expected)
    assert torch.equal((right.t() @ sparse.t().to_sparse(layout=layout)).to(torch.complex128), expected.t())
    if layout is torch.sparse_coo:
        assert torch.equal((sparse.coalesce() @ right).to(torch.complex128), expected)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_both_kinds_of_index(index):
    first, columns = torch.tensor([0, 2, 2, 3], dtype=index), torch.tensor([0, 2, 1], dtype=index)
    sparse = torch.sparse_csr_tensor(first, columns, torch.tensor([1.0, 2.0, 3.0]), (3, 3))
    whole = torch.tensor([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
    right = numbers(3, 4, dtype=torch.float32)
    assert torch.equal(sparse @ right, whole @ right)
    assert torch.equal((sparse @ sparse).to_dense(), whole @ whole)
    turned = sparse.to_sparse_csc()
    assert turned.ccol_indices().dtype == index
    assert turned.ccol_indices().tolist() == [0, 1, 2, 3]
    assert turned.row_indices().tolist() == [0, 2, 0]
    assert turned.values().tolist() == [1, 3, 2]


@pytest.mark.parametrize("rows, columns, stored", [(0, 4, 0), (4, 0, 0), (3, 5, 0), (1, 1, 3)])
def test_empty_and_small(rows, columns, stored):
    sparse, whole = scattered(rows, columns, stored)
    right = numbers(columns, 2)
    for layout in LAYOUTS:
        made = sparse.to_sparse(layout=layout)
        assert torch.equal(made @ right, whole @ right)
        assert torch.equal(made.to_dense(), whole)
        assert torch.equal((made @ made.t().to_sparse(layout=layout)).to_dense(), whole @ whole.t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.complex128])
def test_products_of_two_sparse_matrices(dtype):
    (a, dense_a), (b, dense_b) = scattered(9, 6, 20, dtype), scattered(6, 70, 40, dtype, seed=7)
    for layout in LAYOUTS:
        made = a.to_sparse(layout=layout) @ b.to_sparse(layout=layout)
        assert made.layout is layout
        assert torch.equal(made.to_dense(), dense_a @ dense_b)
    columns = (a.to_sparse_csr() @ b.to_sparse_csr()).to_sparse().indices()
    assert (columns[0] * 70 + columns[1]).diff().min() > 0  # in order, each once


@pytest.mark.parametrize("dense", [(), (3,), (2, 2)])
def test_coalescing_adds_up_in_order(dense):
    at = torch.tensor([[2, 0, 2, 0, 1, 2], [1, 3, 1, 0, 1, 1]])
    values = torch.arange(6 * torch.Size(dense).numel(), dtype=torch.float64).view(6, *dense)
    made = torch.sparse_coo_tensor(at, values, (3, 4, *dense)).coalesce()
    assert made.indices().tolist() == [[0, 0, 1, 2], [0, 3, 1, 1]]
    assert torch.equal(made.values(), torch.stack([values[3], values[1], values[4], values[0] + values[2] + values[5]]))


def test_coalescing_bools_and_many_places():
    made = torch.sparse_coo_tensor([[0] * 256], [True] * 256, (1,)).coalesce()
    assert made.values().tolist() == [True]
    far = torch.sparse_coo_tensor([[2**40, 0, 2**40]], [1.0, 2.0, 3.0], (2**41,)).coalesce()
    assert far.indices().tolist() == [[0, 2**40]]
    assert far.values().tolist() == [2, 4]
    with pytest.raises(IndexError, match="out of range"):
        torch.sparse_coo_tensor([[5, 1]], [1.0, 2.0], (3,), check_invariants=False).coalesce()


def check_gradients(function, *inputs):
    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_gradients():
    at = torch.tensor([[0, 2, 0, 1, 2, 2], [1, 0, 1, 2, 3, 0]])
    values = torch.randn(6, dtype=torch.float64, requires_grad=True)
    right = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)

    def matrix(values, layout=None):
        made = torch.sparse_coo_tensor(at, values, (3, 4))
        return made if layout is None else made.to_sparse(layout=layout)

    check_gradients(lambda v, r: matrix(v) @ r, values, right)
    check_gradients(lambda v, r: matrix(v).coalesce() @ r, values, right)
    check_gradients(lambda v, r: matrix(v, torch.sparse_csr) @ r, values, right)
    check_gradients(lambda v: (matrix(v, torch.sparse_csr) @ matrix(v, torch.sparse_csr).t()).to_dense(), values)
    check_gradients(lambda v: (matrix(v) @ matrix(v).t()).to_dense(), values)
    for reduce in ("mean", "amax", "amin"):
        assert torch.autograd.gradcheck(
            lambda v, r, reduce=reduce: torch.sparse.mm(matrix(v, torch.sparse_csr), r, reduce), (values, right)
        )
    left = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    check_gradients(
        lambda v, a, b: torch.sparse.sampled_addmm(matrix(v, torch.sparse_csr), a, b.t()).to_dense(),
        values,
        left,
        right,
    )


def test_gradients_of_complex_numbers():
    at = torch.tensor([[0, 2, 0], [1, 0, 1]])
    values = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    right = torch.randn(2, 2, dtype=torch.complex128, requires_grad=True)
    check_gradients(lambda v, r: torch.sparse_coo_tensor(at, v, (3, 2)) @ r, values, right)
    check_gradients(
        lambda v: (torch.sparse_coo_tensor(at, v, (3, 2)) @ torch.sparse_coo_tensor(at, v, (3, 2)).t()).to_dense(),
        values,
    )


def test_the_largest_summand_and_nan():
    sparse = torch.tensor([[1.0, 0, 2], [0, 0, 0]]).to_sparse_csr()
    right = torch.tensor([[-1.0, float("nan")], [9, 9], [-3, 4]])
    assert torch.sparse.mm(sparse, right, "amin").tolist()[0][0] == -6
    assert torch.sparse.mm(sparse, right, "amax").isnan().tolist() == [[False, True], [False, False]]
    assert torch.sparse.mm(sparse, right, "amax").tolist()[1] == [0, 0]


def test_the_same_bits_on_any_number_of_threads():
    generator = torch.Generator().manual_seed(3)
    at = torch.randint(0, 700, (2, 30000), generator=generator)
    values = torch.randn(30000, generator=generator)
    right = torch.randn(700, 40, generator=generator)

    def everything():
        sparse = torch.sparse_coo_tensor(at, values, (700, 700)).requires_grad_()
        dense = right.clone().requires_grad_()
        rows = sparse.to_sparse_csr()
        square = rows @ rows
        results = [sparse @ dense, rows @ dense, rows @ dense[:, :1], square.values()]
        sum(r.sum() * (i + 1) for i, r in enumerate(results)).backward()
        return [r.detach() for r in results] + [dense.grad, sparse.grad.to_dense()]

    before = torch.get_num_threads()
    try:
        made = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            made.append(everything())
    finally:
        torch.set_num_threads(before)
    for other in made[1:]:
        assert all(torch.equal(a, b) for a, b in zip(made[0], other))


def test_indices_that_make_no_matrix_are_refused():
    right = torch.ones(3, 2)
    bad = torch.sparse_csr_tensor([0, 1, 2], [0, 7], [1.0, 2.0], (2, 3), check_invariants=False)
    with pytest.raises(IndexError, match="out of range"):
        bad @ right
    falling = torch.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 2.0], (2, 3), check_invariants=False)
    with pytest.raises(RuntimeError, match="rise from 0 to 2"):
        falling @ right


def test_conversions_of_indices():
    rows = torch.tensor([0, 0, 2, 5])
    first = torch._convert_indices_from_coo_to_csr(rows, 6)
    assert first.tolist() == [0, 2, 2, 3, 3, 3, 4]
    assert torch._convert_indices_from_coo_to_csr(rows, 6, out_int32=True).dtype == torch.int32
    columns = torch.tensor([3, 1, 1, 0])
    assert torch._convert_indices_from_csr_to_coo(first, columns).tolist() == [[0, 0, 2, 5], [3, 1, 1, 0]]
    assert torch._convert_indices_from_csr_to_coo(first, columns, transpose=True).tolist() == [
        [3, 1, 1, 0],
        [0, 0, 2, 5],
    ]
    batch = torch._convert_indices_from_csr_to_coo(torch.tensor([[0, 1, 2], [0, 0, 2]]), torch.tensor([[1, 0], [0, 1]]))
    assert batch.tolist() == [[0, 0, 1, 1], [0, 1, 1, 1], [1, 0, 0, 1]]
