"""Sparse tensors: what PyTorch 2.15 printed and computed for the same calls."""

import io

import pytest
import taper as torch

PLACES = [[0, 1, 1, 1], [2, 0, 2, 2]]


@pytest.fixture
def matrix():
    """Not coalesced: the place (1, 2) stands twice."""
    return torch.sparse_coo_tensor(PLACES, torch.tensor([3.0, 4.0, 5.0, 1.0]), (2, 3))


def dense(tensor):
    return tensor.to_dense().tolist()


def test_text_and_parts(matrix):
    assert (
        repr(matrix)
        == """tensor(indices=tensor([[0, 1, 1, 1],
                       [2, 0, 2, 2]]),
       values=tensor([3., 4., 5., 1.]),
       size=(2, 3), nnz=4, layout=torch.sparse_coo)"""
    )
    assert (matrix.layout, matrix.is_sparse, matrix.shape, matrix.dtype, matrix.is_coalesced()) == (
        torch.sparse_coo,
        True,
        (2, 3),
        torch.float32,
        False,
    )
    with pytest.raises(
        RuntimeError, match="Cannot get indices on an uncoalesced tensor, please call .coalesce\\(\\) first"
    ):
        matrix.indices()
    whole = matrix.coalesce()
    assert whole.indices().tolist() == [[0, 1, 1], [2, 0, 2]]
    assert whole.values().tolist() == [3, 4, 6]
    assert whole._nnz() == 3
    assert whole.coalesce() is whole
    assert not whole.t().is_coalesced()
    assert (
        repr((2 * whole).to_sparse_csr().t())
        == """tensor(ccol_indices=tensor([0, 1, 3]),
       row_indices=tensor([2, 0, 2]),
       values=tensor([ 6.,  8., 12.]), size=(3, 2), nnz=3,
       layout=torch.sparse_csc)"""
    )


def test_errors(matrix):
    cases = [
        (lambda: matrix + torch.ones(2, 3), RuntimeError, "add\\(sparse, dense\\) is not supported"),
        (lambda: matrix.exp(), NotImplementedError, "'aten::exp' .* 'SparseCPU'"),
        (lambda: matrix.numpy(), TypeError, "can't convert Sparse layout tensor to numpy"),
        (lambda: matrix.reshape(6), RuntimeError, "reshape is not implemented"),
        (
            lambda: torch.ones(2).coalesce(),
            RuntimeError,
            "coalesce expected sparse coordinate tensor layout but got Strided",
        ),
        (
            lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0]),
            RuntimeError,
            "same nnz, but got nnz from indices: 2, nnz from values: 3",
        ),
        (lambda: matrix @ torch.ones(2, 2), RuntimeError, "cannot be multiplied"),
        (lambda: matrix / matrix, RuntimeError, "requires a scalar"),
        (lambda: torch.ones(2, layout=torch.sparse_coo), RuntimeError, "not implemented for sparse layout"),
    ]
    for call, kind, text in cases:
        with pytest.raises(kind, match=text):
            call()


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_products(matrix, layout):
    whole = matrix.coalesce().to_sparse(layout=getattr(torch, layout))
    other = torch.arange(6.0).view(3, 2)
    right = whole.to_dense() @ other
    for made in (
        whole @ other,
        torch.mm(whole, other),
        torch.sparse.mm(whole, other),
        torch.spmm(whole, other),
        torch.addmm(torch.zeros(2, 2), whole, other),
    ):
        assert torch.equal(made, right)
    assert torch.equal(whole @ other[:, 0], right[:, 0])
    assert torch.equal(torch.mv(whole, other[:, 0]), right[:, 0])
    assert torch.equal(torch.ones(1, 2) @ whole, torch.ones(1, 2) @ whole.to_dense())
    assert torch.equal((whole @ whole.t()).to_dense(), whole.to_dense() @ whole.to_dense().t())
    assert torch.equal(torch.nn.functional.linear(torch.ones(4, 3), whole), torch.ones(4, 3) @ whole.to_dense().t())


