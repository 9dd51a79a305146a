"""torch.library: operators of the program's own, written in Python and called as torch.ops.NAMESPACE.NAME."""

import contextlib

from taper._infer_schema import infer_schema
from taper._ops import OpOverload, OpOverloadPacket, ops, registered
from taper._schema import check_schema, misfit, parse_schema
from taper.autograd import Function

_ALL_KEYS = (
    "",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicit",
    "BackendSelect",
    "default",
)
_AUTOGRAD_KEYS = ("Autograd", "AutogradCPU", "AutogradCUDA", "AutogradXPU", "AutogradPrivateUse1")
_reserved_namespaces = ["prim"]
_DEVICES = (
    "cpu",
    "cuda",
    "xpu",
    "mps",
    "hip",
    "meta",
    "mtia",
    "privateuseone",
    "hpu",
    "xla",
    "lazy",
    "ipu",
    "vulkan",
    "ve",
    "maia",
)


def fallthrough_kernel():
    """Stands for "as if nothing were registered for this key"."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _split(qualname):
    """namespace, name, overload of "namespace::name.overload"."""
    namespace, found, name = str(qualname).partition("::")
    if not found or not namespace or not name or "::" in name:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname '
            "passed to the torch.library APIs must consist of a "
            "namespace and a name, e.g. aten::sin"
        )
    base, _, overload = name.partition(".")
    return namespace, base, overload or "default"


# ---- What runs ----
class _Entry:
    """All overloads of a name; torch.ops's packet calls it."""

    def __init__(self):
        self.overloads = {}

    def __call__(self, *args, **kwargs):
        if len(self.overloads) == 1:
            return next(iter(self.overloads.values()))(*args, **kwargs)
        problems = []
        for operator in self.overloads.values():
            why = operator.misfit(args, kwargs)
            if why is None:
                return operator(*operator.bound(args, kwargs)[0], **operator.bound(args, kwargs)[1])
            problems.append(why)
        raise RuntimeError("no overload of the operator takes these arguments: " + "; ".join(problems))


