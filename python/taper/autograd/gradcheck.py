"""torch.autograd.gradcheck: gradients against differences of values.

The slow check compares whole Jacobians. The fast one compares one number per input and output: both Jacobians between
two random vectors. Complex values count as pairs of numbers: a complex output is checked twice, by its imaginary and by
its real part."""

import sys
import warnings

from taper import _C
from taper._C import Tensor
from taper.overrides import _forward

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]

_NOTE = 'Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'


class GradcheckError(RuntimeError):
    """Gradients and differences do not agree."""


# ---- Inputs and outputs ----
def _tuple(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _is_float_or_complex(t):
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
    """All results that have derivatives, whether or not they require gradients."""
    return [o for o in _tuple(func(*inputs)) if _is_float_or_complex(o)]


def _differentiable(outs):
    return [o for o in outs if o.requires_grad]


def _doubles():
    from taper import complex128, float64

    return float64, complex128


def _check_inputs(inputs, masked):
    tensors = _tensors(inputs)
    if not tensors:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for i, x in enumerate(tensors):
        if x.dtype not in _doubles():
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if _is_strided(x) and any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call "
                ".contiguous on the input before passing it to gradcheck."
            )
    return tensors


def _is_strided(x):
    return str(x.layout) == "torch.strided"


def _check_outputs(outs):
    if any(not _is_strided(o) for o in outs):
        raise ValueError(
            "Sparse output is not supported at gradcheck yet. Please call to_dense(masked_grad=...) on the output of "
            "fn for gradcheck."
        )


# ---- Differences ----
def _check_perturbed(low, high):
    if low.shape != high.shape:
        raise AssertionError(
            "Expected `func` to return outputs with the same shape when inputs are perturbed on index {}, but got:\n"
            f"{low.shape} and {high.shape}"
        )
    if low.dtype != high.dtype:
        raise AssertionError(
            "Expected `func` to return outputs with the same dtype when inputs are perturbed on index {}, but got:\n"
            f"{low.dtype} and {high.dtype}"
        )


def _difference(func, inputs, data, step, eps):
    """Central differences of all outputs when data moves by eps along step."""
    before = data.clone()
    sides = []
    for sign in (-1, 1):
        data.copy_(before + sign * eps * step)
        sides.append([o.detach().clone() for o in _outputs(func, inputs)])
    data.copy_(before)
    for low, high in zip(*sides):
        _check_perturbed(low, high)
    return [((high - low) / (2 * eps)).reshape(-1) for low, high in zip(*sides)]


def _unit(like, i, value=1):
    from taper import zeros

    flat = zeros(like.numel(), dtype=like.dtype, device=like.device)
    flat[i] = value
    return flat.view(like.shape)


def _numerical(func, inputs, tensors, eps):
    """Per output and input a matrix (elements of the input, elements of the output) of differences; a second one along
    i for complex inputs."""
    from taper import stack

    outs = _outputs(func, inputs)
    table = [[[[], []] for _ in tensors] for _ in outs]
    for k, x in enumerate(tensors):
        for turn, factor in enumerate((1, 1j) if x.is_complex() else (1,)):
            for i in range(x.numel()):
                for o, row in enumerate(_difference(func, inputs, x.data, _unit(x, i, factor), eps)):
                    table[o][k][turn].append(row)

    def matrix(rows, out):
        return stack(rows) if rows else out.new_zeros(0, out.numel())

    return [
        [[matrix(rows, out) for rows in (both if x.is_complex() else both[:1])] for both, x in zip(row, tensors)]
        for row, out in zip(table, outs)
    ]


def _parts(out):
    """The real functions that an output consists of: their name, and the factor of the output's gradient that selects
    each."""
    if not out.is_complex():
        return ((None, 1),)
    return (("imaginary", 1j), ("real", 1))


def _of_part(matrix, part):
    return matrix if part is None or not matrix.is_complex() else matrix.imag if part == "imaginary" else matrix.real