def test_joined_otherwise_than_by_sums(matrix):
    assert torch.sparse.mm(
        matrix.coalesce().to_sparse_csr(), torch.tensor([[1.0], [2.0], [-1.0]]), "amax"
    ).tolist() == [[-3], [4]]


def test_sums_and_maps(matrix):
    whole = matrix.coalesce()
    assert dense(whole + whole) == [[0, 0, 6], [8, 0, 12]]
    assert dense(torch.ones(2, 3) - whole) == [
        [1, 1, -2],
        [-3, 1, -5],
    ]
    assert dense(whole * whole) == [[0, 0, 9], [16, 0, 36]]
    assert dense(2 * whole / 4) == [[0, 0, 1.5], [2, 0, 3]]
    assert dense(-whole) == [[0, 0, -3], [-4, 0, -6]]
    assert dense(whole * torch.arange(6.0).view(2, 3)) == [[0, 0, 6], [12, 0, 30]]
    assert dense(matrix**2) == [
        [0, 0, 9],
        [16, 0, 36],
    ]
    assert whole.sum().item() == 13
    assert dense(whole.sum(0)) == [4, 0, 9]
    assert dense(torch.sparse.sum(whole, 1)) == [3, 10]
    assert whole.norm().item() == pytest.approx(7.8102, abs=1e-4)
    assert dense(torch.sparse.softmax(whole, 1)) == [
        [0, 0, 1],
        [pytest.approx(0.1192, abs=1e-4), 0, pytest.approx(0.8808, abs=1e-4)],
    ]
    assert dense(torch.ones(2, 3).sparse_mask(whole)) == [[0, 0, 1], [1, 0, 1]]
    assert dense(whole.clone().mul_(2)) == [
        [0, 0, 6],
        [8, 0, 12],
    ]


def test_shapes_and_places(matrix):
    whole = matrix.coalesce()
    assert dense(torch.cat([whole, whole], 1)) == [[0, 0, 3, 0, 0, 3], [4, 0, 6, 4, 0, 6]]
    assert dense(torch.stack([whole, whole]))[1] == dense(whole)
    assert dense(whole.index_select(1, torch.tensor([2, 0]))) == [[3, 0], [6, 4]]
    assert dense(whole[1]) == [4, 0, 6]
    assert whole[1, 2].item() == 6
    assert dense(whole[:, 1:]) == [[0, 3], [0, 6]]
    assert whole.unsqueeze(0).shape == (1, 2, 3)
    assert (
        dense(whole.transpose(0, 1))
        == dense(whole.t())
        == [
            [0, 4],
            [0, 0],
            [3, 6],
        ]
    )
    assert whole.double().dtype == torch.float64
    assert whole.to("cpu") is whole
    assert torch.zeros_like(whole)._nnz() == 0
    hybrid = torch.ones(2, 2, 2).to_sparse(2)
    assert (hybrid.sparse_dim(), hybrid.dense_dim(), hybrid.values().shape) == (2, 1, (4, 2))
    assert dense(hybrid.sum(2)) == [[2, 2], [2, 2]]
    assert dense(torch.sparse.spdiags(torch.ones(2, 3), torch.tensor([0, 1]), (3, 3))) == [
        [1, 1, 0],
        [0, 1, 1],
        [0, 0, 1],
    ]
    assert dense(torch.sparse.FloatTensor(torch.tensor(PLACES), torch.ones(4), torch.Size([2, 3]))) == [
        [0, 0, 1],
        [1, 0, 2],
    ]


