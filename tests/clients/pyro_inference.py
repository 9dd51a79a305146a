"""pyro: stochastic variational inference and a few steps of HMC."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal
from show import show

pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = 2 * x + 0.5 + 0.1 * torch.randn(20)


def model(x, y=None):
    slope, offset = pyro.sample("slope", dist.Normal(0.0, 2.0)), pyro.sample("offset", dist.Normal(0.0, 2.0))
    noise = pyro.sample("noise", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


guide = AutoDiagonalNormal(model)
svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
losses = [svi.step(x, y) for _ in range(20)]
pyro.set_rng_seed(1)
chain = MCMC(
    HMC(model, step_size=0.02, num_steps=4, adapt_step_size=False), num_samples=5, warmup_steps=2, disable_progbar=True
)
chain.run(x, y)
show(losses=losses, median=[float(v) for v in guide.median().values()], slope=chain.get_samples()["slope"])
