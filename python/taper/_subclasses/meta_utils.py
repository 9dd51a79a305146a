"""torch._subclasses.meta_utils: are two tensors alike but for their values?"""


def assert_metadata_eq(assert_eq, m1, m2, *, skip_symbolic=False, skip_leaf=False):
    """Compares dtype, shape, strides and place in the graph by `assert_eq`, and gradients likewise."""
    assert_eq(m1.dtype, m2.dtype)
    if not skip_symbolic:
        assert_eq(m1.shape, m2.shape)
    assert_eq(m1.requires_grad, m2.requires_grad)
    if not skip_leaf:
        assert_eq(m1.is_leaf, m2.is_leaf)
    assert_eq(m1.layout, m2.layout)
    for name in ("is_sparse", "is_inference", "is_conj", "is_neg"):
        first, second = getattr(m1, name), getattr(m2, name)
        assert_eq(first() if callable(first) else first, second() if callable(second) else second)
    assert_eq(m1._grad is not None, m2._grad is not None)
    if m1._grad is not None:
        assert_metadata_eq(assert_eq, m1._grad, m2._grad, skip_symbolic=skip_symbolic, skip_leaf=skip_leaf)
    if not skip_symbolic and not m1.is_sparse:
        assert_eq(m1.stride(), m2.stride())
        assert_eq(m1.storage_offset(), m2.storage_offset())
        assert_eq(m1._base is not None, m2._base is not None)