class _Operator:
    """One overload: a kernel by the kind of device, and what the tape, autocast, vmap and the meta device are told."""

    def __init__(self, namespace, name, overload):
        self.namespace, self.name, self.overload = namespace, name, overload
        self.qualname = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        self.kernels, self.fake, self.schema, self.tags = {}, None, None, ()
        self.backward = self.setup_context = self.autograd_kernel = self.vmap = None
        self.casts = {}  # kind of device -> the dtype that autocast gives arguments
        self.disabled = set()  # kinds of devices whose own kernel is not to be used
        self.composite = False  # made of operators that have gradients themselves
        self.checked = False  # results may not be arguments: what custom_op promises

    @property
    def op(self):
        """The member of torch.ops."""
        return getattr(getattr(getattr(ops, self.namespace), self.name), self.overload)

    def parsed(self):
        return self.op._schema if self.schema else None

    def bound(self, args, kwargs):
        """All arguments, with the schema's defaults; TypeError where they do not fit it."""
        from taper._dispatch import _bind

        schema = self.parsed()
        if schema is None:
            return args, kwargs
        given = _bind(schema, args, kwargs, True)
        if given is None:
            given = _assign(self, schema, args, kwargs)
        positions = tuple(given.get(a.name, a.default_value) for a in schema.arguments if not a.kwarg_only)
        return positions, {a.name: given.get(a.name, a.default_value) for a in schema.arguments if a.kwarg_only}

    def misfit(self, args, kwargs):
        """Why the schema does not have these arguments; None where it does, or where there is none."""
        return misfit(f"{self.namespace}::{self.name}", self.parsed(), args, kwargs) if self.schema else None

    # ---- A call ----
    def __call__(self, *args, **kwargs):
        why = self.misfit(args, kwargs)
        if why is not None:
            raise RuntimeError(why)
        return self.call(args, kwargs, self.run_kernel)

    def call_handled(self, args, kwargs):
        """A call that handlers see below the tape."""
        from taper._dispatch import ask

        return self.call(args, kwargs, lambda args, kwargs: ask(self.op, args, kwargs))

    def call(self, args, kwargs, below):
        import taper

        tensors = _tensors_of((args, kwargs))
        if self.casts:
            kind = _kind_of(tensors)
            if kind in self.casts and taper.is_autocast_enabled(kind):
                with taper.autocast(kind, enabled=False):
                    return self.call(_cast(args, self.casts[kind]), _cast(kwargs, self.casts[kind]), below)
        if self.autograd_kernel is not None and not _below.on:
            return self.autograd_kernel(*args, **kwargs)
        if self.composite or not taper.is_grad_enabled() or not any(t.requires_grad for t in tensors):
            return below(args, kwargs)
        if self.schema is not None:
            args, kwargs = self.bound(args, kwargs)  # setup_context sees all arguments
        return _record(self, below, args, kwargs)

    def run_kernel(self, args, kwargs):
        tensors = _tensors_of((args, kwargs))
        result = self.kernel_for(_kind_of(tensors, kwargs))(*args, **kwargs)
        if self.schema is not None:
            self._after(args, kwargs, tensors, result)
        return result

    def kernel_for(self, kind):
        if kind == "meta" and self.fake is not None and kind not in self.kernels:
            return self.fake
        if kind == "meta" and kind not in self.kernels and None not in self.kernels:
            raise NotImplementedError(
                f"{self.qualname}: attempted to run this operator with Meta tensors, but there was no fake impl or "
                "Meta kernel registered. You may have run into this message while using an operator with PT2 "
                "compilation APIs (torch.compile/torch.export); in order to use this operator with those APIs you'll "
                "need to add a fake impl. Please see the following for next steps:  "
                "https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html"
            )
        kernel = self.kernels.get(kind) if kind not in self.disabled else None
        kernel = kernel or self.kernels.get(None)
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self.qualname}' with arguments from the '{kind.upper()}' backend: no kernel was "
                "registered for it"
            )
        return kernel

    def _after(self, args, kwargs, tensors, result):
        """Counts what was written, and refuses results that are arguments."""
        schema = self.parsed()
        if schema.is_mutable:
            from taper.autograd.graph import increment_version

            given = dict(zip((a.name for a in schema.arguments), args), **kwargs)
            for argument in schema.arguments:
                if argument.is_write:
                    for t in _tensors_of((given.get(argument.name),)):
                        if not t.is_inference():
                            increment_version(t)
        if self.checked and not any(r.alias_info is not None for r in schema.returns):
            places = {_place(t) for t in tensors} - {0}
            for t in _tensors_of((result,)):
                place = _place(t)
                if place in places:
                    raise RuntimeError(
                        f"{self.qualname} (with implementation in {self.module}): The output of this custom operator "
                        "(1) must not also be an input to this custom operator and (2) may not alias any inputs to "
                        "this custom operator or other returns. The most common way to trigger this error is if we "
                        "have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
                        "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                        "return y."
                    )
                if place:
                    places.add(place)


def _place(tensor):
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


def _assign(operator, schema, args, kwargs):
    """Arguments by their places and names, whatever their types are; TypeError where there are too many or too few."""
    takes = [a.name for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(takes):
        raise RuntimeError(
            f"{operator.qualname}() expected at most {len(takes)} argument(s) but received {len(args)} argument(s). "
            f"Declaration: {schema}"
        )
    given = dict(zip(takes, args), **kwargs)
    for a in schema.arguments:
        if a.name not in given and not a.has_default_value():
            raise RuntimeError(f"{operator.qualname}() is missing value for argument '{a.name}'. Declaration: {schema}")
    unknown = set(given) - {a.name for a in schema.arguments}
    if unknown:
        raise RuntimeError(
            f"Unknown keyword argument '{unknown.pop()}' for operator '{operator.qualname}'. Schema: {schema}"
        )
    return given


def _tensors_of(values):
    from taper import Tensor

    found = []
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list, dict)) and value:
            found += _tensors_of(value)
    return found


def _kind_of(tensors, kwargs=None):
    if tensors:
        return next((t.device.type for t in tensors if t.device.type != "cpu"), "cpu")
    import taper

    device = (kwargs or {}).get("device")
    return taper.device(device).type if device is not None else "cpu"


