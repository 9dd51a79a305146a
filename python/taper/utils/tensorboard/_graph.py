"""A model as a graph for TensorBoard: one call is watched, and each operator becomes a node in the scope of the module
that called it."""

from taper import _C
from taper.autograd.grad_mode import no_grad
from taper.overrides import DisableTorchFunctionSubclass


class _Watched(_C.Tensor):
    """A tensor whose operators are noted by the watcher it came from."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        watcher = _Watcher.now
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result if watcher is None else watcher.note(func, (args, kwargs or {}), result)


def _tensors(tree):
    """The tensors in nested tuples, lists and dicts."""
    if isinstance(tree, _C.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _tensors(item)
    elif isinstance(tree, dict):
        yield from _tensors(tuple(tree.values()))


def _replace(tree, function):
    """The same tree with another tensor in place of each."""
    if isinstance(tree, _C.Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: _replace(value, function) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_replace(item, function) for item in tree))
    return type(tree)(_replace(item, function) for item in tree) if isinstance(tree, (tuple, list)) else tree


class _Watcher:
    now = None  # the one at work

    def __init__(self, model):
        self.nodes, self.taken, self.kept = [], set(), []
        self.names = {}  # id of a tensor -> the node that made it
        self.scopes = [type(model).__name__]
        self.paths = {}  # id of a parameter or buffer -> where it stands
        self.handles = []
        places = {"": self.scopes[0]}
        for name, module in model.named_modules():
            if name:
                parent, _, last = name.rpartition(".")
                scope = f"{type(module).__name__}[{last}]"
                places[name] = f"{places[parent]}/{scope}"
                self._follow(module, scope)
            for own, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
                self.paths.setdefault(id(tensor), f"{places[name]}/{own}")

    def _follow(self, module, scope):
        self.handles.append(module.register_forward_pre_hook(lambda *_: self.scopes.append(scope)))
        self.handles.append(module.register_forward_hook(lambda *_: self.scopes.pop() and None))

    def _free_name(self, name):
        number, free = 0, name
        while free in self.taken:
            number += 1
            free = f"{name}_{number}"
        self.taken.add(free)
        return free

    def _add(self, name, op, inputs, tensors, detail=None):
        name = self._free_name(name)
        self.nodes.append((name, op, inputs, None, detail, [tuple(tensor.shape) for tensor in tensors]))
        for tensor in tensors:
            self.names[id(tensor)] = name
            self.kept.append(tensor)  # its id stays its own
        return name

    def watch(self, tensor):
        """An input of the model."""
        watched = tensor.as_subclass(_Watched)
        self._add("input/x", "IO Node", [], [watched])
        return watched

    def _source(self, tensor):
        if id(tensor) not in self.names:
            path = self.paths.get(id(tensor))
            if path is None:
                self._add("/".join([*self.scopes, "constant"]), "Constant", [], [tensor])
            else:
                self._add(path, "Parameter", [], [tensor])
        return self.names[id(tensor)]

    def note(self, func, arguments, result):
        """A call of an operator; what it returns is watched from here on."""
        if next(_tensors(result), None) is None:
            return result
        inputs = [self._source(tensor) for tensor in _tensors(arguments)]
        result = _replace(
            result, lambda tensor: tensor if isinstance(tensor, _Watched) else tensor.as_subclass(_Watched)
        )
        op = func.__name__.strip("_") or func.__name__
        settings = ", ".join(
            f"{key}={value}" for key, value in arguments[1].items() if not isinstance(value, _C.Tensor)
        )
        self._add("/".join([*self.scopes, op]), op, inputs, list(_tensors(result)), settings or None)
        return result

    def finish(self, result):
        for tensor in _tensors(result):
            self._add("output/output", "IO Node", [self._source(tensor)], [tensor])
        return _C._summary_graph(self.nodes)


def graph(model, inputs, verbose=False, use_strict_trace=False):
    """The graph's bytes (tensorflow.GraphDef)."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    watcher = _Watcher(model)
    _Watcher.now = watcher
    try:
        with no_grad():
            result = model(*_replace(tuple(inputs), watcher.watch))
        if use_strict_trace and isinstance(result, dict):
            raise RuntimeError(
                "Encountering a dict at the output of the tracer might cause the trace to be incorrect, this is only "
                "valid if the container structure does not change based on the module's inputs. Consider using a "
                "constant container instead, or call with use_strict_trace=False."
            )
        message = watcher.finish(result)
    finally:
        _Watcher.now = None
        for handle in watcher.handles:
            handle.remove()
    if verbose:
        for name, op, sources, _, _, shapes in watcher.nodes:
            print(f"{name} = {op}({', '.join(sources)}) -> {', '.join(map(str, shapes))}")
    return message
