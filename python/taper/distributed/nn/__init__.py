"""torch.distributed.nn: collectives that can be differentiated."""
from taper.distributed.nn import functional  # noqa: F401
from taper.distributed.nn.functional import all_gather, all_reduce, all_to_all, all_to_all_single, broadcast, gather, reduce, reduce_scatter, scatter  # noqa: F401
