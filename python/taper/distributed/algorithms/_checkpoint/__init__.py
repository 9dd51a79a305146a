"""torch.distributed.algorithms._checkpoint: modules whose activations are computed again in the backward."""
