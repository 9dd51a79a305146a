"""torch.compile: graphs give what the Python gives, bit by bit, forward and backward; they notice what changes; and
what no graph can repeat runs as it is, with one warning that names the line."""

import copy
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import taper as torch
import taper.nn.functional as F
from taper import nn


def graphs(compiled):
    """How many graphs there are."""
    return getattr(compiled, "_captured", compiled).count


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


@pytest.fixture(autouse=True)
def no_warnings():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def pointwise(x, y):
    return torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.complex64]
)
@pytest.mark.parametrize("n", [1, 15, 4100, 70000])
def test_a_chain_is_one_step(dtype, n):
    f = torch.compile(pointwise)
    for _ in range(3):
        x, y = ((torch.randn(n) * 3).to(dtype) for _ in range(2))
        assert same(f(x, y), pointwise(x, y))
    assert graphs(f) == 1
    assert f.counts() == [1] or dtype == torch.int32


@pytest.mark.parametrize("width", [8, 33, 64, 96, 128, 700])
def test_a_bias_along_the_last_dim(width):
    def g(x, b, c):
        return torch.relu((x + b) * c.neg()) - b

    f = torch.compile(g)
    for _ in range(3):
        args = torch.randn(40, 31, width), torch.randn(width), torch.randn(31, width).double()
        assert same(f(*args), g(*args))


def random_chain(draw, steps):
    """A function of cheap steps, each of what some step before it gave: numbers on either side, values that are read
    again, costly steps in between."""
    made = []
    for _ in range(steps):
        a, b = draw.choice([-1, -1, -1, *range(-3, 0)]), draw.choice([-1, *range(-3, 0)])
        made.append(
            (
                draw.choice(
                    ["add", "sub", "mul", "div", "neg", "abs", "relu", "square", "sub_from", "tanh", "add", "mul"]
                ),
                a,
                b,
                draw.choice([None, 0.5, -2.0, 3]),
            )
        )

    def run(x, y, z):
        values = [x, y, z]
        for name, a, b, number in made:
            a, b = values[a], values[b] if number is None else number
            values.append(
                {
                    "add": lambda: a + b,
                    "sub": lambda: a - b,
                    "mul": lambda: a * b,
                    "div": lambda: a / b,
                    "sub_from": lambda: b - a,
                    "neg": lambda: -a,
                    "abs": lambda: a.abs(),
                    "relu": lambda: a.relu(),
                    "square": lambda: a**2,
                    "tanh": lambda: a.tanh(),
                }[name]()
            )
        return values[-1], values[-2] + values[-3]

    return run


@pytest.mark.parametrize("seed", range(24))
def test_chains_of_cheap_steps(seed):
    draw = random.Random(seed)
    g = random_chain(draw, draw.randint(2, 14))
    shapes = [((n,), (n,), ()) for n in (5, 16, 77, 1024, 5000)] + [
        ((3, 300), (300,), (3, 1)),
        ((300, 7), (300, 1), (7,)),
        ((4, 1000), (4, 1000), (4, 1)),
        ((2, 3, 400), (2, 1, 400), (3, 1)),
    ]
    for shape in shapes:
        f, folded = torch.compile(g), torch.compile(lambda *args: g(*args)[0].sum(-1))
        for _ in range(2):  # the first call is the capture
            args = [torch.randn(s).mul(4).round().mul(0.25) for s in shape]  # zeros of both signs among them
            for a, b in zip((*f(*args), folded(*args)), (*g(*args), g(*args)[0].sum(-1))):
                assert same(a.nan_to_num(-7.5).view(torch.int32), b.nan_to_num(-7.5).view(torch.int32))
                assert same(a.isnan(), b.isnan())


FOLDS = {
    "sum": lambda t, d: t.sum(d),
    "mean": lambda t, d: t.float().mean(d),
    "largest": lambda t, d: t.amax(d),
    "where": lambda t, d: t.argmax(d if isinstance(d, int) else None),
    "variance": lambda t, d: t.double().var(d),
    "any": lambda t, d: (t > 1).any(d if isinstance(d, int) else 0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32])
