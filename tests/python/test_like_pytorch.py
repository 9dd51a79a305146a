"""Small things that once differed from PyTorch in silence; values and texts as PyTorch 2.15 gave them."""

import copy
import inspect
import io
import threading

import numpy as np
import pytest
import taper as torch
from taper import nn
from taper.utils.checkpoint import checkpoint

NAN, INF = float("nan"), float("inf")


# ---- Arrays beside tensors ----
def test_equal_to_an_array():
    x, a = torch.tensor([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0])
    for got in (x == a, a == x, x == a.astype(np.float32), torch.tensor([1, 2, 3]) == a):
        assert isinstance(got, torch.Tensor)
        assert got.dtype is torch.bool
        assert got.tolist() == [True, False, True]
    got = a / x
    assert isinstance(got, torch.Tensor)
    assert got.dtype is torch.float64
    assert got.tolist() == [1.0, 2.5, 1.0]
    assert isinstance(x * a, torch.Tensor)
    assert (x * a).tolist() == [1, 10, 9]
    for refused in (lambda: a * x, lambda: x < a, lambda: a - x):
        with pytest.raises(TypeError):
            refused()


# ---- Transforms of functions inside other modes ----
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_transforms_record_whatever_the_mode(mode):
    with mode():
        x, weight = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 2.0, 2.0])
        square = lambda v: (v**2).sum()
        assert torch.func.grad(square)(x).tolist() == [2, 4, 6]
        assert torch.func.grad(lambda v: (v * weight).sum())(x).tolist() == [2, 2, 2]
        value, back = torch.func.vjp(lambda v: v**2, x)
        assert value.tolist() == [1, 4, 9]
        assert back(torch.ones(3))[0].tolist() == [2, 4, 6]
        assert torch.func.jvp(lambda v: v**2, (x,), (torch.ones(3),))[1].tolist() == [2, 4, 6]
        assert torch.func.jacrev(lambda v: v**2)(x).tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]
        assert torch.func.jacfwd(lambda v: v**2)(x).tolist() == [[2, 0, 0], [0, 4, 0], [0, 0, 6]]
        assert torch.func.hessian(square)(x).tolist() == [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
        assert torch.func.vmap(torch.func.grad(lambda v: v**2))(x).tolist() == [2, 4, 6]
        assert torch.is_inference_mode_enabled() == (mode is torch.inference_mode)
        assert torch.is_grad_enabled() == (mode is torch.enable_grad)


# ---- Values ----
def test_all_and_any_over_no_dims():
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    for keepdim in (False, True):
        assert torch.all(x, dim=[], keepdim=keepdim).tolist() == [[False, True], [True, False]]
        assert torch.any(x, dim=(), keepdim=keepdim).tolist() == [[False, True], [True, False]]
    assert torch.all(x).item() is False
    assert torch.sum(x, dim=[]).item() == 3


def test_complex_functions_far_out():
    got = torch.atan(torch.tensor([1e30 + 1e30j, 1e20j, -1e20 + 0j], dtype=torch.complex64))
    assert torch.allclose(
        got, torch.tensor([1.57079637 + 5e-31j, 1.57079637 + 1e-20j, -1.57079637 + 0j]), rtol=1e-5, atol=0
    )
    got = torch.atanh(torch.tensor([complex(1e200, 1e200)]))
    assert torch.allclose(got.imag, torch.tensor([1.57079637]))
    assert got.real.item() >= 0
    got = torch.logcumsumexp(torch.tensor([complex(INF, 1), 1 + 1j]), 0)
    assert got.real.tolist() == [INF, INF]
    assert got.imag.tolist() == [1, 1]
    assert torch.logcumsumexp(torch.tensor([-INF, 0.0, INF, 1.0]), 0).tolist() == [-INF, 0, INF, INF]


def test_gradient_with_a_complex_spacing():
    got = torch.gradient(torch.tensor([1.0, 2.0, 4.0]), spacing=1 - 0.3j)[0]
    assert torch.allclose(got, torch.tensor([0.9174 + 0.2752j, 1.3761 + 0.4128j, 1.8349 + 0.5505j]), atol=1e-4)


def test_gradient_of_least_squares_residuals():
    a = (
        torch.linspace(0.1, 1.3, 12, dtype=torch.float64).sin().reshape(4, 3) + torch.eye(4, 3, dtype=torch.float64)
    ).requires_grad_()
    b = torch.linspace(2, 5, 12, dtype=torch.float64).cos().reshape(4, 3)
    residuals = torch.linalg.lstsq(a, b, driver="gels").residuals
    got = torch.autograd.grad(residuals.sum(), a)[0][0]
    assert torch.allclose(got, torch.tensor([-0.4556, -0.6981, 0.0480], dtype=torch.float64), atol=1e-4)
    assert torch.autograd.gradcheck(
        lambda a, b: torch.linalg.lstsq(a, b, driver="gels")[:2],
        (a.detach().requires_grad_(), b.clone().requires_grad_()),
    )


def test_norms_that_have_no_value_over_no_elements():
    for order in (-1, -2.5, INF, -INF):
        with pytest.raises(RuntimeError):
            torch.linalg.norm(torch.ones(0), order)
        with pytest.raises(RuntimeError):
            torch.linalg.vector_norm(torch.ones(2, 0), order, dim=1)
        assert tuple(torch.linalg.vector_norm(torch.ones(2, 0), order, dim=0).shape) == (0,)
    assert torch.linalg.norm(torch.ones(0), 2).item() == 0


def test_numbers_among_truth_values():
    x, mask = torch.zeros(2, dtype=torch.bool), torch.tensor([True, False])
    assert x.masked_fill(mask, 0.4).tolist() == [True, False]
    assert x.clone().masked_fill_(mask, 0.4).tolist() == [True, False]
    assert x.clone().fill_(0.4).tolist() == [True, True]
    assert torch.full((1,), 0.4, dtype=torch.bool).tolist() == [True]


def test_searching_for_a_number():
    x = torch.arange(5.0)
    assert torch.searchsorted(x, 2.5).item() == 3
    assert torch.searchsorted(x, 2, right=True).item() == 3
    assert torch.searchsorted(x, 2).item() == 2
    assert torch.bucketize(2.5, x).item() == 3
    assert torch.bucketize(2, torch.arange(5)).item() == 2
    assert tuple(torch.searchsorted(x, 2.5).shape) == ()


# ---- Memory without values ----
def test_deterministic_memory():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        assert torch.empty(2, dtype=torch.complex64).isnan().all()
        assert torch.empty(2, dtype=torch.int8).tolist() == [127, 127]
        assert torch.empty(2, dtype=torch.uint8).tolist() == [255, 255]
        assert torch.empty(2, dtype=torch.bool).tolist() == [True, True]
        assert torch.empty(1, dtype=torch.int64).item() == 2**63 - 1
        like = torch.ones(2, 3).t()
        for made in (
            torch.empty_like(like),
            like.new_empty(2),
            torch.empty_strided((2, 2), (1, 2)),
            like.new_empty_strided((2,), (1,)),
        ):
            assert made.isnan().all()
        grown = torch.ones(2).resize_(4)
        assert grown[:2].tolist() == [1, 1]
        assert grown[2:].isnan().all()
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert torch.utils.deterministic.fill_uninitialized_memory is False
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


def test_the_warn_only_flag_is_kept():
    torch.use_deterministic_algorithms(False, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


# ---- Views that one call made ----
@pytest.mark.parametrize(
    "pieces",
    [
        lambda x: x.unbind(0),
        lambda x: x.split(1),
        lambda x: x.chunk(2),
        lambda x: x.split([1, 3]),
        lambda x: list(x),
        lambda x: [x.unbind(0)[0].view_as(x[0])],
    ],
)
def test_in_place_on_one_of_several_views(pieces):
    x = torch.ones(4, requires_grad=True).clone()
    with pytest.raises(RuntimeError, match="This view is the output of a function that returns multiple views"):
        pieces(x)[0].mul_(2)
    assert x.tolist() == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match="returns multiple views"):
        pieces(torch.ones(4))[0].mul_(torch.ones((), requires_grad=True))
    pieces(torch.ones(4))[0].mul_(2)
    with torch.no_grad():
        pieces(x)[0].mul_(2)
    assert x[0].item() == 2


def test_in_place_on_a_piece_of_tensor_split():
    x = torch.ones(4, requires_grad=True).clone()
    x.tensor_split(2)[0].mul_(2)
    assert x.tolist() == [2, 2, 1, 1]
    assert str(torch.ones(2, requires_grad=True).clone().unbind(0)[1]).endswith("grad_fn=<UnbindBackward0>)")


# ---- Checkpoints ----
def test_a_checkpoint_looks_at_versions():
    a = torch.tensor([1.0], requires_grad=True)
    x = a * 1.0
    y = checkpoint(lambda q: q.sin(), x, use_reentrant=False)
    x.add_(2.0)
    with pytest.raises(
        RuntimeError,
        match=r"modified by an inplace operation: \[torch.FloatTensor \[1\]\] is at version 1; expected version 0",
    ):
        y.sum().backward()


def test_a_checkpoint_looks_at_its_closure():
    weight = nn.Parameter(torch.tensor([2.0]))
    before = weight * 1.0
    for captured in (weight, before):
        x = torch.tensor([1.0], requires_grad=True)
        y = checkpoint(lambda q: (q * captured).sin(), x, use_reentrant=False)
        with torch.no_grad():
            captured.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    x = torch.ones(4, 3, requires_grad=True)
    for _ in range(2):
        checkpoint(layer, x, use_reentrant=False).sum().backward()  # running statistics change in both runs


# ---- Hooks and threads ----
def test_multi_grad_hooks_under_threads():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    count, failures = [], []
    handle = torch.autograd.graph.register_multi_grad_hook(
        (a, b), lambda grads: count.append([g is not None for g in grads])
    )

    def work():
        try:
            (a * b).sum().backward()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert count == [[True, True]] * 5
    (a * 2).sum().backward()  # b gets none: the hook does not wait for it
    assert count[5:] == [[True, False]]
    handle.remove()
    (a * b).sum().backward()
    assert len(count) == 6
    any_count = []
    torch.autograd.graph.register_multi_grad_hook((a, b), lambda grad: any_count.append(1), mode="any")
    (a * b).sum().backward()
    (a * b).sum().backward()
    assert len(any_count) == 2


# ---- Python's side ----
def test_the_new_of_a_mixin_is_called():
    class Mixin:
        def __new__(cls, *args, **kwargs):
            made = super().__new__(cls)
            made._given = args, kwargs
            return made

    class Model(nn.Module, Mixin):
        def __init__(self, width, *, deep=False):
            super().__init__()
            self.layer = nn.Linear(width, 1)

        def forward(self, x):
            return self.layer(x)

    model = Model(3, deep=True)
    assert model._given == ((3,), {"deep": True})
    assert model(torch.ones(2, 3)).shape == (2, 1)
    assert model(torch.ones(2, 3)).shape == (2, 1)
    again = copy.deepcopy(model)
    assert again._given == model._given
    assert torch.equal(again(torch.ones(2, 3)), model(torch.ones(2, 3)))


def test_signatures_and_generics():
    assert str(inspect.signature(nn.Linear(2, 3))) == "(*args, **kwargs)"
    assert list(inspect.signature(nn.Linear).parameters)[:2] == ["in_features", "out_features"]
    assert torch.futures.Future[int] is not None
    x = torch.arange(5.0)
    assert [p.tolist() for p in x.split(split_size=2)] == [[0, 1], [2, 3], [4]]
    assert [len(p) for p in x.split(split_size=[1, 4])] == [1, 4]


def test_fx_notes_the_operands_of_einsum():
    import taper.fx

    for f in (lambda a, b: torch.einsum("ij,jk", (a, b)), lambda a, b: torch.einsum("ij,jk", a, b)):
        traced = taper.fx.symbolic_trace(f)
        node = [n for n in traced.graph.nodes if n.op == "call_function"][0]
        assert node.target is torch.einsum
        assert node.args[0] == "ij,jk"
        assert [str(a) for a in node.args[1:]] == ["a", "b"]
        assert traced(torch.ones(2, 3), torch.ones(3, 4)).tolist() == [[3.0] * 4] * 2


# ---- Layers, distributions, sparse tensors ----
def test_a_lazy_layer_after_load_state_dict():
    lazy = nn.LazyLinear(10)
    lazy.load_state_dict(nn.Linear(5, 10).state_dict())
    lazy(torch.ones(1, 5))
    assert lazy.in_features == 5


def test_wishart_as_an_exponential_family():
    w = torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2))
    assert torch.distributions.ExponentialFamily.entropy(w).item() == pytest.approx(5.531023979187012, rel=1e-5)


