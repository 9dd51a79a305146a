"""Figures as pictures."""
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
