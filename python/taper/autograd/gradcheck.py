"""torch.autograd.gradcheck: gradients against differences of values."""
import sys

from taper import _C
from taper._C import Tensor

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


class GradcheckError(RuntimeError):
    """Gradients and differences do not agree."""


def _differentiable(t):
    return isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())


def _tensors(inputs):
    """The tensors that require gradients, those in lists included."""
    found = []
    for x in inputs:
        if isinstance(x, Tensor):
            found += [x] if x.requires_grad else []
        elif isinstance(x, (list, tuple)):
            found += _tensors(x)
    return found


def _outputs(func, inputs):
    given = func(*inputs)
    return [o for o in (given if isinstance(given, (list, tuple)) else (given,)) if _differentiable(o)]


def _check_inputs(inputs, masked):
    tensors = _tensors(inputs)
    if not tensors:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for i, x in enumerate(tensors):
        if x.dtype not in _doubles():
            import warnings
            warnings.warn(f"Input #{i} requires gradient and is not a double precision floating point or complex. This check will likely fail if all the inputs are not of "
                          "double precision floating point or complex. ", stacklevel=4)
        if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to compute the numerical "
                               "gradients correctly. You should call .contiguous on the input before passing it to gradcheck.")
    return tensors


def _doubles():
    from taper import complex128, float64
    return float64, complex128


def _steps(x):
    """Directions in which an element of x moves: 1, and i for complex ones."""
    return (1, 1j) if x.is_complex() else (1,)


def _indices(shape):
    places = [()]
    for n in shape:
        places = [p + (i,) for p in places for i in range(n)]
    return places


def _numerical(func, inputs, tensors, eps):
    """Per output and input a matrix (elements of the input and their directions, elements of the output), of central differences."""
    from taper import stack
    outs = _outputs(func, inputs)
    rows = [[[] for _ in tensors] for _ in outs]
    for k, x in enumerate(tensors):
        data = x.data
        for place in _indices(x.shape):
            for step in _steps(x):
                before = data[place].clone()
                sides = []
                for sign in (-1, 1):
                    data[place] = before + sign * eps * step
                    sides.append([o.detach().clone().reshape(-1) for o in _outputs(func, inputs)])
                data[place] = before
                for o, (low, high) in enumerate(zip(*sides)):
                    rows[o][k].append((high - low) / (2 * eps))
    return [[stack(r) if r else out.new_zeros(0, out.numel()) for r in row] for row, out in zip(rows, outs)]


def _unit(out, i, value):
    from taper import zeros
    flat = zeros(out.numel(), dtype=out.dtype, device=out.device)
    flat[i] = value
    return flat.view(out.shape)


def _analytical(out, tensors):
    """The same matrices by backward; those of a complex output differ from differences by conjugation, which is put right here."""
    from taper import stack, view_as_real, zeros_like

    def column(i, value):
        if not out.requires_grad:
            return [zeros_like(x) for x in tensors]
        return [zeros_like(x) if g is None else g for g, x in zip(_C._gradients((out,), tuple(tensors), (_unit(out, i, value),), True, False, True, False), tensors)]

    def flat(g):  # along each direction of each element
        return view_as_real(g.resolve_conj() if hasattr(g, "resolve_conj") else g).reshape(-1) if g.is_complex() else g.reshape(-1)
    matrices = [[] for _ in tensors]
    for i in range(out.numel()):
        real = [flat(g) for g in column(i, 1)]
        imaginary = [flat(g) for g in column(i, 1j)] if out.is_complex() else None
        for k, part in enumerate(real):
            matrices[k].append(part + 1j * imaginary[k] if imaginary else part)
    return [stack(m, 1) if m else x.new_zeros(x.numel() * len(_steps(x)), 0) for m, x in zip(matrices, tensors)]


def _close(a, b, rtol, atol):
    from taper import promote_types
    kind = promote_types(a.dtype, b.dtype)
    a, b = a.to(kind), b.to(kind)
    return bool(((a - b).abs() <= atol + rtol * b.abs()).all()) if a.numel() else True


