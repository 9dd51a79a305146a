"""torch._custom_op.impl: operators as an object (CustomOp) that takes kernels and derivatives; a forerunner of
torch.library."""

import inspect
from types import SimpleNamespace

import taper
from taper import library
from taper._infer_schema import infer_schema as _infer
from taper._ops import ops
from taper._schema import parse_schema

global_registry = {}  # full name -> CustomOp
RESERVED_NS = {"prim", "prims", "aten", "at", "torch", "pytorch"}
_DEVICES = ("cpu", "cuda")


def infer_schema(prototype_function, mutates_args=()):
    return _infer(prototype_function, mutates_args=mutates_args)


class CustomOp:
    """A declared operator."""

    def __init__(self, lib, name, function=None, *, _private_access=False):
        if not _private_access:
            raise RuntimeError(
                "The CustomOp constructor is private and we do not guarantee BC for it. Please use custom_op(...) to "
                "create a CustomOp object"
            )
        self._lib, self._qualname, self._function = lib, name, function
        self.__name__ = name.rpartition("::")[2]
        self._saver = self._backward = self._differentiable = None
        global_registry[name] = self

    @property
    def _operator(self):
        return library._operator(self._qualname)

    def _destroy(self):
        global_registry.pop(self._qualname, None)
        self._lib._destroy()

    def __repr__(self):
        return f'<CustomOp(op="{self._qualname}")>'

    def __call__(self, *args, **kwargs):
        return self._operator.op(*args, **kwargs)

    def impl(self, device_types, _stacklevel=2):
        """A decorator for the kernel of some kinds of devices."""
        kinds = [device_types] if isinstance(device_types, str) else list(device_types)
        for kind in kinds:
            if kind not in _DEVICES:
                raise ValueError(
                    f"CustomOp.impl(device_types=[{kind}, ...]): we only support device_type in {_DEVICES}."
                )

        def decorate(function):
            for kind in kinds:
                if kind in self._operator.kernels:
                    raise RuntimeError(f"{self._qualname} already has a {kind} impl registered")
                self._operator.kernels[kind] = function
            return function

        return decorate

    def impl_factory(self):
        def decorate(function):
            self._operator.kernels[None] = function
            return function

        return decorate

    def impl_abstract(self, _stacklevel=2):
        """A decorator for what results look like without values."""

        def decorate(function):
            if self._operator.fake is not None:
                raise RuntimeError(f"{self._qualname} already has an abstract impl registered")
            library.register_fake(self._qualname, function)
            return function

        return decorate

    def impl_save_for_backward(self, _stacklevel=2):
        """A decorator for what backward gets beside gradients: function(inputs, output)."""
        self._check_differentiable("impl_save_for_backward")

        def decorate(function):
            self._saver = function
            self._register()
            return function

        return decorate

    def impl_backward(self, output_differentiability=None, _stacklevel=2):
        """A decorator for the derivative: function(ctx, saved, *grads) gives a dict of gradients by argument."""
        self._check_differentiable("impl_backward")
        if output_differentiability is not None:
            if not isinstance(output_differentiability, list) or any(
                not isinstance(x, bool) for x in output_differentiability
            ):
                raise RuntimeError(
                    "impl_backward(output_differentiability): expected output_differentiability to be a list of "
                    f"bools, got: {output_differentiability}"
                )
            returns = self._operator.parsed().returns
            if len(output_differentiability) != len(returns):
                raise RuntimeError(
                    f"impl_backward(output_differentiability): for {self._qualname}, expected "
                    "output_differentiability to be a list of bools with length equal to the number of outputs of "
                    f"this CustomOp got: {len(returns)} outputs."
                )

        def decorate(function):
            self._backward, self._differentiable = function, output_differentiability
            self._register()
            return function

        return decorate

    def _check_differentiable(self, what):
        """Only operators that write nothing and give no views have derivatives of their own."""
        schema = self._operator.parsed()
        tensors = [r for r in schema.returns if r.type.word == "Tensor" or r.type.list]
        if (
            schema.is_mutable
            or any(a.alias_info is not None for a in [*schema.arguments, *schema.returns])
            or not tensors
        ):
            raise RuntimeError(
                "Cannot use torch._custom_ops APIs to register backward formula for non-functional operator "
                f"{self._qualname} with schema {schema}"
            )
        if self._operator.composite:
            raise RuntimeError(
                f"{what}: {self._qualname} already has an implementation for CompositeImplicitAutograd, which has "
                "derivatives by what it is made of"
            )
        if self._operator.autograd_kernel is not None:
            raise RuntimeError(f"{what}: {self._qualname} already has an Autograd implementation")

    def _register(self):
        if self._saver is None or self._backward is None:
            return
        schema = self._operator.parsed()
        names = [a.name for a in schema.arguments]

        def setup_context(ctx, inputs, output, keyword_only_inputs=None):
            given = dict(zip(names, inputs), **(keyword_only_inputs or {}))
            saved = self._saver(SimpleNamespace(**given), output)
            flat = []
            ctx.plan = _keep(saved, flat)
            ctx.given = {name: _kind(value) for name, value in given.items()}
            ctx.save_for_backward(*flat)
            if self._differentiable is not None:
                outputs = output if isinstance(output, tuple) else (output,)
                ctx.mark_non_differentiable(
                    *(
                        t
                        for out, on in zip(outputs, self._differentiable)
                        if not on
                        for t in (out if isinstance(out, (list, tuple)) else [out])
                        if isinstance(t, taper.Tensor)
                    )
                )

        def backward(ctx, *grads):
            made = self._backward(ctx, _again(ctx.plan, ctx.saved_tensors), *grads)
            if not isinstance(made, dict):
                raise RuntimeError(
                    f"In the backward function defined for {self._qualname} expected the output of the backward "
                    f"function to be a dict but got {type(made)}"
                )
            return tuple(_checked(self._qualname, name, made, ctx.given) for name in names)

        self._operator.backward, self._operator.setup_context = backward, setup_context