def test_variance_of_a_subclass_with_other_samples():
    class Normal(torch.distributions.MultivariateNormal):
        def _extended_shape(self, sample_shape=torch.Size()):
            return torch.Size((7, 7))

    assert tuple(Normal(torch.zeros(2), torch.eye(2)).variance.shape) == (2,)


def test_sparse_tensors_keep_their_dtype_in_place():
    eye = lambda dtype: torch.eye(2, dtype=dtype).to_sparse()
    for name, value in (("add_", 2), ("sub_", 0), ("mul_", 1)):
        for a, b in ((torch.uint8, torch.int16), (torch.float32, torch.float64)):
            made = getattr(eye(a), name)(eye(b))
            assert made.dtype is a
            assert made.to_dense().tolist() == [[value, 0], [0, value]]
            dense = getattr(torch.eye(2, dtype=a), name)(eye(b))
            assert dense.dtype is a
            assert dense.layout is torch.strided
            assert dense.tolist() == [[value, 0], [0, value]]
    with pytest.raises(RuntimeError, match="Can't convert result type Float to output Long in add operation"):
        eye(torch.int64).add_(eye(torch.float32))
    assert torch.zeros_like(eye(torch.float32), device="meta").device.type == "meta"


# ---- Conjugates ----
def test_a_conjugate_is_written():
    c = torch.tensor([1 + 2j])
    c.conj().imag.add_(1)
    assert c.tolist() == [1 + 1j]
    c.conj().mul_(2)
    assert c.tolist() == [2 + 2j]
    torch.adjoint(c.view(1, 1)).add_(1j)
    assert c.tolist() == [2 + 1j]
    c.view(1, 1).mH.zero_()
    assert c.tolist() == [0]
    c.fill_(1 + 2j)
    assert c.conj().resolve_conj().mul_(2).tolist() == [2 - 4j]
    assert c.conj().clone().mul_(2).tolist() == [2 - 4j]
    assert c.resolve_conj() is c
    x = torch.tensor([1 + 2j], requires_grad=True)
    (x.conj() * 1j).real.sum().backward()
    x.grad.zero_()
    real = torch.ones(2, 2)
    real.mH.add_(1)
    assert real.tolist() == [[2, 2], [2, 2]]