# ---- Backward ----
def _gradients(outs, tensors, grads, create=False):
    find = _C._gradients
    if _forward.level is not None:
        from taper.autograd.forward_ad import gradients as find
    return find(tuple(outs), tuple(tensors), tuple(grads), True, create, True, False)


def _flat(g, x):
    """A gradient as rows along each direction of x: one for real inputs, the real and the imaginary one for complex
    ones."""
    from taper import zeros_like

    g = zeros_like(x) if g is None else g
    if not x.is_complex():
        return ((g.real if g.is_complex() else g).reshape(-1),)
    g = g.resolve_conj() if g.is_complex() else g
    return (g.real.reshape(-1), g.imag.reshape(-1)) if g.is_complex() else (g.reshape(-1), zeros_like(g).reshape(-1))


def _check_fits(g, x):
    if g is None:
        return
    if g.layout != x.layout:
        raise GradcheckError("grad is incorrect layout")
    if g.dtype != x.dtype:
        raise GradcheckError("grad is incorrect type")
    if g.shape != x.shape:
        raise GradcheckError("grad is incorrect size")


def _analytical(out, factor, tensors, check_dtypes):
    """For each input its matrices as _numerical gives them, by backward, of one part of the output."""
    from taper import stack

    columns = [[[], []] for _ in tensors]
    for i in range(out.numel()):
        for k, (g, x) in enumerate(zip(_gradients((out,), tensors, (_unit(out, i, factor),)), tensors)):
            if check_dtypes:
                _check_fits(g, x)
            for turn, row in enumerate(_flat(g, x)):
                columns[k][turn].append(row)
    return [
        [stack(c, 1) if c else x.new_zeros(x.numel(), 0) for c in (both if x.is_complex() else both[:1])]
        for both, x in zip(columns, tensors)
    ]


def _close(a, b, rtol, atol):
    from taper import promote_types

    if a.shape != b.shape:
        return False
    kind = promote_types(a.dtype, b.dtype)
    a, b = a.to(kind), b.to(kind)
    return bool(((a - b).abs() <= atol + rtol * b.abs()).all()) if a.numel() else True


def _mismatch(o, k, numerical, analytical, part, forward):
    head = "" if part is None else f"While considering the {part} part of complex outputs only, "
    mode = "Jacobian computed with forward mode mismatch" if forward else "Jacobian mismatch"
    raise GradcheckError(
        f"{head}{mode} for output {o} with respect to input {k},\nnumerical:{numerical}\nanalytical:{analytical}\n"
    )


def _compare(numerical, analytical, o, k, part, rtol, atol, forward=False):
    for n, a in zip(numerical, analytical):
        n = _of_part(n, part)
        if not _close(a, n, rtol, atol):
            _mismatch(o, k, n, a, part, forward)


def _slow(func, inputs, tensors, outs, o, eps, rtol, atol, numerical, check_dtypes):
    out = outs[o]
    for part, factor in _parts(out):
        for k, analytical in enumerate(_analytical(out, factor, tensors, check_dtypes)):
            _compare(numerical[o][k], analytical, o, k, part, rtol, atol)


def _random_direction(x):
    """A random vector of length one, as long as x has elements."""
    from taper import rand

    v = rand(x.numel(), dtype=x.dtype if not x.is_complex() else (x.real if x.numel() else x).dtype, device=x.device)
    return v / v.norm() if x.numel() > 1 else v.fill_(1)


def _directions(x):
    """Where the fast check moves x: along one vector, for complex inputs along that and along i times another."""
    u = _random_direction(x).reshape(x.shape)
    return (
        ((u.to(x.dtype), 1), (_random_direction(x).reshape(x.shape).to(x.dtype), 1j))
        if x.is_complex()
        else ((u.to(x.dtype), 1),)
    )


