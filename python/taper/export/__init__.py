"""torch.export: a module's forward as a graph without Python behind it, in files that Taper and C programs run (tp_compiled_load)."""
import json

import taper._C as _C
from taper._dynamo import exc
from taper.nn.modules.module import Module

__all__ = ["Constraint", "Dim", "dims", "draft_export", "export", "ExportedProgram", "load", "register_dataclass", "save"]


class _Dim(int):
    """A dimension whose size may change, by name."""

    def __new__(cls, name, min=None, max=None):
        made = super().__new__(cls, 0)
        made.__name__, made.min, made.max = name, min, max
        return made


class Dim:
    """Dim("batch", min=1, max=64), Dim.AUTO, Dim.DYNAMIC, Dim.STATIC: what export is told of a dimension."""
    AUTO, DYNAMIC, STATIC = "AUTO", "DYNAMIC", "STATIC"

    def __new__(cls, name, *, min=None, max=None):
        return _Dim(name, min, max)


Constraint = _Dim


def dims(*names, min=None, max=None):
    """Several dimensions at once."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def register_dataclass(cls, *, serialized_type_name=None):
    """Lets a dataclass be an argument."""
    from taper.utils import _pytree
    if hasattr(_pytree, "register_dataclass"):
        _pytree.register_dataclass(cls)


def _flatten(o, leaves):
    """The form of an object as lists and plain values, its tensors in `leaves`."""
    if isinstance(o, _C.Tensor if hasattr(_C, "Tensor") else ()):
        leaves.append(o)
        return {"tensor": len(leaves) - 1}
    if isinstance(o, dict):
        return {"dict": [[key, _flatten(value, leaves)] for key, value in o.items()]}
    if isinstance(o, (list, tuple)):
        return {"list" if isinstance(o, list) else "tuple": [_flatten(value, leaves) for value in o]}
    if o is None or isinstance(o, (bool, int, float, str)):
        return {"plain": o}
    raise exc.UserError(None, f"torch.export: an object of type {type(o).__name__} cannot be part of an exported call")


def _build(form, leaves):
    (kind, held), = form.items()
    if kind == "tensor":
        return leaves[held]
    if kind == "dict":
        return {key: _build(value, leaves) for key, value in held}
    if kind == "plain":
        return held
    return (list if kind == "list" else tuple)(_build(value, leaves) for value in held)


class _Runs(Module):
    """What ExportedProgram.module() gives: calls run the graph."""

    def __init__(self, program):
        super().__init__()
        self.__dict__["_program"] = program
        if program._module is not None:
            for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.__dict__[name] = program._module.__dict__[name]

    def forward(self, *args, **kwargs):
        return self._program._run(args, kwargs)

    def train(self, mode=True):
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self):
        raise NotImplementedError("Calling eval() is not supported yet.")


class ExportedProgram:
    """A graph, the form of its arguments and results, and the module it came from, if that is here."""

    def __init__(self, graph, form, result, module=None, example_inputs=None, dynamic=False):
        self._graph, self._form, self._result, self._module, self._dynamic = graph, form, result, module, dynamic
        self.example_inputs, self.range_constraints = example_inputs, {}

    def module(self, check_guards=True):
        return _Runs(self)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def _run(self, args, kwargs):
        leaves = []
        form = _flatten([list(args), kwargs], leaves)
        if form != self._form:
            raise AssertionError("Guard failed: the arguments do not have the form that was exported")
        for i, ((dtype, shape), x) in enumerate(zip(_C._graph_about(self._graph)[0], leaves)):
            if x.shape != shape or x.dtype != dtype:
                if self._dynamic and self._module is not None and x.dtype == dtype and x.dim() == len(shape):
                    return self._module(*args, **kwargs)
                raise AssertionError(f"Guard failed: tensor {i} of the arguments is {x.dtype} of shape {list(x.shape)}, expected {dtype} of shape {list(shape)}")
        return _build(self._result, _C._graph_run(self._graph, [x if x.is_contiguous() else x.contiguous() for x in leaves]))

    @property
    def state_dict(self):
        return {} if self._module is None else self._module.state_dict()

    def named_parameters(self):
        return iter(()) if self._module is None else self._module.named_parameters()

    def named_buffers(self):
        return iter(()) if self._module is None else self._module.named_buffers()

    def parameters(self):
        return (p for _, p in self.named_parameters())

    def buffers(self):
        return (b for _, b in self.named_buffers())

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program itself: its graph is made of the library's kernels."""
        return self

    def __repr__(self):
        return f"ExportedProgram({_C._graph_about(self._graph)[1]} steps)"


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """The module's forward on these arguments as a graph. What cannot be repeated without Python is an error that names the line."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, (list, tuple)):
        raise exc.UserError(None, f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    import taper
    kwargs, leaves = dict(kwargs or {}), []
    form = _flatten([list(args), kwargs], leaves)
    plain = _build(form, [x.detach().contiguous() for x in leaves])
    captured = _C.Captured(mod, mod)
    with taper.no_grad():
        result, why, where = captured.capture(*plain[0], **plain[1])
        if why is not None and where is None:
            result, why, where = captured.capture(*plain[0], **plain[1])
    if why is not None:
        raise exc.Unsupported(f"{where + ': ' if where else ''}{why}")
    return ExportedProgram(captured.newest(), form, _flatten(result, []), mod, (tuple(args), kwargs), dynamic_shapes is not None)


draft_export = export


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes the program: the graph with its weights. tp_compiled_load reads it in C."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    note = json.dumps({"form": ep._form, "result": ep._result, "extra_files": {key: value.decode() if isinstance(value, bytes) else value for key, value in (extra_files or {}).items()}})
    if not hasattr(f, "write"):
        return _C._graph_save(ep._graph, _path(f), note)
    import os
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.pt2")
        _C._graph_save(ep._graph, path, note)
        with open(path, "rb") as written:
            f.write(written.read())


def load(f, *, extra_files=None, expected_opset_version=None):
    """Brings back what save wrote. Nothing in the file is executed."""
    if hasattr(f, "read"):
        import os
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.pt2")
            with open(path, "wb") as copy:
                copy.write(f.read())
            return load(path, extra_files=extra_files)
    graph, note = _C._graph_load(_path(f))
    try:
        about = json.loads(note)
        program = ExportedProgram(graph, about["form"], about["result"])
    except (TypeError, ValueError, KeyError):
        raise RuntimeError("the file holds a graph, but not one that torch.export.save wrote") from None
    for key, value in about.get("extra_files", {}).items():
        if extra_files is not None and key in extra_files:
            extra_files[key] = value
    return program


def _path(f):
    import os
    return os.fspath(f)
