"""The same collectives under mpirun of OpenMPI and mpiexec of MPICH, with nothing said about where to meet."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import taper
from test_distributed_faults import check_late, late
from ranks import PROGRAMS, python_path

LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpiexec.mpich"]}
PLUGINS = os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(taper.__file__), "..", "..")


def mpirun(mpi, n, program, *arguments, backend="mpi", variables=None, timeout=120):
    launcher = LAUNCHERS[mpi]
    if shutil.which(launcher[0]) is None or not os.path.exists(os.path.join(PLUGINS, f"libtaper-mpi-{mpi}.so")):
        pytest.skip(f"{launcher[0]} or its engine is not on this machine")
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
            "PYTHONPATH": python_path(),
            "TEST_BACKEND": backend,
            **(variables or {}),
        }
    )
    return subprocess.run(
        [*launcher, "-n", str(n), sys.executable, "-m", "taper", "run", str(PROGRAMS / program), *map(str, arguments)],
        env=env,
        timeout=timeout,
        capture_output=True,
        text=True,
    )


def run(mpi, n, program, *arguments, **options):
    done = mpirun(mpi, n, program, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize(
    "name, n", [("reductions", 2), ("reductions", 4), ("moves", 3), ("messages", 3), ("groups", 4)]
)
def test_collectives(mpi, name, n):
    run(mpi, n, f"distributed/{name}.py", variables={"TEST_ENGINES": mpi})


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("backend", ["", "gloo"])
def test_nothing_but_mpiexec(mpi, backend):
    """The backend is picked, and ranks find each other, without MASTER_ADDR: with gloo too."""
    engines = "tcp gloo" if backend == "gloo" else mpi
    run(mpi, 2, "distributed/moves.py", backend=backend, variables={"TEST_ENGINES": engines})


def test_without_mpi_one_rank_warns(tmp_path):
    """Ranks that mpirun started and that no MPI carries: it is said once, with the reason, unless TCP was asked for."""
    (tmp_path / "empty").mkdir()
    for variables, reason in (
        ({"TAPER_PLUGINS": str(tmp_path / "empty")}, "the plug-in for it cannot be opened"),
        ({"TAPER_MPI": "/nowhere/libmpi.so"}, "because TAPER_MPI=/nowhere/libmpi.so: "),
    ):
        done = mpirun("openmpi", 3, "distributed_mpi/join.py", backend="", variables=variables)
        assert done.returncode == 0, done.stderr
        warning = "MPI started the 3 ranks of this job, but their messages go over TCP"
        assert done.stderr.count(warning) == 1, done.stderr
        assert reason in done.stderr, done.stderr
    for backend in ("gloo", ""):
        done = mpirun("openmpi", 3, "distributed_mpi/join.py", backend=backend, variables=variables if backend else {})
        assert done.returncode == 0, done.stderr
        assert "over TCP" not in done.stderr, done.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("backend", ["mpi", "gloo"])
def test_a_secret_is_exchanged(mpi, backend):
    """Nobody warns that there is none, what listens is at loopback, and who does not know it is refused."""
    # Where MPI is opened, it listens as it likes.
    arguments = ["loopback"] if backend == "gloo" and mpi == "openmpi" else []
    done = mpirun(mpi, 3, "distributed_mpi/secret.py", *arguments, backend=backend)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "share no secret" not in done.stderr, done.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_eight_ranks(mpi):
    out = run(mpi, 8, "distributed_mpi/eight.py")
    assert sorted(re.findall(r"rank (\d) of 8", out)) == list("01234567")


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize(
    "what, first, other",
    [
        ("size", r"all_reduce\(SUM\) of float32 \[3\]", r"rank 1 \(.*\) to all_reduce\(SUM\) of float32 \[4\]"),
        ("group", r"new_group of ranks \[0, 2\]", r"rank 2 \(.*\) to new_group of ranks \[0, 1\]"),
    ],
)
def test_ranks_that_disagree(mpi, what, first, other):
    told = run(mpi, 3, "distributed_faults/disagree.py", what)
    assert re.search(rf"rank 0 \(host \S+, pid \d+\) came to {first}, {other}", told), told


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_a_stall_names_who_has_not_come(mpi):
    told = mpirun(mpi, 2, "distributed_faults/fault.py", "late", 0, variables={"TAPER_STALL": "1"})
    assert told.returncode == 0, told.stderr
    assert re.search(
        r"rank 1 \(.*\) has waited \d s in all_reduce\(SUM\) of float32 \[3, 4\], number 4 .*faults_begin.py:\d+ in step. "
        r"Not there:\n  rank 0 \(",
        told.stderr,
    ), told.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_an_exception_reaches_the_others(mpi):
    told = mpirun(mpi, 3, "distributed_faults/fault.py", "fail", 1)
    assert told.returncode != 0, told.stderr
    assert re.search(r"rank 1 \(.*\) failed: ValueError: no such file: x", told.stderr), told.stderr


@pytest.mark.parametrize("mpi", LAUNCHERS)
@pytest.mark.parametrize("size", [5, 50000])  # small ones are asked about in turn, large ones wait inside of MPI
def test_a_timeout_names_who_has_not_come(mpi, size, tmp_path):
    program, arguments = late((1,), tmp_path, size=size)
    told = mpirun(mpi, 3, program, *arguments)
    named, pids = check_late(told.stdout, size)
    assert named == ((1, pids[1]),), told.stdout + told.stderr
    assert len(pids) == 3, told.stdout + told.stderr


@pytest.mark.parametrize("mpi, other", [("openmpi", "mpich"), ("mpich", "openmpi")])
def test_another_mpi_than_the_launchers(mpi, other):
    if not os.path.exists(os.path.join(PLUGINS, f"libtaper-mpi-{other}.so")):
        pytest.skip(f"the engine of {other} is not on this machine")
    done = mpirun(mpi, 2, "distributed_mpi/join.py", variables={"TAPER_MPI": other})
    assert done.returncode != 0, done.stdout + done.stderr
    assert "alone\n" not in done.stdout, done.stdout + done.stderr
    assert re.search(rf"the launcher says rank \d of 2, but {other}, .* knows of this process alone", done.stderr), (
        done.stderr
    )
