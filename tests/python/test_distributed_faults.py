"""Nothing hangs silently: stalls name who has not come, deaths reach every rank with their reason, and ranks that
disagree are told which two."""

import re
import signal
import socket
import time

import pytest
from ranks import Ranks, free_port, run_ranks


def faulty(n, fault, culprit, folder, **variables):
    """Ranks of which one does what the fault of rank_programs/distributed_faults/fault.py says."""
    variables = {"TAPER_STALL": "1.5", "TAPER_GRACE": "2", **variables}
    return Ranks(n, "distributed_faults/fault.py", folder, arguments=(fault, culprit), variables=variables)


@pytest.mark.parametrize(
    "culprit, how",
    [(2, "stop"), (1, "sleep"), (0, "stop")],
)
def test_a_stall_names_who_has_not_come(culprit, how, tmp_path):
    ranks = faulty(4, how, culprit, tmp_path)
    others = [r for r in range(4) if r != culprit]
    try:
        ranks.wait_for_text("has waited", ranks=others)
        for r in others:
            text = ranks.texts()[r]
            assert f"taper: rank {r} (host " in text, text
            assert "in all_reduce(SUM) of float32 [3, 4], number 4 of group 'default', at " in text, text
            assert "faults_begin.py:" in text, text
            assert " in step." in text, text
            blamed = re.findall(r"^  rank (\d+) \(host \S+, pid (\d+)\)", text, re.M)
            assert {(int(b), int(p)) for b, p in blamed} == {(culprit, ranks.processes[culprit].pid)}, text
    finally:
        ranks.kill()


def test_a_stall_tells_what_the_absent_one_waits_for(tmp_path):
    """Another group's collective, or a message: the two that wait for each other are in one report."""
    ranks = Ranks(3, "distributed_faults/wait_in_a_ring.py", tmp_path, variables={"TAPER_STALL": "1.5"})
    try:
        ranks.wait_for_text("has waited", ranks=range(3))
        text = ranks.texts()[0]
        assert re.search(
            r"^  rank 1 \(host \S+, pid \d+\): it waits in recv of float32 \[5\], from 0, at \S+wait_in_a_ring.py:\d+ in <module>",
            text,
            re.M,
        ), text
        assert re.search(
            r"^  rank 2 \(host \S+, pid \d+\): it waits in all_reduce\(SUM\) of float32 \[6\] of another group, at \S+wait_in_a_ring.py:\d+ in <module>",
            text,
            re.M,
        ), text
    finally:
        ranks.kill()


def test_a_late_rank_is_no_error(tmp_path):
    statuses, texts = faulty(2, "late", 1, tmp_path).wait()
    assert statuses == [0, 0]
    assert "has waited" in texts[0]
    assert "has waited" not in texts[1]
    assert all("went on" in t for t in texts)


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_death_takes_all_down_with_its_reason(culprit, tmp_path):
    ranks = faulty(3, "die", culprit, tmp_path)
    statuses, texts = ranks.wait()
    for r in {0, 1, 2} - {culprit}:
        assert statuses[r] == 1, (statuses, texts)
        assert f"rank {culprit} (host " in texts[r], (statuses, texts)
        assert f"pid {ranks.processes[culprit].pid}) died" in texts[r], (statuses, texts)


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_death_is_told_with_the_last_collective(culprit, tmp_path):
    """Watchers hear of each other once a second: what a rank did in the last moments is known from the others."""
    ranks = faulty(3, "die_later", culprit, tmp_path)
    statuses, texts = ranks.wait()
    for r in {0, 1, 2} - {culprit}:
        said = re.search(r"\) died: .*?; it (came to|left) number (\d+)(.*)", texts[r])
        assert said, texts[r]
        assert int(said[2]) in (22, 23), texts[r]
        assert said[2] == "23" or "is in number 23" in said[3], texts[r]


def test_a_rank_that_computes_goes_down_too(tmp_path):
    ranks = Ranks(2, "distributed_faults/compute.py", tmp_path, variables={"TAPER_GRACE": "2"})
    ranks.processes[1].wait(60)
    began = time.monotonic()
    statuses, texts = ranks.wait()
    assert statuses[0] == 1, texts
    assert time.monotonic() - began < 60, texts
    assert "this process ends now, because rank 1 (host " in texts[0], texts


