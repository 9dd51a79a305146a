"""torch.utils.cpp_extension: C++ extensions for the CPU, built against Taper's headers and library.

<torch/extension.h> and its like are LibTorch's names over <taper/taper.hpp>. pybind11 is the user's own package:
`pip install pybind11`, or the distribution's. Extensions that need nvcc are refused.
"""

import glob
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile

CUDA_HOME = ROCM_HOME = CUDNN_HOME = SYCL_HOME = None
IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform.startswith("darwin")
IS_LINUX = sys.platform.startswith("linux")
COMMON_NVCC_FLAGS = []
_DEFINES = ["-DTORCH_API_INCLUDE_EXTENSION_H"]


def _package():
    import taper

    return os.path.dirname(os.path.abspath(taper.__file__))


def _header_folders():
    """Folders with <taper/taper.h>, its generated part and LibTorch's names: in the package, or in the sources it is
    built from."""
    package = _package()
    inside = os.path.join(package, "include")
    if os.path.isdir(os.path.join(inside, "taper", "libtorch")):
        return [inside], os.path.join(inside, "taper", "libtorch")
    build = os.path.dirname(os.path.dirname(package))
    sources = os.path.dirname(os.path.dirname(os.path.realpath(os.path.join(package, "__init__.py"))))
    include = os.path.join(os.path.dirname(sources), "include")
    return [include, os.path.join(build, "generated", "include")], os.path.join(include, "taper", "libtorch")


def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folders that a compiler looks into for <torch/extension.h>, <taper/taper.hpp> and pybind11."""
    if device_type not in ("cpu", False):
        raise NotImplementedError(
            f"torch.utils.cpp_extension.include_paths: Taper builds extensions for the CPU, not for {device_type!r}"
        )
    folders, libtorch = _header_folders()
    paths = [libtorch, *folders] if torch_include_dirs else []
    try:
        import pybind11

        paths.append(pybind11.get_include())
    except ImportError:
        pass  # the distribution's is where the compiler looks
    return paths


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """The folder of libtaper."""
    if device_type not in ("cpu", False):
        raise NotImplementedError(
            f"torch.utils.cpp_extension.library_paths: Taper builds extensions for the CPU, not for {device_type!r}"
        )
    return [os.path.dirname(_library())]


def _library():
    """The libtaper that this process runs on."""
    from taper._report import loaded

    path = loaded("libtaper.so")
    if path is None:
        raise RuntimeError("torch.utils.cpp_extension: libtaper.so is not among the files that this process has loaded")
    return path


def _link_arguments():
    path = _library()
    return [path, f"-Wl,-rpath,{os.path.dirname(path)}"]


def is_ninja_available():
    """Is ninja on the path?"""
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions")


def get_cxx_compiler():
    return os.environ.get("CXX", "c++")


def get_compiler_abi_compatibility_and_version(compiler):
    return True, None


def check_compiler_ok_for_platform(compiler):
    return True


def CppExtension(name, sources, *args, **kwargs):
    """A setuptools.Extension with Taper's headers and library."""
    import setuptools

    kwargs["include_dirs"] = [*kwargs.get("include_dirs", []), *include_paths()]
    kwargs["library_dirs"] = [*kwargs.get("library_dirs", []), *library_paths()]
    kwargs["extra_link_args"] = [*kwargs.get("extra_link_args", []), *_link_arguments()]
    kwargs["language"] = "c++"
    return setuptools.Extension(name, sources, *args, **kwargs)


def _refuse(name):
    def refused(*args, **kwargs):
        raise NotImplementedError(
            f"torch.utils.cpp_extension.{name}: Taper builds C++ extensions for the CPU; this one needs a GPU's "
            "compiler"
        )

    refused.__name__ = refused.__qualname__ = name
    return refused


CUDAExtension, SyclExtension = _refuse("CUDAExtension"), _refuse("SyclExtension")


def _flags(given, name):
    """The flags of a compilation, with a standard where none is named, and the module's name for pybind11's macro."""
    flags = list(given)
    if not any(f.startswith(("-std=", "/std:")) for f in flags):
        flags.append("-std=c++17")
    return [*flags, *_DEFINES, f"-DTORCH_EXTENSION_NAME={name}"]


def _make_build_extension():
    from setuptools.command.build_ext import build_ext

    class BuildExtension(build_ext):
        """setuptools' build_ext, with the flags that extensions of torch expect."""

        @classmethod
        def with_options(cls, **options):
            class WithOptions(cls):
                def __init__(self, *args, **kwargs):
                    kwargs.update(options)
                    super().__init__(*args, **kwargs)

            return WithOptions

        def __init__(self, *args, **kwargs):
            self.use_ninja = kwargs.pop("use_ninja", True)
            self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
            super().__init__(*args, **kwargs)

        def build_extensions(self):
            for extension in self.extensions:
                given = extension.extra_compile_args or []
                if isinstance(given, dict):
                    given = given.get("cxx", [])
                extension.extra_compile_args = _flags(given, extension.name.rpartition(".")[2])
            super().build_extensions()

        def get_ext_filename(self, name):
            path = super().get_ext_filename(name)
            if not self.no_python_abi_suffix:
                return path
            parts = path.split(".")
            return ".".join([*parts[:-2], parts[-1]])

    return BuildExtension


