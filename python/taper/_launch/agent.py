"""The launcher of one node: starts its ranks, watches them, ends all when one fails, and starts them again as often as
was asked.

When a rank fails, what it failed of (its exit status or signal, and the error that `taper run` or torch's @record left
in the rank's error file) is said once on the launcher's stderr and added to the log of every rank."""

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from taper import _hook
from taper._launch.binding import binding, described, threads
from taper._launch.meeting import Meeting
from taper._launch.options import free_port, new_secret
from taper._launch.output import Console, streams_of

_CULPRIT = 2.0  # seconds to wait for the rank that failed first, where others have lost it and said so sooner
_OWN_WORDS = 0.5  # seconds that the others have to fail by themselves, and to say what they know of it
_AFTER_FAILURE = 5.0  # seconds that the others have to end when a rank has failed


class Exit:
    """The end of a rank's process, among the streams that the console waits for: it tells them in the order in which
    they happened."""

    def __init__(self, rank, console):
        self.rank, self.console = rank, console
        self.watched = os.pidfd_open(rank.process.pid)
        console.selector.register(self.watched, selectors.EVENT_READ, self)

    def read(self):
        self.rank.ended = self.rank.ended or time.monotonic()
        return 0

    def end(self):
        self.console.selector.unregister(self.watched)
        os.close(self.watched)