def _sums(outs, tensors, o, part_factor, v, directions):
    """v J u for each input by one backward."""
    out = outs[o]
    g = (v * part_factor if out.is_complex() else v).to(out.dtype).reshape(out.shape)
    found = _gradients((out,), tensors, (g,))
    results = []
    for grad, x, ways in zip(found, tensors, directions):
        rows = _flat(grad, x)
        flat = [(u.real if u.is_complex() else u).reshape(-1) for u, _ in ways]
        results.append([(row * u).sum() for row, u in zip(rows, flat)])
    return results


def _fast(func, inputs, tensors, outs, eps, rtol, atol, check_dtypes, indices):
    directions = [_directions(x) for x in tensors]
    moved = [
        [_difference(func, inputs, x.data, u * factor, eps) for u, factor in ways]
        for x, ways in zip(tensors, directions)
    ]
    for o, index in enumerate(indices):
        out = outs[o]
        v = _random_direction(out)
        if check_dtypes:
            for g, x in zip(_gradients((out,), tensors, (out.detach().clone(),)), tensors):
                _check_fits(g, x)
        for part, factor in _parts(out):
            sums = _sums(outs, tensors, o, factor, v, directions)
            for k, x in enumerate(tensors):
                for way, s in zip(moved[k], sums[k]):
                    n = (_of_part(way[index], part).to(v.dtype) * v).sum()
                    if _close(
                        s.to(v.dtype),
                        n,
                        rtol,
                        atol * max(1.0, float(v.sum().abs()) * float(directions[k][0][0].abs().sum())),
                    ):
                        continue
                    numerical = _numerical(func, inputs, tensors, eps)
                    _compare(numerical[index][k], _analytical(out, factor, tensors, False)[k], o, k, part, rtol, atol)
                    _mismatch(o, k, n, s, part, False)


# ---- Further checks ----
def _check_no_outputs(func, inputs, tensors, eps):
    for row in _numerical(func, inputs, tensors, eps):
        for matrices in row:
            if any(bool((m != 0).any()) for m in matrices):
                raise GradcheckError("Numerical gradient for function expected to be zero")
    return True


def _check_again(outs, tensors, nondet_tol):
    """The same gradient twice."""
    from taper import ones_like

    for o in outs:
        first, second = (_gradients((o,), tensors, (ones_like(o),)) for _ in range(2))
        if any(a is not None and bool(((a - b).abs() > nondet_tol).any()) for a, b in zip(first, second)):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times "
                "gives different values, although analytical gradient matches numerical gradient.The tolerance for "
                f"nondeterminism was {nondet_tol}."
            )


def _check_multiplied(outs, tensors):
    """Zero gradients give zero gradients."""
    from taper import zeros_like

    if not outs:
        return
    found = _gradients(outs, tensors, [zeros_like(o) for o in outs])
    if all(g is None for g in found):
        raise GradcheckError("no Tensors requiring grad found in output")
    for g, x in zip(found, tensors):
        if g is None:
            continue
        if not bool((g == 0).all()):
            raise GradcheckError("backward not multiplied by grad_output")
        _check_fits(g, x)


def _undefined(t):
    """t, by a node that passes no gradient on."""
    from taper.autograd._functions import UndefinedGrad

    return UndefinedGrad()(t)


def _check_undefined(func, inputs, tensors):
    """Gradients that do not come must do no harm: all of them missing, then each in turn."""
    from taper import zeros_like

    outs = _differentiable(_outputs(func, inputs))
    if not outs:
        return

    def warn():
        warnings.warn(
            "Backwards compatibility: New undefined gradient support checking feature is enabled by "
            "default, but it may break existing "
            "callers of this function. If this is true for you, you can call this function with "
            '"check_undefined_grad=False" to '
            "disable the feature",
            stacklevel=6,
        )

    def check(missing):
        outs = _differentiable(_outputs(func, inputs))
        given = [_undefined(o) if i in missing else o for i, o in enumerate(outs)]
        try:
            found = _gradients(given, tensors, [zeros_like(o) for o in outs])
        except RuntimeError as error:
            warn()
            raise GradcheckError(f"Expected backward function to handle undefined output grads. {_NOTE}") from error
        if any(g is not None and bool((g != 0).any()) for g in found):
            warn()
            raise GradcheckError(
                f"Expected all input grads to be undefined or zero when all output grads are undefined or zero. {_NOTE}"
            )

    check(range(len(outs)))
    if len(outs) > 1:
        for i in range(len(outs)):
            check((i,))


