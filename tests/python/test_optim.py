"""torch.optim: every optimiser against recorded trajectories of PyTorch, the Optimizer base as users derive from it,
state dicts."""

import copy
import gzip
import inspect
import json
import pathlib
import pickle
import sys
import warnings

import pytest
import taper as torch

sys.path.insert(0, str(pathlib.Path(__file__).parent / "optim"))
import trajectories  # noqa: E402

with gzip.open(trajectories.RECORDED) as file:
    RECORDED = json.load(file)
ALL = [(name, i) for name, cases in RECORDED.items() for i in range(len(cases))]
TABLE = [name for name in RECORDED]
LBFGS_FIGURES = [  # options; loss, x, evaluations and iterations after one step and after two
    (
        {},
        [
            (122.2, [94.2831255657, -36.763390798], 20, 20),
            (8088606154.994384, [-0.142551014838, 0.020418795201], 40, 40),
        ],
    ),
    (
        {"lr": 0.1},
        [
            (122.2, [-0.963467774888, 0.915179762721], 20, 20),
            (16.219827420309, [-0.385697612313, 0.140623712204], 40, 40),
        ],
    ),
    (
        {"line_search_fn": "strong_wolfe"},
        [(122.2, [0.246284872987, 0.043295235525], 23, 20), (0.616217244056, [1.00784980939, 1.0161851261], 47, 40)],
    ),
    (
        {"line_search_fn": "strong_wolfe", "max_iter": 5, "history_size": 3},
        [
            (122.2, [-0.965919195875, 0.936798484337], 6, 5),
            (15.691017344835, [-0.731958994475, 0.530811151176], 12, 10),
        ],
    ),
    (
        {"max_iter": 4, "history_size": 2, "lr": 0.01},
        [(122.2, [-1.1898208638, 1.00466120033], 4, 4), (118.388949652023, [-1.18446296796, 1.00997018613], 8, 8)],
    ),
    (
        {"maximize": True, "line_search_fn": "strong_wolfe"},
        [(-122.2, [0.246284872987, 0.043295235525], 23, 20), (-0.616217244056, [1.00784980939, 1.0161851261], 47, 40)],
    ),
    (
        {"lr": 0.5, "max_eval": 7, "line_search_fn": "strong_wolfe"},
        [(122.2, [-0.999108721752, 0.977346953196], 7, 5), (13.313102029086, [-0.64478059421, 0.397053810496], 14, 11)],
    ),
]
LIMIT = {"Muon": 2e-2}  # it rounds to bfloat16 on the way


def near(got, wanted, limit):
    assert len(got) == len(wanted)
    scale = max((abs(v) for v in wanted), default=0)
    assert all(abs(a - b) <= limit * (abs(b) + 0.01 * scale) for a, b in zip(got, wanted)), (got, wanted)


@pytest.mark.parametrize("name,case", ALL)
def test_the_trajectory_is_pytorchs(name, case):
    wanted = RECORDED[name][case]
    options = trajectories.CASES[name][case]
    params, optimiser = trajectories.problem(torch, name, options, torch.float64)
    trajectories.run(torch, params, optimiser, torch.float64)
    got = trajectories.values(torch, params, optimiser)
    limit = LIMIT.get(name, 1e-10)
    for a, b in zip(got["params"], wanted["params"]):
        near(a, b, limit)
    assert list(got["state"]) == list(wanted["state"])
    for key, entries in wanted["state"].items():
        assert list(got["state"][key]) == list(entries)
        for entry in entries:
            near(got["state"][key][entry], entries[entry], limit)
    groups = json.loads(json.dumps(optimiser.state_dict()["param_groups"]))
    assert groups == wanted["groups"]
    assert [list(g) for g in groups] == [list(g) for g in wanted["groups"]]


