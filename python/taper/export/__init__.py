"""torch.export: a module's forward as a graph without Python behind it, in files that Taper and C programs run
(tp_compiled_load)."""

import json

import taper._C as _C
from taper._dynamo import exc
from taper.export.graph_signature import ExportGraphSignature
from taper.nn.modules.module import Module
from taper.nn.parameter import Parameter

__all__ = [
    "Constraint",
    "Dim",
    "dims",
    "draft_export",
    "export",
    "ExportedProgram",
    "ExportGraphSignature",
    "load",
    "register_dataclass",
    "save",
]


class _Dim(int):
    """A dimension whose size may change, by name; also a multiple of one, and more or less by a number: the size is
    factor * n + offset, where n is the root's."""

    def __new__(cls, name, min=None, max=None, root=None, factor=1, offset=0):
        made = super().__new__(cls, 0)
        made.__name__, made.min, made.max, made.root, made.factor, made.offset = (
            name,
            min,
            max,
            made if root is None else root,
            factor,
            offset,
        )
        return made

    def _derived(self, factor, offset):
        text = (
            (f"{factor}*" if factor != 1 else "")
            + self.root.__name__
            + (f" {'+' if offset > 0 else '-'} {abs(offset)}" if offset else "")
        )
        return _Dim(text, root=self.root, factor=factor, offset=offset)

    def __mul__(self, other):
        if type(other) is not int or other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return self._derived(self.factor * other, self.offset * other)

    def __add__(self, other):
        if type(other) is not int:
            raise NotImplementedError(
                f"Attempted to add {other} to {self.__name__}, where an integer was expected. "
                "(Only increasing linear operations with integer coefficients are supported.)"
            )
        return self._derived(self.factor, self.offset + other)

    def __sub__(self, other):
        return self + -other

    __rmul__, __radd__ = __mul__, __add__

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other


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
    ((kind, held),) = form.items()
    if kind == "tensor":
        return leaves[held]
    if kind == "dict":
        return {key: _build(value, leaves) for key, value in held}
    if kind == "plain":
        return held
    return (list if kind == "list" else tuple)(_build(value, leaves) for value in held)


class _Runs(Module):
    """What ExportedProgram.module() gives: calls run the graph; parameters and buffers are those that it uses."""

    def __init__(self, program):
        super().__init__()
        self.__dict__["_program"] = program
        if program._module is not None:
            for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.__dict__[name] = program._module.__dict__[name]
        else:
            _grow(self, program)

    def forward(self, *args, **kwargs):
        return self._program._run(args, kwargs)

    def train(self, mode=True):
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self):
        raise NotImplementedError("Calling eval() is not supported yet.")


def _grow(root, program):
    """Gives a module the program's tensors, in children as their names say."""
    for name, tensor in program._tensors.items():
        *path, last = name.split(".")
        at = root
        for part in path:
            if part not in at._modules:
                at.add_module(part, Module())
            at = at._modules[part]
        if name in program._parameters:
            at._parameters[last] = tensor
        else:
            at._buffers[last] = tensor
            at._non_persistent_buffers_set.update([last] if name in program._hidden else [])


class _Sizes:
    """The sizes that may change: symbols, where they are in the inputs, and how sizes among the results follow them;
    the graph does so by itself."""

    def __init__(self, symbols, places, results):
        # {name: [size, least, most]}, [[[name, factor, offset] or None per dim] per tensor], rules() of _document
        self.symbols, self.places, self.results = symbols, places, results

    def of(self, leaves):
        """{name: size} of these inputs. An error where one is out of bounds or two do not agree."""
        found = {}
        for i, (x, names) in enumerate(zip(leaves, self.places)):
            for d, place in enumerate(names):
                if place is None:
                    continue
                name, factor, offset = place
                _, least, most = self.symbols[name]
                size, rest = divmod(x.shape[d] - offset, factor)
                if rest:
                    raise AssertionError(
                        f"Guard failed: dim {d} of tensor {i} of the arguments is {x.shape[d]}, expected {factor} * "
                        f"{name} + {offset}"
                    )
                if found.setdefault(name, size) != size or size < (least or 0) or (most is not None and size > most):
                    raise AssertionError(
                        f"Guard failed: dim {d} of tensor {i} of the arguments ({name}) is {size}, expected "
                        + (
                            f"{found[name]}"
                            if found[name] != size
                            else f"{least or 0} to {'any' if most is None else most}"
                        )
                    )
        return found


