"""torch.hub: models of a folder with a hubconf.py, and weights from the cache folder. Nothing is downloaded by
itself."""

import os
import re
import sys
from urllib.parse import urlparse

_CONF = "hubconf.py"
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the start of the SHA-256 that a name like resnet18-f37072fd.pth holds
_hub_dir = None


def _get_torch_home():
    """$TORCH_HOME, $XDG_CACHE_HOME/torch or ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir():
    """The cache folder: set_dir's, or hub in the home of PyTorch's files."""
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def __getattr__(name):
    if name == "tqdm":  # packages take it from here; it is a package of its own
        try:
            from tqdm import tqdm

            return tqdm
        except ImportError:
            pass
    raise AttributeError(f"module 'torch.hub' has no attribute '{name}'")


def set_dir(d):
    """Another cache folder."""
    global _hub_dir
    _hub_dir = os.path.expanduser(os.fspath(d))


def _folder(repo, source):
    """Where a repository's files are."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "local":
        return os.fspath(repo)
    name, _, ref = repo.partition(":")
    owner, _, project = name.partition("/")
    for branch in [ref] if ref else ["main", "master"]:
        path = os.path.join(get_dir(), f"{owner}_{project}_{branch.replace('/', '_')}")
        if os.path.isdir(path):
            return path
    path = os.path.join(get_dir(), f"{owner}_{project}_{(ref or 'main').replace('/', '_')}")
    raise RuntimeError(
        f"torch.hub: '{repo}' is not in the cache folder, and nothing is downloaded by itself. Get "
        f"https://github.com/{name} ({ref or 'main'}), unpack it as {path}, or load it with source='local'."
    )


def _hubconf(folder):
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(folder, _CONF)
    if not os.path.exists(path):
        raise FileNotFoundError(f"torch.hub: there is no {_CONF} in '{folder}'")
    spec = spec_from_file_location("hubconf", path)
    module = module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    _check_dependencies(module)
    return module


def _check_dependencies(module):
    from importlib.util import find_spec

    from taper._hook import PACKAGES

    missing = [name for name in getattr(module, "dependencies", []) if name not in PACKAGES and find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")


def _entry(module, model):
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    function = getattr(module, model, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def load(
    repo_or_dir,
    model,
    *args,
    source="github",
    trust_repo="check",
    force_reload=False,
    verbose=True,
    skip_validation=False,
    **kwargs,
):
    """Calls an entry point of the repository's hubconf.py: a model, mostly."""
    return _entry(_hubconf(_folder(repo_or_dir, source)), model)(*args, **kwargs)


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True, source=None):
    """The entry points of a repository, or of a local folder."""
    module = _hubconf(_folder(github, source or ("local" if os.path.isdir(github) else "github")))
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check", source=None):
    """An entry point's docstring."""
    return _entry(_hubconf(_folder(github, source or ("local" if os.path.isdir(github) else "github"))), model).__doc__


def _file_name(url):
    return os.path.basename(urlparse(url).path)


def _hash_in(name):
    found = HASH_REGEX.search(name)
    return found.group(1) if found else None


def _check(path, prefix):
    from hashlib import sha256

    digest = sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    if not digest.hexdigest().startswith(prefix):
        raise RuntimeError(f'invalid hash value (expected "{prefix}", got "{digest.hexdigest()}")')


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Fetches a URL into a file, which appears when it is complete and its SHA-256 begins with hash_prefix."""
    import shutil
    from urllib.request import Request, urlopen

    dst = os.path.expanduser(os.fspath(dst))
    beside = f"{dst}.{os.getpid()}.partial"
    try:
        with urlopen(Request(url, headers={"User-Agent": "taper.hub"})) as source, open(beside, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        if hash_prefix:
            _check(beside, hash_prefix)
        os.replace(beside, dst)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=None
):
    """The weights that a URL names, from the cache folder; an error says what to put there where they are missing. The
    file is read as torch.load reads files: its program runs with weights_only=False alone."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    path = os.path.join(folder, file_name or _file_name(url))
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"torch.hub: '{path}' is not there, and nothing is downloaded by itself. Download {url} and put it there."
        )
    if check_hash:
        _check(path, _hash_in(os.path.basename(path)) or "")
    from taper.serialization import load as load_file

    return load_file(path, map_location=map_location, weights_only=weights_only)
