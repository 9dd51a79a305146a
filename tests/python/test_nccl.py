"""torch.distributed on GPUs by NCCL: every collective, messages, groups, DDP and FSDP, and what happens when something
goes wrong. OpenCL on the processor stands for the GPU, and tests/fake_nccl.c for NCCL."""

import os
import pathlib
import re

os.environ.setdefault("TAPER_XPU_DEVICES", "cpu")
import pytest
import taper
from ranks import PROGRAMS, Ranks

BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(taper.__file__), "..", ".."))
LIBRARY = BUILD / "tests" / "libfake-nccl.so"
if not taper.xpu.is_available():
    pytest.skip("OpenCL has no processor here (pocl-opencl-icd)", allow_module_level=True)
if not LIBRARY.exists():
    pytest.skip("tests/libfake-nccl.so was not built (it is part of the target `tests`)", allow_module_level=True)

VARIABLES = {"TAPER_XPU_DEVICES": "cpu", "TAPER_NCCL_LIBRARY": str(LIBRARY)}


def ranks(n, program, folder, backend="cpu:gloo,xpu:xccl", shared=False, variables=None, **options):
    """Each rank claims a machine of its own, unless they share it: NCCL has no two ranks on one GPU."""
    variables = {**VARIABLES, "TEST_BACKEND": backend, "TEST_DEVICE": "xpu", **(variables or {})}
    return Ranks(n, program, folder, variables=variables, numbered=() if shared else ["NCCL_HOSTID"], **options)


def run(n, program, folder, **options):
    return ranks(n, program, folder, **options).wait_well()


@pytest.mark.parametrize("name, n", [("reductions", 1), ("reductions", 3), ("moves", 1), ("moves", 4), ("groups", 4)])
def test_collectives(name, n, tmp_path):
    run(n, "nccl/carried.py", tmp_path, arguments=[4, PROGRAMS / "distributed" / f"{name}.py"])


def test_messages(tmp_path):
    run(2, "nccl/messages.py", tmp_path)


def test_operations(tmp_path):
    run(2, "nccl/operations.py", tmp_path)


def test_backends_by_name(tmp_path):
    """None is NCCL for GPUs; gloo is the host's for all; and ranks that share a GPU go by the host, since NCCL refuses."""
    for backend, shared, wanted in (
        ("", False, "operations 4 cpu:gloo,xpu:xccl"),
        ("gloo", False, "operations 0"),
        ("", True, "operations 0"),
        ("xccl", False, "operations 4"),
    ):
        for text in run(2, "nccl/backends.py", tmp_path, backend=backend, shared=shared):
            assert wanted in text, (backend, text)


def test_data_parallel(tmp_path):
    run(2, "nccl/carried.py", tmp_path, backend="", arguments=[40, PROGRAMS / "ddp" / "figure.py", 20])


def test_sharded(tmp_path):
    run(2, "nccl/sharded.py", tmp_path, backend="")


# ---- Faults ----
def faulty(n, program, folder, *arguments):
    return ranks(
        n,
        f"distributed_faults/{program}.py",
        folder,
        arguments=arguments,
        variables={"TAPER_STALL": "1.5", "TAPER_GRACE": "2"},
    )


@pytest.mark.parametrize(
    "what, wanted",
    [
        ("size", "ranks disagree about number 4 of group 'default': rank 0 (host"),
        ("collective", "to broadcast of float32 [3] on xpu, root 0"),
        ("device", "came to all_reduce(SUM) of float32 [3] on xpu, rank 1 (host"),
    ],
)
def test_ranks_that_disagree(what, wanted, tmp_path):
    for text in faulty(2, "disagree", tmp_path, what).wait_well():
        assert wanted in text


def test_a_stall_names_who_has_not_come(tmp_path):
    ranks = faulty(3, "fault", tmp_path, "sleep", 1)
    try:
        ranks.wait_for_text("has waited", ranks=[0, 2])
        for r in (0, 2):
            text = ranks.texts()[r]
            assert "in all_reduce(SUM) of float32 [3, 4] on xpu, number 4 of group 'default', at " in text
            assert "  rank 1 (host" in text
            assert "  rank 2 (host" not in text
    finally:
        ranks.kill()


def test_a_death_takes_all_down(tmp_path):
    ranks = faulty(3, "fault", tmp_path, "die", 1)
    statuses, texts = ranks.wait(30)
    for r in (0, 2):
        assert statuses[r] == 1, texts
        assert re.search(rf"rank 1 \(host \S+, pid {ranks.processes[1].pid}\) died", texts[r]), texts[r]


@pytest.mark.parametrize(
    "variable, wanted",
    [
        ("FAKE_NCCL_FAIL", "ncclAllReduce failed: unhandled system error; last error: a failure that was asked for"),
        ("FAKE_NCCL_BREAK", "a collective of NCCL's failed: unhandled system error"),
    ],
)
def test_errors_of_nccl(variable, wanted, tmp_path):
    statuses, texts = faulty(2, "nccl_fails", tmp_path, variable).wait(30)
    assert statuses == [1, 1], texts
    for text in texts:
        assert wanted in text
