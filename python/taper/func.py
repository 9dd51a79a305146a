"""torch.func: transforms of functions, on the tape. Each transform runs the function on fresh aliases of its inputs and
asks the tape for their gradients. What comes out stays on the tape only if it hangs on something outside: an outer
transform's input, or a tensor of the caller's."""

from _thread import _local
from contextlib import contextmanager
from functools import wraps

from taper import _C
from taper._C import Tensor
from taper._functorch.vmap import vmap
from taper.autograd.grad_mode import enable_grad
from taper.overrides import _forward, _vmaps
from taper.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = [
    "grad",
    "grad_and_value",
    "vjp",
    "jvp",
    "linearize",
    "jacrev",
    "jacfwd",
    "hessian",
    "vmap",
    "functional_call",
    "stack_module_state",
    "functionalize",
    "debug_unwrap",
    "replace_all_batch_norm_modules_",
]


class _Thread(_local):
    def __init__(self):
        self.made = []  # leaves made by the transforms now running, the outermost one's first
        self.depth = 0


_thread = _Thread()


_NO_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your "
    "use case."
)


class _Level:
    """One transform at work: the tape is on, and the leaves it makes are known for its own."""

    def __init__(self, takes_hooks=False):
        self.takes_hooks = (
            takes_hooks  # may tensors be saved through the user's hooks? Forward mode saves none in PyTorch
        )

    def __enter__(self):
        self.hooks = None if self.takes_hooks else _C._forbid_saved_hooks(_NO_HOOKS)
        _C._enter_transform(1)
        _vmaps.levels += 1
        self.outer_on = _C.is_grad_enabled()
        self.first, self.own = len(_thread.made), None
        self.inference = _C._enter_inference(False)  # what is recorded here ends with the level
        self.keeps = _C._keep_inference(True)
        self.mode = enable_grad()
        self.mode.__enter__()
        _thread.depth += 1
        return self

    def __exit__(self, *error):
        _thread.depth -= 1
        self.own = _thread.made[self.first :]
        if not _thread.depth:
            _thread.made.clear()
        self.mode.__exit__(*error)
        _C._keep_inference(self.keeps)
        _C._leave_inference(self.inference)
        _C._enter_transform(-1)
        _vmaps.levels -= 1
        if not self.takes_hooks:
            _C._forbid_saved_hooks(self.hooks)

    def fresh(self, t):
        """An alias of t whose gradient can be asked for."""
        if not isinstance(t, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(t)}")
        if not (t.is_floating_point() or t.is_complex()):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if _vmaps.sizes:
            from taper._batched import fresh

            return fresh(t, self.alias)
        return self.alias(t)

    def alias(self, t):
        if t.requires_grad and self.outer_on:
            return t.view_as(t)
        if _forward.level is not None and _forward.enabled:
            from taper.autograd.forward_ad import alias

            _thread.made.append(alias(t))
            return _thread.made[-1]
        leaf = t.clone() if t.is_inference() else t.detach()
        leaf.requires_grad = True
        _thread.made.append(leaf)
        return leaf

    def hangs(self, tensors):
        """Do these hang on something that outlives the level?"""
        tracked = [t for t in tensors if isinstance(t, Tensor) and t.requires_grad]
        if not tracked or not self.outer_on:
            return False
        own = {id(t) for t in (_thread.made[self.first :] if self.own is None else self.own)}
        return any(id(leaf) not in own for leaf in _C._leaves_of(_plain(tracked)))

    def settled(self, tree):
        """The tree with its tensors off the tape, except for those that hang on something outside."""

        def detach(t):
            if _forward.level is None or not _forward.enabled:
                return t.detach()
            from taper.autograd.forward_ad import detached

            return detached(t)

        return tree_map(
            lambda t: detach(t) if isinstance(t, Tensor) and t.requires_grad and not self.hangs((t,)) else t, tree
        )


def _plain(tensors):
    """The tensors that the tape knows, of those and of batches."""
    if not _vmaps.sizes:
        return tensors
    from taper._batched import plain

    return [plain(t) for t in tensors]