# ---- Strides ----
def test_strides_of_new_dims():
    x = torch.arange(6.0).view(2, 3)
    assert x.expand(1, 2, 3).stride() == (6, 3, 1)
    assert x.expand(1, 1, 2, 3).stride() == (6, 6, 3, 1)
    assert x.expand(4, 1, 2, 3).stride() == (0, 6, 3, 1)
    assert x.t().expand(1, 3, 2).stride() == (3, 1, 3)
    assert x[:1].expand(5, 3).stride() == (0, 1)
    assert torch.tensor(1.0).expand(3, 1).stride() == (0, 0)


def test_joined_slices_keep_channels_last():
    y = torch.arange(24.0).reshape(2, 2, 3, 2).contiguous(memory_format=torch.channels_last)
    joined = torch.cat((y[:, :, :2], y[:, :, 1:]), -1)
    assert joined.stride() == (16, 1, 8, 2)
    assert joined.sum().item() == 368
    assert torch.cat((y[:, :, :2], torch.ones(2, 2, 2, 2)), 2).stride() == (16, 8, 2, 1)
    z = torch.arange(48.0).reshape(1, 2, 3, 2, 4).contiguous(memory_format=torch.channels_last_3d)
    assert torch.cat((z, z), 1).stride() == (96, 1, 32, 16, 4)
    assert torch.equal(torch.cat((z, z), 1), torch.cat((z.contiguous(), z.contiguous()), 1))


