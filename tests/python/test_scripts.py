"""The training scripts of examples/python, as PyTorch's users write them, run unchanged under `taper run` and print
what they printed under PyTorch: the same words, and numbers that agree to 0.2% or to the last digit shown.

    PYTHON_WITH_PYTORCH tests/python/test_scripts.py [NAME...]     records what they print there
"""

import gzip
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
TEXT = "{data}/shakespeare.txt"
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")
SCRIPTS = {
    "mnist": [
        "--data",
        "{data}",
        "--epochs",
        "1",
        "--lr",
        "0.1",
        "--log-interval",
        "5",
        "--save-model",
        "{data}/mnist.pt",
    ],
    "language_model": [
        "--text",
        TEXT,
        "--most",
        "12000",
        "--batch-size",
        "10",
        "--log-interval",
        "10",
        "--save",
        "{data}/lm.pt",
    ],
    "vae": ["--data", "{data}", "--out", "{data}/vae", "--log-interval", "4"],
    "dcgan": ["--outf", "{data}/gan"],
    "gpt": ["--text", TEXT, "--out", "{data}/gpt"],
    "actor_critic": ["--episodes", "20", "--log-interval", "2"],
}


def plays(folder):
    """The shipped plays as plain text."""
    os.makedirs(folder, exist_ok=True)
    with gzip.open(os.path.join(EXAMPLES, "data", "shakespeare.txt.gz")) as packed:
        with open(os.path.join(folder, "shakespeare.txt"), "wb") as out:
            out.write(packed.read())


def digits(folder, train=1280, test=500):
    """The shipped digits as MNIST's own files, fewer of them."""
    raw = os.path.join(folder, "MNIST", "raw")
    os.makedirs(raw)
    for name, target, count in (("train", "train", train), ("test", "t10k", test)):
        for kind, ending, item in (("images", "images-idx3-ubyte", 784), ("labels", "labels-idx1-ubyte", 1)):
            with gzip.open(os.path.join(EXAMPLES, "data", f"{name}-{kind}.idx.gz")) as file:
                head = file.read(16 if item > 1 else 8)
                with open(os.path.join(raw, f"{target}-{ending}"), "wb") as out:
                    out.write(head[:4] + count.to_bytes(4, "big") + head[8:] + file.read(count * item))


def output(command, name, folder, extra=()):
    arguments = [a.format(data=folder) for a in SCRIPTS[name]]
    done = subprocess.run(
        [*command, os.path.join(EXAMPLES, "python", name + ".py"), *arguments, *extra],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"\d+ seconds", "some seconds", done.stdout)


def assert_same_output(got, want):
    assert NUMBER.sub("#", got) == NUMBER.sub("#", want)
    for a, b in zip(NUMBER.findall(got), NUMBER.findall(want)):
        last = 10.0 ** -len(b.partition("e")[0].partition(".")[2]) * (10.0 ** int(b.partition("e")[2] or 0))
        assert abs(float(a) - float(b)) <= max(2e-3 * abs(float(b)), 1.01 * last), f"{a}, not {b}, in\n{got}"


def expected(name):
    with open(os.path.join(HERE, "scripts", name + ".txt"), encoding="utf-8") as file:
        return file.read()


def check(name, tmp_path):
    digits(str(tmp_path))
    plays(str(tmp_path))
    assert_same_output(output([sys.executable, "-m", "taper", "run"], name, str(tmp_path)), expected(name))


def test_mnist(tmp_path):
    check("mnist", tmp_path)


def test_language_model(tmp_path):
    check("language_model", tmp_path)


def test_vae(tmp_path):
    check("vae", tmp_path)
    assert (tmp_path / "vae" / "sample_1.png").stat().st_size > 1000


def test_dcgan(tmp_path):
    check("dcgan", tmp_path)


def test_gpt_stopped_and_resumed_prints_what_one_left_alone_prints(tmp_path):
    run = [sys.executable, "-m", "taper", "run"]
    plays(str(tmp_path / "whole"))
    plays(str(tmp_path / "parts"))
    whole = output(run, "gpt", str(tmp_path / "whole"))
    assert_same_output(whole, expected("gpt"))
    output(run, "gpt", str(tmp_path / "parts"), ["--stop-after", "33"])
    rest = output(run, "gpt", str(tmp_path / "parts"), ["--resume"])
    assert rest.startswith("resumed at iteration 33\n")
    assert whole.endswith(rest.partition("\n")[2])


def test_actor_critic(tmp_path):
    check("actor_critic", tmp_path)


if __name__ == "__main__":
    for script in sys.argv[1:] or SCRIPTS:
        with tempfile.TemporaryDirectory() as place:
            digits(place)
            plays(place)
            with open(os.path.join(HERE, "scripts", script + ".txt"), "w", encoding="utf-8") as record:
                record.write(output([sys.executable], script, place))