def _check_undefined(func, inputs, tensors):
    """Gradients that do not come must be no harm: all of them missing, then each in turn."""
    from taper import zeros_like
    outs = [o for o in _outputs(func, inputs) if o.requires_grad]
    if len(outs) < 2:
        return
    for missing in range(len(outs)):
        grads = tuple(zeros_like(o) for i, o in enumerate(outs) if i != missing)
        kept = tuple(o for i, o in enumerate(outs) if i != missing)
        try:
            found = _C._gradients(kept, tuple(tensors), grads, True, False, True, False)
        except RuntimeError as error:
            raise GradcheckError("Expected backward function to handle undefined output grads. Please look at \"Notes about undefined output gradients\" in "
                                 "\"tools/autograd/derivatives.yaml\"") from error
        if any(g is not None and bool((g != 0).any()) for g in found):
            raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are undefined or zero.")


def _check_again(outs, tensors, nondet_tol):
    """The same gradient twice."""
    from taper import ones_like
    for o in outs:
        if not o.requires_grad:
            continue
        first, second = (_C._gradients((o,), tuple(tensors), (ones_like(o),), True, False, True, False) for _ in range(2))
        if any(a is not None and bool(((a - b).abs() > nondet_tol).any()) for a, b in zip(first, second)):
            raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, although analytical "
                                 f"gradient matches numerical gradient.The tolerance for nondeterminism was {nondet_tol}.")


def _check_dtypes(outs, tensors):
    from taper import ones_like
    for o in outs:
        for g, x in zip(_C._gradients((o,), tuple(tensors), (ones_like(o),), True, False, True, False), tensors):
            if g is not None and (g.dtype != x.dtype or g.shape != x.shape):
                raise GradcheckError("grad is incorrect type" if g.dtype != x.dtype else "grad is incorrect size")


def _run(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, masked):
    tensors = _check_inputs(inputs, masked)
    outs = _outputs(func, inputs)
    if not any(o.requires_grad for o in outs):
        raise ValueError("gradcheck expects all tensor inputs to lead to an output that requires gradient, but none of the outputs does.")
    numerical = _numerical(func, inputs, tensors, eps)
    for o, out in enumerate(outs):
        for k, (analytical, n) in enumerate(zip(_analytical(out, tensors), numerical[o])):
            if not _close(analytical, n, rtol, atol):
                raise GradcheckError(f"Jacobian mismatch for output {o} with respect to input {k},\nnumerical:{n}\nanalytical:{analytical}\n")
    _check_again(outs, tensors, nondet_tol)
    if check_grad_dtypes:
        _check_dtypes([o for o in outs if o.requires_grad], tensors)
    if check_undefined_grad:
        _check_undefined(func, inputs, tensors)
    return True


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False,
              check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False, check_backward_ad=True, fast_mode=False, masked=None):
    """Do func's gradients agree with differences of its values? True, or GradcheckError (False without raise_exception)."""
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    if not check_backward_ad and not check_forward_ad:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if any(isinstance(x, Tensor) and x.layout is not _C.strided for x in inputs):
        from taper.sparse._gradcheck import over_values
        func, inputs = over_values(func, inputs, masked)
    try:
        return _run(func, tuple(inputs), eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, masked)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False, raise_exception=True, nondet_tol=0.0,
                  check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False, check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False,
                  masked=False):
    """The same for the gradients themselves: are they differentiated right?"""
    from taper import randn_like
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outs = [o for o in _outputs(func, inputs) if o.requires_grad]
    if grad_outputs is None:
        grads = tuple(randn_like(o.detach()).requires_grad_() for o in outs)
    else:
        grads = tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
    count = len(grads)

    def gradients(*args):
        given, weights = args[:-count], args[-count:]
        tensors = [x for x in _tensors(given)]
        results = [o for o in _outputs(func, given) if o.requires_grad]
        found = _C._gradients(tuple(results), tuple(tensors), tuple(weights), True, True, True, False)
        return tuple(g for g in found if g is not None)
    return gradcheck(gradients, inputs + grads, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, masked=masked)


class _Callable(type(sys)):
    """torch.autograd.gradcheck is this module and its function at once."""

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
