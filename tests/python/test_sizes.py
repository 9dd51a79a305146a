"""Numbers near the ends of 31 and 63 bits: sizes that overflow are errors, loops follow the input and not the number,
and nothing crashes."""

import itertools
import resource
import subprocess
import sys
import textwrap

import pytest

HEAD = """
import taper as torch
F = torch.nn.functional
x1, x2, x3 = torch.ones(2, 4, 9), torch.ones(2, 4, 6, 6), torch.ones(1, 2, 4, 4, 4)
w1, w2 = torch.ones(4, 4, 3), torch.ones(4, 4, 3, 3)
line = torch.ones(6)
"""

# Each is called with {} = a number that is too large for it; every one must be an error.
REFUSED = [
    "F.conv1d(x1, w1, padding={})",
    "F.conv2d(x2, w2, dilation={})",
    "F.conv_transpose1d(x1, w1, stride={})",
    "F.conv1d(x1, w1, groups={})",
    "torch.nn.Conv1d(4, 4, 3, padding={})(x1)",
    "F.conv2d(x2, w2, padding='same', dilation={})",
    "F.interpolate(x1, size={})",
    "F.interpolate(x1, scale_factor=float({}))",
    "F.interpolate(x2, size=({}, 3), mode='bilinear')",
    "F.interpolate(x2, size=(3, {}), mode='area')",
    "F.adaptive_avg_pool1d(x1, {})",
    "F.adaptive_max_pool2d(x2, ({}, {}))",
    "F.max_pool1d(x1, {})",
    "F.lp_pool2d(x2, 2, {})",
    "F.fractional_max_pool2d(x2, {}, output_size=2)",
    "F.unfold(x2, 2, padding={})",
    "F.fold(torch.ones(2, 16, 9), ({}, 4), 2)",
    "F.pad(x1, ({}, {}))",
    "F.pad(x1, (0, {}), mode='replicate')",
    "F.pad(x1, ({}, -3))",
    "line.repeat({}, {})",
    "torch.tile(x1, ({},))",
    "line.repeat_interleave({})",
    "torch.diagflat(line, {})",
    "torch.fft.fft(line, n={})",
    "torch.fft.rfftn(x1, s=({}, {}))",
    "torch.fft.irfft(line, n={})",
    "torch.zeros({}, {})",
    "torch.empty({}, dtype=torch.float64)",
    "line.expand({}, 5)",
    "line.view({}, -1)",
    "line.unflatten(0, ({}, 2))",
    "line.as_strided((2,), ({},))",
    "line.as_strided((2,), (1,), {})",
    "torch.arange(0, {}, 1)",
    "torch.linspace(0, 1, {})",
    "torch.eye({})",
    "torch.tril_indices({}, {})",
    "torch.combinations(line, {}, with_replacement=True)",
    "F.one_hot(torch.tensor([1]), {})",
    "torch.bincount(torch.tensor([1]), minlength={})",
    "torch.histc(line, bins={})",
    "torch.stft(line, {}, return_complex=True)",
    "F.affine_grid(torch.ones(2, 2, 3), (2, 1, {}, 7))",
    "line.resize_({}, 2)",
    "torch.randperm({})",
    "torch.hamming_window({})",
    "line.split([{}, 2])",
    "line.unfold(0, {}, 1)",
    "F.local_response_norm(x1, {})",
    "F.pixel_shuffle(x2, {})",
    "torch.nn.LSTM(3, 4, num_layers=1)(torch.ones(2, 3, 3), (torch.ones({}, 1, 1),) * 2)",
]
# These have an answer, at once.
ANSWERED = [
    "torch.nn.functional.avg_pool1d(torch.ones(3, 8), [2 ** 31 - 1], [1], 2 ** 30 - 1)",
    "F.max_pool1d(torch.ones(1, 1, 8), 2 ** 31 - 1, 1, 2 ** 30 - 1)",
    "torch.special.legendre_polynomial_p(torch.tensor([0.3, 1.5, -1.0]), 2 ** 31)",
    "torch.special.laguerre_polynomial_l(torch.tensor([0.3, -5.0]), 2 ** 31)",
    "torch.special.hermite_polynomial_h(torch.tensor([0.3]), 2 ** 31)",
    "torch.special.hermite_polynomial_he(torch.tensor([0.3]), 2 ** 31)",
    "[getattr(torch.special, ('shifted_' if s else '') + 'chebyshev_polynomial_' + k)(torch.tensor([0.3, 1.0000001, -3.0, 1.0]), 2 ** 31) for s in (0, 1) for k in 'tuvw']",
    "torch.special.zeta(torch.tensor(2.0, dtype=torch.float64), -1e15 - 0.5)",
    "torch.special.polygamma(2, torch.tensor(-1e9 - 0.5, dtype=torch.float64))",
    "line.split(2 ** 63 - 1)",
    "line.chunk(2 ** 63 - 1)",
    "line[:: 2 ** 62]",
    "line.roll(2 ** 62)",
    "torch.zeros(0, 2 ** 62)",
    "torch.tril(x1, 2 ** 63 - 1)",
    "x1.diagonal(2 ** 62)",
    "torch.stft(torch.ones(20), 8, hop_length=2 ** 62, return_complex=True)",
]


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit,
    )
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
    return done.stdout


