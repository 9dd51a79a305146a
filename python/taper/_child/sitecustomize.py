"""Runs when a Python process starts that was started under `taper run` (PYTHONPATH leads here): gives it the same
modules, then lets the sitecustomize that this one hides have its turn."""


def _install():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    tag, _, packages = os.environ.get("TAPER_RUN", "").partition(" ")
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    if tag == sys.implementation.cache_tag:  # another version of Python cannot load the extension
        from importlib.util import module_from_spec, spec_from_file_location

        if packages not in sys.path:
            sys.path.append(packages)
        spec = spec_from_file_location("taper._hook", os.path.join(packages, "taper", "_hook.py"))
        hook = sys.modules["taper._hook"] = module_from_spec(spec)
        spec.loader.exec_module(hook)
        hook.install()
    from importlib.machinery import PathFinder

    hidden = PathFinder.find_spec("sitecustomize", sys.path)
    if hidden is not None:
        from importlib.util import module_from_spec

        module = sys.modules["sitecustomize"] = module_from_spec(hidden)
        hidden.loader.exec_module(module)


if __name__ == "sitecustomize":  # a program that imports every module of a package is not at its start
    _install()
