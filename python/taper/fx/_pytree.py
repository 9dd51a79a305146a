"""torch.fx._pytree: how graphs take other types apart; torch.utils._pytree knows them all."""

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Kept, and asked where a spec is given with the values."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec):
    """The leaves of a value, in a spec's order."""
    if spec.is_leaf():
        return [pytree]
    taken = SUPPORTED_NODES[spec.type](pytree, spec) if spec.type in SUPPORTED_NODES else _children(pytree, spec)
    return [leaf for child, below in zip(taken, spec.children_specs) for leaf in tree_flatten_spec(child, below)]


def _children(pytree, spec):
    from taper.utils._pytree import SUPPORTED_NODES as nodes

    return [pytree[key] for key in spec.context] if isinstance(pytree, dict) else nodes[spec.type].flatten_fn(pytree)[0]