@pytest.mark.parametrize(
    "shape, dims",
    [
        ((70000,), [0]),
        ((2, 3), [0, 1]),
        ((300, 40), [0, 1, (0, 1)]),
        ((40, 3000), [0, 1]),
        ((7, 9, 64), [0, 1, (0, 2), (1, 2)]),
        ((2, 3, 16, 17), [1, 3, (0, 2, 3)]),
        ((0, 4), [1]),
    ],
)
def test_a_fold_takes_what_a_chain_makes(dtype, shape, dims):
    for d in dims:
        for name, fold in FOLDS.items():
            if shape[0] == 0 and name in ("where", "largest", "any"):
                continue

            def g(x, b):
                return fold(x * 2 + b, d)

            f = torch.compile(g)
            for _ in range(2):
                x, b = (torch.randn(*shape) * 3).to(dtype), (torch.randn(shape[-1]) * 3).to(dtype)
                got, want = f(x, b), g(x, b)
                assert got.dtype == want.dtype, (name, d)
                assert torch.equal(got.nan_to_num(7), want.nan_to_num(7)), (name, d)
            assert f.counts() == [1] or (name, dtype) not in [("sum", torch.float32), ("largest", torch.bfloat16)]


def test_a_fold_of_what_is_read_again():
    def g(x, y):
        t = x * 2 + y
        return (t * t).sum(1), t, ((x - y) ** 2).mean()

    f = torch.compile(g)
    for _ in range(2):
        x = torch.randn(37, 600, requires_grad=True)
        twin, y, sides = x.detach().clone().requires_grad_(True), torch.randn(600), []
        for call, a in ((f, x), (g, twin)):
            results = call(a, y)
            sum(r.sum() for r in results).backward()
            sides.append([*results, a.grad])
        assert all(same(a, b) for a, b in zip(*sides))
    assert f.counts()[0] <= 3
    file = torch.compile(lambda x: (x.exp() + 1).sum(0))
    with torch.no_grad():
        want = file(x)
    assert same(file(x.detach()), want)


def test_broadcast_strided_and_mixed_operands():
    def g(x, b, h):
        y = (h * 0.5).exp() * (x.t() + b)
        return torch.where(y > 0, y, y * 0.1), (y > 0).any(), y.sum(0)

    f = torch.compile(g)
    for _ in range(3):
        args = torch.randn(300, 7), torch.randn(300), torch.randn(7, 300).bfloat16()
        assert all(same(a, b) for a, b in zip(f(*args), g(*args)))
    assert graphs(f) == 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Dropout(0.3)
        )
        self.head, self.scale = nn.Linear(8 * 16, 5), 2.0

    def forward(self, x, y=None):
        h = self.layers(x)
        h = F.gelu(h.flatten(1), approximate="tanh") * self.scale
        logits = self.head(h)
        return logits if y is None else F.cross_entropy(logits, y)


