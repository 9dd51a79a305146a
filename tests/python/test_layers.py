"""Layers of tables/layers: the C and the Python side give the same bits from the same seed, and constructors are what
the table says."""

import importlib.util
import inspect
import os
import pathlib
import subprocess

import numpy as np
import pytest
import taper as torch
from taper import nn

BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))


def _generated():
    spec = importlib.util.spec_from_file_location("layer_samples", BUILD / "generated" / "layer_samples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _generated()


def tensor(text):
    """As layer_tensor in tests/layer_samples.c."""
    maker, _, rest = text.partition("(")
    numbers = [int(x) for x in rest.rstrip(")").split(",") if x.strip()]
    if maker == "ints":
        return torch.randint(numbers[-2], numbers[-1], numbers[:-2])
    if maker == "pos":
        return torch.rand(numbers) * 1.8 + 0.2
    if maker == "prob":
        return torch.rand(numbers) * 0.8 + 0.1
    return torch.randn(numbers)


def results(make, inputs, evaluate, text):
    """What tests/layers_test.c writes down, computed here."""
    torch.manual_seed(0)
    module = make(torch, tensor).train(not evaluate)
    noted = {"text/repr": np.frombuffer(repr(module).encode(), dtype=np.uint8)}
    noted.update({f"state/{k}": v.numpy().copy() for k, v in module.state_dict().items()})
    torch.manual_seed(1)
    first, *rest = [tensor(x) for x in inputs]
    if "float64" in text:
        first = first.double()
    if first.is_floating_point():
        first.requires_grad_()
    torch.manual_seed(2)
    out = module(first * 1 if first.is_floating_point() else first, *rest)
    while isinstance(out, tuple):
        out = out[0]
    noted["out/0"] = out.detach().numpy().copy()
    if out.requires_grad:
        (out * out).sum().backward()
        if first.grad is not None:
            noted["grad/input"] = first.grad.numpy()
        noted.update({f"grad/{k}": p.grad.numpy() for k, p in module.named_parameters() if p.grad is not None})
    noted.update({f"after/{k}": v.numpy() for k, v in module.state_dict().items()})
    return noted


@pytest.fixture(scope="session")
def from_c(tmp_path_factory):
    program = BUILD / "tests" / "layers_test"
    if not program.exists():
        pytest.skip("the C tests are not built")
    file = tmp_path_factory.mktemp("layers") / "c.npz"
    run = subprocess.run(
        [program], env={**os.environ, "TAPER_LAYER_RESULTS": str(file)}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    arrays = {}
    for key, value in np.load(file).items():
        layer, number, what = key.split("/", 2)
        arrays.setdefault((layer, int(number)), {})[what] = value
    return arrays


@pytest.mark.parametrize(
    "layer,number,text,evaluate,in_c,make,inputs", TABLE.SAMPLES, ids=[f"{s[0]}-{s[1]}" for s in TABLE.SAMPLES]
)
def test_c_and_python_agree(from_c, layer, number, text, evaluate, in_c, make, inputs):
    ours = results(make, inputs, evaluate, text)
    if not in_c:
        return
    theirs = from_c[layer, number]
    assert bytes(theirs.pop("text/repr")).decode() == bytes(ours.pop("text/repr")).decode()
    assert list(theirs) == list(ours)
    for what, value in ours.items():
        assert value.dtype == theirs[what].dtype, what
        assert value.shape == theirs[what].shape, what
        assert value.tobytes() == theirs[what].tobytes(), f"{what}: {value} in Python, {theirs[what]} in C"


def written(default):
    """A default as the table writes it; a function by its name."""
    default = getattr(default, "__name__", default)
    return (
        "None"
        if default is None
        else str(default).lower()
        if isinstance(default, bool)
        else f'"{default}"'
        if isinstance(default, str)
        else str(default)
    )


@pytest.mark.parametrize("layer", [name for name in TABLE.CONSTRUCTORS if hasattr(nn, name)])
def test_constructor_is_the_tables(layer):
    found, keyword = [], False
    for p in list(inspect.signature(getattr(nn, layer).__init__).parameters.values())[1:]:
        if p.kind == p.KEYWORD_ONLY and not keyword:
            found.append("*")
            keyword = True
        found.append((p.name, None if p.default is p.empty else p.default))
    expected = TABLE.CONSTRUCTORS[layer]
    if not expected:  # Module's own, or anything
        return
    names = [e if e == "*" else e[0] for e in expected]
    if layer == "LinearCrossEntropyLoss":  # device and dtype stand among its keywords
        assert sorted(names) == sorted(f if f == "*" else f[0] for f in found)
        return
    assert [f if f == "*" else f[0] for f in found] == names
    for e, f in zip(expected, found):
        if e != "*" and e[1] is not None and e[1] not in ("[]",):
            assert f[1] == eval(e[1], {"true": True, "false": False, "inf": float("inf")}) or written(f[1]) == e[1], (
                f"{layer}({e[0]})"
            )


# ---- What programs lean on beyond a call ----
@pytest.mark.parametrize(
    "layer,base",
    [
        (lambda: nn.Conv2d(1, 1, 1), "conv._ConvNd"),
        (lambda: nn.ConvTranspose1d(1, 1, 1), "conv._ConvTransposeNd"),
        (lambda: nn.BatchNorm1d(1), "batchnorm._BatchNorm"),
        (lambda: nn.InstanceNorm3d(1), "batchnorm._NormBase"),
        (lambda: nn.Dropout2d(), "dropout._DropoutNd"),
        (lambda: nn.NLLLoss(), "loss._WeightedLoss"),
        (lambda: nn.MSELoss(), "loss._Loss"),
        (lambda: nn.MaxPool2d(2), "pooling._MaxPoolNd"),
        (lambda: nn.AvgPool1d(2), "pooling._AvgPoolNd"),
        (lambda: nn.AdaptiveAvgPool2d(1), "pooling._AdaptiveAvgPoolNd"),
        (lambda: nn.LSTM(1, 1), "rnn.RNNBase"),
        (lambda: nn.ZeroPad2d(1), "padding._ConstantPadNd"),
    ],
)
def test_bases(layer, base):
    file, name = base.split(".")
    made = layer()
    assert isinstance(made, getattr(getattr(nn.modules, file), name))
    assert type(made).__module__.startswith("taper.nn.modules.")
    assert "._" not in type(made).__module__


def test_layers_can_be_subclassed():
    class Standardised(nn.Conv2d):
        def forward(self, x):
            return self._conv_forward(x, self.weight - self.weight.mean((1, 2, 3), keepdim=True), self.bias)

    class AnyNorm(nn.modules.batchnorm._BatchNorm):
        def _check_input_dim(self, input):
            pass

    assert Standardised(2, 3, 3)(torch.ones(1, 2, 4, 4)).shape == (1, 3, 2, 2)
    assert AnyNorm(3)(torch.randn(2, 3)).shape == (2, 3)
    assert repr(AnyNorm(3)).startswith("AnyNorm(3, eps=1e-05")


@pytest.mark.parametrize(
    "make,error,words",
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (
            lambda: nn.Conv2d(4, 4, 3, padding="same", stride=2),
            ValueError,
            "padding='same' is not supported for strided convolutions",
        ),
        (lambda: nn.Conv2d(4, 4, 3, padding_mode="x"), ValueError, "padding_mode must be one of"),
        (
            lambda: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"),
            ValueError,
            'Only "zeros" padding mode is supported for ConvTranspose2d',
        ),
        (lambda: nn.Dropout(1.5), ValueError, "dropout probability has to be between 0 and 1, but got 1.5"),
        (lambda: nn.GroupNorm(2, 3), ValueError, r"num_channels \(3\) must be divisible by num_groups \(2\)"),
        (lambda: nn.Hardtanh(2, 1), AssertionError, r"max_val \(1\) must be greater than min_val \(2\)"),
        (lambda: nn.BatchNorm2d(3)(torch.ones(2, 3)), ValueError, r"expected 4D input \(got 2D input\)"),
        (
            lambda: nn.InstanceNorm2d(3, affine=True)(torch.ones(2, 4, 3, 3)),
            ValueError,
            r"expected input's size at dim=1 to match num_features \(3\), but got: 4.",
        ),
        (lambda: nn.Softmax2d()(torch.ones(2)), ValueError, "Softmax2d: expected input to be 3D or 4D, got 1D instead"),
        (
            lambda: nn.FractionalMaxPool2d(2),
            ValueError,
            "requires specifying either an output size, or a pooling ratio",
        ),
        (lambda: nn.MultiMarginLoss(p=3), ValueError, "only p == 1 and p == 2 supported"),
        (
            lambda: nn.TripletMarginLoss(margin=-1),
            ValueError,
            "TripletMarginLoss: expected margin to be greater than 0, got -1 instead",
        ),
        (
            lambda: nn.ConvTranspose2d(2, 2, 2)(torch.ones(1, 2, 3, 3), output_size=[9, 9]),
            ValueError,
            r"requested an output size of \[9, 9\], but valid sizes range from",
        ),
        (lambda: nn.Linear(2), TypeError, "missing 1 required positional argument: 'out_features'"),
        (lambda: nn.ReLU(3, 4), TypeError, "positional arguments"),
    ],
)
def test_mistakes(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "make,shape,text",
    [
        (lambda: nn.LazyLinear(3), (2, 4), "Linear(in_features=4, out_features=3, bias=True)"),
        (
            lambda: nn.LazyConv2d(4, 3, padding=1),
            (1, 2, 5, 5),
            "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))",
        ),
        (lambda: nn.LazyConvTranspose1d(4, 3), (1, 2, 5), "ConvTranspose1d(2, 4, kernel_size=(3,), stride=(1,))"),
        (
            lambda: nn.LazyBatchNorm1d(),
            (3, 4),
            "BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        ),
        (
            lambda: nn.LazyInstanceNorm2d(),
            (3, 4, 2, 2),
            "InstanceNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
        ),
    ],
)
def test_lazy_layers_become_ordinary(make, shape, text):
    torch.manual_seed(0)
    layer = make()
    assert layer.has_uninitialized_params()
    out = layer(torch.ones(shape))
    assert repr(layer) == text
    assert type(layer).__name__ == text.split("(")[0]
    torch.manual_seed(0)
    same = (
        eval("nn." + text.replace("kernel_size=(3, 3), ", "3, ").replace("kernel_size=(3,), ", "3, "))
        if "Norm" not in text
        else None
    )
    if same is not None:
        assert out.equal(same(torch.ones(shape)))


def test_batch_norm_states_of_old():
    state = nn.BatchNorm2d(3).state_dict()
    assert state._metadata[""] == {"version": 2}
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        nn.BatchNorm2d(3).load_state_dict(state)
    state._metadata[""]["version"] = 1
    assert str(nn.BatchNorm2d(3).load_state_dict(state)) == "<All keys matched successfully>"


def test_sync_batch_norm_conversion():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(made[1]) is nn.SyncBatchNorm
    assert made[1].weight is net[1].weight
    torch.manual_seed(0)
    x = torch.randn(2, 1, 5, 5)
    assert made.eval()(x).equal(net.eval()(x))


def test_transformer_masks():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2).eval()
    x = torch.randn(2, 4, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    whole, start = encoder(x, mask=causal, is_causal=True), encoder(x[:, :2], mask=causal[:2, :2])
    assert torch.allclose(whole[:, :2], start, atol=1e-5)  # later places do not matter
    assert torch.allclose(whole, encoder(x, mask=causal == float("-inf")), atol=1e-6)  # a bool mask says the same
    padding = torch.tensor([[False, False, True, True], [False, False, False, False]])
    padded = encoder(x, src_key_padding_mask=padding)
    assert torch.allclose(padded[0, :2], encoder(x[:1, :2])[0], atol=1e-5)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        nn.Transformer(8, 2, 1, 1, 16)(torch.ones(3, 2, 8), torch.ones(3, 1, 8))


def test_adaptive_log_softmax():
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(32, 10, [2, 5])
    x, target = torch.randn(6, 32), torch.tensor([0, 1, 2, 4, 5, 9])
    out, loss = layer(x, target)
    full = layer.log_prob(x)
    assert torch.allclose(full.exp().sum(1), torch.ones(6), atol=1e-5)
    assert torch.allclose(out, full.gather(1, target[:, None])[:, 0], atol=1e-5)
    assert torch.allclose(loss, -out.mean())
    assert layer.predict(x).equal(full.argmax(1))
    assert list(layer.state_dict()) == [
        "head.weight",
        "tail.0.0.weight",
        "tail.0.1.weight",
        "tail.1.0.weight",
        "tail.1.1.weight",
    ]


def test_layers_load_with_the_first_that_is_asked_for():
    program = "import sys, taper.nn as nn; before = set(sys.modules); nn.ReLU; print(len(set(sys.modules) - before), 'taper.nn.modules.conv' in sys.modules, 'Conv2d' in dir(nn))"
    import sys

    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.split()
    assert int(out[0]) < 8
    assert out[1:] == ["False", "True"]


def test_every_layer_of_pytorch_is_there():
    names = """AdaptiveAvgPool1d AdaptiveLogSoftmaxWithLoss AlphaDropout BCEWithLogitsLoss Bilinear CTCLoss ChannelShuffle Container CosineSimilarity CrossMapLRN2d DataParallel EmbeddingBag
        FeatureAlphaDropout Fold FractionalMaxPool3d GaussianNLLLoss Identity LazyConvTranspose3d LazyInstanceNorm1d LinearCrossEntropyLoss MaxUnpool3d ModuleDict MultiheadAttention
        NLLLoss2d PairwiseDistance ParameterDict PixelUnshuffle RMSNorm RNNCellBase Softmax2d SyncBatchNorm TransformerDecoder TripletMarginWithDistanceLoss Unflatten Unfold
        UpsamplingBilinear2d ZeroPad3d""".split()
    layers = [
        name for name in dir(nn) if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    ]
    assert set(names) <= set(layers)
    assert len(layers) == 163


def test_what_scripts_import():
    names = {}
    exec(
        "from taper.nn import *\nfrom taper.nn.modules import *\nfrom taper.nn.modules.utils import _pair, _triple, _ntuple\nfrom taper.nn.common_types import _size_2_t\n"
        "from taper.nn.modules.conv import _ConvNd, Conv2d as Same\nfrom taper.nn.modules.loss import _Loss\nimport taper.nn.modules.batchnorm as bn",
        names,
    )
    assert names["Conv2d"] is nn.Conv2d is names["Same"]
    assert names["_pair"](3) == (3, 3)
    assert names["_pair"]([1, 2]) == (1, 2)
    assert names["bn"].BatchNorm2d is nn.BatchNorm2d
    assert "functional" in names
    assert str(names["_size_2_t"]) == "typing.Union[int, tuple[int, int]]"
    assert nn.modules.conv.Conv2d is nn.Conv2d
    with pytest.raises(AttributeError, match="no_such_layer"):
        nn.no_such_layer


def _last(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype).to(
        memory_format=torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    )


F = torch.nn.functional


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: F.interpolate(x, 5),
        lambda x: F.interpolate(x, (5, 4), mode="bilinear"),
        lambda x: F.pad(x, (1, 1, 1, 1)),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1],
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: F.channel_shuffle(x, 2),
        lambda x: F.conv2d(x, torch.ones(8, 4, 3, 3)),
        lambda x: F.conv2d(x.contiguous().double(), _last(8, 4, 3, 3).double()),
        lambda x: F.group_norm(x, 2),
        lambda x: F.interpolate(x.to(torch.uint8), 5, mode="bilinear"),
    ],
)
@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[:, :, ::2, 2:]], ids=["whole", "part"])
def test_results_stay_channels_last(layer, part):
    assert layer(part(_last(2, 4, 8, 8))).is_contiguous(memory_format=torch.channels_last)


