"""Maps before and behind a norm on a GPU are run by the norm's own kernel: with the bits of the operators one by one, and
without a kernel of their own. On an OpenCL device (PoCL where there is no GPU)."""

import os

os.environ.setdefault("TAPER_XPU_DEVICES", "all")
import pytest
import taper as torch
import taper.nn.functional as F

if not torch.xpu.is_available():
    pytest.skip("no OpenCL device here", allow_module_level=True)

LAST = torch.channels_last


def drawn(*shape, dtype=torch.float32, layout=torch.contiguous_format):
    return torch.randn(*shape).to("xpu", dtype).contiguous(memory_format=layout)


def trained(function, inputs):
    """Results and gradients."""
    leaves = [x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in inputs]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    torch.autograd.backward(results, [torch.ones_like(r) * 0.5 for r in results])
    return [*results, *(x.grad for x in leaves)]


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        assert torch.equal(a.detach().cpu(), b.detach().cpu())


def steps_of(function, inputs):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(*inputs)
    return [e.name for e in profile.events()]


def chain(x, residual, weight, bias):
    total = x + residual
    return F.gelu(F.layer_norm(total, (64,), weight, bias)) * 0.5 + residual


def narrowed(x, residual, weight, bias):
    total = x + residual
    return F.layer_norm(total, (64,), weight, bias).to(torch.bfloat16), total


def kept(x, residual, weight, bias):
    h = F.layer_norm(x, (64,), weight, bias)
    return h, torch.relu(h) * residual


def by_squares(x, residual, weight, bias):
    total, factor = x + residual, bias.sum()
    return (F.rms_norm(total, (64,), weight) * factor).to(torch.bfloat16), total


def scaled(x, residual, weight, bias):
    """An operand of one element, on the device."""
    factor = residual.sum()
    return F.layer_norm(x, (64,), weight, bias) * factor


expected_steps = {
    chain: ["aten::native_layer_norm"],
    narrowed: ["aten::native_layer_norm"],
    kept: ["aten::native_layer_norm"],
    scaled: ["aten::sum", "aten::native_layer_norm"],
    by_squares: ["aten::sum", "aten::rms_norm_forward"],
}


@pytest.mark.parametrize("function", expected_steps)
def test_layer_norm(function):
    torch.manual_seed(0)
    inputs = [drawn(6, 64), drawn(6, 64), drawn(64), drawn(64)]
    expected, compiled = trained(function, inputs), torch.compile(function)
    for _ in range(3):
        same(trained(compiled, inputs), expected)
    with torch.no_grad():
        for _ in range(2):
            compiled(*inputs)
        names = steps_of(compiled, inputs)
    assert [name for name in names if name.startswith(("fused", "aten::"))] == expected_steps[function], names


def test_rows_that_are_too_long():
    """Kernels that do not take what stands before and behind them: it runs by itself."""
    torch.manual_seed(0)
    weight = drawn(40000)

    def function(x, y):
        return torch.relu(F.layer_norm(x + y, (40000,), weight, None))

    inputs, compiled = [drawn(2, 40000), drawn(2, 40000)], torch.compile(function)
    with torch.no_grad():
        for _ in range(3):
            same([compiled(*inputs)], [function(*inputs)])
        assert steps_of(compiled, inputs) == ["fused: add", "aten::native_layer_norm", "fused: relu"]


@pytest.mark.parametrize("layout", [torch.contiguous_format, LAST])
@pytest.mark.parametrize("channels", [3, 8])
def test_batch_norm(layout, channels):
    """relu in place behind one, a residual and relu behind the other; their backward has relu's behind it."""
    torch.manual_seed(0)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (torch.nn.BatchNorm2d(channels) for _ in range(2))
            self.act = torch.nn.ReLU(inplace=True)

        def forward(self, x, y):
            return F.relu(self.second(self.act(self.first(x * 1.5))) + y)

    block, other = Block().to("xpu"), Block().to("xpu")
    inputs = [drawn(2, channels, 4, 8, dtype=torch.bfloat16, layout=layout) for _ in range(2)]
    compiled = torch.compile(other)
    for _ in range(3):
        same(trained(compiled, inputs), trained(block, inputs))
        same([p.grad for p in other.parameters()], [p.grad for p in block.parameters()])
        same(list(other.buffers()), list(block.buffers()))
    for _ in range(2):
        compiled(*inputs)
    names = steps_of(compiled, inputs)
    after = names[names.index("aten::batch_norm_forward") + 1 :]
    assert [name for name in after if name.startswith(("fused", "aten::"))].count("aten::batch_norm_forward") == 1
    assert not [name for name in after if "relu" in name], names


@pytest.mark.parametrize("layout", [torch.contiguous_format, LAST])
def test_maps_before_the_backward_of_batch_norm(layout):
    """What goes back through relu and into residual sums is computed by the norms' kernels as they read it."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = torch.nn.ModuleList(torch.nn.Conv2d(8, 8, 1, bias=False) for _ in range(2))
            self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(8) for _ in range(2))

        def forward(self, x):
            inner = F.relu(self.norms[0](self.convs[0](x)), inplace=True)
            return F.relu(self.norms[1](self.convs[1](inner)) + x)

    def network():
        torch.manual_seed(0)
        first = torch.nn.Conv2d(3, 8, 1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()
        last = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
        return torch.nn.Sequential(*first, Block(), Block(), *last).to("xpu", memory_format=layout)

    eager, ours = network(), network()
    compiled, x = torch.compile(ours), drawn(2, 3, 4, 4, layout=layout)
    for _ in range(3):
        same(trained(compiled, [x]), trained(eager, [x]))
        same([p.grad for p in ours.parameters()], [p.grad for p in eager.parameters()])
        ours.zero_grad()
        eager.zero_grad()
    result = compiled(x)
    names = steps_of(result.backward, [torch.ones_like(result)])
    behind = names[names.index("aten::adaptive_avg_pool_backward") + 1 :]
    assert not [name for name in behind if "relu" in name], names
    assert [name for name in behind if name.startswith("fused")] == [], names


@pytest.mark.parametrize("through", [(6, 64), (2, 3, 64)])
def test_a_cast_before_a_backward_is_left_out(through):
    """The gradient of a norm's result that was narrowed is read as it is, also by way of a view."""
    torch.manual_seed(0)
    weight = drawn(64)

    def function(x):
        return F.layer_norm(x, (64,), weight, None).to(torch.bfloat16).view(through)

    inputs = [drawn(6, 64)]
    expected, compiled = trained(function, inputs), torch.compile(function)
    for _ in range(3):
        same(trained(compiled, inputs), expected)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        trained(compiled, inputs)
    names = [e.name for e in profile.events()]
    between = names[names.index("CompiledFunctionBackward") + 1 : names.index("aten::native_layer_norm_backward")]
    assert not between, names


def test_what_comes_between_stays_in_order():
    """A map that reads what was written after the norm is not moved before the write."""
    torch.manual_seed(0)
    weight, bias = drawn(64), drawn(64)

    def function(x, y):
        h = F.layer_norm(x, (64,), weight, bias)
        y.add_(1)
        return h * y

    x, ours, theirs = drawn(6, 64), drawn(6, 64), None
    theirs = ours.clone()
    compiled = torch.compile(function)
    with torch.no_grad():
        for _ in range(3):
            same([compiled(x, ours), ours], [function(x, theirs), theirs])
