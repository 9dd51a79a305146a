"""`taper run`: a script, module or command runs as under `python`, with PyTorch's names being Taper's."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import taper.version

PROGRAMS = Path(__file__).parent / "run_programs"


def command(*arguments, stdin=None, env=None, cwd=None):
    done = subprocess.run(
        [sys.executable, "-m", "taper", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def run(code, *arguments, **options):
    status, out, err = command("run", "-c", code, *arguments, **options)
    assert status == 0, err
    return out


def run_file(name):
    status, out, err = command("run", PROGRAMS / name)
    assert status == 0, err
    return out


def python(*arguments, cwd=None):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_function_hides_the_module_that_it_comes_from():
    run_file("hidden_modules.py")


def test_classes_are_shown_as_pytorchs():
    assert run_file("class_names.py") == "fine\n"


def test_names_are_the_same_modules():
    assert run_file("same_modules.py") == "2.0\n"


def test_an_installed_torch_is_not_asked(tmp_path):
    for name in ("torch", "torchvision", "tensorboardX"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemError('the wrong one')\n")
    assert (
        run(
            "import torch, torchvision, tensorboardX; print(torch.version.taper)",
            env={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        )
        == taper.version.taper + "\n"
    )


@pytest.mark.parametrize("argument", ["0", "3", "fail"])
@pytest.mark.parametrize("form", ["plain", "relative", "module", "package", "folder"])
def test_a_script_cannot_tell(tmp_path, form, argument):
    """The same output, traceback and status as `python` gives."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "script.py").write_text((PROGRAMS / "tells_about_itself.py").read_text())
    (tmp_path / "here" / "__main__.py").write_text((PROGRAMS / "tells_about_itself.py").read_text())
    (tmp_path / "here" / "__init__.py").write_text("")
    what = {
        "plain": [tmp_path / "here" / "script.py"],
        "relative": ["here/script.py"],
        "module": ["-m", "here.script"],
        "package": ["-m", "here"],
        "folder": ["here"],
    }[form]
    ours, theirs = command("run", *what, argument, cwd=tmp_path), python(*what, argument, cwd=tmp_path)
    if argument == "fail" and form in (
        "module",
        "package",
        "folder",
    ):  # Python shows its own frames there; we show none of ours
        theirs = theirs[0], theirs[1], re.sub(r'  File ".*runpy(>|\.py)", line \d+, in \w+\n(    .*\n)?', "", theirs[2])
    assert ours == theirs


def test_standard_input_and_errors_before_the_start(tmp_path):
    assert command("run", "-", "a", stdin="import sys, torch; print(sys.argv)") == (0, "['-', 'a']\n", "")
    status, out, err = command("run", tmp_path / "none.py")
    assert status == 1
    assert "can't open file" not in out
    assert "none.py': [Errno 2]" in err
    (tmp_path / "bad.py").write_text("x = = 1\n")
    assert command("run", tmp_path / "bad.py") == python(tmp_path / "bad.py")
    status, out, err = command("run", "-m", "no_such_module")
    assert status == 1
    assert err.endswith("No module named no_such_module\n")
    assert command("run")[0] == 2


def test_what_is_not_there_says_so_at_first_use():
    assert run_file("not_there.py") == "".join(
        f"{name} is not in Taper yet\n"
        for name in (
            "torch.ao.quantization.prepare_qat",
            "torch.fx.passes.split_module.split_module",
            "torch.fx.passes.split_module.split_module",
            "torch.ao.quantization.QConfigMapping",
            "intel_extension_for_pytorch.quantization",
            "torch.ao.quantization.quantize_qat",
            "torch.ao.quantization.convert",
        )
    )


def test_what_pytorch_has_not_either_is_an_ordinary_error():
    assert run_file("not_in_pytorch.py").split() == [
        "ModuleNotFoundError",
        "ImportError",
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "ModuleNotFoundError",
    ]


def test_a_missing_name_of_a_module_that_is_there():
    status, _, err = command("run", "-c", "import torch\ntorch.ao.quantization.convert")
    assert status == 1
    assert "torch.ao.quantization.convert is not in Taper yet; `taper names torch.ao.quantization` shows what is" in err
    assert err.count("File") == 1


def test_children_have_the_same_modules():
    status, out, err = command("run", PROGRAMS / "children.py")
    assert (status, out) == (0, "spawn (True, 6)\nforkserver (True, 6)\nfork (True, 6)\ntaper\n"), err


