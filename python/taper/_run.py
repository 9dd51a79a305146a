"""`taper run`: runs a script, a module (-m), a command (-c) or standard input (-) as `python` would, with PyTorch's
names being Taper's."""

import os
import sys
from types import ModuleType

from taper import _hook


def _script(path):
    """The code of a file, or of a folder's or zip file's __main__.py; with what its module is to say of itself."""
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader

    if path == "-":
        return compile(sys.stdin.read(), "<stdin>", "exec"), {}, ""
    if not (os.path.isfile(path) and path.endswith((".py", ".pyc"))):
        from pkgutil import get_importer

        importer = get_importer(path)
        spec = importer.find_spec("__main__") if importer is not None else None
        if spec is not None:
            return (
                spec.loader.get_code("__main__"),
                {"__file__": spec.origin, "__loader__": spec.loader, "__spec__": spec, "__package__": ""},
                os.path.abspath(path),
            )
    if os.path.isdir(path):
        raise _hook_error(f"can't find '__main__' module in '{path}'")
    full = os.path.abspath(path)
    loader = (SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader)("__main__", full)
    try:
        data = loader.get_data(full)
    except OSError as error:
        raise _hook_error(f"can't open file '{full}': [Errno {error.errno}] {error.strerror}") from None
    code = loader.get_code("__main__") if path.endswith(".pyc") else compile(data, full, "exec", dont_inherit=True)
    return code, {"__file__": full, "__loader__": loader}, os.path.dirname(os.path.realpath(path))


def _module(name):
    from importlib.util import find_spec

    name = _hook.taper_name(name) or name
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(name + ".__main__")
    except ModuleNotFoundError as error:
        raise _hook_error(
            f"Error while finding module specification for '{name}' ({type(error).__name__}: {error})"
        ) from None
    code = spec.loader.get_code(spec.name) if spec is not None and hasattr(spec.loader, "get_code") else None
    if code is None:
        raise _hook_error(f"No module named {name}")
    return code, {
        "__file__": spec.origin,
        "__loader__": spec.loader,
        "__spec__": spec,
        "__package__": spec.parent,
        "__cached__": spec.cached,
    }


def _hook_error(text):
    return SystemExit(f"{sys.executable}: {text}")


def _set_first_path(folder):
    """`python -m taper` and the `taper` command have put a folder of their own first."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = [folder]


def _execute(code, about):
    main = ModuleType("__main__")
    main.__dict__.update(
        {
            "__builtins__": __builtins__,
            "__spec__": None,
            "__package__": None,
            "__cached__": None,
            "__annotations__": {},
        },
        **about,
    )
    sys.modules["__main__"] = main
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        return _report(error)
    return 0


def _cut_tail(trace):
    """Ends a traceback where the script asked for a name that is not there."""
    asked = None
    while trace is not None and trace.tb_next is not None:
        if trace.tb_frame.f_code.co_filename != _hook.__file__:
            asked = trace
        trace = trace.tb_next
    if asked is not None and trace.tb_frame.f_code.co_filename == _hook.__file__:
        asked.tb_next = None


def _tell_at_once(*about):
    """By sys.excepthook, but in one write: ranks that fail together do not print their lines between each other's."""
    import io

    target, sys.stderr = sys.stderr, io.StringIO()
    try:
        sys.excepthook(*about)
    finally:
        text, sys.stderr = sys.stderr.getvalue(), target
        if target is not None:
            target.write(text)
            target.flush()


def _report(error):
    """An uncaught exception, told as Python tells it: without the frames that are ours."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    _cut_tail(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    of_several = "TORCHELASTIC_ERROR_FILE" in os.environ
    (_tell_at_once if of_several else sys.excepthook)(type(error), error.with_traceback(trace), trace)
    if of_several:
        from taper.distributed.elastic.multiprocessing.errors import write

        write(error)
    if isinstance(error, KeyboardInterrupt):
        import signal

        sys.stdout.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 1


def _syntax_error(error):
    sys.excepthook(type(error), error.with_traceback(None), None)
    return 1


def _as_a_rank(launcher):
    """One of several processes of a launcher: prints whole lines, as they come, and ends when the launcher does,
    however that ends."""
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True, write_through=False)
    from taper import _C

    _C._end_with_parent(launcher)


def arguments(parser):
    """Says what `taper run` takes; the script's own arguments are its own."""
    parser.usage = "taper run [script.py | -m module | -c command | -] [arguments]"


def main(asked):
    """`taper run`: asked is the list of arguments, which no parser has seen; the exit status."""
    return run(asked)


def run(arguments):
    """Runs what the arguments say as `python` would; the exit status."""
    _hook.install()
    if "TAPER_LAUNCHER" in os.environ:
        _as_a_rank(int(os.environ.pop("TAPER_LAUNCHER")))
    what = arguments[0]
    if what in ("-m", "-c") and len(arguments) < 2:
        print(f"Argument expected for the {what} option", file=sys.stderr)
        return 2
    try:
        if what == "-c":
            sys.argv = ["-c"] + arguments[2:]
            _set_first_path("")
            code, about = compile(arguments[1], "<string>", "exec", dont_inherit=True), {}
        elif what == "-m":
            sys.argv = ["-m"] + arguments[2:]
            _set_first_path(os.getcwd())
            code, about = _module(arguments[1])
            sys.argv[0] = about["__file__"]
        else:
            sys.argv = arguments
            code, about, folder = _script(what)
            _set_first_path(folder)
    except SyntaxError as error:
        return _syntax_error(error)
    return _execute(code, about)
