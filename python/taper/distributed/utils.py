"""torch.distributed.utils: helpers of modules that are spread over ranks, which packages call."""

__all__ = []


def _sync_module_states(
    module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore, broadcast_buffers=True
):
    """One rank's parameters and buffers become every rank's."""
    from taper.nn.parallel._verify import broadcast_coalesced

    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    tensors = [tensor.detach() for name, tensor in named if name not in params_and_buffers_to_ignore]
    broadcast_coalesced(tensors, src, process_group)
