"""Figures as pictures, and the order of a picture's dims."""

from taper import _C


def figure_to_image(figures, close=True):
    """matplotlib's figures as bytes (C, H, W), or (N, C, H, W) of a list of them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def draw(figure):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        width, height = canvas.get_width_height()
        pixels = _C.tensor(bytearray(canvas.buffer_rgba()), dtype=_C.uint8).view(height, width, 4)
        if close:
            from matplotlib import pyplot

            pyplot.close(figure)
        return pixels[:, :, :3].permute(2, 0, 1)

    return _C._functions["stack"]([draw(figure) for figure in figures]) if isinstance(figures, list) else draw(figures)


def _prepare_video(V):
    """An array (N, T, C, H, W) as (T, H, W, C): the N videos in a grid of rows and columns that are powers of two;
    bytes become 0 to 1."""
    import numpy

    n, t, c, h, w = V.shape
    if V.dtype == numpy.uint8:
        V = numpy.float32(V) / 255.0
    if n & (n - 1):
        more = (1 << n.bit_length()) - n
        V = numpy.concatenate((V, numpy.zeros((more, t, c, h, w))), axis=0)
    rows = 1 << ((V.shape[0].bit_length() - 1) // 2)
    columns = V.shape[0] // rows
    V = V.reshape(rows, columns, t, c, h, w)
    return V.transpose(2, 0, 4, 1, 5, 3).reshape(t, rows * h, columns * w, c)


def make_grid(I, ncols=8):
    """Pictures (N, C, H, W) side by side, `ncols` to a row."""
    import numpy

    assert isinstance(I, numpy.ndarray), "plugin error, should pass numpy array here"
    if I.shape[1] == 1:
        I = numpy.concatenate([I, I, I], 1)
    n, _, h, w = I.shape
    columns = min(n, ncols)
    rows = -(-n // columns)
    canvas = numpy.zeros((3, h * rows, w * columns), dtype=I.dtype)
    for i in range(n):
        y, x = i // columns * h, i % columns * w
        canvas[:, y : y + h, x : x + w] = I[i]
    return canvas


def convert_to_HWC(tensor, input_format):
    """A picture, or several in a grid, as (H, W, 3)."""
    import numpy

    if len(set(input_format)) != len(input_format):
        raise AssertionError(f"You can not use the same dimension shordhand twice. input_format: {input_format}")
    if len(tensor.shape) != len(input_format):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {tensor.shape}, input_format: "
            f"{input_format}"
        )
    input_format = input_format.upper()
    if len(input_format) == 4:
        return make_grid(tensor.transpose([input_format.find(c) for c in "NCHW"])).transpose(1, 2, 0)
    if len(input_format) == 3:
        picture = tensor.transpose([input_format.find(c) for c in "HWC"])
        return numpy.concatenate([picture] * 3, 2) if picture.shape[2] == 1 else picture
    picture = tensor.transpose([input_format.find(c) for c in "HW"])
    return numpy.stack([picture] * 3, 2)
