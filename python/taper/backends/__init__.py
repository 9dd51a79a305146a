"""torch.backends: switches of the libraries underneath. GPUs obey those of cuda and cudnn; results on the CPU depend on
none."""

import sys
import types

from taper import _C


def _no(*args, **kwargs):
    return False


def _yes():
    return True


def _nothing(*args, **kwargs):
    return None


class _Scope:
    """Switches set within a `with`, and put back."""

    def __init__(self, module, values):
        self.module, self.values = module, values

    def __enter__(self):
        self.before = {key: getattr(self.module, key) for key in self.values}
        for key, value in self.values.items():
            setattr(self.module, key, value)

    def __exit__(self, *error):
        for key, value in self.before.items():
            setattr(self.module, key, value)
        return False


class _Room(types.ModuleType):
    """A module with functions and, behind `switches`, what scripts set. Those in `wired` are the library's own: name ->
    its name there."""

    def __init__(self, name, switches=None, wired=None, **functions):
        super().__init__(f"{__name__}.{name}", f"torch.backends.{name}")
        self.__dict__.update(switches or {}, **functions)
        self.__dict__["_wired"] = wired or {}
        self.__dict__["_switches"] = list(switches or {})
        for switch in self._wired:
            del self.__dict__[switch]
        sys.modules[self.__name__] = self

    def __getattr__(self, name):
        wired = self.__dict__.get("_wired", {})
        if name in wired:
            return _C._gpu_is_on(wired[name])
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")

    def __setattr__(self, name, value):
        if name in self._wired:
            _C._gpu_turn(self._wired[name], bool(value))
        else:
            super().__setattr__(name, value)

    def flags(self, *args, **values):
        """The switches as given within a `with`; those left out have the values that PyTorch's flags() gives them."""
        names = list(self._flag_defaults)
        values.update(zip(names, args))
        unknown = [name for name in values if name not in self._flag_defaults]
        if unknown:
            raise TypeError(f"flags() got an unexpected keyword argument '{unknown[0]}'")
        return _Scope(self, {**self._flag_defaults, **values})

    def set_flags(self, *args, **values):
        """Sets switches; returns their values from before."""
        values.update(zip(self._switches, args))
        values = {name: value for name, value in values.items() if value is not None}
        before = tuple(getattr(self, name) for name in self._switches)
        for name, value in values.items():
            setattr(self, name, value)
        return before


class _Products:
    """torch.backends.cuda.matmul: allow_tf32 and fp32_precision are other faces of
    torch.set_float32_matmul_precision."""

    _wired = {
        "allow_fp16_reduced_precision_reduction": "reduced_f16",
        "allow_bf16_reduced_precision_reduction": "reduced_bf16",
    }
    _known = {"allow_fp16_accumulation": False}

    def __getattr__(self, name):
        if name == "allow_tf32":
            from taper import get_float32_matmul_precision

            return get_float32_matmul_precision() != "highest"
        if name == "fp32_precision":
            return "tf32" if self.allow_tf32 else self.__dict__.get("_precision", "none")
        if name in self._wired:
            return _C._gpu_is_on(self._wired[name])
        if name in self._known:
            return self._known[name]
        raise AttributeError("Unknown attribute " + name)

    def __setattr__(self, name, value):
        if name == "fp32_precision":
            _check_precision(value)
            self.__dict__["_precision"] = value
            name, value = "allow_tf32", value == "tf32"
        if name == "allow_tf32":
            from taper import set_float32_matmul_precision

            set_float32_matmul_precision("high" if value else "highest")
        elif name in self._wired:
            _C._gpu_turn(self._wired[name], bool(value[0] if isinstance(value, (tuple, list)) else value))
        elif name in self._known:
            self.__dict__[name] = value
        else:
            raise AttributeError("Unknown attribute " + name)


def _check_precision(value):
    if value not in ("none", "ieee", "tf32", "bf16"):
        raise RuntimeError(f"Unknown precision: {value}")


class _Precision:
    """torch.backends.cudnn.conv and rnn: how exact float32 is; another face of cudnn.allow_tf32."""

    _without = "none"  # what was set in place of tf32

    @property
    def fp32_precision(self):
        return "tf32" if _C._gpu_is_on("conv_tf32") else self._without

    @fp32_precision.setter
    def fp32_precision(self, value):
        _check_precision(value)
        self._without = "none" if value == "tf32" else value
        _C._gpu_turn("conv_tf32", value == "tf32")


class _PlanCache:
    """torch.backends.cuda.cufft_plan_cache: CUDA's plans of transforms; there are none."""

    size, max_size = 0, 4096

    def clear(self):
        pass

    def __getitem__(self, device):
        return self


