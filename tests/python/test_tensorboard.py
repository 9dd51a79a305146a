"""torch.utils.tensorboard: what is logged comes back from the real tensorboard package."""
import os

import pytest
import taper as torch
from taper.utils.tensorboard import FileWriter, RecordWriter, SummaryWriter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event


def read(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "audio": 0, "histograms": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def events(folder):
    """Every event of a folder's files, in the files' order."""
    names = sorted(name for name in os.listdir(folder) if "tfevents" in name)
    return [Event.FromString(raw) for name in names for raw in RawEventFileLoader(os.path.join(folder, name)).Load()]


def test_scalars_come_back(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(25):
            writer.add_scalar("loss/train", 1 / (step + 1), step)
        writer.add_scalar("loss/train", torch.tensor([0.25], requires_grad=True), torch.tensor(25), walltime=1234.5)
    points = read(tmp_path).Scalars("loss/train")
    assert [point.step for point in points] == list(range(26))
    assert [point.value for point in points[:25]] == pytest.approx([1 / (step + 1) for step in range(25)], rel=1e-7)
    assert (points[25].value, points[25].wall_time) == (0.25, 1234.5)
