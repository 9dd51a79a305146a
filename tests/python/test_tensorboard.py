"""torch.utils.tensorboard and tensorboardX: what is logged comes back from the real tensorboard package, and is what
PyTorch writes (tensorboard_events, recorded by tensorboard_calls.py)."""

import io
import json
import os
import pathlib
import subprocess
import sys

import numpy
import pytest
import taper as torch
import taper.nn.functional as F
from PIL import Image
from taper import nn
from taper.tensorboardX import GlobalSummaryWriter
from taper.tensorboardX import SummaryWriter as SummaryWriterX
from taper.utils.tensorboard import FileWriter, RecordWriter, SummaryWriter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util import tensor_util

import tensorboard_calls

RECORDED = pathlib.Path(__file__).parent / "tensorboard_events"


def read(folder):
    accumulator = EventAccumulator(
        str(folder), size_guidance={"scalars": 0, "images": 0, "audio": 0, "histograms": 0, "tensors": 0}
    )
    accumulator.Reload()
    return accumulator


def events(folder):
    """Every event of a folder's files, in the files' order."""
    names = sorted(name for name in os.listdir(folder) if "tfevents" in name)
    return [Event.FromString(raw) for name in names for raw in RawEventFileLoader(os.path.join(folder, name)).Load()]


def values(folder):
    return {value.tag: value for event in events(folder) for value in event.summary.value}


def pixels(encoded):
    return numpy.asarray(Image.open(io.BytesIO(encoded)))


# ---- The same as PyTorch ----


def files(folder):
    return sorted(
        str(path.relative_to(folder))
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file() and "tfevents" not in path.name
    )


def folders(folder):
    return sorted({str(path.parent.relative_to(folder)) for path in pathlib.Path(folder).rglob("*tfevents*")})


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    tensorboard_calls.log(torch, SummaryWriter, str(folder))
    return folder


def comparable(event):
    """An event without what may differ: times, who wrote it, a map's order, how a picture was packed."""
    event.ClearField("wall_time")
    event.ClearField("source_metadata")
    for value in event.summary.value:
        if value.metadata.plugin_data.plugin_name == "hparams":
            content = HParamsPluginData.FromString(value.metadata.plugin_data.content)
            value.metadata.plugin_data.content = content.SerializeToString(deterministic=True)
        if value.HasField("image"):
            picture = pixels(value.image.encoded_image_string)
            value.image.encoded_image_string = repr((picture.shape, picture.tolist())).encode()
        if value.HasField("histo"):  # sums may differ by the order of addition
            value.histo.sum, value.histo.sum_squares = (
                float(f"{value.histo.sum:.12g}"),
                float(f"{value.histo.sum_squares:.12g}"),
            )
            value.histo.bucket_limit[:] = [float(f"{limit:.14g}") for limit in value.histo.bucket_limit]
    return event


def test_the_same_files_and_folders_as_pytorchs(ours):
    assert folders(ours) == folders(RECORDED)
    assert files(ours) == files(RECORDED)


@pytest.mark.parametrize("folder", folders(RECORDED))
def test_the_same_events_as_pytorchs(ours, folder):
    mine, theirs = ([comparable(event) for event in events(root / folder)] for root in (ours, RECORDED))
    for ours_, theirs_ in zip(mine, theirs):
        assert str(ours_) == str(theirs_)
    assert len(mine) == len(theirs)


@pytest.mark.parametrize("name", files(RECORDED))
def test_the_same_projector_files_as_pytorchs(ours, name):
    if name.endswith(".png"):
        assert pixels((ours / name).read_bytes()).tolist() == pixels((RECORDED / name).read_bytes()).tolist()
    else:
        assert (ours / name).read_text() == (RECORDED / name).read_text()


# ---- Read back ----


