"""torch.distributions against numbers recorded from PyTorch (distributions.json), and what can be checked without them."""

import json
import math
import pathlib
import pickle

import pytest
import taper as torch
from distribution_cases import cases, divergences, measure
from taper import distributions as d
from taper.distributions import constraints, transforms

RECORDED = json.loads((pathlib.Path(__file__).parent / "distributions.json").read_text())


def near(ours, theirs):
    ours, theirs = (
        torch.tensor(ours, dtype=torch.float64),
        torch.tensor([float(v) for v in theirs], dtype=torch.float64),
    )
    return torch.allclose(ours, theirs, rtol=2e-4, atol=2e-5, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(RECORDED["families"]))
def test_every_distribution_has_pytorchs_numbers(name):
    ours, theirs = measure(torch, cases(torch)[name]), RECORDED["families"][name]
    assert sorted(ours) == sorted(theirs)
    for what in theirs:
        assert ours[what] == theirs[what] if what in ("text", "support") else near(ours[what], theirs[what]), (
            what,
            ours[what],
            theirs[what],
        )


def test_every_divergence_has_pytorchs_numbers():
    ours, theirs = divergences(torch), RECORDED["divergences"]
    assert sorted(ours) == sorted(theirs)
    assert len(ours) > 80
    for pair in theirs:
        assert near([float(v) for v in ours[pair]], theirs[pair]), (pair, ours[pair], theirs[pair])


@pytest.mark.parametrize("concentration", [0.02, 0.3, 1.0, 4.5, 60.0, 3e3, 4e5])
def test_gamma_samples_move_with_their_concentration(concentration):
    """dx/da = -(dP/da) / density, with the derivative of P by differences."""
    quantiles = torch.tensor([-2.5, -0.4, 0.0, 0.8, 3.0], dtype=torch.float64)
    a = torch.full((5,), concentration, dtype=torch.float64)
    x = (a * (1 - 1 / (9 * a) + quantiles / (3 * a.sqrt())).clamp(min=0.05) ** 3).clamp(min=1e-8)
    step = 1e-4 * concentration**0.75
    slope = (torch.special.gammainc(a + step, x) - torch.special.gammainc(a - step, x)) / (2 * step)
    expected = -slope / d.Gamma(a, 1.0).log_prob(x).exp()
    assert torch.allclose(torch._standard_gamma_grad(a, x), expected, rtol=2e-4), (
        torch._standard_gamma_grad(a, x),
        expected,
    )


@pytest.mark.parametrize("a, b", [(0.3, 0.2), (1.0, 1.0), (0.5, 7.0), (12.0, 3.0), (40.0, 90.0)])
def test_beta_samples_move_with_their_concentration(a, b):
    """The derivative of the cumulative probability, an integral of the density, by differences."""
    x = torch.tensor([0.05, 0.3, 0.5, 0.8, 0.97], dtype=torch.float64)

    def probability(a):
        steps = 8001  # of t, where s = t^(4 / min(a, 1)) smooths the density's end at zero
        power = 4 / min(a.item(), 1.0)
        t = torch.linspace(0, 1, steps, dtype=torch.float64)[1:] * x.unsqueeze(-1) ** (1 / power)
        density = d.Beta(a, torch.tensor(b, dtype=torch.float64)).log_prob(t**power).exp() * power * t ** (power - 1)
        return density.sum(-1) * t[..., 0] - density[..., -1] * t[..., 0] / 2

    at = torch.tensor(a, dtype=torch.float64)
    slope = (probability(at * 1.001) - probability(at * 0.999)) / (0.002 * a)
    expected = -slope / d.Beta(at, torch.tensor(b, dtype=torch.float64)).log_prob(x).exp() / (1 - x)
    found = torch._dirichlet_grad(x, at.expand(5), (at + b).expand(5))
    trusted = (
        d.Beta(at, torch.tensor(b, dtype=torch.float64)).log_prob(x) > -8
    )  # elsewhere the differences have no digits left
    assert torch.allclose(found[trusted], expected[trusted], rtol=2e-3), (found, expected)


def test_gradients_flow_through_samples():
    a = torch.tensor([0.6, 1.7, 5.2], requires_grad=True)
    for make in (
        lambda: d.Gamma(a, a),
        lambda: d.Beta(a, a + 1),
        lambda: d.Dirichlet(a),
        lambda: d.StudentT(a + 1, a, a),
        lambda: d.Normal(a, a),
        lambda: d.Laplace(a, a),
        lambda: d.Weibull(a, a),
        lambda: d.MultivariateNormal(a, torch.diag(a)),
        lambda: d.RelaxedOneHotCategorical(torch.tensor([0.5]), a / a.sum()),
    ):
        torch.manual_seed(0)
        sample = make().rsample((2,))
        (gradient,) = torch.autograd.grad(sample.sum() + (sample**2).sum(), a)
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0
        assert not make().sample().requires_grad


def test_reinforce():
    """The usual steps of a policy gradient."""
    torch.manual_seed(0)
    logits = torch.zeros(4, 3, requires_grad=True)
    policy = d.Categorical(logits=logits)
    action = policy.sample()
    (-(policy.log_prob(action) * torch.ones(4)).mean() - 0.01 * policy.entropy().mean()).backward()
    expected = (torch.full((4, 3), 1 / 3) - torch.nn.functional.one_hot(action, 3)) / 4
    assert torch.allclose(logits.grad, expected, atol=1e-6)