@pytest.mark.parametrize("dtype,limit", [("float32", 2e-4), ("bfloat16", 0.15), ("float16", 0.05)])
@pytest.mark.parametrize("name", TABLE)
def test_other_dtypes_follow(name, dtype, limit):
    dtype = getattr(torch, dtype)
    params, optimiser = trajectories.problem(torch, name, {}, torch.float64)
    trajectories.run(torch, params, optimiser, torch.float64)
    narrow, optimiser = trajectories.problem(torch, name, {}, dtype)
    trajectories.run(torch, narrow, optimiser, dtype)
    for p, q in zip(params, narrow):
        assert q.dtype == dtype
        near(q.detach().double().reshape(-1).tolist(), p.detach().reshape(-1).tolist(), limit)
    for entries in optimiser.state.values():
        for key, value in entries.items():
            assert value.dtype == (torch.float32 if value.dim() == 0 else dtype), key


def run_two(name, make, convert, **options):
    """The same steps on parameters as `make` lays them out and on plain ones; both as plain tensors."""
    plain = [trajectories.tensor(torch, (4, 6), i, torch.float32) for i in range(2)]
    other = [make(p).requires_grad_() for p in plain]
    plain = [p.clone().requires_grad_() for p in plain]
    optimisers = [getattr(torch.optim, name)(params, **options) for params in (plain, other)]
    for step in range(4):
        for i, (p, q) in enumerate(zip(plain, other)):
            grad = trajectories.tensor(torch, (4, 6), 30 + 2 * step + i, torch.float32)
            p.grad, q.grad = grad, convert(grad)
        for optimiser in optimisers:
            optimiser.step()
    return plain, other


@pytest.mark.parametrize("name", TABLE)
def test_strided_parameters_and_gradients(name):
    turned = lambda p: p.t().contiguous().t()  # noqa: E731
    holes = lambda p: torch.stack([p, p], 2)[:, :, 0]  # noqa: E731
    for make, convert in ((turned, turned), (turned, lambda g: g), (holes, lambda g: g), (lambda p: p.clone(), holes)):
        plain, other = run_two(name, make, convert)
        for p, q in zip(plain, other):
            if name in ("Adafactor", "Muon"):  # made of sums, whose order follows the memory
                assert torch.allclose(p, q, rtol=1e-2 if name == "Muon" else 1e-5)
            else:
                assert torch.equal(p, q)


