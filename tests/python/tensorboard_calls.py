"""The calls whose event files tests/python/tensorboard_events holds as PyTorch writes them. To record them again, with
PyTorch: python tests/python/tensorboard_calls.py tests/python/tensorboard_events"""

import math
import sys


def log(torch, SummaryWriter, folder):
    """One of each kind that PyTorch writes without further packages."""
    steps = torch.arange(24, dtype=torch.float32)
    ramp = (steps / 23).view(2, 3, 4)
    waves = (steps * 7 % 24 - 11.5) / 8
    w = SummaryWriter(folder, purge_step=2)
    w.add_scalar("loss/train", 0.5, 3, walltime=1.0)
    w.add_scalar("loss/train", torch.tensor(0.25), torch.tensor(4), walltime=2.5)
    w.add_scalar("a tag: with $ and ä", -3)
    w.add_scalar("new", 0.1, 5, new_style=True)
    w.add_scalar("new/double", 0.1, 5, new_style=True, double_precision=True)
    w.add_scalar("special", math.inf, 6)
    w.add_scalar("large step", 1, 2**40)
    w.add_scalars("group/all", {"one": 1, "two": torch.tensor(2.0)}, 3)
    w.add_histogram("h/default", waves, 1)
    w.add_histogram("h/half", torch.tensor([0.5, -0.25, 1, 1], dtype=torch.float16), 1)
    w.add_histogram("h/whole", torch.tensor([3, 3, 4, 9]), 1)
    for bins in ("auto", "fd", "doane", "scott", "stone", "rice", "sturges", "sqrt", 7, [-1.0, 0.0, 0.5, 2.0]):
        w.add_histogram(f"h/{bins}", waves * steps, 1, bins=bins)
    w.add_histogram("h/one", torch.tensor([2.5]), 1, bins="auto")
    w.add_histogram("h/joined", torch.arange(100.0), 1, bins=11, max_bins=4)
    w.add_histogram_raw("h/raw", 0, 4, 10, 20, 50, [1, 2, 4], [5, 3, 2], 7)
    for dtype in ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64"):
        w.add_tensor(f"t/{dtype}", torch.tensor([[0, 1], [2, 3]]).to(getattr(torch, dtype)), 1)
    w.add_tensor("t/scalar", torch.tensor(2.5), 1)
    w.add_text("words", "# Title\n*ä* and 日本", 1)
    w.add_image("i/CHW", ramp[:1].expand(3, 3, 4), 1)
    w.add_image("i/HWC", (ramp.permute(1, 2, 0)[:, :, :1] * 255).to(torch.uint8).expand(3, 4, 3), 1, dataformats="HWC")
    w.add_image("i/HW", ramp[0] * 2 - 0.5, 1, dataformats="HW")
    w.add_images("i/NCHW", torch.stack([ramp[:1]] * 10), 1)
    w.add_images("i/NHWC", ramp.view(2, 3, 4, 1).expand(2, 3, 4, 3), 1, dataformats="NHWC")
    w.add_audio("sound", waves.view(1, -1), 1, sample_rate=8000)
    w.add_pr_curve("pr", torch.tensor([0, 1, 1, 0, 1]), torch.tensor([0.1, 0.9, 0.8, 0.3, 0.4]), 2, num_thresholds=6)
    w.add_pr_curve(
        "pr/weighted",
        torch.tensor([0, 1, 1]),
        torch.tensor([0.0, 1.0, 0.5]),
        2,
        weights=torch.tensor([1.0, 2.0, 0.5]).numpy(),
    )
    w.add_pr_curve_raw("pr/raw", *(torch.arange(3.0) + i for i in range(6)), 2, num_thresholds=3)
    w.add_mesh(
        "mesh",
        ramp.view(1, 8, 3),
        (ramp.view(1, 8, 3) * 255).to(torch.int32),
        torch.tensor([[[0, 1, 2], [3, 4, 5]]]),
        {"cls": "Points"},
        1,
    )
    w.add_mesh("points", ramp.view(2, 4, 3), global_step=1)
    w.add_custom_scalars(
        {
            "Taiwan": {"twse": ["Multiline", ["a", "b"]], "m": ["Margin", ["x", "lo", "hi"]]},
            "USA": {"d": ["Multiline", ["c"]]},
        }
    )
    w.add_custom_scalars_multilinechart(["a", "b"])
    w.add_custom_scalars_marginchart(["v", "lo", "hi"], title="t")
    w.add_hparams(
        {"lr": 0.1, "amp": True, "opt": "adam", "n": 3, "t": torch.tensor([2.5])},
        {"accuracy": 0.9, "loss": torch.tensor(0.5)},
        {"lr": [0.1, 0.2], "opt": ["adam", "sgd"]},
        run_name="hp",
    )
    w.add_embedding(
        ramp.view(6, 4), ["a", "b\tc", "d", "e", "f", "g"], ramp.view(6, 1, 2, 2).expand(6, 3, 2, 2), 7, "faces/x"
    )
    w.add_embedding(ramp.view(6, 4)[:2], [["a", 1], ["b", 2]], metadata_header=["q", "r"])
    w.close()


if __name__ == "__main__":
    import pathlib

    import torch
    from torch.utils.tensorboard import SummaryWriter

    log(torch, SummaryWriter, sys.argv[1])
    for path in pathlib.Path(sys.argv[1]).rglob("*tfevents*"):
        path.rename(path.with_name("events.out.tfevents.pytorch"))
