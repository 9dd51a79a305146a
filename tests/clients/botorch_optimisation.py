"""botorch: one round of Bayesian optimisation: a fitted process, an acquisition function and its maximum."""

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood
from show import show

torch.manual_seed(0)
x = torch.rand(12, 2, dtype=torch.float64)
y = -((x - 0.4) ** 2).sum(-1, keepdim=True)
model = SingleTaskGP(x, y)
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
points = torch.linspace(0, 1, 8, dtype=torch.float64).reshape(4, 1, 2)
upper = UpperConfidenceBound(model, beta=0.1)
candidate, value = optimize_acqf(
    upper, bounds=torch.tensor([[0.0, 0], [1, 1]], dtype=torch.float64), q=1, num_restarts=2, raw_samples=16
)
told = model.posterior(points.squeeze(1))
show(
    mean=told.mean,
    upper=upper(points),
    improvement=LogExpectedImprovement(model, y.max())(points),
    candidate=(candidate * 1e3).round() / 1e3,
)