def test_parameters_and_values_are_checked():
    with pytest.raises(
        ValueError,
        match=r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal\(loc: 0.0, scale: -1.0\) to satisfy the constraint "
        r"GreaterThan\(lower_bound=0.0\), but found invalid values:\n-1.0",
    ):
        d.Normal(0.0, -1.0)
    d.Normal(0.0, -1.0, validate_args=False)
    with pytest.raises(ValueError, match=r"to be within the support \(Boolean\(\)\)"):
        d.Bernoulli(0.5).log_prob(torch.tensor(0.3))
    with pytest.raises(
        ValueError,
        match=r"Value is not broadcastable with batch_shape\+event_shape: torch.Size\(\[2\]\) vs torch.Size\(\[3\]\)",
    ):
        d.Normal(torch.zeros(3), 1.0).log_prob(torch.zeros(2))
    with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified, but not both."):
        d.Bernoulli()
    with pytest.raises(
        NotImplementedError, match=r"No KL\(p \|\| q\) is implemented for p type Normal and q type VonMises"
    ):
        d.kl_divergence(d.Normal(0.0, 1.0), d.VonMises(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):

        class Own(d.Normal):
            def __init__(self, loc):
                super().__init__(loc, 1.0)

        Own(torch.zeros(2)).expand((3, 2))


@pytest.mark.parametrize(
    "transform",
    [
        transforms.ExpTransform(),
        transforms.PowerTransform(torch.tensor(1.7)),
        transforms.SigmoidTransform(),
        transforms.SoftplusTransform(),
        transforms.TanhTransform(),
        transforms.AffineTransform(1.0, -2.0),
        transforms.ComposeTransform([transforms.TanhTransform(), transforms.AffineTransform(0.5, 3.0)]),
        transforms.CumulativeDistributionTransform(d.Normal(0.0, 1.0)),
    ],
    ids=repr,
)
def test_transforms_of_numbers(transform):
    x = torch.tensor([0.3, 0.9, 1.4], dtype=torch.float64, requires_grad=True)
    y = transform(x)
    assert torch.allclose(transform.inv(y), x)
    assert transform.inv.inv is transform
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(transform.log_abs_det_jacobian(x, y), slope.abs().log(), atol=1e-6)


@pytest.mark.parametrize(
    "transform, n, square",
    [
        (transforms.StickBreakingTransform(), 3, lambda y: y[:-1]),
        (transforms.CorrCholeskyTransform(), 3, lambda y: torch.stack([y[1, 0], y[2, 0], y[2, 1]])),
    ],
    ids=str,
)
def test_transforms_of_vectors(transform, n, square):
    x = torch.tensor([0.3, -0.6, 0.8], dtype=torch.float64)
    y = transform(x)
    assert transform.codomain.check(y)
    assert torch.allclose(transform.inv(y), x)
    jacobian = torch.autograd.functional.jacobian(lambda x: square(transform(x)), x)
    assert torch.allclose(transform.log_abs_det_jacobian(x, y), torch.linalg.slogdet(jacobian).logabsdet)
    assert tuple(transform.forward_shape(torch.Size((n,)))) == tuple(y.shape)


@pytest.mark.parametrize(
    "constraint",
    [
        constraints.positive,
        constraints.greater_than(2.0),
        constraints.less_than(-1.0),
        constraints.interval(1.0, 3.0),
        constraints.unit_interval,
        constraints.simplex,
        constraints.real,
        constraints.lower_cholesky,
        constraints.positive_definite,
        constraints.independent(constraints.positive, 1),
    ],
    ids=repr,
)
def test_real_numbers_go_where_a_constraint_holds(constraint):
    torch.manual_seed(0)
    assert constraint.check(d.transform_to(constraint)(torch.randn(3, 3))).all()


def test_own_divergences_and_distributions():
    class Mine(d.Normal):
        pass

    @d.register_kl(Mine, Mine)
    def between(p, q):
        return torch.tensor(42.0)

    try:
        mine = Mine(torch.zeros(2), 1.0)
        assert d.kl_divergence(mine, mine) == 42
        assert d.kl_divergence(mine, d.Normal(0.0, 1.0)).tolist() == [0, 0]
        assert type(mine.expand((3, 2))) is Mine
    finally:
        del d.kl._KL_REGISTRY[Mine, Mine]
        d.kl._KL_MEMOIZE.clear()


def test_distributions_can_be_pickled():
    normal = pickle.loads(pickle.dumps(d.Normal(torch.zeros(2), 1.0)))
    assert repr(normal) == "Normal(loc: torch.Size([2]), scale: torch.Size([2]))"
    assert normal.log_prob(torch.zeros(2)).shape == (2,)


def test_binomial_by_moments():
    """Both ways of drawing: few expected successes and many."""
    torch.manual_seed(0)
    for n, p in ((10, 0.3), (10, 0.8), (200, 0.4), (1000, 0.97)):
        drawn = torch.binomial(torch.full((20000,), float(n)), torch.full((20000,), p))
        assert drawn.min() >= 0
        assert drawn.max() <= n
        assert math.isclose(drawn.mean(), n * p, rel_tol=0.02)
        assert math.isclose(drawn.var(), n * p * (1 - p), rel_tol=0.05)
