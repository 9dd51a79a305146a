"""torch.save and torch.load: PyTorch's files are read, what is written reads back, in all forms."""

import collections
import copy
import gzip
import io
import os
import pathlib
import pickle
import sys

import pytest
import taper as torch

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures" / "checkpoints"
sys.path.insert(0, str(FIXTURES))
from objects import modules, objects  # noqa: E402

OBJECTS = objects(torch)


def describe(o):
    """Everything about an object that loading must bring back."""
    if isinstance(o, torch.Tensor):
        return (
            type(o).__name__,
            str(o.dtype),
            tuple(o.shape),
            o.stride(),
            o.storage_offset(),
            o.requires_grad,
            o.tolist(),
        )
    if isinstance(o, dict):
        return (
            type(o).__name__,
            [(describe(k), describe(v)) for k, v in o.items()],
            describe(o.__dict__) if getattr(o, "__dict__", None) else None,
        )
    if isinstance(o, (list, tuple)):
        return type(o).__name__, [describe(v) for v in o]
    if isinstance(o, torch.nn.Module):
        return repr(o), describe(o.state_dict())
    return repr(o)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", OBJECTS)
def test_files_of_pytorch_are_read(name, weights_only):
    expected = describe(OBJECTS[name])
    assert describe(torch.load(FIXTURES / f"{name}.pt", weights_only=weights_only)) == expected
    assert describe(torch.load(FIXTURES / f"{name}.pt", weights_only=weights_only, mmap=True)) == expected
    assert describe(torch.load(FIXTURES / f"{name}.old.pt", weights_only=weights_only)) == expected


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_saved_comes_back(name, zipped, tmp_path):
    expected, path = describe(OBJECTS[name]), tmp_path / "x.pt"
    for protocol in 2, 4, 5:
        torch.save(OBJECTS[name], path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
        for weights_only in True, False:
            assert describe(torch.load(path, weights_only=weights_only)) == expected
    assert os.listdir(tmp_path) == ["x.pt"]


@pytest.mark.parametrize(
    "name", [name for name in OBJECTS if name not in ("plain", "dtypes")]
)  # those hold texts whose sharing is not fixed
def test_the_pickle_is_the_one_pytorch_writes(name):
    """Byte for byte."""
    buffer = io.BytesIO()
    torch.save(OBJECTS[name], buffer)
    ours, theirs = (
        torch._C._File("x", data).pickle() for data in (buffer.getvalue(), (FIXTURES / f"{name}.pt").read_bytes())
    )
    assert ours == theirs


def test_modules_of_pytorch_are_read():
    for name, module in modules(torch).items():
        loaded = torch.load(FIXTURES / f"{name}.module.pt", weights_only=False)
        assert type(loaded) is type(module)
        assert describe(loaded) == describe(module)
        with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL torch.nn.modules"):
            torch.load(FIXTURES / f"{name}.module.pt")


def test_modules_are_saved_under_the_names_of_pytorch(tmp_path):
    path = tmp_path / "m.pt"
    for module in modules(torch).values():
        torch.save(module, path)
        assert b"taper" not in path.read_bytes()
        assert describe(torch.load(path, weights_only=False)) == describe(module)


def test_tied_tensors_share_memory_again(tmp_path):
    torch.save(OBJECTS["tied"], tmp_path / "t.pt")
    for options in {}, {"mmap": True}, {"weights_only": False}:
        tied = torch.load(tmp_path / "t.pt", **options)
        assert tied["w"] is tied["again"]
        tied["w"][0, 1] = 50
        assert tied["t"][1, 0] == 50
        assert tied["part"][0, 0] == 50
        assert tied["w"].untyped_storage() is tied["t"].untyped_storage()


def test_file_objects(tmp_path):
    for zipped in True, False:
        buffer = io.BytesIO()
        torch.save({"a": torch.ones(3)}, buffer, _use_new_zipfile_serialization=zipped)
        buffer.seek(0)
        assert torch.load(buffer)["a"].tolist() == [1, 1, 1]
        with gzip.open(tmp_path / "x.gz", "wb") as f:
            torch.save({"a": torch.ones(3)}, f, _use_new_zipfile_serialization=zipped)
        with gzip.open(tmp_path / "x.gz") as f:
            assert torch.load(f)["a"].tolist() == [1, 1, 1]
        with open(tmp_path / "x.pt", "wb") as f:
            torch.save({"a": torch.ones(3)}, f, _use_new_zipfile_serialization=zipped)
        with open(tmp_path / "x.pt", "rb") as f:
            assert torch.load(f, weights_only=False)["a"].tolist() == [1, 1, 1]
    with pytest.raises(EOFError):
        torch.load(io.BytesIO())


def test_map_location():
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(3)}, buffer)
    seen = []

    def place(storage, location):
        seen.append((storage.nbytes(), location))

    for where in "cpu", torch.device("cpu"), {"cpu": "cpu"}, {}, place, lambda storage, location: storage.clone():
        for weights_only in True, False:
            buffer.seek(0)
            assert torch.load(buffer, map_location=where, weights_only=weights_only)["a"].tolist() == [1, 1, 1]
    assert seen == [(12, "cpu")] * 2
    buffer.seek(0)
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        torch.load(buffer, map_location={"cpu": "moon"})


