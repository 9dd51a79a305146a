"""torch.distributed.elastic: what scripts use of it, which is to record why they failed."""
