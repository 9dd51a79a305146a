"""Writes python/taper/_names.txt.gz, PyTorch's public names: run this under an interpreter that imports PyTorch.

    python tools/torch_names.py | gzip -9n > python/taper/_names.txt.gz
    python tools/torch_names.py --aten | gzip -9n > python/taper/_aten.txt.gz   # operators of torch.ops.aten: an
    overload's tags and schema

A line per module or class: its full name, a colon, its public names. `taper run` tells by it what PyTorch has and Taper
lacks from what neither has, and `taper names` counts with it.
"""

import contextlib
import importlib
import pkgutil
import sys
import types
import warnings

import torch

CLASSES = ["Tensor", "Size", "Generator", "device", "dtype"]


def modules():
    """PyTorch's public modules that import here."""

    def public(name):
        return not any(
            part.startswith("_") or part in ("test", "tests", "testing_internal") for part in name.split(".")
        )

    found = {"torch": torch}
    packages = [torch]
    while packages:
        package = packages.pop()
        for info in pkgutil.iter_modules(getattr(package, "__path__", ()), package.__name__ + "."):
            if not public(info.name):
                continue
            try:
                module = importlib.import_module(info.name)
            except BaseException as error:  # what needs a package or a device that is not here
                print(f"{info.name}: {type(error).__name__}", file=sys.stderr)
                continue
            found[info.name] = module
            if info.ispkg:
                packages.append(module)
    for name, module in list(sys.modules.items()):  # torch.ops.aten-like modules that no file holds are left out
        if (
            name.startswith("torch.")
            and public(name)
            and isinstance(module, types.ModuleType)
            and getattr(module, "__name__", "") == name
        ):
            found.setdefault(name, module)
    return found


def names_of(module, known):
    """What a module offers: its __all__, and what it holds that is PyTorch's own; of a file with an __all__, what it
    defines."""
    listed = getattr(module, "__all__", ())
    names = set(listed) if isinstance(listed, (list, tuple)) else set()
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, types.ModuleType):
            keep = (
                value.__name__ == f"{module.__name__}.{name}"
                or getattr(value, "__name__", "") in known
                and module is torch
            )
        else:
            home = str(getattr(value, "__module__", None) or "torch")
            keep = (
                home == module.__name__ if names and not hasattr(module, "__path__") else home.split(".")[0] == "torch"
            )
        if keep:
            names.add(name)
    return sorted(name for name in names if not name.startswith("_"))


def aten():
    """The overloads of torch.ops.aten, a line each: a letter for what it is made of, its tags, a space, its schema."""
    tags = sorted((tag for name, tag in vars(torch.Tag).items() if isinstance(tag, torch.Tag)), key=int)
    print(
        "# Operators of aten in PyTorch 2.15; tools/torch_names.py --aten writes this. C: composed of others; then a letter per tag, a:"
    )
    print("#", *(str(tag).partition(".")[2] for tag in tags))
    lines = []
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        if namespace == "aten":
            base, _, overload = name.partition(".")
            operator = getattr(getattr(torch.ops.aten, base), overload or "default")
            made = "C" if torch._C._dispatch_has_kernel_for_dispatch_key(full, "CompositeImplicitAutograd") else "-"
            schema = str(operator._schema).partition("::")[2]
            lines.append(
                (
                    base,
                    overload,
                    made + "".join(sorted(chr(ord("a") + tags.index(tag)) for tag in operator.tags)) + " " + schema,
                )
            )
    for _, _, line in sorted(lines):
        print(line)


def main():
    if sys.argv[1:] == ["--aten"]:
        aten()
        return
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):  # some modules print when they are imported
        known = modules()
    print(f"# PyTorch {torch.__version__}'s public names; tools/torch_names.py writes this.")
    for name in sorted(known):
        print(f"{name}: {' '.join(names_of(known[name], known))}")
    for name in CLASSES:
        print(f"torch.{name}: {' '.join(n for n in sorted(dir(getattr(torch, name))) if not n.startswith('_'))}")


main()