def _cast(values, dtype):
    from taper import Tensor

    if isinstance(values, Tensor):
        return values.to(dtype) if values.is_floating_point() and values.dtype is not _double() else values
    if isinstance(values, dict):
        return {key: _cast(value, dtype) for key, value in values.items()}
    return type(values)(_cast(v, dtype) for v in values) if type(values) in (list, tuple) else values


def _double():
    import taper

    return taper.float64


class _Below:
    """A thread in torch._C._AutoDispatchBelowAutograd()."""

    def __init__(self):
        from threading import local

        self._local = local()

    on = property(lambda self: getattr(self._local, "depth", 0) > 0)

    def __call__(self):
        return self

    def __enter__(self):
        self._local.depth = getattr(self._local, "depth", 0) + 1

    def __exit__(self, *error):
        self._local.depth -= 1


_below = _Below()


def _record(operator, below, args, kwargs):
    """A call on the tape. Lists of tensors are several inputs to it, and lists again to the operator's own
    functions."""
    from taper import Tensor

    flat, plan, outcome = [], [], []
    for arg in args:
        many = isinstance(arg, (list, tuple)) and any(isinstance(a, Tensor) for a in arg)
        plan.append(len(arg) if many else None)
        flat += arg if many else [arg]

    def again(values):
        at, made = 0, []
        for n in plan:
            made.append(values[at] if n is None else list(values[at : at + n]))
            at += 1 if n is None else n
        return made

    class Recorded(Function):
        @staticmethod
        def forward(ctx, *values):
            inputs = tuple(again(values))
            ctx.set_materialize_grads(True)
            output = below(inputs, kwargs)
            outcome.append(output)
            ctx.shape_of = type(output)
            if operator.setup_context is not None:
                ctx.needs_input_grad = tuple(again(ctx.needs_input_grad))
                extra = {"keyword_only_inputs": kwargs} if kwargs else {}
                operator.setup_context(ctx=ctx, inputs=inputs, output=output, **extra)
            several = isinstance(output, (list, tuple))
            ctx.lists = (
                [len(o) if isinstance(o, (list, tuple)) else None for o in output]
                if several and type(output) is tuple
                else None
            )
            if ctx.lists and any(n is not None for n in ctx.lists):
                return tuple(part for o in output for part in (o if isinstance(o, (list, tuple)) else [o]))
            ctx.lists = None
            return tuple(output) if several else output

        @staticmethod
        def backward(ctx, *grads):
            if operator.backward is None:
                raise RuntimeError(
                    f"Trying to backward through {operator.namespace}::{operator.name}.{operator.overload} but no "
                    "autograd formula was registered. Please use register_autograd to add one."
                )
            if ctx.shape_of is list:
                grads = (list(grads),)
            elif ctx.lists:
                at, made = 0, []
                for n in ctx.lists:
                    made.append(grads[at] if n is None else list(grads[at : at + n]))
                    at += 1 if n is None else n
                grads = made
            answer = operator.backward(ctx, *grads)
            answer = answer if isinstance(answer, tuple) else (answer,)
            if len(plan) == 1 and plan[0] is not None and len(answer) != 1:
                answer = (list(answer),)
            result = []
            for n, grad in zip(plan, answer + (None,) * (len(plan) - len(answer))):
                result += [grad] if n is None else list(grad) if grad is not None else [None] * n
            return tuple(result)

    Recorded.__name__ = f"{operator.namespace}_{operator.name}"
    result = Recorded.apply(*flat)
    made = outcome.pop()
    if isinstance(made, list):
        return list(result)
    if type(made) is tuple and any(isinstance(o, (list, tuple)) for o in made):
        at, parts = 0, []
        for o in made:
            many = isinstance(o, (list, tuple))
            parts.append(list(result[at : at + len(o)]) if many else result[at])
            at += len(o) if many else 1
        return tuple(parts)
    return result


