"""`taper torch install`: `import torch` is Taper's under plain `python`, and pip knows torch, torchvision and
torchaudio."""

import os
import subprocess
import sys
import sysconfig
import textwrap
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
import taper
from taper.torch_version import TorchVersion

NAMES = ("torch", "torchvision", "torchaudio")


class Environment:
    """A throw-away environment that finds the build's package, and what the tests' own environment has, through a .pth
    file."""

    def __init__(self, folder):
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.site = next(folder.glob("lib/python*/site-packages"))
        packages = os.path.dirname(os.path.dirname(taper.__file__))
        (self.site / "outside.pth").write_text(f"{packages}\n{sysconfig.get_path('purelib')}\n")
        self.before = self.files()

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def call(self, *command, cwd=None, **variables):
        env = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "TAPER_RUN", "PYTHONDONTWRITEBYTECODE")
        }
        return subprocess.run(
            [str(part) for part in command],
            capture_output=True,
            text=True,
            cwd=cwd or self.folder,
            timeout=120,
            env={**env, "OMP_NUM_THREADS": "1", **variables},
        )

    def ok(self, *command, **options):
        done = self.call(*command, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, code, *flags):
        return self.ok(self.python, *flags, "-c", textwrap.dedent(code))

    def taper(self, *arguments):
        return self.call(self.python, "-m", "taper", "torch", *arguments)

    def pip(self, *arguments):
        return self.ok(sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check", *arguments)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("installed") / "env")
    done = environment.taper("install")
    assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture
def fresh(tmp_path):
    return Environment(tmp_path / "env")


def script(environment, name, text):
    path = environment.folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_python_script(installed):
    assert (
        installed.run("""
        import sys
        import torch.nn.functional as F
        import torch, torchvision, torchaudio, taper
        from torch import nn
        from importlib.metadata import version
        from importlib.util import find_spec
        assert torch is taper and F is taper.nn.functional and torchvision is taper.torchvision and find_spec("torch") is not None
        for module in (torch, torchvision, torchaudio):
            assert version(module.__name__.replace("taper.", "")) == module.__version__
        print(torch.ones(2).sum().item(), torch.__version__.startswith("2.15.0+taper"), "TAPER_RUN" in __import__("os").environ)
    """)
        == "2.0 True False\n"
    )


@pytest.mark.parametrize(
    "first",
    [
        "import torchvision.transforms",
        "from torch.utils.data import DataLoader",
        "import torchaudio",
        "import torch._C",
    ],
)
def test_any_name_may_come_first(installed, first):
    assert installed.run(f"{first}\nimport torch, taper\nprint(torch is taper)", "-I") == "True\n"


def test_threads_that_import_at_once(installed):
    assert (
        installed.run("""
        import threading
        def work():
            import torch
            from torch import nn
            sums.append(torch.nn.Linear(2, 1, bias=False).weight.numel() + nn.ReLU()(torch.ones(1)).item())
        sums = []
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(sums == [3.0] * 8)
    """)
        == "True\n"
    )


def test_modules_of_the_command_line(installed):
    ranks = script(
        installed,
        "ranks.py",
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        x = torch.ones(1)
        dist.all_reduce(x)
        print(int(x.item()))
    """,
    )
    launched = ("--nproc-per-node=2", ranks)
    assert installed.ok(installed.python, "-m", "torch.distributed.run", *launched).split() == ["2", "2"]
    assert installed.ok(installed.folder / "bin" / "torchrun", *launched).split() == ["2", "2"]
    assert f"PyTorch version: {taper.__version__}" in installed.ok(installed.python, "-m", "torch.utils.collect_env")
    stopped = installed.ok(
        installed.python,
        "-m",
        "pdb",
        "-c",
        "continue",
        "-c",
        "quit",
        script(installed, "plain.py", "import torch\nprint(torch.ones(1))"),
    )
    assert "tensor([1.])" in stopped


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes(installed, method):
    workers = script(
        installed,
        "workers.py",
        """
        import sys, multiprocessing, torch
        from torch.utils.data import DataLoader, Dataset

        class Squares(Dataset):
            def __len__(self):
                return 6
            def __getitem__(self, i):
                return torch.tensor(i * i)

        def work(net, queue):
            queue.put((type(net).__name__, torch.__version__, net.weight.numel()))

        if __name__ == "__main__":
            method = sys.argv[1]
            print([x.item() for x in DataLoader(Squares(), num_workers=2, multiprocessing_context=method)])
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=work, args=(torch.nn.Linear(3, 2), queue))
            process.start()
            print(*queue.get())
            process.join()
    """,
    )
    assert installed.ok(installed.python, workers, method) == f"[0, 1, 4, 9, 16, 25]\nLinear {taper.__version__} 6\n"


def test_pickles_name_torch(installed):
    assert (
        installed.run(r"""
        import pickle
        print(pickle.loads(b"ctorch.nn.modules.linear\nLinear\n."), pickle.loads(b"ctorch\nfloat32\n."))
    """)
        == "<class 'torch.nn.modules.linear.Linear'> torch.float32\n"
    )


def test_pytest_finds_it(installed):
    script(installed, "test_one.py", "import torch\n\ndef test_one():\n    assert torch.ones(1) == 1\n")
    assert "1 passed" in installed.ok(installed.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py")


def test_packages_around_it(fresh):
    """One that is installed is the one that answers; Taper's answers where none is."""
    fresh.taper("install")
    (fresh.site / "horovod").mkdir()
    (fresh.site / "horovod" / "__init__.py").write_text("which = 'the installed one'\n")
    assert (
        fresh.run("import torch, horovod, deepspeed; print(horovod.which, deepspeed.__version__.endswith('taper'))")
        == "the installed one True\n"
    )


def test_remove_takes_exactly_that_away(fresh):
    done = fresh.taper("install")
    assert [line.split()[0] for line in done.stdout.splitlines()[:3]] == list(NAMES)
    fresh.run("import torch, torchvision, torchaudio")  # leaves compiled files
    assert fresh.taper("status").returncode == 0
    assert fresh.taper("install").returncode == 0
    assert fresh.taper("remove").stdout.count("removed") == 3
    assert fresh.files() == fresh.before
    status = fresh.taper("status")
    assert status.returncode == 1
    assert status.stdout == "".join(f"{name}: not installed\n" for name in NAMES)
    assert fresh.taper("remove").stdout.count("nothing of Taper's") == 3


def test_nobody_reads_what_is_printed(fresh):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        subprocess.run([fresh.python, "-u", "-m", "taper", "torch", "install"], stdout=gone, stderr=subprocess.DEVNULL)
    assert fresh.taper("status").returncode == 0


def test_status_tells_what_is_wrong(fresh):
    fresh.taper("install")
    (fresh.site / "torchaudio" / "__init__.py").unlink()
    done = fresh.taper("status")
    assert done.returncode == 1
    assert "torchaudio/__init__.py is gone" in done.stdout
    assert fresh.taper("install").returncode == 0
    assert fresh.taper("status").returncode == 0


def test_real_pytorch_is_left_alone(fresh):
    info = fresh.site / "torch-2.9.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0\n")
    (info / "RECORD").write_text("torch/__init__.py,,\n")
    (fresh.site / "torchvision").mkdir()
    (fresh.site / "torchvision" / "__init__.py").write_text("")
    before = fresh.files()
    for command in ("install", "status", "remove"):
        done = fresh.taper(command)
        said = done.stdout + done.stderr
        assert command == "remove" or f"torch 2.9.0 in {fresh.site}" in said and f"torchvision in {fresh.site}" in said
        assert done.returncode == (0 if command == "remove" else 1)
        assert fresh.files() == before