def test_a_missing_file_and_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "nothing.pt")
    with pytest.raises(RuntimeError, match="Parent directory .* does not exist"):
        torch.save(1, tmp_path / "no" / "x.pt")
    (tmp_path / "text.pt").write_text("not a checkpoint")
    with pytest.raises(pickle.UnpicklingError, match="not a file of PyTorch's"):
        torch.load(tmp_path / "text.pt")


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return vars(self) == vars(other)


class Bag(list):
    pass


def test_safe_globals(tmp_path):
    path = tmp_path / "p.pt"
    bag = Bag([1, 2])
    torch.save(
        {"point": Point(1, torch.ones(2).tolist()), "bag": bag, "names": collections.defaultdict(list, a=[1])}, path
    )
    assert sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path)) == sorted(
        [f"{__name__}.Bag", f"{__name__}.Point", "builtins.list", "collections.defaultdict"]
    )
    with pytest.raises(pickle.UnpicklingError, match="Point"):
        torch.load(path)
    with torch.serialization.safe_globals([Point, Bag, list, collections.defaultdict]):
        loaded = torch.load(path)
    assert loaded["point"] == Point(1, [1, 1])
    assert loaded["bag"] == [1, 2]
    assert type(loaded["bag"]) is Bag
    assert loaded["names"] == {"a": [1]}
    assert loaded["names"].default_factory is list
    assert torch.serialization.get_safe_globals() == []
    assert torch.load(path, weights_only=False)["point"] == Point(1, [1, 1])


class Named(torch.Tensor):
    pass


def test_attributes_and_subclasses(tmp_path):
    tensor, parameter, named = torch.ones(2), torch.nn.Parameter(torch.ones(2)), torch.ones(3).as_subclass(Named)
    tensor.note, parameter.note, named.note = {"a": 1}, [1, 2], "n"
    torch.save([tensor, parameter, named], tmp_path / "x.pt")
    assert b"torch._tensor\n_rebuild_from_type_v2" in (tmp_path / "x.pt").read_bytes()
    with torch.serialization.safe_globals([Named]):
        for weights_only in True, False:
            loaded = torch.load(tmp_path / "x.pt", weights_only=weights_only)
            assert [(type(t).__name__, t.note, t.requires_grad) for t in loaded] == [
                ("Tensor", {"a": 1}, False),
                ("Parameter", [1, 2], True),
                ("Named", "n", False),
            ]
    with pytest.raises(pickle.UnpicklingError, match="Named was not an allowed global"):
        torch.load(tmp_path / "x.pt")


def test_whole_modules_of_classes_that_are_let_through():
    with torch.serialization.safe_globals([torch.nn.Linear, torch.nn.Sequential]):
        assert describe(torch.load(FIXTURES / "sequence.module.pt")) == describe(modules(torch)["sequence"])


