"""torch.autocast, torch.amp and gradient scaling against what PyTorch does."""

import os
import pickle
import sys
import threading
import warnings

import pytest

import taper as torch
from taper._hook import install

install()
sys.path.insert(0, os.path.dirname(__file__))
import autocast_cases  # noqa: E402  (it says `import torch`)

F = torch.nn.functional
NEW = torch.amp.GradScaler


def recorded():
    with open(os.path.join(os.path.dirname(__file__), "autocast.txt"), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if not line.startswith("#")]


def test_every_operator_gives_pytorchs_dtype():
    assert autocast_cases.table() == recorded()


@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16])
def test_lower_precision_is_the_regions(lower):
    with torch.autocast("cpu", lower):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == lower
        assert torch.get_autocast_dtype("cpu") == lower
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_an_lstm_runs_in_the_lower_precision():
    # PyTorch's CPU kernel gives this where the processor has bfloat16, and fails elsewhere.
    weights = [torch.randn(16, 3), torch.randn(16, 4), torch.randn(16), torch.randn(16)]
    with torch.autocast("cpu"):
        out, h, c = torch.lstm(
            torch.randn(5, 2, 3), [torch.zeros(1, 2, 4)] * 2, weights, True, 1, 0.0, False, False, False
        )
    assert {out.dtype, h.dtype, c.dtype} == {torch.bfloat16}


def test_gradients_come_back_in_float32():
    w = torch.randn(3, 4, requires_grad=True)
    x = torch.randn(2, 4)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
        loss = F.mse_loss(F.linear(x, w), torch.zeros(2, 3)) + y.float().sum()
    loss.backward()
    assert w.grad.dtype == torch.float32
    plain = w.detach().clone().requires_grad_()
    (F.mse_loss(F.linear(x, plain), torch.zeros(2, 3)) + F.linear(x, plain).sum()).backward()
    assert torch.allclose(w.grad, plain.grad, rtol=0.05, atol=0.05)


def test_decorator_and_nesting():
    @torch.autocast("cpu")
    def product(x):
        "A product."
        with torch.autocast("cpu", enabled=False):
            plain = x @ x
        return (x @ x).dtype, plain.dtype

    assert product(torch.ones(2, 2)) == (torch.bfloat16, torch.float32)
    assert product.__doc__ == "A product."
    with pytest.raises(KeyError):
        with torch.autocast("cpu"):
            raise KeyError
    assert not torch.is_autocast_enabled("cpu")


def test_regions_are_per_thread():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert seen == [torch.float32]


def test_settings():
    assert not torch.is_autocast_enabled()
    assert not torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled("cpu", True)
    assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled()
    torch.set_autocast_enabled("cpu", False)
    assert torch.get_autocast_dtype("cuda") == torch.get_autocast_dtype("mps") == torch.float16
    assert torch.autocast_increment_nesting() == 1
    assert torch.autocast_decrement_nesting() == 0
    assert torch.is_autocast_cache_enabled()
    with torch.autocast("cpu", cache_enabled=False):
        assert not torch.is_autocast_cache_enabled()
    assert torch.is_autocast_cache_enabled()
    with pytest.warns(DeprecationWarning, match="is_autocast_enabled"):
        assert torch.is_autocast_cpu_enabled() is False
    with pytest.warns(DeprecationWarning, match="get_autocast_dtype"):
        assert torch.get_autocast_cpu_dtype() == torch.bfloat16
    assert torch.amp.is_autocast_available("cpu")
    assert not torch.amp.is_autocast_available("meta")
    with pytest.raises(RuntimeError, match="device"):
        torch.is_autocast_enabled("abacus")


def test_refusals_and_warnings():
    with pytest.warns(UserWarning, match="CUDA is not available or torch_xla is imported. Disabling autocast."):
        assert not torch.autocast("cuda")._enabled
    with pytest.warns(
        UserWarning, match="CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
    ):
        assert not torch.autocast("cpu", torch.float32)._enabled
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device("cpu"))
    with pytest.warns(FutureWarning, match=r"torch.amp.autocast\('cpu', args...\)"):
        region = torch.cpu.amp.autocast()
    with region:
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.amp.autocast()
        torch.cuda.amp.GradScaler()
    assert [w.category for w in caught] == [FutureWarning, UserWarning] * 2


