"""How exact float32 gradients are: a ResNet-18 for images of 32x32, batch 4, batch norm in training, against the same
step in float64.

    python exactness.py MODULE [--seeds N] [--threads N]

A parameter's error is |g32 - g64| / |g64| over all of its elements. For each seed the program takes the middle one and
the largest one of all parameters; it prints one JSON object with both lists and the middle seed of each. MODULE is
taper or torch: run it for both and compare. A ReLU whose input changes its sign between the two precisions makes an
error of about 1e-3 whatever the convolutions do: less exact ones make that more frequent.
"""

import argparse
import importlib
import json
import statistics
import sys

from rows import resnet18


def gradients(torch, model, x, y):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    return torch.autograd.grad(loss, list(model.parameters()))


def errors(torch, seed):
    """The relative error of each parameter's gradient."""
    torch.manual_seed(seed)
    network = argparse.Namespace(nn=torch.nn, F=torch.nn.functional)
    model, exact = resnet18(network), resnet18(network)
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    exact.load_state_dict(model.state_dict())
    exact.double()
    pairs = zip(gradients(torch, model, x, y), gradients(torch, exact, x.double(), y))
    return [float((g.double() - e).norm() / e.norm()) for g, e in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", choices=("taper", "torch"))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch = importlib.import_module(options.module)
    sys.modules.setdefault("torch", torch)
    torch.set_num_threads(options.threads)
    middle, largest = [], []
    for seed in range(options.seeds):
        of_seed = errors(torch, seed)
        middle.append(statistics.median(of_seed))
        largest.append(max(of_seed))
    print(
        json.dumps(
            {
                "module": options.module,
                "middle": middle,
                "largest": largest,
                "middle_of_middles": statistics.median(middle),
                "middle_of_largest": statistics.median(largest),
            }
        )
    )


if __name__ == "__main__":
    main()