def test_an_order_of_strides_that_could_be_either_is_contiguous():
    one = _last(2, 3, 8, 8)[0][None]
    assert F.interpolate(one, 4, mode="bilinear").is_contiguous()
    assert F.conv2d(torch.ones(1, 1, 6, 6), torch.ones(8, 1, 3, 3)).is_contiguous()
    assert F.pad(_last(2, 3, 4, 4, 4), (1,) * 6).is_contiguous(memory_format=torch.channels_last_3d)


def test_lanczos():
    """Values of PyTorch's."""
    x = torch.arange(64.0, dtype=torch.float64).view(1, 1, 8, 8) ** 2 / 100
    y = F.interpolate(x, (3, 4), mode="lanczos", antialias=True)
    assert torch.allclose(
        y[0, 0, 1], torch.tensor([8.12712, 9.270496, 10.594324, 11.899514], dtype=torch.float64), atol=1e-5
    )
    assert F.interpolate(x.to(torch.uint8), (3, 4), mode="lanczos", antialias=True).dtype is torch.uint8


def test_attention_as_one_call_is_the_layer():
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x, mask = torch.rand(3, 5, 8), torch.zeros(3, 5, dtype=torch.bool)
    mask[0, -1] = True
    arguments = 8, 2, layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias
    with torch.no_grad():
        out, weights = torch._native_multi_head_attention(x, x, x, *arguments, mask, mask_type=1)
        wanted, expected = layer(x, x, x, key_padding_mask=mask)
        assert torch.allclose(out, wanted, atol=1e-6)
        assert torch.allclose(weights, expected, atol=1e-6)
        q, k, v = torch._transform_bias_rescale_qkv(torch.rand(3, 5, 24), torch.zeros(24), 2)
        assert q.shape == k.shape == v.shape == (3, 2, 5, 4)