def _gradients(outputs, inputs, grads, create):
    """One gradient per input, zeros where none flows."""
    from taper import zeros_like

    pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
    if not pairs:
        return tuple(zeros_like(x) for x in inputs)
    find = _C._gradients
    if _forward.level is not None and _forward.enabled:
        from taper.autograd.forward_ad import gradients as find
    if _vmaps.sizes:
        from taper._batched import gradients as find
    return find(tuple(o for o, _ in pairs), tuple(inputs), tuple(g for _, g in pairs), True, create, True, True)


_GRAD, _VJP, _JVP = "grad_and_value(f)(*args)", "vjp(f, *primals)", "jvp(f, primals, tangents)"


def _split_aux(out, has_aux, where):
    if not has_aux:
        return out, None
    if not (isinstance(out, tuple) and len(out) == 2):
        raise RuntimeError(f"{where}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for leaf in tree_flatten(out[1])[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return out


def _check_outputs(outs, where):
    """A function that is differentiated returns tensors, one at least."""
    if not outs or len(outs) == 1 and outs[0] is None:
        raise RuntimeError(f"{where}: Expected f to be a function that has non-empty output (got output = {outs})")
    for out in outs:
        if not isinstance(out, Tensor):
            raise RuntimeError(
                f"{where}: expected f(*primals) to return only tensors, got unsupported type {type(out)}"
            )


def _check_real(tensors, name, which):
    for i, t in enumerate(tensors):
        if isinstance(t, Tensor) and t.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {which} to be real but received complex tensor at flattened input idx: {i}"
            )


def _positions(argnums, n):
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    nums = (argnums,) if isinstance(argnums, int) else argnums
    if not nums:
        raise RuntimeError("argnums must be non-empty")
    for i in nums:
        if not isinstance(i, int):
            raise RuntimeError(f"argnum must be int, got: {type(i)}")
        if not -n <= i < n:
            raise RuntimeError(f"Got argnum={i}, but only {n} positional inputs")
    nums = tuple(i % n for i in nums)
    if len(set(nums)) != len(nums):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return nums


def _open(level, args, argnums):
    """The arguments with fresh aliases at argnums; the aliases and how they came: one tree for an int, a tuple of trees
    otherwise."""
    nums = _positions(argnums, len(args))
    args = list(args)
    for i in nums:
        args[i] = tree_map(level.fresh, args[i])
    chosen = args[nums[0]] if isinstance(argnums, int) else tuple(args[i] for i in nums)
    leaves, spec = tree_flatten(chosen)
    return args, leaves, spec


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func and its value."""

    @wraps(func, updated=())
    def wrapper(*args, **kwargs):
        with _Level() as level:
            inner, leaves, spec = _open(level, args, argnums)
            out, aux = _split_aux(func(*inner, **kwargs), has_aux, _GRAD)
            if not isinstance(out, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(out)}")
            if out.dim():
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                    f"{out.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            grads = tree_unflatten(_gradients((out,), leaves, (None,), level.hangs((out,))), spec)
            value, aux, grads = level.settled(out), level.settled(aux), level.settled(grads)
        return (grads, (value, aux)) if has_aux else (grads, value)

    return wrapper


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func, which returns one number."""
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func, updated=())
    def wrapper(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapper


def _checked(tree, spec, what, theirs):
    leaves, given = tree_flatten(tree)
    if given != spec:
        raise RuntimeError(
            f"Expected pytree structure of {what} to be the same as pytree structure of {theirs}. {what}: {given}, "
            f"{'primal output' if what == 'cotangents' else 'primals'}: {spec}"
        )
    return leaves


def vjp(func, *primals, has_aux=False):
    """func's value, and a function from cotangents of the value to cotangents of the primals."""
    with _Level() as level:
        inner, leaves, spec = _open(level, primals, tuple(range(len(primals))))
        out, aux = _split_aux(func(*inner), has_aux, _VJP)
        outs, out_spec = tree_flatten(out)
        _check_outputs(outs, _VJP)
        for o in outs:
            if not (o.is_floating_point() or o.is_complex()):
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{o.dtype}"
                )
        hangs = level.hangs(outs)
        value, aux = level.settled(out), level.settled(aux)

    def back(cotangents, retain_graph=True, create_graph=None):
        given = _checked(cotangents, out_spec, "cotangents", "outputs to the function")
        create = (
            _C.is_grad_enabled() and (hangs or any(g.requires_grad for g in given))
            if create_graph is None
            else create_graph
        )
        return tree_unflatten(_gradients(outs, leaves, given, create), spec)

    return (value, back, aux) if has_aux else (value, back)


