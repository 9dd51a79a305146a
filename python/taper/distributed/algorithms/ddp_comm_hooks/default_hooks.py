"""torch.distributed.algorithms.ddp_comm_hooks.default_hooks: averaging, as it is and through 16 bits."""

from taper import _C
from taper import distributed as dist

__all__ = [
    "allreduce_hook",
    "fp16_compress_hook",
    "bf16_compress_hook",
    "fp16_compress_wrapper",
    "bf16_compress_wrapper",
]


def _average(group, tensor):
    """A future of the average of a tensor over the ranks."""
    tensor.div_(dist.get_world_size(group))
    return dist.all_reduce(tensor, group=group, async_op=True).get_future().then(lambda future: _first(future.value()))


def _first(value):
    return value[0] if isinstance(value, (list, tuple)) else value


def allreduce_hook(process_group, bucket):
    """What is done without a hook."""
    return _average(process_group, bucket.buffer())


def _compressed(process_group, bucket, dtype):
    buffer = bucket.buffer()
    return _average(process_group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group, bucket):
    """Averages in float16: half the bytes travel."""
    return _compressed(process_group, bucket, _C.float16)


def bf16_compress_hook(process_group, bucket):
    """Averages in bfloat16."""
    return _compressed(process_group, bucket, _C.bfloat16)


def _wrapper(hook, dtype):
    def wrapped(state, bucket):
        before = bucket.buffer()
        bucket.set_buffer(before.to(dtype))

        def widen(future):
            return before.copy_(_first(future.value()))

        return hook(state, bucket).then(widen)

    return wrapped


def fp16_compress_wrapper(hook):
    """Another hook, fed with float16."""
    return _wrapper(hook, _C.float16)


def bf16_compress_wrapper(hook):
    """Another hook, fed with bfloat16."""
    return _wrapper(hook, _C.bfloat16)
