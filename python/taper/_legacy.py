"""torch.FloatTensor and its relatives: names for a dtype on a device that make tensors and answer isinstance."""

from taper import _C
from taper.storage import _named as _storages
from taper.storage import _storages_on, _words


class tensortype(type):
    """The type of torch.FloatTensor: calling it makes a tensor, isinstance asks for dtype and device."""

    def __call__(cls, *args, **kwargs):
        return _C._legacy_tensor(cls.dtype, cls._device, args, kwargs)

    def __instancecheck__(cls, instance):
        return isinstance(instance, _C.Tensor) and instance.dtype == cls.dtype and instance.device.type == cls._device

    def __subclasscheck__(cls, other):
        return other is cls


tensortype.__module__ = "torch"


def _types(module, device):
    return {
        f"{word}Tensor": tensortype(
            f"{word}Tensor",
            (),
            {
                "__module__": module,
                "dtype": dtype,
                "layout": _C.strided,
                "_device": device,
                "is_cuda": device == "cuda",
                "is_sparse": False,
            },
        )
        for dtype, word in _words.items()
        if word[0] != "Q"
    }


cpu_types, cuda_types = _types("torch", "cpu"), _types("torch.cuda", "cuda")
cuda_storages = _storages_on("cuda")
globals().update(cpu_types)
globals().update(_storages)
Storage = _storages["FloatStorage"]
__all__ = [*cpu_types, *_storages, "Storage"]
