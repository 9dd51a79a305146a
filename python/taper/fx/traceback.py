"""torch.fx.traceback: what each node of a graph came from; nothing is kept here."""

from contextlib import contextmanager

current_meta = {}


@contextmanager
def preserve_node_meta(enable=True):
    """Keeps what nodes know of their origin within it; there is nothing to keep."""
    yield


@contextmanager
def set_current_meta(node, pass_name=""):
    yield


@contextmanager
def annotate(annotation_dict):
    yield


def has_preserved_node_meta():
    return False


def get_current_meta():
    return current_meta


def format_stack():
    """The Python stack, as lines."""
    import traceback

    return traceback.format_list(traceback.extract_stack()[:-1])