def test_rings_and_shared_values():
    ring = [1]
    ring.append({"ring": ring})
    buffer = io.BytesIO()
    torch.save({"ring": ring, "again": ring}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["ring"] is loaded["again"]
    assert loaded["ring"][1]["ring"] is loaded["ring"]


def test_storages_of_two_types_are_refused():
    a = torch.ones(4)
    with pytest.raises(RuntimeError, match="view the same data as different types"):
        torch.save([a, a.view(torch.int32)], io.BytesIO())


def test_links_and_modes_stay(tmp_path):
    real, link = tmp_path / "real.pt", tmp_path / "link.pt"
    torch.save(1, real)
    os.chmod(real, 0o640)
    link.symlink_to("real.pt")
    torch.save(2, link)
    assert link.is_symlink()
    assert torch.load(real) == 2
    assert real.stat().st_mode & 0o777 == 0o640
    torch.save(3, "/dev/null")


def test_deepcopy_and_pickle_of_modules():
    for module in modules(torch).values():
        assert describe(copy.deepcopy(module)) == describe(module)
        assert describe(pickle.loads(pickle.dumps(module))) == describe(module)


def test_a_flipped_byte_is_reported_with_the_name_of_its_tensor(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"model": {"fc.weight": torch.full((64,), 1.0), "fc.bias": torch.full((64,), 2.0)}, "epoch": 3}, path)
    data = bytearray(path.read_bytes())
    at = data.find(b"\x00\x00\x00\x40" * 64)
    data[at + 50] ^= 4
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match=r"tensor 'model\.fc\.bias': .*checksum"):
        torch.load(path)
    with pytest.raises(RuntimeError, match=r"tensor 'model\.fc\.bias': .*checksum"):
        torch.load(path, weights_only=False)
    torch.load(path, mmap=True)


MALICIOUS = pathlib.Path(__file__).parent.parent / "malicious"


