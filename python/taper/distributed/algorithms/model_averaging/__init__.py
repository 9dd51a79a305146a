"""torch.distributed.algorithms.model_averaging: ranks that train by themselves, and take the average of their
parameters now and then."""
