"""torch.vmap by the name that it had at first."""


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    from taper._functorch.vmap import vmap

    return vmap(func, in_dims, out_dims)
