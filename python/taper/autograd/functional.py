"""torch.autograd.functional: Jacobians, Hessians and their products with vectors."""

from taper import _C
from taper._C import Tensor
from taper.autograd.grad_mode import enable_grad

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(given, name, function):
    """The tensors as a tuple, and whether they came as one."""
    values = given if isinstance(given, tuple) else (given,)
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            where = f" at index {i}" if isinstance(given, tuple) else ""
            raise TypeError(
                f"The {name} given to {function} must be either a Tensor or a tuple of Tensors but the value{where} "
                f"has type {type(value)}."
            )
    return values, isinstance(given, tuple)


def _fresh(inputs, create_graph):
    """Aliases of the inputs to differentiate with respect to."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _outputs(given, function):
    return _as_tuple(given, "outputs of the user-provided function", function)


def _check_vector(v, like, is_tuple, what):
    if len(v) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}."
            if is_tuple
            else "The given v should contain a single Tensor."
        )
    for i, (a, b) in enumerate(zip(v, like)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"{'Entry ' + str(i) + ' in v' if is_tuple else 'v'} has invalid size: should be {b.shape} but got "
                f"{a.shape}."
            )


def _vector(v, like, is_tuple, function, what):
    """The vector to multiply with: the one given, or 1 for a single element."""
    from taper import ones_like

    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {what}.")
        return (ones_like(like[0]),)
    v, _ = _as_tuple(v, "v", function)
    _check_vector(v, like, is_tuple, function)
    return v


# What strict mode says of the i-th of the tensors that are differentiated and do not hang on the inputs, and of the
# i-th gradient that does not come.
_UNTRACKED = {
    "output": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the "
    "input when running in strict mode.",
    "gradient": (
        "The gradient with respect to input {} is independent of the inputs of the user-provided function. This is "
        "not allowed in strict mode."
    ),
    "jacobian": (
        "The jacobian of the user-provided function with respect to input {} is independent of the inputs. This is "
        "not allowed in strict mode."
    ),
    "hessian": (
        "The hessian of the user-provided function with respect to input {} is independent of the inputs. This is "
        "not allowed in strict mode."
    ),
}
_MISSING = {
    "output": (
        "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
    ),
    "gradient": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the "
    "double backward trick to compute "
    "forward mode gradients. This is not allowed in strict mode.",
    "jacobian": (
        "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode."
    ),
    "hessian": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is "
    "not allowed in strict mode as it "
    "prevents from using the double backward trick to replace forward mode AD.",
}


def _gradients(outputs, inputs, grads, create_graph, strict, what="output"):
    """One gradient per input; where none flows, zeros, or an error with strict."""
    from taper import zeros_like

    tracked = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
    if strict and len(tracked) < len(outputs):
        raise RuntimeError(_UNTRACKED[what].format(next(i for i, o in enumerate(outputs) if not o.requires_grad)))
    found = (None,) * len(inputs)
    if tracked:
        found = _C._gradients(
            tuple(o for o, _ in tracked), inputs, tuple(g for _, g in tracked), True, create_graph, True, False
        )
    if strict and any(g is None for g in found):
        raise RuntimeError(_MISSING[what].format(next(i for i, g in enumerate(found) if g is None)))
    return tuple(zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _check_depends(grads, create_graph, strict):
    """A derivative that is itself to be differentiated hangs on the inputs."""
    for i, g in enumerate(grads):
        if strict and create_graph and not g.requires_grad:
            raise RuntimeError(_MISSING["jacobian"].format(i))


def _settled(values, create_graph):
    return values if create_graph else tuple(v.detach() for v in values)


def _shaped(values, is_tuple):
    return values if is_tuple else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """func's value, and v's product with the Jacobian."""
    with enable_grad():
        inputs, in_tuple = _as_tuple(inputs, "inputs", "vjp")
        inputs = _fresh(inputs, create_graph)
        outputs, out_tuple = _outputs(func(*inputs), "vjp")
        v = _vector(
            v, outputs, out_tuple, "vjp", "the user-provided function returns a single Tensor with a single element"
        )
        grads = _gradients(outputs, inputs, v, create_graph, strict)
        _check_depends(grads, create_graph, strict)
    return _shaped(_settled(outputs, create_graph), out_tuple), _shaped(_settled(grads, create_graph), in_tuple)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """func's value, and the Jacobian's product with v, by differentiating a backward."""
    from taper import zeros_like

    with enable_grad():
        inputs, in_tuple = _as_tuple(inputs, "inputs", "jvp")
        inputs = _fresh(inputs, create_graph)
        v = _vector(
            v,
            inputs,
            in_tuple,
            "jvp",
            "the input to the user-provided function is a single Tensor with a single element",
        )
        outputs, out_tuple = _outputs(func(*inputs), "jvp")
        marks = tuple(zeros_like(o).requires_grad_() for o in outputs)
        linear = _gradients(outputs, inputs, marks, True, strict)
        pushed = _gradients(linear, marks, v, create_graph, strict, "gradient")
        _check_depends(pushed, create_graph, strict)
    return _shaped(_settled(outputs, create_graph), out_tuple), _shaped(_settled(pushed, create_graph), out_tuple)


def _unit(like, i):
    from taper import zeros

    flat = zeros(like.numel(), dtype=like.dtype, device=like.device)
    flat[i] = 1
    return flat.view(like.shape)


def _check_strategy(strategy, vectorize):
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            "Expected strategy to be either 'forward-mode' or 'reverse-mode'. Hint: If your function has more "
            "outputs than inputs, 'forward-mode' tends to be more performant. Otherwise, prefer to use "
            "'reverse-mode'."
        )
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
            "`vectorize=True`."
        )


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian: for each output and each input a tensor of the output's shape followed by the input's."""
    from taper import stack

    _check_strategy(strategy, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        inputs, in_tuple = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _fresh(inputs, create_graph)
        outputs, out_tuple = _outputs(func(*inputs), "jacobian")
        table = []
        for o, out in enumerate(outputs):
            if strict:
                _check_used(o, out, inputs)
            rows = [_gradients((out,), inputs, (_unit(out, i),), create_graph, strict) for i in range(out.numel())]
            for row in rows:
                _check_depends(row, create_graph, strict)
            row = (
                tuple(stack(column).view(tuple(out.shape) + tuple(x.shape)) for column, x in zip(zip(*rows), inputs))
                if rows
                else tuple(x.new_zeros(tuple(out.shape) + tuple(x.shape)) for x in inputs)
            )
            table.append(_shaped(_settled(row, create_graph), in_tuple))
    return _shaped(tuple(table), out_tuple)


def _check_used(o, out, inputs):
    """In strict mode each output of a Jacobian hangs on each input."""
    from taper import zeros_like

    if not out.requires_grad:
        raise RuntimeError(_UNTRACKED["output"].format(o))
    for i, g in enumerate(_C._gradients((out,), inputs, (zeros_like(out),), True, False, True, False)):
        if g is None:
            raise RuntimeError(
                f"Output {o} of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode."
            )


def _construct_standard_basis_for(tensors, tensor_numels):
    """The rows of a unit matrix, as wide as all tensors together, cut into one part per tensor."""
    from taper import zeros

    if not tensors or len(tensors) != len(tensor_numels):
        raise AssertionError("tensors and tensor_numels must be non-empty and of the same length")
    total, parts, before = sum(tensor_numels), [], 0
    for tensor, n in zip(tensors, tensor_numels):
        part = zeros(total, n, dtype=tensor.dtype, device=tensor.device)
        part.diagonal(-before).fill_(1)
        parts.append(part)
        before += n
    return tuple(parts)


def _scalar_output(func, function):
    def checked(*inputs):
        out = func(*inputs)
        _as_tuple(out, "outputs of the user-provided function", function)
        if not isinstance(out, Tensor):
            raise RuntimeError(f"The function given to {function} should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {function} should contain a single element"
            )
        return out.reshape(())

    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function that returns one number."""
    inputs, in_tuple = _as_tuple(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.hessian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    scalar = _scalar_output(func, "hessian")

    def gradient(*points):
        out = scalar(*points)
        if strict and not out.requires_grad:
            raise RuntimeError(_UNTRACKED["output"].format(0))
        grads = _gradients((out,), points, (None,), True, False)
        for i, g in enumerate(grads):
            if strict and not g.requires_grad:
                raise RuntimeError(_UNTRACKED["jacobian"].format(i))
        return grads

    table = jacobian(gradient, inputs, create_graph=create_graph, strict=strict)
    return table if in_tuple else table[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """func's value, and v's product with the Hessian."""
    with enable_grad():
        inputs, in_tuple = _as_tuple(inputs, "inputs", "vhp")
        inputs = _fresh(inputs, create_graph)
        v = _vector(
            v,
            inputs,
            in_tuple,
            "vhp",
            "the input to the user-provided function is a single Tensor with a single element",
        )
        out = _scalar_output(func, "vhp")(*inputs)
        first = _gradients((out,), inputs, (None,), True, strict)
        second = _gradients(first, inputs, v, create_graph, strict, "jacobian")
    return _settled((out,), create_graph)[0], _shaped(_settled(second, create_graph), in_tuple)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """func's value, and the Hessian's product with v."""
    from taper import zeros_like

    with enable_grad():
        inputs, in_tuple = _as_tuple(inputs, "inputs", "hvp")
        inputs = _fresh(inputs, create_graph)
        v = _vector(
            v,
            inputs,
            in_tuple,
            "hvp",
            "the input to the user-provided function is a single Tensor with a single element",
        )
        out = _scalar_output(func, "hvp")(*inputs)
        first = _gradients((out,), inputs, (None,), True, strict)
        marks = tuple(zeros_like(x).requires_grad_() for x in inputs)
        linear = _gradients(first, inputs, marks, True, strict, "jacobian")
        pushed = _gradients(linear, marks, v, create_graph, strict, "hessian")
    return _settled((out,), create_graph)[0], _shaped(_settled(pushed, create_graph), in_tuple)