def __getattr__(name):
    if name == "BuildExtension":  # setuptools is imported by those who build
        made = globals()["BuildExtension"] = _make_build_extension()
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _build_folder(name, given, verbose):
    if given:
        return given
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or os.path.join(os.path.expanduser("~"), ".cache", "taper_extensions")
    tag = f"py{sys.version_info.major}{sys.version_info.minor}_cpu"
    return os.path.join(root, tag, name)


def _run(command, verbose):
    if verbose:
        print(shlex.join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if verbose and done.stdout:
        print(done.stdout, flush=True)
    if done.returncode:
        raise RuntimeError(f"Error building extension: {shlex.join(command)}\n{done.stdout}")


def _stamp(sources, command):
    """What an object file was made of: its source and the headers beside it, by content, and the command."""
    digest = hashlib.sha256(shlex.join(command).encode())
    for source in sources:
        beside = glob.glob(os.path.join(os.path.dirname(os.path.abspath(source)), "*.h*"))
        for path in [source, *sorted(beside)]:
            with open(path, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()


def load(
    name,
    sources,
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_sycl_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda=None,
    with_sycl=None,
    is_python_module=True,
    is_standalone=False,
    keep_intermediates=True,
):
    """Compiles the sources into an extension, where they changed since the last time, and imports it."""
    sources = [sources] if isinstance(sources, str) else list(sources)
    if with_cuda or with_sycl or any(s.endswith((".cu", ".cuh", ".sycl")) for s in sources):
        raise NotImplementedError(
            "torch.utils.cpp_extension.load: Taper builds C++ extensions for the CPU; this one needs a GPU's compiler"
        )
    folder = _build_folder(name, build_directory, verbose)
    os.makedirs(folder, exist_ok=True)
    includes = [*(extra_include_paths or []), *include_paths(), sysconfig.get_path("include")]
    compiler = shlex.split(get_cxx_compiler())
    flags = [*_flags(extra_cflags or [], name), "-fPIC", *(f"-I{os.path.abspath(i)}" for i in includes)]
    suffix = "" if is_standalone else ".so"
    target = os.path.join(folder, name + suffix)
    link = [*_link_arguments(), *(extra_ldflags or [])]
    stamp, stamp_path = _stamp(sources, [*compiler, *flags, *link]), os.path.join(folder, name + ".stamp")
    made = os.path.exists(target) and os.path.exists(stamp_path) and open(stamp_path).read() == stamp
    if not made:
        objects = []
        for i, source in enumerate(sources):
            objects.append(os.path.join(folder, f"{name}_{i}.o"))
            _run([*compiler, *flags, "-c", os.path.abspath(source), "-o", objects[-1]], verbose)
        fresh = f"{target}.{os.getpid()}"  # a process that has the old one open keeps it
        _run([*compiler, *([] if is_standalone else ["-shared"]), *objects, *link, "-o", fresh], verbose)
        os.replace(fresh, target)
        with open(stamp_path, "w") as file:
            file.write(stamp)
    if is_standalone:
        return target
    if not is_python_module:
        import taper

        taper.ops.load_library(target)
        return target
    spec = importlib.util.spec_from_file_location(name, target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from taper._cpp_operators import load as register_operators

    register_operators(target)
    return module


def load_inline(
    name,
    cpp_sources,
    cuda_sources=None,
    sycl_sources=None,
    functions=None,
    extra_cflags=None,
    extra_cuda_cflags=None,
    extra_sycl_cflags=None,
    extra_ldflags=None,
    extra_include_paths=None,
    build_directory=None,
    verbose=False,
    with_cuda=None,
    with_sycl=None,
    is_python_module=True,
    with_pytorch_error_handling=True,
    keep_intermediates=True,
    use_pch=False,
    no_implicit_headers=False,
):
    """The same from texts; functions names those that Python calls, with their docs if it is a dict."""
    if cuda_sources or sycl_sources or with_cuda or with_sycl:
        raise NotImplementedError(
            "torch.utils.cpp_extension.load_inline: Taper builds C++ extensions for the CPU; this one needs a GPU's "
            "compiler"
        )
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    if not no_implicit_headers:
        texts.insert(0, "#include <torch/extension.h>")
    if functions is not None:
        named = {functions: functions} if isinstance(functions, str) else functions
        named = named if isinstance(named, dict) else {f: f for f in named}
        lines = [f'm.def("{f}", &{f}, "{doc}");' for f, doc in named.items()]
        texts.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n" + "\n".join(lines) + "\n}")
    folder = _build_folder(name, build_directory, verbose)
    os.makedirs(folder, exist_ok=True)
    path, text = os.path.join(folder, "main.cpp"), "\n".join(texts) + "\n"
    if not os.path.exists(path) or open(path).read() != text:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            file.write(text)
        os.replace(file.name, path)
    return load(
        name,
        [path],
        extra_cflags=extra_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=folder,
        verbose=verbose,
        is_python_module=is_python_module,
    )
