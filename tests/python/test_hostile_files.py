"""Files that lie, loop or would run something: every loader refuses them, at once, and nothing is executed."""

import io
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import taper as torch
from taper import nn
from taper.torchvision.datasets import cifar, mnist

MALICIOUS = pathlib.Path(__file__).parent.parent / "malicious"
REFUSED = (
    pickle.UnpicklingError,
    RuntimeError,
    ValueError,
    NotImplementedError,
    TypeError,
    EOFError,
    AttributeError,
    OSError,
)


def short(text):
    return b"\x8c" + bytes([len(text)]) + text.encode()


def stack_name(module, name):
    return short(module) + short(name) + b"\x93"


def archive(pickled, path):
    """A file of torch.save's with another pickle."""
    buffer = io.BytesIO()
    torch.save({"w": torch.ones(1)}, buffer)
    with zipfile.ZipFile(buffer) as good, zipfile.ZipFile(path, "w") as bad:
        for name in good.namelist():
            bad.writestr(name, pickled if name.endswith("data.pkl") else good.read(name))
    return path


def pickle_in(file):
    return next(file.read(name) for name in file.namelist() if name.endswith("data.pkl"))


def read_index(path):
    from taper.distributed.checkpoint import FileSystemReader

    folder = pathlib.Path(path).parent / "checkpoint"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path) as file:
        (folder / ".metadata").write_bytes(pickle_in(file))
    return FileSystemReader(folder).read_metadata()


def read_batch(path):
    with zipfile.ZipFile(path) as file:
        plain = pathlib.Path(path).with_suffix(".batch")
        plain.write_bytes(pickle_in(file))
    return cifar.read_batch(plain)


def load_by_safe_globals(path):
    with torch.serialization.safe_globals([frozenset]):
        return torch.load(path)


def name_of(load):
    return f"{load.__module__}.{load.__name__}"


LOADERS = [torch.load, torch.jit.load, torch.export.load, torch.io.load, read_index, read_batch, load_by_safe_globals]


def call(name, *arguments):
    return name + b"(" + b"".join(arguments) + b"tR"


def programs(marker):
    """Pickles that would make the marker, if anything did what they say."""
    command = short(f"touch {marker}")

    def functional(name):
        return stack_name("torch.nn.functional", name)

    builtins = call(functional("_warn.__globals__.get"), short("__builtins__"))
    code = short(f"open('{marker}', 'w')")
    yield call(call(functional("_warn.__globals__.__class__.get"), builtins, short("eval")), code)
    yield call(stack_name("torch.nn.functional", "warnings.sys.modules.get"), short("os"))
    yield call(stack_name("torch.nn.modules.module", "Module.__init__.__globals__.get"), short("os"))
    yield call(stack_name("os", "system"), command)
    yield call(stack_name("posix", "system"), command)
    yield call(stack_name("builtins", "eval"), code)
    yield call(stack_name("torch.hub", "load"), short("x"))
    yield call(stack_name("torch.jit._module", "script"), stack_name("os", "system"))
    yield call(stack_name("torch.jit._module", "ScriptFunction"), stack_name("os", "system"))
    yield call(stack_name("torch.jit._module", "RecursiveScriptModule"), stack_name("subprocess", "Popen"))
    yield call(stack_name("torch.fx.graph_module", "_compiled"), code, b"}")
    yield call(stack_name("torch.serialization", "load"), short("x"))
    yield call(stack_name("torch", "nn.functional.relu"), b"K\x01")
    # A call with arguments, and not an instance and its state.
    yield call(stack_name("torch.nn.modules.container", "Sequential"), b"K\x01")
    yield call(stack_name("torch.nn.functional", "relu"), b"K\x01")
    yield stack_name("torch.nn.functional", "_warn")
    yield call(stack_name("importlib", "import_module"), short("antigravity"))
    yield call(stack_name("pathlib", "Path.write_text"), short(str(marker)), short("x"))
    yield call(stack_name("numpy", "load"), short("x"))


@pytest.mark.parametrize("load", LOADERS, ids=name_of)
def test_no_loader_runs_what_a_file_names(load, tmp_path):
    marker = tmp_path / "ran"
    for i, body in enumerate(programs(marker)):
        path = archive(b"\x80\x04" + body + b".", tmp_path / f"{i}.pt")
        with pytest.raises(REFUSED):
            load(path)
        assert not marker.exists()
        assert "antigravity" not in sys.modules