def _kind(value):
    if isinstance(value, taper.Tensor):
        return taper.Tensor
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, taper.Tensor) for v in value):
        return len(value)
    return None


def _checked(qualname, name, made, given):
    kind = given[name]
    where = f"In the backward function defined for {qualname}"
    unknown = set(made) - set(given)
    if unknown:
        raise RuntimeError(
            f"{where}, expected the returned grad_input dict to have keys {set(given)} but got {set(made)}"
        )
    if kind is None:
        if name in made and made[name] is not None:
            raise RuntimeError(
                f"{where}, got a gradient for argument {name}, expected it to not have a gradient: the argument is "
                f"not a Tensor; the returned grad_input dict has keys {set(made)}"
            )
        return None
    if name not in made:
        raise RuntimeError(
            f"{where}, expected the returned grad_input dict to have keys {{k for k, t in inputs if it is a Tensor}} "
            f"but got {set(made)}"
        )
    grad = made[name]
    if kind is taper.Tensor:
        if grad is not None and not isinstance(grad, taper.Tensor):
            raise RuntimeError(
                f"{where}, expected either None or a Tensor for the gradient of {name} but got object of type "
                f"{type(grad)}"
            )
        return grad
    if not isinstance(grad, (list, tuple)):
        raise RuntimeError(
            f"{where} got an incorrect gradient for {name} that is list-like: expected list of gradients but got "
            f"object of type {type(grad)}"
        )
    if len(grad) != kind:
        raise RuntimeError(
            f"{where}, got list of gradients of length {len(grad)} for {name}, expected {kind} gradients"
        )
    for one in grad:
        if one is not None and not isinstance(one, taper.Tensor):
            raise RuntimeError(
                f"{where} expected list of None or Tensor gradients for {name} but got object of type {type(one)}"
            )
    return list(grad)


def _keep(value, flat):
    """A tree with places in `flat` instead of tensors."""
    if isinstance(value, taper.Tensor):
        flat.append(value)
        return ("tensor", len(flat) - 1)
    if isinstance(value, dict):
        return ("dict", {key: _keep(v, flat) for key, v in value.items()})
    if isinstance(value, (list, tuple)):
        return (type(value), [_keep(v, flat) for v in value])
    return ("value", value)


def _again(plan, flat):
    kind, value = plan
    if kind == "tensor":
        return flat[value]
    if kind == "dict":
        return {key: _again(v, flat) for key, v in value.items()}
    return value if kind == "value" else kind([_again(v, flat) for v in value])


def _check_namespace(qualname):
    namespace, _, name = qualname.partition("::")
    if not name:
        raise ValueError(
            f"Expected there to be a namespace in {qualname}, i.e. The operator name should look something like ns::foo"
        )
    if "." in name:
        raise ValueError(
            "The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in them. Please name "
            f"your operator something like {qualname.replace('.', '_')}. Got: {qualname}"
        )
    if namespace in RESERVED_NS:
        raise ValueError(
            f"custom_op(..., ns={namespace}): '{namespace}' is a reserved namespace, please choose something else. "
        )
    return namespace, name