def test_gradients():
    values, other = (
        torch.tensor([3.0, 4.0, 5.0, 1.0], dtype=torch.float64, requires_grad=True),
        torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
    )

    def sparse(v):
        return torch.sparse_coo_tensor(PLACES, v, (2, 3))

    for function in (
        lambda v, o: torch.sparse.mm(sparse(v), o),
        lambda v, o: sparse(v).to_dense() + o.sum(),
        lambda v, o: torch.sparse.mm(sparse(v), sparse(v).t()).to_dense() + o.sum(),
        lambda v, o: torch.sparse.sum(sparse(v), 0).to_dense() + o.sum(),
        lambda v, o: torch.sparse.softmax(sparse(v), 1).to_dense() + o.sum(),
        lambda v, o: (sparse(v) * o.t()).coalesce().values(),
    ):
        assert torch.autograd.gradcheck(function, (values, other))
    leaf = torch.sparse_coo_tensor(PLACES, values.detach(), (2, 3), requires_grad=True)
    torch.sparse.mm(leaf, other).sum().backward()
    assert leaf.is_leaf
    assert leaf.grad.is_sparse
    assert leaf.grad._values().shape == (4,)
    assert torch.equal(leaf.grad._values(), other.detach().sum(1)[[2, 0, 2, 2]])


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_in_modules_and_files(matrix, layout):
    module = torch.nn.Linear(2, 2)
    module.register_buffer("graph", matrix.coalesce().to_sparse(layout=getattr(torch, layout)))
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    for weights_only in (True, False):
        file.seek(0)
        read = torch.load(file, weights_only=weights_only)["graph"]
        assert read.layout is getattr(torch, layout)
        assert dense(read) == dense(matrix)
        assert layout != "sparse_coo" or read.is_coalesced()
    module.double()
    assert module.graph.dtype == torch.float64
    assert module.graph.layout is getattr(torch, layout)


