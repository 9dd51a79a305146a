"""`taper torch`: makes `import torch` be Taper's in an environment, for plain `python` as for pip and uv.

torch, torchvision and torchaudio become distributions of their own: a package of a few lines that hands over to
taper._hook, and the metadata by which importlib.metadata, pip and uv know it. `install` writes their files to
site-packages, `wheel` into wheels; `remove` takes away what RECORD lists, as `pip uninstall torch` does.
"""

import os
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions

from taper import _C
from taper._hook import SHIMMED

SHIM = '''"""{name} is Taper here. `taper torch install` made this package; `taper torch remove` takes it away."""
from taper._hook import stand_in

stand_in(__name__)
'''
# What else the real distributions bring along, and packages on top of them count on.
_NEEDS = {"torchvision": ("numpy", "pillow")}
_SCRIPTS = {"torch": {"torchrun": "torch.distributed.run:main"}}


class Refused(Exception):
    """Why nothing was done; printed without a traceback."""


# ---- What a distribution is made of ----
def _version(name):
    from importlib import import_module

    return str(import_module("taper" if name == "torch" else f"taper.{name}").__version__)


def _requirements(name):
    """A shim needs Taper, by the name that pip knows; a build that pip has not installed it cannot name."""
    if name != "torch":
        yield f"torch=={_version('torch')}"
    yield from _NEEDS.get(name, ())
    if name == "torch":
        try:
            yield f"taper-ml=={distribution('taper-ml').version}"
        except PackageNotFoundError:
            pass


def metadata(name):
    """The text of METADATA."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {_version(name)}",
        f"Summary: {name}'s names, by Taper",
        "License: BSD-3-Clause",
        "Requires-Python: >=3.10",
        *(f"Requires-Dist: {what}" for what in _requirements(name)),
    ]
    return "\n".join(lines) + "\n"


class Described(Distribution):
    """What importlib.metadata finds under `taper run`, where nothing is installed."""

    def __init__(self, name):
        self._distribution = name

    def read_text(self, filename):
        if filename == "METADATA":
            return metadata(self._distribution)
        return self._distribution + "\n" if filename == "top_level.txt" else None

    def locate_file(self, path):
        return os.path.join(os.path.dirname(__file__), path)


def _entry_points(name):
    scripts = _SCRIPTS.get(name)
    return (
        "[console_scripts]\n" + "".join(f"{script} = {what}\n" for script, what in scripts.items()) if scripts else None
    )


def _info(name):
    """The folder of a distribution's metadata."""
    return f"{name}-{_version(name)}.dist-info"


def _files(name):
    """{path inside site-packages: text} of a distribution, without RECORD."""
    info = _info(name)
    files = {
        f"{name}/__init__.py": SHIM.format(name=name),
        f"{info}/METADATA": metadata(name),
        f"{info}/top_level.txt": name + "\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: taper {_C._version}\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if _entry_points(name):
        files[f"{info}/entry_points.txt"] = _entry_points(name)
    return files


def _record(files, info):
    """The text of RECORD: each file's path, hash and size."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    lines = []
    for path, text in files.items():
        data = text.encode()
        digest = urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(data)}")
    return "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"


# ---- What is installed ----
def _folders():
    """Where Python looks for packages: not in the folder that the command was given in."""
    here = os.path.realpath(os.getcwd())
    return [path for path in sys.path if path and os.path.realpath(path) != here]


def installed(name):
    """The distribution of that name that this environment has, Taper's or not; None where there is none."""
    for found in distributions(name=name, path=_folders()):
        return found
    return None


def _is_ours(found):
    return "+taper" in found.version


def _place(found):
    return str(found.locate_file(""))


def _stranger(name):
    """What stands in the way of a shim: another distribution of that name, or a package without one; None where nothing
    does."""
    found = installed(name)
    if found is not None:
        return None if _is_ours(found) else f"{name} {found.version} in {_place(found)}"
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, _folders())
    return None if spec is None or spec.origin is None else f"{name} in {os.path.dirname(spec.origin)}"


# ---- install, remove ----
def _site():
    import sysconfig

    if sys.prefix == sys.base_prefix and os.path.exists(
        os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    ):
        raise Refused(
            f"{sys.prefix} belongs to the operating system. Make an environment first: {sys.executable} -m venv DIR"
        )
    return sysconfig.get_path("purelib"), sysconfig.get_path("scripts")


def _script(what):
    """A console script, as pip writes it."""
    module, _, function = what.partition(":")
    return (
        f'#!{sys.executable}\nimport sys\nfrom {module} import {function}\nif __name__ == "__main__":\n    '
        f"sys.exit({function}())\n"
    )