@pytest.mark.parametrize("culprit", [0, 1])
def test_an_exception_reaches_the_others(culprit, tmp_path):
    statuses, texts = faulty(3, "fail", culprit, tmp_path).wait()
    assert statuses == [1, 1, 1]
    for r in {0, 1, 2} - {culprit}:
        assert re.search(rf"rank {culprit} \(host \S+, pid \d+\) failed: ValueError: no such file: x", texts[r]), texts[
            r
        ]


def test_a_rank_that_has_done_its_part_may_leave(tmp_path):
    """What it leaves behind says that it has come, so those who are still in the collective go on waiting."""
    statuses, texts = Ranks(
        3,
        "distributed_faults/leave_before_others.py",
        tmp_path,
        variables={"TAPER_STALL": "1", "TAPER_GRACE": "2", "TAPER_DIST_CHECK": "0"},
    ).wait()
    assert statuses == [0, 0, 0], (statuses, texts)
    assert "[3.0, 3.0, 3.0]" in texts[1], texts


@pytest.mark.parametrize("culprit", [0, 1])
def test_a_rank_that_leaves_early(culprit, tmp_path):
    statuses, texts = faulty(3, "leave", culprit, tmp_path).wait()
    assert statuses[culprit] == 0
    for r in {0, 1, 2} - {culprit}:
        assert statuses[r] == 1, (statuses, texts)
        assert "waits for a rank that is gone, " in texts[r], (statuses, texts)
        assert f"rank {culprit} (host " in texts[r], (statuses, texts)


@pytest.mark.parametrize(
    "what, wanted",
    [
        (
            "size",
            ("all_reduce(SUM) of float32 [3]", "rank 1", "all_reduce(SUM) of float32 [4]"),
        ),
        (
            "dtype",
            ("all_reduce(SUM) of float32 [3]", "rank 2", "all_reduce(SUM) of float64 [3]"),
        ),
        (
            "operation",
            ("all_reduce(SUM) of float32 [3]", "rank 1", "all_reduce(MAX) of float32 [3]"),
        ),
        (
            "collective",
            ("barrier", "rank 1", "broadcast of float32 [3], root 0"),
        ),
        (
            "group",
            ("new_group of ranks [0, 2]", "rank 2", "new_group of ranks [0, 1]"),
        ),
        ("group or barrier", ("new_group of ranks [0, 2]", "rank 1", "barrier")),
        (
            "parts scattered",
            (
                "reduce_scatter(SUM) of float32 in parts of 1, 2, 3 elements",
                "rank 1",
                "reduce_scatter(SUM) of float32 in parts of 2, 2, 3 elements",
            ),
        ),
        (
            "parts gathered",
            (
                "all_gather of float32 in parts of 1, 2, 3 elements",
                "rank 2",
                "all_gather of float32 in parts of 2, 2, 3 elements",
            ),
        ),
        (
            "root",
            ("broadcast of float32 [3], root 0", "rank 1", "broadcast of float32 [3], root 1"),
        ),
    ],
)
def test_ranks_that_disagree(what, wanted, tmp_path):
    first, culprit, other = wanted
    texts = run_ranks(3, "distributed_faults/disagree.py", tmp_path, arguments=[what])
    for text in texts:
        assert re.search(
            rf"ranks disagree about number 4 of group 'default': rank 0 \(host \S+, pid \d+\) came to {re.escape(first)}, {culprit} \(host \S+, pid \d+\) to "
            rf"{re.escape(other)}",
            text,
        ), text


def test_a_message_of_another_size(tmp_path):
    texts = run_ranks(2, "distributed_faults/messages.py", tmp_path)
    assert re.search(
        r"recv: rank 0 \(host \S+, pid \d+\) sent float32, 12 bytes; rank 1 \(host \S+, pid \d+\) expected float32 \[4\], 16 bytes",
        texts[1],
    ), texts[1]
    assert "sent int32, 12 bytes" in texts[1]


def test_timeouts(tmp_path):
    texts = run_ranks(2, "distributed_faults/timeouts.py", tmp_path)
    assert re.search(
        r"recv of float32 \[1\], from 1 of group 'default', timed out after 0.3 seconds. Not there:\n  rank 1 \(host \S+, pid \d+\)",
        texts[0],
    ), texts[0]
    assert "Rank 1 failed to pass monitoredBarrier in 500 ms" in texts[0]


