"""The functions beneath torch.sparse that packages and tests call by their own names."""

from taper import _C
from taper.sparse._make import validate_compressed, validate_coo, validate_indices
from taper.sparse._make import with_dims as _sparse_compressed_tensor_with_dims  # noqa: F401
from taper.sparse._products import broadcast_to as _sparse_broadcast_to  # noqa: F401


def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=None):
    validate_coo(indices, values, size, is_coalesced)


def _validate_sparse_compressed_tensor_args(
    compressed_indices, plain_indices, values, size, layout, check_pinning=None
):
    validate_compressed(compressed_indices, plain_indices, values, size, layout)


def _of(layout):
    def validate(compressed_indices, plain_indices, values, size, check_pinning=None):
        validate_compressed(compressed_indices, plain_indices, values, size, layout)

    return validate


(
    _validate_sparse_csr_tensor_args,
    _validate_sparse_csc_tensor_args,
    _validate_sparse_bsr_tensor_args,
    _validate_sparse_bsc_tensor_args,
) = map(_of, (_C.sparse_csr, _C.sparse_csc, _C.sparse_bsr, _C.sparse_bsc))


def _validate_compressed_sparse_indices(is_crow, compressed_idx, plain_idx, cdim, dim, nnz):
    validate_indices(_C.sparse_csr if is_crow else _C.sparse_csc, compressed_idx, plain_idx, cdim, dim, nnz)