class ExportedProgram:
    """A graph, the form of its arguments and results, the tensors it uses by name, and the module it came from, if that
    is here."""

    def __init__(self, graph, about, module=None, example_inputs=None, rest=None, base=None):
        self._graph, self._about, self._module, self._rest = graph, about, module, rest or {}
        self._form, self._result = about["form"], about["result"]
        self._sizes = _Sizes(**about["sizes"]) if about.get("sizes") else None
        self._parameters, self._hidden = set(about["parameters"]), set(about["hidden"])
        self._base, self._fx = base, None
        self.example_inputs = example_inputs
        self.range_constraints = (
            {} if self._sizes is None else {name: tuple(bounds) for name, (_, *bounds) in self._sizes.symbols.items()}
        )
        self._tensors = self._name_tensors() if module is None else None

    def _name_tensors(self):
        """Of a program from a file: {name: tensor}, those that the graph uses as they are in it."""
        used = dict(_C._graph_tensors(self._graph))
        found = {name: used[i] for i, name in self._about["names"] if i in used}
        found.update(self._rest)
        for name in self._parameters:
            if name in found and not isinstance(found[name], Parameter):
                found[name] = Parameter(found[name], requires_grad=False)
        order = {name: i for i, name in enumerate(self._about["order"])}
        return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))

    def module(self, check_guards=True):
        return _Runs(self)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def _run(self, args, kwargs):
        leaves = []
        form = _flatten([list(args), kwargs], leaves)
        if form != self._form:
            raise AssertionError("Guard failed: the arguments do not have the form that was exported")
        graph, sizes = self._graph, {} if self._sizes is None else self._sizes.of(leaves)
        for i, ((dtype, shape), x) in enumerate(zip(_C._graph_about(graph)[0], leaves)):
            fixed = (
                [
                    n if place is None else sizes[place[0]] * place[1] + place[2]
                    for n, place in zip(shape, self._sizes.places[i])
                ]
                if sizes
                else list(shape)
            )
            if x.dtype != dtype or list(x.shape) != fixed:
                raise AssertionError(
                    f"Guard failed: tensor {i} of the arguments is {x.dtype} of shape {list(x.shape)}, expected "
                    f"{dtype} of shape {fixed}"
                )
        result = self._result
        if sizes and self._sizes.results:
            from taper.export import _document

            result = _document.resized(
                {"result": result},
                self._sizes.results,
                {name: size - self._sizes.symbols[name][0] for name, size in sizes.items()},
            )["result"]
        return _build(result, _C._graph_run(graph, [x if x.is_contiguous() else x.contiguous() for x in leaves]))

    # ---- What is in it ----
    def _names(self):
        kinds = {
            name: ("p_" if name in self._parameters else "b_") + name.replace(".", "_")
            for _, name in self._about["names"]
        }
        return {i: kinds[name] for i, name in self._about["names"]}, {kind: name for name, kind in kinds.items()}

    @property
    def graph_module(self):
        """The graph as nodes of torch.fx, to look at."""
        if self._fx is None:
            from taper import fx
            from taper.export import _document

            self._base = self._base or _document.read(self._graph)
            self._fx = fx.GraphModule(Module(), _document.nodes(self._base, self._names()[0], self._about["inputs"]))
        return self._fx

    @property
    def graph(self):
        return self.graph_module.graph

    @property
    def graph_signature(self):
        by_kind = self._names()[1]
        parameters, buffers = (
            {kind: name for kind, name in by_kind.items() if (name in self._parameters) == which}
            for which in (True, False)
        )
        outputs = [getattr(node, "name", str(node)) for node in list(self.graph.nodes)[-1].args[0]]
        return ExportGraphSignature(parameters, buffers, self._about["inputs"], outputs, self._hidden)

    @property
    def state_dict(self):
        if self._module is not None:
            return self._module.state_dict()
        return {name: tensor.detach() for name, tensor in self._tensors.items() if name not in self._hidden}

    def named_parameters(self):
        return (
            self._module.named_parameters()
            if self._module is not None
            else ((name, t) for name, t in self._tensors.items() if name in self._parameters)
        )

    def named_buffers(self):
        return (
            self._module.named_buffers()
            if self._module is not None
            else ((name, t) for name, t in self._tensors.items() if name not in self._parameters)
        )

    def parameters(self):
        return (p for _, p in self.named_parameters())

    def buffers(self):
        return (b for _, b in self.named_buffers())

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program itself: its graph is made of the library's kernels."""
        return self

    def __str__(self):
        return (
            f"ExportedProgram:\n    {self.graph_module.code.strip()}\nGraph signature: {self.graph_signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    def __repr__(self):
        return f"ExportedProgram({_C._graph_about(self._graph)[1]} steps)"


# ---- Dimensions that may change ----
def _argument_names(mod, args, kwargs):
    from inspect import Parameter as Kind, signature

    names = []
    try:
        for name, kind in signature(mod.forward).parameters.items():
            names += (
                [f"{name}_{i}" for i in range(len(args) - len(names))] if kind.kind is Kind.VAR_POSITIONAL else [name]
            )
    except (TypeError, ValueError):
        pass
    return (names + [f"args_{i}" for i in range(len(names), len(args))])[: len(args)] + list(kwargs)


def _leaf_specs(o, spec, found):
    """The spec of each tensor of o, in the order of _flatten."""
    if isinstance(o, _C.Tensor):
        found.append(spec)
    elif isinstance(o, dict):
        for key, value in o.items():
            _leaf_specs(value, spec.get(key) if isinstance(spec, dict) else None, found)
    elif isinstance(o, (list, tuple)):
        for i, value in enumerate(o):
            _leaf_specs(value, spec[i] if isinstance(spec, (list, tuple)) and i < len(spec) else None, found)


def _symbols(args, kwargs, names, given):
    """{name: [size, least, most]} and [[[name, factor, offset] or None per dim] per tensor] of what dynamic_shapes
    says."""
    by_name = dict(given) if isinstance(given, dict) else dict(zip(names, given))
    specs, leaves, symbols, places = [], [], {}, []
    for name, o in zip(names, [*args, *kwargs.values()]):
        _leaf_specs(o, by_name.get(name), specs)
        _flatten(o, leaves)
    for x, spec in zip(leaves, specs):
        dims = [
            spec.get(d, spec.get(d - x.dim()))
            if isinstance(spec, dict)
            else spec[d]
            if isinstance(spec, (list, tuple)) and d < len(spec)
            else None
            for d in range(x.dim())
        ]
        places.append([])
        for d, dim in enumerate(dims):
            root = dim.root if isinstance(dim, _Dim) else None
            named = (
                root.__name__ if root is not None else f"s_{x.shape[d]}_{d}" if dim in (Dim.AUTO, Dim.DYNAMIC) else None
            )
            factor, offset = (dim.factor, dim.offset) if root is not None else (1, 0)
            places[-1].append(None if named is None else [named, factor, offset])
            if named is None:
                continue
            size, rest = divmod(x.shape[d] - offset, factor)
            if rest:
                raise exc.UserError(
                    None, f"torch.export: dimension {dim.__name__} cannot be {x.shape[d]}, which an example input has"
                )
            if symbols.setdefault(named, [size, getattr(root, "min", None), getattr(root, "max", None)])[0] != size:
                raise exc.UserError(
                    None,
                    f"torch.export: dimension {named} has sizes {symbols[named][0]} and {size} in the example inputs",
                )
    return symbols, places


def _capture(mod, form, leaves):
    """(result, graph) of a call, which leaves the module's buffers as they were."""
    import taper

    args, kwargs = _build(form, [x.detach().contiguous() for x in leaves])
    captured, buffers = (
        _C.Captured(mod, mod),
        [(b, b.clone()) for b in (mod.buffers() if hasattr(mod, "_buffers") else ())],
    )
    with taper.no_grad():
        try:
            result, why, where = captured.capture(*args, **kwargs)
            if why is not None and where is None:
                result, why, where = captured.capture(*args, **kwargs)
        finally:
            for b, before in buffers:
                b.copy_(before)
    if why is not None:
        raise exc.Unsupported(f"{where + ': ' if where else ''}{why}")
    return result, captured.newest()


def _larger(leaves, places, by):
    """The inputs with each dim of a symbol larger by by[symbol]: elements from the beginning come again."""
    import taper

    for x, names in zip(leaves, places):
        for d, place in enumerate(names):
            if place is not None and by.get(place[0]):
                x = x.index_select(
                    d, taper.arange(x.shape[d] + by[place[0]] * place[1], device=x.device) % max(x.shape[d], 1)
                )
        yield x


def _follow(mod, form, leaves, symbols, places):
    """The result and the graph at the base's sizes, its document, and what a program keeps of the sizes. A graph that
    does not follow them is an error that says so."""
    from taper.export import _document

    base = {name: max(0, 3 - size) for name, (size, *_) in symbols.items()}  # sizes of 0 and 1 are not like others
    leaves = list(_larger(leaves, places, base))
    symbols = {name: [size + base[name], least, most] for name, (size, least, most) in symbols.items()}
    steps = {name: 2 + i for i, name in enumerate(symbols)}
    result, graph = _capture(mod, form, leaves)
    document = _document.read(graph)

    def at(by):
        if not any(by.values()):
            return {**document, "result": _flatten(result, [])}
        other, larger = _capture(mod, form, list(_larger(leaves, places, by)))
        return {**_document.read(larger), "result": _flatten(other, [])}

    rules = _document.rules(at, steps)
    if rules is None:
        raise exc.UserError(
            None,
            f"torch.export: what is computed does not follow the sizes of {', '.join(symbols)} in a way that can be "
            "written down; export it without dynamic_shapes",
        )
    of_graph, of_result = ([rule for rule in rules if (rule[0][0] == "result") is which] for which in (False, True))
    document["sizes"] = _document.sizes(symbols, places, of_graph)
    return (
        result,
        _document.graph_of(document, graph),
        _document.current(document, graph),
        {"symbols": symbols, "places": places, "results": of_result},
    )


def export(
    mod,
    args,
    kwargs=None,
    *,
    dynamic_shapes=None,
    strict=False,
    preserve_module_call_signature=(),
    prefer_deferred_runtime_asserts_over_guards=False,
):
    """The module's forward on these arguments as a graph. What cannot be repeated without Python is an error that names
    the line. dynamic_shapes names the dimensions whose sizes may change: the graph follows them, from files too."""
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, (list, tuple)):
        raise exc.UserError(None, f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    kwargs, leaves = dict(kwargs or {}), []
    form = _flatten([list(args), kwargs], leaves)
    names = _argument_names(mod, args, kwargs)
    symbols, places = _symbols(args, kwargs, names, dynamic_shapes) if dynamic_shapes else ({}, [])
    result, graph, document, sizes = (
        _follow(mod, form, leaves, symbols, places) if symbols else (*_capture(mod, form, leaves), None, None)
    )
    return ExportedProgram(
        graph,
        {
            "form": form,
            "result": _flatten(result, []),
            "sizes": sizes,
            **_tensor_names(mod, graph, leaves, names, args, kwargs),
        },
        mod,
        (tuple(args), kwargs),
        base=document,
    )


def _tensor_names(mod, graph, leaves, names, args, kwargs):
    """What the tensors that a graph uses are called, and its inputs."""
    by_place = {}
    for name, tensor in [*mod.named_parameters(remove_duplicate=False), *mod.named_buffers(remove_duplicate=False)]:
        by_place.setdefault((tensor.data_ptr(), tuple(tensor.shape)), name)
    found = [
        [i, by_place[key]]
        for i, t in _C._graph_tensors(graph)
        for key in [(t.data_ptr(), tuple(t.shape))]
        if key in by_place
    ]
    hidden = [
        f"{home}.{name}" if home else name
        for home, module in mod.named_modules()
        for name in module._non_persistent_buffers_set
    ]
    inputs = []
    for name, o in zip(names, [*args, *kwargs.values()]):
        count = []
        _flatten(o, count)
        inputs += [name] if isinstance(o, _C.Tensor) else [f"{name}_{i}" for i in range(len(count))]
    return {
        "names": found,
        "parameters": [name for name, _ in mod.named_parameters(remove_duplicate=False)],
        "hidden": hidden,
        "inputs": inputs,
        "order": list(mod.state_dict()),
    }


draft_export = export


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes the program: the graph with its weights. tp_compiled_load reads it in C."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    from taper.export import _document

    document = dict(_document.current(ep._base, ep._graph) if ep._base else _document.read(ep._graph))
    used = {name for _, name in ep._about["names"]}
    document["rest"] = {
        name: t.detach() for name, t in [*ep.named_parameters(), *ep.named_buffers()] if name not in used
    }
    document["note"] = json.dumps(
        {
            **ep._about,
            "extra_files": {
                key: value.decode() if isinstance(value, bytes) else value for key, value in (extra_files or {}).items()
            },
        }
    )
    _document.write(document, f)


def load(f, *, extra_files=None, expected_opset_version=None):
    """Brings back what save wrote, on the device it was saved from. Nothing in the file is executed."""
    return _load(f, None, extra_files)


def _load(f, map_location, extra_files):
    """The same, on the device of map_location if that is not None."""
    import os
    import taper

    if hasattr(f, "read"):
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.pt2")
            with open(path, "wb") as copy:
                copy.write(f.read())
            return _load(path, map_location, extra_files)
    from taper.export import _document

    if map_location is None:
        graph, note = _C._graph_load(os.fspath(f))
        document = taper.load(f)
    else:
        document = _document.placed(taper.load(f, map_location=map_location), map_location)
        graph, note = _document.graph_of(document), document.get("note")
    try:
        about = json.loads(note)
        program = ExportedProgram(graph, about, rest=document.get("rest"))
        program._base = _document.current(document, graph)
    except (TypeError, ValueError, KeyError, AttributeError):
        raise RuntimeError("the file holds a graph, but not one that torch.export.save wrote") from None
    for key, value in about.get("extra_files", {}).items():
        if extra_files is not None and key in extra_files:
            extra_files[key] = value
    return program
