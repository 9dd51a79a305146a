"""Random programs over tensors that require gradients: views, writes in place and into views, indexing, hooks,
checkpoints, custom functions, saved-tensor hooks, detached pieces, and a penalty on a gradient (double backward). Every
function in them is smooth, so finite differences say what the gradient is; PyTorch says which programs are errors.

    python autograd_programs.py torch 0 400 --record answers.json    what PyTorch answers to programs 0 to 399
    python autograd_programs.py taper 17 18 --show                   the lines of program 17, and its answer

A program is a seed: the same seed makes the same lines with any module that has PyTorch's interface."""

import argparse
import importlib
import json
import random

STEPS = (4, 14)  # lines of a program, besides inputs and the sum at the end
SHAPES = [(), (3,), (2, 3), (3, 2), (1, 3), (2, 1, 3), (4,), (2, 2)]


class Program:
    """One run of the program `seed` with the module `T` on `inputs` (None: its own). `result` is a scalar tensor."""

    def __init__(self, T, seed, inputs=None):
        self.T, self.rng, self.lines = T, random.Random(seed), []
        shapes = [self.rng.choice(SHAPES) for _ in range(self.rng.choice((1, 2, 2, 3)))]
        self.numbers = [[round(self.rng.uniform(-1.2, 1.2), 3) for _ in range(count(shape))] for shape in shapes]
        self.inputs = inputs or [
            T.tensor(n, dtype=T.float64).reshape(s).requires_grad_() for n, s in zip(self.numbers, shapes)
        ]
        self.pool = []
        for x in self.inputs:
            self.keep(x * 1.0, "input * 1.0")
        for _ in range(self.rng.randint(*STEPS)):
            step = self.rng.choice(KINDS)
            step(self)
        self.result = sum((self.weighted(t) for t in self.pool), T.zeros((), dtype=T.float64))

    def weighted(self, t):
        return (t * (0.3 + 0.1 * (len(t.shape) + 1))).sum()

    def pick(self):
        return self.rng.randrange(len(self.pool))

    def pick_like(self, t):
        """A tensor of the pool that can be expanded to t's shape; one is made if there is none."""
        fits = [i for i, other in enumerate(self.pool) if broadcasts(tuple(other.shape), tuple(t.shape))]
        if not fits:
            self.keep(self.inputs[0].sum() * 0.7, "input.sum() * 0.7")
            fits = [len(self.pool) - 1]
        return self.rng.choice(fits)

    def keep(self, t, line):
        self.pool.append(t)
        self.lines.append(f"v{len(self.pool) - 1} = {line}    # {list(t.shape)}")

    def note(self, line):
        self.lines.append(line)


def count(shape):
    n = 1
    for s in shape:
        n *= s
    return n


def broadcasts(small, large):
    """small can be expanded to large."""
    return len(small) <= len(large) and all(s in (1, l) for s, l in zip(small[::-1], large[::-1]))


# ---- Steps: each takes the program and adds a value, or changes one
# ---------------------------------------------------------
def unary(p):
    i, name = p.pick(), p.rng.choice("sin cos tanh sigmoid exp square".split())
    t = p.pool[i]
    p.keep(p.T.exp(t.tanh()) if name == "exp" else getattr(t, name)(), f"v{i}.{name}()")


def binary(p):
    i = p.pick()
    j, name = p.pick_like(p.pool[i]), p.rng.choice("add sub mul".split())
    p.keep(getattr(p.pool[i], name)(p.pool[j]), f"v{i}.{name}(v{j})")


def divide(p):
    i = p.pick()
    j = p.pick_like(p.pool[i])
    p.keep(p.pool[i] / (p.pool[j].square() + 1), f"v{i} / (v{j}.square() + 1)")


def reduce(p):
    i = p.pick()
    t = p.pool[i]
    name = p.rng.choice("sum mean logsumexp norm var".split())
    if not t.ndim or (name == "var" and t.shape[-1] < 2):
        return unary(p)
    dim, keep = p.rng.randrange(-t.ndim, t.ndim) if name != "var" else -1, p.rng.random() < 0.5
    if name == "norm":
        return p.keep((t.square() + 0.1).norm(2, dim, keep), f"(v{i}.square() + 0.1).norm(2, {dim}, {keep})")
    p.keep(getattr(t, name)(dim, keepdim=keep), f"v{i}.{name}({dim}, keepdim={keep})")


