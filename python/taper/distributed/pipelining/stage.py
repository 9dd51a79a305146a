"""torch.distributed.pipelining.stage: one rank's piece of a model, and what it exchanges with the ranks before and
after it.

What travels forward are a stage's results, and backward their gradients, in the order of the micro-batches; each border
between two stages has tags of its own, for several may lie between the same two ranks. Shapes and dtypes are told once,
before the first micro-batch of a stage."""

import taper
from taper import distributed as dist
from taper._C import Tensor
from taper.distributed.distributed_c10d import _to_object, _to_tensor

__all__ = ["PipelineStage"]


def _tuple(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


class PipelineStage:
    """Stage number stage_index of num_stages: a module whose inputs are the results of the stage before."""

    def __init__(
        self,
        submodule,
        stage_index,
        num_stages,
        device,
        input_args=None,
        output_args=None,
        output_grads=None,
        input_grads=None,
        group=None,
        dw_builder=None,
        get_mesh=None,
    ):
        self.submod, self.stage_index, self.num_stages, self.device = (
            submodule,
            stage_index,
            num_stages,
            taper.device(device),
        )
        self.group = group if group is not None else dist.distributed_c10d._get_default_group()
        self.group_rank, self.group_size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self._previous = (
            None if self.is_first else dist.get_global_rank(self.group, (stage_index - 1) % self.group_size)
        )
        self._next = None if self.is_last else dist.get_global_rank(self.group, (stage_index + 1) % self.group_size)
        self._shapes = {}
        self.clear()

    def clear(self):
        self._kept, self._sending, self.outputs = {}, [], {}

    # ---- Messages ----
    def _tag(self, kind):
        """A border's number, twice: forward, and backward."""
        border = self.stage_index + (kind in ("forward to", "backward from"))
        return 2 * border + kind.startswith("backward")

    def _begin(self, tensor, peer, tag):
        self._sending.append((dist.isend(tensor, peer, group=self.group, tag=tag), tensor))

    def _send(self, tensors, peer, kind):
        """Starts to send; what is sent is kept until all is done."""
        tag = self._tag(kind)
        if kind not in self._shapes:
            self._shapes[kind] = True
            data, size = _to_tensor([(tuple(t.shape), t.dtype, t.requires_grad) for t in tensors])
            self._begin(size, peer, tag)
            self._begin(data, peer, tag)
        for t in tensors:
            self._begin(t.detach().contiguous(), peer, tag)

    def _receive(self, peer, kind):
        tag = self._tag(kind)
        if kind not in self._shapes:
            size = taper.zeros(1, dtype=taper.int64)
            dist.recv(size, peer, group=self.group, tag=tag)
            data = taper.empty(int(size.item()), dtype=taper.uint8)
            dist.recv(data, peer, group=self.group, tag=tag)
            self._shapes[kind] = _to_object(data, len(data))
        made = []
        for shape, dtype, tracked in self._shapes[kind]:
            t = taper.empty(shape, dtype=dtype, device=self.device)
            dist.recv(t, peer, group=self.group, tag=tag)
            made.append(t.requires_grad_() if tracked and kind == "forward from" else t)
        return made

    # ---- One micro-batch ----
    def forward(self, number, args=(), kwargs=None):
        """Runs a micro-batch through the stage and passes its results on."""
        inputs = args if self.is_first else tuple(self._receive(self._previous, "forward from"))
        output = self.submod(*inputs, **(kwargs or {}))
        results = _tuple(output)
        self._kept[number] = inputs, results
        if self.is_last:
            self.outputs[number] = output
        else:
            self._send(results, self._next, "forward to")
        return output

    def backward(self, number, loss=None):
        """Takes the gradients of a micro-batch's results, or its loss, and passes those of its inputs on."""
        inputs, results = self._kept.pop(number)
        if self.is_last:
            loss.backward()
        else:
            tracked = [t for t in results if t.requires_grad]
            taper.autograd.backward(tracked, self._receive(self._next, "backward from"))
        if not self.is_first:
            self._send(
                [t.grad if t.grad is not None else taper.zeros_like(t) for t in inputs if t.requires_grad],
                self._previous,
                "backward to",
            )

    def finish(self):
        """Everything that was sent has arrived."""
        for work, _ in self._sending:
            work.wait()
        self._sending = []

    def scale(self, parts):
        """Gradients of the mean over the micro-batches' losses."""
        with taper.no_grad():
            for p in self.submod.parameters():
                if isinstance(p.grad, Tensor):
                    p.grad.div_(parts)
