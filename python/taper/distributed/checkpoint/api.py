"""torch.distributed.checkpoint.api: what is raised when ranks could not save or load."""

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Some ranks failed; `failures` says which and of what."""

    def __init__(self, msg, failures):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self):
        return self._failures

    def __str__(self):
        said = "; ".join(
            f"rank {rank}: {type(error).__name__}: {error}" for rank, error in sorted(self._failures.items())
        )
        return f"{self.args[0]} on ranks {sorted(self._failures)}: {said}"
