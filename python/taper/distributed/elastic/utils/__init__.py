"""torch.distributed.elastic.utils: see data."""
