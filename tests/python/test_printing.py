"""Print options, names of subclasses and what follows the elements. tests/print_test.c holds the texts themselves."""

import pytest

import taper as torch


@pytest.fixture(autouse=True)
def default_options():
    yield
    torch.set_printoptions(profile="default")


def test_options():
    x = torch.tensor([1.23456, 2e-3])
    assert repr(x) == "tensor([1.2346, 0.0020])"
    torch.set_printoptions(precision=2)
    assert repr(x) == "tensor([1.23, 0.00])"
    torch.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e+00, 2.00e-03])"
    assert torch.get_printoptions() == {
        "precision": 2,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": True,
    }
    torch.set_printoptions(profile="full")
    assert "..." not in repr(torch.arange(2000))
    assert torch.get_printoptions()["sci_mode"] is None


def test_options_in_a_block():
    x = torch.arange(20)
    with torch.printoptions(threshold=10, edgeitems=1):
        assert repr(x) == "tensor([ 0,  ..., 19])"
    assert "..." not in repr(x)
    with pytest.raises(ZeroDivisionError):
        with torch.printoptions(precision=1):
            1 / 0
    assert torch.get_printoptions()["precision"] == 4


def test_unknown_values_are_refused():
    for bad in ({"precision": -1}, {"linewidth": 0}):
        with pytest.raises(ValueError):
            torch.set_printoptions(**bad)


def test_suffixes():
    assert repr(torch.ones(2, dtype=torch.float64)) == "tensor([1., 1.], dtype=torch.float64)"
    assert repr(torch.ones(0, 3)) == "tensor([], size=(0, 3))"
    x = torch.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"


def test_subclasses_print_under_their_names():
    class Column(torch.Tensor):
        pass

    assert repr(Column([[1], [2]])) == "Column([[1.],\n        [2.]])"
    assert repr(torch.nn.Parameter(torch.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert Column([1]).__repr__(tensor_contents="one") == "Column(one)"
    assert torch.ones(2).__repr__() == "tensor([1., 1.])"


def test_named_results_print_a_line_each():
    assert (
        repr(torch.max(torch.tensor([[1, 2], [4, 3]]), 0))
        == "torch.return_types.max(\nvalues=tensor([4, 3]),\nindices=tensor([1, 1]))"
    )


@pytest.mark.parametrize(
    "expression, name",
    [
        ("x * 2", "MulBackward0"),
        ("x ** 2", "PowBackward0"),
        ("x.sum()", "SumBackward0"),
        ("x.sum(0)", "SumBackward1"),
        ("x.mean()", "MeanBackward0"),
        ("x.mean(1)", "MeanBackward1"),
        ("x.max()", "MaxBackward1"),
        ("x.max(0)[0]", "MaxBackward0"),
        ("x.squeeze(0)", "SqueezeBackward1"),
        ("x.log1p()", "Log1PBackward0"),
        ("x.norm()", "LinalgVectorNormBackward0"),
        ("x.double()", "ToCopyBackward0"),
        ("x.clamp(0, 1)", "ClampBackward1"),
        ("torch.stack([x, x])", "StackBackward0"),
        ("x.repeat(2, 1)", "RepeatBackward0"),
        ("F.linear(x, w)", "MmBackward0"),
        ("F.linear(x, w, w[:, 0])", "AddmmBackward0"),
        ("F.cross_entropy(x, torch.tensor([0, 2]))", "NllLossBackward0"),
        ("F.mse_loss(x, x * 2)", "MseLossBackward0"),
        ("F.gelu(x)", "GeluBackward0"),
        ("F.binary_cross_entropy_with_logits(x, x.detach())", "BinaryCrossEntropyWithLogitsBackward0"),
        ("F.embedding(torch.tensor([0]), w)", "EmbeddingBackward0"),
        ("x.exp().copy_(x)", "CopyBackwards"),
        ("F.celu(x)", "CeluBackward0"),
        ("F.embedding_bag(torch.tensor([[0, 1]]), w)", "EmbeddingBagBackward0"),
        ("F.embedding_bag(torch.tensor([[0, 1]]), w, mode='sum')", "EmbeddingBagBackward0"),
        ("torch.linalg.svdvals(x)", "LinalgSvdBackward0"),
        ("torch.linalg.eigvalsh(x @ x.T)", "LinalgEighBackward0"),
        ("torch.linalg.lu(w[:3])[2]", "LinalgLuBackward0"),
        ("torch.div(x, 2, rounding_mode='floor')", "DivBackward2"),
        ("torch.round(x, decimals=2)", "RoundBackward1"),
        ("F.l1_loss(x, x * 2, reduction='none')", "AbsBackward0"),
        ("F.avg_pool2d(x[None], 2)", "AvgPool2DBackward0"),
        ("F.adaptive_avg_pool2d(x[None], 1)", "AdaptiveAvgPool2DBackward0"),
        ("F.adaptive_max_pool3d(x[None, None], 1)", "AdaptiveMaxPool3DBackward0"),
        ("F.interpolate(x[None, None], scale_factor=2)", "UpsampleNearest2DBackward0"),
        ("F.interpolate(x[None], size=5, mode='linear')", "UpsampleLinear1DBackward0"),
        ("F.interpolate(x[None, None], size=5, mode='bicubic', antialias=True)", "UpsampleBicubic2DAaBackward0"),
        ("F.interpolate(x[None, None], size=1, mode='area')", "AdaptiveAvgPool2DBackward0"),
        ("F.pad(x[None], (1, 1), mode='reflect')", "ReflectionPad1DBackward0"),
        ("F.grid_sample(x[None, None], torch.zeros(1, 1, 1, 2))", "GridSampler2DBackward0"),
        (
            "F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])",
            "ScaledDotProductFlashAttentionForCpuBackward0",
        ),
        ("torch.vmap(lambda row: row * 2)(x)", "MulBackward0"),
        ("torch.vmap(lambda row: row * 2, in_dims=1)(x)", "MulBackward0"),
        ("torch.swapaxes(x, 0, 1)", "TransposeBackward0"),
        ("torch.swapdims(x, 0, 1)", "TransposeBackward0"),
        ("(x * 1).clamp_(0, 1)", "ClampBackward1"),
        ("torch.mm(w, w.T).addmm_(w, w.T)", "AddmmBackward0"),
        ("(x * 1).tril_()", "TrilBackward0"),
    ],
)
def test_nodes_go_by_pytorchs_names(expression, name):
    F = torch.nn.functional
    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)
    result = eval(expression, {"torch": torch, "F": F, "x": x, "w": w})
    assert f"grad_fn=<{name}>" in repr(result)
    assert result.grad_fn.name().endswith(name)


def test_a_composition_that_hands_its_input_through_leaves_its_name():
    x = torch.ones(2, 3, requires_grad=True).exp()
    torch.roll(x, 0)
    torch.tile(x, (1,))
    assert x.grad_fn.name() == "ExpBackward0"
