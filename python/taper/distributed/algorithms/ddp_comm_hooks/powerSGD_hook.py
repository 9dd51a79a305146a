"""torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook: gradients travel as products of two thin matrices.

Of a gradient M (n, m) with what the last time left out added, P = M Q is summed over the ranks and made orthonormal,
then Q = Mᵀ P is averaged; all take P Qᵀ for the average. Q is kept for the next iteration, and each rank keeps M - P
Qᵀ, so that nothing is lost for good."""

import taper
from taper import distributed as dist
from taper.autograd.grad_mode import no_grad
from taper.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from taper.futures import Future

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """The hook's settings, and what it keeps from one iteration to the next, by the bucket's number."""

    def __init__(
        self,
        process_group,
        matrix_approximation_rank=1,
        start_powerSGD_iter=1000,
        min_compression_rate=2,
        use_error_feedback=True,
        warm_start=True,
        orthogonalization_epsilon=0,
        random_seed=0,
        compression_stats_logging_frequency=10_000,
        batch_tensors_with_same_shape=False,
    ):
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because "
                "PowerSGD can only be applied after the first two iterations in DDP."
            )
        self.process_group, self.matrix_approximation_rank, self.start_powerSGD_iter = (
            process_group,
            matrix_approximation_rank,
            start_powerSGD_iter,
        )
        self.min_compression_rate, self.use_error_feedback, self.warm_start = (
            min_compression_rate,
            use_error_feedback,
            warm_start,
        )
        self.orthogonalization_epsilon, self.random_seed = orthogonalization_epsilon, random_seed
        self.compression_stats_logging_frequency, self.batch_tensors_with_same_shape = (
            compression_stats_logging_frequency,
            batch_tensors_with_same_shape,
        )
        self.error_dict, self.p_memory_dict, self.q_memory_dict = {}, {}, {}
        self.iter = self.total_numel_before_compression = self.total_numel_after_compression = 0

    def maybe_increase_iter(self, bucket):
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self):
        """(how many times less travels, numbers before, after)."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after else 0, before, after

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "process_group"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.process_group = dist.group.WORLD


def _orthonormal(matrix, epsilon):
    """The columns made orthogonal to those before them, and of length one, in place."""
    for i in range(matrix.shape[1]):
        column = matrix[:, i : i + 1]
        column.div_(column.norm() + epsilon if epsilon or not bool((column != 0).any()) else column.norm())
        rest = matrix[:, i + 1 :]
        rest.sub_(column @ (column.t() @ rest))
    return matrix.nan_to_num_()


def _first_q(state, shape, like, index):
    """Random, and the same on all ranks."""
    generator = taper.Generator().manual_seed(state.random_seed + state.iter * 1009 + index)
    return taper.randn(shape, generator=generator).to(dtype=like.dtype, device=like.device)


def _together(tensors, group, divide=1):
    """Sums, or averages, of several tensors in one message, in place."""
    if not tensors:
        return
    flat = taper.cat([t.reshape(-1) for t in tensors])
    dist.all_reduce(flat, group=group)
    for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
        t.copy_((part / divide).view(t.shape))


def _compress(state, index, matrices, group, world):
    """Replaces matrices by what stands for their average."""
    kept = state.q_memory_dict.get(index) if state.warm_start else None
    rank = state.matrix_approximation_rank
    qs = kept or [_first_q(state, (m.shape[1], min(rank, *m.shape)), m, i) for i, m in enumerate(matrices)]
    for q in qs:
        _orthonormal(q, state.orthogonalization_epsilon)
    ps = [m @ q for m, q in zip(matrices, qs)]
    _together(ps, group)
    for p in ps:
        _orthonormal(p, state.orthogonalization_epsilon)
    qs = [m.t() @ p for m, p in zip(matrices, ps)]
    _together(qs, group, world)
    if state.warm_start:
        state.p_memory_dict[index], state.q_memory_dict[index] = ps, qs
    for m, p, q in zip(matrices, ps, qs):
        m.copy_(p @ q.t())
    state.total_numel_before_compression += sum(m.numel() for m in matrices)
    state.total_numel_after_compression += sum(p.numel() + q.numel() for p, q in zip(ps, qs))


def _worth(state, n, m):
    rank = min(n, m, state.matrix_approximation_rank)
    return (n + m) * rank * state.min_compression_rate < n * m


def _with_feedback(state, bucket, compress):
    """What the last iteration left out is added before, and what this one leaves out is kept."""
    group = state.process_group if state.process_group is not None else dist.group.WORLD
    buffer, index = bucket.buffer(), bucket.index()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    with no_grad():
        if state.use_error_feedback and index in state.error_dict:
            buffer.add_(state.error_dict[index])
        before = buffer.clone() if state.use_error_feedback else None
        compress(group, dist.get_world_size(group))
        if state.use_error_feedback:
            state.error_dict[index] = before - buffer
    state.maybe_increase_iter(bucket)
    future = Future()
    future.set_result(buffer)
    return future


def powerSGD_hook(state, bucket):
    """Each gradient of two dimensions or more by itself; what compressing would not shorten is averaged as it is."""

    def compress(group, world):
        matrices, rest = [], []
        for gradient in bucket.gradients():
            matrix = gradient.view(gradient.shape[0], -1) if gradient.dim() > 1 else None
            (matrices if matrix is not None and _worth(state, *matrix.shape) else rest).append(
                gradient if matrix is None else matrix
            )
        _together(rest, group, world)
        _compress(state, bucket.index(), matrices, group, world)

    return _with_feedback(state, bucket, compress)


def batched_powerSGD_hook(state, bucket):
    """All gradients of a bucket as one square matrix."""

    def compress(group, world):
        buffer = bucket.buffer()
        side = int(-(-(buffer.numel() ** 0.5) // 1))
        square = taper.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
        square[: buffer.numel()] = buffer
        _compress(state, bucket.index(), [square.view(side, side)], group, world)
        buffer.copy_(square[: buffer.numel()])

    return _with_feedback(state, bucket, compress)
