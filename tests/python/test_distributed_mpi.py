"""The same collectives under mpirun of OpenMPI and mpiexec of MPICH, with nothing said about where to meet."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import taper
from test_distributed_faults import check_late, late
from ranks import PROGRAMS, program_after

LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpiexec.mpich"]}
PLUGINS = os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(taper.__file__), "..", "..")


def mpirun(mpi, n, program, folder, variables=None, timeout=120):
    launcher = LAUNCHERS[mpi]
    if shutil.which(launcher[0]) is None or not os.path.exists(os.path.join(PLUGINS, f"libtaper-mpi-{mpi}.so")):
        pytest.skip(f"{launcher[0]} or its engine is not on this machine")
    script = folder / "program.py"
    script.write_text(program)
    env = {
        key: value
        for key, value in os.environ.items()
        if key not in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    }
    env.update(
        {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            **(variables or {}),
        }
    )
    return subprocess.run(
        [*launcher, "-n", str(n), sys.executable, "-m", "taper", "run", str(script)],
        env=env,
        timeout=timeout,
        capture_output=True,
        text=True,
    )


def run(mpi, n, program, folder, **options):
    done = mpirun(mpi, n, program, folder, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_backend(program, backend):
    begin = f"""
import taper
import torch
import torch.distributed as dist
dist.init_process_group({backend!r})
assert taper._C._dist_engine() in {("openmpi", "mpich") if backend != "gloo" else ("tcp", "gloo")}
r, n = dist.get_rank(), dist.get_world_size()
"""
    return program_after(begin, f"distributed/{program}.py")


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize(
    "name, n", [("reductions", 2), ("reductions", 4), ("moves", 3), ("messages", 3), ("groups", 4)]
)
def test_collectives(mpi, name, n, tmp_path):
    run(mpi, n, with_backend(name, "mpi"), tmp_path)


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("backend", [None, "gloo"])
def test_nothing_but_mpiexec(mpi, backend, tmp_path):
    """The backend is picked, and ranks find each other, without MASTER_ADDR: with gloo too."""
    run(mpi, 2, with_backend("moves", backend), tmp_path)


def test_without_mpi_one_rank_warns(tmp_path):
    """Ranks that mpirun started and that no MPI carries: it is said once, with the reason, unless TCP was asked for."""
    (tmp_path / "empty").mkdir()
    program = "import torch.distributed as dist\ndist.init_process_group({})\ndist.barrier()\n"
    for variables, reason in (
        ({"TAPER_PLUGINS": str(tmp_path / "empty")}, "the plug-in for it cannot be opened"),
        ({"TAPER_MPI": "/nowhere/libmpi.so"}, "because TAPER_MPI=/nowhere/libmpi.so: "),
    ):
        done = mpirun("openmpi", 3, program.format(""), tmp_path, variables=variables)
        assert (
            done.returncode == 0
            and done.stderr.count("MPI started the 3 ranks of this job, but their messages go over TCP") == 1
        ), done.stderr
        assert reason in done.stderr, done.stderr
    for chosen in ("'gloo'", ""):
        done = mpirun("openmpi", 3, program.format(chosen), tmp_path, variables=variables if chosen else {})
        assert done.returncode == 0 and "over TCP" not in done.stderr, done.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("backend", ["mpi", "gloo"])
def test_a_secret_is_exchanged(mpi, backend, tmp_path):
    """Nobody warns that there is none, what listens is at loopback, and who does not know it is refused."""
    done = mpirun(
        mpi,
        3,
        f"""