def _check_schema(name, text):
    try:
        parsed = parse_schema(name + text.strip())
    except RuntimeError as error:
        raise AssertionError(f"Invalid function schema: {name}{text}") from error
    tensors = [r for r in parsed.returns if r.type.word == "Tensor" or r.type.list]
    functional = not parsed.is_mutable and not any(
        a.alias_info is not None for a in [*parsed.arguments, *parsed.returns]
    )
    if any(a.name == "self" for a in parsed.arguments):
        raise ValueError(f"custom_op does not support arguments named 'self'. Please rename your argument. Got: {text}")
    if not functional or not tensors:
        raise ValueError(
            "custom_op only supports functional operators (ops that do not mutate any inputs, do not return views of "
            f"the inputs, and has at least one return). Got the following non-functional schema: {text}"
        )
    return parsed


def _check_signature(parsed, function):
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): positional-only args, *args, and **kwargs are not supported. Got "
            f"`func` with signature {inspect.signature(function)}"
        )
    if any(p.default is not p.empty for p in parameters):
        raise ValueError(
            "custom_op(..., manual_schema)(func): neither func nor manual_schema should have default arguments. Got "
            f"`func` with signature {inspect.signature(function)}"
        )
    places = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    words = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if places != [a.name for a in parsed.arguments if not a.kwarg_only] or words != [
        a.name for a in parsed.arguments if a.kwarg_only
    ]:
        raise ValueError(
            "custom_op(..., manual_schema)(func): When passing in manual_schema, we expect `func`'s signature to "
            f"match `manual_schema` (aside from type annotations). func's signature: {inspect.signature(function)}, "
            f"manual_schema: {parsed}"
        )


def _declare(namespace, name, text, function):
    lib = library.Library(namespace, "FRAGMENT")
    lib.define(name + text)
    return CustomOp(lib, f"{namespace}::{name}", function, _private_access=True)


def custom_op(qualname, manual_schema=None):
    """A decorator that declares an operator by a function's annotations, or by a schema, and gives an object of it."""

    def decorate(function):
        if not inspect.isfunction(function):
            raise ValueError(f"custom_op(...)(func): Expected `func` to be a Python function, got: {type(function)}")
        namespace, name = _check_namespace(qualname)
        if function.__name__ != name:
            raise ValueError(
                f"custom_op(qualname='{qualname}', ...)(func): expected `func` to have name '{name}' but got "
                f"'{function.__name__}'. Please either change the name of `func` or the qualname that is passed to "
                "`custom_op`"
            )
        text = infer_schema(function) if manual_schema is None else manual_schema
        parsed = _check_schema(name, text)
        if manual_schema is not None:
            _check_signature(parsed, function)
        return _declare(namespace, name, text, function)

    return decorate


def custom_op_from(qualname, func_or_schema=None):
    """torch._custom_ops.custom_op: declares an operator, and gives the function back."""
    namespace, name = _check_namespace(qualname)
    if isinstance(func_or_schema, str):
        _check_schema(name, func_or_schema)
        return _declare(namespace, name, func_or_schema, None)._operator.op
    made = custom_op(qualname)

    def decorate(function):
        made(function)
        return function

    return decorate(func_or_schema) if func_or_schema is not None else decorate


def _find(qualname):
    found = global_registry.get(qualname)
    if found is None:
        namespace, name = qualname.split("::")
        if getattr(getattr(ops, namespace), name, None) is None:
            raise ValueError(
                f"Could not find the operator {qualname}. Please make sure you have already registered the operator "
                "and (if registered from C++) loaded it via torch.ops.load_library."
            )
        found = CustomOp(library.Library(namespace, "FRAGMENT"), qualname, _private_access=True)
    return found


def _on(qualname, method, func, *args, **kwargs):
    decorate = getattr(_find(qualname), method)(*args, **kwargs)
    return decorate if func is None else decorate(func)


def impl(qualname, *, device_types=("cpu", "cuda"), func=None):
    return _on(qualname, "impl", func, device_types)


def impl_abstract(qualname, *, func=None):
    return _on(qualname, "impl_abstract", func)


def impl_save_for_backward(qualname, *, func=None):
    return _on(qualname, "impl_save_for_backward", func)


def impl_backward(qualname, output_differentiability=None, *, func=None):
    return _on(qualname, "impl_backward", func, output_differentiability)


def get_op(qualname):
    """torch.ops's member of a full name."""
    namespace, name = qualname.split("::")
    packet = getattr(getattr(ops, namespace), name, None)
    if packet is None:
        raise ValueError(
            f"Could not find the operator {qualname}. Please make sure you have already registered the operator and "
            "(if registered from C++) loaded it via torch.ops.load_library."
        )
    return packet.default


def _destroy(qualname):
    """Takes an operator back."""
    global_registry[qualname]._destroy()
