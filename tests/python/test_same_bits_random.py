"""Random programs of a few operators give the same value and gradients, to the sign of a zero, whether a profiler runs,
hooks look at every gradient or keep it, what the backward needs is packed, anomalies are looked for, or the program, a
piece of it with several results, or all of its step, is captured. Values are often 0 and -0."""

import contextlib
import random
import warnings

import pytest
import taper as torch
import taper.nn.functional as F

ROWS, COLUMNS, PROGRAMS = 6, 8, 40
ROW_INDEX, COLUMN_INDEX = torch.tensor([5, 0, 0, 3, 1, 2]), torch.tensor([7, 6, 0, 0, 3, 3, 2, 1])
PLACES = torch.tensor([[0, 1, 1, 2, 3, 4, 4, 7]] * ROWS)


def added_to_a_row(a, b):
    y = a.clone()
    y[2] += b[0]
    return y


def column_replaced(a, b):
    y = a * 1
    y[:, 3] = b[:, 0]
    return y


OF_ONE = [
    torch.relu,
    torch.neg,
    torch.tanh,
    torch.sigmoid,
    torch.abs,
    torch.tril,
    torch.square,
    F.gelu,
    F.silu,
    lambda a: a * 0.0,
    lambda a: a * -0.5,
    lambda a: a + -0.0,
    lambda a: a - 1.0,
    lambda a: F.leaky_relu(a, 0.1),
    lambda a: a.exp().clamp(max=3),
    lambda a: a.softmax(-1),
    lambda a: F.layer_norm(a, (COLUMNS,)),
    lambda a: F.normalize(a, dim=1),
    lambda a: a - a.mean(),
    lambda a: a / (1 + a.abs().sum(-1, keepdim=True)),
    lambda a: a.var(0, keepdim=True) * a,
    lambda a: a.norm() * a,
    lambda a: a.std() + a,
    lambda a: a.logsumexp(1, keepdim=True) - a,
    lambda a: a.prod(1, keepdim=True) + a,
    lambda a: a.max(0, keepdim=True)[0] + a,
    lambda a: a.amax(1, keepdim=True) * a,
    lambda a: a.flip(0),
    lambda a: a.roll(1, 1),
    lambda a: a.cumsum(1),
    lambda a: a.sort(1)[0],
    lambda a: a.gather(1, PLACES),
    lambda a: a[ROW_INDEX],
    lambda a: a[:, COLUMN_INDEX],
    lambda a: a.t().contiguous().t(),
    lambda a: a.reshape(COLUMNS, ROWS).t(),
    lambda a: a.unflatten(1, (2, 4)).transpose(1, 2).flatten(1),
    lambda a: a.expand(2, ROWS, COLUMNS).sum(0),
    lambda a: torch.cat([a[:3], a[3:] * -1]),
    lambda a: torch.stack([a[k] for k in range(ROWS)]),
    lambda a: a.split(4, 1)[0].repeat(1, 2),
    lambda a: a.chunk(2, 0)[1].repeat(2, 1),
    lambda a: a[::2].repeat(2, 1) + a[1],
    lambda a: a[1:4, 2:].sum() + a,
    lambda a: a.diagonal().sum() * a,
    lambda a: F.pad(a[:, 1:], (0, 1)),
    lambda a: a.masked_fill(a > 0.3, 0.0),
    lambda a: torch.where(a > 0, a, a * 0),
    lambda a: F.dropout(a, 0.3),
    lambda a: a.clone().mul_(2).relu_(),
    lambda a: F.max_pool1d(a[None], 3, 1, 1)[0],
    lambda a: F.avg_pool1d(a[None], 3, 1, 1)[0],
]
OF_TWO = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    added_to_a_row,
    column_replaced,
    lambda a, b: a @ b.t() @ a,
    lambda a, b: torch.addmm(a, b, b.t() @ a),
    lambda a, b: torch.einsum("ij,kj->ik", a, b) @ b,
    lambda a, b: F.linear(a, b.repeat(2, 1)[:COLUMNS]),
    lambda a, b: a + b[0],
    lambda a, b: a * b[:, :1],
    lambda a, b: torch.outer(a[:, 0], b[0]),
    lambda a, b: torch.where(a > b, a, b),
    lambda a, b: a / (b.abs() + 1),
    lambda a, b: a.lerp(b, 0.3),
    lambda a, b: torch.cat([a, b], 1)[:, 4:12],
    lambda a, b: F.scaled_dot_product_attention(a[None, None], b[None, None], a[None, None])[0, 0],
    lambda a, b: a.scatter_add(1, PLACES, b),
    lambda a, b: a.index_add(0, ROW_INDEX, b),
]