@pytest.mark.parametrize("name", [n for n in TABLE if n not in ("Adafactor", "Muon")])
def test_complex_parameters_are_pairs_of_reals(name):
    z = torch.complex(torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor([[0.1, 0.2], [-1.0, 0.4]]))
    for z in (z, z.t()):
        real, z = torch.view_as_real(z).clone().requires_grad_(), z.detach().requires_grad_()
        a, b = (getattr(torch.optim, name)([p]) for p in (real, z))
        for step in range(4):
            z.grad = torch.complex(*(trajectories.tensor(torch, (2, 2), 5 * step + k, torch.float32) for k in range(2)))
            real.grad = torch.view_as_real(z.grad).clone()
            a.step()
            b.step()
        assert torch.equal(torch.view_as_real(z.detach()), real.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("name", [n for n in TABLE if n not in ("Adafactor", "Muon")])
def test_a_large_parameter_is_its_elements(name, dtype):
    g = torch.Generator().manual_seed(1)
    draw = lambda n: (
        torch.randn(n, generator=g, dtype=torch.complex64).to(dtype)
        if dtype.is_complex
        else torch.randn(n, generator=g).to(dtype)
    )  # noqa: E731
    whole, sizes = draw(50001).requires_grad_(), [7, 10000, 1, 12000, 13000, 14000, 993]
    parts = [p.clone().requires_grad_() for p in whole.detach().split(sizes)]
    optimisers = [getattr(torch.optim, name)([p]) for p in (whole, *parts)]
    for _ in range(3):
        whole.grad = draw(50001)
        for p, grad in zip(parts, whole.grad.split(sizes)):
            p.grad = grad
        for optimiser in optimisers:
            optimiser.step()
    assert torch.equal(whole.detach(), torch.cat([p.detach() for p in parts]))


@pytest.mark.parametrize("name", TABLE)
def test_the_bits_do_not_depend_on_threads(name):
    def bits(threads):
        torch.set_num_threads(threads)
        g = torch.Generator().manual_seed(3)
        shapes = [(70, 300), (3, 40), (101, 997)]
        params = [torch.randn(s, generator=g).requires_grad_() for s in shapes]
        optimiser = getattr(torch.optim, name)(params)
        for _ in range(3):
            for p in params:
                p.grad = torch.randn(p.shape, generator=g)
            optimiser.step()
        return [p.detach().numpy().tobytes() for p in params]

    before = torch.get_num_threads()
    try:
        wanted = bits(1)
        assert all(bits(threads) == wanted for threads in (2, 3, 7))
    finally:
        torch.set_num_threads(before)


# ---- Constructors ----
def leaf(*shape):
    return torch.ones(*shape).requires_grad_()


@pytest.mark.parametrize(
    "name,options,message",
    [
        ("Adam", dict(lr=-1), "Invalid learning rate: -1"),
        ("Adam", dict(lr=torch.tensor(-1.0)), "Invalid learning rate: -1.0"),
        ("Adam", dict(lr=torch.ones(2)), "Tensor lr must be 1-element"),
        ("AdamW", dict(betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        ("NAdam", dict(betas=(0.9, -0.5)), "Invalid beta parameter at index 1: -0.5"),
        ("RAdam", dict(eps=-1), "Invalid epsilon value: -1"),
        ("Adamax", dict(weight_decay=-0.5), "Invalid weight_decay value: -0.5"),
        ("NAdam", dict(momentum_decay=-1), "Invalid momentum_decay value: -1"),
        ("Adadelta", dict(rho=1.1), "Invalid rho value: 1.1"),
        ("Adagrad", dict(lr_decay=-1), "Invalid lr_decay value: -1"),
        ("Adagrad", dict(initial_accumulator_value=-1), "Invalid initial_accumulator_value value: -1"),
        ("RMSprop", dict(alpha=-1), "Invalid alpha value: -1"),
        ("RMSprop", dict(momentum=-1), "Invalid momentum value: -1"),
        ("Rprop", dict(etas=(1.1, 1.2)), "Invalid eta values: 1.1, 1.2"),
        ("ASGD", dict(lambd=-1), "Invalid lambd value: -1"),
        ("SGD", dict(momentum=-1), "Invalid momentum value: -1"),
        ("SGD", dict(nesterov=True), "Nesterov momentum requires a momentum and zero dampening"),
        ("Adafactor", dict(lr=-1), "Learning rate should be >= 0 but is: -1"),
        ("Adafactor", dict(eps=(-1, 1)), "epsilon1 should be >= 0 but is: -1"),
        ("Adafactor", dict(d=0.5), "Clipping threshold d should be >= 1 but is: 0.5"),
        ("Adafactor", dict(beta2_decay=0.1), "beta2_decay should be <= 0 but is: 0.1"),
        ("Muon", dict(adjust_lr_fn="x"), "Adjust learning rate function x is not supported"),
        ("Muon", dict(momentum=-1), "momentum should be >= 0 but is: -1"),
        (
            "Adam",
            dict(lr=torch.tensor(0.1), foreach=True),
            "lr as a Tensor is not supported for capturable=False and foreach=True",
        ),
    ],
)
def test_options_are_checked(name, options, message):
    with pytest.raises(ValueError) as error:
        getattr(torch.optim, name)([leaf(2, 2)], **options)
    assert str(error.value) == message


def test_signatures():
    adam = inspect.signature(torch.optim.Adam.__init__)
    assert str(adam) == (
        "(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False, *, foreach=None, maximize=False, capturable=False, "
        "differentiable=False, fused=None, decoupled_weight_decay=False)"
    )
    assert "decoupled_weight_decay" not in inspect.signature(torch.optim.AdamW.__init__).parameters
    assert torch.optim.AdamW([leaf(2)]).defaults["decoupled_weight_decay"] is True
    assert issubclass(torch.optim.AdamW, torch.optim.Adam)
    torch.optim.SGD([leaf(2)], 0.1, 0.9, 0, 1e-4, True)
    for accepted in (
        dict(foreach=True),
        dict(fused=True),
        dict(foreach=False, capturable=True),
        dict(differentiable=True),
    ):
        torch.optim.Adam([leaf(2)], **accepted)
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        torch.optim.SGD([leaf(2)], fused=True, foreach=True)


def test_repr():
    optimiser = torch.optim.SGD([{"params": [leaf(2)]}, {"params": [leaf(3)], "lr": 2}], lr=torch.tensor(0.5))
    assert repr(optimiser) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n    lr: 0.5\n    maximize: False\n"
        "    momentum: 0\n    nesterov: False\n    weight_decay: 0\n\nParameter Group 1\n    dampening: 0\n    differentiable: False\n    foreach: None\n"
        "    fused: None\n    lr: 2\n    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)"
    )


@pytest.mark.parametrize(
    "params,error,message",
    [
        (
            lambda: leaf(2),
            TypeError,
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor",
        ),
        (lambda: [], ValueError, "optimizer got an empty parameter list"),
        (lambda: [leaf(2) * 2], ValueError, "can't optimize a non-leaf Tensor"),
        (lambda: [1], TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
        (
            lambda: [{"params": {leaf(2)}}],
            TypeError,
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
            "between runs. Please use a list instead.",
        ),
        (
            lambda: [("a", leaf(2)), leaf(2)],
            ValueError,
            "all optimizer params should be with/without names. Some param names are missing",
        ),
        (
            lambda: [{"params": [("a", leaf(2))]}, {"params": [leaf(2)]}],
            ValueError,
            "all optimizer param groups should be with/without names. cannot add param group without names to the optimizer",
        ),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error) as raised:
        torch.optim.SGD(params())
    assert str(raised.value) == message


def test_groups():
    a, b, c = leaf(2), leaf(3), leaf(1)
    groups = [{"params": [a]}, {"params": b, "lr": 3}]
    optimiser = torch.optim.SGD(groups, lr=0.5)
    assert optimiser.param_groups[0] is groups[0]
    assert optimiser.param_groups[1]["params"] == [b]
    assert optimiser.param_groups[1]["lr"] == 3
    optimiser.add_param_group({"params": (p for p in [c]), "momentum": 0.5})
    assert optimiser.param_groups[2]["momentum"] == 0.5
    assert optimiser.param_groups[2]["lr"] == 0.5
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optimiser.add_param_group({"params": [a]})
    with pytest.raises(TypeError, match="param_group must be a dict, but got <class 'list'>"):
        optimiser.add_param_group([a])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.optim.SGD([a, a])
    assert "duplicate parameters" in str(caught[0].message)
    for p in (a, b, c):
        p.grad = torch.ones_like(p)
    optimiser.step()
    assert a.tolist() == [0.5, 0.5]
    assert b.tolist() == [-2.0] * 3
    assert c.tolist() == [0.5]


def test_named_parameters():
    model = torch.nn.Linear(2, 1)
    optimiser = torch.optim.SGD(model.named_parameters(), lr=1, momentum=0.9)
    assert optimiser.param_groups[0]["param_names"] == ["weight", "bias"]
    assert list(optimiser.state_dict()["param_groups"][0])[0] == "param_names"
    plain = torch.optim.SGD(model.parameters(), lr=2)
    optimiser.load_state_dict(plain.state_dict())
    assert optimiser.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimiser.param_groups[0]["lr"] == 2


def test_adagrad_has_state_from_the_start():
    p = leaf(2)
    state = torch.optim.Adagrad([p], initial_accumulator_value=0.5).state[p]
    assert state["step"].item() == 0
    assert state["sum"].tolist() == [0.5, 0.5]


def test_sparse_adam_wants_sparse_gradients():
    p = leaf(2)
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        torch.optim.SparseAdam([p]).step()
    with pytest.raises(ValueError, match="Invalid learning rate: 0"):
        torch.optim.SparseAdam([p], lr=0)


# ---- Steps ----
def test_closure_and_gradients():
    p = leaf(3)
    optimiser = torch.optim.SGD([p], lr=0.1)

    def closure():
        optimiser.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimiser.step(closure)
    assert loss.item() == 3
    assert torch.allclose(p, torch.full((3,), 0.8))
    optimiser.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0, 0]
    optimiser.zero_grad()
    assert p.grad is None
    before = p.detach().clone()
    torch.optim.Adam([p]).step()
    assert torch.equal(before, p.detach())


def test_a_step_counts_as_a_write():
    p = leaf(3)
    loss = (p * p).sum()
    loss.backward(retain_graph=True)
    torch.optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_hooks_around_a_step():
    from taper.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    p, calls = leaf(1), []
    p.grad = torch.ones(1)
    optimiser = torch.optim.SGD([p], lr=1)
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: calls.append("all before")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: calls.append("all after")),
        optimiser.register_step_pre_hook(lambda o, args, kwargs: calls.append(("before", len(args), o is optimiser))),
        optimiser.register_step_post_hook(lambda o, args, kwargs: calls.append(("after", p.item()))),
    ]
    optimiser.step()
    assert calls == ["all before", ("before", 1, True), ("after", 0.0), "all after"]
    for handle in handles:
        handle.remove()
    optimiser.step()
    assert len(calls) == 4
    optimiser.register_step_pre_hook(lambda o, args, kwargs: 5)
    with pytest.raises(RuntimeError, match="must return None or a tuple of"):
        optimiser.step()


class Signs(torch.optim.Optimizer):
    """A user's own optimiser."""

    def __init__(self, params, lr=torch.optim.optimizer.required, momentum=0.0):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["average"], state["count"] = torch.zeros_like(p), 0
                state["count"] += 1
                state["average"].mul_(group["momentum"]).add_(p.grad)
                p.add_(state["average"].sign(), alpha=-group["lr"])


def test_a_users_own_optimiser():
    p = leaf(2)
    with pytest.raises(
        ValueError, match="parameter group didn't specify a value of required optimization parameter lr"
    ):
        Signs([p])
    optimiser, calls = Signs([p], lr=0.25), []
    optimiser.register_step_post_hook(lambda *a: calls.append(1))
    (p * torch.tensor([1.0, -3.0])).sum().backward()
    optimiser.step()
    assert p.tolist() == [0.75, 1.25]
    assert calls == [1]
    other = Signs([leaf(2)], lr=1)
    other.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    (entries,) = other.state.values()
    assert entries["count"] == 1
    assert entries["average"].tolist() == [1, -3]
    assert other.param_groups[0]["lr"] == 0.25
    with pytest.raises(NotImplementedError):
        torch.optim.Optimizer([leaf(1)], {"lr": 1}).step()


# ---- L-BFGS ----
def minimise(options, steps, optimiser=None):
    """Rosenbrock's valley beside a quartic; PyTorch's figures are in the tests."""
    x = torch.tensor([-1.2, 1.0], dtype=torch.float64, requires_grad=True)
    z = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([x, z], **options)
    sign = -1 if options.get("maximize") else 1

    def closure():
        optimiser.zero_grad()
        quartic = ((z - torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)) ** 4).sum()
        loss = sign * ((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2 + quartic)
        loss.backward()
        return loss

    for _ in range(steps):
        loss = optimiser.step(closure)
    return x, z, loss, optimiser.state[x], closure


@pytest.mark.parametrize("options,figures", LBFGS_FIGURES)
def test_lbfgs_goes_pytorchs_way(options, figures):
    for steps, (loss, x, evaluations, iterations) in zip((1, 2), figures):
        got, _, first, state, _ = minimise(options, steps)
        assert (state["func_evals"], state["n_iter"]) == (evaluations, iterations)
        near(got.tolist(), x, 1e-7)
        assert first.item() == pytest.approx(loss, rel=1e-6)


def test_lbfgs_finds_the_minimum_and_keeps_its_state():
    x, z, _, state, closure = minimise({"line_search_fn": "strong_wolfe"}, 8)
    near(x.tolist(), [1, 1], 1e-5)
    assert list(state) == [
        "func_evals",
        "n_iter",
        "d",
        "t",
        "old_dirs",
        "old_stps",
        "ro",
        "H_diag",
        "prev_flat_grad",
        "prev_loss",
    ]
    optimiser = torch.optim.LBFGS([x, z], max_iter=2)
    optimiser.step(closure)
    saved = copy.deepcopy([x.detach(), z.detach(), optimiser.state_dict()])
    optimiser.step(closure)
    wanted = x.tolist()
    other = torch.optim.LBFGS([x, z], max_iter=2)
    with torch.no_grad():
        x.copy_(saved[0])
        z.copy_(saved[1])
    other.load_state_dict(saved[2])
    other.step(closure)
    assert x.tolist() == wanted


def test_lbfgs_errors():
    p = leaf(2)
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        torch.optim.LBFGS([{"params": [p]}, {"params": [leaf(1)]}])
    with pytest.raises(TypeError, match="closure"):
        torch.optim.LBFGS([p]).step()
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        torch.optim.LBFGS([p], line_search_fn="x").step(lambda: (p * p).sum())
    assert torch.optim.LBFGS([p], max_iter=8).defaults["max_eval"] == 10
    before, calls = p.tolist(), []
    optimiser = torch.optim.LBFGS([p])

    def closure():
        optimiser.zero_grad()
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("third")
        loss = (p**4).sum()
        loss.backward()
        return loss

    with pytest.raises(KeyError, match="third"):
        optimiser.step(closure)
    assert p.tolist() == before
    assert "d" not in optimiser.state[p]


# ---- State ----
@pytest.mark.parametrize("name", TABLE)
def test_a_run_continues_from_its_state_dict(name):
    dtype = torch.float32
    params, optimiser = trajectories.problem(torch, name, {}, dtype)
    trajectories.run(torch, params, optimiser, dtype, 5)
    saved = pickle.loads(
        pickle.dumps(
            [
                [p.detach().numpy() for p in params],
                {
                    "param_groups": optimiser.state_dict()["param_groups"],
                    "state": {
                        k: {n: v.numpy().copy() for n, v in s.items()}
                        for k, s in optimiser.state_dict()["state"].items()
                    },
                },
            ]
        )
    )
    trajectories.run(torch, params, optimiser, dtype, 5, 5)
    resumed = [torch.from_numpy(p.copy()).requires_grad_() for p in saved[0]]
    state = {k: {n: torch.from_numpy(v) for n, v in s.items()} for k, s in saved[1]["state"].items()}
    other = getattr(torch.optim, name)([{"params": resumed[:1]}, {"params": resumed[1:]}])
    other.load_state_dict({"state": state, "param_groups": saved[1]["param_groups"]})
    trajectories.run(torch, resumed, other, dtype, 5, 5)
    for p, q in zip(params, resumed):
        assert torch.equal(p, q)


@pytest.mark.parametrize("name", TABLE)
def test_pytorchs_state_continues_here(name):
    """Twelve recorded steps of PyTorch's, then three of ours, are fifteen of ours."""
    recorded = RECORDED[name][0]
    options = trajectories.CASES[name][0]
    params, optimiser = trajectories.problem(torch, name, options, torch.float64)
    trajectories.run(torch, params, optimiser, torch.float64, 15)
    theirs, other = trajectories.problem(torch, name, options, torch.float64)
    for p, v in zip(theirs, recorded["params"]):
        with torch.no_grad():
            p.copy_(torch.tensor(v, dtype=torch.float64).reshape(p.shape))
    state = {}
    for key, entries in recorded["state"].items():
        shapes = {n: tuple(s.shape) for n, s in optimiser.state_dict()["state"][int(key)].items()}
        state[int(key)] = {
            n: torch.tensor(v, dtype=torch.float32 if not shapes[n] else torch.float64).reshape(shapes[n])
            for n, v in entries.items()
        }
    other.load_state_dict({"state": state, "param_groups": recorded["groups"]})
    trajectories.run(torch, theirs, other, torch.float64, 3, 12)
    for p, q in zip(params, theirs):
        near(q.reshape(-1).tolist(), p.reshape(-1).tolist(), LIMIT.get(name, 1e-9))


def test_state_dicts_of_other_shapes_are_refused():
    p = leaf(2)
    optimiser = torch.optim.Adam([p])
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        optimiser.load_state_dict(torch.optim.Adam([leaf(2), leaf(2)]).state_dict())
    with pytest.raises(ValueError, match="different number of parameter groups"):
        optimiser.load_state_dict(torch.optim.Adam([{"params": [leaf(2)]}, {"params": [leaf(2)]}]).state_dict())


def test_loaded_state_is_converted_and_old_steps_are_numbers():
    p, q = leaf(2), torch.ones(2, dtype=torch.bfloat16).requires_grad_()
    first, second = torch.optim.Adam([p]), torch.optim.Adam([q])
    p.grad, q.grad = torch.ones(2), torch.ones(2, dtype=torch.bfloat16)
    first.step()
    saved = first.state_dict()
    saved["state"][0]["step"] = 5  # as PyTorch 1.x wrote it
    second.load_state_dict(saved)
    assert second.state[q]["exp_avg"].dtype == torch.bfloat16
    second.step()
    assert second.state[q]["step"].item() == 6
    assert second.state[q]["step"].dtype == torch.float32


def test_state_dict_hooks():
    p = leaf(1)
    optimiser, calls = torch.optim.SGD([p], lr=1), []
    optimiser.register_state_dict_pre_hook(lambda o: calls.append("second"))
    optimiser.register_state_dict_pre_hook(lambda o: calls.append("first"), prepend=True)
    optimiser.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1})
    optimiser.register_load_state_dict_pre_hook(lambda o, d: {**d, "param_groups": [{**d["param_groups"][0], "lr": 7}]})
    optimiser.register_load_state_dict_post_hook(lambda o: calls.append(o.param_groups[0]["lr"]))
    saved = optimiser.state_dict()
    assert saved["extra"] == 1
    optimiser.load_state_dict(saved)
    assert calls == ["first", "second", 7]