def test_hostile_files_are_refused_and_nothing_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = (MALICIOUS / "expected.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 140
    for line in lines:
        name, words = line.split("\t")
        if not name.endswith(".pt"):
            continue
        with pytest.raises((pickle.UnpicklingError, RuntimeError, NotImplementedError)) as caught:
            torch.load(MALICIOUS / name, weights_only=True)
        assert words in str(caught.value), name
        with pytest.raises((pickle.UnpicklingError, RuntimeError, NotImplementedError, EOFError)):
            torch.load(io.BytesIO((MALICIOUS / name).read_bytes()))
    assert os.listdir(tmp_path) == []


def test_a_safe_global_is_called_with_care(tmp_path):
    """Letting a class through lets nothing else through: neither what it holds, nor calls of what it makes."""
    path = tmp_path / "x.pt"

    class Call:
        def __reduce__(self):
            return os.system, ("touch CANARY",)

    torch.save(Point(1, [Call()]), path)
    with torch.serialization.safe_globals([Point]), pytest.raises(pickle.UnpicklingError, match="posix.system was not"):
        torch.load(path)


def test_named_tensors_in_other_formats(tmp_path):
    np = pytest.importorskip("numpy")
    tensors = {
        "a.b": torch.arange(6.0).reshape(2, 3).t(),
        "c": torch.tensor([True, False]),
        "d": torch.tensor(3, dtype=torch.bfloat16),
    }
    for name in "x.safetensors", "x.npz", "x.pt":
        torch.io.save(tensors, tmp_path / name)
        for mmap in False, True:
            loaded = torch.io.load(tmp_path / name, mmap=mmap)
            assert {k: (v.dtype, v.tolist()) for k, v in loaded.items()} == {
                k: (v.dtype, v.tolist()) for k, v in tensors.items()
            }
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["a.b"].tolist() == tensors["a.b"].tolist()
    np.save(tmp_path / "one.npy", np.arange(6, dtype=">i2").reshape(2, 3, order="F"))
    assert torch.io.load(tmp_path / "one.npy").tolist() == [[0, 2, 4], [1, 3, 5]]
    np.savez_compressed(tmp_path / "two.npz", x=np.ones(100))
    assert torch.io.load(tmp_path / "two.npz", mmap=True)["x"].sum() == 100
    with pytest.raises(RuntimeError, match="not a file of PyTorch's but npz"):
        torch.load(tmp_path / "x.npz")


def test_damaged_safetensors_are_found(tmp_path):
    path = tmp_path / "x.safetensors"
    torch.io.save({"w": torch.full((64,), 2.0)}, path)
    data = bytearray(path.read_bytes())
    data[-7] ^= 1
    path.write_bytes(data)
    with pytest.raises(RuntimeError, match="tensor 'w': .*checksum"):
        torch.io.load(path)


def test_the_safetensors_package(tmp_path):
    """The package itself, under Taper's names, reads and writes what Taper does."""
    pytest.importorskip("safetensors")
    script = tmp_path / "script.py"
    script.write_text("""
import sys
import taper, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
theirs, ours = sys.argv[1:]
tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.tensor([True, False]), "d": torch.tensor(3)}
save_file(tensors, theirs, metadata={"x": "y"})
taper.io.save(tensors, ours)
for loaded in load_file(theirs), load_file(ours), taper.io.load(theirs), taper.io.load(theirs, mmap=True):
    assert {k: (v.dtype, v.tolist()) for k, v in loaded.items()} == {k: (v.dtype, v.tolist()) for k, v in tensors.items()}
with safe_open(theirs, framework="pt") as f:
    assert f.get_slice("a")[:, 1:].tolist() == [[1.0, 2.0], [4.0, 5.0]]
print("done")
""")
    import subprocess

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "taper",
            "run",
            str(script),
            str(tmp_path / "t.safetensors"),
            str(tmp_path / "o.safetensors"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "done\n", done.stderr


def test_files_as_memory(tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(bytes(range(16)))
    private = torch.UntypedStorage.from_file(str(path), False, 8)
    private[0] = 99
    assert private.tolist() == [99, 1, 2, 3, 4, 5, 6, 7]
    assert path.read_bytes()[0] == 0
    part = private[2:4]
    part[0] = 50
    assert private[2] == 50
    assert len(part) == 2
    assert torch.asarray(part, dtype=torch.uint8).tolist() == [50, 3]
    shared = torch.from_file(str(path), shared=True, size=8, dtype=torch.int32)
    shared[7] = 5
    del shared
    assert path.stat().st_size == 32
    assert path.read_bytes()[28:] == b"\x05\0\0\0"
    with pytest.raises(OSError, match="32 bytes, 99 are wanted"):
        torch.UntypedStorage.from_file(str(path), False, 99)


def test_files_one_behind_the_other():
    """The format before zip archives may be written several times to one file."""
    buffer = io.BytesIO()
    for i in range(3):
        torch.save(torch.full((2,), float(i)), buffer, _use_new_zipfile_serialization=False)
    for weights_only in True, False:
        buffer.seek(0)
        assert [torch.load(buffer, weights_only=weights_only).tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]


def test_files_without_a_byte_order_are_read_in_the_one_that_is_set(tmp_path):
    import zipfile
    from taper.serialization import LoadEndianness, set_default_load_endianness

    torch.save(torch.tensor([1, 2], dtype=torch.int32), tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as whole, zipfile.ZipFile(tmp_path / "b.pt", "w") as silent:
        for name in whole.namelist():
            if not name.endswith("/byteorder"):
                silent.writestr(name, whole.read(name))
    assert torch.load(tmp_path / "b.pt").tolist() == [1, 2]
    set_default_load_endianness(LoadEndianness.BIG)
    try:
        assert torch.load(tmp_path / "b.pt").tolist() == [1 << 24, 2 << 24]
        assert torch.load(tmp_path / "b.pt", weights_only=False).tolist() == [1 << 24, 2 << 24]
        assert torch.load(tmp_path / "a.pt").tolist() == [1, 2]
    finally:
        set_default_load_endianness(None)


def test_skip_data_leaves_room_for_storages():
    import io

    x = torch.ones(2, 3)
    file = io.BytesIO()
    with torch.serialization.skip_data():
        torch.save({"x": x, "row": x[1]}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded["x"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert loaded["row"].untyped_storage() is loaded["x"].untyped_storage()


def test_saving_leaves_no_reference_behind():
    import io
    import sys

    storage = torch.ones(3).untyped_storage()
    before = sys.getrefcount(storage)
    torch.save({"a": torch.tensor(storage, dtype=torch.float32)}, io.BytesIO())
    assert sys.getrefcount(storage) == before


def test_old_files_name_parts_of_storages():
    import io
    import pickle

    parts = [
        pickle.dumps(0x1950A86A20F9469CFC6C, 2),
        pickle.dumps(1001, 2),
        pickle.dumps({"protocol_version": 1001, "little_endian": True}, 2),
    ]

    def identity(first):  # ("storage", torch.FloatStorage, "7", "cpu", 2, ("8", first, 1))
        return (
            b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0007X\x03\0\0\0cpuK\x02X\x01\0\0\x008K"
            + bytes([first])
            + b"K\x01\x87tQ"
        )

    parts.append(b"\x80\x02" + identity(0) + identity(1) + b"\x86.")
    parts += [pickle.dumps(["7"], 2), (2).to_bytes(8, "little"), torch.tensor([3.0, 4.0]).numpy().tobytes()]
    for weights_only in True, False:
        first, second = torch.load(io.BytesIO(b"".join(parts)), weights_only=weights_only)
        assert (first[0], second[0]) == (3, 4)
        assert first.data_ptr() + 4 == second.data_ptr()


def test_a_file_object_can_be_read_by_its_name_at_once():
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(torch.ones(3), file)
        assert torch.load(file.name, mmap=True).tolist() == [1, 1, 1]


def test_streams_that_cannot_seek_are_refused():
    class Stream:
        def read(self, n=-1):
            return b""

    with pytest.raises(AttributeError, match="You can only torch.load from a file that is seekable"):
        torch.load(Stream())


class _Marked:
    """Pickled as PyTorch pickles the conjugate or the negative of a tensor: the tensor itself, and a mark."""

    def __init__(self, tensor, version, **marks):
        self.tensor, self.version, self.marks = tensor, version, marks

    def __reduce__(self):
        t, marks = self.tensor, dict(self.marks)
        place = (0, tuple(t.shape), t.stride(), False, collections.OrderedDict())
        if self.version == 3:
            return torch._utils._rebuild_tensor_v3, (t.untyped_storage(), *place, t.dtype, marks)
        return torch._utils._rebuild_tensor_v2, (t._typed_storage(), *place, marks)


@pytest.mark.parametrize("zipped", [True, False])
def test_conjugates_and_negatives(zipped, tmp_path):
    c, r = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 4]]), torch.tensor([1.0, -2.0])
    marked = {
        "conj": _Marked(c, 2, conj=True),
        "mH": _Marked(c.T, 2, conj=True),
        "neg": _Marked(r, 2, neg=True),
        "both": _Marked(c, 2, conj=True, neg=True),
        "neither": _Marked(r, 2, conj=False),
    }
    want = {"conj": c.conj(), "mH": c.mH, "neg": -r, "both": -c.conj(), "neither": r}
    if zipped:
        wide = torch.tensor([1, 2], dtype=torch.uint16)
        marked["v3"], want["v3"] = _Marked(wide, 3, conj=True), wide
    path = tmp_path / "marked.pt"
    torch.save(marked, path, _use_new_zipfile_serialization=zipped)
    for weights_only in (True, False):
        got = torch.load(path, weights_only=weights_only)
        assert {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in want.items()}
        got["conj"][0, 0] = 7  # it has memory of its own
