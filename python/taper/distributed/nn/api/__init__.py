"""torch.distributed.nn.api."""
