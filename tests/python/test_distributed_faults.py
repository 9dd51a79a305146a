"""Nothing hangs silently: stalls name who has not come, deaths reach every rank with their reason, and ranks that
disagree are told which two."""

import re
import signal
import socket
import time

import pytest
from ranks import Ranks, free_port, run_ranks

BEGIN = """
import os, signal, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
r, n = dist.get_rank(), dist.get_world_size()

def step():
    dist.all_reduce(torch.ones(3, 4))

for _ in range(3):
    step()
"""


def faulty(n, fault, folder, **variables):
    return Ranks(
        n,
        BEGIN + fault + "\nstep()\nprint('went on')\n",
        folder,
        variables={"TAPER_STALL": "3", "TAPER_GRACE": "2", **variables},
    )


@pytest.mark.parametrize(
    "culprit, how",
    [(2, "os.kill(os.getpid(), signal.SIGSTOP)"), (1, "time.sleep(60)"), (0, "os.kill(os.getpid(), signal.SIGSTOP)")],
)
def test_a_stall_names_who_has_not_come(culprit, how, tmp_path):
    ranks = faulty(4, f"time.sleep(1.2)\nif r == {culprit}:\n    {how}", tmp_path)
    others = [r for r in range(4) if r != culprit]
    try:
        ranks.wait_for_text("has waited", ranks=others)
        for r in others:
            text = ranks.texts()[r]
            assert (
                f"taper: rank {r} (host " in text
                and "in all_reduce(SUM) of float32 [3, 4], number 4 of group 'default', at " in text
            ), text
            assert "program.py:" in text and " in step." in text, text
            blamed = re.findall(r"^  rank (\d+) \(host \S+, pid (\d+)\)", text, re.M)
            assert {(int(b), int(p)) for b, p in blamed} == {(culprit, ranks.processes[culprit].pid)}, text
    finally:
        for process in ranks.processes:
            process.kill()
        ranks.wait(5)


def test_a_stall_tells_what_the_absent_one_waits_for(tmp_path):
    """Another group's collective, or a message: the two that wait for each other are in one report."""
    ranks = faulty(
        3,
        "g = dist.new_group([1, 2])\nif r == 1:\n    dist.recv(torch.zeros(5), 0)\nif r == 2:\n    dist.all_reduce(torch.zeros(6), group=g)",
        tmp_path,
    )
    try:
        ranks.wait_for_text("has waited", ranks=range(3))
        text = ranks.texts()[0]
        assert re.search(
            r"^  rank 1 \(host \S+, pid \d+\): it waits in recv of float32 \[5\], from 0, at \S+program.py:\d+ in <module>",
            text,
            re.M,
        ), text
        assert re.search(
            r"^  rank 2 \(host \S+, pid \d+\): it waits in all_reduce\(SUM\) of float32 \[6\] of another group, at \S+program.py:\d+ in <module>",
            text,
            re.M,
        ), text
    finally:
        for process in ranks.processes:
            process.kill()
        ranks.wait(5)


def test_a_late_rank_is_no_error(tmp_path):
    statuses, texts = faulty(2, "time.sleep(7 * r)", tmp_path).wait()
    assert (
        statuses == [0, 0]
        and "has waited" in texts[0]
        and "has waited" not in texts[1]
        and all("went on" in t for t in texts)
    )


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_death_takes_all_down_with_its_reason(culprit, tmp_path):
    ranks = faulty(
        3, f"if r == {culprit}:\n    print('now', flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)", tmp_path
    )
    statuses, texts = ranks.wait()
    for r in {0, 1, 2} - {culprit}:
        assert (
            statuses[r] == 1
            and f"rank {culprit} (host " in texts[r]
            and f"pid {ranks.processes[culprit].pid}) died" in texts[r]
        ), (statuses, texts)


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_death_is_told_with_the_last_collective(culprit, tmp_path):
    """Watchers hear of each other once a second: what a rank did in the last moments is known from the others."""
    ranks = faulty(
        3,
        f"time.sleep(1.2)\nfor _ in range(20):\n    step()\nif r == {culprit}:\n    os.kill(os.getpid(), signal.SIGKILL)",
        tmp_path,
    )
    statuses, texts = ranks.wait()
    for r in {0, 1, 2} - {culprit}:
        said = re.search(r"\) died: .*?; it (came to|left) number (\d+)(.*)", texts[r])
        assert said and int(said[2]) in (22, 23) and (said[2] == "23" or "is in number 23" in said[3]), texts[r]