def _check_batched(outs, tensors):
    """Gradients of a batch of vectors in one call, against one after the other."""
    from taper import randn_like, stack
    from taper.autograd import grad

    for o in outs:
        vectors = [randn_like(o) for _ in range(2)]
        wanted = [_gradients((o,), tensors, (v,)) for v in vectors]
        try:
            found = [
                g
                for g in grad(
                    (o,), tensors, (stack(vectors),), retain_graph=True, allow_unused=True, is_grads_batched=True
                )
                if g is not None
            ]
        except RuntimeError as error:
            raise GradcheckError(
                "While computing batched gradients, got: "
                + str(error)
                + "\n\ngradcheck or gradgradcheck failed while testing "
                "batched gradient computation."
            ) from error
        for b, row in enumerate(wanted):
            for got, want in zip(found, [g for g in row if g is not None]):
                if not _close(got[b], want, 1e-3, 1e-5):
                    raise GradcheckError(
                        "gradcheck or gradgradcheck failed while testing batched gradient computation. The result of "
                        "one call and of a loop differ."
                    )


# ---- Forward mode ----
def _plain_inputs(inputs, duals):
    """The inputs without history, with those given in the places of some tensors."""

    def one(x):
        if isinstance(x, Tensor):
            return duals.get(id(x), x.detach() if x.requires_grad else x)
        return type(x)(one(y) for y in x) if isinstance(x, (list, tuple)) else x

    return tuple(one(x) for x in inputs)


def _pushed(func, inputs, x, step):
    """The tangents of all outputs when x moves along step."""
    from taper import zeros_like
    from taper.autograd import forward_ad

    with forward_ad.dual_level():
        duals = {
            id(t): forward_ad.make_dual(t.detach(), step if t is x else zeros_like(t.detach()))
            for t in _tensors(inputs)
        }
        outs = [forward_ad.unpack_dual(o) for o in _outputs(func, _plain_inputs(inputs, duals))]
        return [zeros_like(p) if t is None else t.detach() for p, t in outs]


def _check_forward(func, inputs, tensors, numerical, eps, rtol, atol):
    from taper import stack

    for k, x in enumerate(tensors):
        for turn, factor in enumerate((1, 1j) if x.is_complex() else (1,)):
            rows = [_pushed(func, inputs, x, _unit(x, i, factor)) for i in range(x.numel())]
            for o in range(len(numerical)):
                if not rows:
                    continue
                found = stack([row[o].reshape(-1) for row in rows])
                for part, _ in _parts(numerical[o][k][turn]):
                    n = _of_part(numerical[o][k][turn], part)
                    if not _close(_of_part(found, part), n, rtol, atol):
                        _mismatch(o, k, n, _of_part(found, part), part, True)


def _check_undefined_forward(func, inputs, tensors):
    """A tangent of zeros gives zeros."""
    from taper import zeros_like

    for x in tensors * (1 if len(tensors) == 1 else 2):
        if any(bool((t != 0).any()) for t in _pushed(func, inputs, x, zeros_like(x))):
            raise GradcheckError("Expected all tangents to be zero when all of the inputs' tangents are zero")