def test_custom_functions_in_a_region():
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            seen.append(torch.is_autocast_enabled("cpu"))
            return grad @ w.t(), x.t() @ grad

    class Exact(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            return grad * 2

    seen = []
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    with torch.autocast("cpu"):
        y = Product.apply(x, w)
        assert y.dtype == torch.bfloat16
        assert Exact.apply(y).dtype == torch.float32
    y.sum().backward()
    assert seen == [(torch.float32, False), True]
    assert x.grad.dtype == torch.float32


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_run_again_in_their_region(reentrant):
    from taper.utils.checkpoint import checkpoint

    seen = []

    def segment(x):
        seen.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
        return F.relu(x @ w).sum()

    w, x = torch.randn(3, 4, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        loss = checkpoint(segment, x, use_reentrant=reentrant)
    loss.backward()
    assert seen == [torch.float16, torch.float16]
    assert w.grad.dtype == torch.float32
    loss = checkpoint(segment, x, use_reentrant=reentrant)
    with torch.autocast("cpu"):
        loss.backward()
    assert seen[2:] == [None, None]


class Steps:
    """As much of an optimiser as a scaler needs."""

    def __init__(self, *params):
        self.param_groups = [{"params": list(params)}]
        self.steps = 0

    def step(self):
        self.steps += 1
        return "stepped"


def test_a_scaler_scales_and_unscales():
    p = torch.ones(3, requires_grad=True)
    optimizer, scaler = Steps(p), NEW("cpu", init_scale=8.0, growth_interval=2)
    loss = scaler.scale((p * 2).sum())
    assert loss.item() == 48
    assert type(loss.grad_fn).__name__ == "MulBackward0"
    loss.backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [2, 2, 2]
    with pytest.raises(
        RuntimeError, match=r"unscale_\(\) has already been called on this optimizer since the last update\(\)."
    ):
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped"
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)."):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)."):
        scaler.unscale_(optimizer)
    scaler.update()
    assert scaler.get_scale() == 8
    assert scaler.state_dict()["_growth_tracker"] == 1
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 16  # two finite steps in a row
    p.grad.fill_(float("inf"))
    assert scaler.step(optimizer) is None
    assert optimizer.steps == 2
    scaler.update()
    assert scaler.get_scale() == 8
    scaler.update(3.0)
    assert scaler.get_scale() == 3
    outputs = scaler.scale([p.sum(), (p.sum(),)])
    assert outputs[0].item() == 9
    assert outputs[1][0].item() == 9


def test_a_scalers_errors():
    p = torch.ones(2, requires_grad=True)
    optimizer, scaler = Steps(p), NEW("cpu")
    with pytest.raises(AssertionError, match="Attempted step but _scale is None."):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="Attempted update but _scale is None."):
        scaler.update()
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer."):
        scaler.step(optimizer)
    half = torch.ones(2, dtype=torch.float16, requires_grad=True)
    half.grad = torch.ones(2, dtype=torch.float16)
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients."):
        scaler.unscale_(Steps(half))
    with pytest.raises(RuntimeError, match="Closure use is not currently supported if GradScaler is enabled."):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        scaler.load_state_dict({})


def test_a_scalers_state():
    scaler = NEW("cpu", init_scale=4.0)
    assert scaler.state_dict() == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 0,
    }
    other = NEW("cpu")
    other.scale(torch.ones(()))
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 4
    assert pickle.loads(pickle.dumps(other)).get_scale() == 4
    off = NEW("cpu", enabled=False)
    p = torch.ones(2, requires_grad=True)
    optimizer, loss = Steps(p), p.sum()
    assert off.scale(loss) is loss
    assert off.step(optimizer) == "stepped"
    assert off.update() is None
    assert off.state_dict() == {}
    assert off.get_scale() == 1.0
    assert not off.is_enabled()


def test_autocast_says_what_it_was_given():
    with pytest.raises(RuntimeError, match="Invalid device string: 'not a real device'"):
        torch.autocast(device_type="not a real device")
    with pytest.raises(TypeError, match=r"autocast\(\)\(func\) requires a callable, but got Tensor"):
        torch.autocast(device_type="cpu")(torch.ones(2))
    assert torch.get_autocast_dtype(device_type="cpu") == torch.bfloat16
    assert not torch.is_autocast_enabled(device_type="cpu")


def test_optimisers_that_unscale_by_themselves():
    class Own(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            seen.append((self.grad_scale.item(), self.found_inf.item()))

    class Older(torch.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None, *, grad_scaler=None):
            seen.append(grad_scaler)

    seen, p = [], torch.ones(2, requires_grad=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    own, older = Own([p], lr=1.0), Older([p], lr=1.0)  # both stay: a scaler knows them by their addresses
    scaler.step(own)
    with pytest.warns(FutureWarning, match="stop passing itself"):
        scaler.step(older)
    assert seen == [(4.0, 0.0), scaler]
    assert p.grad.tolist() == [4.0, 4.0]


def test_the_pieces_of_a_scaler():
    grads, found = [torch.full((2,), 4.0), torch.tensor([float("inf")])], torch.zeros(1)
    torch._amp_foreach_non_finite_check_and_unscale_(grads[:1], found, torch.tensor(0.25))
    assert grads[0].tolist() == [1, 1]
    assert found.item() == 0
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor(0.25))
    assert found.item() == 1
    scale, tracker = torch.tensor([4.0]), torch.tensor([0], dtype=torch.int32)
    for inf, expected in ((0, 4.0), (0, 8.0), (1, 2.0)):
        torch._amp_update_scale_(scale, tracker, torch.tensor([float(inf)]), 2.0, 0.25, 2)
        assert scale.item() == expected


@pytest.mark.parametrize("device", ["cpu"] + ["xpu"] * torch.xpu.is_available())
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_cross_entropy_reads_narrow_scores_as_they_are(device, dtype):
    torch.manual_seed(0)
    scores, target = torch.randn(64, 333).to(dtype).to(device), torch.randint(0, 333, (64,)).to(device)
    for options in ({}, {"weight": torch.rand(333).to(device)}, {"reduction": "sum"}, {"reduction": "none"}):
        sides = []
        for narrow in (True, False):
            x = scores.detach().clone().requires_grad_()
            with torch.autocast(device, dtype=dtype, enabled=narrow), torch.profiler.profile() as profile:
                loss = F.cross_entropy(x if narrow else x.float(), target, **options)
                loss.sum().backward()
            copies = [e.name for e in profile.events() if "copy" in e.name]
            assert bool(copies) != narrow
            sides.append((loss, x.grad))
        for a, b in zip(*sides):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)
