"""torch.utils.data.graph: which pipes a pipe reads from."""

from functools import partial

__all__ = ["traverse", "traverse_dps"]


def _found(value, pipes, depth=0):
    """The pipes in a value: itself, or in containers, bound methods and partial functions, without those that they read
    from."""
    from taper.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

    if isinstance(value, (IterDataPipe, MapDataPipe)):
        if all(value is not other for other in pipes):
            pipes.append(value)
    elif depth > 4:
        return pipes
    elif isinstance(value, dict):
        _found(list(value.values()), pipes, depth + 1)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            _found(item, pipes, depth + 1)
    elif isinstance(value, partial):
        _found([value.func, value.args, value.keywords], pipes, depth + 1)
    elif getattr(value, "__self__", None) is not None and callable(value):
        _found(value.__self__, pipes, depth + 1)
    return pipes


def _traverse(pipe, above):
    sources = [source for source in _found(vars(pipe), []) if id(source) not in above and source is not pipe]
    graph = {}
    for source in sources:
        graph.update(_traverse(source, above | {id(pipe)}))
    return {id(pipe): (pipe, graph)}


def traverse_dps(datapipe):
    """{id: (pipe, the same of those it reads from)}."""
    return _traverse(datapipe, frozenset())


def traverse(datapipe, only_datapipe=None):
    return traverse_dps(datapipe)
