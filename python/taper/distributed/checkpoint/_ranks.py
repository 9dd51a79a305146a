"""What ranks tell each other while they save and load: values to all, and failures to all, so that nobody waits for one
that has failed."""

from taper import distributed as dist
from taper.distributed.checkpoint.api import CheckpointException


class Ranks:
    """The ranks of a group, or this process by itself."""

    def __init__(self, group=None, no_dist=False):
        self.together = not no_dist and dist.is_available() and dist.is_initialized()
        self.group = group
        self.rank = dist.get_rank(group) if self.together else 0
        self.size = dist.get_world_size(group) if self.together else 1

    def all(self, what, work):
        """The result of work() on each rank, in order; an error on all ranks where it failed on some."""
        try:
            mine = (work(), None)
        except Exception as error:
            mine = (None, error)
        every = [mine]
        if self.together and self.size > 1:
            every = [None] * self.size
            dist.all_gather_object(every, _sendable(mine), group=self.group)
        failures = {rank: error for rank, (_, error) in enumerate(every) if error is not None}
        if failures:
            raise CheckpointException(f"{what} failed", failures) from mine[1]
        return [result for result, _ in every]


def _sendable(mine):
    """Errors may hold what cannot travel; their words can."""
    result, error = mine
    if error is None:
        return mine
    import pickle

    try:
        pickle.loads(pickle.dumps(error))
        return mine
    except Exception:
        return result, RuntimeError(f"{type(error).__name__}: {error}")
