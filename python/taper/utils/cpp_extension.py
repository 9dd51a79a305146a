"""torch.utils.cpp_extension: Taper has no C++ tensors for extensions to be compiled against; using one says so."""

CUDA_HOME = ROCM_HOME = None


def _refuse(name):
    def refused(*args, **kwargs):
        raise NotImplementedError(
            f"torch.utils.cpp_extension.{name}: extensions compiled against PyTorch's C++ tensors do not fit Taper, which is a C "
            "library; write the operator in C against <taper/taper.h>, or in Python with torch.autograd.Function"
        )

    refused.__name__ = refused.__qualname__ = name
    return refused


load, load_inline, CppExtension, CUDAExtension, SyclExtension, BuildExtension, include_paths, library_paths = map(
    _refuse,
    (
        "load",
        "load_inline",
        "CppExtension",
        "CUDAExtension",
        "SyclExtension",
        "BuildExtension",
        "include_paths",
        "library_paths",
    ),
)


def is_ninja_available():
    """Is ninja on the path?"""
    import shutil

    return shutil.which("ninja") is not None
