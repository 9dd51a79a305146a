"""What test_distributions.py measures of every distribution. `python tests/python/distribution_cases.py` under PyTorch
records it: the numbers in distributions.json are PyTorch's."""


def cases(torch):
    """name -> a function that makes the distribution."""
    d, t = torch.distributions, torch.tensor
    a, b, p, logits = t([0.5, 1.5, 3.0]), t([2.0, 0.7, 1.2]), t([0.2, 0.5, 0.9]), t([-1.0, 0.3, 2.0])
    rows, matrix = t([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]), t([[2.0, 0.5], [0.5, 1.0]])
    return {
        "Normal": lambda: d.Normal(a, b),
        "Bernoulli": lambda: d.Bernoulli(p),
        "Bernoulli logits": lambda: d.Bernoulli(logits=logits),
        "Beta": lambda: d.Beta(a, b),
        "Binomial": lambda: d.Binomial(5, p),
        "Binomial many": lambda: d.Binomial(100, p),
        "Categorical": lambda: d.Categorical(rows),
        "Categorical logits": lambda: d.Categorical(logits=rows),
        "Cauchy": lambda: d.Cauchy(a, b),
        "Chi2": lambda: d.Chi2(a),
        "ContinuousBernoulli": lambda: d.ContinuousBernoulli(p),
        "Dirichlet": lambda: d.Dirichlet(rows * 5),
        "Exponential": lambda: d.Exponential(a),
        "FisherSnedecor": lambda: d.FisherSnedecor(a * 3, b * 4),
        "Gamma": lambda: d.Gamma(a, b),
        "GeneralizedPareto": lambda: d.GeneralizedPareto(a, b, t([0.0, 0.3, -0.2])),
        "Geometric": lambda: d.Geometric(p),
        "Gumbel": lambda: d.Gumbel(a, b),
        "HalfCauchy": lambda: d.HalfCauchy(a),
        "HalfNormal": lambda: d.HalfNormal(a),
        "InverseGamma": lambda: d.InverseGamma(a, b),
        "Kumaraswamy": lambda: d.Kumaraswamy(a, b),
        "Laplace": lambda: d.Laplace(a, b),
        "LKJCholesky": lambda: d.LKJCholesky(3, t([0.5, 2.0])),
        "LogNormal": lambda: d.LogNormal(a, b),
        "LogisticNormal": lambda: d.LogisticNormal(a, b),
        "LowRank": lambda: d.LowRankMultivariateNormal(a, t([[1.0], [0.5], [2.0]]), b),
        "Multinomial": lambda: d.Multinomial(7, rows),
        "MultivariateNormal": lambda: d.MultivariateNormal(t([1.0, 2.0]), matrix),
        "MultivariateNormal precision": lambda: d.MultivariateNormal(t([1.0, 2.0]), precision_matrix=matrix),
        "NegativeBinomial": lambda: d.NegativeBinomial(t([3.0, 4.0, 5.0]), p),
        "OneHotCategorical": lambda: d.OneHotCategorical(rows),
        "Pareto": lambda: d.Pareto(a, b + 2),
        "Poisson": lambda: d.Poisson(a * 5),
        "RelaxedBernoulli": lambda: d.RelaxedBernoulli(t([0.5]), p),
        "RelaxedOneHotCategorical": lambda: d.RelaxedOneHotCategorical(t([0.7]), rows),
        "StudentT": lambda: d.StudentT(a + 2, b, a),
        "Uniform": lambda: d.Uniform(a, a + b),
        "VonMises": lambda: d.VonMises(a, b),
        "Weibull": lambda: d.Weibull(a, b),
        "Wishart": lambda: d.Wishart(t(4.0), matrix),
        "Independent": lambda: d.Independent(d.Normal(a, b), 1),
        "Mixture": lambda: d.MixtureSameFamily(d.Categorical(t([0.3, 0.3, 0.4])), d.Normal(a, b)),
        "Transformed": lambda: d.TransformedDistribution(
            d.Normal(a, b), [d.ExpTransform(), d.AffineTransform(1.0, 2.0)]
        ),
    }


