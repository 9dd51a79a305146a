"""torch.distributed._composable.replicate: DistributedDataParallel without a wrapper: the module stays what it is, and
its gradients are averaged."""

from taper.nn.parallel.distributed import DistributedDataParallel

__all__ = ["replicate"]


class DDPModule:
    """What a replicated module has beside its own."""

    def set_requires_gradient_sync(self, requires_gradient_sync):
        """False: backwards add to this process's gradients alone."""
        self.__dict__["_replicated_by"].require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, *args, **kwargs):
        self.__dict__["_replicated_by"].register_comm_hook(*args, **kwargs)


def _names_of(module, ignored):
    """The names of the parameters and buffers of modules inside."""
    inside = {id(child): name for name, child in module.named_modules()}
    return {
        f"{inside[id(one)]}.{name}"
        for one in ignored
        for name, _ in [*one.named_parameters(), *one.named_buffers()]
        if inside.get(id(one))
    }


def replicate(module, ignored_modules=None, **kwargs):
    """Averages the module's gradients over the ranks (of process_group or device_mesh), from now on; gives it back."""
    if isinstance(module, DDPModule):
        raise RuntimeError("replicate should be called at most once on a module")
    if "device_id" in kwargs:
        device = kwargs.pop("device_id")
        kwargs["device_ids"] = None if device is None or getattr(device, "type", None) == "cpu" else [device]
    before = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(
        module, {*before, *_names_of(module, ignored_modules or ())}
    )
    ddp = DistributedDataParallel(module, **kwargs)
    module.__dict__["_replicated_by"] = ddp
    module.__class__ = type(f"DDP{type(module).__name__}", (DDPModule, type(module)), {})
    module.register_forward_pre_hook(lambda module, args, kwargs: ddp._pre_forward(*args, **kwargs), with_kwargs=True)
    module.register_forward_hook(lambda module, args, output: ddp._post_forward(output))
    return module