def test_copies():
    p = leaf(2)
    optimiser = torch.optim.Adam([p], lr=0.1)
    p.grad = torch.ones(2)
    optimiser.step()
    twin = copy.deepcopy(optimiser)
    (q,) = twin.param_groups[0]["params"]
    assert q is not p
    assert torch.equal(q, p)
    assert twin.state[q]["exp_avg"].tolist() == optimiser.state[p]["exp_avg"].tolist()
    q.grad = torch.ones(2)
    twin.step()
    optimiser.step()
    assert torch.equal(q, p)


def test_broken_state_is_refused_and_nothing_changes():
    p = leaf(2)
    optimiser = torch.optim.Adam([p])
    p.grad = torch.ones(2)
    optimiser.step()
    optimiser.state[p]["exp_avg_sq"] = torch.ones(3)
    before = p.detach().clone()
    with pytest.raises(RuntimeError, match="state 'exp_avg_sq': expected the parameter's shape"):
        optimiser.step()
    assert torch.equal(p.detach(), before)
    assert optimiser.state[p]["step"].item() == 1


def test_every_optimiser_of_pytorch_is_there():
    assert {
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "Muon",
        "NAdam",
        "Optimizer",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
    } <= set(dir(torch.optim))
    from taper.optim.adam import Adam

    assert Adam is torch.optim.Adam


