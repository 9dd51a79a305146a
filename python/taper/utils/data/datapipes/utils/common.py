"""torch.utils.data.datapipes.utils.common: files by their names, open files as items, and checks of functions."""

import fnmatch
import functools
import inspect
import os
import warnings

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]


def validate_input_col(fn, input_col):
    """Raises a ValueError if fn cannot be called with as many positional arguments as there are columns."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except ValueError:  # functions of C that do not tell
        return
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    name = getattr(fn, "__name__", type(fn).__name__)
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        raise ValueError(
            f"The function {name} takes keyword-only parameters without a default value, which is not allowed."
        )
    if len(required) > count:
        raise ValueError(f"The function {name} takes {len(required)} parameters, but {count} are required.")
    if len(positional) < count and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ValueError(f"The function {name} takes {len(positional)} parameters, but {count} are required.")


def _check_unpickable_fn(fn):
    """Warns of functions that another process could not be given."""
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is received.")
    while isinstance(fn, functools.partial):
        fn = fn.func
    kind = (
        "Lambda"
        if getattr(fn, "__name__", "") == "<lambda>"
        else "Local"
        if inspect.isfunction(fn) and "<locals>" in fn.__qualname__
        else None
    )
    if kind is not None and not _has_dill():
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or functools.partial "
            "instead.",
            stacklevel=3,
        )


def _has_dill():
    from importlib.util import find_spec

    return find_spec("dill") is not None


def match_masks(name, masks):
    """Does a file's name match one of the masks? No mask: yes."""
    if not masks:
        return True
    return any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def get_file_pathnames_from_root(root, masks, recursive=False, abspath=False, non_deterministic=False):
    """The files of a folder, or a file itself."""

    def failed(error):
        warnings.warn(f"{error.filename}: {error.strerror}", stacklevel=2)
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if abspath else root
        if match_masks(os.path.basename(path), masks):
            yield path
        return
    for folder, folders, files in os.walk(root, onerror=failed):
        folder = os.path.abspath(folder) if abspath else folder
        if not non_deterministic:
            files.sort()
            folders.sort()
        for name in files:
            if match_masks(name, masks):
                yield os.path.join(folder, name)
        if not recursive:
            return


def get_file_binaries_from_pathnames(pathnames, mode, encoding=None):
    """(name, open file) of each name."""
    mode = "r" + mode if mode in ("b", "t") else mode
    for name in [pathnames] if isinstance(pathnames, str) else pathnames:
        if not isinstance(name, str):
            raise TypeError(f"Expected string type for pathname, but got {type(name)}")
        yield name, StreamWrapper(open(name, mode, encoding=encoding))


def validate_pathname_binary_tuple(data):
    """Raises a TypeError unless it is (name, open file)."""
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(f"pathname within the tuple should have string type pathname, but it is type {type(data[0])}")


class StreamWrapper:
    """An open file, which is closed when nobody holds it any more."""

    def __init__(self, file_obj, parent_stream=None, name=None):
        self.file_obj, self.parent_stream, self.name = file_obj, parent_stream, name
        self.closed = False

    @classmethod
    def close_streams(cls, v, depth=0):
        """Closes the files in nested containers."""
        if isinstance(v, StreamWrapper):
            v.close()
        elif depth < 10 and isinstance(v, (dict, list, tuple)):
            for item in v.values() if isinstance(v, dict) else v:
                cls.close_streams(item, depth + 1)

    def close(self, *args, **kwargs):
        if not self.closed and hasattr(self.file_obj, "close"):
            self.file_obj.close(*args, **kwargs)
        self.closed = True

    autoclose = close

    def __getattr__(self, name):
        if name == "file_obj":  # before it is there: a copy that is being made
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def __dir__(self):
        return [*self.__dict__, *type(self).__dict__, *dir(self.file_obj)]

    def __del__(self):
        if "file_obj" in self.__dict__:
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self):
        return f"StreamWrapper<{self.name if self.name is not None else repr(self.file_obj)}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, file_obj):
        self.__init__(file_obj)
