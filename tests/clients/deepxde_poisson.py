"""deepxde: a Poisson equation by a network, some steps."""

import os

os.environ["DDE_BACKEND"] = "pytorch"
import deepxde as dde  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from show import show  # noqa: E402

dde.config.set_random_seed(0)


def equation(x, y):
    return -dde.grad.hessian(y, x) - numpy.pi**2 * torch.sin(numpy.pi * x)


# Not symmetric about 0: there, gradients that ought to vanish are rounding alone, and Adam makes whole steps of them.
line = dde.geometry.Interval(-0.4, 1.1)
edge = dde.icbc.DirichletBC(line, lambda x: numpy.sin(numpy.pi * x), lambda x, on: on)
data = dde.data.PDE(
    line, equation, edge, 16, 2, solution=lambda x: numpy.sin(numpy.pi * x), num_test=10, train_distribution="uniform"
)
model = dde.Model(data, dde.nn.FNN([1] + [20] * 2 + [1], "tanh", "Glorot uniform"))
model.compile("adam", lr=0.001, metrics=["l2 relative error"])
history, state = model.train(iterations=20, display_every=5, verbose=0)
show(
    losses=[float(v) for row in history.loss_train for v in row],
    predicted=model.predict(numpy.linspace(-1, 1, 5)[:, None]).reshape(-1).tolist(),
)
