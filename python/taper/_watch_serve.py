"""`taper watch --serve`: the page in the browser. It is one file, _watch_page.html, and asks this server alone for
data.

The server listens on loopback, answers GET alone, and only requests that name this machine (a page of another site
that a name leads here does not). It shows files of the folders that it was given and nothing else.
"""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from taper._watch import Run, Runs, _wanted
from taper._watch_machine import Gpus, Processors, memory, ranks
from taper._watch_media import Media

MOST_POINTS = 2000  # of a curve that is sent: more than a screen is wide


class MediaRun(Run):
    """A run with its images, histograms and the times of its points."""

    def __init__(self, name, folder):
        super().__init__(name, folder)
        self.media, self.times = {}, {}

    def look(self):
        found = super().look()
        for file in sorted(name for name in os.listdir(self.folder) if "tfevents" in name):
            if file not in self.media:
                self.media[file] = Media(os.path.join(self.folder, file))
            self.media[file].look()
        return found

    def note(self, tag, step, when):
        if tag is None:  # what is at this step or later is void
            self.times = {tag: [point for point in points if point[0] < step] for tag, points in self.times.items()}
        else:
            self.times.setdefault(tag, []).append((step, when))

    def steps_a_second(self):
        """Over the last hundred points of the tag with the most points."""
        points = max(self.times.values(), key=len, default=[])[-100:]
        if not points:
            return None
        (first, begin), (last, end) = points[0], points[-1]
        return round((last - first) / (end - begin), 3) if end > begin and last > first else None

    def gathered(self, kind):
        found = {}
        for media in self.media.values():
            for tag, entries in getattr(media, kind).items():
                found.setdefault(tag, []).extend((media, entry) for entry in entries)
        return found


class State:
    """What the page shows, read anew when it asks."""

    def __init__(self, options):
        self.options, self.runs = options, Runs(options.run, MediaRun)
        self.processors, self.gpus, self.lock = Processors(), Gpus(), threading.Lock()
        self.runs.look()

    def data(self):
        """All but the images' bytes, as plain values."""
        with self.lock:
            self.runs.look()
            runs, curves, histograms, images = [], {}, {}, {}
            for run in self.runs:
                runs.append({"name": run.name, "rate": run.steps_a_second(), "damaged": run.damaged})
                for tag, points in run.curves.items():
                    if points and _wanted(tag, self.options.tag):
                        curves.setdefault(tag, {})[run.name] = _thinned(points)
                for tag, entries in run.gathered("histograms").items():
                    histograms.setdefault(tag, {})[run.name] = [{"step": e[0], **e[1]} for _, e in entries]
                for tag, entries in run.gathered("images").items():
                    images.setdefault(tag, {})[run.name] = [e[0] for _, e in entries]
            used, total = memory()
            return {
                "runs": runs,
                "curves": dict(sorted(curves.items())),
                "histograms": dict(sorted(histograms.items())),
                "images": dict(sorted(images.items())),
                "machine": {"busy": self.processors.busy(), "cores": os.cpu_count(), "used": used, "total": total},
                "gpus": self.gpus.states(),
                "ranks": ranks(self.options.run),
            }

    def image(self, name, tag, at):
        """The bytes of an image, None where there is none."""
        with self.lock:
            for run in self.runs:
                entries = run.gathered("images").get(tag, []) if run.name == name else []
                if 0 <= at < len(entries):
                    return entries[at][0].image(entries[at][1])
        return None


def _finite(value):
    return value if value == value and value not in (float("inf"), float("-inf")) else None


def _thinned(points):
    """A curve's points by step, at most MOST_POINTS; values that are not finite are null."""
    points = sorted(points, key=lambda point: point[0])
    every = max(1, -(-len(points) // MOST_POINTS))
    kept = points[::every]
    if kept[-1] is not points[-1]:
        kept.append(points[-1])
    return [[step, _finite(value)] for step, value in kept]


class Handler(BaseHTTPRequestHandler):
    """Answers the page's requests."""

    server_version, protocol_version = "taper", "HTTP/1.1"

    def do_GET(self):
        if urlsplit("//" + self.headers.get("Host", "")).hostname not in ("localhost", "127.0.0.1"):
            return self._answer(403, "text/plain", b"this page is for this machine alone\n")
        asked = urlsplit(self.path)
        if asked.path == "/":
            with open(os.path.join(os.path.dirname(__file__), "_watch_page.html"), "rb") as file:
                return self._answer(200, "text/html; charset=utf-8", file.read())
        if asked.path == "/data":
            text = json.dumps(self.server.state.data(), allow_nan=False)
            return self._answer(200, "application/json", text.encode())
        if asked.path == "/image":
            return self._image({name: values[0] for name, values in parse_qs(asked.query).items()})
        if asked.path == "/favicon.ico":  # browsers ask by themselves
            return self._answer(204, "image/x-icon", b"")
        return self._answer(404, "text/plain", b"there is no such page\n")

    def _image(self, given):
        at = given.get("at", "")
        data = self.server.state.image(given.get("run"), given.get("tag"), int(at)) if at.isdigit() else None
        if data is None:
            return self._answer(404, "text/plain", b"there is no such image\n")
        kind = (
            "image/png"
            if data.startswith(b"\x89PNG")
            else "image/jpeg"
            if data.startswith(b"\xff\xd8")
            else "image/gif"
        )
        return self._answer(200, kind, data)

    def _answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; img-src 'self'; connect-src 'self'; script-src 'unsafe-inline'; style-src "
            "'unsafe-inline'",
        )
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The terminal stays quiet."""


class Server(ThreadingHTTPServer):
    """The page's server."""

    daemon_threads = True

    def __init__(self, options):
        super().__init__(("127.0.0.1", options.serve), Handler)
        self.state = State(options)

    def handle_error(self, request, client_address):
        """A browser that left in the middle of an answer is no news; other errors are told."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            super().handle_error(request, client_address)


def serve(options):
    """Serves until it is interrupted; the exit status."""
    try:
        server = Server(options)
    except (OSError, OverflowError) as error:
        print(f"taper watch: port {options.serve}: {error}; --serve 0 takes a free one", file=sys.stderr)
        return 1
    print(f"http://127.0.0.1:{server.server_address[1]}/  (Ctrl-C ends it)", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()
    return 0
