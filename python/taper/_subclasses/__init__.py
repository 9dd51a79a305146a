"""torch._subclasses: tensors that have a shape, a dtype and a device, and no elements."""

from taper._subclasses.fake_tensor import (  # noqa: F401
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
