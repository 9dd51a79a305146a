"""Graphs on an OpenCL device (PoCL where there is no GPU): chains of operators that become one kernel give the bits of
the operators one by one, whatever the dtypes, strides and broadcasting."""

import os
import random

os.environ.setdefault("TAPER_XPU_DEVICES", "all")
import pytest
import taper as torch

if not torch.xpu.is_available():
    pytest.skip("no OpenCL device here", allow_module_level=True)

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
DTYPES = [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
ONE = {
    "float": [torch.tanh, torch.sigmoid, torch.exp, torch.nn.functional.gelu, torch.sqrt, torch.log1p],
    "any": [lambda x: x * x, lambda x: x + 1, lambda x: -(x * 3), torch.abs, lambda x: 2 - x * 0.5],
}
TWO = [
    lambda a, b: a * b + a,
    lambda a, b: a - b * 1.25,
    lambda a, b: torch.add(a, b, alpha=2),
    lambda a, b: torch.where(b != 0, a, b),
]
REAL_TWO = [torch.maximum, torch.minimum, lambda a, b: (a > b) & (a < 3), lambda a, b: torch.clamp(a * b, -2, 2)]


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.stride() == b.stride()
    a, b = a.cpu().contiguous(), b.cpu().contiguous()
    both = (a == b) | ((a != a) & (b != b))
    assert both.all(), f"{(~both).sum().item()} of {a.numel()} elements differ"


def tensor(choose, shape):
    dtype = choose.choice(DTYPES)
    x = (torch.rand(shape) * 4 - 1).to(dtype) if dtype != torch.complex64 else torch.randn(shape, dtype=dtype)
    return x.to("xpu")


def leaf(choose, shape):
    """A tensor that broadcasts to the shape: whole, strided, turned over, or wide where it is one."""
    kind = choose.choice(["whole", "whole", "strided", "turned", "row", "column", "one"])
    if kind == "strided":
        return tensor(choose, [*shape[:-1], 2 * shape[-1]])[..., ::2]
    if kind == "turned":
        return tensor(choose, shape[::-1]).permute(*range(len(shape))[::-1])
    if kind == "row":
        return tensor(choose, shape[-1:])
    if kind == "column":
        return tensor(choose, [*shape[:-1], 1])
    return tensor(choose, shape if kind == "whole" else [])


def program(choose, inputs):
    """A list of steps over numbered values, and which of them are results."""
    steps, kinds = [], [x.dtype for x in inputs]
    for _ in range(choose.randint(3, 12)):
        a, b = choose.randrange(len(kinds)), choose.randrange(len(kinds))
        bools, complexes = torch.bool in (kinds[a], kinds[b]), kinds[a].is_complex or kinds[b].is_complex
        if choose.random() < 0.2:
            to = choose.choice(FLOATS)
            if not complexes:
                steps.append((lambda x, to=to: x.to(to), [a]))
        elif bools:
            steps.append((lambda x, y: x * y + 1, [a, b]))
        elif choose.random() < 0.4:
            steps.append(
                (choose.choice(ONE["any"] + ([] if complexes or not kinds[a].is_floating_point else ONE["float"])), [a])
            )
        else:
            steps.append((choose.choice(TWO + ([] if complexes else REAL_TWO)), [a, b]))
        if len(steps) + len(inputs) > len(kinds):
            function, places = steps[-1]
            values = [torch.ones(2, dtype=kinds[i]) for i in places]
            kinds.append(function(*values).dtype)
    results = choose.sample(range(len(inputs), len(kinds)), min(3, len(kinds) - len(inputs)))

    def run(*values):
        values = list(values)
        for function, places in steps:
            values.append(function(*(values[i] for i in places)))
        return [values[i] for i in results]

    return run


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    torch.manual_seed(seed)
    choose = random.Random(seed)
    shape = choose.choice([[7, 33], [4, 5, 16], [130], [3, 1, 64], [2, 3, 4, 5]])
    inputs = [tensor(choose, shape)] + [leaf(choose, shape) for _ in range(choose.randint(1, 4))]
    run = program(choose, inputs)
    wanted, compiled = run(*inputs), torch.compile(run)
    for _ in range(2):
        for a, b in zip(compiled(*inputs), wanted):
            same(a, b)


def names(function, *args):
    function(*args), function(*args)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        function(*args)
    return [e.name for e in p.events()]


def test_a_chain_is_one_kernel():
    x, y, bias = torch.randn(64, 48).to("xpu"), torch.randn(64, 48).to("xpu"), torch.randn(48).to("xpu")

    def chain(x, y, bias):
        a = torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + bias
        half = a.to(torch.bfloat16)
        return half * 2, a > 0

    seen = names(torch.compile(chain), x, y, bias)
    assert len(seen) == 1, seen
    assert seen[0].startswith("fused: "), seen
    for a, b in zip(torch.compile(chain)(x, y, bias), chain(x, y, bias)):
        same(a, b)


def test_products_and_sums_round_one_by_one():
    x, y, z = (torch.randn(1000).to("xpu") for _ in range(3))
    chain = lambda x, y, z: x * y + z
    compiled = torch.compile(chain)
    compiled(x, y, z)
    same(compiled(x, y, z), chain(x, y, z))
    wide = (x.double() * y.double() + z.double()).float()
    assert not (wide == chain(x, y, z)).all()  # or one instruction might have done both


def test_gradients_have_the_same_bits():
    sides = []
    for compiled in (False, True):
        torch.manual_seed(1)
        x, w = (torch.randn(33, 17).to("xpu").requires_grad_() for _ in range(2))
        bias = torch.randn(17).to("xpu").requires_grad_()
        run = lambda x, w, bias: (
            torch.nn.functional.gelu(x * w + bias).to(torch.bfloat16).float() * torch.sigmoid(x)
        ).sum()
        run = torch.compile(run) if compiled else run
        for _ in range(3):
            x.grad = w.grad = bias.grad = None
            run(x, w, bias).backward()
        sides.append((x.grad, w.grad, bias.grad))
    for a, b in zip(*sides):
        same(a, b)


def test_more_operands_and_dims_than_a_kernel_takes():
    shape = [2] * 9
    many = [torch.randn(shape).to("xpu").permute(*choose) for choose in ([*range(i, 9), *range(i)] for i in range(9))]
    run = lambda *xs: sum((x * (i + 0.5) for i, x in enumerate(xs)), xs[0] * 2)
    compiled = torch.compile(run)
    compiled(*many)
    same(compiled(*many), run(*many))


def scaled(x, y, line, column, turned):
    return (x * 1.5 + y) * line + column, turned


FOLDS = {  # what is folded, and how
    "rows": lambda *v: scaled(*v)[0].sum(-1),
    "columns": lambda *v: scaled(*v)[0].sum(0),
    "all": lambda *v: scaled(*v)[0].sum(),
    "largest": lambda *v: (scaled(*v)[0] * v[4]).amax(1, keepdim=True),
    "with places": lambda *v: torch.max(torch.sigmoid(v[0]) - v[3], 0),
    "read again": lambda *v: (scaled(*v)[0].mean(0), torch.exp(scaled(*v)[0])),
    "kept": lambda *v: (lambda a: (a, a.sum(1), a * 2))(v[0] * v[4] + 1),
    "narrow": lambda *v: (v[0].to(torch.bfloat16) * v[1].to(torch.bfloat16)).sum(1),
    "whole numbers": lambda *v: ((v[0] * 8).to(torch.int32) + 3).sum(0),
}


@pytest.mark.parametrize("how, shape", [*((how, (12, 64)) for how in FOLDS), ("rows", (5, 33)), ("all", (1, 700))])
def test_folds_take_what_chains_make(how, shape):
    torch.manual_seed(2)
    rows, columns = shape
    inputs = [torch.randn(s).to("xpu") for s in (shape, shape, (columns,), (rows, 1), (columns, rows))]
    inputs[4] = inputs[4].t()
    compiled, run = torch.compile(FOLDS[how]), FOLDS[how]
    for _ in range(2):
        wanted, got = run(*inputs), compiled(*inputs)
        for a, b in zip(*((v,) if isinstance(v, torch.Tensor) else v for v in (got, wanted))):
            same(a, b)


def test_a_chain_and_its_fold_are_one_step():
    x, line = torch.randn(40, 64).to("xpu"), torch.randn(64).to("xpu")
    compiled = torch.compile(lambda x, line: (torch.tanh(x) * line).sum(0))
    seen = names(compiled, x, line)
    assert len(seen) == 1, seen
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.XPU]) as p:
        compiled(x, line)
    kernels = [e.name for e in p.events() if e.name.startswith("taper_")]
    assert kernels, kernels
    assert all("FOLD" in name for name in kernels), kernels  # no map of its own
    empty = torch.randn(0, 8).to("xpu")
    run = lambda x: (x * 2 + 1).sum(0)
    compiled = torch.compile(run)
    compiled(empty)
    same(compiled(empty), run(empty))


