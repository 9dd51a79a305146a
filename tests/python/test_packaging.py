"""Job scripts under packaging/: each runs here, with stand-ins for srun, mpiexec and aprun that start ranks with the
variables that the real ones set."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ranks import PROGRAMS, free_port

HERE = Path(__file__).resolve().parents[2] / "packaging"
SCRIPTS = sorted(path for kind in ("cobalt", "pbs", "slurm") for path in HERE.glob(f"{kind}/*.sh"))


def use_program(name, folder):
    """The job's train.py is this one of rank_programs/packaging."""
    shutil.copy(PROGRAMS / "packaging" / f"{name}.py", folder / "train.py")


@pytest.fixture
def machine(tmp_path):
    """A PATH with the stand-ins and the taper command, and a node's variables."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("srun", "mpiexec", "aprun"):
        stand_in = PROGRAMS / "packaging" / "stand_in.py"
        (bin / name).write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} {name} "$@"\n')
    (bin / "taper").write_text(f'#!/bin/sh\nexec {sys.executable} -m taper "$@"\n')
    for file in bin.iterdir():
        file.chmod(0o755)
    (tmp_path / "hosts").write_text("localhost\n")
    use_program("train", tmp_path)
    free = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SLURM", "PBS", "PALS", "PMI", "OMPI"))
        and not name.endswith("_VISIBLE_DEVICES")
        and name not in ("RANK", "WORLD_SIZE")
    }
    return {
        **free,
        "PATH": f"{bin}:{os.environ['PATH']}",
        "STAND_IN_LOG": str(tmp_path / "calls"),
        "USER": "someone",
        "TAPER_PACKAGING": str(HERE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SLURM_JOB_ID": "4711",
        "SLURM_TMPDIR": str(tmp_path),
        "SLURM_NNODES": "1",
        "SLURM_JOB_NODELIST": "localhost",
        "PBS_NODEFILE": str(tmp_path / "hosts"),
        "PBS_JOBID": "4711.server",
        "PBS_O_WORKDIR": str(tmp_path),
        "COBALT_JOBID": "4711",
        "COBALT_JOBSIZE": "1",
        "COBALT_WORKDIR": str(tmp_path),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
    }


def submit(script, machine, tmp_path, *arguments, **variables):
    done = subprocess.run(
        ["bash", str(HERE / script), *arguments],
        env={**machine, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.split("\n"))[1:], [
        json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()
    ]


def ranks(lines, count):
    """Every rank has met every other; the GPUs they see."""
    assert [line.rpartition(" gpu ")[0] for line in lines] == [f"rank {i} sum {count}" for i in range(count)]
    return [line.rpartition(" ")[2] for line in lines]


@pytest.mark.parametrize(
    "script", [script for script in SCRIPTS if "module load" in script.read_text()], ids=lambda path: path.stem
)
def test_a_missing_module_is_told(script, machine, tmp_path):
    """By name and aloud; without the program nothing is started."""
    (tmp_path / "modules").write_text('module() { echo "Lmod: the module $2 is unknown" >&2; return 1; }\n')
    variables = dict(
        BASH_ENV=str(tmp_path / "modules"),
        SCRIPT="train.py",
        SLURM_NTASKS="1",
        SLURM_NTASKS_PER_NODE="1",
        SLURM_CPUS_PER_TASK="1",
    )

    def tried():
        done = subprocess.run(
            ["bash", str(script), "train.py"],
            env={**machine, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert re.search(r"^WARNING: module load .*taper failed", done.stderr, re.M), done.stderr
        assert "is unknown" in done.stderr, done.stderr
        return done

    (tmp_path / "bin" / "taper").write_text("#!/bin/sh\nexit 0\n")  # the ranks have their own tests
    assert tried().returncode == 0
    (tmp_path / "bin" / "taper").unlink()
    if shutil.which("taper", path=machine["PATH"]) is None:
        done = tried()
        assert done.returncode == 127
        assert "taper is not in PATH" in done.stderr


def test_an_environment_takes_the_place_of_the_module(machine, tmp_path):
    """What `pip install` made is named by VENV: the module is not asked for."""
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "activate").write_text(f'export PATH="{tmp_path / "bin"}:$PATH" ACTIVATED=1\n')
    (tmp_path / "modules").write_text('module() { echo "asked for $*" >&2; }\n')
    (tmp_path / "bin" / "taper").write_text('#!/bin/sh\necho "activated: $ACTIVATED"\n')
    variables = dict(
        BASH_ENV=str(tmp_path / "modules"),
        PATH=machine["PATH"].partition(":")[2],
        VENV=str(tmp_path / "env"),
        SCRIPT="train.py",
        SLURM_NTASKS="1",
        SLURM_NTASKS_PER_NODE="1",
        SLURM_CPUS_PER_TASK="1",
    )
    for script in SCRIPTS:
        done = subprocess.run(
            ["bash", str(script), "train.py"],
            env={**machine, **variables},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, (script, done.stderr)
        assert "activated: 1" in done.stdout, (script, done.stderr)
        assert "taper" not in "".join(line for line in done.stderr.splitlines() if line.startswith("asked for")), script


def test_narval(machine, tmp_path):
    lines, calls = submit(
        "slurm/narval.sh",
        machine,
        tmp_path,
        "train.py",
        SLURM_NTASKS="4",
        SLURM_CPUS_PER_TASK="12",
        SLURM_NTASKS_PER_NODE="4",
    )
    assert ranks(lines, 4) == ["-"] * 4
    assert calls[-1][1] == {"--cpus-per-task": "12", "--cpu-bind": "cores"}


def test_lumi(machine, tmp_path):
    lines, calls = submit("slurm/lumi-g.sh", machine, tmp_path, "train.py", SLURM_NTASKS="3", SLURM_NTASKS_PER_NODE="8")
    assert ranks(lines, 3) == ["0", "1", "2"]
    masks = [int(mask, 16) for mask in calls[-1][1]["--cpu-bind"].removeprefix("mask_cpu:").split(",")]
    assert len(masks) == 8
    assert all(bin(mask).count("1") == 7 for mask in masks)
    assert sum(masks) == 0xFEFEFEFEFEFEFEFE  # apart, and without each eighth core
    lines, calls = submit(
        "slurm/lumi-c.sh",
        machine,
        tmp_path,
        "train.py",
        SLURM_NTASKS="2",
        SLURM_CPUS_PER_TASK="16",
        SLURM_NTASKS_PER_NODE="8",
    )
    assert ranks(lines, 2) == ["-", "-"]


def test_polaris(machine, tmp_path):
    lines, calls = submit("pbs/polaris.sh", machine, tmp_path, SCRIPT="train.py")
    assert ranks(lines, 4) == ["3", "2", "1", "0"]
    assert calls[-1][1] == {
        "-n": "4",
        "--ppn": "4",
        "--depth": "8",
        "--cpu-bind": "depth",
    }
    _, calls = submit("pbs/polaris.sh", machine, tmp_path, SCRIPT="train.py", CPU_BIND="verbose,list:0,8,16,24")
    assert calls[-1][1]["--cpu-bind"] == "verbose,list:0,8,16,24"


def test_aurora(machine, tmp_path):
    use_program("tiles", tmp_path)
    lines, calls = submit("pbs/aurora.sh", machine, tmp_path, SCRIPT="train.py")
    assert sorted(int(line.split()[1]) for line in lines) == list(range(12))
    assert all(line.split()[1] == line.split()[-1] for line in lines)
    cores = [
        core
        for part in calls[-1][1]["--cpu-bind"].removeprefix("verbose,list:").split(":")
        for core in range(int(part.split("-")[0]), int(part.split("-")[1]) + 1)
    ]
    assert len(cores) == len(set(cores)) == 96
    assert not {0, 52} & set(cores)


def test_theta(machine, tmp_path):
    lines, calls = submit("cobalt/theta.sh", machine, tmp_path, SCRIPT="train.py")
    assert ranks(lines, 4) == ["-"] * 4
    assert calls[-1][1] == {
        "-n": "4",
        "-N": "4",
        "-d": "32",
        "-j": "2",
        "-cc": "depth",
    }


def test_theta_sets_what_its_page_asks_for(machine, tmp_path):
    use_program("threads", tmp_path)
    lines, _ = submit("cobalt/theta.sh", machine, tmp_path, SCRIPT="train.py")
    assert lines == ["32 0"] * 4


def test_a_launcher_per_node(machine, tmp_path):
    lines, _ = submit(
        "slurm/launch-per-node.sh", machine, tmp_path, "train.py", SLURM_NTASKS_PER_NODE="1", RANKS_PER_NODE="2"
    )
    assert ranks(lines, 2) == ["-", "-"]
    assert len(list(tmp_path.glob("logs-4711/*/attempt_0/*/stdout.log"))) == 2


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_ready_to_submit(script):
    text = script.read_text()
    directives = [line for line in text.splitlines() if line.startswith(("#SBATCH ", "#PBS ", "#COBALT "))]
    assert os.access(script, os.X_OK) and len(directives) >= 4 and text.startswith("#!/bin/bash")
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    lines = text.splitlines()
    last = max(i for i, line in enumerate(lines) if line in directives)
    assert all(line.startswith("#") for line in lines[:last])  # a scheduler stops reading at the first command


@pytest.mark.parametrize(
    "name",
    [
        "LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "PALS_LOCAL_RANKID",
        "PMI_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "PMIX_LOCAL_RANK",
        "SLURM_LOCALID",
    ],
)
def test_one_gpu_per_rank(name, machine):
    def seen(rank, vendor="nvidia", **more):
        free = {key: value for key, value in machine.items() if "LOCAL" not in key}
        done = subprocess.run(
            [str(HERE / "one-gpu-per-rank"), "sh", "-c", SHOW_DEVICES],
            capture_output=True,
            text=True,
            env={
                **free,
                **({name: str(rank)} if rank is not None else {}),
                "TAPER_GPU_VENDOR": vendor,
                "TAPER_GPUS": "4",
                **more,
            },
        )
        return done.stdout.strip() if done.returncode == 0 else done.returncode

    assert [seen(rank) for rank in (0, 3, 5)] == ["0///", "3///", "1///"]
    assert seen(1, "amd") == "/1//"
    assert seen(1, "intel") == "///1"
    assert seen(1, "other") == 2
    assert (
        seen(1, "amd", CUDA_VISIBLE_DEVICES="0,1", HIP_VISIBLE_DEVICES="0,1") == "/1//"
    )  # HIP would choose again among the one that is left
    assert seen(5, TAPER_RANKS_PER_GPU="2") == "2///"
    assert seen(0, TAPER_GPU_ORDER="reversed") == "3///"
    assert seen(2, TAPER_GPUS="0") == "///"
    assert seen(None) == 2


SHOW_DEVICES = "echo $CUDA_VISIBLE_DEVICES/$ROCR_VISIBLE_DEVICES/$HIP_VISIBLE_DEVICES/$ZE_AFFINITY_MASK"


def test_one_gpu_per_rank_tells_vendors_apart(machine, tmp_path):
    """By what the kernel shows of them; a node without GPUs is left alone."""

    def seen():
        free = {key: value for key, value in machine.items() if "LOCAL" not in key}
        done = subprocess.run(
            [str(HERE / "one-gpu-per-rank"), "sh", "-c", SHOW_DEVICES],
            capture_output=True,
            text=True,
            check=True,
            env={
                **free,
                "PMI_LOCAL_RANK": "3",
                "TAPER_PROC": str(tmp_path / "proc"),
                "TAPER_SYS": str(tmp_path / "sys"),
            },
        )
        return done.stdout.strip()

    def shown(*files):
        for name in ("proc", "sys"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        for path, text in files:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        return seen()

    assert shown() == "///"
    assert shown(*((f"proc/driver/nvidia/gpus/{i}", "") for i in range(2))) == "1///"
    assert (
        shown(*((f"sys/class/kfd/kfd/topology/nodes/{i}/gpu_id", f"{'0' if i == 0 else 4711}\n") for i in range(5)))
        == "/3//"
    )
    assert shown(*((f"sys/class/drm/card{i}/device/vendor", "0x8086\n") for i in range(6))) == "///3"


def test_recipes_name_this_version():
    import taper.version

    version = taper.version.taper
    assert (HERE / f"modulefiles/taper/{version}.lua").exists()
    assert (HERE / f"modulefiles/taper/{version}").exists()
    recipes = [
        HERE / "spack/packages/taper/package.py",
        HERE / "conda/recipe.yaml",
        *(HERE / "easybuild").glob(f"Taper-{version}-*.eb"),
    ]
    assert len(recipes) >= 4
    for path in recipes:
        assert (
            f"taper_ml-{version}.tar.gz" in path.read_text()
            or "taper_ml-%(version)s" in path.read_text()
            or "taper_ml-${{ version }}" in path.read_text()
        ), path
        assert version in path.read_text(), path
        assert "0" * 64 in path.read_text(), path  # `make dist` puts the archive's checksum there


def test_a_release_is_tagged_when_all_is_there(tmp_path):
    """tools/release.sh names what is missing, and makes a tag only when nothing is and it was asked to."""
    import taper.version

    version = taper.version.taper

    def run(*command, **settings):
        settings = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", **settings}
        for who in ("AUTHOR", "COMMITTER"):
            settings |= {f"GIT_{who}_NAME": "somebody", f"GIT_{who}_EMAIL": "somebody@example.org"}
        return subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True)

    for name in ("tools/release.sh", "include/taper/base.h", "CHANGELOG.md", "CITATION.cff", "packaging"):
        source, target = HERE.parent / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    run("git", "init", "--quiet")
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text(f"# Changes\n\n## {version} (unreleased)\n")
    done = run("tools/release.sh", TAG="1")
    assert done.returncode == 1 and "not committed" in done.stdout and f"has no section '## {version}" in done.stdout
    changes.write_text(f"# Changes\n\n## {version} (2026-11-18)\n")
    run("git", "add", "--all")
    run("git", "commit", "--quiet", "--message", "all")
    assert run("tools/release.sh", TAG="").returncode == 0
    assert run("git", "tag").stdout == ""
    done = run("tools/release.sh", TAG="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run("git", "tag").stdout == f"v{version}\n", done.stdout + done.stderr
    done = run("tools/release.sh", TAG="1")
    assert done.returncode == 1
    assert "is there already" in done.stdout


@pytest.mark.parametrize("path", sorted((HERE / "easybuild").glob("*.eb")), ids=lambda path: path.stem)
def test_easybuild_recipes(path):
    """They are Python; each names its toolchain, a scikit-build-core that pyproject.toml takes, and this version's file
    name."""
    said = {"SHLIB_EXT": "so"}
    exec(compile(path.read_text(), str(path), "exec"), said)
    assert path.stem == f"{said['name']}-{said['version']}-{said['toolchain']['name']}-{said['toolchain']['version']}"
    needs = dict(said["builddependencies"] + said["dependencies"])
    assert tuple(map(int, needs["scikit-build-core"].split(".")[:2])) >= (0, 10)
    assert tuple(map(int, needs["CMake"].split(".")[:2])) >= (3, 22)
    assert "-DTAPER_BLAS=FlexiBLAS" in said["configopts"]
    assert "PYTHONPATH" in said["modextrapaths"]


def test_module_files_set_the_same():
    lua, tcl = ((HERE / "modulefiles/taper" / name).read_text() for name in ("0.1.0.lua", "0.1.0"))
    names = set(re.findall(r'(?:prepend_path|setenv)\("(\w+)"', lua))
    assert (
        names
        == set(re.findall(r"(?:prepend-path|setenv) (\w+)", tcl))
        >= {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "TAPER_PACKAGING"}
    )


def test_containers_call_scripts_that_are_there():
    definitions = sorted((HERE / "apptainer").glob("*.def"))
    assert {path.stem for path in definitions} == {"taper", "nvidia", "rocm", "intel"}
    for path in definitions:
        called = re.findall(r"packaging/(apptainer/\w+)", re.sub(r"(?m)^#.*", "", path.read_text()))
        assert sorted(called) == ["apptainer/build", "apptainer/runtime"], path
        assert all(os.access(HERE / name, os.X_OK) for name in called), path


def test_the_archive_holds_all_files(tmp_path):
    """What pyproject.toml keeps out of it is nobody's need: read as git reads such patterns. The build's folder is one."""
    root = HERE.parent
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("not a clone")
    settings = (root / "pyproject.toml").read_text()
    excluded = json.loads(re.search(r"(?m)^sdist.exclude = (.*)", settings)[1])
    excluded.append(re.search(r'(?m)^build-dir = "(.*)"', settings)[1])
    files = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout

    def ignored(folder):
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / ".gitignore").write_text("\n".join(excluded) + "\n")
        return subprocess.run(
            ["git", "check-ignore", "--no-index", "--stdin"], cwd=folder, input=files, capture_output=True, text=True
        ).stdout.split()

    assert all(name.startswith(".ci/") for name in ignored(tmp_path))


def test_variables_of_job_scripts_are_documented():
    """Every variable that a job script sets for others is in the table of docs/cluster-variables.md, by its name or as
    a family."""
    page = (HERE.parent / "docs/cluster-variables.md").read_text()
    families = re.findall(r"`([A-Z_0-9]+_)\*`", page)
    known = set(re.findall(r"[A-Z][A-Z_0-9]{3,}", page))
    for script in SCRIPTS:
        text = re.sub(r"(?m)^\s*#.*", "", script.read_text())
        lines = re.findall(r"(?m)^\s*export (.*)", text) + re.findall(r"-e (\S+)", text)
        names = {name for line in lines for name in re.findall(r"(?:^|\s)([A-Z][A-Z_0-9]+)(?==)", line)} - {
            "LD_LIBRARY_PATH"
        }
        for name in names:
            assert name.startswith("TAPER_") or name in known or name.startswith(tuple(families)), (
                f"{script.name}: {name}"
            )