def test_a_child_keeps_its_own_sitecustomize(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.customized = True\n")
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(customized); import torch'], check=True)"
    )
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    assert run(code, env={"PYTHONPATH": path}) == "True\n"


def test_without_the_hook_nothing_is_touched():
    status, out, _ = python(
        "-c", "import sys, taper; print('torch' in sys.modules, sys.meta_path[0].__class__.__name__)"
    )
    assert (status, out.split()[0]) == (0, "False")


def test_metadata_answers_for_torch():
    assert run("import torch, importlib.metadata as m; print(m.version('torch') == torch.__version__)") == "True\n"


def test_interrupt_ends_as_python_ends(tmp_path):
    assert command("run", "-c", "raise KeyboardInterrupt")[0] == python("-c", "raise KeyboardInterrupt")[0]


def test_commands():
    status, out, _ = command("--version")
    assert status == 0
    assert out.startswith("taper ")
    assert out.split()[1].count(".") == 2
    assert command("--help")[0] == 0
    assert "run script.py" in command("--help")[1]
    status, out, err = command("nonsense")
    assert status == 2
    assert "no command 'nonsense'" in err
    status, out, _ = command("info")
    assert status == 0
    assert all(word in out for word in ("Taper:", "processor:", "threads:", "devices:", "Python:"))


def test_names():
    status, out, _ = command("names")
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if " of " in line and line.startswith("torch")
    }
    assert status == 0
    assert int(rows["torch"][0]) > 400
    assert int(rows["torch.Tensor"][0]) > 300
    status, out, _ = command("names", "torch.softmax")
    assert (status, out) == (0, "  torch.softmax\n")
    assert (
        "- torch.compile\n" in command("names", "torch.comp*")[1]
        or "  torch.compile\n" in command("names", "torch.comp*")[1]
    )
    assert command("names", "no_such_name")[0] == 1


def test_profile_says_where_time_went(tmp_path):
    script = tmp_path / "work.py"
    script.write_text(
        "import sys, torch\na = torch.ones(64, 32)\nfor _ in range(5):\n    a @ a.t()\nprint('said', sys.argv[1])\nsys.exit(3)\n"
    )
    status, out, err = command("profile", "--top", "3", script, "this")
    assert status == 3, err
    assert out.startswith("said this\n"), err
    row = re.search(r"^mm +5 +[\d.]+ +[\d.]+% +[\d.]+ +\d+% +[\d.]+ +\d+% +0\.1$", out, re.M)
    assert row, out
    assert re.search(r"in operators [\d.]+ s \(\d+%\).*processors busy [\d.]+ of \d+ threads", out), out
    script.write_text(
        "import torch\na = torch.ones(1000, 1000)\nfor _ in range(5):\n    a.t().reshape(-1)\n    a.view(-1).flatten()\n"
    )
    out = command("profile", script)[1]
    for name in ("t", "view", "reshape", "flatten"):  # look at memory, or leave it to what they are made of: no rate
        assert re.search(rf"^{name} +\d+ +[\d.]+ +[\d.]+% +[\d.]+$", out, re.M), (name, out)
    assert command("profile")[0] == 2
    assert "usage" in command("profile", "--help")[1]


def test_profile_counts_what_graphs_run():
    status, out, err = command("profile", "--top", "100", PROGRAMS / "compiled_step.py")
    assert status == 0, err
    calls = {name: int(n) for name, n in re.findall(r"^(\S.*?) +(\d+) +[\d.]+ +[\d.]+%", out, re.M)}
    assert calls["linear"] == 6 and calls["mm"] == 6 and calls["Optimizer.step#SGD.step"] == 6, out
    fused = [name for name in calls if name.startswith("fused: ")]
    assert any("tanh" in name for name in fused), out
    assert all(calls[name] == 5 for name in fused), out
    assert re.search(r"^fused: mul, add, sigmoid +5 +[\d.]+ +[\d.]+% +[\d.]+ +\d+% +[\d.]+$", out, re.M), out


def test_profile_ends_quietly_when_nobody_reads_on():
    profile = subprocess.Popen(
        [sys.executable, "-m", "taper", "profile", "-c", "import torch; torch.ones(3) + 1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    profile.stdout.close()
    assert profile.stderr.read() == b""
    assert profile.wait(60) == -signal.SIGPIPE