def train(model, callable, steps, seed=0):
    torch.manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        x, y = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
        optimiser.zero_grad()
        loss = callable(x, y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def test_training_is_the_same_bit_by_bit():
    torch.manual_seed(1)
    plain = Net()
    model = copy.deepcopy(plain)
    compiled = torch.compile(model)
    assert train(plain, plain, 6) == train(model, compiled, 6)
    assert graphs(compiled) == 1
    for (name, a), (_, b) in zip(plain.state_dict().items(), model.state_dict().items()):
        assert same(a, b), name
    plain.eval(), compiled.eval()
    for _ in range(3):
        x = torch.randn(4, 3, 8, 8)
        assert same(compiled(x), plain(x))
    assert graphs(compiled) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias, affine", [(True, True), (False, True), (False, False)])
def test_batch_norm_in_evaluation_gives_the_same_bits(dtype, bias, affine):
    conv, norm = (
        nn.Conv2d(4, 6, 3, groups=2, stride=2, bias=bias, dtype=dtype),
        nn.BatchNorm2d(6, affine=affine, dtype=dtype),
    )
    model = nn.Sequential(conv, norm, nn.ReLU()).eval()
    for t in [norm.running_mean, *norm.parameters()]:
        t.data.normal_()
    norm.running_var.uniform_(0.5, 2)
    f = torch.compile(model)
    for i in range(4):
        x = torch.randn(3, 4, 17, 16, dtype=dtype)
        with torch.no_grad():
            x = x.to(memory_format=torch.channels_last) if i > 1 else x
            got, want = f(x), model(x)
        assert got.stride() == want.stride()
        assert got.equal(want)
        norm.running_mean.mul_(-0.5)
        norm.running_var.data.mul_(1.5)  # unseen by version counters
        conv.weight.data.mul_(0.9)


def test_weights_that_are_tied_and_inputs_with_gradients():
    emb = nn.Embedding(7, 4)

    def g(i, x):
        return F.linear(emb(i) * x, emb.weight).logsumexp(-1).sum() + (x**2).sum()

    f = torch.compile(g)
    for _ in range(3):
        i, x = torch.randint(0, 7, (3,)), torch.randn(3, 4, requires_grad=True)
        grads = []
        for call in (g, f):
            emb.weight.grad = x.grad = None
            call(i, x * 1).backward()
            grads.append((emb.weight.grad.clone(), x.grad.clone()))
        assert all(same(a, b) for a, b in zip(*grads))
    assert graphs(f) == 1


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.k, self.w, self.config = 2.0, nn.Parameter(torch.ones(3)), {"a": [1, 2]}

    def forward(self, x):
        return x * self.w * self.k + self.config["a"][1]


def gradients_of(function, *leaves):
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    function(*leaves).backward()
    return [leaf.grad for leaf in leaves]


def test_gradients_of_several_results_are_added_in_the_programs_order():
    weight = torch.randn(4, 4)

    def views_last(x):
        return x * x.flip(0), x[:, :2], x[:, 2:]

    def views_first(x):
        left, right = x[:, :2], x[:, 1:]
        return left, right, x * x.flip(0) + x

    for piece in (views_last, views_first):

        def step(x, piece):
            before = (x * weight).sin()
            results = piece(x)
            after = (x * x * weight).cos()
            return sum((t * t).sum() for t in (before, *results, after))

        compiled = torch.compile(piece)
        for _ in range(3):
            x = torch.randn(4, 4)
            want = gradients_of(lambda x: step(x, piece), x)
            got = gradients_of(lambda x: step(x, compiled), x)
            assert same(want[0], got[0])


def test_an_input_that_was_made_from_another_gets_its_gradient_once():
    compiled = torch.compile(lambda x, y: x * y)
    for _ in range(3):
        (grad,) = gradients_of(lambda x: compiled(x, 2 * x).sum(), torch.ones(3))
        assert grad.tolist() == [4, 4, 4]


def test_a_view_of_an_input_is_a_view_and_has_a_history():
    compiled = torch.compile(lambda x: (x[1:], x * 2))
    for _ in range(3):
        x = torch.randn(4, 3, requires_grad=True)
        part, _ = compiled(x)
        assert part.data_ptr() == x[1:].data_ptr()
        assert part._base is x
        with torch.no_grad():
            x[3, 0] = 7.0
        assert part[2, 0].item() == 7.0
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            part.mul_(2)
        (compiled(x)[0] * 3).sum().backward()
        assert x.grad.tolist() == [[0, 0, 0]] + [[3, 3, 3]] * 3


def test_results_are_never_stale():
    module = Scaled()
    f, x = torch.compile(module), torch.ones(3)

    def now():
        assert f(x).tolist() == module(x).tolist()
        return f(x)[0].item()

    assert now() == 4
    module.k = 3.0
    assert now() == 5
    module.config["a"][1] = 7
    assert now() == 10
    with torch.no_grad():
        module.w.mul_(2)
    assert now() == 13
    assert graphs(f) == 3
    module.w.data = torch.full((3,), 5.0)
    assert now() == 22
    module.w = nn.Parameter(torch.zeros(3))
    assert now() == 7
    module.w.requires_grad_(False)
    assert not f(x).requires_grad
    module.register_forward_hook(lambda module, args, out: out + 100)
    assert now() == 107


def test_attributes_of_plain_objects():
    import types

    config, other = types.SimpleNamespace(k=2.0, unused=1), type("Config", (), {})()
    other.k, other.unused = 3.0, 1

    @torch.compile
    def f(x):
        return x * config.k + other.k

    x = torch.ones(2)
    assert f(x)[0] == 5
    assert f(x)[0] == 5
    config.k = 4.0
    assert f(x)[0] == 7
    other.k = 1.0
    assert f(x)[0] == 5
    assert graphs(f) == 3
    other.unused = 7
    assert f(x)[0] == 5
    assert graphs(f) == 3
    other.__class__.k = 9.0
    del other.k
    assert f(x)[0] == 13


class Runner:
    """With a method that names files and all modules there are, and is not called."""

    scale = 2.0

    def say(self, text):
        sys.stderr.write(text + str(len(sys.modules)))


def test_what_functions_name_that_did_not_run_is_no_obstacle():
    runner = Runner()
    f = torch.compile(lambda x: x * runner.scale)
    x = torch.ones(2)
    assert f(x).tolist() == f(x).tolist() == [2, 2]
    assert graphs(f) == 1
    runner.scale = 3.0
    assert f(x).tolist() == [3, 3]


factor, listed = 3, []


def by_global(x):
    return x * factor + len(listed)


def test_globals_closures_and_defaults(monkeypatch):
    f = torch.compile(by_global)
    x = torch.ones(2)
    assert f(x).tolist() == f(x).tolist() == [3, 3]
    monkeypatch.setitem(globals(), "factor", 4)
    assert f(x).tolist() == [4, 4]
    listed.append(1)
    assert f(x).tolist() == [5, 5]
    listed.clear()
    y, z = torch.tensor([1.0, 2.0]), [1]

    def g(x, k=[1.0]):
        return x * y + torch.tensor([5.0, 6.0]) * z[0] * k[0]

    f = torch.compile(g)
    assert f(x).tolist() == f(x).tolist() == [6, 8]
    y.add_(1)
    assert f(x).tolist() == [7, 9]
    z[0] = 2
    assert f(x).tolist() == [12, 15]
    g.__defaults__[0][0] = 0.0
    assert f(x).tolist() == [2, 3]


def test_other_arguments_are_captured_anew():
    @torch.compile
    def f(x, n, flag=False):
        return x.reshape(n, -1) * (2 if flag else 1)

    for n in (1, 2, 4):
        assert f(torch.ones(8), n).shape == (n, 8 // n)
    assert f(torch.ones(8), 2, flag=True)[0, 0] == 2
    assert f(torch.ones(16), 2).shape == (2, 8)
    assert f(torch.ones(8, dtype=torch.int64), 2).dtype == torch.int64
    assert f(torch.ones(4, 2).t(), 2).shape == (2, 4)
    assert graphs(f) == 7


def test_results_keep_their_form():
    @torch.compile
    def f(x):
        return {"a": x + 1, "b": [x, (x * 2).view(-1), None, 3]}, x.t(), torch.max(x, 1)

    for x in (torch.randn(2, 3), torch.randn(2, 3)):
        r, t, m = f(x)
        assert r["b"][0] is x
        assert same(r["b"][1], (x * 2).view(-1))
        assert r["b"][2:] == [None, 3]
        assert t.data_ptr() == x.data_ptr()
        assert same(m.indices, x.max(1).indices)
    for _ in range(2):
        x = torch.randn(2, 3, requires_grad=True)
        r, t, m = f(x)
        (r["a"].sum() + 2 * t.sum() + m.values.sum()).backward()
        assert x.grad.sum() == 6 + 12 + 2


def test_random_numbers_are_drawn_anew():
    f = torch.compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(50)
    f(x)
    torch.manual_seed(5)
    a, b = f(x), f(x)
    torch.manual_seed(5)
    assert same(a, F.dropout(x, 0.5) + torch.rand_like(x))
    assert not torch.equal(a, b)


def test_gradients_twice_and_again():
    f = torch.compile(lambda x: (x * x).sin())
    x = torch.randn(3, requires_grad=True)
    f(x)
    y = f(x).sum()
    (a,) = torch.autograd.grad(y, x, retain_graph=True)
    (b,) = torch.autograd.grad(y, x)
    assert same(a, b)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(f(x).sum(), x, create_graph=True)
    y = f(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def looks(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def prints(x):
    print("seen")
    return x + 1


def appends(x):
    listed.append(1)
    return x + 1


class Counts(nn.Module):
    n = 0

    def forward(self, x):
        self.n += 1
        return x + self.n


@pytest.mark.parametrize(
    "function, words",
    [
        (looks, "a value of a tensor is looked at"),
        (prints, r"print\(\) is called"),
        (appends, "type list is changed"),
        (Counts(), "type dict is changed"),
        (lambda x: x[x > 0], "depends on values"),
        (lambda x: x * float(x[0]), "looked at"),
    ],
)
def test_what_cannot_be_captured_runs_with_one_warning(function, words, capsys):
    f, x = torch.compile(function), torch.ones(2)
    plain = copy.deepcopy(function)
    listed.clear()
    with pytest.warns(UserWarning, match=rf"test_compile.py:\d+: .*{words}") as told:
        for sign in (1, -1, 1, 1):
            assert same(f(x * sign), plain(x * sign))
    assert len(told) == 1
    assert graphs(f) == 0
    listed.clear()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=words):
        torch.compile(function, fullgraph=True)(x)
        torch.compile(function, fullgraph=True)(x)


def test_what_programs_say_to_it(capsys):
    assert not torch.compiler.is_compiling()
    seen = []

    @torch.compile(mode="max-autotune", dynamic=True, backend="inductor")
    def f(x):
        return x + (1 if torch.compiler.is_compiling() else 2)

    x = torch.zeros(1)
    assert f(x) == 1
    assert graphs(f) == 1
    assert f.__name__ == "f"
    with torch.compiler.set_stance("force_eager"):
        assert f(x) == 2
    torch._dynamo.reset()
    assert graphs(f) == 0
    assert f(x) == 1

    @torch.compiler.disable
    def outside(x):
        seen.append(1)
        return x * 2

    g = torch.compile(lambda x: outside(x) + 1)
    with pytest.warns(UserWarning, match="outside is disabled"):
        assert [g(x + 1).item() for _ in range(3)] == [3, 3, 3]
    assert len(seen) == 3
    inner = torch.compile(lambda x: x * 2)
    nested = torch.compile(lambda x: inner(x) + 1)
    assert nested(x + 1) == nested(x + 1) == 3
    assert graphs(nested) == 1
    assert graphs(inner) == 0


def test_sizes_that_are_given_are_no_obstacle():
    def g(i, x):
        return F.one_hot(i, 5), x.repeat_interleave(2, 0), torch.nonzero_static(x > 0, size=4)

    f = torch.compile(g)
    for _ in range(3):
        args = torch.randint(0, 5, (3,)), torch.randn(4, 2)
        assert all(same(a, b) for a, b in zip(f(*args), g(*args)))
    assert graphs(f) == 1
    with pytest.warns(UserWarning, match="one_hot gives what depends on values"):
        assert torch.compile(lambda i: F.one_hot(i))(torch.tensor([0, 2])).shape == (2, 3)


def test_methods_and_many_shapes():
    class Holder:
        def __init__(self, k):
            self.k = k

        @torch.compile
        def times(self, x):
            return x * self.k

    a, b, x = Holder(2), Holder(3), torch.ones(2)
    for _ in range(2):
        assert a.times(x)[0] == 2
        assert b.times(x)[0] == 3
    a.k = 5
    assert a.times(x)[0] == 5
    f = torch.compile(lambda x: x * 2)
    with pytest.warns(UserWarning, match="captured 8 times"):
        for n in range(1, 12):
            assert f(torch.ones(n)).sum() == 2 * n
    assert graphs(f) == 8


def test_autocast_and_modes_are_seen():
    w = torch.randn(4, 4, requires_grad=True)
    f = torch.compile(lambda x: x @ w)
    x = torch.randn(2, 4)
    for _ in range(2):
        assert f(x).dtype == torch.float32
        assert f(x).requires_grad
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert f(x).dtype == torch.bfloat16
        with torch.no_grad():
            assert not f(x).requires_grad
        with torch.inference_mode():
            assert f(x).is_inference()
    assert graphs(f) == 4


class Exported(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Linear(4 * 16, 6))
        self.register_buffer("shift", torch.arange(6.0))

    def forward(self, x, *, scale=None):
        y = self.body(x) + self.shift
        return {"logits": y if scale is None else y * scale, "best": [y.softmax(-1).max(-1), None]}


def test_an_exported_program_needs_no_python(tmp_path):
    import io

    torch.manual_seed(0)
    module = Exported().eval()
    x, scale = torch.randn(2, 3, 6, 6), torch.tensor([2.0])
    program = torch.export.export(module, (x,), {"scale": scale})
    assert program.state_dict.keys() == module.state_dict().keys()
    assert "steps" in repr(program)
    torch.export.save(program, tmp_path / "net.pt2", extra_files={"about": "a net"})
    bytes_ = io.BytesIO()
    torch.export.save(program, bytes_)
    bytes_.seek(0)
    extra = {"about": ""}
    for loaded in (program, torch.export.load(tmp_path / "net.pt2", extra_files=extra), torch.export.load(bytes_)):
        for seed in range(2):
            torch.manual_seed(seed)
            x = torch.randn(2, 3, 6, 6)
            got, want = loaded.module()(x, scale=scale), module(x, scale=scale)
            assert same(got["logits"], want["logits"])
            assert same(got["best"][0][0], want["best"][0][0])
            assert got["best"][1] is None
        with pytest.raises(AssertionError, match="Guard failed"):
            loaded.module()(torch.randn(3, 3, 6, 6), scale=scale)
    assert extra == {"about": "a net"}
    with pytest.raises(torch._dynamo.exc.Unsupported, match="looked at"):
        torch.export.export(
            nn.Module.__new__(
                type("Looks", (nn.Module,), {"forward": lambda self, x: looks(x), "__init__": nn.Module.__init__})
            ),
            (x,),
        )


def test_a_damaged_graph_is_refused(tmp_path):
    import taper._C as _C

    program = torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),))
    torch.export.save(program, tmp_path / "a.pt2")
    held = torch.load(tmp_path / "a.pt2")

    def refused(change, words):
        other = copy.deepcopy(held)
        change(other)
        torch.save(other, tmp_path / "b.pt2")
        with pytest.raises(Exception, match=words):
            _C._graph_run(_C._graph_load(str(tmp_path / "b.pt2"))[0], [torch.randn(4, 3)])

    refused(lambda g: g.pop("format"), "no graph")
    refused(lambda g: g["steps"][0].update(op="no_such_operator"), "no_such_operator")
    refused(lambda g: g["steps"][0]["in"].__setitem__(0, 99), "value's number")
    refused(lambda g: g["steps"][0]["in"].__setitem__(0, len(g["values"]) - 1), "no step has made")
    refused(lambda g: g["steps"][0]["args"].pop(), "a call")
    refused(lambda g: g["values"].append([[5, 7, 0, 1 << 20, 0], [3], [1]]), "beyond")
    refused(lambda g: g["values"].append([[5, 7, 99, 0, 0], [3], [1]]), "a view of nothing")
    refused(lambda g: g["values"][1][1].__setitem__(0, 1 << 50), "another shape|a shape|an input")