def test_a_rank_that_computes_goes_down_too(tmp_path):
    ranks = faulty(2, "if r == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\nwhile True:\n    pass", tmp_path)
    ranks.processes[1].wait(60)
    began = time.monotonic()
    statuses, texts = ranks.wait()
    assert (
        statuses[0] == 1
        and time.monotonic() - began < 10
        and "this process ends now, because rank 1 (host " in texts[0]
    ), texts


@pytest.mark.parametrize("culprit", [0, 1])
def test_an_exception_reaches_the_others(culprit, tmp_path):
    statuses, texts = faulty(3, f"if r == {culprit}:\n    raise ValueError('no such file: x')", tmp_path).wait()
    assert statuses == [1, 1, 1]
    for r in {0, 1, 2} - {culprit}:
        assert re.search(rf"rank {culprit} \(host \S+, pid \d+\) failed: ValueError: no such file: x", texts[r]), texts[
            r
        ]


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_rank_that_leaves_early(culprit, tmp_path):
    statuses, texts = faulty(3, f"if r == {culprit}:\n    sys.exit(0)", tmp_path).wait()
    assert statuses[culprit] == 0
    for r in {0, 1, 2} - {culprit}:
        assert (
            statuses[r] == 1 and "waits for a rank that is gone, " in texts[r] and f"rank {culprit} (host " in texts[r]
        ), (statuses, texts)


@pytest.mark.parametrize(
    "call, wanted",
    [
        (
            "dist.all_reduce(torch.ones(3 + (r == 1)))",
            ("all_reduce(SUM) of float32 [3]", "rank 1", "all_reduce(SUM) of float32 [4]"),
        ),
        (
            "dist.all_reduce(torch.ones(3, dtype=torch.float64 if r == 2 else torch.float32))",
            ("all_reduce(SUM) of float32 [3]", "rank 2", "all_reduce(SUM) of float64 [3]"),
        ),
        (
            "dist.all_reduce(torch.ones(3), op=dist.ReduceOp.MAX if r == 1 else dist.ReduceOp.SUM)",
            ("all_reduce(SUM) of float32 [3]", "rank 1", "all_reduce(MAX) of float32 [3]"),
        ),
        (
            "dist.broadcast(torch.ones(3), 0) if r == 1 else dist.barrier()",
            ("barrier", "rank 1", "broadcast of float32 [3], root 0"),
        ),
        (
            "dist.new_group([0, 1] if r == 2 else [0, 2])",
            ("new_group of ranks [0, 2]", "rank 2", "new_group of ranks [0, 1]"),
        ),
        ("dist.barrier() if r == 1 else dist.new_group([0, 2])", ("new_group of ranks [0, 2]", "rank 1", "barrier")),
        (
            "dist.reduce_scatter(torch.zeros(r + 1), [torch.ones(i + 1 + (r == 1 and i == 0)) for i in range(n)])",
            (
                "reduce_scatter(SUM) of float32 in parts of 1, 2, 3 elements",
                "rank 1",
                "reduce_scatter(SUM) of float32 in parts of 2, 2, 3 elements",
            ),
        ),
        (
            "dist.all_gather([torch.ones(i + 1 + (r == 2 and i == 0)) for i in range(n)], torch.ones(r + 1))",
            (
                "all_gather of float32 in parts of 1, 2, 3 elements",
                "rank 2",
                "all_gather of float32 in parts of 2, 2, 3 elements",
            ),
        ),
        (
            "dist.broadcast(torch.ones(3), r)",
            ("broadcast of float32 [3], root 0", "rank 1", "broadcast of float32 [3], root 1"),
        ),
    ],
)
def test_ranks_that_disagree(call, wanted, tmp_path):
    first, culprit, other = wanted
    program = (
        BEGIN
        + f"""
try:
    {call}
except RuntimeError as error:
    print(error)
    dist.destroy_process_group()
"""
    )
    texts = run_ranks(3, program, tmp_path)
    for text in texts:
        assert re.search(
            rf"ranks disagree about number 4 of group 'default': rank 0 \(host \S+, pid \d+\) came to {re.escape(first)}, {culprit} \(host \S+, pid \d+\) to "
            rf"{re.escape(other)}",
            text,
        ), text


