"""torch.library: operators of the program's own, written in Python and called as torch.ops.NAMESPACE.NAME."""
from taper._ops import OpOverload, OpOverloadPacket, ops, registered
from taper.autograd import Function

_CPU_KEYS = ("", "CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeImplicit", "default")


def _split(qualname):
    namespace, found, name = str(qualname).partition("::")
    if not found or not namespace or not name:
        raise ValueError(f"torch.library: expected a name of the form namespace::name, got {qualname!r}")
    return namespace, name.partition(".")[0]


def _known_type(annotation):
    """An annotation as schemas write it."""
    if isinstance(annotation, str):
        text = annotation
    else:
        text = getattr(annotation, "__name__", str(annotation)) if isinstance(annotation, type) and not hasattr(annotation, "__args__") else str(annotation)
    text = text.replace("taper.", "torch.").replace("typing.", "").replace("collections.abc.", "").replace("torch.", "")
    if text.startswith("Optional["):
        return _known_type(text[9:-1]) + "?"
    if text.endswith(" | None"):
        return _known_type(text[:-7]) + "?"
    for word in ("Sequence[", "List[", "list["):
        if text.startswith(word):
            return _known_type(text[len(word):-1]) + "[]"
    return {"int": "SymInt", "Number": "Scalar"}.get(text, text)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema that a function's annotations say, as text."""
    import inspect
    parameters, stars = [], 0
    for parameter in inspect.signature(prototype_function).parameters.values():
        if parameter.annotation is parameter.empty:
            raise ValueError(f"infer_schema(func): Parameter {parameter.name} must have a type annotation. Got func with signature {inspect.signature(prototype_function)})")
        if parameter.kind is parameter.KEYWORD_ONLY and not stars:
            parameters.append("*")
            stars = 1
        word = _known_type(parameter.annotation)
        if mutates_args == "unknown" and word.startswith("Tensor") or parameter.name in mutates_args:
            word = word.replace("Tensor", f"Tensor(a{len(parameters) - stars}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
        parameters.append(f"{word} {parameter.name}{default}")
    result = inspect.signature(prototype_function).return_annotation
    if result is inspect.Signature.empty:
        raise ValueError("infer_schema(func): No return type annotation was provided. Please add one.")
    text = "()" if result in (None, "None") else _known_type(result)
    if text.lower().startswith("tuple["):
        text = "(" + ", ".join(_known_type(part.strip()) for part in text[6:-1].split(",")) + ")"
    return f"{op_name or ''}({', '.join(parameters)}) -> {text}"


class _Operator:
    """What runs when an operator is called: a kernel by the kind of device, and what the tape is told."""

    def __init__(self, namespace, name):
        self.qualname, self.kernels, self.fake, self.schema = f"{namespace}::{name}", {}, None, None
        self.backward = self.setup_context = None
        self.composite = False  # made of operators that have gradients themselves

    def _kernel(self, args, kwargs):
        from taper._batched import _tensors
        kind = next((t.device.type for t in _tensors((*args, *kwargs.values()))), "cpu")
        kernel = self.kernels.get(kind) or self.kernels.get(None)
        if kernel is None:
            raise NotImplementedError(f"Could not run '{self.qualname}' with arguments from the '{kind.upper()}' backend: no kernel was registered for it")
        return kernel

    def __call__(self, *args, **kwargs):
        import taper
        from taper._batched import _tensors
        kernel = self._kernel(args, kwargs)
        if self.composite or not taper.is_grad_enabled() or not any(t.requires_grad for t in _tensors((*args, *kwargs.values()))):
            return kernel(*args, **kwargs)
        import inspect
        bound = inspect.signature(kernel).bind(*args, **kwargs)
        bound.apply_defaults()  # setup_context sees all arguments
        return _on_tape(self, kernel, bound.kwargs).apply(*bound.args)


def _on_tape(operator, kernel, kwargs):
    """An autograd.Function of one operator."""
    class Recorded(Function):
        @staticmethod
        def forward(ctx, *args):
            output = kernel(*args, **kwargs)
            if operator.setup_context is not None:
                operator.setup_context(ctx, args, output, **({"keyword_only_inputs": kwargs} if kwargs else {}))
            return output

        @staticmethod
        def backward(ctx, *grads):
            if operator.backward is None:
                raise RuntimeError(f"Trying to backward through {operator.qualname}.default but no autograd formula was registered. "
                                   "Please use register_autograd to add one.")
            return operator.backward(ctx, *grads)
    Recorded.__name__ = operator.qualname.replace("::", "_")
    return Recorded


def _operator(qualname, make=False):
    key = _split(qualname)
    if key not in registered and make:
        registered[key] = _Operator(*key)
    found = registered.get(key)
    if found is None:
        raise RuntimeError(f"operator {qualname} does not exist")
    return found


def _of(op):
    """The operator that a name, a definition or a member of torch.ops means."""
    if isinstance(op, CustomOpDef):
        return op._operator
    if isinstance(op, (OpOverload, OpOverloadPacket)):
        op = op.name().partition(".")[0] if isinstance(op, OpOverload) else op._qualified_op_name
    return _operator(op)


def _decorator(register, func):
    """register(func) now, or as a decorator."""
    if func is not None:
        return register(func)

    def decorate(func):
        register(func)
        return func
    return decorate


class CustomOpDef:
    """What custom_op makes of a function: call it, or add kernels, derivatives and shapes."""

    def __init__(self, operator, function):
        self._operator, self._init_fn = operator, function
        self._qualname, self._namespace, self._name = operator.qualname, *_split(operator.qualname)
        self.__name__, self.__doc__, self.__wrapped__ = function.__name__, function.__doc__, function

    def __call__(self, *args, **kwargs):
        return self._operator(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    @property
    def _opoverload(self):
        return getattr(getattr(ops, self._namespace), self._name).default

    def register_fake(self, fn, /):
        self._operator.fake = fn
        return fn

    register_abstract = register_fake

    def register_kernel(self, device_types, fn=None, /):
        return register_kernel(self, device_types, fn)

    def register_autograd(self, backward, /, *, setup_context=None):
        self._operator.backward, self._operator.setup_context = backward, setup_context

    def register_vmap(self, func=None):
        return register_vmap(self, func)

    def register_autocast(self, device_type, cast_inputs):
        return register_autocast(self, device_type, cast_inputs)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes a function an operator, torch.ops.NAMESPACE.NAME, whose inside the tape does not see."""
    def make(fn):
        operator = registered[_split(name)] = _Operator(*_split(name))
        getattr(ops, _split(name)[0]).__dict__.pop(_split(name)[1], None)
        operator.schema = schema or infer_schema(fn, mutates_args=mutates_args)
        for kind in _kinds(device_types):
            operator.kernels[kind] = fn
        return CustomOpDef(operator, fn)
    return make if fn is None else make(fn)


def _kinds(device_types):
    return [None] if device_types is None else [device_types] if isinstance(device_types, str) else list(device_types)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """The kernel for a kind of device, or for several."""
    def register(func):
        for kind in _kinds(device_types):
            _of(op).kernels[kind] = func
    return _decorator(register, func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """How the tape goes back through an operator."""
    operator = _of(op)
    operator.backward, operator.setup_context, operator.composite = backward, setup_context, False


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """What an operator's results look like, without values."""
    return _decorator(lambda func: setattr(_of(op), "fake", func), func)


impl_abstract = register_fake


def register_vmap(op, func=None, /, *, lib=None):
    """torch.vmap runs operators of the program's slice by slice, so there is nothing to tell it."""
    _of(op)
    return _decorator(lambda func: None, func)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Casts the tensors among the arguments while autocast is on."""
    import taper
    operator = _of(op)
    for kind, kernel in list(operator.kernels.items()):
        def cast(*args, _kernel=kernel, **kwargs):
            if not taper.is_autocast_enabled(device_type):
                return _kernel(*args, **kwargs)
            with taper.autocast(device_type, enabled=False):
                return _kernel(*(a.to(cast_inputs) if isinstance(a, taper.Tensor) and a.is_floating_point() else a for a in args), **kwargs)
        operator.kernels[kind] = cast


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    from taper._hook import NotCovered
    raise NotCovered("torch.library.register_torch_dispatch")


class Library:
    """Operators of a namespace, with schemas given as text."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema, alias_analysis="", *, tags=()):
        name = schema.partition("(")[0].strip()
        _operator(f"{self.ns}::{name.partition('.')[0]}", make=True).schema = schema
        return name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        name = op_name.name().rpartition("::")[2] if isinstance(op_name, OpOverload) else str(op_name).rpartition("::")[2]
        _add(_operator(f"{self.ns}::{name}"), fn, dispatch_key or self.dispatch_key)

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        register_fake(f"{self.ns}::{op_name}", fn)


def _add(operator, function, key):
    if key == "Meta":
        operator.fake = function
    elif key in ("Autograd", "AutogradCPU", "AutogradCUDA"):
        operator.kernels[None], operator.composite = function, True
    elif key in _CPU_KEYS:
        operator.kernels["cpu" if key == "CPU" else None] = function
        operator.composite = operator.composite or key in ("CompositeImplicitAutograd", "CompositeImplicit")
    else:
        operator.kernels[key.lower()] = function


def define(qualname, schema, *, lib=None, tags=()):
    """Declares an operator; impl gives it its kernel."""
    _operator(qualname, make=True).schema = schema


def impl(qualname, types, func=None, *, lib=None):
    """The kernel of a declared operator for kinds of devices, or by a Library's key."""
    if isinstance(qualname, Library):  # the older form: impl(lib, name, key)
        return _decorator(lambda func, lib=qualname, key=func: lib.impl(types, func, key if isinstance(key, str) else ""), None)

    def register(func):
        for kind in _kinds(types):
            _add(_operator(qualname), func, "" if kind in (None, "default") else kind.upper() if kind == "cpu" else kind)
    return _decorator(register, func)


def get_ctx():
    """Only functions of register_fake have one, where they run on shapes alone; Taper has no such place."""
    from taper._hook import NotCovered
    raise NotCovered("torch.library.get_ctx")


def opcheck(op, args, kwargs=None, *, test_utils=None, raise_exception=True, atol=None, rtol=None):
    """Runs the operator with these arguments, and says whether that went well; PyTorch's other checks are not made."""
    try:
        (op if callable(op) else _of(op))(*args, **(kwargs or {}))
    except Exception as error:
        if raise_exception:
            raise
        return {"test_schema": error}
    return {"test_schema": "SUCCESS"}
