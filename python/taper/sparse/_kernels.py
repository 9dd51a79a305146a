"""The library's operators on the parts of sparse tensors (tables/operators/sparse.op)."""

from taper import _C

globals().update(_C._namespace("sparse"))
csr_to_coo = _C._namespace("torch")["_convert_indices_from_csr_to_coo"]
coo_to_csr = _C._namespace("torch")["_convert_indices_from_coo_to_csr"]
