"""gpytorch: exact regression by marginal likelihood, then predictions; a variational model's bound."""

import gpytorch
import torch
from show import show

torch.manual_seed(0)
x = torch.linspace(0, 1, 40)
y = torch.sin(x * 6.28) + 0.1 * torch.randn(40)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel() + gpytorch.kernels.MaternKernel(nu=1.5)
        )

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Exact(likelihood)
optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
losses = []
for _ in range(10):
    optimiser.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
model.eval()
likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    told = likelihood(model(torch.linspace(0, 1, 8)))
show(losses=losses, mean=told.mean, variance=told.variance, noise=likelihood.noise)
