"""A fresh environment has no NumPy: what the package itself does must not need it."""

import os
import subprocess
import sys

import pytest

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

x = torch.rand(64, 2)
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True, num_workers=1)
net = nn.Linear(2, 1)
adam = torch.optim.Adam(net.parameters())
writer = SummaryWriter("runs/here")
for step, (x, y) in enumerate(data):
    adam.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    adam.step()
    writer.add_scalar("loss", loss.item(), step)
    writer.add_histogram("weight", net.weight, step)
    writer.add_image("image", torch.rand(3, 4, 4), step)
writer.close()
torch.save(net.state_dict(), "net.pt")
net.load_state_dict(torch.load("net.pt"))
print(torch.__version__, net, [p.grad for p in net.parameters()])
"""


@pytest.fixture
def run(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "numpy.py").write_text("raise ModuleNotFoundError('No module named numpy')\n")

    def run(*command):
        path = os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "taper", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    with pytest.raises(AssertionError, match="No module named numpy"):
        run("run", "-c", "import numpy")
    return run


@pytest.mark.parametrize("example, most", [("digits", "500"), ("shakespeare", "1500")])
def test_train(run, example, most):
    assert "SHA-256 of the weights" in run("train", example, "--most", most, "--epochs", "1")


def test_a_training_of_ones_own(run, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    assert "Linear(in_features=2" in run("run", "train.py")
    assert "loss" in run("watch", "runs", "--once")


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["names", "softmax"]])
def test_commands(run, command):
    assert run(*command)