STARTS = {
    "SGD": {"momentum": 0.9},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "NAdam": {},
    "RAdam": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {"centered": True, "momentum": 0.9},
    "ASGD": {},
    "Rprop": {},
}


@pytest.mark.parametrize("name", STARTS)
def test_a_step_that_autograd_records(name):
    """Two steps with differentiable=True have the values of plain ones, and their results can be differentiated by the
    gradients."""
    start = torch.linspace(0.5, 1.5, 4, dtype=torch.float64)
    grads = [
        torch.tensor([-1.0, -0.4, 0.7, 2.0], dtype=torch.float64),
        torch.tensor([0.9, -0.5, 0.3, 1.0], dtype=torch.float64),
    ]

    def run(*grads):
        p = start.clone().requires_grad_().clone()
        optimizer = getattr(torch.optim, name)([p], lr=0.1, differentiable=True, **STARTS[name])
        for grad in grads:
            p.grad = grad
            optimizer.step()
        return p

    plain = torch.nn.Parameter(start.clone())
    optimizer = getattr(torch.optim, name)([plain], lr=0.1, **STARTS[name])
    for grad in grads:
        plain.grad = grad.clone()
        optimizer.step()
    assert torch.allclose(run(*grads), plain, rtol=1e-6)
    assert torch.autograd.gradcheck(run, [grad.clone().requires_grad_() for grad in grads], atol=1e-4)


