"""Writes the seeds of the fuzz targets to corpus/NAME beside this file: small files of each format, from this package,
NumPy and Pillow, and those that were found once. Run it with the package at hand: .venv/bin/python tests/fuzz/seeds.py
"""

import gzip
import io
import json
import pathlib
import shutil
import struct
import tempfile
import wave
import zipfile

import numpy as np
from PIL import Image

import taper as torch
from taper import nn

HERE = pathlib.Path(__file__).parent
MALICIOUS = HERE.parent / "malicious"
CORPUS = HERE / "corpus"
MAGIC = 15  # bytes of an old file that its target puts in front


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def pickle_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return next(file.read(name) for name in file.namelist() if name.endswith("data.pkl"))


def values():
    """Of storages "0", of 64 bytes, and "1", of 256, which the targets have."""
    a, b = torch.arange(16.0), torch.arange(64.0)
    yield "views", {"a": a.view(4, 4), "b": b.view(4, 16).t()[1:, ::2], "c": a[3:]}
    yield (
        "plain",
        {
            "n": 1,
            "long": 1 << 100,
            "f": 2.5,
            "t": "text",
            "bytes": b"\xff\0",
            "none": None,
            "set": {1, (2, 3)},
            "c": 1j,
            "dtype": torch.float16,
            "size": torch.Size((2, 3)),
            "device": torch.device("cuda", 1),
            "list": [True, ()],
            "array": bytearray(b"ab"),
        },
    )
    yield "parameter", nn.Parameter(a)
    optimiser = torch.optim.Adam([nn.Parameter(a)])
    yield "optimiser", optimiser.state_dict()
    yield "integers", {"a": a.view(torch.int32), "b": b.view(torch.uint8)}
    yield "sparse", torch.eye(2).to_sparse()
    yield "storage", [a.untyped_storage()]
    yield "layer", nn.ReLU()


def checkpoints():
    for name, value in values():
        for protocol in (2, 4):
            put("pickle", f"{name}-{protocol}", pickle_of(saved(value, pickle_protocol=protocol)))
        put("legacy", name, saved(value, _use_new_zipfile_serialization=False)[MAGIC:])
    for name in ("views", "plain"):
        put("zip", f"{name}.pt", saved(dict(values())[name]))
    put("legacy", "null_offset", (MALICIOUS / "old_marks_alone.pt").read_bytes()[MAGIC:])
    for path in sorted(MALICIOUS.glob("*.pt")):
        data = path.read_bytes()
        if path.name.startswith("zip_") and len(data) < 4000:
            put("zip", path.name, data)
        elif path.name.startswith("old_"):
            put("legacy", path.stem, data[MAGIC:])
        elif len(data) < 1500:
            put("pickle", path.stem, pickle_of(data))
    for path in MALICIOUS.glob("*.safetensors"):
        data = path.read_bytes()
        put("safetensors", path.stem, data[:2] + data[8:])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.safetensors"
        tensors = {"a": torch.ones(2, 3), "b": torch.zeros(4, dtype=torch.int16), "c\n\u00e9": torch.tensor(True)}
        torch.io.save(tensors, path)
        data = path.read_bytes()
        put("safetensors", "three", data[:2] + data[8:])


def arrays():
    columns = np.asfortranarray(np.arange(6, dtype=">i2").reshape(2, 3))
    kinds = {
        "f4": np.arange(6, dtype="<f4").reshape(2, 3),
        "i2_big_fortran": columns,
        "bool": np.array([True, False]),
        "empty": np.zeros((0, 3)),
        "scalar": np.array(1.5),
        "c8": np.array([1j], np.complex64),
        "text": np.array(["a"]),
        "fields": np.zeros(1, [("a", "i4")]),
    }
    for name, array in kinds.items():
        buffer = io.BytesIO()
        np.save(buffer, array)
        put("npy", name, buffer.getvalue())
        put("npz", name, buffer.getvalue())
    for name, save in (("plain-npz", np.savez), ("packed-npz", np.savez_compressed)):
        buffer = io.BytesIO()
        save(buffer, a=kinds["f4"], b=np.zeros(300))
        put("zip", name, buffer.getvalue())


def datasets():
    images = b"\0\0\x08\x03" + struct.pack(">III", 2, 3, 3) + bytes(range(18))
    labels = b"\0\0\x08\x01" + struct.pack(">I", 2) + b"\1\2"
    doubles = b"\0\0\x0e\x02" + struct.pack(">II", 1, 2) + struct.pack(">dd", 1, -2)
    huge, packed = (MALICIOUS / "idx_huge_dims").read_bytes(), gzip.compress(images, mtime=0)
    files = {"images": images, "labels": labels, "doubles": doubles, "packed": packed, "huge_dims": huge}
    for name, data in files.items():
        put("idx", name, data)
        put("datasets", name, b"\2" + data)
    put("idx", "none_of_many", bytes.fromhex("00000b03000000004f0019005d790009"))
    put("datasets", "cifar10", b"\0" + gzip.compress(bytes(2 * 3073), mtime=0))
    put("datasets", "cifar100", b"\1" + gzip.compress(bytes(3074), mtime=0))
    put("datasets", "tensors", b"\3" + saved({"x": torch.arange(6.0).view(2, 3), "y": torch.arange(2)}))