def _write(name, site, scripts):
    files = {**_files(name), f"{_info(name)}/INSTALLER": "taper\n"}
    runnable = {
        os.path.relpath(os.path.join(scripts, script), site): _script(what)
        for script, what in _SCRIPTS.get(name, {}).items()
    }
    files.update(runnable)
    files[f"{_info(name)}/RECORD"] = _record(files, _info(name))
    for path, text in files.items():
        full = os.path.normpath(os.path.join(site, path))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
        if path in runnable:
            os.chmod(full, 0o755)


def _take_away(found):
    """Removes the files that RECORD lists, what Python compiled from them, and folders that are empty then."""
    site, folders = _place(found), set()
    for path in found.files or ():
        full = os.path.normpath(os.path.join(site, str(path)))
        folder, file = os.path.split(full)
        compiled = os.path.join(folder, "__pycache__")
        stale = (
            [os.path.join(compiled, entry) for entry in os.listdir(compiled) if entry.startswith(file[:-2])]
            if file.endswith(".py") and os.path.isdir(compiled)
            else []
        )
        for each in [full, *stale]:
            if os.path.lexists(each):
                os.remove(each)
        if not str(path).startswith(".."):
            folders |= {compiled, folder}
    for folder in sorted(folders, key=len, reverse=True):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)


def install():
    """Makes the three distributions, or renews them."""
    strangers = [stranger for stranger in map(_stranger, SHIMMED) if stranger]
    if strangers:
        raise Refused(
            f"this environment has {', '.join(strangers)}; not Taper's. Remove that first, or use another environment"
        )
    site, scripts = _site()
    remove(quiet=True)
    for name in SHIMMED:  # all of them before a word is printed: who reads may go away
        _write(name, site, scripts)
    for name in SHIMMED:
        print(f"{name} {_version(name)} in {site}")
    missing = [what for needs in _NEEDS.values() for what in needs if installed(what) is None]
    if missing:
        print(f"torchvision needs for images: pip install {' '.join(missing)}")
    return 0


def remove(quiet=False):
    """Takes Taper's distributions away, and no others."""
    told = []
    for name in SHIMMED:
        found = installed(name)
        if found is not None and _is_ours(found):
            told.append(f"{name} {found.version} removed")
            _take_away(found)
        else:
            told.append(f"{name}: nothing of Taper's to remove")
    if not quiet:
        print("\n".join(told))
    return 0


# ---- status, wheel ----
def _state(name):
    """One line on a name, and whether it is Taper's and whole."""
    stranger = _stranger(name)
    if stranger:
        return f"{stranger}: not Taper's", False
    found = installed(name)
    if found is None:
        return f"{name}: not installed", False
    text = f"{name} {found.version} in {_place(found)}"
    if found.version != _version(name):
        return f"{text}: of another Taper than this one ({_C._version}); `taper torch install` renews it", False
    gone = [str(path) for path in found.files or () if not os.path.exists(found.locate_file(path))]
    return (f"{text}: {gone[0]} is gone; `taper torch install` renews it", False) if gone else (f"{text}: Taper", True)


def status():
    states = [_state(name) for name in SHIMMED]
    for text, _ in states:
        print(text)
    return 0 if all(fine for _, fine in states) else 1


def wheel(folder):
    """Writes the wheels. They hold no times of their own, so the same Taper writes the same bytes."""
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    os.makedirs(folder, exist_ok=True)
    for name in SHIMMED:
        files = _files(name)
        files[f"{_info(name)}/RECORD"] = _record(files, _info(name))
        path = os.path.join(folder, f"{name}-{_version(name)}-py3-none-any.whl")
        with ZipFile(path, "w") as file:
            for inside, text in files.items():
                entry = ZipInfo(inside, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = 0o644 << 16
                file.writestr(entry, text, ZIP_DEFLATED)
        print(path)
    return 0


def arguments(parser):
    """Adds the actions of `taper torch`."""
    below = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    below.add_parser("install", help="packages torch, torchvision and torchaudio that are Taper's, in this environment")
    below.add_parser("remove", help="take exactly those away")
    below.add_parser("status", help="what is installed under these names; status 0 when all three are Taper's")
    write = below.add_parser("wheel", help="the same as wheels, for `pip install --no-index --find-links DIR torch`")
    write.add_argument("folder", metavar="DIR", help="where the wheels go")


def main(options):
    """Runs an action; the exit status."""
    actions = {"install": install, "remove": remove, "status": status, "wheel": lambda: wheel(options.folder)}
    try:
        return actions[options.action]()
    except (Refused, OSError) as error:
        print(f"taper torch {options.action}: {error}", file=sys.stderr)
        return 1
