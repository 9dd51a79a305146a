"""torch.distributed.pipelining.schedules: in which order stages work on the parts of a batch. GPipe runs all forwards,
then all backwards; 1F1B begins a backward as soon as the last stage can, and so keeps at most as many parts in memory
as there are stages behind. With several stages on a rank (stage i is on rank i modulo their number) LoopedBFS runs each
stage over all parts in turn; Interleaved1F1B takes parts in rounds, and alternates as 1F1B does."""

import taper
from taper._C import Tensor

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "get_schedule_class",
]


def _parts(value, count):
    """A batch in parts along its first dimension, also in lists and dicts; anything else goes to all."""
    if isinstance(value, Tensor):
        if value.shape[0] < count:
            raise ValueError(f"a batch of {value.shape[0]} cannot be cut into {count} micro-batches")
        return value.tensor_split(count)
    if isinstance(value, (list, tuple)):
        return (
            [type(value)(items) for items in zip(*(_parts(item, count) for item in value))]
            if value
            else [value] * count
        )
    if isinstance(value, dict):
        return (
            [dict(zip(value, items)) for items in zip(*(_parts(item, count) for item in value.values()))]
            if value
            else [value] * count
        )
    return [value] * count


def _merge(outputs):
    first = outputs[0]
    if isinstance(first, Tensor):
        return taper.cat(outputs) if first.dim() else taper.stack(outputs)
    return type(first)(map(_merge, zip(*outputs)))


class _Schedule:
    """_stages: this rank's, in the model's order. _plan(n): ("forward" or "backward", which of them, number of the
    part), in order."""

    def __init__(self, stages, n_microbatches, loss_fn, scale_grads):
        self._stages, self._n_microbatches, self._loss_fn, self.scale_grads = (
            stages,
            n_microbatches,
            loss_fn,
            scale_grads,
        )
        if n_microbatches < 1:
            raise ValueError(f"n_microbatches must be positive, got {n_microbatches}")

    def step(self, *args, target=None, losses=None, return_outputs=True, **kwargs):
        """One batch: the first stage gives its inputs, the last one its targets. What the model gives, on the last
        stage."""
        n = self._n_microbatches
        for stage in self._stages:
            stage.clear()
        self._args, self._kwargs = _parts(args, n), _parts(kwargs, n)
        self._targets = _parts(target, n) if target is not None else [None] * n
        self._losses = {}
        trains = self._loss_fn is not None
        for what, at, number in self._plan(n):
            if what == "forward":
                self._forward(self._stages[at], number)
            elif trains:
                self._stages[at].backward(number, self._losses.get(number))
        for stage in self._stages:
            stage.finish()
            if trains and self.scale_grads:
                stage.scale(n)
        if losses is not None:
            losses[:] = [loss for _, loss in sorted(self._losses.items())]
        last, self._losses = self._stages[-1], {}
        return _merge([last.outputs[i] for i in range(n)]) if last.is_last and return_outputs else None

    def eval(self, *args, target=None, losses=None, **kwargs):
        """The same without gradients."""
        loss_fn, self._loss_fn = self._loss_fn, None
        try:
            with taper.no_grad():
                return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._loss_fn = loss_fn

    def _forward(self, stage, number):
        output = stage.forward(number, self._args[number] if stage.is_first else (), self._kwargs[number])
        if stage.is_last and self._loss_fn is not None:
            self._losses[number] = self._loss_fn(output, self._targets[number])


class PipelineScheduleSingle(_Schedule):
    """One stage per rank."""

    def __init__(
        self,
        stage,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
    ):
        super().__init__([stage], n_microbatches, loss_fn, scale_grads)
        self._stage = stage
        if stage.num_stages > stage.group_size:
            raise ValueError(
                f"Pipeline group size {stage.group_size} cannot be smaller than the number of stages {stage.num_stages}"
            )

    def _plan(self, n):
        return [(what, 0, number) for what, number in self._order(n)]


