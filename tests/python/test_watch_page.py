"""`taper watch --serve`: the page in the browser, what it asks the server for, and that nobody else is answered."""

import json
import math
import re
import shutil
import signal
import struct
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

import taper
from taper._watch_media import Media
from taper.utils.tensorboard import SummaryWriter

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture
def logs(tmp_path):
    taper.manual_seed(0)
    for name, speed in (("fast", 1.0), ("slow", 0.5)):
        with SummaryWriter(tmp_path / name) as writer:
            for step in range(30):
                writer.add_scalar("train/loss", math.exp(-speed * step / 10), step, walltime=1000 + step / 4)
            writer.add_scalar("odd", float("nan"), 0)
            for step in (0, 10):
                writer.add_histogram("weights", taper.randn(100) + step, step)
                writer.add_image("picture", taper.rand(3, 4, 5), step)
    rank = tmp_path / "job" / "attempt_0" / "1"
    rank.mkdir(parents=True)
    (rank / "stdout.log").write_text("begin\nepoch 2 <b>loss</b>\n")
    return tmp_path


@pytest.fixture
def address(logs):
    server = subprocess.Popen(
        [sys.executable, "-m", "taper", "watch", str(logs), "--serve", "0"],
        stdout=subprocess.PIPE,
        text=True,
        # A shell's background job, as these tests may be one, hands down that SIGINT is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    yield re.match(r"(http://127\.0\.0\.1:\d+)/", server.stdout.readline())[1]
    server.send_signal(signal.SIGINT)
    assert server.wait(20) == 0
    server.stdout.close()


def get(address, path, **headers):
    with urllib.request.urlopen(urllib.request.Request(address + path, headers=headers), timeout=30) as answer:
        return answer.read(), answer.headers


def status(address, path, **headers):
    try:
        get(address, path, **headers)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def test_what_the_page_is_given(address):
    found = json.loads(get(address, "/data")[0])
    assert [run["name"] for run in found["runs"]] == ["fast", "slow"]
    assert found["runs"][0]["rate"] == 4
    curve = found["curves"]["train/loss"]["slow"]
    assert len(curve) == 30
    assert curve[10] == [10, pytest.approx(math.exp(-0.5))]
    assert found["curves"]["odd"]["fast"] == [[0, None]]
    assert [entry["step"] for entry in found["histograms"]["weights"]["fast"]] == [0, 10]
    assert sum(found["histograms"]["weights"]["fast"][1]["counts"]) == 100
    assert found["images"] == {"picture": {"fast": [0, 10], "slow": [0, 10]}}
    assert found["ranks"][0]["rank"] == 1
    assert found["ranks"][0]["line"] == "epoch 2 <b>loss</b>"
    assert found["machine"]["total"] > 0


def test_images(address):
    data, headers = get(address, "/image?run=fast&tag=picture&at=1")
    assert headers["Content-Type"] == "image/png"
    assert struct.unpack(">II", data[16:24]) == (5, 4)
    for query in (
        "run=fast&tag=picture&at=2",
        "run=none&tag=picture&at=0",
        "run=fast&tag=/etc/passwd&at=0",
        "at=-1",
        "",
    ):
        assert status(address, "/image?" + query) == 404


def test_nobody_else_is_answered(address):
    assert status(address, "/data", Host="example.com") == 403
    assert status(address, "/data", Host="localhost:1") == 200
    assert status(address, "/../../etc/passwd") == 404
    page, headers = get(address, "/")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert not re.search(rb"https?://|src=|@import", page)  # nothing from outside


def test_a_taken_port_is_said(address, logs):
    port = address.rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-m", "taper", "watch", str(logs), "--serve", port], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert f"port {port}" in done.stderr
    assert "--serve 0" in done.stderr


def test_media_of_damaged_and_growing_files(logs):
    (path,) = (logs / "fast").glob("*tfevents*")
    whole = path.read_bytes()
    cut = logs / "cut"
    cut.write_bytes(whole[:-200])
    media = Media(str(cut))
    media.look()
    before = len(media.images["picture"])
    cut.write_bytes(whole)
    media.look()
    assert len(media.images["picture"]) == 2 >= before
    assert media.at == len(whole)
    for at in range(len(whole) - 900, len(whole), 7):  # any byte may be wrong
        data = bytearray(whole)
        data[at] ^= 0xFF
        cut.write_bytes(data)
        Media(str(cut)).look()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_in_a_browser(address, width, tmp_path):
    """Chromium runs the page's script: the cards are there, and drawn."""
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *(f"--window-size={width},1000", "--virtual-time-budget=5000", f"--user-data-dir={tmp_path}"),
            *("--dump-dom", address + "/"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    dom = done.stdout
    assert 'data-name="train/loss"' in dom
    assert "at step 29" in dom
    assert 'data-name="weights"' in dom
    assert "steps 0 to 10" in dom
    assert 'alt="picture at step 10"' in dom
    assert "epoch 2 &lt;b&gt;loss" in dom  # text of logs is never read as HTML
    assert "4 steps/s" in dom
    assert re.search(r"<canvas width=\"[1-9]", dom)
