"""Names of PyTorch's that are not covered: a program that tests for one is told so at once, whichever way it asks."""

import subprocess
import sys
import textwrap

from taper import _hook

ABSENT = "torch.fx.passes.split_module.split_module"


def run(program):
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_placeholder_has_no_protocol_but_those_of_annotations():
    from collections import abc
    import operator

    placeholder = _hook.Absent("torch.nothing")
    uses = [
        iter,
        list,
        len,
        bool,
        reversed,
        next,
        int,
        float,
        abs,
        sum,
        sorted,
        dict,
        set,
        tuple,
        any,
        all,
        min,
        max,
        enumerate,
        zip,
        lambda p: 1 in p,
        lambda p: [*p],
        lambda p: p + 1,
        lambda p: p < 1,
        lambda p: p(),
        lambda p: p.name,
        lambda p: not p,
        operator.index,
        lambda p: p.__enter__,
        lambda p: type("C", (p,), {}) if False else operator.neg(p),
        lambda p: operator.setitem(p, 0, 1),
    ]
    for use in uses:
        try:
            use(placeholder)
        except (TypeError, AttributeError, NotImplementedError):
            continue
        raise AssertionError(f"{use} of a placeholder gave an answer")
    for protocol in (
        abc.Iterable,
        abc.Container,
        abc.Sized,
        abc.Sequence,
        abc.Mapping,
        abc.Iterator,
        abc.Reversible,
        abc.Collection,
    ):
        assert not isinstance(placeholder, protocol), protocol
    assert not isinstance(1, placeholder)
    assert not issubclass(int, placeholder)
    assert placeholder[int] is placeholder
    assert (placeholder | None) is placeholder
    assert (None | placeholder) is placeholder
    assert {placeholder: 1}[placeholder] == 1
    assert not hasattr(placeholder, "anything")
    assert getattr(placeholder, "anything", 5) == 5


def test_hasattr_says_no_where_a_file_stands_for_a_package_of_pytorchs():
    assert run("""
        import torch
        from taper import _hook
        _hook.known()["torch.special"] |= {"inner"}
        _hook.known()["torch.special.inner"] = frozenset()
        print(hasattr(torch.special, "inner"), hasattr(torch.signal.windows, "windows"))
    """).split() == ["False", "True"]


def test_an_import_that_is_tried_fails_at_once():
    assert run(f"""
        import importlib.util
        from {ABSENT.rpartition(".")[0]} import split_module as kept
        try:
            from {ABSENT.rpartition(".")[0]} import split_module
        except ImportError:
            print("no name")
        try:
            import torch.backends.xeon
        except Exception as e:
            print("no module", isinstance(e, ImportError))
        try:
            with open("/dev/null"):
                from {ABSENT.rpartition(".")[0]} import split_module
        except (AttributeError, ImportError):
            print("no name in a with")
        with open("/dev/null"):
            from {ABSENT.rpartition(".")[0]} import split_module
        print(importlib.util.find_spec("torch.backends.xeon"))
        try:
            kept()
        except NotImplementedError as e:
            print(str(e).split(";")[0])
    """).splitlines() == ["no name", "no module True", "no name in a with", "None", f"{ABSENT} is not in Taper yet"]


def test_classes_are_no_modules():
    assert run("""
        for name in ("torch.Tensor", "torch.nn.Module", "torch.nn.Linear", "torch.dtype", "torch.device", "torch.Generator", "torch.optim.Adam"):
            try:
                __import__(name)
            except ModuleNotFoundError as e:
                print(e)
    """).splitlines() == [
        f"No module named '{name}'"
        for name in (
            "torch.Tensor",
            "torch.nn.Module",
            "torch.nn.Linear",
            "torch.dtype",
            "torch.device",
            "torch.Generator",
            "torch.optim.Adam",
        )
    ]
