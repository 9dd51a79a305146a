"""torch.backends: flags of the libraries underneath. They are kept as set; the CPU's results do not depend on them."""
import sys
import types


class _Flags(types.ModuleType):
    """A module whose attributes are switches."""

    def __init__(self, name, **values):
        super().__init__(f"{__name__}.{name}")
        self.__dict__.update(values)
        sys.modules[self.__name__] = self

    def flags(self, **values):
        return _Scope(self, values)


class _Scope:
    def __init__(self, module, values):
        self.module, self.values = module, values

    def __enter__(self):
        self.before = {key: getattr(self.module, key, None) for key in self.values}
        self.module.__dict__.update(self.values)

    def __exit__(self, *error):
        self.module.__dict__.update(self.before)


def _no():
    return False


def _yes():
    return True


cudnn = _Flags("cudnn", enabled=True, benchmark=False, deterministic=False, allow_tf32=True, benchmark_limit=10, is_available=_no, version=lambda: None)
cuda = _Flags("cuda", is_built=_no, matmul=types.SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True))
mps = _Flags("mps", is_available=_no, is_built=_no)
mkl = _Flags("mkl", is_available=_no)
mkldnn = _Flags("mkldnn", is_available=_no, enabled=True)
openmp = _Flags("openmp", is_available=_yes)
cpu = _Flags("cpu", get_cpu_capability=lambda: "DEFAULT")
opt_einsum = _Flags("opt_einsum", is_available=_no, enabled=False, strategy=None)
