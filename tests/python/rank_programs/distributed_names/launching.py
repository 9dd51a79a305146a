"""torch.distributed.launcher and torch.distributed.run, called from a program."""

import os
import sys
import torch
import torch.distributed as dist
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch


def work(factor, folder):
    dist.init_process_group("gloo")
    t = torch.tensor([float(dist.get_rank() + 1)]) * factor
    dist.all_reduce(t)
    dist.destroy_process_group()
    if folder and not os.path.exists(folder + "/failed") and os.environ["RANK"] == "1":
        open(folder + "/failed", "w").close()
        raise ValueError("the first time")
    return t.item(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])


def always_fails():
    raise ValueError("told by the rank")


if __name__ == "__main__":
    config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, rdzv_backend="c10d", max_restarts=1)
    assert elastic_launch(config, work)(2.0, "") == {0: (6.0, 0), 1: (6.0, 0)}
    assert elastic_launch(config, work)(3.0, sys.argv[1]) == {0: (9.0, 1), 1: (9.0, 1)}
    assert elastic_launch(config, "true")() == {0: None, 1: None}
    config.max_restarts = 0
    try:
        elastic_launch(config, always_fails)()
    except ChildFailedError as error:
        assert error.name == "always_fails"
        assert "told by the rank" in str(error)
    else:
        raise AssertionError("a function that fails")
    arguments = ["--nproc-per-node", "2", "--no-python", "true"]
    run.run(run.parse_args(arguments))
    arguments[-1] = "false"
    try:
        run.run(run.parse_args(arguments))
    except ChildFailedError:
        print("fine")
