"""torch.nn.DataParallel: one module, its batch cut over the devices of this process. With one device, or none, it is
the module itself under the name `module`, so that state dicts have PyTorch's keys."""

from taper import cuda
from taper.nn.modules.module import Module
from taper.nn.parallel.parallel_apply import parallel_apply
from taper.nn.parallel.replicate import replicate
from taper.nn.parallel.scatter_gather import gather, scatter_kwargs


class DataParallel(Module):
    """Splits each batch over the given devices and puts the results together on the output device."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids, self.dim = module, [], dim
        if device_ids is None and not cuda.is_available():
            return
        given = list(range(cuda.device_count())) if device_ids is None else list(device_ids)
        if not cuda.is_available() and not all(str(device).startswith("cpu") for device in given):
            return
        self.device_ids = given
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.module.to(f"cuda:{self.device_ids[0]}" if isinstance(self.device_ids[0], int) else self.device_ids[0])

    def forward(self, *inputs, **kwargs):
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        parts, named = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
        if len(self.device_ids) == 1:
            return self.module(*parts[0], **named[0])
        used = self.device_ids[: len(parts)]
        return gather(parallel_apply(replicate(self.module, used), parts, named, used), self.output_device, self.dim)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """One call of a module, its batch split over the given devices."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    devices = device_ids or list(range(cuda.device_count()))
    if len(devices) < 2:
        return module(*inputs, **module_kwargs or {})
    parts, named = scatter_kwargs(inputs, module_kwargs or {}, devices, dim)
    used = devices[: len(parts)]
    return gather(
        parallel_apply(replicate(module, used), parts, named, used),
        devices[0] if output_device is None else output_device,
        dim,
    )