# ---- Sparse gradients ----
def test_sparse_adam_moves_only_the_rows_that_were_looked_up():
    torch.manual_seed(0)
    layer = torch.nn.Embedding(10, 3, sparse=True)
    optimiser, losses, before = (
        torch.optim.SparseAdam(list(layer.parameters()), lr=0.1),
        [],
        layer.weight.detach().clone(),
    )
    for _ in range(3):
        optimiser.zero_grad()
        assert layer.weight.grad is None
        loss = layer(torch.tensor([1, 4, 1])).pow(2).sum()
        loss.backward()
        assert layer.weight.grad.is_sparse
        assert layer.weight.grad._indices().tolist() == [[1, 4, 1]]
        optimiser.step()
        losses.append(loss.item())
    assert losses == pytest.approx([4.341617584228516, 3.341583251953125, 2.521927833557129], abs=1e-5)
    assert layer.weight[1].tolist() == pytest.approx([-0.1402, 0.5507, 0.3948], abs=1e-4)
    assert torch.equal(layer.weight[[0, 2, 3, 5, 6, 7, 8, 9]], before[[0, 2, 3, 5, 6, 7, 8, 9]])


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, 0.1),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        lambda p: torch.optim.Adagrad(p, 0.1),
    ],
)
def test_other_optimisers_see_the_same_gradient(make):
    torch.manual_seed(1)
    sparse = torch.nn.Embedding(6, 2, sparse=True, padding_idx=3)
    dense = torch.nn.Embedding.from_pretrained(sparse.weight.detach().clone(), freeze=False, padding_idx=3)
    for layer in (sparse, dense):
        optimiser = make(layer.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            for _ in range(2):  # gradients of two backwards add up
                layer(torch.tensor([0, 2, 3, 2])).sin().sum().backward()
            optimiser.step()
    assert torch.allclose(sparse.weight, dense.weight, atol=1e-6)
    assert sparse.weight.grad.is_sparse
    assert torch.allclose(sparse.weight.grad.to_dense(), dense.weight.grad)


def test_refusals_and_bags():
    bag = torch.nn.EmbeddingBag(6, 2, mode="sum", sparse=True, padding_idx=4)
    bag(torch.tensor([1, 2, 4, 4]), torch.tensor([0, 2])).sum().backward()
    assert dense(bag.weight.grad) == [[0, 0], [1, 1], [1, 1], [0, 0], [0, 0], [0, 0]]
    with pytest.raises(
        RuntimeError, match="Adam does not support sparse gradients, please consider SparseAdam instead"
    ):
        torch.optim.Adam(bag.parameters()).step()
    bag.zero_grad()
    assert bag.weight.grad is None
    bag.weight.grad = torch.ones(6, 2)
    assert not bag.weight.grad.is_sparse


# ---- Layouts ----
ALL = {
    "sparse_coo": {},
    "sparse_csr": {},
    "sparse_csc": {},
    "sparse_bsr": {"blocksize": (2, 3)},
    "sparse_bsc": {"blocksize": (2, 3)},
}
WHOLE = torch.tensor([[0, 1.0, 0, 2, 0, 2], [0, 1, 0, 0, 2, 0], [3, 3, 3, 0, 0, 0], [0, 0, 0, 0, 0, 0]])


@pytest.mark.parametrize("source", [*ALL, "strided"])
@pytest.mark.parametrize("target", ALL)
def test_every_layout_becomes_every_other(source, target):
    given = WHOLE.to_sparse(layout=getattr(torch, source), **ALL.get(source, {}))
    if source in ("sparse_bsr", "sparse_bsc") and target in ("sparse_csr", "sparse_csc"):
        with pytest.raises(RuntimeError, match="expected SparseCsr or SparseCsc layout but got SparseBs"):
            given.to_sparse(layout=getattr(torch, target))
        return
    made = given.to_sparse(layout=getattr(torch, target), **ALL[target])
    assert made.layout is getattr(torch, target)
    assert made.shape == WHOLE.shape
    assert torch.equal(made.to_dense(), WHOLE)
    if target == "sparse_coo":
        torch._validate_sparse_coo_tensor_args(made._indices(), made._values(), made.shape)
    else:
        names = ("crow_indices", "col_indices") if target.endswith("r") else ("ccol_indices", "row_indices")
        torch._validate_sparse_compressed_tensor_args(
            *(getattr(made, name)() for name in names), made.values(), made.shape, made.layout
        )


def test_blocks_batches_and_dense_dims():
    blocks = WHOLE.to_sparse_bsr((2, 3))
    assert blocks.crow_indices().tolist() == [0, 2, 3]
    assert blocks.col_indices().tolist() == [0, 1, 0]
    assert blocks.values().shape == (3, 2, 3)
    assert blocks._nnz() == 3
    assert blocks.t().layout is torch.sparse_bsc
    assert torch.equal(blocks.t().to_dense(), WHOLE.t())
    batch = torch.stack([WHOLE, WHOLE.flip(0)])
    rows = batch.to_sparse_csr()
    assert rows.crow_indices().shape == (2, 5)
    assert rows.values().shape == (2, 8)
    assert torch.equal(rows.to_dense(), batch)
    assert torch.equal(rows[1].to_dense(), batch[1])
    hybrid = torch.stack([WHOLE, 2 * WHOLE], -1).to_sparse_csr(dense_dim=1)
    assert hybrid.dense_dim() == 1
    assert hybrid.values().shape == (8, 2)
    assert torch.equal(hybrid.to_dense()[..., 1], 2 * WHOLE)
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        torch.stack([WHOLE, torch.ones_like(WHOLE)]).to_sparse_csr()
    small = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32), [1.0, 2.0]
    )
    assert small.crow_indices().dtype is torch.int32
    assert small.to_sparse_csc().row_indices().dtype is torch.int32
    assert (small + small).values().tolist() == [2, 4]