def late(culprits, folder, how="wait", size=5):
    """The program, and its arguments, of ranks of which some come when the others have given up."""
    return "distributed_faults/late.py", [",".join(map(str, culprits)), how, size, folder]


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
    program, arguments = late(culprits, tmp_path)
    texts = run_ranks(n, program, tmp_path, arguments=arguments)
    named, pids = check_late("".join(texts))
    assert sorted(r for r, _ in named) == sorted(culprits), texts
    assert len(pids) == n, texts
    assert all(pids[r] == pid for r, pid in named), texts


@pytest.mark.parametrize("culprit", [0, 2])
def test_a_timeout_names_who_is_stopped(culprit, tmp_path):
    program, arguments = late((culprit,), tmp_path, "stop")
    ranks = Ranks(3, program, tmp_path, arguments=arguments)
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
    texts = run_ranks(3, "distributed_faults/wait_with_a_time.py", tmp_path)
    for r in (0, 2):
        said = re.search("told: (.*)", texts[r])[1]
        assert said.startswith(
            "all_reduce(SUM) of float32 [2], number 4 of group 'default', timed out after 2.0 seconds. Not there: "
        ), said
        assert re.findall(r"rank (\d+) \(host \S+, pid \d+\)", said) == ["1"], said


def test_children_of_a_rank_do_not_hide_its_death(tmp_path):
    """A forked child (a loader's worker) has the same sockets; it must not keep them open."""
    statuses, texts = faulty(2, "fork_and_die", 1, tmp_path).wait(40)
    assert statuses[0] == 1, (statuses, texts)
    assert "rank 1 (host " in texts[0], (statuses, texts)
    assert "died" in texts[0], (statuses, texts)


def test_who_has_not_joined(tmp_path):
    ranks = Ranks(3, "distributed_faults/faults_begin.py", tmp_path, variables={"TAPER_STALL": "1"}, absent=(1,))
    ranks.wait_for_text("waits in init_process_group for 1 of 3 ranks. Not there: rank 1", ranks=[0])
    ranks.kill()


def test_ctrl_c_ends_a_wait(tmp_path):
    ranks = faulty(2, "sleep", 1, tmp_path)
    ranks.wait_for_text("waits", ranks=[0])
    time.sleep(0.3)
    ranks.processes[0].send_signal(signal.SIGINT)
    assert ranks.processes[0].wait(30) != 0
    statuses, texts = ranks.wait()
    assert "KeyboardInterrupt" in texts[0], texts
    assert statuses[1] == 1, texts
    assert "rank 0 (host " in texts[1], texts
    assert "failed: KeyboardInterrupt" in texts[1], texts


def test_a_forked_child_has_no_part(tmp_path):
    run_ranks(2, "distributed_faults/forked_child.py", tmp_path)


def test_preempted(tmp_path):
    ranks = Ranks(1, "distributed_faults/preempted.py", tmp_path)
    ranks.wait_for_text("ready")
    ranks.processes[0].send_signal(signal.SIGUSR1)
    statuses, texts = ranks.wait()
    assert statuses == [0]
    assert "saved" in texts[0]


def test_nobody_at_the_meeting_place(tmp_path):
    ranks = Ranks(2, "distributed_faults/faults_begin.py", tmp_path, variables={"TAPER_STALL": "0.5"}, absent=(0,))
    try:
        ranks.wait_for_text("to connect to 127.0.0.1, port ", ranks=[1])
        assert re.search(
            r"^taper: host \S+, pid \d+ has tried for \d+ s to connect to 127.0.0.1, port \d+, where ranks meet: Connection refused",
            ranks.texts()[1],
            re.M,
        ), ranks.texts()[1]
    finally:
        ranks.kill()


def test_a_meeting_port_that_is_taken(tmp_path):
    """By somebody who answers nothing: rank 0 names the port, the others know that it is not their store."""
    with socket.socket() as stranger:
        stranger.bind(("", free_port()))
        stranger.listen()
        port = stranger.getsockname()[1]
        ranks = Ranks(
            2, "distributed_faults/faults_begin.py", tmp_path, variables={"MASTER_PORT": str(port), "TAPER_STALL": "1"}
        )
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
            ranks.kill()
