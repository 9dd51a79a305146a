"""torch.utils.mobile_optimizer: there is no mobile runtime; using it says so."""


def optimize_for_mobile(script_module, optimization_blocklist=None, preserved_methods=None, backend="CPU"):
    """Not there."""
    raise NotImplementedError(
        "torch.utils.mobile_optimizer.optimize_for_mobile: Taper has no mobile runtime to optimise for"
    )