# ---- Finding operators ----
def _make(qualname, schema, tags=()):
    namespace, name, overload = _split(qualname)
    entry = registered.setdefault((namespace, name), _Entry())
    if not isinstance(entry, _Entry):
        raise RuntimeError(f"{namespace}::{name} is an operator of the library's own")
    operator = entry.overloads[overload] = _Operator(namespace, name, overload)
    operator.schema, operator.tags = schema, tags if isinstance(tags, (tuple, list)) else (tags,)
    getattr(ops, namespace).__dict__.pop(name, None)
    return operator


def _operator(qualname):
    namespace, name, overload = _split(qualname)
    entry = registered.get((namespace, name))
    found = entry.overloads.get(overload) if entry is not None else None
    if found is None and entry is not None and "." not in qualname and len(entry.overloads) == 1:
        found = next(iter(entry.overloads.values()))
    if found is None:
        raise RuntimeError(f"operator {qualname} does not exist")
    return found


def _of(op):
    """The operator that a name, a definition or a member of torch.ops means."""
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, OpOverload):
        op = op.name()
    elif isinstance(op, OpOverloadPacket):
        op = op._qualified_op_name
    elif not isinstance(op, str):
        raise ValueError(f"Unexpected type for op: {type(op)}")
    return _operator(op)


def _decorator(register, func):
    """register(func) now, or as a decorator."""
    if func is not None:
        register(func)
        return func

    def decorate(func):
        register(func)
        return func

    return decorate