def test_casts_are_steps():
    """What ran without autocast, inside of a region that has it, runs without it again."""
    w = torch.randn(8, 8)

    def f(x):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            return y, x @ w

    x, compiled = torch.randn(8, 8), torch.compile(f)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(3):
            for got, want in zip(compiled(x), f(x)):
                assert got.dtype == want.dtype
                assert torch.equal(got, want)


def test_backward_hooks_of_modules_run_once_a_backward():
    for kind in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        net, calls, counts = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)), [], []
        compiled, x = torch.compile(net), torch.randn(8, 4, requires_grad=True)
        getattr(net[2], kind)(lambda *unused: calls.append(1))
        with pytest.warns(UserWarning, match="a hook on a node of the backward is registered"):
            for _ in range(4):
                compiled(x).sum().backward()
                counts.append(len(calls))
        assert counts == [1, 2, 3, 4], kind


def test_assigned_data_of_an_input_runs_as_it_is():
    def doubled(x):
        x.data = x.data * 2
        return x + 1

    x, compiled = torch.ones(4), torch.compile(doubled)
    with pytest.warns(UserWarning, match=".data is assigned"):
        assert compiled(x).tolist() == [3] * 4
    for expected in (5, 9):
        assert compiled(x).tolist() == [expected] * 4
        assert x.tolist() == [expected - 1] * 4


