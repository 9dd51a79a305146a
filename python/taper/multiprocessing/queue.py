"""torch.multiprocessing.queue: Python's own queues; tensors find their way through them."""

from multiprocessing.queues import Queue, SimpleQueue  # noqa: F401
