"""torch.multiprocessing.pool: Python's own pool; tensors find their way through it."""

from multiprocessing.pool import Pool  # noqa: F401
from multiprocessing.queues import SimpleQueue  # noqa: F401