def bombs():
    double = b"2\x86"
    yield b"})" + double * 40 + b"Ns"  # a dict's key of tuples in tuples, 2**40 of them once they are counted
    yield b"K\x01" + double * 40 + b"q\x00}h\x00Ns"
    yield b"}(K\x01" + double * 40 + b"K\x02u"
    yield call(stack_name("builtins", "set"), b"]" + b")" + double * 40 + b"a")
    yield call(stack_name("builtins", "frozenset"), b"]" + b")" + double * 40 + b"a")
    yield b"\x8f(" + b")" + double * 40 + b"\x90"
    yield call(stack_name("collections", "OrderedDict"), b"](" + b")" + double * 40 + b"N\x86e")
    yield call(stack_name("collections", "Counter"), b"})" + double * 40 + b"K\x01s")
    key = stack_name("torch.distributed.checkpoint.metadata", "MetadataIndex") + b")\x81}" + short("fqn")
    key += b")" + double * 40 + b"sb"
    yield b"}" + key + b"Ns"  # whose hash is that of its fields
    yield b"(" * 100000 + b"1" * 10  # marks alone
    yield b"]" * 5001 + b"a" * 5000  # lists in lists
    yield b"N" + b"\x85" * 5000  # tuples in tuples
    yield b"\x8d" + struct.pack("<Q", 1 << 60) + b"x"  # lengths that no file has
    yield b"\x8e" + struct.pack("<Q", 1 << 60) + b"x"
    yield b"\x96" + struct.pack("<Q", (1 << 64) - 1) + b"x"
    yield b"X" + struct.pack("<I", (1 << 32) - 1) + b"x"
    yield b"\x8b" + struct.pack("<I", (1 << 31) - 1) + b"x"
    yield b"\x95" + struct.pack("<Q", 1 << 60)
    yield b"Nr" + struct.pack("<I", (1 << 32) - 1)
    longs = (((1 << 61) - 1) * (i << 40) for i in range(1, 5000))  # of one hash
    yield b"}(" + b"".join(b"\x8a\x10" + i.to_bytes(16, "little") + b"N" for i in longs) + b"u"
    yield b"".join(f"cm\nn{i}\n0".encode() for i in range(20000)) + b"N"  # names without end
    copies = b"h\x00h\x01R" * 5000
    yield stack_name("builtins", "set") + b"q\x000](" + b"K\x01" * 5000 + b"e\x85q\x010(" + copies + b"t"


@pytest.mark.parametrize("load", LOADERS, ids=name_of)
def test_no_file_keeps_a_loader_busy(load, tmp_path):
    """Few bytes that stand for a great many values, or claim to: the test would not end."""
    for i, body in enumerate(bombs()):
        path = archive(b"\x80\x04" + body + b".", tmp_path / f"{i}.pt")
        with pytest.raises(REFUSED):
            load(path)


@pytest.fixture
def deep_recursion():
    """Python's own limit, which other versions of Python do not have, is out of the way."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


NESTINGS = {
    "list": lambda v: [v],
    "tuple": lambda v: (v,),
    "wide tuple": lambda v: (1, 2, 3, v),
    "dict": lambda v: {"a": v},
    "items": lambda v: [1, v, 2],
}


@pytest.mark.parametrize("wrap", NESTINGS.values(), ids=NESTINGS)
def test_the_depth_of_files_has_a_limit_of_its_own(wrap, deep_recursion):
    """What torch.save writes torch.load reads, and what it would not read is not written."""

    def nested(levels):
        value = 1
        for _ in range(levels):
            value = wrap(value)
        return value

    for protocol in 2, 4:
        buffer = io.BytesIO()
        torch.save(nested(1000), buffer, pickle_protocol=protocol)
        buffer.seek(0)
        value, expected = torch.load(buffer), nested(1000)
        assert pickle.dumps(value) == pickle.dumps(expected)
        with pytest.raises(RuntimeError, match="nested more than 1000 deep"):
            torch.save(nested(1001), io.BytesIO(), pickle_protocol=protocol)


@pytest.mark.parametrize("levels", [1000, 1001, 5000])
def test_lists_in_lists(levels, deep_recursion, tmp_path):
    path = archive(b"\x80\x04" + b"]" * levels + b"a" * (levels - 1) + b".", tmp_path / "deep.pt")
    if levels == 1000:
        assert torch.load(path)
    else:
        with pytest.raises(pickle.UnpicklingError, match="nested more than 1000 deep"):
            torch.load(path)


@pytest.mark.parametrize("load", [torch.jit.load, torch.export.load, torch.io.load], ids=name_of)
def test_other_loaders_refuse_the_hostile_files_of_torch_load(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in sorted(MALICIOUS.glob("*.pt")):
        if path.name == "module_class.pt":
            continue  # an instance of a layer with a state, which torch.jit.load reads
        with pytest.raises(REFUSED):
            load(path)
    assert os.listdir(tmp_path) == []


def test_a_layer_of_a_file_has_no_code_of_the_files(tmp_path):
    """What torch.jit.load makes of a file that sets what a layer has: values, and functions that compute."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=torch.nn.functional.gelu)
    torch.jit.save(torch.jit.script(layer), tmp_path / "layer.pt")
    layer = torch.jit.load(tmp_path / "layer.pt")
    assert layer(torch.ones(1, 2, 4)).shape == (1, 2, 4)
    with torch.serialization.safe_globals([Setting]):
        torch.jit.save(torch.jit.script(Configured()), tmp_path / "configured.pt")
        assert torch.jit.load(tmp_path / "configured.pt").setting.value == 3
    with pytest.raises(pickle.UnpicklingError, match="Setting was not an allowed global"):
        torch.jit.load(tmp_path / "configured.pt")