# ---- torch.library.custom_op ----
class CustomOpDef:
    """What custom_op makes of a function: call it, or add kernels, derivatives and shapes."""

    def __init__(self, operator, function):
        self._operator, self._init_fn = operator, function
        self._qualname, self._namespace, self._name = operator.qualname, operator.namespace, operator.name
        self._schema = operator.schema
        self.__name__, self.__doc__, self.__wrapped__, self.__module__ = (
            function.__name__,
            function.__doc__,
            function,
            function.__module__,
        )
        self.tags = operator.tags

    def __call__(self, *args, **kwargs):
        return self._operator.op(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    @property
    def _opoverload(self):
        return self._operator.op

    def register_fake(self, fn, /):
        self._operator.fake = fn
        return fn

    register_abstract = register_fake

    def register_kernel(self, device_types, fn=None, /):
        return register_kernel(self, device_types, fn)

    def register_autograd(self, backward, /, *, setup_context=None):
        register_autograd(self, backward, setup_context=setup_context)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_vmap(self, func=None):
        return register_vmap(self, func)

    def register_autocast(self, device_type, cast_inputs):
        return register_autocast(self, device_type, cast_inputs)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """with op.set_kernel_enabled("cpu", False): the kernel for that kind of device gives way to the one for all."""
        disabled, before = self._operator.disabled, set(self._operator.disabled)
        (disabled.discard if enabled else disabled.add)(device_type)
        try:
            yield
        finally:
            disabled.clear()
            disabled.update(before)


def _refuse_keyword_tensors(operator, what):
    schema = operator.parsed()
    if schema is not None and any(a.kwarg_only and a.type.text.startswith("Tensor") for a in schema.arguments):
        raise NotImplementedError(
            f"{what} with kwarg-only Tensor args. In the original definition of the op, please make your tensors not "
            f"kwarg-only. Got: {schema}"
        )


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes a function an operator, torch.ops.NAMESPACE.NAME, whose inside the tape does not see."""

    def make(fn):
        if schema is None:
            text = infer_schema(fn, mutates_args=mutates_args)
        else:
            text = schema
            written = {a.name for a in parse_schema("name" + schema.strip()).arguments if a.is_write}
            if mutates_args != "unknown" and written != set(mutates_args):
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The "
                    f"schema suggests that the op mutates {written} which is different from what was provided to us "
                    "in `mutates_args`. Please make these consistent."
                )
        operator = _make(name, text, tags or ())
        _refuse_keyword_tensors(operator, "custom_op")
        operator.module, operator.checked = fn.__module__, True
        for kind in _kinds(device_types):
            operator.kernels[kind] = fn
        return CustomOpDef(operator, fn)

    return make if fn is None else make(fn)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """As custom_op: kernels of Triton's are opaque here in any case."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel, /):
    return triton_kernel


def _kinds(device_types):
    kinds = (
        [None]
        if device_types is None or device_types == "default"
        else [device_types]
        if isinstance(device_types, str)
        else list(device_types)
    )
    for kind in kinds:
        if kind is not None and kind not in _DEVICES:
            raise RuntimeError(f"Expected one of {', '.join(_DEVICES)} device type at start of device string: {kind}")
    return kinds


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """The kernel for a kind of device, or for several."""
    operator = _of(op)

    def register(func):
        for kind in _kinds(device_types):
            operator.kernels[kind] = func

    return _decorator(register, func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """How the tape goes back through an operator."""
    operator = _of(op)
    schema = operator.parsed()
    if schema is not None and (schema.is_mutable or not schema.returns):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {operator.op} with schema {schema}. Please "
            "create a functional operator and register an autograd formula for that."
        )
    _refuse_keyword_tensors(operator, "register_autograd")
    operator.backward, operator.setup_context, operator.composite = backward, setup_context, False


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """What an operator's results look like, without values."""
    operator = _of(op)
    if operator.composite:
        raise RuntimeError(
            f"register_fake(...): the operator {operator.qualname} already has an implementation for this device type "
            "via a pre-existing registration to DispatchKey::CompositeImplicitAutograd. CompositeImplicitAutograd "
            "operators do not need a fake impl; instead, the operator will decompose into its constituents and those "
            "can have fake impls defined on them."
        )
    return _decorator(lambda func: setattr(operator, "fake", func), func)


impl_abstract = register_fake


def register_vmap(op, func=None, /, *, lib=None):
    """How torch.vmap calls an operator: func(info, in_dims, *args) gives results and their dims."""
    operator = _of(op)
    _refuse_keyword_tensors(operator, "register_vmap")
    return _decorator(lambda func: setattr(operator, "vmap", func), func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Casts the tensors among the arguments while autocast is on."""
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    operator = _of(op)
    if device_type in operator.casts:
        raise RuntimeError(f"Only one autocast rule can be registered for {operator.qualname} and {device_type}")
    operator.casts[device_type] = cast_inputs


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """What an operator does for a class or a mode with a __torch_dispatch__: func(mode or class, op, types, args,
    kwargs)."""
    operator = _of(op)
    if lib is not None:
        lib._note(lambda: operator.op.python_key_table.pop(torch_dispatch_class, None))
    return _decorator(lambda func: operator.op.python_key_table.__setitem__(torch_dispatch_class, func), func)


def get_kernel(op, dispatch_key):
    """The function that runs for a kind of device."""
    name = str(dispatch_key).rpartition(".")[2]
    if isinstance(op, str) and (op not in map(lambda key: "::".join(key), registered) and "." not in op):
        raise RuntimeError(f"operator {op} does not exist")
    operator = _of(op)
    kernel = operator.kernels.get(name.lower()) or operator.kernels.get(None)
    if kernel is None:
        raise RuntimeError(f"no kernel for {name} of {operator.qualname}")

    class Kernel:
        def call_boxed(self, keys, *args, **kwargs):
            return kernel(*args, **kwargs)

    return Kernel()


# ---- Libraries ----
class Library:
    """Operators of a namespace, with schemas given as text."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _reserved_namespaces and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF" and ns in _defining:
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                "definitions in a single TORCH_LIBRARY block.  If you were trying to specify implementations, "
                "consider using TORCH_LIBRARY_IMPL (which can be duplicated)."
            )
        if kind == "DEF":
            _defining.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs, self._op_impls, self._undo = set(), set(), []

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def _note(self, undo):
        self._undo.append(undo)

    def define(self, schema, alias_analysis="", *, tags=()):
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        parsed = check_schema(schema)
        name = parsed.name.rpartition("::")[2]
        full = f"{self.ns}::{name}" + (f".{parsed.overload_name}" if parsed.overload_name else "")
        entry = registered.get((self.ns, name))
        if entry is not None and (parsed.overload_name or "default") in entry.overloads:
            raise RuntimeError(
                f"Tried to register an operator ({self.ns}::{schema}) with the same name and overload name multiple "
                "times. Each overload's schema should only be registered with a single call to def(). Duplicate "
                f"registration: registered at /dev/null:0. Original registration: {full}"
            )
        operator = _make(full, schema, tags)
        for function, key in _early.pop(full, ()):
            _add(operator, function, key)
        self._op_defs.add(full)
        self._note(lambda: _forget(full))
        return full.rpartition("::")[2]

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key
        name = op_name.name() if isinstance(op_name, OpOverload) else str(op_name)
        name = name.rpartition("::")[2]
        self._op_impls.add(f"{self.ns}/{name}/{key}")
        if fn is fallthrough_kernel:
            return
        if self.ns == "aten":
            self._note(_add(_aten_operator(name), fn, key))
            return
        try:
            operator = _operator(f"{self.ns}::{name}")
        except RuntimeError:  # a kernel may come before its operator
            _early.setdefault(f"{self.ns}::{name}", []).append((fn, key))
            return
        self._note(_add(operator, fn, key))

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        register_fake(f"{self.ns}::{op_name}", fn)

    def _register_torch_dispatch_rule(self, op_name, torch_dispatch_class, fn):
        register_torch_dispatch(f"{self.ns}::{op_name}", torch_dispatch_class, fn, lib=self)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        from taper._hook import NotCovered

        raise NotCovered("torch.library.Library.fallback")

    def _destroy(self):
        """Takes back what the library defined."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        if self.kind == "DEF":
            _defining.discard(self.ns)


_defining = set()
_early = {}  # kernels whose operators are not defined yet


def _forget(qualname):
    namespace, name, overload = _split(qualname)
    entry = registered.get((namespace, name))
    if entry is not None:
        entry.overloads.pop(overload, None)
        if not entry.overloads:
            del registered[namespace, name]
    getattr(ops, namespace).__dict__.pop(name, None)


def _aten_operator(name):
    """An operator of aten whose kernel a library exchanges: for calls by torch.ops.aten."""
    base, _, overload = name.partition(".")
    target = getattr(getattr(ops.aten, base), overload or "default")
    operator = _Operator("aten", base, overload or "default")
    operator.kernels[None], operator.composite = target._kernel, True
    target._kernel = operator
    return operator


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    """with _scoped_library("ns", "FRAGMENT") as lib: what lib defines is gone at the end."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def _add(operator, function, key):
    """Puts a function in its place; gives the way back."""
    if key == "Meta":
        before, operator.fake = operator.fake, function
        return lambda: setattr(operator, "fake", before)
    if key in _AUTOGRAD_KEYS:
        before, operator.autograd_kernel = operator.autograd_kernel, function
        return lambda: setattr(operator, "autograd_kernel", before)
    kind = None if key in _ALL_KEYS else str(key).lower()
    before, operator.kernels[kind] = operator.kernels.get(kind), function
    operator.composite = (
        operator.composite
        or key in ("", "CompositeImplicitAutograd", "CompositeImplicit")
        and operator.namespace != "aten"
    )

    def undo():
        if before is None:
            operator.kernels.pop(kind, None)
        else:
            operator.kernels[kind] = before

    return undo


def define(qualname, schema, *, lib=None, tags=()):
    """Declares an operator; impl gives it its kernel."""
    if isinstance(qualname, Library):  # the older form: define(lib, schema), a decorator for the kernel
        name = qualname.define(schema, lib if isinstance(lib, str) else "", tags=tags)

        def kernel(func):
            qualname.impl(name, func)
            return func

        return kernel
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    namespace, _, _ = _split(qualname)
    if not schema.strip().startswith("(") or "->" not in schema:
        raise ValueError(
            'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but '
            f'got "{schema}"'
        )
    (lib or Library(namespace, "FRAGMENT")).define(qualname.rpartition("::")[2] + schema, tags=tags)


def impl(qualname, types, func=None, *, lib=None):
    """The kernel of a declared operator for kinds of devices, or by a Library's key."""
    if isinstance(qualname, Library):  # the older form: impl(lib, name, key)
        key = func if isinstance(func, str) else ""
        return _decorator(lambda func: qualname.impl(types, func, key), None)
    kinds = [types] if isinstance(types, str) else list(types)

    def register(func):
        for kind in kinds:
            if kind == "default":
                key = "CompositeExplicitAutograd"
            elif kind in _DEVICES:
                key = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}.get(kind, kind)
            elif kind in _ALL_KEYS + _AUTOGRAD_KEYS + ("CPU", "CUDA", "Meta", "XPU", "PrivateUse1"):
                key = kind
            else:
                _kinds(kind)
            (lib or Library(_split(qualname)[0], "FRAGMENT")).impl(qualname.rpartition("::")[2], func, key)

    for kind in kinds:
        if kind not in ("default",) + _DEVICES + _ALL_KEYS + _AUTOGRAD_KEYS + (
            "CPU",
            "CUDA",
            "Meta",
            "XPU",
            "PrivateUse1",
        ):
            _kinds(kind)
    return _decorator(register, func)