def test_bytes_are_whole_after_every_axis():
    """Values of PyTorch's: each axis is rounded before the next one."""
    x = torch.tensor([[10, 20, 90], [200, 7, 33], [5, 250, 61]], dtype=torch.uint8).view(1, 1, 3, 3)
    assert F.interpolate(x, (2, 4), mode="bilinear", align_corners=False).view(-1).tolist() == [
        58,
        32,
        39,
        76,
        54,
        138,
        139,
        54,
    ]


def test_the_two_words_for_padding():
    for layer, word in ((nn.Embedding, "Padding_idx"), (nn.EmbeddingBag, "padding_idx")):
        with pytest.raises(AssertionError, match=word + " must be within num_embeddings"):
            layer(3, 2, padding_idx=5)
    with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings"):
        F.embedding_bag(torch.tensor([[7]]), torch.ones(3, 2), mode="max")


@pytest.mark.parametrize(
    "x, w, options",
    [
        ((2, 8, 9, 9), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
        ((1, 16, 20, 20), (16, 16, 3, 3), {"padding": 2, "dilation": 2}),
        ((1, 16, 20, 20), (16, 4, 3, 3), {"padding": 1, "groups": 4}),
        ((1, 3, 32, 32), (8, 3, 7, 7), {"padding": 3, "stride": 2}),
    ],
)
def test_an_infinity_reaches_only_the_weights_that_meet_it(x, w, options):
    x, w = torch.randn(*x), torch.randn(*w, requires_grad=True)
    x[0, 0, 0, 0] = torch.inf
    y = F.conv2d(x, w, **options)
    got = torch.autograd.grad(y, w, torch.ones_like(y))[0]
    wide = w.detach().double().requires_grad_()
    y = F.conv2d(x.double(), wide, **options)
    want = torch.autograd.grad(y, wide, torch.ones_like(y))[0]
    assert torch.equal(torch.isfinite(got), torch.isfinite(want))
    assert not torch.isnan(got).any()


def test_a_padding_mask_of_another_shape_is_refused():
    """A mask of (source, batch) has as many elements: it must not be read as (batch, source)."""
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.ones(3, 5, 8)
    for shape in (5, 3), (3, 4), (1, 15):
        with pytest.raises(AssertionError, match="Expected key_padded_mask.shape"):
            attention(x, x, x, key_padding_mask=torch.zeros(shape, dtype=torch.bool))


def _padded():
    x, padding = torch.randn(3, 5, 8), torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:] = True
    return x, padding