class Setting:
    def __init__(self, value):
        self.value = value


class Configured(nn.Module):
    def __init__(self):
        super().__init__()
        self.setting = Setting(3)


def test_names_in_an_exported_file_are_no_code(tmp_path):
    """A graph's nodes become the source of a function: names in a file must not become more."""
    import json

    marker = tmp_path / "ran"
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    torch.export.save(program, tmp_path / "good.pt2")
    document = torch.load(tmp_path / "good.pt2")
    note = json.loads(document["note"])
    evil = f"x, y=open('{marker}', 'w')"
    note["inputs"] = [evil]
    note["names"] = [[i, evil] for i, _ in note["names"]]
    document["note"] = json.dumps(note)
    document["rest"] = {evil: torch.ones(1)}
    torch.save(document, tmp_path / "bad.pt2")
    loaded = torch.export.load(tmp_path / "bad.pt2")
    assert "open(" not in loaded.graph_module.code
    assert str(loaded.graph)
    assert repr(loaded.graph_signature)
    assert loaded.module()(torch.ones(1, 2)).shape == (1, 2)
    assert not marker.exists()
    step = dict(document["steps"][0], kind="fill", op=f"x(open('{marker}', 'w'))", numbers=[1.0])
    step["in"] = []
    torch.save({**document, "steps": [step, *document["steps"]]}, tmp_path / "worse.pt2")
    try:
        torch.export.load(tmp_path / "worse.pt2").graph_module.code
    except REFUSED:
        pass
    assert not marker.exists()


def test_an_index_stays_in_its_folder(tmp_path):
    import taper.distributed.checkpoint as dcp
    from taper.distributed.checkpoint.filesystem import _StorageInfo

    dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path / "c", no_dist=True)
    reader = dcp.FileSystemReader(tmp_path / "c")
    (info,) = reader.read_metadata().storage_data.values()
    for path in ("../c/" + info.relative_path, str(tmp_path / "c" / info.relative_path)):
        with pytest.raises(RuntimeError, match="outside of it"):
            reader.read_item(_StorageInfo(path, info.offset, info.length))
    with pytest.raises(RuntimeError, match="outside of it"):
        reader.read_item(_StorageInfo(info.relative_path, 0, -1))


LIMITED = Path(__file__).parent / "child_programs" / "limited_memory.py"


@pytest.mark.parametrize(
    "what, file", [("idx", "idx_huge_dims"), ("mnist", "idx_huge_dims"), ("events", "events_huge_record")]
)
def test_lengths_are_believed_when_their_bytes_have_come(what, file):
    """25 bytes that claim eleven billion, an event that claims more: with half a gigabyte left, an error says why."""
    command = [sys.executable, str(LIMITED), what, str(MALICIOUS / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "believed" not in done.stderr, done.stderr


def test_idx_files_cut_anywhere(tmp_path):
    whole = b"\0\0\x0b\x02" + struct.pack(">II", 2, 3) + struct.pack(">6h", *range(6))
    (tmp_path / "x").write_bytes(whole)
    assert mnist.read_sn3_pascalvincent_tensor(tmp_path / "x").tolist() == [[0, 1, 2], [3, 4, 5]]
    for n in range(len(whole)):
        (tmp_path / "x").write_bytes(whole[:n])
        with pytest.raises(ValueError):
            mnist.read_sn3_pascalvincent_tensor(tmp_path / "x")
    (tmp_path / "x").write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="or more"):
        mnist.read_sn3_pascalvincent_tensor(tmp_path / "x")
