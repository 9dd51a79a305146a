"""torch.accelerator.graphs: calls recorded once and replayed, on whichever accelerator there is. Within `with graph:`
calls are recorded."""

from taper._gpu import graphs as _graphs
from taper.accelerator import _needed, _module_of


class Graph(_graphs.Graph):
    """Calls recorded once and replayed; a with block records on a stream of its own."""

    def __init__(self, keep_graph=False, *, pool=None, capture_error_mode="default"):
        self._kind = _needed()
        self._word = self._kind.upper()
        self._wish = pool, "global" if capture_error_mode == "default" else capture_error_mode
        super().__init__(keep_graph)

    def capture_begin(self, pool=None, capture_error_mode=None):
        super().capture_begin(pool or self._wish[0], capture_error_mode or self._wish[1])

    def __enter__(self):
        self._recording = _module_of(self._kind).graph(self, *self._wish)
        self._recording.__enter__()
        return self

    def __exit__(self, *error):
        return self._recording.__exit__(*error)
