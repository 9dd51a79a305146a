"""torch._prims_common: what PyTorch's tests of out= ask of its Python re-implementations, of which there are none
here."""