def test_a_recorded_step_refuses_leaves():
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        torch.optim.SGD([p], lr=0.1, differentiable=True).step()


def test_the_learning_rate_of_a_recorded_step_has_a_gradient():
    lr = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    p = torch.ones(3, dtype=torch.float64, requires_grad=True).clone()
    p.grad = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    torch.optim.SGD([p], lr=lr, differentiable=True).step()
    p.sum().backward()
    assert lr.grad.item() == -6


def test_muons_unclamped_rate():
    steps = {}
    for how in ("original", "spectral_unclamped"):
        p = torch.nn.Parameter(torch.zeros(2, 8))
        p.grad = torch.ones(2, 8)
        torch.optim.Muon([p], lr=0.1, adjust_lr_fn=how).step()
        steps[how] = p.detach()
    assert torch.allclose(steps["spectral_unclamped"], steps["original"] * 0.5)


def test_what_optimisers_say_of_their_parameters():
    first, second = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    with pytest.warns(FutureWarning, match="optimizer parameters need to be organized in ordered collections"):
        torch.optim.SGD({first, second}, lr=0.1)
    with pytest.raises(ValueError, match="betas must be either both floats or both Tensors"):
        torch.optim.Adam([first], betas=(torch.tensor(0.9), 0.99))
    optimizer = torch.optim.Adafactor([torch.nn.Parameter(torch.ones(2, 2))])
    optimizer.load_state_dict(optimizer.state_dict())
    assert "differentiable" not in optimizer.param_groups[0]


