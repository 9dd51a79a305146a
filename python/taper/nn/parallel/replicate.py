"""torch.nn.parallel.replicate: the same module on several devices, for one call. A replica's parameters are copies that
lead back to the module's own, so that gradients from all devices add up there."""

__all__ = ["replicate"]


def _copy(module, device, known, detach):
    """A module like this one, without its hooks' or methods' state being shared by reference to the parameters."""
    if module in known:
        return known[module]
    made = known[module] = module.__new__(type(module))
    made.__dict__ = dict(module.__dict__)
    name = f"cuda:{device}" if isinstance(device, int) else device
    made._parameters = {
        key: p if p is None else (p.detach() if detach else p).to(name) for key, p in module._parameters.items()
    }
    made._buffers = {key: b if b is None else b.to(name) for key, b in module._buffers.items()}
    made._modules = {
        key: child if child is None else _copy(child, device, known, detach) for key, child in module._modules.items()
    }
    return made


def replicate(network, devices, detach=False):
    """The module on each of the devices; the first one's buffers are the module's own where it lives there."""
    return [_copy(network, device, {}, detach) for device in devices]
