"""`taper run`: a script, module or command runs as under `python`, with PyTorch's names being Taper's."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
import taper.version


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
    status, out, err = command("run", "-c", textwrap.dedent(code), *arguments, **options)
    assert status == 0, err
    return out


def python(*arguments, cwd=None):
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_function_hides_the_module_that_it_comes_from():
    run("""
        import torch, torch.nn.utils.weight_norm
        from torch._higher_order_ops.cond import cond_op
        from torch._prims_common import corresponding_complex_dtype
        assert callable(torch.nn.utils.weight_norm) and callable(torch._higher_order_ops.cond)
        assert corresponding_complex_dtype(torch.float32) is torch.complex64
    """)


def test_names_are_the_same_modules():
    assert (
        run("""
        import torch, sys, taper
        import torch.nn.functional as F
        from torch import nn, linalg as L
        import taper.nn.functional
        assert torch is taper and sys.modules["torch"] is taper
        assert F is taper.nn.functional and nn is taper.nn and L is taper.linalg
        assert sys.modules["torch.nn.functional"] is sys.modules["taper.nn.functional"]
        assert taper.__name__ == "torch" and taper.__spec__.name == "taper"  # packages that patch PyTorch look at its name
        print(torch.ones(2).sum().item())
    """)
        == "2.0\n"
    )


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


SCRIPT = """
import sys, os
if len(sys.argv) > 1 and sys.argv[1] == "fail":
    def inner():
        raise ValueError("on purpose")
    inner()
print(__name__, os.path.isabs(__file__), __file__, sys.argv, sys.path[0], __spec__ and __spec__.name, __package__, sorted(globals()))
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("argument", ["0", "3", "fail"])
@pytest.mark.parametrize("form", ["plain", "relative", "module", "package", "folder"])
def test_a_script_cannot_tell(tmp_path, form, argument):
    """The same output, traceback and status as `python` gives."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "script.py").write_text(SCRIPT)
    (tmp_path / "here" / "__main__.py").write_text(SCRIPT)
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
    assert status == 1 and "can't open file" not in out and "none.py': [Errno 2]" in err
    (tmp_path / "bad.py").write_text("x = = 1\n")
    assert command("run", tmp_path / "bad.py") == python(tmp_path / "bad.py")
    status, out, err = command("run", "-m", "no_such_module")
    assert status == 1 and err.endswith("No module named no_such_module\n")
    assert command("run")[0] == 2


def test_what_is_not_there_says_so_at_first_use():
    assert run("""
        import torch
        import torch.ao.quantization as q
        import intel_extension_for_pytorch, oneccl_bindings_for_pytorch
        import horovod.torch, deepspeed
        from torch.ao import quantization
        from torch.ao.quantization import convert
        from torch.ao.quantization import QConfigMapping
        from torch.fx.experimental.proxy_tensor import make_fx
        import torchaudio.transforms, torchtext.data.utils

        def f(x: make_fx | None, y: QConfigMapping):
            return isinstance(x, make_fx)
        assert not f(1, 2) and not hasattr(q, "prepare_qat") and getattr(q, "prepare_qat", None) is None

        def error(use):
            try:
                use()
            except AttributeError as e:
                assert isinstance(e, NotImplementedError)
                print(str(e).split(";")[0])

        def subclass():
            class C(QConfigMapping): pass
        def base():
            class C(make_fx): pass
        error(lambda: q.prepare_qat)
        error(lambda: make_fx(1))
        error(base)
        error(subclass)
        error(lambda: intel_extension_for_pytorch.quantization(1))
        error(lambda: quantization.quantize_qat(1))
        error(lambda: convert(1))
    """) == "".join(
        f"{name} is not in Taper yet\n"
        for name in (
            "torch.ao.quantization.prepare_qat",
            "torch.fx.experimental.proxy_tensor.make_fx",
            "torch.fx.experimental.proxy_tensor.make_fx",
            "torch.ao.quantization.QConfigMapping",
            "intel_extension_for_pytorch.quantization",
            "torch.ao.quantization.quantize_qat",
            "torch.ao.quantization.convert",
        )
    )


def test_what_pytorch_has_not_either_is_an_ordinary_error():
    assert run("""
        import torch
        for statement in ("import torch.no_such_module", "from torch import no_such_name", "from torch.ao.quantization import no_such_name",
                          "import torch.ao.no_such", "torch.no_such_name", "import horovod.tensorflow"):
            try:
                exec(statement)
            except Exception as e:
                print(type(e).__name__)
    """).split() == [
        "ModuleNotFoundError",
        "ImportError",
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "ModuleNotFoundError",
    ]


def test_a_missing_name_of_a_module_that_is_there():
    status, _, err = command("run", "-c", "import torch\ntorch.ao.quantization.convert")
    assert (
        status == 1
        and "torch.ao.quantization.convert is not in Taper yet; `taper names torch.ao.quantization` shows what is"
        in err
    )
    assert err.count("File") == 1


CHILDREN = """
import multiprocessing, subprocess, sys
import torch

