"""What TensorBoard shows, as bytes of its protocol buffers. The C library makes them; here is what Python's objects need on the way."""
from taper import _C
from taper.utils.tensorboard._convert_np import as_number


class Summary(bytes):
    """A tensorflow.Summary in its serialised form."""

    def SerializeToString(self):
        return bytes(self)


def scalar(name, tensor, collections=None, new_style=False, double_precision=False):
    """A number."""
    return Summary(_C._summary_scalar(name, as_number(tensor), new_style, double_precision))