def test_the_conjugate_of_real_numbers_is_the_tensor():
    x = torch.ones(3, dtype=torch.int32)
    assert x.conj() is x
    assert torch.conj(x) is x
    assert torch.conj(input=x) is x


# ---- What PyTorch refuses ----
def test_lists_of_tensors_are_lists():
    for function in (torch.cat, torch.stack, torch.hstack, torch.vstack, torch.column_stack):
        with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
            function(torch.ones(2))
    assert [tuple(t.shape) for t in torch.meshgrid(torch.ones(2), torch.ones(3), indexing="ij")] == [(2, 3), (2, 3)]
    assert torch.block_diag(torch.ones(1, 1), torch.ones(1, 2)).shape == (2, 3)
    assert torch.cartesian_prod(torch.ones(2), torch.ones(2)).shape == (4, 2)


def test_nonzero_into_a_tensor():
    x = torch.tensor([0.0, 1.0])
    with pytest.raises(RuntimeError, match="Expected out tensor to have scalar type Long"):
        torch.nonzero(x, out=torch.empty(0))
    with pytest.raises(RuntimeError, match="does not support the out kwarg"):
        torch.nonzero(x, as_tuple=True, out=torch.empty(0, dtype=torch.int64))
    assert torch.nonzero(x, out=torch.empty(0, dtype=torch.int64)).tolist() == [[1]]


