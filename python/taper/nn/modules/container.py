"""Modules that hold others: in a row, in a list, under names; and parameters in a list or under names."""

from collections import OrderedDict
from itertools import chain
from operator import index

from taper._C import Tensor
from taper.nn.modules.module import Module, _addindent
from taper.nn.parameter import Parameter


def _index(count, idx):
    """A position from either end, as one from the front."""
    idx = index(idx)
    if not -count <= idx < count:
        raise IndexError(f"index {idx} is out of range")
    return idx % count


def _pairs(what, pairs):
    """The entries of a dict, or of a sequence of pairs."""
    if not hasattr(pairs, "__iter__"):
        raise TypeError(
            f"{what}.update should be called with an iterable of key/value pairs, but got {type(pairs).__name__}"
        )
    if hasattr(pairs, "items"):
        return list(pairs.items())
    what, pairs = what.replace("Parameters", "Parameter"), list(pairs)
    for i, pair in enumerate(pairs):
        if not hasattr(pair, "__iter__"):
            raise TypeError(f"{what} update sequence element #{i} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{what} update sequence element #{i} has length {len(pair)}; 2 is required")
    return pairs


class Container(Module):
    """Children by keyword. Deprecated: Module itself holds children."""

    def __init__(self, **kwargs):
        from warnings import warn

        super().__init__()
        warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in nn.Module. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Holder(Module):
    """What all of them are: children or parameters that _held() names in their order, filled by _fill from what the
    constructor is given."""

    _fill = "update"

    def _take(self, given):
        if given is not None:
            getattr(self, self._fill)(given)

    def _held(self):
        return self._modules

    def __len__(self):
        return len(self._held())


class _Row(_Holder):
    """Children in a row, under their numbers."""

    _fill = "extend"

    def __iter__(self):
        yield from self._modules.values()

    def __getitem__(self, idx):
        return self._part(idx) if isinstance(idx, slice) else self._modules[self._key(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx):
        keys = list(self._modules)
        for gone in keys[idx] if isinstance(idx, slice) else (self._key(idx),):
            delattr(self, gone)
        self._renumber(self)

    def _key(self, idx):
        """The name of the child at a place."""
        return list(self._modules)[_index(len(self), idx)]

    def pop(self, key):
        taken = self[key]
        del self[key]
        return taken

    def append(self, module):
        self.add_module(f"{len(self)}", module)
        return self

    def extend(self, modules):
        for module in list(modules):
            self.append(module)
        return self

    def _put(self, place, module):
        modules = list(self)
        modules.insert(place, module)
        self._renumber(modules)

    def _renumber(self, modules):
        self._modules = {str(i): module for i, module in enumerate(modules)}


class _Dictionary(_Holder):
    """Children or parameters under names."""

    def __iter__(self):
        yield from self._held()

    def __contains__(self, key):
        return key in self._held()

    def keys(self):
        return self._held().keys()

    pop = _Row.pop


class Sequential(_Row):
    """Modules called one after the other."""

    def __init__(self, *args):
        super().__init__()
        for name, module in args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args):
            self.add_module(str(name), module)

    def _part(self, idx):
        return type(self)(OrderedDict(list(self._modules.items())[idx]))

    def _other(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return other

    def __add__(self, other):
        return Sequential(*self, *self._other(other))

    def __iadd__(self, other):
        return self.extend(self._other(other))

    def _check_factor(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other):
        self._check_factor(other)
        return Sequential(*[module for _ in range(other) for module in self])

    __rmul__ = __mul__

    def __imul__(self, other):
        self._check_factor(other)
        return self.extend([module for _ in range(other - 1) for module in list(self)])

    def insert(self, index, module):
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        self._put(index, module)
        return self

    def extend(self, sequential):
        return super().extend(sequential)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Row):
    """A list whose modules are children."""

    def __init__(self, modules=None):
        super().__init__()
        self._take(modules)

    def _part(self, idx):
        return type(self)(list(self)[idx])

    def _key(self, idx):
        return str(_index(len(self), idx))

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(chain(self, other))

    def __repr__(self):
        """Runs of equal modules print once, with their number."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        runs = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = [
            _addindent(f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}", 2) for a, b, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def __dir__(self):
        return [key for key in super().__dir__() if not key.isdigit()]

    def insert(self, index, module):
        self._put(index, module)

    def extend(self, modules):
        if not hasattr(modules, "__iter__"):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        return super().extend(modules)


class ModuleDict(_Dictionary):
    """A dict whose modules are children."""

    def __init__(self, modules=None):
        super().__init__()
        self._take(modules)

    def __getitem__(self, key):
        return self._held()[key]

    def __setitem__(self, key, module):
        self.add_module(name=key, module=module)

    def __delitem__(self, key):
        self._held().pop(key)

    def clear(self):
        self._held().clear()

    def items(self):
        return self._held().items()

    def values(self):
        return self._held().values()

    def update(self, modules):
        for pair in _pairs("ModuleDict", modules):
            self.__setitem__(*pair)


def _wrapped(value):
    """Tensors as parameters, all else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(key, value, dtype):
    if not isinstance(value, Tensor):
        return f"({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = "" if value.device.type == "cpu" else f" ({value.device})"
    return f"({key}): {kind} containing: [{dtype(value)} of size {'x'.join(map(str, value.shape))}{where}]"


class ParameterList(_Holder):
    """A list whose tensors are parameters."""

    _fill = "extend"

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        self._take(values)

    def _held(self):
        return range(self._size)

    def __getitem__(self, idx):
        if not isinstance(idx, slice):
            return getattr(self, str(_index(len(self), idx)))
        return type(self)(map(self.__getitem__, self._held()[idx]))

    def __setitem__(self, idx, value):
        setattr(self, str(_index(len(self), idx)), _wrapped(value))

    def __iter__(self):
        return map(self.__getitem__, self._held())

    def __iadd__(self, values):
        return self.extend(values)

    def append(self, value):
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        if not hasattr(values, "__iter__") or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for new in values:
            self.append(new)
        return self

    def extra_repr(self):
        return "\n".join("  " + _describe(i, value, lambda t: t.dtype) for i, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(_Dictionary):
    """A dict whose tensors are parameters; _keys has their order."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        self._take(parameters)

    def _held(self):
        return self._keys

    def _attribute(self, key):
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                f"'{type(key).__name__}'). Open an issue on github if you need non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._attribute(key))

    def __setitem__(self, key, value):
        self._keys.setdefault(key)
        setattr(self, self._attribute(key), _wrapped(value))

    def __delitem__(self, key):
        self._keys.pop(key)
        delattr(self, self._attribute(key))

    def __reversed__(self):
        return reversed(list(self._keys))

    def copy(self):
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key, default=None):
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self):
        for key in list(self._keys):
            del self[key]

    def popitem(self):
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key, default=None):
        return self[key] if key in self._keys else default

    def fromkeys(self, keys, default=None):
        return ParameterDict((key, default) for key in keys)

    def items(self):
        return ((key, self[key]) for key in self._keys)

    def values(self):
        return (self[key] for key in self._keys)

    def update(self, parameters):
        pairs = _pairs("ParametersDict", parameters)
        for key, value in (
            sorted(pairs) if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict) else pairs
        ):
            self[key] = value

    def extra_repr(self):
        return "\n".join("  " + _describe(key, value, lambda t: t.type()) for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        return self.copy().__ior__(other)

    def __ror__(self, other):
        return other.copy().__ior__(self)

    def __ior__(self, other):
        self.update(parameters=other)
        return self