@pytest.mark.parametrize("number", [2**62, 2**63 - 1, 2**63 - 5, 2**61])
def test_sizes_that_are_too_large_are_refused(number):
    calls = [text.replace("{}", str(number)) for text in REFUSED]
    out = run(f"""
    import itertools
    for text in {calls!r}:
        try:
            eval(text)
            print(text, "was answered")
        except (RuntimeError, ValueError, TypeError, IndexError, OverflowError, MemoryError, NotImplementedError):
            pass
    """)
    assert out == ""


@pytest.mark.parametrize("text", ANSWERED)
def test_loops_follow_the_input(text):
    run(f"{text}\n")


def test_nested_disable_saved_tensors_hooks():
    run("""
    graph = torch.autograd.graph
    for k in range(200):
        with graph.disable_saved_tensors_hooks("outer%d" % k * 3):
            with graph.disable_saved_tensors_hooks("inner%d" % k * 3):
                pass
            junk = ["y" * (n % 50) for n in range(100)]
            try:
                with graph.saved_tensors_hooks(lambda x: x, lambda x: x):
                    assert False
            except RuntimeError as error:
                assert str(error).startswith("outer%d" % k), error
    with graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        pass
    """)


class Untrue:
    def __bool__(self):
        raise KeyError("no truth")


def test_several_bad_arguments_give_one_error():
    import taper as torch

    x = torch.ones(2, requires_grad=True)
    for first, second in itertools.product((5, "nowhere", "cpu"), (Untrue(), True)):
        if (first, second) != ("cpu", True):
            with pytest.raises((TypeError, RuntimeError, KeyError)):
                torch.set_autocast_enabled(first, second)
    with pytest.raises((TypeError, KeyError)):
        x.sum().backward(gradient=5, retain_graph=Untrue())
    with pytest.raises((TypeError, KeyError)):
        torch.autograd.backward([x.sum()], grad_tensors=[7], retain_graph=Untrue(), create_graph=Untrue())
    with pytest.raises((TypeError, KeyError)):
        x.sum().backward(inputs=[7], create_graph=Untrue())


def test_values_at_high_degrees():
    import taper as torch

    x = torch.tensor([0.3, -0.7, 0.999], dtype=torch.float64)
    # The three-term recurrence holds across the degree at which the formula changes.
    n = 1_000_001
    p = [torch.special.legendre_polynomial_p(x, k) for k in (n - 1, n, n + 1)]
    torch.testing.assert_close((n + 1) * p[2], (2 * n + 1) * x * p[1] - n * p[0], atol=1e-6, rtol=1e-8)
    t = [
        torch.special.chebyshev_polynomial_t(torch.tensor(1.0000001, dtype=torch.float64), k).item()
        for k in (n - 2, n - 1, n)
    ]
    assert t[2] == pytest.approx(2 * 1.0000001 * t[1] - t[0], rel=1e-6)
    assert torch.special.hermite_polynomial_h(torch.tensor(0.3, dtype=torch.float64), 129).item() == pytest.approx(
        -5.06284393305e127, rel=1e-9
    )
    zeta = torch.special.zeta(
        torch.tensor(2.0, dtype=torch.float64), torch.tensor([-999.5, -1000.5, -1001.5], dtype=torch.float64)
    )
    assert zeta[1].item() == pytest.approx(zeta[0].item() + 1000.5**-2, rel=1e-12)
    assert zeta[2].item() == pytest.approx(zeta[1].item() + 1001.5**-2, rel=1e-12)