def program(seed):
    """A function of two tensors, and of what is shown every value on the way."""
    draw = random.Random(seed)
    steps = []
    for made in range(2, 2 + draw.randrange(3, 9)):
        operator = draw.choice(OF_ONE if draw.random() < 0.55 else OF_TWO)
        steps.append((operator, [draw.randrange(made) for _ in range(1 + (operator in OF_TWO))]))
    last = len(steps) + 1
    results = [
        (i, draw.choice([1.0, -1.0, 0.0, -0.5])) for i in (last, draw.randrange(last + 1), draw.randrange(last + 1))
    ]

    def extend(values, steps, show=lambda t: None):
        for operator, operands in steps:
            values.append(operator(*[values[i] for i in operands]))
            show(values[-1])

    def total(values):
        return sum((values[i] * factor).sum() for i, factor in results)

    def run(a, b, show=lambda t: None):
        values = [a, b]
        extend(values, steps, show)
        return total(values)

    first = draw.randrange(1, len(steps) + 1)
    read_later = {i for _, operands in steps[first:] for i in operands} | {i for i, _ in results}
    handed_on = [i for i in range(2, 2 + first) if i in read_later]

    def begin(a, b):
        """The first steps, and of what they make what the rest of the program reads."""
        values = [a, b]
        extend(values, steps[:first])
        return tuple(values[i] for i in handed_on)

    def run_in_pieces(wrap):
        wrapped = wrap(begin)

        def run(a, b):
            values = [a, b] + [None] * first
            for i, value in zip(handed_on, wrapped(a, b), strict=True):
                values[i] = value
            extend(values, steps[first:])
            # A result of a graph whose gradient does not come gets zeros, as in PyTorch: so every one's comes.
            return total(values) + sum((values[i] * 0.5).sum() for i in handed_on)

        return run

    run.in_pieces = run_in_pieces
    return run


def leaves(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(ROWS, COLUMNS, generator=generator), torch.randn(ROWS, COLUMNS, generator=generator)
    a[a.abs() < 0.4], b[b.abs() < 0.4] = 0.0, -0.0
    return a.to(dtype).requires_grad_(), b.to(dtype).requires_grad_()


def bits(t):
    return b"" if t is None else t.detach().reshape(-1).view(torch.uint8).numpy().tobytes()


def run(step, seed, dtype, around=contextlib.nullcontext):
    """The value and the gradients, of the third time: the first two may be captured."""
    for _ in range(3):
        a, b = leaves(seed, dtype)
        torch.manual_seed(1)
        with around():
            value = step(a, b)
            left = [bits(value)]
        left += [bits(a.grad), bits(b.grad)]
    return left


def eager(function, **options):
    def step(a, b):
        value = function(a, b, **options)
        value.backward()
        return value.detach()

    return step


def hooked(function):
    kept = []  # a gradient that somebody holds is nobody's to write into

    def show(t):
        if t.requires_grad:
            t.register_hook(kept.append)
            t.grad_fn.register_hook(lambda grad_inputs, grad_outputs: kept.append(grad_inputs))

    return eager(function, show=show)


WAYS = {
    "profiler": lambda f: (eager(f), torch.profiler.profile),
    "hooks": lambda f: (hooked(f), contextlib.nullcontext),
    "anomalies": lambda f: (eager(f), torch.autograd.detect_anomaly),
    "packed": lambda f: (
        eager(f),
        lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t),
    ),
    "compiled": lambda f: (eager(torch.compile(f)), contextlib.nullcontext),
    "a piece compiled": lambda f: (eager(f.in_pieces(torch.compile)), contextlib.nullcontext),
    "whole step": lambda f: (torch.compile(eager(f)), contextlib.nullcontext),
}


@pytest.mark.parametrize("first", range(0, 6 * PROGRAMS, PROGRAMS))
@pytest.mark.parametrize("way", WAYS)
def test_random_programs(way, first):
    for seed in range(first, first + PROGRAMS):
        dtype = (
            torch.float64
            if seed % 5 == 4
            else torch.bfloat16
            if seed % 5 == 3 and way != "anomalies"
            else torch.float32
        )
        function = program(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is no graph runs eagerly, and says so
            plain = function.in_pieces(lambda piece: piece) if way == "a piece compiled" else function
            want = run(eager(plain), seed, dtype)
            step, around = WAYS[way](function)
            got = run(step, seed, dtype, around)
        assert got == want, f"seed {seed}, {dtype}: " + ", ".join(
            name for name, x, y in zip(("value", "a's gradient", "b's gradient"), want, got) if x != y
        )
