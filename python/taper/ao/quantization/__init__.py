"""torch.ao.quantization: dynamic quantization of linear and recurrent layers. What needs observers (static,
training-aware) is not there."""

import copy

from taper import float16, nn
from taper._quantized import qint8
from taper.ao.nn.quantized import dynamic

_DYNAMIC = {nn.Linear: dynamic.Linear, nn.LSTM: dynamic.LSTM, nn.GRU: dynamic.GRU}


def _wanted(qconfig_spec):
    """Types and names of modules to exchange."""
    kinds = list(_DYNAMIC) if qconfig_spec is None else list(qconfig_spec)
    for kind in kinds:
        if isinstance(kind, type) and kind not in _DYNAMIC:
            from taper._hook import NotCovered

            raise NotCovered(f"torch.ao.quantization.quantize_dynamic: of {kind.__name__}")
    return kinds


def _exchange(module, prefix, wanted, dtype):
    for name, child in list(module.named_children()):
        path = prefix + name
        if type(child) in _DYNAMIC and (type(child) in wanted or path in wanted):
            setattr(module, name, _DYNAMIC[type(child)].from_float(child, dtype=dtype))
        else:
            _exchange(child, path + ".", wanted, dtype)


def quantize_dynamic(model, qconfig_spec=None, dtype=qint8, mapping=None, inplace=False):
    """The model with linear and recurrent layers whose weights are kept in 8-bit whole numbers (or 16-bit floats)."""
    if dtype is not qint8 and dtype != float16:
        raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please")
    model = model if inplace else copy.deepcopy(model)
    model.eval()
    wanted = _wanted(qconfig_spec)
    if type(model) in _DYNAMIC and type(model) in wanted:
        return _DYNAMIC[type(model)].from_float(model, dtype=dtype)
    _exchange(model, "", wanted, dtype)
    return model