def test_an_encoder_that_is_evaluated_gives_zeros_for_padding():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    x, padding = _padded()
    recorded = encoder(x, src_key_padding_mask=padding).detach()
    with torch.no_grad():
        out = encoder(x, src_key_padding_mask=padding)
        assert torch.equal(out[~padding], recorded[~padding])
        assert not out[padding].any() and recorded[padding].all()
        nowhere = padding.clone()
        nowhere[1] = True
        assert not encoder(x, src_key_padding_mask=nowhere)[1].any()
        right = encoder(x, src_key_padding_mask=padding.flip(1))  # not at the end: no zeros
        assert right[0, :2].all()
        causal = torch.ones(5, 5).triu(1).bool()
        assert encoder(x, mask=causal, src_key_padding_mask=padding)[0, 3:].all()
        assert encoder.train()(x, src_key_padding_mask=padding)[0, 3:].any()


def test_an_encoder_says_why_it_keeps_padding():
    reasons = {
        "norm_first was True": {"batch_first": True, "norm_first": True},
        "batch_first was not True": {},
        "passed bias=False": {"batch_first": True, "bias": False},
        "activation_relu_or_gelu was not True": {"batch_first": True, "activation": torch.tanh},
    }
    for reason, options in reasons.items():
        with pytest.warns(UserWarning, match=reason):
            encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **options), 1).eval()
        x, padding = _padded()
        with torch.no_grad():
            kept = encoder(x.transpose(0, 1) if not options else x, src_key_padding_mask=padding)
        assert (kept.transpose(0, 1) if not options else kept)[padding].any()


@pytest.mark.parametrize(
    "name, drops", [("dropout", True), ("alpha_dropout", False), ("feature_alpha_dropout", False), ("rrelu", False)]
)
def test_functions_train_by_default_where_pytorchs_do(name, drops):
    x = -torch.ones(64, 4)
    function = getattr(torch.nn.functional, name)
    assert torch.equal(function(x), function(x, training=False)) is not drops