def test_scalars_come_back(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(25):
            writer.add_scalar("loss/train", 1 / (step + 1), step)
        writer.add_scalar("loss/train", torch.tensor([0.25], requires_grad=True), torch.tensor(25), walltime=1234.5)
        writer.add_scalar("loss/train", numpy.float32(0.125), numpy.int64(26))
    points = read(tmp_path).Scalars("loss/train")
    assert [point.step for point in points] == list(range(27))
    assert [point.value for point in points[:25]] == pytest.approx([1 / (step + 1) for step in range(25)], rel=1e-7)
    assert (points[25].value, points[25].wall_time) == (0.25, 1234.5)
    assert points[26].value == 0.125


def test_every_page_finds_its_runs(ours):
    multiplexer = EventMultiplexer()
    multiplexer.AddRunsFromDirectory(str(ours))
    multiplexer.Reload()
    assert set(multiplexer.Runs()) == {".", "group_all_one", "group_all_two", "hp"}
    for plugin, run in {
        "scalars": "group_all_one",
        "histograms": ".",
        "images": ".",
        "audio": ".",
        "text": ".",
        "pr_curves": ".",
        "mesh": ".",
        "custom_scalars": ".",
        "hparams": "hp",
    }.items():
        assert multiplexer.PluginRunToTagToContent(plugin).get(run), plugin


def test_histograms_come_back(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", torch.arange(200000) % 1000, 3)
        writer.add_histogram("nan", torch.tensor([float("nan"), 1.0]), 3)
    (event,) = read(tmp_path).Histograms("h")
    histogram = event.histogram_value
    assert (event.step, histogram.min, histogram.max, histogram.num, histogram.sum) == (3, 0, 999, 200000, 99900000)
    assert sum(histogram.bucket) == 200000
    assert histogram.bucket[0] == 0  # the lower edge of the first bin
    assert (
        list(histogram.bucket[1:])
        == numpy.histogram(numpy.arange(200000) % 1000, bins=histogram.bucket_limit)[0].tolist()
    )


def test_images_keep_channels_and_formats(tmp_path):
    rgba = torch.arange(4 * 5 * 6, dtype=torch.uint8).view(4, 5, 6)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("rgba", rgba, 1)
        writer.add_image("whc", rgba[:3].permute(2, 1, 0), 1, dataformats="WHC")
        writer.add_images("list", [rgba[:3], rgba[:3]], 1)
        writer.add_image("numpy", rgba[:3].numpy(), 1)
    images = read(tmp_path)
    expected = rgba.permute(1, 2, 0).numpy()
    assert (pixels(images.Images("rgba")[0].encoded_image_string) == expected).all()
    for tag in ("whc", "numpy"):
        event = images.Images(tag)[0]
        assert (event.height, event.width) == (5, 6)
        assert (pixels(event.encoded_image_string) == expected[:, :, :3]).all()
    assert (
        pixels(images.Images("list")[0].encoded_image_string) == numpy.concatenate([expected[:, :, :3]] * 2, axis=1)
    ).all()


def test_boxes_are_drawn(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_image_with_boxes(
            "boxes", torch.zeros(3, 40, 60), torch.tensor([[10, 5, 30, 25], [50, 30, 99, 99]]), 1
        )
        writer.add_image_with_boxes(
            "labels", torch.zeros(3, 40, 60), torch.tensor([[10, 5, 50, 35]]), 1, labels=["cat"], rescale=2
        )
    picture = pixels(read(tmp_path).Images("boxes")[0].encoded_image_string)
    assert picture[5, 20].tolist() == [255, 0, 0]
    assert picture[20, 10].tolist() == [255, 0, 0]
    assert picture[25, 30].tolist() == [255, 0, 0]
    assert picture[15, 20].tolist() == [0, 0, 0]
    assert picture[4, 20].tolist() == [0, 0, 0]
    labelled = pixels(read(tmp_path).Images("labels")[0].encoded_image_string)
    assert labelled.shape == (80, 120, 3)
    assert (labelled[40:68, 24:90] == [255, 0, 0]).all(axis=2).mean() > 0.05  # the label's ground


def test_figures_are_pictures(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with SummaryWriter(tmp_path) as writer:
        figure = pyplot.figure(figsize=(2, 1), dpi=50, facecolor="blue")
        writer.add_figure("figure", figure, 1)
        assert not pyplot.fignum_exists(figure.number)
        writer.add_figure("figures", [pyplot.figure(figsize=(2, 1), dpi=50) for _ in range(2)], 1)
    images = read(tmp_path)
    assert pixels(images.Images("figure")[0].encoded_image_string)[0, 0].tolist() == [0, 0, 255]
    assert pixels(images.Images("figures")[0].encoded_image_string).shape == (50, 200, 3)


def gif_frames(encoded):
    gif = Image.open(io.BytesIO(encoded))
    frames = []
    for number in range(gif.n_frames):
        gif.seek(number)
        frames.append(numpy.asarray(gif.convert("RGB")))
    return gif, frames


def test_videos_of_few_colours_are_exact(tmp_path):
    video = (torch.arange(3 * 4 * 16 * 16) % 251).to(torch.uint8).view(3, 4, 1, 16, 16)
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("v", video, 1, fps=5)
    event = read(tmp_path).Images("v")[0]
    gif, frames = gif_frames(event.encoded_image_string)
    assert (event.height, event.width, gif.n_frames, gif.info["duration"], gif.info["loop"]) == (32, 32, 4, 200, 0)
    for t, frame in enumerate(frames):
        assert (frame[:16, 16:, 0] == video[1, t, 0].numpy()).all()
        assert (frame[16:, :16, 2] == video[2, t, 0].numpy()).all()
        assert (frame[16:, 16:] == 0).all()


def test_videos_of_many_colours_are_close(tmp_path):
    torch.manual_seed(0)
    x = torch.linspace(0, 1, 128)
    frame = torch.stack(
        [x.expand(96, 128), x.flip(0).expand(96, 128), torch.linspace(0, 1, 96).view(-1, 1).expand(96, 128)]
    )
    noise = torch.rand(3, 96, 128)  # codes of every length, and more than the table holds
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("v", torch.stack([frame, noise]).unsqueeze(0), 1)
    _, frames = gif_frames(read(tmp_path).Images("v")[0].encoded_image_string)
    for shown, meant, most in zip(frames, (frame, noise), (8, 20)):
        assert numpy.abs(shown.astype(float) - meant.permute(1, 2, 0).numpy() * 255).mean() < most


def test_sound_comes_back(tmp_path):
    import wave

    sound = torch.stack([torch.linspace(-1, 1, 100), torch.zeros(100)])
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("stereo", sound, 1, sample_rate=8000)
    (event,) = read(tmp_path).Audio("stereo")
    assert (event.sample_rate, event.length_frames, event.content_type) == (8000, 100, "audio/wav")
    with wave.open(io.BytesIO(event.encoded_audio_string)) as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (2, 8000, 100)
        frames = numpy.frombuffer(file.readframes(100), dtype="<i2").reshape(100, 2)
    assert frames[0].tolist() == [-32767, 0]
    assert frames[-1].tolist() == [32767, 0]


def test_half_tensors_come_back(tmp_path):
    expected = [1.0, -2.5, 0.125]
    with SummaryWriter(tmp_path) as writer:
        writer.add_tensor("half", torch.tensor(expected).half(), 1)
        writer.add_tensor("empty", torch.zeros(0, 3), 1)
    assert tensor_util.make_ndarray(values(tmp_path)["half"].tensor).tolist() == expected
    assert [dim.size for dim in values(tmp_path)["empty"].tensor.tensor_shape.dim] == [0, 3]


class Relu(nn.Module):
    def forward(self, x):
        return F.relu(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), Relu())
        self.head = nn.Linear(8, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x, shift):
        h = self.body(x)
        h = h + h.mean(dim=1, keepdim=True)
        return F.log_softmax(self.head(h) * self.scale + shift, dim=-1)


def test_graphs_show_modules_operators_and_shapes(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(Net(), (torch.randn(3, 4), torch.ones(2)))
    nodes = {node.name: node for node in read(tmp_path).Graph().node}
    linear = nodes["Net/Sequential[body]/Linear[0]/linear"]
    assert list(linear.input) == [
        "input/x",
        "Net/Sequential[body]/Linear[0]/weight",
        "Net/Sequential[body]/Linear[0]/bias",
    ]
    assert [dim.size for dim in linear.attr["_output_shapes"].list.shape[0].dim] == [3, 8]
    assert list(nodes["Net/Sequential[body]/Relu[1]/relu"].input) == ["Net/Sequential[body]/Linear[0]/linear"]
    assert list(nodes["Net/mean"].input) == ["Net/Sequential[body]/Relu[1]/relu"]
    assert list(nodes["Net/add"].input) == ["Net/Sequential[body]/Relu[1]/relu", "Net/mean"]
    assert list(nodes["Net/add_1"].input) == ["Net/mul", "input/x_1"]
    assert nodes["output/output"].op == "IO Node"
    assert list(nodes["output/output"].input) == ["Net/log_softmax"]
    assert all(name in nodes for node in nodes.values() for name in node.input)


def test_graphs_leave_the_model_as_it_was(tmp_path):
    model = Net()
    with SummaryWriter(tmp_path) as writer, pytest.raises(RuntimeError):
        writer.add_graph(model, (torch.randn(3, 5), torch.ones(2)))  # a shape that does not fit
    assert type(model(torch.randn(3, 4), torch.ones(2))) is torch.Tensor
    assert not model.body._forward_hooks
    assert not model.body._forward_pre_hooks


# ---- The writer ----


def test_a_default_folder_has_date_host_and_comment(tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_lr=1") as writer:
        assert writer.log_dir == writer.get_logdir()
    (name,) = os.listdir("runs")
    assert name.endswith(f"_{socket.gethostname()}_lr=1")
    assert os.listdir(os.path.join("runs", name))


def test_writing_goes_on_after_close_in_a_new_file(tmp_path):
    writer = SummaryWriter(tmp_path, filename_suffix=".x")
    writer.add_scalar("a", 1, 1)
    writer.close()
    writer.close()
    writer.add_scalar("a", 2, 2)
    writer.flush()
    assert [name[-2:] for name in os.listdir(tmp_path)] == [".x", ".x"]
    assert [point.value for point in read(tmp_path).Scalars("a")] == [1, 2]
    writer.close()


def test_purged_steps_are_gone(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(10):
            writer.add_scalar("a", 0, step)
    import time

    time.sleep(1.1)  # files are read in the order of their names, which hold the second
    with SummaryWriter(tmp_path, purge_step=5) as writer:
        writer.add_scalar("a", 1, 5)
    assert [(point.step, point.value) for point in read(tmp_path).Scalars("a")] == [(step, 0) for step in range(5)] + [
        (5, 1)
    ]


def test_a_program_that_ends_without_close_loses_nothing(tmp_path):
    program = pathlib.Path(__file__).parent / "child_programs" / "unclosed_writer.py"
    command = [sys.executable, "-m", "taper", "run", str(program), str(tmp_path)]
    subprocess.run(command, capture_output=True, timeout=120)
    assert [point.value for point in read(tmp_path).Scalars("a")] == [1]


def test_files_and_records_by_hand(tmp_path):
    from taper.utils.tensorboard import summary

    writer = FileWriter(str(tmp_path), flush_secs=0)
    writer.add_summary(summary.scalar("a", 1.5), 3)
    writer.add_event(Event(step=1, summary={"value": [{"tag": "b", "simple_value": 2.5}]}), 4)
    assert [point.value for point in read(tmp_path).Scalars("a")] == [1.5]  # flush_secs=0: at once
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.add_summary(summary.scalar("a", 1.5), 3)
    assert [(point.step, point.value) for point in read(tmp_path).Scalars("b")] == [(4, 2.5)]
    records = RecordWriter(tmp_path / "records")
    for text in (b"", b"one", b"two" * 100):
        records.write(text)
    records.close()
    assert list(RawEventFileLoader(str(tmp_path / "records")).Load()) == [b"", b"one", b"two" * 100]


def test_mistakes_are_named(tmp_path):
    writer = SummaryWriter(tmp_path)
    for call, error, words in (
        (lambda: writer.add_scalar("a", [1.0]), NotImplementedError, "numpy array or torch tensor are expected"),
        (lambda: writer.add_scalar("a", torch.ones(2)), AssertionError, "one element"),
        (lambda: writer.add_scalar(3, 1), TypeError, "str"),
        (lambda: writer.add_image("a", torch.ones(5, 4)), ValueError, "dataformats"),
        (lambda: writer.add_image("a", torch.ones(5, 5, 4)), ValueError, "channels"),
        (lambda: writer.add_histogram("a", torch.ones(0)), ValueError, "at least one element"),
        (lambda: writer.add_histogram("a", torch.tensor([1.0, float("inf")]), bins="auto"), ValueError, "finite"),
        (lambda: writer.add_histogram("a", torch.ones(3), bins="best"), ValueError, "'best'"),
        (lambda: writer.add_histogram_raw("a", 0, 1, 1, 1, 1, [1], [1, 2]), ValueError, "bucket_limits"),
        (lambda: writer.add_hparams([], {}), TypeError, "dictionary"),
        (lambda: writer.add_hparams({"a": []}, {}), ValueError, "value should be one of"),
        (lambda: writer.add_hparams({"a": 1}, {}, {"a": 3}), TypeError, "should be a list of same type"),
        (lambda: writer.add_embedding(torch.ones(2)), AssertionError, "2D"),
        (lambda: writer.add_mesh("a", torch.ones(2, 3)), ValueError, "vertices"),
        (lambda: writer.add_video("a", torch.ones(2, 3)), ValueError, "vid_tensor"),
        (lambda: writer.add_onnx_graph("x.onnx"), NotImplementedError, "not in Taper yet"),
        (lambda: SummaryWriter("/dev/null/runs"), OSError, "could not make the folder"),
    ):
        with pytest.raises(error, match=words):
            call()
    writer.close()
    assert not values(tmp_path)


# ---- tensorboardX ----


def test_tensorboardx_differs_where_it_does(tmp_path):
    with SummaryWriterX(str(tmp_path)) as writer:
        assert writer.logdir == str(tmp_path)
        writer.add_scalar("/a tag$", 1, 1, display_name="D", summary_description="S")
        writer.add_scalars("m/n", {"p": 1, "q": torch.tensor(2.0)}, 3, walltime=7.0)
        writer.export_scalars_to_json(tmp_path / "scalars.json")
        writer.add_hparams({"amp": True}, {"m": 1.0}, name="hp")
        writer.add_video("v", torch.zeros(1, 2, 8, 8, 3), 1, dataformats="NTHWC")
        writer.add_histogram("list", [1.0, 2.0], 1)
        with writer.use_metadata(global_step=9, walltime=2.0):
            writer.add_scalar("inside", 1)
    scalar = values(tmp_path)["a_tag_"]
    assert (scalar.metadata.display_name, scalar.metadata.summary_description) == ("D", "S")
    assert json.loads((tmp_path / "scalars.json").read_text()) == {
        f"{tmp_path}/m/n/p": [[7.0, 3, 1.0]],
        f"{tmp_path}/m/n/q": [[7.0, 3, 2.0]],
    }
    assert read(tmp_path / "m" / "n" / "q").Scalars("m/n")[0].value == 2
    content = values(tmp_path / "hp")["_hparams_/session_start_info"].metadata.plugin_data.content
    assert HParamsPluginData.FromString(content).session_start_info.hparams["amp"].bool_value
    (point,) = read(tmp_path).Scalars("inside")
    assert (point.step, point.wall_time) == (9, 2.0)


def test_tensorboardx_can_write_nothing(tmp_path):
    with SummaryWriterX(str(tmp_path / "no"), write_to_disk=False, purge_step=1) as writer:
        writer.add_scalar("a", 1, 1)
        writer.add_scalars("b", {"c": 1}, 1)
        assert writer.scalar_dict
    assert not (tmp_path / "no").exists()


def test_the_global_writer_counts_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = GlobalSummaryWriter.getSummaryWriter()
    assert GlobalSummaryWriter.getSummaryWriter() is writer
    for value in (5.0, 6.0):
        writer.add_scalar("a", value)
    writer.add_text("t", "x")
    writer.close()
    (run,) = os.listdir("runs")
    assert [(point.step, point.value) for point in read(os.path.join("runs", run)).Scalars("a")] == [(0, 5.0), (1, 6.0)]


def test_summaries_read_as_messages():
    from taper.utils.tensorboard import _utils, summary

    made = summary.scalar("loss", 0.5)
    assert made.value[0].tag == "loss"
    assert made.value[0].simple_value == 0.5
    assert made == type(made._message).FromString(made.SerializeToString())
    assert made != b""
    with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
        summary.histogram("dummy", [1, 3], "tensorflow")
    assert summary._calc_scale_factor(numpy.zeros(3, numpy.uint8)) == 1
    assert summary._calc_scale_factor(numpy.zeros(3)) == 255
    assert _utils.convert_to_HWC(numpy.zeros((16, 3, 32, 32)), "nchw").shape == (64, 256, 3)
    assert _utils.convert_to_HWC(numpy.zeros((32, 32)), "hw").shape == (32, 32, 3)
    video = numpy.random.random((3, 2, 3, 4, 5))
    assert numpy.allclose(_utils._prepare_video(video).sum((1, 2, 3)), video.sum((0, 2, 3, 4)))
