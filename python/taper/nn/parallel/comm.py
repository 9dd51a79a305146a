"""torch.nn.parallel.comm: another name of torch.cuda.comm."""

from taper.cuda.comm import broadcast, broadcast_coalesced, gather, reduce_add, reduce_add_coalesced, scatter

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]
