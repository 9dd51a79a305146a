"""torch.distributed.pipelining.schedules: in which order a stage works on the parts of a batch. GPipe runs all forwards, then all backwards; 1F1B begins a
backward as soon as the last stage can, and so keeps at most as many parts in memory as there are stages behind."""
import taper
from taper._C import Tensor

__all__ = ["Schedule1F1B", "ScheduleGPipe"]


def _parts(value, count):
    """A batch in parts along its first dimension, also in lists and dicts; anything else goes to all."""
    if isinstance(value, Tensor):
        if value.shape[0] < count:
            raise ValueError(f"a batch of {value.shape[0]} cannot be cut into {count} micro-batches")
        return value.tensor_split(count)
    if isinstance(value, (list, tuple)):
        return [type(value)(items) for items in zip(*(_parts(item, count) for item in value))] if value else [value] * count
    if isinstance(value, dict):
        return [dict(zip(value, items)) for items in zip(*(_parts(item, count) for item in value.values()))] if value else [value] * count
    return [value] * count


def _merge(outputs):
    first = outputs[0]
    if isinstance(first, Tensor):
        return taper.cat(outputs) if first.dim() else taper.stack(outputs)
    return type(first)(map(_merge, zip(*outputs)))


class _Schedule:
    def __init__(self, stage, n_microbatches, loss_fn=None, args_chunk_spec=None, kwargs_chunk_spec=None, output_merge_spec=None, scale_grads=True):
        self._stage, self._n_microbatches, self._loss_fn, self.scale_grads = stage, n_microbatches, loss_fn, scale_grads

    def step(self, *args, target=None, losses=None, return_outputs=True, **kwargs):
        """One batch: the first stage gives its inputs, the last one its targets. What the model gives, on the last stage."""
        stage, n = self._stage, self._n_microbatches
        stage.clear()
        self._args, self._kwargs = _parts(args, n), _parts(kwargs, n)
        self._targets = _parts(target, n) if target is not None else [None] * n
        self._losses = []
        trains = self._loss_fn is not None
        for what, number in self._order(n) if trains else [("forward", i) for i in range(n)]:
            self._forward(number) if what == "forward" else self._backward(number)
        stage.finish()
        if trains and self.scale_grads:
            stage.scale(n)
        if losses is not None:
            losses[:] = [loss for _, loss in sorted(self._losses, key=lambda pair: pair[0])]
        outputs = [stage.outputs[i] for i in range(n)] if stage.is_last and return_outputs else None
        self._losses = []
        return _merge(outputs) if outputs else None

    def eval(self, *args, target=None, losses=None, **kwargs):
        """The same without gradients."""
        loss_fn, self._loss_fn = self._loss_fn, None
        try:
            with taper.no_grad():
                return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._loss_fn = loss_fn

    def _forward(self, number):
        output = self._stage.forward(number, self._args[number] if self._stage.is_first else (), self._kwargs[number])
        if self._stage.is_last and self._loss_fn is not None:
            self._losses.append((number, self._loss_fn(output, self._targets[number])))

    def _backward(self, number):
        loss = next((loss for i, loss in self._losses if i == number), None)
        self._stage.backward(number, loss)


class ScheduleGPipe(_Schedule):
    def _order(self, n):
        return [("forward", i) for i in range(n)] + [("backward", i) for i in range(n)]


class Schedule1F1B(_Schedule):
    def _order(self, n):
        warm = min(n, self._stage.num_stages - self._stage.stage_index - 1)
        order = [("forward", i) for i in range(warm)]
        for i in range(n - warm):
            order += [("forward", warm + i), ("backward", i)]
        return order + [("backward", i) for i in range(n - warm, n)]
