"""Models and states in parts: DTensor, fully_shard and FullyShardedDataParallel, tensor and pipeline parallel layers,
DeepSpeed's engine, and sharded checkpoints that another number of ranks loads. Each against one process with the whole
of it."""

import os
import subprocess
import sys

import pytest
import taper as torch
import taper.distributed.checkpoint as dcp
from ranks import PROGRAMS, run_ranks


def test_tensors_in_parts(tmp_path):
    run_ranks(2, "sharding/tensors.py", tmp_path)


def test_fully_sharded(tmp_path):
    run_ranks(2, "sharding/sharded.py", tmp_path)


def test_weights_in_two_places_unused_ones_and_meshes_of_two_dimensions(tmp_path):
    run_ranks(4, "sharding/shapes.py", tmp_path, arguments=[str(tmp_path / "saved")])


def test_layers_in_parts_and_pipelines(tmp_path):
    run_ranks(3, "sharding/layers.py", tmp_path)


def test_models_cut_into_stages(tmp_path):
    run_ranks(2, "sharding/cut.py", tmp_path)


def test_deepspeed(tmp_path):
    run_ranks(2, "sharding/deepspeed_stages.py", tmp_path, arguments=[str(tmp_path / "saved")])


# ---- Checkpoints ----


def test_saved_on_four_and_resumed_on_one_two_three(tmp_path):
    """The loss goes on as it would have."""
    folder = tmp_path / "checkpoint"
    curve = [
        float(line) for line in run_ranks(4, "sharding/curve.py", tmp_path, arguments=["begin", str(folder)])[0].split()
    ]
    assert len(curve) == 4
    assert sorted(p.name for p in folder.iterdir()) == [
        ".metadata",
        *(f"__{i}_0.distcp" for i in range(4)),
    ]
    for count, what in ((1, "one"), (2, "resume"), (3, "resume")):
        again = [
            float(line)
            for line in run_ranks(count, "sharding/curve.py", tmp_path, arguments=[what, str(folder)])[0].split()
        ]
        assert again == pytest.approx(curve, abs=1e-6), count


def state(scale):
    return {
        "model": {"w": torch.arange(6.0).view(2, 3) * scale, "b": torch.ones(2, dtype=torch.bfloat16) * scale},
        "step": 3 * scale,
        "name": "text",
        "opt": {"state": {0: {"exp": torch.zeros(2, 3)}}, "param_groups": [{"lr": 0.1 * scale, "params": [0]}]},
        "list": [scale, torch.ones(3) * scale],
    }


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return all(map(same, a, b)) and len(a) == len(b) if isinstance(a, list) else a == b


def test_one_process_saves_loads_and_replaces(tmp_path):
    dcp.save(state(1), checkpoint_id=tmp_path / "a")
    got = state(0)
    kept = got["model"]["w"]
    dcp.load(got, checkpoint_id=tmp_path / "a")
    assert same(got, state(1))
    assert got["model"]["w"] is kept
    dcp.async_save(state(2), storage_writer=dcp.FileSystemWriter(tmp_path / "a")).result()
    dcp.load(got, storage_reader=dcp.FileSystemReader(tmp_path / "a"))
    assert same(got, state(2))
    assert sorted(os.listdir(tmp_path / "a")) == [".metadata", "__0_1.distcp"]
    with pytest.raises(dcp.CheckpointException, match="overwrite is False"):
        dcp.save(state(1), storage_writer=dcp.FileSystemWriter(tmp_path / "a", overwrite=False))
    dcp.format_utils.dcp_to_torch_save(tmp_path / "a", tmp_path / "one.pt")
    whole = torch.load(tmp_path / "one.pt")
    assert torch.equal(whole["model"]["w"], state(2)["model"]["w"])
    assert whole["opt"]["param_groups"] == [{"lr": 0.2, "params": [0]}]
    dcp.format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "b")
    dcp.load(got, checkpoint_id=tmp_path / "b")
    assert same(got, state(2))


def test_damaged_and_unfit_checkpoints_are_refused(tmp_path):
    dcp.save(state(1), checkpoint_id=tmp_path)
    before = state(0)
    for change, words in (
        ({"model": {"w": torch.zeros(3, 2)}}, "Size mismatch"),
        ({"model": {"other": torch.zeros(2)}}, "Missing key in checkpoint state_dict: model.other"),
    ):
        with pytest.raises(dcp.CheckpointException, match=words):
            dcp.load(change, checkpoint_id=tmp_path)
    dcp.load(
        {"model": {"other": torch.zeros(2), **before["model"]}},
        checkpoint_id=tmp_path,
        planner=dcp.DefaultLoadPlanner(allow_partial_load=True),
    )
    part = tmp_path / "__0_0.distcp"
    data = bytearray(part.read_bytes())
    at = data.index(torch.arange(6.0).numpy().tobytes())
    data[at + 5] ^= 1  # one bit of a weight
    part.write_bytes(data)
    with pytest.raises(
        dcp.CheckpointException,
        match=r"(?i)'model.w' in __0_0.distcp: '__0_0.distcp, bytes \d+ to \d+': .*(crc|checksum)",
    ):
        dcp.load(state(0), checkpoint_id=tmp_path)
    part.write_bytes(data[:at])
    with pytest.raises(dcp.CheckpointException, match="'model.w' in __0_0.distcp: .* ends after"):
        dcp.load(state(0), checkpoint_id=tmp_path)
    part.unlink()
    with pytest.raises(dcp.CheckpointException, match="'model.w' in __0_0.distcp: .*No such file"):
        dcp.load(state(0), checkpoint_id=tmp_path)
    (tmp_path / ".metadata").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(dcp.CheckpointException, match="GLOBAL os.system"):
        dcp.load(state(0), checkpoint_id=tmp_path)
    (tmp_path / ".metadata").unlink()
    with pytest.raises(dcp.CheckpointException, match="no complete checkpoint"):
        dcp.load(state(0), checkpoint_id=tmp_path)


