"""What scripts use of torch.distributed beside its collectives: functional collectives, communication hooks, averagers,
stores' queues, replicate, the launcher's interface, DDP's data, and DeepSpeed's whole weights."""

import subprocess
import sys

from ranks import PROGRAMS, run_ranks


def test_functional_collectives_and_queues(tmp_path):
    run_ranks(2, "distributed_names/collectives.py", tmp_path)


def test_hooks_and_averagers(tmp_path):
    run_ranks(2, "distributed_names/training.py", tmp_path)


def test_activation_wrappers(tmp_path):
    run_ranks(1, "distributed_names/wrapped.py", tmp_path)


def test_launching_from_a_program(tmp_path):
    script = PROGRAMS / "distributed_names" / "launching.py"
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", str(script), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fine" in done.stdout, done.stdout + done.stderr


def test_whole_weights_of_a_zero_checkpoint(tmp_path):
    run_ranks(2, "distributed_names/zero.py", tmp_path, arguments=[str(tmp_path)])


def test_elastic_samplers():
    from taper.distributed.elastic.utils.data import CyclingIterator, ElasticDistributedSampler

    parts = [ElasticDistributedSampler(range(20), 2, rank, start_index=5) for rank in range(2)]
    assert [len(list(part)) for part in parts] == [8, 8]
    assert sorted(set([*parts[0], *parts[1]])) == list(range(5, 20))
    assert list(CyclingIterator(3, lambda epoch: iter([epoch] * 2), 1)) == [1, 1, 2, 2]


def test_states_of_sharded_models(tmp_path):
    run_ranks(2, "distributed_names/states.py", tmp_path, arguments=[str(tmp_path / "folder")])