def test_fused_steps_need_real_parameters():
    p = torch.nn.Parameter(torch.ones(2, device="meta"))
    p.grad = torch.ones(2, device="meta")
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors"):
        torch.optim.Adam([p], fused=True).step()
    p.grad = None
    torch.optim.Adam([p], fused=True).step()


def test_steps_as_functions_of_lists():
    from taper.optim import _functional
    from taper.optim.adam import adam
    from taper.optim.sgd import sgd

    settings = {"lr": 0.1, "weight_decay": 0.01, "maximize": False}
    by_class, by_function = torch.nn.Parameter(torch.arange(3.0)), torch.arange(3.0)
    optimiser = torch.optim.Adam([by_class], lr=0.1, betas=(0.9, 0.99), weight_decay=0.01)
    states = [torch.zeros(3)], [torch.zeros(3)], [], [torch.tensor(0.0)]
    for _ in range(3):
        by_class.grad = 2 * by_class.detach()
        optimiser.step()
        adam([by_function], [2 * by_function], *states, beta1=0.9, beta2=0.99, eps=1e-8, amsgrad=False, **settings)
    assert torch.equal(by_function, by_class.detach()) and states[3][0] == 3
    buffers = [None]
    sgd([by_function], [by_function * 1], buffers, momentum=0.9, dampening=0.0, nesterov=False, **settings)
    assert buffers[0].shape == (3,)  # made by the first step
    assert _functional.sgd is sgd
    with pytest.raises(AttributeError):
        _functional.lion
    with pytest.raises(NotImplementedError, match="found_inf"):
        sgd([by_function], [by_function * 1], buffers, found_inf=torch.zeros(()), momentum=0.9, **settings)