def test_a_folder_that_pytorch_wrote():
    """tests/python/checkpoint_folder: dcp.save(state(1)) of PyTorch 2.15."""
    got = state(0)
    dcp.load(got, checkpoint_id=os.path.join(os.path.dirname(__file__), "checkpoint_folder"))
    assert same(got, state(1))


def test_a_save_that_dies_leaves_the_last_one_whole(tmp_path):
    script, folder = PROGRAMS / "sharding" / "save_and_die.py", tmp_path / "c"
    for how, value, status in (("live", 1, 0), ("die", 2, 9), ("die", 3, 9)):
        assert (
            subprocess.run(
                [sys.executable, "-m", "taper", "run", str(script), str(folder), how, str(value)], timeout=60
            ).returncode
            == status
        )
    got = {"w": torch.zeros(3)}
    dcp.load(got, checkpoint_id=folder)
    assert got["w"].tolist() == [1.0] * 3
    subprocess.run(
        [sys.executable, "-m", "taper", "run", str(script), str(folder), "live", "4"], check=True, timeout=60
    )
    dcp.load(got, checkpoint_id=folder)
    assert got["w"].tolist() == [4.0] * 3
    assert len(list(folder.iterdir())) == 2


# ---- The plan of a checkpoint: (rank, name, bytes, None or (dtype, whole, offset, size)) ----


def rows(rank, name, whole, start, count):
    return rank, name, 0, (torch.float32, (whole, 2), (start, 0), (count, 2))


def test_what_one_rank_has_it_writes_and_what_all_have_goes_to_who_writes_least():
    boxes = [
        rows(0, "cut", 6, 0, 4),
        rows(0, "whole", 3, 0, 3),
        (0, "step", 100, None),
        rows(1, "cut", 6, 4, 2),
        rows(1, "whole", 3, 0, 3),
        (1, "step", 100, None),
    ]
    chosen = torch._C._checkpoint_plan(boxes, 2, False)
    assert [boxes[i][:2] for i in chosen] == [(0, "cut"), (1, "cut"), (1, "step"), (0, "whole")]
    chosen = torch._C._checkpoint_plan(boxes, 2, True)
    assert [boxes[i][:2] for i in chosen] == [(0, "cut"), (1, "cut"), (0, "step"), (0, "whole")]


@pytest.mark.parametrize(
    "first,second,message",
    [
        (rows(0, "x", 3, 0, 3), rows(1, "x", 4, 0, 4), "ranks disagree on what 'x' is: rank 0 has float32"),
        (rows(0, "x", 3, 0, 3), (1, "x", 100, None), "for rank 0 it is a tensor, for rank 1 it is none"),
        (rows(0, "x", 3, 0, 3), rows(0, "x", 3, 0, 3), "rank 0 gave the same part of 'x' twice"),
        (rows(0, "x", 3, 0, 3), rows(2, "x", 3, 0, 3), "expected a rank from 0 to 1 for 'x', got 2"),
    ],
)
def test_ranks_that_disagree(first, second, message):
    with pytest.raises(ValueError) as raised:
        torch._C._checkpoint_plan([first, second], 2, False)
    assert message in str(raised.value)


def test_a_tensor_without_elements_is_part_of_a_checkpoint(tmp_path):
    dcp.save({"empty": torch.zeros(0, 3), "scalar": torch.tensor(2.0), "name": "x"}, checkpoint_id=tmp_path)
    reader = dcp.FileSystemReader(tmp_path)
    from taper.distributed.checkpoint.state_dict_loader import read_all

    found = read_all(reader, reader.read_metadata())
    assert found["empty"].shape == (0, 3)
    assert found["scalar"].item() == 2
    assert found["name"] == "x"


def test_what_two_boxes_share():
    assert torch._C._box_overlap((2, 0), (4, 3), (5, 1), (9, 9)) == (
        (slice(3, 4), slice(1, 3)),
        (slice(0, 1), slice(0, 2)),
    )
    assert torch._C._box_overlap((2,), (4,), (6,), (1,)) is None
    assert torch._C._box_overlap((), (), (), ()) == ((), ())
