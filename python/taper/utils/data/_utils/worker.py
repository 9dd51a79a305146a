"""What a loader's worker process does."""


class WorkerInfo:
    """Which worker this is: id, num_workers, seed, and its copy of the dataset."""

    __initialized = False

    def __init__(self, **kwargs):
        self.__dict__.update(kwargs)
        self.__keys = tuple(kwargs)
        self.__initialized = True

    def __setattr__(self, key, value):
        if self.__initialized:
            raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")
        super().__setattr__(key, value)

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{key}={getattr(self, key)}' for key in self.__keys)})"


_worker_info = None


def get_worker_info():
    """In a worker process of a loader: its WorkerInfo. None elsewhere."""
    return _worker_info
