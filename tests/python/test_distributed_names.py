"""What scripts use of torch.distributed beside its collectives: functional collectives, communication hooks, averagers,
stores' queues, replicate, the launcher's interface, DDP's data, and DeepSpeed's whole weights."""

import subprocess
import sys

from ranks import run_ranks


def test_functional_collectives_and_queues(tmp_path):
    run_ranks(2, "distributed_names/collectives.py", tmp_path)


def test_hooks_and_averagers(tmp_path):
    run_ranks(2, "distributed_names/training.py", tmp_path)


def test_activation_wrappers(tmp_path):
    run_ranks(1, "distributed_names/wrapped.py", tmp_path)


LAUNCH = """
import os, sys
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
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
        assert error.name == "always_fails" and "told by the rank" in str(error)
    else:
        raise AssertionError
    from torch.distributed import run
    arguments = ["--nproc-per-node", "2", "--no-python", "true"]
    run.run(run.parse_args(arguments))
    arguments[-1] = "false"
    try:
        run.run(run.parse_args(arguments))
    except ChildFailedError:
        print("fine")
"""


def test_launching_from_a_program(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(LAUNCH)
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", str(script), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr


def test_whole_weights_of_a_zero_checkpoint(tmp_path):
    run_ranks(2, "distributed_names/zero.py", tmp_path, arguments=[str(tmp_path)])


def test_elastic_samplers():
    from taper.distributed.elastic.utils.data import CyclingIterator, ElasticDistributedSampler

    parts = [ElasticDistributedSampler(range(20), 2, rank, start_index=5) for rank in range(2)]
    assert [len(list(part)) for part in parts] == [8, 8] and sorted(set([*parts[0], *parts[1]])) == list(range(5, 20))
    assert list(CyclingIterator(3, lambda epoch: iter([epoch] * 2), 1)) == [1, 1, 2, 2]


def test_states_of_sharded_models(tmp_path):
    run_ranks(2, "distributed_names/states.py", tmp_path, arguments=[str(tmp_path / "folder")])
