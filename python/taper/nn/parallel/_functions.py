"""torch.nn.parallel._functions: copies between GPUs that gradients go through, by the names that vendored code (batch
norms over several GPUs) imports. Copies have gradients of their own, so nothing is written for the way back."""

from taper.autograd import Function
from taper.nn.parallel import comm

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


def _none_on_the_host(inputs, name):
    if any(t.device.type == "cpu" for t in inputs):
        raise AssertionError(f"{name} function not implemented for CPU tensors")


class Broadcast(Function):
    """Every tensor on every GPU, one GPU after the other."""

    @staticmethod
    def apply(target_gpus, *inputs):
        _none_on_the_host(inputs, "Broadcast")
        return tuple(copy for copies in comm.broadcast_coalesced(inputs, target_gpus) for copy in copies)


class ReduceAddCoalesced(Function):
    """The sums of what Broadcast gave, on one GPU."""

    @staticmethod
    def apply(destination, num_inputs, *grads):
        groups = [grads[at : at + num_inputs] for at in range(0, len(grads), num_inputs)]
        return tuple(comm.reduce_add_coalesced(groups, destination))


class Gather(Function):
    """Tensors of several GPUs along one dim, on one device."""

    @staticmethod
    def apply(target_device, dim, *inputs):
        _none_on_the_host(inputs, "Gather")
        if dim == 0 and all(t.dim() == 0 for t in inputs):
            inputs = tuple(t.view(1) for t in inputs)
        return comm.gather(inputs, dim, target_device)


class Scatter(Function):
    """Parts of a tensor along one dim, one for each GPU."""

    @staticmethod
    def apply(target_gpus, chunk_sizes, dim, input):
        return tuple(comm.scatter(input, target_gpus, chunk_sizes, dim))