def test_sums_of_gradients_move_up_to_what_they_read():
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).to("xpu")
    x = torch.randn(6, 8).to("xpu")

    def gradients(run):
        net.zero_grad()
        run(x).backward()
        return [p.grad for p in net.parameters()]

    loss = lambda x: net(x).pow(2).mean()
    compiled = torch.compile(loss)
    for _ in range(2):
        for a, b in zip(gradients(compiled), gradients(loss)):
            same(a, b)
    seen = names(lambda: gradients(compiled))
    assert any(name.startswith("fused: ") and "tanh" in name and "sum" in name for name in seen), seen

    def written_between(x, y):  # the sum must not move before the write
        a = x * y + 1
        b = a @ y
        a[0] = 7.0
        return b, a.sum(0)

    values = [torch.randn(5, 5).to("xpu") for _ in range(2)]
    compiled = torch.compile(written_between)
    for _ in range(2):
        for a, b in zip(compiled(*values), written_between(*values)):
            same(a, b)


@pytest.mark.parametrize("device", ["cpu", "xpu"])
@pytest.mark.parametrize("pieces", [(16, 16, 16), (16, 8, 24), (16, 32)])
def test_gradients_of_pieces_are_written_once(device, pieces):
    def loss(x, w):
        q, k, v = (x * w).split(pieces, 1) if len(pieces) == 3 else (*(x * w).split(pieces, 1), None)
        out = torch.tanh(q[:, :8] * k[:, :8]).sum() + (q * 2 - k.sum(1, keepdim=True)).square().sum()
        return out if v is None else out + (v * v[:, :1]).sum()

    sides, seen = [], None
    for run in (loss, torch.compile(loss)):
        torch.manual_seed(3)
        x, w = (torch.randn(12, 48).to(device).requires_grad_() for _ in range(2))
        for _ in range(2):
            x.grad = w.grad = None
            run(x, w).backward()
        sides.append((x.grad, w.grad))
    for a, b in zip(*sides):
        same(a, b)


def test_a_split_goes_back_without_zeros():
    def loss(x, w):
        q, k, v = (x @ w).split(16, 1)
        return (torch.tanh(q) * torch.sigmoid(k) + v).sum()

    x, w = (torch.randn(48, 48).to("xpu").requires_grad_() for _ in range(2))
    run = torch.compile(loss)

    def step():
        run(x, w).backward()

    seen = names(step)
    assert "fill_" not in seen, seen
    assert not [name for name in seen if "slice_backward" in name], seen
