"""Strangers on the network: processes that reach a job's ports and do not know its secret. The C side, with clients
that misbehave, is tests/network_test.c."""

import os
import pickle
import socket
import struct
import subprocess
import sys
import time

import pytest

import taper.distributed as dist
from ranks import PROGRAMS, Ranks, run_ranks
from taper._launch.options import free_port

SECRET = "a secret that is long enough for a test"
NONE = {"TAPER_JOB_SECRET": ""}
WARNING = "share no secret"


def _hello(purpose, flags=0):
    return b"TAPER-01" + struct.pack("=II", purpose, flags) + os.urandom(32)


def _say(port, *messages):
    """What comes back from a port when that is said, until it is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        heard = b""
        try:
            for message in messages:
                connection.sendall(message)
            while True:
                data = connection.recv(4096)
                if not data:
                    return heard
                heard += data
        except (BrokenPipeError, ConnectionResetError):
            return heard


class Touch:
    """Unpickling it runs code."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_stranger_runs_nothing_through_rpc(tmp_path):
    ranks = Ranks(2, "network/rpc.py", tmp_path, variables={"TAPER_JOB_SECRET": SECRET}, arguments=(str(tmp_path),))
    until = time.monotonic() + 60
    while not (tmp_path / "ports").exists():
        assert time.monotonic() < until, ranks.texts()
        assert not any(process.poll() for process in ranks.processes), ranks.texts()
        time.sleep(0.02)
    port, store_port = map(int, (tmp_path / "ports").read_text().split())
    marker = str(tmp_path / "marker")
    code = pickle.dumps(Touch(marker))
    call = struct.pack("!QQBqq", len(code), 1, 0, -1, -1) + code
    _say(port, b"\0" * 32 + struct.pack("!I", 1), call)  # as if no proof were asked for
    assert len(_say(port, _hello(4))) == 80  # the challenge, and nothing else
    assert len(_say(port, _hello(4), b"\0" * 32 + struct.pack("!I", 1), call)) <= 80
    assert (
        len(_say(port, _hello(4, 1), b"\0" * 32, b"\0" * 32 + struct.pack("!I", 1), call)) <= 80
    )  # a proof that is none
    for message in (
        struct.pack("=IIIIQ", 0x54505354, 2, 0, 6, 0) + b"rpc0/0",
        struct.pack("=IIIIQ", 0x54505354, 1, 0, 6, len(code)) + b"rpc0/1" + code,
    ):
        assert _say(store_port, message) == b""
        assert len(_say(store_port, _hello(1), message)) <= 80
        assert len(_say(store_port, _hello(1, 1), b"\0" * 32, message)) <= 80
    (tmp_path / "tried").write_text("")
    statuses, texts = ranks.wait()
    assert statuses == [0, 0], texts
    assert not os.path.exists(marker)
    assert sum(text.count("refused a connection from 127.0.0.1, which has no job secret") for text in texts) == 1, (
        texts
    )  # said once


def test_a_stranger_cannot_join(tmp_path):
    """It comes as rank 1 before rank 1 does, without the secret and with another one; what it gets is an error that
    says why, and the job goes on."""
    port = str(free_port())
    ranks = Ranks(
        2, "network/job.py", tmp_path, variables={"TAPER_JOB_SECRET": SECRET, "MASTER_PORT": port}, absent=(1,)
    )
    for secret, cause in (
        (None, "asks for the job's secret, and this process has none"),
        ("another " + SECRET, "has another job secret than this process"),
    ):
        variables = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": "1", "WORLD_SIZE": "2"}
        variables.pop("TAPER_JOB_SECRET", None)
        done = subprocess.run(
            [sys.executable, "-m", "taper", "run", str(PROGRAMS / "network" / "job.py")],
            env=variables | ({"TAPER_JOB_SECRET": secret} if secret else {}),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode != 0, done.stderr
        assert "DistNetworkError" in done.stderr, done.stderr
        assert cause in done.stderr, done.stderr
    with pytest.raises(RuntimeError, match="asks for the job's secret"):
        dist.TCPStore(
            "127.0.0.1", int(port), is_master=False, timeout=dist.constants.default_pg_timeout, wait_for_workers=False
        )
    true_one = subprocess.run(
        [sys.executable, "-m", "taper", "run", str(PROGRAMS / "network" / "job.py")],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "RANK": "1",
            "WORLD_SIZE": "2",
            "TAPER_JOB_SECRET": SECRET,
        },
    )
    assert true_one.returncode == 0, true_one.stderr
    assert "well" in true_one.stdout, true_one.stderr
    assert ranks.wait()[1][0].rstrip().endswith("well"), ranks.texts()