def view(p):
    i = p.pick()
    t, T = p.pool[i], p.T
    choices = [
        ("unsqueeze(0)", lambda: t.unsqueeze(0)),
        ("reshape(-1)", lambda: t.reshape(-1)),
        ("view_as(v)", lambda: t.view_as(t)),
        ("squeeze()", lambda: t.squeeze()),
    ]
    if t.ndim:
        d = p.rng.randrange(t.ndim)
        choices += [
            (f"select({d}, -1)", lambda: t.select(d, -1)),
            (f"narrow({d}, 0, 1)", lambda: t.narrow(d, 0, 1)),
            (f"flip({d})", lambda: t.flip(d)),
            (f"unbind({d})[0]", lambda: t.unbind(d)[0]),
            (f"chunk(2, {d})[0]", lambda: t.chunk(2, d)[0]),
            ("[..., ::2]", lambda: t[..., ::2]),
            ("expand(2, *shape)", lambda: t.expand(2, *t.shape)),
        ]
    if t.ndim >= 2:
        choices += [
            ("transpose(0, -1)", lambda: t.transpose(0, -1)),
            ("diagonal(0, 0, -1)", lambda: t.diagonal(0, 0, -1)),
            ("movedim(0, -1)", lambda: t.movedim(0, -1)),
            ("permute", lambda: t.permute(*range(t.ndim - 1, -1, -1))),
            ("flatten()", lambda: t.flatten()),
        ]
    name, make = p.rng.choice(choices)
    if t.numel() < 64:
        p.keep(make(), f"v{i}.{name}")


def write(p):
    """A write in place: a copy's, a view's or a value's own."""
    i = p.pick()
    t = p.pool[i]
    name = p.rng.choice("mul_ add_ sin_ tanh_ copy_ zero_ fill_ mul_self sigmoid_".split())
    if p.rng.random() < 0.3:
        t = t.clone()
        p.keep(t, f"v{i}.clone()")
        i = len(p.pool) - 1
    j = p.pick_like(t)
    if name in ("mul_", "add_", "copy_"):
        getattr(t, name)(p.pool[j])
        p.note(f"v{i}.{name}(v{j})")
    elif name == "fill_":
        t.fill_(0.25)
        p.note(f"v{i}.fill_(0.25)")
    elif name == "mul_self":
        t.mul_(t.detach() * 0.0 + 1.5)
        p.note(f"v{i}.mul_(1.5 as a tensor)")
    else:
        getattr(t, name)()
        p.note(f"v{i}.{name}()")


def write_view(p):
    i = p.pick()
    t = p.pool[i]
    if not t.ndim:
        return write(p)
    j = p.pick_like(t[0])
    kind = p.rng.randrange(4)
    if kind == 0:
        t[0] = p.pool[j]
        p.note(f"v{i}[0] = v{j}")
    elif kind == 1:
        t[-1].mul_(p.pool[j])
        p.note(f"v{i}[-1].mul_(v{j})")
    elif kind == 2:
        t[..., 0] += 0.5
        p.note(f"v{i}[..., 0] += 0.5")
    elif all(
        stride or size < 2 for stride, size in zip(t.stride(), t.shape)
    ):  # what it means for an expanded one is nobody's promise
        t.index_put_(
            (p.T.tensor([0]),),
            p.pool[j].reshape((1,) * (t.ndim - p.pool[j].ndim) + tuple(p.pool[j].shape)),
            accumulate=True,
        )
        p.note(f"v{i}.index_put_((tensor([0]),), v{j}, accumulate=True)")


def index(p):
    i = p.pick()
    t = p.pool[i]
    if not t.ndim:
        return unary(p)
    which = p.T.tensor([p.rng.randrange(t.shape[0]) for _ in range(3)])
    kind = p.rng.randrange(4)
    if kind == 0:
        p.keep(t[which], f"v{i}[{which.tolist()}]")
    elif kind == 1:
        p.keep(t.index_select(0, which), f"v{i}.index_select(0, {which.tolist()})")
    elif kind == 2:
        p.keep(
            p.T.zeros(4, *t.shape[1:], dtype=p.T.float64).index_add(0, p.T.arange(t.shape[0]) % 4, t),
            f"zeros(4, ...).index_add(0, arange % 4, v{i})",
        )
    else:
        p.keep(p.T.where(p.T.arange(t.shape[-1]) % 2 == 0, t, t.sin()), f"where(even, v{i}, v{i}.sin())")


def join(p):
    i = p.pick()
    t = p.pool[i]
    kind = p.rng.randrange(3)
    if kind == 0 and t.ndim and t.numel() < 32:
        p.keep(p.T.cat([t, t * 0.5], -1), f"cat([v{i}, v{i} * 0.5], -1)")
    elif kind == 1 and t.numel() < 32:
        p.keep(p.T.stack([t, t.tanh()]), f"stack([v{i}, v{i}.tanh()])")
    elif t.ndim == 2:
        p.keep(t @ t.transpose(0, 1), f"v{i} @ v{i}.T")


def hook(p):
    """A hook that only looks on: the gradients stay what they are."""
    i = p.pick()
    if p.pool[i].requires_grad:
        p.pool[i].register_hook(lambda g: None)
        p.note(f"v{i}.register_hook(look)")


