"""horovod.torch.compression: what travels instead of a tensor."""

from taper import _C


class Compressor:
    @staticmethod
    def compress(tensor):
        """What travels, and what decompress needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        raise NotImplementedError


class NoneCompressor(Compressor):
    """The tensor itself."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class FP16Compressor(Compressor):
    """float16 in the place of wider floats."""

    @staticmethod
    def compress(tensor):
        return (tensor.to(_C.float16) if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx) if ctx.is_floating_point else tensor


class Compression:
    none = NoneCompressor
    fp16 = FP16Compressor