class ScheduleGPipe(PipelineScheduleSingle):
    def _order(self, n):
        return [("forward", i) for i in range(n)] + [("backward", i) for i in range(n)]


class Schedule1F1B(PipelineScheduleSingle):
    def _order(self, n):
        warm = min(n, self._stage.num_stages - self._stage.stage_index - 1)
        order = [("forward", i) for i in range(warm)]
        for i in range(n - warm):
            order += [("forward", warm + i), ("backward", i)]
        return order + [("backward", i) for i in range(n - warm, n)]


class PipelineScheduleMulti(_Schedule):
    """Several stages per rank, as many on each."""

    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
        **options,
    ):
        stages = sorted(stages, key=lambda stage: stage.stage_index)
        super().__init__(stages, n_microbatches, loss_fn, scale_grads)
        self._ranks, self._each = stages[0].group_size, len(stages)
        held = [stage.stage_index for stage in stages]
        if stages[0].num_stages != self._ranks * self._each or held != [
            stages[0].group_rank + i * self._ranks for i in range(self._each)
        ]:
            raise ValueError(
                f"{stages[0].num_stages} stages on {self._ranks} ranks: rank {stages[0].group_rank} should have those "
                "numbered "
                f"{[stages[0].group_rank + i * self._ranks for i in range(stages[0].num_stages // self._ranks)]}, got "
                f"{held}"
            )

    def _plan(self, n):
        orders = [self._order_of(rank, n) for rank in range(self._ranks)]
        if not _can_finish(orders, self._ranks, self._each):  # numbers that do not go into rounds
            orders = [_one_stage_after_the_other(self._each, n) for _ in range(self._ranks)]
        return orders[self._stages[0].group_rank]


def _one_stage_after_the_other(each, n):
    return [("forward", at, i) for at in range(each) for i in range(n)] + [
        ("backward", at, i) for at in reversed(range(each)) for i in range(n)
    ]


def _can_finish(orders, ranks, each):
    """Tries the orders of all ranks against each other: does everybody get what it waits for?"""
    done, at, last = set(), [0] * ranks, ranks * each - 1
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while at[rank] < len(order):
                what, which, number = order[at[rank]]
                stage = which * ranks + rank
                needs = ("forward", stage - 1, number) if what == "forward" and stage else None
                if what == "backward":
                    needs = ("backward", stage + 1, number) if stage != last else ("forward", stage, number)
                if needs is not None and needs not in done:
                    break
                done.add((what, stage, number))
                at[rank] += 1
                moved = True
    return all(place == len(order) for place, order in zip(at, orders))


class ScheduleLoopedBFS(PipelineScheduleMulti):
    def _order_of(self, rank, n):
        return _one_stage_after_the_other(self._each, n)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    def _order_of(self, rank, n):
        """Parts in rounds of as many as there are ranks: each round goes through all of a rank's stages."""
        rounds = [range(first, min(first + self._ranks, n)) for first in range(0, n, self._ranks)]
        forwards = [("forward", at, i) for one in rounds for at in range(self._each) for i in one]
        backwards = [("backward", at, i) for one in rounds for at in reversed(range(self._each)) for i in one]
        warm = min(len(forwards), (self._each - 1) * self._ranks + 2 * (self._ranks - rank - 1))
        order = forwards[:warm]
        for forward, backward in zip(forwards[warm:], backwards):
            order += [forward, backward]
        return order + backwards[len(forwards) - warm :]


def get_schedule_class(schedule_name):
    """A schedule by its name, in any case."""
    known = {
        one.__name__[len("Schedule") :].lower(): one
        for one in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleLoopedBFS)
    }
    if schedule_name.lower() not in known:
        raise ValueError(
            f"Unknown schedule name {schedule_name!r}: known ones are "
            f"{', '.join(one.__name__[len('Schedule') :] for one in known.values())}"
        )
    return known[schedule_name.lower()]