def checkpointed(p):
    i = p.pick()
    body = lambda t: (t.sin() * t).tanh()
    p.keep(p.T.utils.checkpoint.checkpoint(body, p.pool[i], use_reentrant=False), f"checkpoint(sin * t -> tanh, v{i})")


def packed(p):
    i = p.pick()
    with p.T.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        p.keep(p.pool[i].exp().tanh() * p.pool[i], f"v{i}.exp().tanh() * v{i} with saved_tensors_hooks")


def custom(p):
    i = p.pick()

    class Cube(p.T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x * x * grad

    p.keep(Cube.apply(p.pool[i]), f"Cube.apply(v{i})")


def quiet_write(p):
    """A write that the tape does not record, of the value that was there."""
    i = p.pick()
    with p.T.no_grad():
        p.pool[i].mul_(1.0)
    p.note(f"v{i}.mul_(1.0) under no_grad")


KINDS = [
    unary,
    unary,
    binary,
    binary,
    divide,
    reduce,
    view,
    view,
    view,
    write,
    write,
    write_view,
    index,
    join,
    hook,
    checkpointed,
    packed,
    custom,
    quiet_write,
]


# ---- Answers
# -----------------------------------------------------------------------------------------------------------------
def gradients(T, seed, penalty):
    """(loss, gradients by input) of a program, as numbers; with `penalty` of |loss|'s gradient squared, by double
    backward."""
    p = Program(T, seed)
    loss = p.result
    if penalty:
        first = T.autograd.grad(loss, p.inputs, create_graph=True, allow_unused=True)
        loss = sum((g.square().sum() for g in first if g is not None), T.zeros((), dtype=T.float64))
        if not loss.requires_grad:
            return p, loss.item(), [[0.0] * len(n) for n in p.numbers]
    found = T.autograd.grad(loss, p.inputs, allow_unused=True)
    return p, loss.item(), [[0.0] * len(n) if g is None else g.reshape(-1).tolist() for g, n in zip(found, p.numbers)]


def answer(T, seed, penalty=False):
    """{"loss", "gradients"}, or {"error": its type}."""
    try:
        _, loss, found = gradients(T, seed, penalty)
    except RuntimeError:
        return {"error": "RuntimeError"}
    return {"loss": loss, "gradients": found}


def loss_at(T, seed, numbers, penalty=False):
    shapes = [x.shape for x in Program(T, seed).inputs]
    inputs = [T.tensor(n, dtype=T.float64).reshape(s).requires_grad_(penalty) for n, s in zip(numbers, shapes)]
    with T.set_grad_enabled(penalty):
        p = Program(T, seed, inputs)
        if not penalty:
            return p.result.item()
        first = T.autograd.grad(p.result, p.inputs, allow_unused=True)
        return sum(g.square().sum().item() for g in first if g is not None)


def differences(T, seed, penalty=False, step=1e-6):
    """The gradient by central differences."""
    numbers = Program(T, seed).numbers
    result = []
    for k, row in enumerate(numbers):
        result.append([])
        for i in range(len(row)):
            ends = []
            for sign in (1, -1):
                moved = [list(n) for n in numbers]
                moved[k][i] += sign * step
                ends.append(loss_at(T, seed, moved, penalty))
            result[-1].append((ends[0] - ends[1]) / (2 * step))
    return result


def close(a, b, tolerance):
    scale = max([1.0] + [abs(x) for row in b for x in row])
    return all(abs(x - y) <= tolerance * scale for r, s in zip(a, b) for x, y in zip(r, s))


def digest(a):
    """None for an error; else the loss and a number in which every element of the gradients has its own weight."""
    if "error" in a:
        return None
    flat = [x for row in a["gradients"] for x in row]
    return [float(f"{a['loss']:.12g}"), float(f"{sum(x * (1 + 0.37 * i) for i, x in enumerate(flat)):.12g}")]


def show(T, seed, answers):
    try:
        print("\n".join(Program(T, seed).lines))
    except RuntimeError as error:
        print("the program itself raises:", error)
    print(*answers, sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--record")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    T = importlib.import_module(options.module)
    importlib.import_module(options.module + ".utils.checkpoint")
    recorded, errors = [], 0
    for seed in range(options.first, options.last):
        pair = [answer(T, seed, penalty) for penalty in (False, True)]
        recorded.append([digest(a) for a in pair])
        errors += sum("error" in a for a in pair)
        if options.show:
            show(T, seed, pair)
    if options.record:
        with open(options.record, "w") as file:
            file.write("[" + ",\n".join(json.dumps(r) for r in recorded) + "]\n")
    print(errors, "errors of", 2 * len(recorded))


if __name__ == "__main__":
    main()
