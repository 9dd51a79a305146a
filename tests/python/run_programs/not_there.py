"""What PyTorch has and Taper has not can be imported, and says so where it is used."""

import torch
import torch.ao.quantization as q
import intel_extension_for_pytorch
import oneccl_bindings_for_pytorch
import horovod.torch
import deepspeed
from torch.ao import quantization
from torch.ao.quantization import convert
from torch.ao.quantization import QConfigMapping
from torch.fx.passes.split_module import split_module
import torchaudio.transforms
import torchtext.data.utils


def f(x: split_module | None, y: QConfigMapping):
    return isinstance(x, split_module)


assert not f(1, 2)
assert not hasattr(q, "prepare_qat")
assert getattr(q, "prepare_qat", None) is None


def error(use):
    try:
        use()
    except AttributeError as e:
        assert isinstance(e, NotImplementedError)
        print(str(e).split(";")[0])


def subclass():
    class C(QConfigMapping):
        pass


def base():
    class C(split_module):
        pass


error(lambda: q.prepare_qat)
error(lambda: split_module(1))
error(base)
error(subclass)
error(lambda: intel_extension_for_pytorch.quantization(1))
error(lambda: quantization.quantize_qat(1))
error(lambda: convert(1))