def test_invariants_are_checked_where_asked():
    parts = (torch.tensor([0, 2, 4]), torch.tensor([1, 0, 0, 2]), torch.ones(4))
    assert torch.sparse_csr_tensor(*parts, (2, 3))._nnz() == 4
    for call in (
        lambda: torch.sparse_csr_tensor(*parts, (2, 3), check_invariants=True),
        torch.sparse.check_sparse_tensor_invariants()(lambda: torch.sparse_csr_tensor(*parts, (2, 3))),
    ):
        with pytest.raises(RuntimeError, match="are sorted and distinct along the last dimension"):
            call()
    with torch.sparse.check_sparse_tensor_invariants():
        with pytest.raises(
            RuntimeError, match="size is inconsistent with indices: for dim 0, size is 2 but found index 5"
        ):
            torch.sparse_coo_tensor([[5]], [1.0], (2,))
    assert not torch.sparse.check_sparse_tensor_invariants.is_enabled()


def test_factories_of_sparse_layouts():
    assert torch.zeros(2, 3, layout=torch.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    assert torch.empty((4, 2), layout=torch.sparse_coo, device="meta").is_meta
    assert torch.zeros_like(WHOLE.to_sparse_bsr((2, 3))).values().shape == (0, 2, 3)
    assert torch.ones_like(WHOLE.to_sparse_csr()).sum() == 8
    assert WHOLE.to_sparse_bsr((2, 3)).to("meta")._nnz() == 0
    with pytest.raises(RuntimeError, match=r"expected sparse compressed \(non-block\) tensor layout but got SparseBsr"):
        torch.empty(2, 2, layout=torch.sparse_bsr)


@pytest.mark.parametrize("layout", ALL)
def test_gradients_through_layouts(layout):
    given = WHOLE.double().to_sparse(layout=getattr(torch, layout), **ALL[layout]).requires_grad_()
    for masked in (True, False):
        assert torch.autograd.gradcheck(lambda x: x.to_dense() ** 2, given, masked=masked)
    if layout in ("sparse_coo", "sparse_csr"):
        dense = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(torch.sparse.mm, (given, dense), masked=True)


def test_products_broadcasts_and_masks():
    sparse = WHOLE.to_sparse()
    assert torch.equal((sparse * torch.arange(6.0)).to_dense(), WHOLE * torch.arange(6.0))
    assert torch.equal(torch._sparse_broadcast_to(sparse, (2, 4, 6)).to_dense(), WHOLE.expand(2, 4, 6))
    assert torch.equal((WHOLE.to_sparse_csr() * WHOLE.to_sparse_csr()).to_dense(), WHOLE * WHOLE)
    mask = (WHOLE > 2).to_sparse_bsr((2, 3))
    assert WHOLE.sparse_mask(mask).layout is torch.sparse_bsr
    assert WHOLE.sparse_mask(mask).to_dense().sum() == 9
    assert (
        torch.addmm(torch.ones(4, 4), WHOLE.to_sparse_csr(), WHOLE.t(), beta=2).tolist()
        == (2 + WHOLE @ WHOLE.t()).tolist()
    )
    assert torch.hspmm(sparse, WHOLE.t()).to_dense().tolist() == (WHOLE @ WHOLE.t()).tolist()
    made = torch.sparse_coo_tensor((4, 6))
    assert torch.sin(sparse, out=made) is made
    assert torch.equal(made.to_dense(), WHOLE.sin())
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.ones(2, dtype=torch.int64).to_sparse().sin_()
    with pytest.raises(RuntimeError, match="sin_ requires coalesced input"):
        torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0]).sin_()
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
        sparse[0] = 1


def test_text_of_blocks():
    assert (
        str(torch.eye(2).to_sparse_bsr((1, 2)))
        == """tensor(crow_indices=tensor([0, 1, 2]),
       col_indices=tensor([0, 0]),
       values=tensor([[[1., 0.]],

                      [[0., 1.]]]), size=(2, 2), nnz=2,
       layout=torch.sparse_bsr)"""
    )
    assert (
        str(torch.empty(2, 3, layout=torch.sparse_csr, device="meta", dtype=torch.float64))
        == """tensor(crow_indices=tensor(..., size=(3,)),
       col_indices=tensor(..., size=(0,)),
       values=tensor(..., size=(0,)), device='meta', size=(2, 3),
       dtype=torch.float64, layout=torch.sparse_csr)"""
    )