def test_a_folder_named_torch_where_the_command_is_given(fresh):
    """`python -m` puts the working folder first on sys.path: a checkout of PyTorch there is not installed."""
    (fresh.folder / "torch").mkdir()
    (fresh.folder / "torch" / "__init__.py").write_text("")
    assert fresh.taper("install").returncode == 0


def test_wheels(fresh, tmp_path):
    house = tmp_path / "house"
    assert fresh.taper("wheel", house).returncode == 0
    written = {path.name: path.read_bytes() for path in house.iterdir()}
    assert sorted(name.split("-")[0] for name in written) == sorted(NAMES)
    fresh.taper("wheel", house)
    assert written == {path.name: path.read_bytes() for path in house.iterdir()}
    client = "client-1.0.dist-info"
    with ZipFile(house / "client-1.0-py3-none-any.whl", "w") as file:
        file.writestr("client.py", "import torch\nprint(torch.ones(1))\n")
        file.writestr(
            f"{client}/METADATA", "Metadata-Version: 2.1\nName: client\nVersion: 1.0\nRequires-Dist: torch>=2.0,<3\n"
        )
        file.writestr(f"{client}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{client}/RECORD", f"client.py,,\n{client}/METADATA,,\n{client}/WHEEL,,\n{client}/RECORD,,\n")
    fresh.pip("install", "--no-index", "--find-links", house, "client")  # brings torch along
    fresh.pip("install", "--no-index", "--no-deps", "--find-links", house, "torchvision", "torchaudio")
    assert fresh.run("import client") == "tensor([1.])\n"
    assert fresh.taper("status").returncode == 0
    assert (fresh.folder / "bin" / "torchrun").exists()
    fresh.pip("uninstall", "-y", "client", *NAMES)
    assert [name for name in fresh.files() if "torch" in name] == []


def test_pip_sees_what_install_wrote(installed, tmp_path):
    shown = installed.pip("show", "-f", "torch")
    assert f"Version: {taper.__version__}" in shown
    assert "torch/__init__.py" in shown
    assert "bin/torchrun" in shown
    assert "already satisfied" in installed.pip(
        "install", "--no-index", "--find-links", tmp_path, "torch>=2.4,<3", "torch==2.15.0"
    )


def test_versions_compare_as_versions():
    version = TorchVersion("2.15.0+taper0.1.0")
    assert version >= "2.4"
    assert version > (2, 4)
    assert version < "2.16.0.dev1"
    assert version != "2.15.0"
    assert version == "2.15+taper0.1.0"
    order = [
        "1.0.dev1",
        "1.0a1.dev2",
        "1.0a1",
        "1.0b2",
        "1.0rc1",
        "1.0",
        "1.0+a",
        "1.0+a.1",
        "1.0+1",
        "1.0.post1",
        "1.1",
    ]
    assert sorted(map(TorchVersion, reversed(order))) == order
    assert version < "parrot"
    assert not version == "parrot"
    assert hash(version) == hash(str(version))
    assert isinstance(taper.__version__, TorchVersion)
