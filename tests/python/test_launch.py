"""`taper launch`: torchrun's options and variables, logs, restarts, binding to processors, and a rank that fails takes
the others with it."""

import json
import os
import re
import pty
import signal
import subprocess
import sys
import time

import pytest
from ranks import PROGRAMS, free_port, python_path


def launch(*arguments, command="launch", env=None, timeout=120):
    done = subprocess.run(
        [sys.executable, "-m", "taper", *command.split(), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": python_path(), **(env or {})},
        timeout=timeout,
    )
    return done.returncode, done.stdout, done.stderr


def program(name):
    """The path of a program of rank_programs/launch."""
    return PROGRAMS / "launch" / f"{name}.py"


def wait_for(paths):
    until = time.monotonic() + 60
    while not all(path.exists() for path in paths):
        assert time.monotonic() < until, paths
        time.sleep(0.02)


def ranks(out):
    return sorted((json.loads(line) for line in out.splitlines()), key=lambda one: int(one["RANK"]))


@pytest.mark.parametrize("command", ["launch", "torchrun", "run -m torch.distributed.run"])
def test_variables_and_arguments(command):
    status, out, err = launch(
        "--nproc-per-node=3",
        "--max_restarts",
        2,
        "--role",
        "trainer",
        "--rdzv_id",
        "job7",
        program("show"),
        "--epochs",
        "3",
        command=command,
    )
    assert status == 0, err
    seen = ranks(out)
    assert [one["RANK"] for one in seen] == [one["LOCAL_RANK"] for one in seen] == ["0", "1", "2"]
    for one in seen:
        assert one["WORLD_SIZE"] == one["LOCAL_WORLD_SIZE"] == one["ROLE_WORLD_SIZE"] == "3"
        assert one["GROUP_RANK"] == "0"
        assert one["GROUP_WORLD_SIZE"] == "1"
        assert one["TORCHELASTIC_RESTART_COUNT"] == "0"
        assert one["TORCHELASTIC_MAX_RESTARTS"] == "2"
        assert one["TORCHELASTIC_RUN_ID"] == "job7"
        assert one["argv"] == ["--epochs", "3"]
        assert one["ROLE_NAME"] == "trainer"
        assert one["MASTER_ADDR"] == "127.0.0.1"
    assert len({one["MASTER_PORT"] for one in seen}) == 1
    assert int(seen[0]["MASTER_PORT"]) > 0


# As torchrun 2.15: what is asked for as --tee is shown, marked, whatever --redirects says of it.
@pytest.mark.parametrize(
    "options, out, err, logs",
    [
        (
            "-t 3 -r 1:3",
            ["[default0]:out 0", "[default1]:out 1"],
            ["[default0]:err 0", "[default1]:err 1"],
            ["0/stderr", "0/stdout", "1/stderr", "1/stdout"],
        ),
        (
            "-t 3 -r 3 --local-ranks-filter 1",
            ["[default1]:out 1"],
            ["[default1]:err 1"],
            ["0/stderr", "0/stdout", "1/stderr", "1/stdout"],
        ),
        ("-r 1 -t 2 --role w", [], ["[w0]:err 0", "[w1]:err 1"], ["0/stderr", "0/stdout", "1/stderr", "1/stdout"]),
        ("-t 0:1,1:2", ["[default0]:out 0", "out 1"], ["[default1]:err 1", "err 0"], ["0/stdout", "1/stderr"]),
        ("-r 0:1,1:2", ["out 1"], ["err 0"], ["0/stdout", "1/stderr"]),
    ],
)
def test_tee_and_redirects(options, out, err, logs, tmp_path):
    status, said, told = launch("--nproc", 2, *options.split(), "--log-dir", tmp_path / "logs", program("speak"))
    assert status == 0
    assert sorted(said.splitlines()) == out
    assert sorted(told.splitlines()) == err
    found = {
        str(path.relative_to(path.parents[1])).removesuffix(".log"): path.read_text()
        for path in (tmp_path / "logs").glob("*/attempt_0/*/*.log")
        if path.stat().st_size
    }
    assert sorted(found) == logs
    assert all(text == f"{name[-3:]} {name[0]}\n" for name, text in found.items())


def test_the_old_launcher_passes_the_local_rank():
    path = program("show")
    assert [
        one["argv"]
        for one in ranks(launch("--nproc_per_node=2", path, "a", command="run -m torch.distributed.launch")[1])
    ] == [["--local-rank=0", "a"], ["--local-rank=1", "a"]]
    assert [
        one["argv"]
        for one in ranks(launch("--use-env", path, "--use-env", command="run -m torch.distributed.launch")[1])
    ] == [["--use-env"]]


def test_a_node_of_several_by_number_and_by_the_schedulers_variables():
    path = program("show")
    one = ranks(launch("--nnodes", 1, "--nproc", 1, "--master-addr", "localhost", "--master-port", 29777, path)[1])[0]
    assert (one["MASTER_ADDR"], one["MASTER_PORT"]) == ("localhost", "29777")
    status, _, err = launch("--nnodes", 2, "--nproc", 1, path)
    assert status == 1
    assert "--master-addr" in err


def test_threads_and_processors_come_from_the_mask():
    processors = sorted(os.sched_getaffinity(0))
    path, free = program("show"), {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}

    def seen(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "taper", "launch", *arguments, str(path)],
            capture_output=True,
            text=True,
            env=free,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return [(one["OMP_NUM_THREADS"], one["cpus"]) for one in ranks(done.stdout)]

    assert seen("--nproc", "1") == [(str(len(processors)), processors)]
    assert seen("--nproc", "2") == [(str(max(1, len(processors) // 2)), processors)] * 2
    first, last = processors[0], processors[-1]
    assert seen("--nproc", "2", "--cpu-bind", f"list:{first}:{last}") == [("1", [first]), ("1", [last])]
    assert seen("--nproc", "1", "--cpu-bind", f"mask:{1 << last:#x}") == [("1", [last])]
    half = len(processors) // 2
    if half:
        assert [cpus for _, cpus in seen("--nproc", "2", "--cpu-bind", "cores")] == [
            processors[:half],
            processors[half:],
        ]
    assert launch("--cpu-bind", "list:9999", path)[0] == 1
    code, out, err = launch(
        "--nproc", 2, "--cpu-bind", f"verbose,list:{first}:{last}", path
    )  # as Slurm and PALS have it
    assert code == 0, err
    assert f"local rank 0: processors {first}\n" in err + out, err
    assert f"local rank 1: processors {last}\n" in err + out, err
    assert [one["cpus"] for one in ranks(out)] == [[first], [last]]
    assert "local rank" not in "".join(launch("--cpu-bind", f"quiet,list:{first}", path)[1:])


def test_taper_info_shows_the_rank_and_its_processors():
    last = max(os.sched_getaffinity(0))
    _, out, err = launch(
        "--nproc", 2, "--cpu-bind", f"list:{last}", "--no-python", sys.executable, "-m", "taper", "info"
    )
    assert all(f"{rank} of 2 on" in out for rank in (0, 1)), err
    assert f"by torchrun, processors {last}\n" in out, err


def test_taper_info_says_when_the_size_is_not_known():
    _, out, err = launch(command="info", env={"PMIX_RANK": "1"})
    assert "1 of a number that the launcher does not tell on" in out, out + err


def test_ranks_that_fail_together_tell_it_one_by_one(tmp_path):
    path = program("fail_together")
    (tmp_path / "here").mkdir()
    _, _, err = launch("--nproc", 4, path, tmp_path / "here")
    lines = [line for line in err.splitlines() if not line.startswith("taper")]
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    assert len(starts) == 4, err
    told = [lines[start:end] for start, end in zip(starts, starts[1:] + [None])]
    assert told[0] == told[1] == told[2] == told[3], err
    assert told[0][-1] == "ZeroDivisionError: division by zero", err


def test_a_failing_rank_ends_the_others_and_says_why(tmp_path):
    path = program("fail")
    status, out, err = launch("--nproc", 3, "--log-dir", tmp_path / "logs", path, tmp_path)
    assert status == 1
    assert time.monotonic() - float((tmp_path / "failed1").read_text()) < 60
    for rank in range(3):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"pid{rank}").read_text()), 0)
    assert "rank 1 (pid" in err
    assert "ended with status 1: ValueError: lost its way; all ranks are ended" in err
    logs = list((tmp_path / "logs").glob("*/attempt_0/*/stderr.log"))
    assert len(logs) == 3
    assert all("ValueError: lost its way; all ranks are ended" in log.read_text() for log in logs)


def test_a_killed_rank_is_named_with_its_signal(tmp_path):
    path = program("killed")
    status, _, err = launch("--nproc", 2, "--shutdown-timeout", 0.5, path, tmp_path)
    assert status == 128 + 9
    assert "was killed by signal 9 (SIGKILL)" in err
    assert time.monotonic() - float((tmp_path / "failed0").read_text()) < 60


def test_restarts(tmp_path):
    path = program("restarts")
    status, out, err = launch("--nproc", 2, "--max-restarts", 2, path)
    assert status == 0
    assert {"try 0 rank 1", "try 1 rank 1", "try 2 rank 0", "try 2 rank 1"} <= set(out.splitlines())
    assert "rank 1" in err
    assert "status 3; all ranks are started again (2 times left)" in err
    assert "(1 time left)" in err
    assert launch("--nproc", 2, "--max-restarts", 1, path)[0] == 3


def test_streams_go_where_they_are_asked_to(tmp_path):
    path = program("no_newline")
    status, out, err = launch("--nproc", 2, "--log-dir", tmp_path / "a", "-r", "0:3", "-t", "1:1", path)
    assert status == 0
    assert sorted(out.splitlines()) == ["[default1]:no newline", "[default1]:out 1"]
    assert err == "err 1\n"
    kept = {
        str(log.relative_to(tmp_path / "a")).split("/", 1)[1]: log.read_text()
        for log in (tmp_path / "a").glob("*/*/*/*.log")
    }
    assert kept == {
        "attempt_0/0/stdout.log": "out 0\nno newline",
        "attempt_0/0/stderr.log": "err 0\n",
        "attempt_0/1/stdout.log": "out 1\nno newline",
    }
    status, out, err = launch(
        "--nproc", 2, "--local-ranks-filter", "1", "-t", "3", "--log-line-prefix-template", "<${rank}> ", path
    )
    assert sorted(out.splitlines()) == ["<1> no newline", "<1> out 1"]
    assert err == "<1> err 1\n"


def test_a_signal_reaches_the_ranks_and_they_may_finish(tmp_path):
    path = program("signals")
    process = subprocess.Popen(
        [sys.executable, "-m", "taper", "launch", "--nproc", "2", str(path), str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for([tmp_path / "ready0", tmp_path / "ready1"])
    process.send_signal(signal.SIGUSR1)
    wait_for([tmp_path / "heard0", tmp_path / "heard1"])
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert "SIGTERM came" in err
    assert [(tmp_path / f"saved{rank}").read_text() for rank in (0, 1)] == ["usr1 term"] * 2


def test_live_lines_on_a_terminal():
    path = program("steps")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "taper", "launch", "--nproc", "2", str(path)], stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(ours)
    assert process.wait(30) == 0
    text = seen.decode()
    assert all(f"rank {rank} step 4" in text for rank in (0, 1))
    assert text.count("running") >= 2
    assert "\x1b[2A\x1b[J" in text
    assert " MB " in text


def test_record_leaves_the_reason(tmp_path):
    path = program("recorded")
    _, _, err = launch("--no-python", "--nproc", 1, sys.executable, path)
    assert "ended with status 1: KeyError: 'column'" in err


def nodes(count, command, *arguments, static):
    """Launchers of several nodes, all on this machine."""
    port = free_port()
    where = (
        ["--master-addr", "127.0.0.1", "--master-port", port]
        if static
        else ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "j"]
    )
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "taper",
                "launch",
                "--nproc",
                "2",
                *(["--node-rank", str(i)] if static else []),
                *map(str, where),
                *map(str, arguments),
                *map(str, command),
            ],
            env={**os.environ, "PYTHONPATH": python_path()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(count)
    ]
    try:
        ended = [process.communicate(timeout=60) for process in started]
    finally:
        for process in started:
            process.kill()
    return (
        [process.returncode for process in started],
        "".join(out for out, _ in ended),
        "".join(err for _, err in ended),
    )


@pytest.mark.parametrize("static", [True, False])
def test_nodes_meet_and_start_again_together(static):
    statuses, out, err = nodes(2, [program("meet")], "--nnodes", "2", static=static)
    assert statuses == [0, 0], err
    assert sorted(out.splitlines()) == [f"rank {rank} node {rank // 2} sum 4.0 of 2" for rank in range(4)]
    statuses, out, err = nodes(2, [program("meet"), "fail"], "--nnodes", "2", "--max-restarts", "1", static=static)
    assert statuses == [0, 0], err
    assert len(out.splitlines()) == 4, err
    assert err.count("all ranks are started again") == 2, err


def test_fewer_nodes_than_could_be():
    statuses, out, err = nodes(
        2, [program("meet")], "--nnodes", "1:3", "--rdzv-conf", "last_call_timeout=1", static=False
    )
    assert statuses == [0, 0], err
    assert sorted(out.splitlines())[0] == "rank 0 node 0 sum 4.0 of 2", err


def test_the_culprit_is_named_though_others_fail_of_it_first():
    path = program("fail_after_the_others")
    status, _, err = launch("--nproc", 2, path)
    assert status == 1, err
    assert "taper launch: rank 1 " in err, err
    assert "ValueError: the reason; all ranks are ended" in err, err


@pytest.mark.parametrize(
    "how, wanted",
    [
        ("status 5", r"taper launch: rank 1 \(pid \d+ on \S+\) ended with status 5; all"),
        (
            "status 0",
            r"taper launch: rank 1 \(pid \d+ on \S+\) left before the others, with status 0; rank [02] .* ended with status 7",
        ),
        (
            "an error",
            r"taper launch: rank 1 \(pid \d+ on \S+\) ended with status 1: ValueError: the reason",
        ),
    ],
)
def test_who_left_first_is_named_first(how, wanted):
    """All fail within moments of each other, and rank 0's number is the lowest."""
    path = program("leave_first")
    status, _, err = launch("--nproc", 3, path, how)
    assert status != 0, err
    assert re.search(wanted, err), err


def test_ranks_end_with_a_launcher_that_was_killed(tmp_path):
    path = program("sleep")
    process = subprocess.Popen([sys.executable, "-m", "taper", "launch", "--nproc", "2", str(path), str(tmp_path)])
    pids = [tmp_path / f"pid{rank}" for rank in (0, 1)]
    wait_for(pids)
    process.kill()
    process.wait()

    def alive(pid):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except (ProcessLookupError, FileNotFoundError):
            return False

    until = time.monotonic() + 60
    while any(alive(int(pid.read_text())) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.02)


# ---- What the environment says of the job ----
def start_alone(**variables):
    program = "import taper.distributed as d; d.init_process_group('gloo'); print('ranks', d.get_world_size())"
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "RANK": "0", **variables}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)


def test_a_port_that_is_none():
    for port in ("abc", "70000"):
        said = start_alone(WORLD_SIZE="2", MASTER_PORT=port).stderr
        assert f"environment variable MASTER_PORT: expected a port's number, got '{port}'" in said


def test_one_rank_of_one_in_a_job_of_several():
    of_four = {"WORLD_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    first = start_alone(OMPI_COMM_WORLD_RANK="0", **of_four)
    assert first.stdout == "ranks 1\n"
    assert "RANK and WORLD_SIZE in the environment say one rank of one, but openmpi started 4" in first.stderr
    assert not start_alone(OMPI_COMM_WORLD_RANK="1", **of_four).stderr
    assert not start_alone(WORLD_SIZE="1", OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1").stderr