def test_a_message_of_another_size(tmp_path):
    texts = run_ranks(
        2,
        BEGIN
        + """
if r == 0:
    dist.send(torch.ones(3), 1)
    dist.send(torch.ones(3, dtype=torch.int32), 1)
else:
    for _ in range(2):
        try:
            dist.recv(torch.zeros(4, dtype=torch.float32), 0)
        except RuntimeError as error:
            print(error)
dist.barrier()
""",
        tmp_path,
    )
    assert re.search(
        r"recv: rank 0 \(host \S+, pid \d+\) sent float32, 12 bytes; rank 1 \(host \S+, pid \d+\) expected float32 \[4\], 16 bytes",
        texts[1],
    ), texts[1]
    assert "sent int32, 12 bytes" in texts[1]


def test_timeouts(tmp_path):
    texts = run_ranks(
        2,
        """
import time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo")
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    work = dist.irecv(torch.zeros(1), 1)
    try:
        work.wait(timedelta(seconds=0.3))
    except RuntimeError as error:
        print(error)
    store.set("told", "")
    work.wait()
    try:
        dist.monitored_barrier(timeout=timedelta(seconds=0.5))
    except RuntimeError as error:
        print(error)
else:
    store.wait(["told"])
    dist.send(torch.ones(1), 0)
dist.barrier()
""",
        tmp_path,
    )
    assert re.search(
        r"recv of float32 \[1\], from 1 of group 'default', timed out after 0.3 seconds. Not there:\n  rank 1 \(host \S+, pid \d+\)",
        texts[0],
    ), texts[0]
    assert "Rank 1 failed to pass monitoredBarrier in 500 ms" in texts[0]


LATE = """
import os, signal, time, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group(BACKEND)
r, n = dist.get_rank(), dist.get_world_size()
for _ in range(2):
    dist.all_reduce(torch.ones(3, 4))
dist.distributed_c10d._set_pg_timeout(timedelta(seconds=3))
told = os.path.join(os.path.dirname(os.path.abspath(__file__)), "told")
if r in CULPRITS:
    HOW
try:
    dist.all_reduce(torch.ones(SIZE, 4))
except dist.DistBackendError as error:
    print(f"rank {r}, pid {os.getpid()}, told: {error}".replace("\\n", " ") + "\\n", end="", flush=True)  # in one piece: ranks share a stream
    open(told, "w").close()
"""


def late(culprits, how="while not os.path.exists(told): time.sleep(0.02)", backend="gloo", size=5):
    """Ranks of which some come when the others have given up; each prints what it was told."""
    return (
        LATE.replace("BACKEND", repr(backend))
        .replace("CULPRITS", repr(culprits))
        .replace("HOW", how)
        .replace("SIZE", str(size))
    )


def check_late(text, size=5):
    """Every line names exactly the culprits, and the same ones."""
    pids = {int(r): int(pid) for r, pid in re.findall(r"rank (\d+), pid (\d+), told", text)}
    named = set()
    for said in re.findall(r"told: (.*)", text):
        assert said.startswith(
            f"all_reduce(SUM) of float32 [{size}, 4], number 3 of group 'default', timed out after 3.0 seconds. Not there: "
        ), said
        named.add(tuple((int(r), int(pid)) for r, pid in re.findall(r"rank (\d+) \(host \S+, pid (\d+)\)", said)))
    assert len(named) == 1, text
    return named.pop(), pids


@pytest.mark.parametrize("n, culprits", [(4, (1,)), (8, (6, 2)), (3, (0,))])
def test_a_timeout_names_who_has_not_come(n, culprits, tmp_path):
    texts = run_ranks(n, late(culprits), tmp_path)
    named, pids = check_late("".join(texts))
    assert (
        sorted(r for r, _ in named) == sorted(culprits) and len(pids) == n and all(pids[r] == pid for r, pid in named)
    ), texts


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_timeout_names_who_is_stopped(culprit, tmp_path):
    ranks = Ranks(3, late((culprit,), "os.kill(os.getpid(), signal.SIGSTOP)"), tmp_path)
    others = [r for r in range(3) if r != culprit]
    try:
        ranks.wait_for_text("told: ", ranks=others)
        named, _ = check_late("".join(ranks.texts()[r] for r in others))
        assert named == ((culprit, ranks.processes[culprit].pid),), ranks.texts()
    finally:
        ranks.processes[culprit].kill()
        ranks.wait()


