"""torch.hub from folders, weights from the cache folder, and neighbours in torch.utils."""

import subprocess
import sys

import pytest
import taper as torch
from taper import hub
from taper.utils import collect_env, cpp_extension, mobile_optimizer, model_zoo


@pytest.fixture
def cache(tmp_path):
    before = hub._hub_dir
    hub.set_dir(tmp_path / "hub")
    yield tmp_path / "hub"
    hub._hub_dir = before


def make_repository(folder, dependencies=()):
    folder.mkdir(parents=True)
    (folder / "parts.py").write_text("SCALE = 3\n")
    (folder / "hubconf.py").write_text(f"""
dependencies = ["torch", {", ".join(map(repr, dependencies))}]
from parts import SCALE

def scaled(x, by=1):
    "x times three, and times by."
    return x * SCALE * by

def _hidden():
    pass
""")
    return folder


def test_entry_points_of_a_local_folder(tmp_path):
    folder = str(make_repository(tmp_path / "repo"))
    assert hub.list(folder) == ["scaled"]
    assert hub.help(folder, "scaled") == "x times three, and times by."
    assert hub.load(folder, "scaled", torch.ones(2), source="local", by=2).tolist() == [6, 6]
    assert folder not in sys.path
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        hub.load(folder, "nothing", source="local")
    with pytest.raises(FileNotFoundError, match="no hubconf.py"):
        hub.load(str(tmp_path), "scaled", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(folder, "scaled", source="ftp")
    with pytest.raises(RuntimeError, match="Missing dependencies: nowhere_to_be_found"):
        hub.load(str(make_repository(tmp_path / "needs", ["nowhere_to_be_found"])), "scaled", source="local")


def test_github_repositories_come_from_the_cache_folder(cache):
    with pytest.raises(RuntimeError, match="(?s)https://github.com/owner/project.*owner_project_main"):
        hub.load("owner/project", "scaled")
    make_repository(cache / "owner_project_v1")
    assert hub.load("owner/project:v1", "scaled", torch.tensor(2)).item() == 6


def test_weights_come_from_the_cache_folder(cache):
    url = "https://example.com/models/net-0123abcd.pth?x=1"
    path = cache / "checkpoints" / "net-0123abcd.pth"
    with pytest.raises(FileNotFoundError) as error:
        hub.load_state_dict_from_url(url)
    assert str(path) in str(error.value)
    assert url in str(error.value)
    path.parent.mkdir(parents=True)
    torch.save({"weight": torch.arange(3.0)}, path)
    assert hub.load_state_dict_from_url(url)["weight"].tolist() == [0, 1, 2]
    assert model_zoo.load_url(url, map_location="cpu")["weight"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url(url, check_hash=True)


def test_files_are_fetched_whole(tmp_path):
    (tmp_path / "source").write_bytes(b"abc")
    url = (tmp_path / "source").as_uri()
    hub.download_url_to_file(url, tmp_path / "copy", hash_prefix="ba7816bf")
    assert (tmp_path / "copy").read_bytes() == b"abc"
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(url, tmp_path / "other", hash_prefix="00")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source"]


def test_the_cache_folder_is_pytorchs(monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", "/somewhere")
    assert hub.get_dir() == "/somewhere/hub"
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert hub.get_dir() == "/cache/torch/hub"


def test_neighbours():
    assert f"PyTorch version: {torch.__version__}" in collect_env.get_pretty_env_info()
    done = subprocess.run([sys.executable, "-m", "taper.utils.collect_env"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "Python version:" in done.stdout
    for name in ("CUDAExtension", "SyclExtension"):  # those for the CPU: test_cpp_extension.py
        with pytest.raises(NotImplementedError, match=f"cpp_extension.{name}: .*GPU's compiler"):
            getattr(cpp_extension, name)("x")
    with pytest.raises(NotImplementedError, match="mobile"):
        mobile_optimizer.optimize_for_mobile(None)