def work(queue):
    import torch.nn.functional, taper
    queue.put((torch is taper, torch.arange(4).sum().item()))

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(method, queue.get(timeout=60))
        child.join()
    print(subprocess.run([sys.executable, "-c", "import torch; print(torch.__spec__.name)"], capture_output=True, text=True).stdout.strip())
"""


def test_children_have_the_same_modules(tmp_path):
    script = tmp_path / "children.py"
    script.write_text(CHILDREN)
    status, out, err = command("run", script)
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
    assert status == 0 and out.startswith("taper ") and out.split()[1].count(".") == 2
    assert command("--help")[0] == 0 and "run script.py" in command("--help")[1]
    status, out, err = command("nonsense")
    assert status == 2 and "no command 'nonsense'" in err
    status, out, _ = command("info")
    assert status == 0 and all(word in out for word in ("Taper:", "processor:", "threads:", "devices:", "Python:"))


def test_names():
    status, out, _ = command("names")
    rows = {
        line.split()[0]: line.split()[1:] for line in out.splitlines() if " of " in line and line.startswith("torch")
    }
    assert status == 0 and int(rows["torch"][0]) > 400 and int(rows["torch.Tensor"][0]) > 300
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
    assert status == 3 and out.startswith("said this\n"), err
    row = re.search(r"^mm +5 +[\d.]+ +[\d.]+% +[\d.]+ +\d+% +[\d.]+ +\d+% +0\.1$", out, re.M)
    assert row, out
    assert re.search(r"in operators [\d.]+ s \(\d+%\).*processors busy [\d.]+ of \d+ threads", out), out
    script.write_text(
        "import torch\na = torch.ones(1000, 1000)\nfor _ in range(5):\n    a.t().reshape(-1)\n    a.view(-1).flatten()\n"
    )
    out = command("profile", script)[1]
    for name in ("t", "view", "reshape", "flatten"):  # look at memory, or leave it to what they are made of: no rate
        assert re.search(rf"^{name} +\d+ +[\d.]+ +[\d.]+% +[\d.]+$", out, re.M), (name, out)
    assert command("profile")[0] == 2 and "usage" in command("profile", "--help")[1]


def test_profile_counts_what_graphs_run(tmp_path):
    script = tmp_path / "compiled.py"
    script.write_text("""import torch
net = torch.nn.Linear(32, 16)
opt = torch.optim.SGD(net.parameters(), 0.1)
@torch.compile
def step(x):
    opt.zero_grad()
    loss = ((net(x) * 2 + 1).tanh() * 3).sum()
    loss.backward()
    opt.step()
    return loss
for _ in range(6):
    step(torch.ones(8, 32))
pair = torch.compile(lambda a: (a * 2).add_(1).sigmoid())
for _ in range(6):
    pair(torch.ones(300))
""")
    status, out, err = command("profile", "--top", "100", script)
    assert status == 0, err
    calls = {name: int(n) for name, n in re.findall(r"^(\S.*?) +(\d+) +[\d.]+ +[\d.]+%", out, re.M)}
    assert calls["linear"] == 6 and calls["mm"] == 6 and calls["Optimizer.step#SGD.step"] == 6, out
    fused = [name for name in calls if name.startswith("fused: ")]
    assert any("tanh" in name for name in fused) and all(calls[name] == 5 for name in fused), out
    assert re.search(r"^fused: mul, add, sigmoid +5 +[\d.]+ +[\d.]+% +[\d.]+ +\d+% +[\d.]+$", out, re.M), out


def test_profile_ends_quietly_when_nobody_reads_on():
    profile = subprocess.Popen(
        [sys.executable, "-m", "taper", "profile", "-c", "import torch; torch.ones(3) + 1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    profile.stdout.close()
    assert profile.stderr.read() == b"" and profile.wait(60) == -signal.SIGPIPE
