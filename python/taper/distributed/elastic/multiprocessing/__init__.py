"""torch.distributed.elastic.multiprocessing: see errors."""

from taper.distributed.elastic.multiprocessing import errors  # noqa: F401
