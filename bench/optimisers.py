"""Microseconds of CPU time per optimiser step, beside PyTorch's plain, `foreach` and `fused` ones where it can be
imported.

    python bench/optimisers.py [PYTHON_WITH_PYTORCH]

One thread, so that CPU time is the step's time whatever else the machine does."""

import json
import subprocess
import sys

sys.path.insert(0, __file__.rpartition("/")[0])
from python import pytorch  # noqa: E402

MEASURE = """
import json, sys, time
torch = __import__(sys.argv[1])
torch.set_num_threads(1)
result = {}
for label, shapes, steps in (("100 tensors of 64", [(64,)] * 100, 40), ("100 tensors of 32 by 32", [(32, 32)] * 100, 20), ("one of 10 million", [(10_000_000,)], 1)):
    params = [torch.randn(*shape).requires_grad_() for shape in shapes]
    for p in params:
        p.grad = torch.randn(*p.shape)
    for name, options in (("Adam", {}), ("Adam", {"foreach": True}), ("Adam", {"fused": True}), ("SGD", {"momentum": 0.9})):
        if sys.argv[1] == "taper" and ("foreach" in options or "fused" in options):
            continue
        optimiser, best = getattr(torch.optim, name)(params, **options), float("inf")
        for _ in range(10):
            begin = time.process_time()
            for _ in range(steps):
                optimiser.step()
            best = min(best, (time.process_time() - begin) / steps * 1e6)
        result[" ".join([name, *(o for o in options if o != "momentum"), label])] = best
print(json.dumps(result))
"""


def measure(python, module):
    return json.loads(
        subprocess.run([python, "-c", MEASURE, module], capture_output=True, text=True, check=True).stdout
    )


def main():
    python = pytorch()
    ours, theirs = measure(sys.executable, "taper"), measure(python, "torch") if python else {}
    print(f"{'step':<34}{'Taper':>10}{'PyTorch':>10}{'foreach':>10}{'fused':>10}   (microseconds)")
    for label, value in ours.items():
        name, _, size = label.partition(" ")
        others = [theirs.get(" ".join(filter(None, (name, kind, size)))) for kind in ("", "foreach", "fused")]
        print(f"{label:<34}{value:>10.0f}" + "".join(f"{v:>10.0f}" if v else f"{'':>10}" for v in others))


if __name__ == "__main__":
    main()