import os, subprocess, sys, taper, torch.distributed as dist
sys.path.append({str(PROGRAMS / "network")!r})
from network_begin import listening
dist.init_process_group({backend!r})
own = {backend == "gloo" and mpi == "openmpi"}  # MPI, which is not opened then, listens as it likes
assert not own or set(listening()) <= {{"127.0.0.1", "::1"}}, listening()
if dist.get_rank() == 0:
    stranger = "import sys, taper.distributed as dist; dist.TCPStore('127.0.0.1', int(sys.argv[1]), wait_for_workers=False)"
    bare = {{name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}}
    refused = subprocess.run([sys.executable, "-c", stranger, str(taper._C._dist_store().port)], env=bare,
                             capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "asks for the job's secret" in refused.stderr, refused.stderr
dist.barrier()
""",
        tmp_path,
    )
    assert done.returncode == 0 and "share no secret" not in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_eight_ranks(mpi, tmp_path):
    out = run(
        mpi,
        8,
        """
import torch, torch.distributed as dist
dist.init_process_group("mpi")
t = torch.full((100000,), float(dist.get_rank()))
dist.all_reduce(t)
assert bool((t == 28).all()) and dist.get_node_local_rank() == dist.get_rank()
print(f"rank {dist.get_rank()} of {dist.get_world_size()}\\n", end="", flush=True)  # one write, which no other rank cuts
""",
        tmp_path,
    )
    assert sorted(re.findall(r"rank (\d) of 8", out)) == list("01234567")


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_faults(mpi, tmp_path):
    begin = "import os, signal, time, torch, torch.distributed as dist\ndist.init_process_group('mpi')\nr = dist.get_rank()\ndist.barrier()\n"
    told = mpirun(mpi, 2, begin + "dist.all_reduce(torch.ones(2 + r))\n", tmp_path)
    assert told.returncode != 0 and re.search(
        r"rank 0 \(host \S+, pid \d+\) came to all_reduce\(SUM\) of float32 \[2\], rank 1 \(.*\) to all_reduce\(SUM\) of float32 \[3\]",
        told.stderr,
    )
    told = mpirun(mpi, 3, begin + "dist.new_group([0, 1] if r else [0, 2])\n", tmp_path)
    assert told.returncode != 0 and re.search(
        r"rank 0 \(.*\) came to new_group of ranks \[0, 2\], rank 1 \(.*\) to new_group of ranks \[0, 1\]", told.stderr
    ), told.stderr
    told = mpirun(
        mpi,
        2,
        begin + "if r == 0:\n    time.sleep(5)\ndist.all_reduce(torch.ones(2))\n",
        tmp_path,
        {"TAPER_STALL": "1"},
    )
    assert told.returncode == 0 and re.search(
        r"rank 1 \(.*\) has waited \d s in all_reduce\(SUM\) of float32 \[2\], number 2 .*program.py:7 in <module>. Not there:\n  rank 0 \(",
        told.stderr,
    ), told.stderr
    told = mpirun(
        mpi, 3, begin + "if r == 1:\n    raise KeyError('weights')\ndist.all_reduce(torch.ones(2))\n", tmp_path
    )
    assert told.returncode != 0 and re.search(r"rank 1 \(.*\) failed: KeyError: 'weights'", told.stderr), told.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("size", [5, 50000])  # small ones are asked about in turn, large ones wait inside of MPI
def test_a_timeout_names_who_has_not_come(mpi, size, tmp_path):
    told = mpirun(mpi, 3, late((1,), backend="mpi", size=size), tmp_path)
    named, pids = check_late(told.stdout, size)
    assert named == ((1, pids[1]),) and len(pids) == 3, told.stdout + told.stderr


@pytest.mark.parametrize("mpi, other", [("openmpi", "mpich"), ("mpich", "openmpi")])
def test_another_mpi_than_the_launchers(mpi, other, tmp_path):
    if not os.path.exists(os.path.join(PLUGINS, f"libtaper-mpi-{other}.so")):
        pytest.skip(f"the engine of {other} is not on this machine")
    done = mpirun(
        mpi,
        2,
        "import torch.distributed as dist\ndist.init_process_group('mpi')\nprint('alone')\n",
        tmp_path,
        variables={"TAPER_MPI": other},
    )
    assert done.returncode != 0 and "alone\n" not in done.stdout, done.stdout + done.stderr
    assert re.search(rf"the launcher says rank \d of 2, but {other}, .* knows of this process alone", done.stderr), (
        done.stderr
    )