def _transposed(outs, leaves):
    """Backward as a function of the outputs' cotangents, recorded so that it can be differentiated: its results and
    those cotangents."""
    from taper import zeros_like

    marks = [zeros_like(o) if isinstance(o, Tensor) and o.requires_grad else None for o in outs]
    for mark in marks:
        if mark is not None:
            mark.requires_grad = True
    _thread.made.extend(_plain([m for m in marks if m is not None]))
    return _gradients(outs, leaves, marks, True), marks


def _push(outs, linear, marks, tangents, create):
    """The tangents of the outputs."""
    from taper import zeros_like

    used = [m for m in marks if m is not None]
    pushed = iter(_gradients(linear, used, tangents, create) if used else ())
    return [zeros_like(o) if m is None else next(pushed) for o, m in zip(outs, marks)]


def _check_tangents(primals, tangents):
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    _, spec = tree_flatten(primals)
    flat, given = tree_flatten(tangents)
    if spec != given:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For "
            f"example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure {spec} "
            f"and tangents with structure {given}"
        )
    for name, leaves in (("primals", tree_flatten(primals)[0]), ("tangents", flat)):
        if not leaves:
            raise RuntimeError(f"{_JVP}: Expected {name} to contain at least one Tensor.")
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"{_JVP}: Expected {name} to only contain Tensors, got {type(leaf)}")
    return flat


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """func's value at the primals, and its derivative along the tangents."""
    flat = _check_tangents(primals, tangents)
    with _Level(takes_hooks=True) as level:
        inner, leaves, _ = _open(level, primals, tuple(range(len(primals))))
        out, aux = _split_aux(func(*inner), has_aux, _JVP)
        outs, spec = tree_flatten(out)
        _check_outputs(outs, _JVP)
        linear, marks = _transposed(outs, leaves)
        if strict and any(mark is None for mark in marks):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        pushed = tree_unflatten(_push(outs, linear, marks, flat, level.hangs(outs) or level.hangs(flat)), spec)
        value, pushed, aux = level.settled(out), level.settled(pushed), level.settled(aux)
    return (value, pushed, aux) if has_aux else (value, pushed)


def linearize(func, *primals):
    """func's value, and its derivative as a function of the tangents."""
    with _Level() as level:
        inner, leaves, in_spec = _open(level, primals, tuple(range(len(primals))))
        out = func(*inner)
        outs, spec = tree_flatten(out)
        linear, marks = _transposed(outs, leaves)
        value = level.settled(out)

    def push(*tangents):
        return tree_unflatten(
            _push(outs, linear, marks, _checked(tangents, in_spec, "tangents", "primals"), False), spec
        )

    return value, push


# ---- Jacobians ----
def _unit(like, i):
    """Zeros like a tensor, with a one at place i."""
    from taper import zeros

    flat = zeros(like.numel(), dtype=like.dtype, device=like.device)
    flat[i] = 1
    return flat.view(like.shape)


def _rows_reverse(out, leaves, create):
    """d out / d leaf for each leaf, one backward per element of out: shape out + leaf."""
    from taper import stack

    rows = [_gradients((out,), leaves, (_unit(out, i),), create) for i in range(out.numel())]
    if not rows:
        return [x.new_zeros(tuple(out.shape) + tuple(x.shape)) for x in leaves]
    return [stack(column).view(tuple(out.shape) + tuple(x.shape)) for column, x in zip(zip(*rows), leaves)]


def _rows_forward(outs, leaves, create):
    """The same for all outputs, one derivative along each element of each leaf."""
    from taper import stack, zeros_like

    linear, marks = _transposed(outs, leaves)
    table = [[] for _ in outs]
    for k, x in enumerate(leaves):
        columns = [
            _push(outs, linear, marks, [_unit(y, i) if j == k else zeros_like(y) for j, y in enumerate(leaves)], create)
            for i in range(x.numel())
        ]
        for o, out in enumerate(outs):
            part = stack([c[o] for c in columns], -1) if columns else out.new_zeros(tuple(out.shape) + (0,))
            table[o].append(part.view(tuple(out.shape) + tuple(x.shape)))
    return table


