"""What the processes of a node print: passed on line by line, kept in a log per rank and stream, and a live line per
rank at the bottom of a terminal.

A stream that nobody asked to keep, mark or watch is the launcher's own: the process writes to it directly."""

import os
import selectors
import subprocess
import sys
import time

STREAMS = ("stdout", "stderr")
_TAIL = 4000  # bytes of a stream's end that are kept to tell why a process failed


class Stream:
    """One stream of one process: where it goes."""

    def __init__(self, console, name, rank, log=None, show=True, prefix="", pipe=False):
        self.console, self.name, self.rank, self.show, self.prefix = console, name, rank, show, prefix
        self.log = open(log, "ab", buffering=0) if log else None
        self.reader, self.rest, self.tail = None, b"", b""
        if pipe:
            self.reader, self.target = os.pipe()
            os.set_blocking(self.reader, False)
            console.selector.register(self.reader, selectors.EVENT_READ, self)
        else:
            self.target = self.log.fileno() if self.log else None if show else subprocess.DEVNULL

    def started(self):
        """The process has its end; ours is closed so that the pipe ends when it does."""
        if self.reader is not None:
            os.close(self.target)

    def read(self):
        """Takes what there is: how many bytes, 0 when the stream has ended, None when there is nothing now."""
        try:
            data = os.read(self.reader, 65536)
        except BlockingIOError:
            return None
        if self.log:
            self.log.write(data)
        self.tail = (self.tail + data)[-_TAIL:]
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.console.line(self, line + b"\n")
        return len(data)

    def note(self, text):
        """Adds the launcher's own words to the log."""
        if self.log:
            self.log.write(text.encode() + b"\n")

    def end(self):
        """The pipe is done with."""
        self.console.selector.unregister(self.reader)
        os.close(self.reader)
        self.reader = None

    def close(self):
        """Takes what is left, without waiting for processes that the rank may have left behind."""
        if self.reader is not None:
            while self.read():
                pass
            self.end()
        if self.rest:
            self.console.line(self, self.rest + b"\n")
            self.rest = b""
        if self.log:
            self.log.close()
            self.log = None


class Console:
    """The launcher's own streams, shared by all ranks; on a terminal with the live lines below."""

    def __init__(self, live):
        self.selector, self.live, self.drawn, self.next_draw, self.last = selectors.DefaultSelector(), live, 0, 0.0, {}

    def wait(self, seconds):
        """Passes on what comes within so many seconds."""
        if not self.selector.get_map():
            time.sleep(seconds)
            return
        for key, _ in self.selector.select(seconds):
            if key.data.read() == 0:
                key.data.end()

    def line(self, stream, line):
        text = line.decode(errors="replace")
        if text.strip():
            self.last[stream.rank] = text.rstrip("\n")[-200:].rpartition("\r")[2] or text.strip()[-200:]
        if stream.show:
            self._write(sys.stdout if stream.name == "stdout" else sys.stderr, stream.prefix + text)

    def say(self, text):
        """The launcher's own words."""
        self._write(sys.stderr, f"taper launch: {text}\n")

    def _write(self, target, text):
        self.clear()
        try:
            target.write(text)
            target.flush()
        except (BrokenPipeError, ValueError):
            pass  # whoever read us has gone; the ranks go on, and their logs

    def clear(self):
        """Takes the live lines away, so that what is printed next stands above them."""
        if self.drawn:
            sys.stderr.write(f"\x1b[{self.drawn}A\x1b[J")
            sys.stderr.flush()
            self.drawn = 0

    def draw(self, lines, now):
        """Draws the live lines, a few times a second."""
        if not self.live or now < self.next_draw:
            return
        self.next_draw = now + 0.3
        width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
        self.clear()
        sys.stderr.write("".join(line[: (width or 120) - 1] + "\n" for line in lines))
        sys.stderr.flush()
        self.drawn = len(lines)


def streams_of(process, asked, console, folder):
    """The two streams of a process, by what was asked for its local rank."""
    made = []
    for bit, name in enumerate(STREAMS):
        tee = asked.tee[process.local_rank] >> bit & 1
        redirect = asked.redirects[process.local_rank] >> bit & 1 and not tee  # what is asked for twice is shown
        keep = (
            asked.log_dir is not None and not any(asked.redirects) and not any(asked.tee)
        )  # --log-dir alone keeps everything
        log = os.path.join(folder, f"{name}.log") if redirect or tee or keep else None
        show = process.local_rank in asked.shown and not redirect
        template = asked.log_line_prefix_template or "[${role_name}${local_rank}]:"
        prefix = _fill(template, process, asked) if tee else ""
        pipe = (tee or keep or asked.live) and not redirect
        made.append(Stream(console, name, process.rank, log, show, prefix, pipe))
    return made


def _fill(template, process, asked):
    from string import Template
    import socket

    return Template(template).safe_substitute(
        role_name=asked.role, local_rank=process.local_rank, rank=process.rank, hostname=socket.gethostname()
    )