def test_rates_are_functions():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1)
    with pytest.raises(TypeError, match="lr_lambda should be a function, but got float"):
        torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lr_lambda=0.1)


def test_no_elements_have_no_address():
    assert torch.empty(0).data_ptr() == 0
    assert torch.ones(3)[3:3].data_ptr() == 0
    assert torch.ones(3).data_ptr() != 0


def test_futures_keep_errors_of_callbacks_apart():
    future = torch.futures.Future[int]()
    following, wrong = future.then(lambda f: f.wait() + 1), future.then(lambda: True)
    future.add_done_callback(lambda f: 1 / 0)
    future.set_result(5)
    assert future.wait() == 5
    assert following.wait() == 6
    with pytest.raises(RuntimeError, match="takes 0 positional arguments but 1 was given"):
        wrong.wait()
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        torch.save(future, io.BytesIO())
    with pytest.raises(RuntimeError, match="Future can't be None"):
        torch.futures.collect_all([future, None])
    assert torch.jit.wait(torch.jit.fork(lambda x: x * 2, 4)) == 8


# ---- Images of bytes ----
@pytest.mark.parametrize(
    "mode, antialias, align_corners, wanted",
    [
        ("bilinear", False, False, 697937),
        ("bilinear", False, True, 26820),
        ("bilinear", True, False, 48119),
        ("bilinear", True, True, 990948),
        ("bicubic", False, False, 894481),
        ("bicubic", False, True, 47777),
        ("bicubic", True, False, 551431),
        ("bicubic", True, True, 384184),
    ],
)
def test_bytes_are_resampled_to_the_same_bytes(mode, antialias, align_corners, wanted):
    """A sum over all sizes up to 15 by 15, each element weighed by its place."""
    x = (torch.arange(30) * 37 % 256).to(torch.uint8).view(1, 1, 5, 6)
    total = 0
    for size in [(h, w) for h in range(1, 16) for w in range(1, 16)]:
        y = nn.functional.interpolate(x, size=size, mode=mode, antialias=antialias, align_corners=align_corners)
        y = y.long().flatten()
        total = (total * 31 + int((y * (torch.arange(len(y)) % 97 + 1)).sum())) % 1000003
    assert total == wanted