# ---- The check ----
def _run(
    func,
    inputs,
    eps,
    atol,
    rtol,
    nondet_tol,
    check_undefined_grad,
    check_batched_grad,
    check_forward_ad,
    check_backward_ad,
    fast_mode,
    masked,
):
    tensors = _check_inputs(inputs, masked)
    every = _outputs(func, inputs)
    outs = _differentiable(every)
    _check_outputs(every)
    if not outs:
        return _check_no_outputs(func, inputs, tensors, eps) if every else True
    indices = [i for i, o in enumerate(every) if o.requires_grad]
    numerical = None if fast_mode and not check_forward_ad else _numerical(func, inputs, tensors, eps)
    if check_backward_ad:
        if fast_mode:
            _fast(func, inputs, tensors, outs, eps, rtol, atol, True, indices)
        else:
            wanted = [numerical[i] for i in indices]
            for o in range(len(outs)):
                _slow(func, inputs, tensors, outs, o, eps, rtol, atol, wanted, True)
        _check_again(outs, tensors, nondet_tol)
    if check_forward_ad:
        _check_forward(func, inputs, tensors, numerical, eps, rtol, atol)
        if check_undefined_grad:
            _check_undefined_forward(func, inputs, tensors)
    if not check_backward_ad:
        return True
    if check_batched_grad:
        _check_batched(outs, tensors)
    _check_multiplied(outs, tensors)
    if check_undefined_grad:
        _check_undefined(func, inputs, tensors)
    return True


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Do func's gradients agree with differences of its values? True, or GradcheckError (False without
    raise_exception)."""
    if not check_backward_ad and not check_forward_ad:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    inputs = _tuple(inputs)
    if any(isinstance(x, Tensor) and not _is_strided(x) for x in inputs):
        from taper.sparse._gradcheck import over_values

        func, inputs = over_values(func, inputs, masked)
    try:
        return _run(
            func,
            tuple(inputs),
            eps,
            atol,
            rtol,
            nondet_tol,
            check_undefined_grad,
            check_batched_grad,
            check_forward_ad,
            check_backward_ad,
            fast_mode,
            masked,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """The same for the gradients themselves: are they differentiated right?"""
    from taper.testing import make_tensor

    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    if grad_outputs is None:
        outs = _differentiable(_outputs(func, inputs))
        grads = tuple(
            make_tensor(
                o.shape,
                dtype=o.dtype,
                device=o.device,
                low=-1,
                high=1,
                requires_grad=True,
                noncontiguous=gen_non_contig_grad_outputs,
            )
            for o in outs
        )
    else:
        grads = _tuple(grad_outputs)
    count = len(grads)
    wants = [isinstance(x, Tensor) and x.requires_grad for x in inputs]

    def gradients(*args):
        given, weights = args[: len(args) - count], args[len(args) - count :]
        given = tuple(
            x.requires_grad_() if want and isinstance(x, Tensor) and not x.requires_grad else x
            for x, want in zip(given, wants)
        )
        results = _differentiable(_outputs(func, given))
        found = _gradients(results, _tensors(given), weights, True) if results else ()
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        inputs + grads,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


# ---- Kept for programs of PyTorch's early days ----
def _once_private(name, grad_out):
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will "
        "be removed in a future version of PyTorch. If you have a specific use for this or feature request for this "
        "to be a stable API, please tell Taper's maintainers",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """The Jacobians of fn's first output, one per input."""
    _once_private("get_numerical_jacobian", grad_out)
    inputs = _tuple(inputs)
    tensors = _tensors(inputs if target is None else _tuple(target))
    return tuple(row[0] for row in _numerical(lambda *args: fn(args), inputs, tensors, eps)[0])


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """The Jacobians of an output by backward; are two backwards the same, and do the gradients have the inputs' sizes
    and types?"""
    _once_private("get_analytical_jacobian", grad_out)
    tensors = _tensors(_tuple(inputs))
    first, second = (_analytical(output, 1, tensors, False) for _ in range(2))
    same = all(bool(((a - b).abs() <= nondet_tol).all()) for x, y in zip(first, second) for a, b in zip(x, y))
    found = [
        (g, x) for g, x in zip(_gradients((output,), tensors, (output.detach().clone(),)), tensors) if g is not None
    ]
    return (
        tuple(m[0] for m in first),
        same,
        all(g.shape == x.shape for g, x in found),
        all(g.dtype == x.dtype for g, x in found),
    )


class _Callable(type(sys)):
    """torch.autograd.gradcheck is this module and its function at once."""

    def __call__(self, *args, **kwargs):
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
