"""gradcheck of functions of sparse tensors: over their values, which the tape knows.

Without `masked`, an element that is not stored counts as a zero that may change, so it is stored first."""

import taper
from taper import _C
from taper.sparse._tensor import Sparse, plain


def _everything(sparse):
    """The same tensor with all of its elements stored."""
    if sparse.layout is _C.sparse_coo:
        full = taper.ones(sparse.shape, device=sparse.device).to_sparse(sparse.sparse_dim())
    else:
        full = taper.ones(sparse.shape, device=sparse.device).to_sparse(
            layout=sparse.layout, blocksize=sparse._blocksize() or None, dense_dim=sparse.dense_dim()
        )
    return sparse.detach().sparse_mask(full)


def over_values(func, inputs, masked, dense_outputs=False):
    """(func, inputs) with values in the place of sparse inputs; a sparse output is an error, or its values."""
    places = [x if masked else _everything(x) for x in inputs if isinstance(x, Sparse)]
    values = [
        plain(x).detach().clone().requires_grad_(given.requires_grad)
        for x, given in zip(places, (x for x in inputs if isinstance(x, Sparse)))
    ]

    def of_values(*args):
        rest = iter(places)
        return _outputs(
            func(*(next(rest)._like(values=arg) if isinstance(x, Sparse) else arg for x, arg in zip(inputs, args))),
            dense_outputs,
        )

    given = iter(values)
    return of_values, tuple(next(given) if isinstance(x, Sparse) else x for x in inputs)


def _outputs(made, dense):
    if isinstance(made, (list, tuple)):
        return tuple(_outputs(x, dense) for x in made)
    if not isinstance(made, Sparse):
        return made
    if not dense:
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )
    return plain(made)


def as_sparse_gradcheck(gradcheck):
    """gradcheck for functions whose inputs or outputs may be sparse."""

    def gradcheck_with_sparse_support(func, inputs, **kwargs):
        inputs = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        func, inputs = over_values(func, inputs, kwargs.pop("masked", False), True)
        return gradcheck(func, inputs, **kwargs)

    return gradcheck_with_sparse_support