def get_ctx():
    """Only functions of register_fake have one, where they run on shapes alone; Taper has no such place."""
    from taper._hook import NotCovered

    raise NotCovered("torch.library.get_ctx")


# ---- Checks ----
_OPCHECK_DEFAULT_UTILS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def opcheck(op, args, kwargs=None, *, test_utils=_OPCHECK_DEFAULT_UTILS, raise_exception=True, atol=None, rtol=None):
    """Runs the operator with these arguments: does it write only what its schema says, and have results on the meta
    device the real ones' shapes and dtypes?"""
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    if not isinstance(op, OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got "
            f"{type(op)}"
        )
    wanted = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = set(wanted) - {*_OPCHECK_DEFAULT_UTILS, "test_aot_dispatch_static"}
    if unknown:
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be subset of {_OPCHECK_DEFAULT_UTILS} "
            "but it was not"
        )
    checks = {"test_schema": _check_schema, "test_faketensor": _check_fake}
    results = {}
    for name in wanted:
        try:
            checks.get(name, _check_runs)(op, args, kwargs or {})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
    return results


class OpCheckError(Exception):
    """An operator is not what it says it is."""


OpCheckError.__module__ = "torch.testing._internal.optests.generate_tests"


def _check_runs(op, args, kwargs):
    op(*args, **kwargs)