@pytest.mark.parametrize("layout", ["sparse_bsr", "sparse_bsc"])
def test_blocks_in_files(layout):
    file = io.BytesIO()
    torch.save(WHOLE.to_sparse(layout=getattr(torch, layout), blocksize=(2, 3)), file)
    for weights_only in (True, False):
        file.seek(0)
        read = torch.load(file, weights_only=weights_only)
        assert read.layout is getattr(torch, layout)
        assert torch.equal(read.to_dense(), WHOLE)


def test_products_of_other_dtypes_and_joined_otherwise():
    a, b = torch.tensor([[0, 2 + 1j, 0], [1j, 0, 3]]), torch.tensor([[1, 1j], [2, 0], [0, 1 - 1j]])
    assert torch.allclose(torch.sparse.mm(a.to_sparse(), b), a @ b)
    c, d = torch.tensor([[0, 2, 0], [1, 0, 3]]), torch.arange(12).view(3, 4)
    assert torch.sparse.mm(c.to_sparse(), d).tolist() == (c @ d).tolist()
    assert torch.sparse.mm(c.double().to_sparse_csr(), d.double(), "amax").tolist() == [
        [8, 10, 12, 14],
        [24, 27, 30, 33],
    ]
    assert torch.sparse.mm(c.double().to_sparse_csr(), d.double(), "mean").tolist() == [
        [8, 10, 12, 14],
        [12, 14, 16, 18],
    ]
    made = torch.sparse.sampled_addmm(c.double().to_sparse_csr(), d.double().t()[:2], d.double()[:, :3])
    assert made.values().tolist() == (c + d.t()[:2] @ d[:, :3]).double()[c != 0].tolist()


def test_autograd_grad_gives_the_inputs_kind():
    sparse = WHOLE.to_sparse_csr().requires_grad_()
    (made,) = torch.autograd.grad((sparse * 2).to_dense().sum(), sparse)
    assert made.layout is torch.sparse_csr
    assert made.values().tolist() == [2] * 8
    nested = torch.nested.nested_tensor([torch.ones(2, 1), torch.ones(1, 3)], requires_grad=True)
    (made,) = torch.autograd.grad((nested * nested).to_padded_tensor(0.0).sum(), nested)
    assert made.is_nested
    assert made[1].tolist() == [[2, 2, 2]]


def test_sums_of_two_dtypes_compute_in_the_wider():
    small, unsigned = torch.tensor([1, 0], dtype=torch.int8), torch.tensor([2, 3], dtype=torch.uint8)
    for layout in torch.sparse_coo, torch.sparse_csr:
        a, b = small.view(1, 2).to_sparse(layout=layout), unsigned.view(1, 2).to_sparse(layout=layout)
        assert (a - b).dtype is torch.int16 and dense(a - b) == [[-1, -3]]


def test_functions_of_tables_give_sparse_gradients():
    places = torch.tensor([1, 0, 1])
    table = torch.nn.Parameter(torch.ones(3, 2))
    torch.nn.functional.embedding(places, table, sparse=True).sum().backward()
    assert table.grad.is_sparse and table.grad._indices().tolist() == [[1, 0, 1]]
    bags = torch.nn.Parameter(torch.ones(3, 2))
    torch.nn.functional.embedding_bag(places, bags, torch.tensor([0, 2]), mode="sum", sparse=True).sum().backward()
    assert dense(bags.grad) == [[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]]


def test_a_sparse_gradient_keeps_its_places_where_the_program_writes_new_ones():
    table = torch.nn.Embedding(10, 2, sparse=True)
    places = torch.tensor([7, 1])
    table(places).sum().backward()
    places[0] = 8
    assert table.weight.grad._indices().tolist() == [[7, 1]]
