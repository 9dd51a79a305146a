"""How sparse tensors print."""

from taper import _C
from taper._tensor_str import get_printoptions, printoptions
from taper.sparse._tensor import ROWS, plain

_PLAIN_DTYPES = (_C.float32, _C.int64, _C.bool, _C.complex64)


def _part(name, tensor):
    """name=tensor(...) without dtype and device, its lines moved to where they stand in the whole text."""
    import re

    if tensor.is_meta or tensor.numel() == 0:
        return f"{name}=tensor({'...' if tensor.is_meta else '[]'}, size={tuple(tensor.shape)})"
    indent = len(name) + 8
    with printoptions(**{**get_printoptions(), "linewidth": get_printoptions()["linewidth"] - indent}):
        text = re.sub(r",\s+(dtype|device)=[^,)]*", "", repr(tensor.detach()))
    return name + "=" + re.sub("\n(?!\n)", "\n" + " " * indent, text)


def text(sparse):
    """As PyTorch has it: the parts in lines of their own, then sizes, dtype and history, as many to a line as fit."""
    values, is_coo = plain(sparse), sparse.layout is _C.sparse_coo
    names = ("crow_indices", "col_indices") if sparse.layout in ROWS else ("ccol_indices", "row_indices")
    parts = {"indices": sparse._at} if is_coo else dict(zip(names, (sparse._compressed, sparse._plain)))
    made = "tensor(" + ",\n       ".join(_part(name, part) for name, part in {**parts, "values": values}.items())
    tail = [f"device='{values.device}'"] if values.device.type != "cpu" else []
    tail += [f"size={tuple(sparse.shape)}"] + ([] if values.is_meta else [f"nnz={sparse._nnz()}"])
    if values.dtype not in _PLAIN_DTYPES and values.dtype != _C.get_default_dtype():
        tail.append(f"dtype={values.dtype}")
    tail.append(f"layout={sparse.layout}")
    if values.grad_fn is not None and not sparse.is_leaf:
        tail.append(f"grad_fn=<{values.grad_fn.name()}>")
    elif sparse.requires_grad:
        tail.append("requires_grad=True")
    width, new_line = get_printoptions()["linewidth"], is_coo
    length = len(made) - made.rfind("\n") + 1
    for word in tail:
        if new_line or length + len(word) + 2 > width:
            made, length, new_line = f"{made},\n       {word}", 7 + len(word), False
        else:
            made, length = f"{made}, {word}", length + len(word) + 2
    return made + ")"