def numbers(tensor, most=12):
    return [float(f"{value:.5g}") for value in tensor.detach().double().flatten().tolist()[:most]]


def measure(torch, make):
    """The distribution's numbers by name; a name that raises NotImplementedError is left out."""
    made = make()
    torch.manual_seed(7)
    sample = made.sample((3,))
    found = {
        "text": repr(made),
        "sample": numbers(sample),
        "log_prob": numbers(made.log_prob(sample)),
        "support": repr(made.support),
    }
    for name, ask in {
        "mean": lambda: made.mean,
        "mode": lambda: made.mode,
        "variance": lambda: made.variance,
        "entropy": made.entropy,
        "cdf": lambda: made.cdf(sample),
        "icdf": lambda: made.icdf(torch.full(made.batch_shape, 0.3)),
        "enumerate": made.enumerate_support,
        "expanded": lambda: made.expand((2,) + tuple(made.batch_shape)).log_prob(sample[:2]),
    }.items():
        try:
            found[name] = numbers(ask())
        except NotImplementedError:
            pass
    return found


def divergences(torch):
    """ "p || q" -> the divergence, for the pairs that PyTorch has; each family once with the parameters (a, b), once
    with (b, a)."""
    d, t = torch.distributions, torch.tensor
    a, b, p, q = t([0.5, 1.5]), t([2.0, 0.7]), t([0.2, 0.9]), t([0.4, 0.6])
    rows, others = t([[0.2, 0.8]]), t([[0.7, 0.3]])
    pairs = [
        (d.Bernoulli(p), d.Bernoulli(q)),
        (d.Beta(a, b), d.Beta(b, a)),
        (d.Binomial(4, p), d.Binomial(4, q)),
        (d.Categorical(rows), d.Categorical(others)),
        (d.Cauchy(a, b), d.Cauchy(b, a)),
        (d.ContinuousBernoulli(p), d.ContinuousBernoulli(q)),
        (d.Dirichlet(rows), d.Dirichlet(others)),
        (d.Exponential(a), d.Exponential(b)),
        (d.Gamma(a, b), d.Gamma(b, a)),
        (d.Geometric(p), d.Geometric(q)),
        (d.Gumbel(a, b), d.Gumbel(b, a)),
        (d.HalfNormal(a), d.HalfNormal(b)),
        (d.Laplace(a, b), d.Laplace(b, a)),
        (d.Normal(a, b), d.Normal(b, a)),
        (d.Pareto(a, b + 2), d.Pareto(a, b)),
        (d.Poisson(a), d.Poisson(b)),
        (d.Uniform(p * 0.1, q), d.Uniform(t([0.0, 0.0]), t([0.9, 0.8]))),
        (d.LogNormal(a, b), d.LogNormal(b, a)),
        (d.Independent(d.Normal(a, b), 1), d.Independent(d.Normal(b, a), 1)),
        (d.MultivariateNormal(a, t([[2.0, 0.5], [0.5, 1.0]])), d.LowRankMultivariateNormal(b, t([[1.0], [0.5]]), a)),
    ]
    found = {}
    for left in [pair[0] for pair in pairs]:
        for right in [pair[1] for pair in pairs]:
            try:
                value = numbers(d.kl_divergence(left, right))
            except (NotImplementedError, RuntimeError, ValueError):
                continue
            found[f"{type(left).__name__} || {type(right).__name__}"] = [
                "inf" if v == float("inf") else v for v in value
            ]
    return found


if __name__ == "__main__":
    import json
    import torch
    import warnings

    warnings.simplefilter("ignore")
    print(
        json.dumps(
            {
                "families": {name: measure(torch, make) for name, make in cases(torch).items()},
                "divergences": divergences(torch),
            }
        )
    )