class Rank:
    """One process of the job."""

    def __init__(self, local_rank, rank, folder):
        self.local_rank, self.rank, self.error_file = local_rank, rank, os.path.join(folder, "error.json")
        self.process, self.streams, self.started, self.ended, self.ticks = None, [], 0.0, None, (0.0, 0)

    def code(self):
        return self.process.poll()

    def failed_at(self):
        """When its error was written, by the clock of `ended`; when it ended, where none was. None: it has not
        failed."""
        try:
            return os.stat(self.error_file).st_mtime - time.time() + time.monotonic()
        except OSError:
            return self.ended if self.code() else None

    def send(self, number):
        """To the rank and all that it started: each leads a process group of its own."""
        if self.process.returncode is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def reason(self):
        """Why it failed, or that it has ended, in a few words."""
        code = self.code()
        what = (
            "left before the others, with status 0"
            if code == 0
            else f"ended with status {code}"
            if code > 0
            else f"was killed by signal {-code} ({signal.Signals(-code).name})"
        )
        text = self._error() or (self._last_words() if code > 0 else "")
        return (
            f"rank {self.rank} (pid {self.process.pid} on {socket.gethostname()}) {what}{': ' + text if text else ''}"
        )

    def _error(self):
        try:
            with open(self.error_file, encoding="utf-8") as file:
                message = json.load(file)["message"]
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        return message["message"] if isinstance(message, dict) else str(message)

    def lost_peers(self):
        """Did it fail of another rank's failure?"""
        return self._error().startswith(("torch.distributed.DistBackendError", "torch.distributed.DistNetworkError"))

    def misses(self, other):
        """Did it fail because the other one had left?"""
        return self.lost_peers() and "has left the job" in self._error() and f"rank {other.rank} (" in self._error()

    def _last_words(self):
        lines = self.streams[1].tail.decode(errors="replace").rstrip().splitlines()
        return lines[-1].strip() if lines else ""

    def live(self, now, last):
        """The rank's line at the bottom of a terminal."""
        code = self.code()
        state = "running" if code is None else "done" if code == 0 else f"failed ({code})"
        seconds = int((self.ended or now) - self.started)
        use = self._use(now) if code is None else ""
        return (
            f"rank {self.rank:<3} pid {self.process.pid:<7} {state:<12} "
            f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} {use:<17} {last}"
        )

    def _use(self, now):
        try:
            with open(f"/proc/{self.process.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            return ""
        ticks, before = int(fields[11]) + int(fields[12]), self.ticks
        self.ticks = (now, ticks)
        percent = 100 * (ticks - before[1]) / os.sysconf("SC_CLK_TCK") / max(now - (before[0] or self.started), 0.01)
        return f"{percent:4.0f}% {int(fields[21]) * os.sysconf('SC_PAGESIZE') >> 20:6} MB"


class Agent:
    """Runs the ranks of this node until they are done."""

    def __init__(self, asked):
        self.asked, self.console, self.ranks, self.signal = asked, Console(asked.live), [], None
        self.bound = binding(asked.cpu_bind, asked.count)
        for line in described(asked.cpu_bind, self.bound):
            self.console.say(line)
        self.meeting = Meeting(asked)
        self.folder = tempfile.mkdtemp(prefix=f"{asked.rdzv_id}_", dir=self._log_dir())
        self.keep = asked.log_dir is not None or any(asked.redirects) or any(asked.tee)
        # Launchers of several nodes have no secret in common but one that was given.
        self.secret = new_secret() if asked.max_nodes == 1 else {}

    def _log_dir(self):
        if self.asked.log_dir is not None:
            os.makedirs(self.asked.log_dir, exist_ok=True)
        return self.asked.log_dir

    def run(self):
        """The job's exit status on this node."""
        before = self._take_signals()
        try:
            return self._attempts()
        finally:
            self._end(0.0)
            self.console.clear()
            self.meeting.close()
            for number, handler in before.items():
                signal.signal(number, handler)
            if not self.keep:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _attempts(self):
        for attempt in range(self.asked.max_restarts + 1):
            self._start(attempt)
            reason, status = self._watch()
            if reason is None:
                return status
            left = self.asked.max_restarts - attempt
            again = (
                f"; all ranks are started again ({left} {'time' if left == 1 else 'times'} left)"
                if left
                else "; all ranks are ended"
            )
            self.console.say(reason + again)
            for rank in self.ranks:
                rank.streams[1].note(f"taper launch: {reason}{again}")
            self._wait(min(_OWN_WORDS, self.asked.shutdown_timeout))
            self._end(min(_AFTER_FAILURE, self.asked.shutdown_timeout))
        if self.keep:
            self.console.say(f"logs are in {self.folder}")
        return status

    # ---- Signals ----
    def _take_signals(self):
        before = {}
        for name in filter(None, (part.strip() for part in self.asked.signals_to_handle.split(","))):
            before[signal.Signals[name]] = signal.signal(signal.Signals[name], self._on_ending)
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            before[number] = signal.signal(number, self._on_passing)
        return before

    def _on_ending(self, number, frame):
        self.signal = number

    def _on_passing(self, number, frame):
        for rank in self.ranks:
            rank.send(number)

    # ---- Starting ----
    def _start(self, attempt):
        asked, place = self.asked, self.meeting.gather(attempt)
        if asked.own_port:
            place.port = free_port()
        self.ranks = []
        for local in range(asked.count):
            folder = os.path.join(self.folder, f"attempt_{attempt}", str(local))
            os.makedirs(folder)
            rank = Rank(local, place.first_rank + local, folder)
            rank.streams = streams_of(rank, asked, self.console, folder)
            self.ranks.append(rank)
            self._spawn(rank, self._environment(rank, place, attempt))

    def _spawn(self, rank, environment):
        mine, bound = os.sched_getaffinity(0), self.bound[rank.local_rank]
        if bound:
            os.sched_setaffinity(0, bound)  # inherited: a rank is bound before its first instruction
        try:
            rank.process = subprocess.Popen(
                self._command(rank),
                env=environment,
                start_new_session=True,
                stdin=None if rank.local_rank == 0 else subprocess.DEVNULL,
                stdout=rank.streams[0].target,
                stderr=rank.streams[1].target,
            )
        except OSError as error:
            raise SystemExit(f"taper launch: {self.asked.training_script}: {error.strerror}") from None
        finally:
            if bound:
                os.sched_setaffinity(0, mine)
        rank.started = time.monotonic()
        try:
            Exit(rank, self.console)
        except (AttributeError, OSError):
            pass  # an old system: _watch asks each process in turn
        for stream in rank.streams:
            stream.started()

    def _command(self, rank):
        asked = self.asked
        extra = [f"--local-rank={rank.local_rank}"] if getattr(asked, "pass_local_rank", False) else []
        if asked.no_python:
            return [asked.training_script, *extra, *asked.training_script_args]
        return [
            sys.executable,
            "-m",
            "taper",
            "run",
            *(["-m"] if asked.module else []),
            asked.training_script,
            *extra,
            *asked.training_script_args,
        ]

    def _environment(self, rank, place, attempt):
        asked = self.asked
        values = {
            "LOCAL_RANK": rank.local_rank,
            "RANK": rank.rank,
            "GROUP_RANK": place.node,
            "ROLE_RANK": rank.rank,
            "ROLE_NAME": asked.role,
            "LOCAL_WORLD_SIZE": asked.count,
            "WORLD_SIZE": place.world,
            "GROUP_WORLD_SIZE": place.nodes,
            "ROLE_WORLD_SIZE": place.world,
            "MASTER_ADDR": place.host,
            "MASTER_PORT": place.port,
            "TORCHELASTIC_RESTART_COUNT": attempt,
            "TORCHELASTIC_MAX_RESTARTS": asked.max_restarts,
            "TORCHELASTIC_RUN_ID": asked.rdzv_id,
            "TORCHELASTIC_USE_AGENT_STORE": place.shared,
            "TORCHELASTIC_ERROR_FILE": rank.error_file,
            "TAPER_LAUNCHER": os.getpid(),
            **self.secret,
        }
        environment = {**os.environ, **{name: str(value) for name, value in values.items()}}
        bound = self.bound[rank.local_rank]
        sharing = self.bound.count(bound) if bound else 1
        environment.setdefault("OMP_NUM_THREADS", str(threads(bound, asked.count) // sharing or 1))
        if asked.virtual_local_rank:
            devices = environment.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(asked.count)))).split(",")
            environment["CUDA_VISIBLE_DEVICES"] = devices[rank.local_rank % len(devices)]
            environment["LOCAL_RANK"] = "0"
        if asked.no_python:
            environment.update(_hook.for_children())
            environment.setdefault("PYTHONUNBUFFERED", "1")
        return environment

    # ---- Watching ----
    def _watch(self):
        """Until all are done, one has failed or a signal came: why it failed (None where it did not), and the exit
        status."""
        while True:
            self.console.wait(self.asked.monitor_interval)
            codes = [rank.code() for rank in self.ranks]
            self.console.wait(0)  # those that have ended by now are all told, and in their order
            now = time.monotonic()
            for rank, code in zip(self.ranks, codes):
                if code is not None and rank.ended is None:
                    rank.ended = now
            self.console.draw(
                [rank.live(now, self.console.last.get(rank.rank, "")) for rank in self.ranks]
                if self.asked.live
                else (),
                now,
            )
            if self.signal is not None:
                return None, self._ended_by_signal()
            failed = [rank for rank, code in zip(self.ranks, codes) if code not in (None, 0)]
            if failed and (now - min(rank.ended for rank in failed) > _CULPRIT or self._is_first(failed)):
                return self._first(failed)
            if all(code == 0 for code in codes):
                self._close_streams()
                return None, 0
            elsewhere = self.meeting.failure()
            if elsewhere:
                return elsewhere, 1

    @staticmethod
    def _order(rank):
        """The failure that caused the others comes first: one that said why goes before one that merely lost its peers
        or was killed."""
        return rank.lost_peers(), rank.code() == -signal.SIGTERM, rank.failed_at(), rank.rank

    def _is_first(self, failed):
        """Is the first failure among those that have ended? One that still runs may have told its error sooner."""
        first = min((rank for rank in self.ranks if rank.failed_at() is not None), key=self._order)
        return first in failed and not first.lost_peers()

    def _first(self, failed):
        """Why the job failed, and with which status."""
        for rank in failed:
            if rank.streams[1].reader is not None:
                rank.streams[1].read()  # its last words may still be in the pipe
        first = min(failed, key=self._order)
        left = [rank for rank in self.ranks if rank.code() == 0 and first.misses(rank)]
        reason = "; ".join(rank.reason() for rank in (*sorted(left, key=lambda rank: rank.ended), first))
        self.meeting.tell(reason)
        code = first.code()
        return reason, code if code > 0 else 128 - code

    def _ended_by_signal(self):
        self.console.say(
            f"{signal.Signals(self.signal).name} came: ranks have {self.asked.shutdown_timeout:g} s to end"
        )
        self._end(self.asked.shutdown_timeout, signal.SIGINT if self.signal == signal.SIGINT else signal.SIGTERM)
        return 128 + self.signal

    def _end(self, seconds, number=signal.SIGTERM):
        """Asks the ranks that still run to end, then makes them; with them goes whatever they started."""
        running = [rank for rank in self.ranks if rank.process is not None and rank.code() is None]
        for rank in running if seconds else ():
            rank.send(number)
        self._wait(seconds)
        for rank in running:
            if rank.code() is None:
                rank.send(signal.SIGKILL)
                rank.process.wait()
        self._close_streams()

    def _wait(self, seconds):
        """Until all have ended, or so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(rank.process is not None and rank.code() is None for rank in self.ranks):
            self.console.wait(0.02)

    def _close_streams(self):
        for rank in self.ranks:
            for stream in rank.streams:
                stream.close()