def _jacobian(func, argnums, has_aux, forward):
    @wraps(func, updated=())
    def wrapper(*args, **kwargs):
        with _Level(takes_hooks=forward) as level:
            where, name = (_JVP, "jacfwd") if forward else (_VJP, "jacrev")
            inner, leaves, spec = _open(level, args, argnums)
            _check_real(leaves, name, "inputs")
            out, aux = _split_aux(func(*inner, **kwargs), has_aux, where)
            outs, out_spec = tree_flatten(out)
            _check_outputs(outs, where)
            _check_real(outs, name, "outputs")
            create = level.hangs(outs)
            if forward and sum(x.numel() for x in leaves) < sum(o.numel() for o in outs):
                table = _rows_forward(outs, leaves, create)
            else:
                table = [_rows_reverse(o, leaves, create) for o in outs]
            result = tree_unflatten([tree_unflatten(row, spec) for row in table], out_spec)
            result, aux = level.settled(result), level.settled(aux)
        return (result, aux) if has_aux else result

    return wrapper


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """The Jacobian, a row at a time by backward."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")
    return _jacobian(func, argnums, has_aux, False)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The Jacobian, a column at a time where that is less work."""
    return _jacobian(func, argnums, has_aux, True)


def hessian(func, argnums=0):
    """The matrix of second derivatives."""
    return jacfwd(jacrev(func, argnums), argnums)


# ---- Modules as functions of their state ----
def _owner(module, name):
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else ():
        module = getattr(module, part)
    return module, last


def _slots(module):
    """name -> (the dict that holds the tensor, its key), for parameters and buffers, tied ones under each of their
    names."""
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for store in (part._parameters, part._buffers):
            for key, value in store.items():
                if value is not None:
                    found[f"{prefix}.{key}" if prefix else key] = (store, key)
    return found


@contextmanager
def reparametrized(module, given, tie_weights, strict):
    """The module with these tensors in the places of its parameters and buffers."""
    slots = _slots(module)
    unknown, missing = [n for n in given if n not in slots], [n for n in slots if n not in given]
    if strict and (unknown or missing):
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n"
            f"\tUnexpected key(s): {unknown}. Missing key(s): {missing}."
        )
    before = {name: store[key] for name, (store, key) in slots.items()}
    values = {id(before[name]): value for name, value in given.items() if name in slots} if tie_weights else {}
    extra = []
    try:
        for name, (store, key) in slots.items():
            store[key] = given[name] if name in given else values.get(id(before[name]), store[key])
        for name in unknown:
            owner, last = _owner(module, name)
            extra.append((owner, last, getattr(owner, last)))
            setattr(owner, last, given[name])
        yield module
    finally:
        for name, (store, key) in slots.items():
            store[key] = before[name]
        for owner, last, value in reversed(extra):
            setattr(owner, last, value)


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with these tensors in the places of its parameters and buffers."""
    given = {}
    for part in (
        (parameter_and_buffer_dicts,) if isinstance(parameter_and_buffer_dicts, dict) else parameter_and_buffer_dicts
    ):
        for name in part:
            if name in given:
                raise ValueError(
                    f"{[name]} appeared in multiple dictionaries; behavior of functional call is ambiguous"
                )
        given.update(part)
    with reparametrized(module, given, tie_weights, strict):
        args = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*args, **(kwargs or {}))


def stack_module_state(models):
    """The parameters and the buffers of like models, stacked, for vmap over functional_call."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    from taper import stack

    def stacked(dicts):
        result = {}
        for name, first in dicts[0].items():
            if any(d[name].requires_grad != first.requires_grad for d in dicts):
                raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
            whole = stack([d[name].detach() for d in dicts])
            result[name] = whole.requires_grad_() if first.requires_grad else whole
        return result

    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def functionalize(func, *, remove="mutations"):
    """func as it is written: its results are the same."""

    @wraps(func, updated=())
    def wrapper(*args, **kwargs):
        _vmaps.levels += 1
        try:
            return func(*args, **kwargs)
        finally:
            _vmaps.levels -= 1

    return wrapper


def debug_unwrap(tensor, *, recurse=True):
    """The tensor itself: transforms wrap nothing."""
    return tensor


def replace_all_batch_norm_modules_(root):
    """Takes the running statistics away from all batch norms below root, in place: transforms cannot follow them."""
    for module in root.modules():
        if "running_mean" in module._buffers and "num_batches_tracked" in module._buffers:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