# ---- Backends of the program's own ----
class Backend:
    """Keeps what it is given, and runs the graph."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append((graph, inputs))
        return graph.forward


def test_a_backend_of_the_programs_own_is_handed_a_graph_for_each_kind_of_call():
    backend = Backend()
    compiled = torch.compile(lambda x, y: {"a": torch.sin(x) + y * 2, "b": 3}, backend=backend)
    x, y = torch.ones(2), torch.full((2,), 2.0)
    for a, b in ((x, y), (y, x)):
        result = compiled(a, b)
        assert torch.equal(result["a"], torch.sin(a) + b * 2)
        assert result["b"] == 3
    assert len(backend.graphs) == 1
    graph, inputs = backend.graphs[0]
    assert isinstance(graph, torch.fx.GraphModule)
    assert inputs[0] is x
    assert inputs[1] is y
    assert [n.op for n in graph.graph.nodes] == [
        "placeholder",
        "placeholder",
        "call_function",
        "call_function",
        "call_function",
        "output",
    ]
    assert torch.equal(compiled(torch.ones(3), 5)["a"], torch.sin(torch.ones(3)) + 10)
    assert len(backend.graphs) == 2
    assert (
        torch.compile(lambda x: x + 1, backend=lambda graph, inputs: lambda *inputs: (torch.zeros(1),))(x).item() == 0
    )


def test_a_backends_graph_makes_tensors_anew_and_reads_modules_as_they_are():
    backend = Backend()

    def f(x):
        z = torch.zeros(2)
        z.add_(x)
        return z, torch.rand(2)

    compiled, x = torch.compile(f, backend=backend), torch.ones(2)
    first, second = compiled(x), compiled(x)
    assert torch.equal(first[0], x)
    assert torch.equal(second[0], x)
    assert not torch.equal(first[1], second[1])
    assert len(backend.graphs) == 1
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    twin, rows = copy.deepcopy(model), torch.randn(4, 2)
    compiled = torch.compile(model, backend=backend)
    for _ in range(2):
        compiled(rows).sum().backward()
        twin(rows).sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), twin.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), twin.buffers()))
    assert len(backend.graphs) == 2
    compiled.eval()
    assert torch.equal(compiled(rows), twin.eval()(rows))
    assert len(backend.graphs) == 3
    layer = nn.Linear(2, 2)
    reached = torch.compile(lambda x: layer(x), backend=backend)
    reached(x)
    layer.weight.data.add_(1)
    assert torch.equal(reached(x), layer(x))
    assert len(backend.graphs) == 4


def test_a_backends_graph_never_goes_on_with_an_old_value():
    backend, held, kept = Backend(), {"k": 2.0, "shift": torch.ones(2)}, []

    def f(x):
        kept.append(1)
        return torch.sin(x) * held["k"] + held["shift"]

    compiled, x = torch.compile(f, backend=backend), torch.full((2,), 0.5)

    def agrees():
        return torch.equal(compiled(x), torch.sin(x) * held["k"] + held["shift"])

    assert agrees()
    assert agrees()
    assert len(backend.graphs) == 1
    assert len(kept) == 2
    held["k"] = 3.0
    assert agrees()
    assert len(backend.graphs) == 2
    held["shift"] = torch.zeros(2)
    assert agrees()
    assert len(backend.graphs) == 3
    held["shift"].add_(7)
    assert agrees()
    assert len(backend.graphs) == 3
    with pytest.warns(UserWarning, match="compiled 8 times"):
        for k in range(10):
            held["k"] = 10.0 + k
            assert agrees()
    assert len(backend.graphs) == 8


def test_what_fx_cannot_trace_runs_without_its_backend_with_one_warning():
    def f(x):
        return x + 1 if x.sum() > 0 else x - 1

    backend = Backend()
    compiled = torch.compile(f, backend=backend)
    with pytest.warns(UserWarning, match="without its backend.*control flow"):
        assert compiled(torch.ones(1)).item() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(-torch.ones(1)).item() == -2
    assert not backend.graphs
    with pytest.raises(torch._dynamo.exc.Unsupported, match="control flow"):
        torch.compile(f, backend=backend, fullgraph=True)(torch.ones(1))


def test_backends_by_name():
    def failing(graph, inputs):
        raise ValueError("no")

    torch._dynamo.register_backend(failing, name="failing")
    assert "failing" in torch._dynamo.list_backends()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="backend='failing' raised:\nValueError: no"):
        torch.compile(lambda x: x + 1, backend="failing")(torch.ones(1))
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="Invalid backend: 'nope'"):
        torch.compile(lambda x: x, backend="nope")


def test_what_taper_imports_by_itself_ends_no_capture():
    """A function of the package that imports another of its modules for the first time, inside a captured call."""
    program = Path(__file__).parent / "child_programs" / "first_import.py"
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_modes_say_how_steps_on_a_gpu_are_started():
    from taper import _dynamo

    found = [_dynamo._replay(mode, None) for mode in (None, *_dynamo._MODES)]
    assert found == [0, 0, 0, 1, 2, 1]
    assert [_dynamo._replay(None, {"triton.cudagraphs": on}) for on in (True, False)] == [1, 2]
    for mode in (None, *_dynamo._MODES):
        double = torch.compile(lambda x: x * 2 + 1, mode=mode)
        assert all(torch.equal(double(x), x * 2 + 1) for x in (torch.randn(5) for _ in range(4)))