def test_one_warning_where_there_is_no_secret(tmp_path):
    texts = run_ranks(3, "network/job.py", tmp_path, variables=NONE)
    assert sum(text.count(WARNING) for text in texts) == 1, texts
    assert "TAPER_JOB_SECRET" in texts[0], texts
    assert WARNING not in "".join(run_ranks(3, "network/job.py", tmp_path, variables={"TAPER_JOB_SECRET": SECRET}))
    assert WARNING not in "".join(
        run_ranks(1, "network/job.py", tmp_path, variables=NONE)
    )  # there is nobody to share it with


def test_ranks_that_meet_by_a_file_keep_a_secret_beside_it(tmp_path):
    texts = run_ranks(3, "network/job.py", tmp_path, variables=NONE, arguments=(f"file://{tmp_path}/meet",))
    assert WARNING not in "".join(texts)
    assert not [name for name in os.listdir(tmp_path) if name.startswith("meet")]  # the last has removed both


def test_a_file_goes_when_two_let_go_at_once(tmp_path):
    program = PROGRAMS / "network" / "let_go.py"
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", str(program), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_the_launcher_makes_a_secret(tmp_path):
    """One for all attempts; no warning, nothing of it on a command line, and 256 bits of it."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "taper",
            "launch",
            "--nproc",
            "2",
            "--max-restarts",
            "1",
            str(PROGRAMS / "network" / "keep_secret.py"),
        ],
        env={**os.environ, "SECRETS": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert WARNING not in done.stderr, done.stderr
    said = {(tmp_path / name).read_text() for name in ("0.0", "1.0", "0.1", "1.1") if (tmp_path / name).exists()}
    assert (tmp_path / "0.1").exists()
    assert len(said) == 1
    given = subprocess.run(
        [sys.executable, "-m", "taper", "launch", "--no-python", "sh", "-c", "echo $TAPER_JOB_SECRET"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "TAPER_JOB_SECRET": SECRET},
    )
    assert given.stdout == SECRET + "\n"


def test_a_secret_in_a_file(tmp_path, monkeypatch):
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    monkeypatch.delenv("TAPER_JOB_SECRET", raising=False)
    monkeypatch.setenv("TAPER_JOB_SECRET_FILE", str(file))
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    client.set("key", "value")
    assert server.get("key") == b"value"
    file.chmod(0o644)
    with pytest.raises(ValueError, match="open to others .mode 644"):
        dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("TAPER_JOB_SECRET", "short")
    with pytest.raises(ValueError, match="at least 16 characters, got 5"):
        dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)


def test_a_quota_is_an_error_and_no_end(monkeypatch):
    monkeypatch.setenv("TAPER_STORE_VALUE_BYTES", "1e5")
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with pytest.raises(RuntimeError, match="100001 bytes is more than the 100000 .*TAPER_STORE_VALUE_BYTES"):
        server.set("key", b"x" * 100001)
    server.set("key", b"x" * 100000)
    assert len(server.get("key")) == 100000


def test_a_silent_connection_does_not_keep_ranks_from_each_other(tmp_path):
    """Whatever listens is knocked at by somebody who says nothing, from before the job begins until it is over."""
    port = free_port()
    ranks = Ranks(3, "network/job.py", tmp_path, variables={"TAPER_JOB_SECRET": SECRET, "MASTER_PORT": str(port)})
    silent, statuses = [], [None]
    while None in statuses:
        statuses = [process.poll() for process in ranks.processes]
        if len(silent) < 100:
            try:
                silent.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            except OSError:
                pass
        time.sleep(0.01)
        assert time.monotonic() - ranks.started < 60, ranks.texts()
    assert ranks.wait()[0] == [0, 0, 0], ranks.texts()
