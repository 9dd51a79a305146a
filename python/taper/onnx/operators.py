"""torch.onnx.operators: shapes as tensors."""

import taper


def reshape_from_tensor_shape(x, shape):
    """x in the shape that a tensor of integers holds."""
    return x.reshape(shape.tolist())


shape_as_tensor = taper._shape_as_tensor