def test_a_wait_with_a_time_of_its_own(tmp_path):
    """The work goes on, and the error names who has not come so far."""
    texts = run_ranks(
        3,
        BEGIN
        + """
from datetime import timedelta
store = dist.distributed_c10d._get_default_store()
if r == 1:
    store.wait(["told 0", "told 2"])
work = dist.all_reduce(torch.ones(2), async_op=True)
if r != 1:
    try:
        work.wait(timedelta(seconds=2))
    except RuntimeError as error:
        print("told:", str(error).replace("\\n", " "))
    store.set(f"told {r}", "")
work.wait()
dist.barrier()
""",
        tmp_path,
    )
    for r in (0, 2):
        said = re.search("told: (.*)", texts[r])[1]
        assert said.startswith(
            "all_reduce(SUM) of float32 [2], number 4 of group 'default', timed out after 2.0 seconds. Not there: "
        ), said
        assert re.findall(r"rank (\d+) \(host \S+, pid \d+\)", said) == ["1"], said


def test_children_of_a_rank_do_not_hide_its_death(tmp_path):
    """A forked child (a loader's worker) has the same sockets; it must not keep them open."""
    statuses, texts = faulty(
        2,
        "if r == 1:\n    if os.fork() == 0:\n        time.sleep(50)\n        os._exit(0)\n    os.kill(os.getpid(), signal.SIGKILL)",
        tmp_path,
    ).wait(40)
    assert statuses[0] == 1 and "rank 1 (host " in texts[0] and "died" in texts[0], (statuses, texts)


def test_who_has_not_joined(tmp_path):
    ranks = Ranks(3, BEGIN, tmp_path, variables={"TAPER_STALL": "1"}, absent=(1,))
    ranks.wait_for_text("waits in init_process_group for 1 of 3 ranks. Not there: rank 1", ranks=[0])
    ranks.wait(0.1)


def test_ctrl_c_ends_a_wait(tmp_path):
    ranks = faulty(2, "if r == 1:\n    time.sleep(30)\nprint('waits', flush=True)", tmp_path)
    ranks.wait_for_text("waits", ranks=[0])
    time.sleep(0.3)
    ranks.processes[0].send_signal(signal.SIGINT)
    assert ranks.processes[0].wait(30) != 0
    statuses, texts = ranks.wait()
    assert (
        "KeyboardInterrupt" in texts[0]
        and statuses[1] == 1
        and "rank 0 (host " in texts[1]
        and "failed: KeyboardInterrupt" in texts[1]
    ), texts


def test_a_forked_child_has_no_part(tmp_path):
    run_ranks(
        2,
        BEGIN
        + """
pid = os.fork()
if pid == 0:
    try:
        step()
    except RuntimeError as error:
        os._exit(7 if "forked from rank" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
step()
""",
        tmp_path,
    )


def test_preempted(tmp_path):
    ranks = Ranks(
        1,
        """
        import time, taper
        assert not taper.preempted()
        taper.xpu.is_available()  # OpenCL may bring along LLVM, which sets handlers of its own
        print("ready", flush=True)
        while not taper.preempted():
            time.sleep(0.02)
        print("saved")
    """,
        tmp_path,
    )
    ranks.wait_for_text("ready")
    ranks.processes[0].send_signal(signal.SIGUSR1)
    statuses, texts = ranks.wait()
    assert statuses == [0] and "saved" in texts[0]


def test_nobody_at_the_meeting_place(tmp_path):
    ranks = Ranks(2, BEGIN, tmp_path, variables={"TAPER_STALL": "0.5"}, absent=(0,))
    try:
        ranks.wait_for_text("to connect to 127.0.0.1, port ", ranks=[1])
        assert re.search(
            r"^taper: host \S+, pid \d+ has tried for \d+ s to connect to 127.0.0.1, port \d+, where ranks meet: Connection refused",
            ranks.texts()[1],
            re.M,
        ), ranks.texts()[1]
    finally:
        ranks.processes[1].kill()
        ranks.wait(5)


def test_a_meeting_port_that_is_taken(tmp_path):
    """By somebody who answers nothing: rank 0 names the port, the others know that it is not their store."""
    with socket.socket() as stranger:
        stranger.bind(("", free_port()))
        stranger.listen()
        port = stranger.getsockname()[1]
        ranks = Ranks(2, BEGIN, tmp_path, variables={"MASTER_PORT": str(port), "TAPER_STALL": "1"})
        try:
            assert ranks.processes[0].wait(40) == 1
            assert re.search(
                rf"cannot listen on port {port} of host \S+: Address already in use .*MASTER_PORT", ranks.texts()[0]
            ), ranks.texts()[0]
            ranks.wait_for_text(
                f"to connect to 127.0.0.1, port {port}, where ranks meet: what listens there is not the store of this job",
                ranks=[1],
            )
        finally:
            ranks.processes[1].kill()
            ranks.wait(5)
