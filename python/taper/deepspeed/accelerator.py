"""deepspeed.accelerator: which device a script should use."""

import taper


class _Accelerator:
    def is_available(self):
        return taper.cuda.is_available()

    def device_name(self, index=None):
        name = "cuda" if taper.cuda.is_available() else "cpu"
        return name if index is None or name == "cpu" else f"{name}:{index}"

    def device_count(self):
        return taper.cuda.device_count()

    def current_device_name(self):
        return self.device_name(taper.cuda.current_device() if taper.cuda.is_available() else None)

    def set_device(self, index):
        if taper.cuda.is_available():
            taper.cuda.set_device(index)

    def communication_backend_name(self):
        return "nccl" if taper.cuda.is_available() else "gloo"

    def is_bf16_supported(self):
        return True

    def is_fp16_supported(self):
        return True

    def synchronize(self, index=None):
        if taper.cuda.is_available():
            taper.cuda.synchronize(index)

    def empty_cache(self):
        taper.cuda.empty_cache()


_accelerator = _Accelerator()


def get_accelerator():
    return _accelerator
