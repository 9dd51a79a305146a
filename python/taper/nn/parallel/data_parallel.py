"""DataParallel over one device: the module as it is, under the name `module`, so that state dicts have PyTorch's keys."""
from taper import cuda
from taper._hook import NotCovered
from taper.nn.modules.module import Module


class DataParallel(Module):
    """Splits each batch over the given devices; without a GPU, or with one, that is the module itself."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.device_ids = module, []
        if not cuda.is_available():
            return
        self.dim, self.device_ids = dim, list(range(cuda.device_count())) if device_ids is None else list(device_ids)
        if len(self.device_ids) > 1:
            raise NotCovered("torch.nn.DataParallel over several devices")
        self.output_device = self.device_ids[0] if output_device is None else output_device
        self.module.to(f"cuda:{self.device_ids[0]}")

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """One call of a module, its batch split over the given devices."""
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    if not device_ids or len(device_ids) == 1:
        return module(*inputs, **module_kwargs or {})
    raise NotCovered("torch.nn.parallel.data_parallel over several devices")