class _Attention:
    """Switches of attention's kernels on CUDA: (enabled?, enable) of each."""

    def __init__(self, *names):
        self.on = dict.fromkeys(names, True)

    def functions(self):
        out = {}
        for name in self.on:
            out[f"{name}_sdp_enabled"] = lambda name=name: self.on[name]
            out[f"enable_{name}_sdp"] = lambda enabled, name=name: self.on.__setitem__(name, bool(enabled))
        return out

    def kernel(self, enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
        """Chooses among the kernels within a `with`."""
        from contextlib import contextmanager

        @contextmanager
        def chosen():
            before = dict(self.on)
            self.on.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
            try:
                yield {}
            finally:
                self.on.update(before)

        return chosen()


def _capability():
    """The widest vectors the processor has, in PyTorch's words."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            words = set(next((line for line in file if line.startswith("flags")), "").split())
    except OSError:
        words = set()
    return "AVX512" if "avx512f" in words else "AVX2" if "avx2" in words else "DEFAULT"


def _has_library(name):
    """Did the library find this one when it was loaded?"""
    return any(part.lower().startswith(name) and version for part, version, _ in _C._libraries())


def _mkldnn_available():
    return _has_library("onednn")


def _has_cuda():
    return _C._gpu_count("cuda") > 0


def _cudnn_version():
    """cuDNN's version as a number, 91900 for 9.19.0; None where it is not found."""
    if not _has_cuda():
        return None
    found = next((version for _, name, _, _, version, _ in _C._gpu_libraries() if name == "cuDNN"), "")
    if not found:
        return None
    major, minor, patch = map(int, found.split("."))
    return major * 10000 + minor * 100 + patch


def _cudnn_available():
    return _cudnn_version() is not None


def _cudnn_acceptable(tensor):
    return tensor.is_cuda and _cudnn_available() and tensor.dtype in (_C.float16, _C.bfloat16, _C.float32, _C.float64)


class verbose:
    """A library's own report of its calls; accepted."""

    def __init__(self, level=0):
        self.level = level

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


_attention = _Attention("flash", "math", "mem_efficient", "cudnn")
fp32_precision = "none"

cpu = _Room("cpu", get_cpu_capability=_capability)
cudnn = _Room(
    "cudnn",
    {
        "enabled": True,
        "benchmark": False,
        "benchmark_limit": 10,
        "deterministic": False,
        "allow_tf32": True,
        "fp32_precision": "none",
    },
    {
        "enabled": "conv_library",
        "benchmark": "conv_benchmark",
        "deterministic": "conv_deterministic",
        "allow_tf32": "conv_tf32",
    },
    is_available=_cudnn_available,
    version=_cudnn_version,
    is_acceptable=_cudnn_acceptable,
    conv=_Precision(),
    rnn=_Precision(),
    _flag_defaults={
        "enabled": False,
        "benchmark": False,
        "benchmark_limit": 10,
        "deterministic": False,
        "allow_tf32": True,
        "fp32_precision": "none",
    },
)
cuda = _Room(
    "cuda",
    is_built=_has_cuda,
    matmul=_Products(),
    cufft_plan_cache=_PlanCache(),
    sdp_kernel=_attention.kernel,
    is_flash_attention_available=_has_cuda,
    can_use_flash_attention=_no,
    can_use_efficient_attention=_no,
    can_use_cudnn_attention=_no,
    preferred_linalg_library=lambda backend=None: "default",
    preferred_blas_library=lambda backend=None: "default",
    fp16_bf16_reduction_math_sdp_allowed=_no,
    allow_fp16_bf16_reduction_math_sdp=_nothing,
    **_attention.functions(),
)
cusparselt = _Room("cusparselt", is_available=_no, version=_nothing)
kleidiai = _Room("kleidiai", is_available=_no)
mha = _Room(
    "mha",
    {"_fastpath": True},
    get_fastpath_enabled=lambda: mha._fastpath,
    set_fastpath_enabled=lambda value: setattr(mha, "_fastpath", bool(value)),
)
miopen = _Room("miopen", {"immediate": False}, _flag_defaults={"immediate": False})
mkl = _Room("mkl", is_available=_no, verbose=verbose, VERBOSE_OFF=0, VERBOSE_ON=1)
mkldnn = _Room(
    "mkldnn",
    {"enabled": True, "deterministic": False, "allow_tf32": None, "fp32_precision": "none"},
    is_available=_mkldnn_available,
    verbose=verbose,
    VERBOSE_OFF=0,
    VERBOSE_ON=1,
    VERBOSE_ON_CREATION=2,
    is_acl_available=_no,
    _flag_defaults={"enabled": False, "deterministic": False, "allow_tf32": True, "fp32_precision": "none"},
)
mps = _Room("mps", is_available=_no, is_built=_no, is_macos_or_newer=_no, is_macos13_or_newer=_no)
nnpack = _Room("nnpack", {"enabled": True}, is_available=_no, _flag_defaults={"enabled": False})
openmp = _Room("openmp", is_available=_yes)
opt_einsum = _Room(
    "opt_einsum",
    {"enabled": False, "strategy": None},
    is_available=_no,
    get_opt_einsum=_nothing,
    _flag_defaults={"enabled": None, "strategy": None},
)
quantized = _Room("quantized", {"engine": "none", "supported_engines": ["none"]})
xnnpack = _Room("xnnpack", {"enabled": False})


class _AllowNonbracketedMutation:
    """Switches can be set anywhere here; PyTorch allows it within this."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


__allow_nonbracketed_mutation = _AllowNonbracketedMutation