def pictures():
    pixels = np.random.default_rng(0).integers(0, 256, (7, 9, 4), np.uint8)
    turned = Image.Exif()
    turned[0x112] = 6
    for mode in ("L", "LA", "RGB", "RGBA", "P", "1", "I;16"):
        wide = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
        image = wide if mode == "I;16" else Image.fromarray(pixels).convert(mode)
        for number in (0, 3, 0x84):
            buffer = io.BytesIO()
            image.save(buffer, "PNG", exif=turned)
            put("png", f"{mode.replace(';', '')}-{number}", bytes([number]) + buffer.getvalue())
    grey = io.BytesIO()
    Image.fromarray(pixels[..., 0]).save(grey, "PNG", exif=turned)
    at = grey.getvalue().index(b"eXIf")
    put("png", "exif_length", b"\3" + grey.getvalue()[: at - 4] + b"\x40" + grey.getvalue()[at - 3 :])
    for mode in ("L", "RGB", "CMYK"):
        for progressive in (False, True):
            buffer = io.BytesIO()
            image = Image.fromarray(pixels).convert("RGB").convert(mode)
            image.save(buffer, "JPEG", progressive=progressive, exif=turned, quality=20)
            put("jpeg", f"{mode}-{progressive}", bytes([0x83 if progressive else 0]) + buffer.getvalue())


def sounds():
    samples = torch.linspace(-1, 1, 24).view(2, 12)
    for bits in (8, 16, 24, 32):
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setnchannels(2), file.setsampwidth(bits // 8), file.setframerate(8000)
            file.writeframes(bytes(range(6 * bits // 4)))
        put("wav", f"pcm{bits}", b"\1\0\0" + buffer.getvalue())
    for dtype in (torch.float32, torch.float64):
        put("wav", str(dtype), b"\0\1\3" + bytes(memoryview(torch._C._encode_wav(samples.to(dtype), 8000))))


def events():
    from taper.utils.tensorboard import SummaryWriter

    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            writer.add_scalar("loss", 1.5, 3)
            writer.add_scalar("new", 2.5, 4, new_style=True)
            writer.add_text("note", "hello")
        (path,) = pathlib.Path(folder).iterdir()
        data = path.read_bytes()
    put("events", "whole", b"\0" + data)
    put("events", "huge_record", b"\0" + (MALICIOUS / "events_huge_record").read_bytes()[:300])
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        put("events", f"record-{at}", b"\1" + data[at + 12 : at + 12 + length])
        at += 16 + length


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.arange(16.0).view(4, 4)), nn.Parameter(torch.arange(64.0).view(4, 16))


class Dense(Small):
    def forward(self, x):
        return torch.relu(x @ self.a).softmax(-1) @ self.b


class Reduces(Small):
    def forward(self, x):
        y = nn.functional.layer_norm(x * self.a.sum() + 1, (4,))
        return y.cumsum(1), y.amax(0), self.b[:, 2].clone().add_(y.mean()), torch.cat([y, y.flip(0)]).sort(0)[1]


class Convolves(Small):
    def forward(self, x):
        y = nn.functional.conv2d(x.view(-1, 1, 2, 2), self.a.view(4, 1, 2, 2), padding=1)
        attended = nn.functional.scaled_dot_product_attention(y, y, y)
        return nn.functional.max_pool2d(y, 2), attended, self.b.view(-1)[:4].clone().fill_(2)


def graphs():
    from taper.export import Dim

    for kind in (Dense, Reduces, Convolves):
        for name, dynamic in ("fixed", None), ("sizes", {"x": {0: Dim("n")}}):
            buffer = io.BytesIO()
            try:
                torch.export.save(torch.export.export(kind(), (torch.ones(3, 4),), dynamic_shapes=dynamic), buffer)
            except RuntimeError:
                continue  # sizes that this one does not follow
            put("graph", f"{kind.__name__}-{name}", pickle_of(buffer.getvalue()))


def steps():
    put("steps", "letters", b"abcdefghijklmnopqrstuvwxyz0123456789")
    put("steps", "numbers", bytes(range(200)))


def scripts():
    """The code of the recorded TorchScript files."""
    for path in sorted((HERE.parent / "scripts").glob("*.pt")):
        with zipfile.ZipFile(path) as file:
            for i, name in enumerate(name for name in file.namelist() if "/code/" in name and name.endswith(".py")):
                if file.getinfo(name).file_size <= 8192:
                    put("script", f"{path.stem}-{i}", file.read(name))


def tokenizers():
    folder = pathlib.Path(__file__).resolve().parent.parent / "fixtures/tokenizer"
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
    for name in ("gpt2", "llama", "roberta"):  # the whole description, and a small vocabulary
        file = json.loads((folder / f"{name}.json").read_text())
        file["model"] = model
        put("tokenizer", name, json.dumps(file).encode() + b"\0ab <mask> 12's \xff")


def indexes():
    import taper.distributed.checkpoint as dcp

    with tempfile.TemporaryDirectory() as folder:
        dcp.save({"model": {"w": torch.ones(2, 3), "b": torch.ones(2)}, "epoch": 3}, checkpoint_id=folder, no_dist=True)
        put("index", "three", (pathlib.Path(folder) / ".metadata").read_bytes())


if __name__ == "__main__":
    shutil.rmtree(CORPUS, ignore_errors=True)
    for family in (
        checkpoints,
        arrays,
        datasets,
        pictures,
        sounds,
        events,
        graphs,
        steps,
        scripts,
        tokenizers,
        indexes,
    ):
        family()
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    print(len(files), "files of", sum(path.stat().st_size for path in files), "bytes")