def _check_schema(op, args, kwargs):
    given = _tensors_of((args, kwargs))
    before = [t.detach().clone() for t in given]
    results = _tensors_of((op(*args, **kwargs),))
    schema = op._schema
    named = dict(zip((a.name for a in schema.arguments), args), **kwargs)
    written = {id(t) for a in schema.arguments if a.is_write for t in _tensors_of((named.get(a.name),))}
    aliased = {id(t) for a in schema.arguments if a.alias_info is not None for t in _tensors_of((named.get(a.name),))}
    for t, was in zip(given, before):
        name = next((a.name for a in schema.arguments if any(t is u for u in _tensors_of((named.get(a.name),)))), "?")
        if id(t) not in written and not (
            t.shape == was.shape and (t.detach() == was).logical_or((t.detach() != t.detach()) & (was != was)).all()
        ):
            raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated")
        if id(t) not in aliased and any(_place(t) == _place(r) != 0 for r in results):
            raise RuntimeError(f"Argument {name} is not defined to alias output but was aliasing")


def _check_fake(op, args, kwargs):
    from taper.utils._pytree import tree_map

    operator = op._kernel if isinstance(op._kernel, _Operator) else None
    if (
        operator is not None
        and operator.fake is None
        and not operator.composite
        and None in operator.kernels
        and not operator.parsed().is_mutable
    ):
        raise RuntimeError(f"{op}: no fake impl was registered; use torch.library.register_fake to add one")
    real = _tensors_of((op(*args, **kwargs),))
    import taper

    def meta(t):
        return t.detach().to("meta") if isinstance(t, taper.Tensor) else t

    fake = operator.fake if operator is not None and operator.fake is not None else op
    made = _tensors_of((fake(*tree_map(meta, tuple(args)), **tree_map(meta, kwargs)),))
    for one, two in zip(real, made):
        if one.shape != two.shape or one.dtype != two.dtype:
            raise AssertionError(
                f"{op}: the real result is {one.dtype} of shape {tuple(one.shape)}, the fake one {two.dtype} of shape "
                f"{tuple(two.shape)}"
            )
