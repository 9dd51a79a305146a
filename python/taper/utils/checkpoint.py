"""torch.utils.checkpoint: activations computed again in backward instead of kept."""

from contextlib import ExitStack, contextmanager, nullcontext
from enum import Enum

from taper import _C
from taper._C import Tensor
from taper.autograd import _is_checkpoint_valid
from taper.autograd.function import Function
from taper.autograd.grad_mode import enable_grad, no_grad

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
    "CheckpointError",
    "CheckpointFunction",
    "check_backward_validity",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_early_stop",
    "set_checkpoint_debug_enabled",
    "DefaultDeviceType",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]


class CheckpointError(RuntimeError):
    """What was computed again differs from what was computed first."""


class DefaultDeviceType:
    """The device whose random state is kept where no argument says."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type():
        return DefaultDeviceType._type


def noop_context_fn():
    return nullcontext(), nullcontext()


def detach_variable(inputs):
    """The arguments, tensors among them as leaves of their own."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs):
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        import warnings

        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


@contextmanager
def _random_state(states):
    """The default generators in those states for a block (None: as they are)."""
    if states is None:
        yield
        return
    now = [(generator, generator.get_state()) for generator, _ in states]
    for generator, state in states:
        generator.set_state(state)
    try:
        yield
    finally:
        for generator, state in now:
            generator.set_state(state)


_ACCELERATORS = "cuda", "xpu"


def _state_now(preserve):
    """[(generator, state)] of the CPU and of the devices in use."""
    if not preserve:
        return None
    generators = [
        _C._default_generator_of(kind, i)
        for kind in _ACCELERATORS
        if _C._gpu_used(kind)
        for i in range(_C._gpu_count(kind))
    ]
    return [(generator, generator.get_state()) for generator in (_C.default_generator, *generators)]


def _devices_of(args):
    """(type, number) of the accelerators that tensors among the arguments are on."""
    from taper.utils._pytree import tree_leaves

    return sorted(
        {
            (t.device.type, t.device.index or 0)
            for t in tree_leaves(args)
            if isinstance(t, _C.Tensor) and t.device.type in _ACCELERATORS
        }
    )


def get_device_states(*args):
    """(numbers of the accelerators that the arguments are on, the state of each one's random numbers)."""
    devices = _devices_of(args)
    return [i for _, i in devices], [_C._default_generator_of(kind, i).get_state() for kind, i in devices]


def set_device_states(devices, states, *, device_type=None):
    """Puts those states back."""
    kind = device_type or DefaultDeviceType.get_device_type()
    for i, state in zip(devices, states):
        _C._default_generator_of(kind, i).set_state(state)


def _regions_on():
    return {kind: _C.get_autocast_dtype(kind) for kind in ("cpu", *_ACCELERATORS) if _C.is_autocast_enabled(kind)}


def _region_now():
    """The autocast regions by device type, and whether they keep casts, for the second run."""
    return _regions_on(), _C.is_autocast_cache_enabled()


def _region(then):
    """The autocast regions as they were, for a block."""
    wanted, cache = then
    present = _regions_on()
    if wanted == present:
        return nullcontext()
    from taper.amp import autocast

    stack = ExitStack()
    for kind in {**present, **wanted}:
        stack.enter_context(
            autocast(kind, wanted[kind], cache_enabled=cache) if kind in wanted else autocast(kind, enabled=False)
        )
    return stack


class CheckpointFunction(Function):
    """The reentrant form: forward without a tape; backward runs it again and walks the tape that makes."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function, ctx.state, ctx.region = run_function, _state_now(preserve_rng_state), _region_now()
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.others = tuple(None if isinstance(x, Tensor) else x for x in args)
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if not _is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.others)
        for i, t in zip(ctx.places, ctx.saved_tensors):
            args[i] = t
        args = detach_variable(tuple(args))
        with enable_grad(), _random_state(ctx.state), _region(ctx.region):
            outputs = ctx.run_function(*args)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        _C._backward([o for o, _ in pairs], [g for _, g in pairs], False, False, None)
        return (None, None) + tuple(x.grad if isinstance(x, Tensor) else None for x in args)


class _StopRecomputing(Exception):
    """All that was saved the first time is there again."""


def _sequence_now():
    """The number of a node that is made now: those of earlier calls of this thread have smaller ones."""
    from taper import zeros

    with enable_grad():
        return zeros((), requires_grad=True).neg().grad_fn._sequence_nr()


class _Segment:
    """One call in the form without reentry: what its operators save is dropped, and computed again when backward first
    asks."""

    def __init__(self, run, args, state, recompute_context, determinism_check, early_stop):
        self.run, self.state, self.recompute_context, self.check = run, state, recompute_context, determinism_check
        self.region = _region_now()
        self.facts, self.values = [], None  # shape, dtype and device of each; the values, while there are any
        self.early_stop = early_stop if _early_stop is None else _early_stop
        self.is_complete, self.was_asked_early = (
            False,
            False,
        )  # has the first run ended; did a backward inside of it ask for something?
        self.read = [
            (t, t._version) for t in args if isinstance(t, Tensor)
        ]  # what the second run reads, as the first one found it
        self.start = _sequence_now()

    def pack(self, t):
        self.facts.append((t.shape, t.dtype, t.device))
        if t.requires_grad and (
            t.grad_fn is None or t.grad_fn._sequence_nr() < self.start
        ):  # of the function's closure, or a parameter
            self.read.append((t, t._version))
        return len(self.facts) - 1

    def check_versions(self):
        """Is everything that the second run will read as it was?"""
        for t, version in self.read:
            if t._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{t.type()} {list(t.shape)}] is at version {t._version}; expected version {version} instead. "
                    "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
                    "torch.autograd.set_detect_anomaly(True)."
                )

    def unpack(self, i):
        self.was_asked_early |= not self.is_complete
        if self.values is None or i >= len(self.values) or self.values[i] is None:
            self.recompute()
        value, self.values[i] = self.values[i], None  # asked for once per backward; a second one computes all again
        return value

    def recompute(self):
        self.check_versions()
        self.values = []

        def keep(t):
            self.values.append(t.detach())
            if self.early_stop and len(self.values) == len(self.facts):
                raise _StopRecomputing
            return t

        from taper.autograd.graph import saved_tensors_hooks

        try:
            with (
                enable_grad(),
                _random_state(self.state),
                _region(self.region),
                self.recompute_context,
                saved_tensors_hooks(keep, lambda t: t),
            ):
                self.run()
        except _StopRecomputing:
            pass
        self.compare()

    def compare(self):
        if (
            self.was_asked_early
        ):  # the second run saves what the first one did, and what its backward had taken from here
            return
        if len(self.values) > len(self.facts):
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                "forward pass.\n"
                f"Number of tensors saved during forward: {len(self.facts)}\n"
                f"Number of tensors saved during recomputation: {len(self.values)}."
            )
        if len(self.values) != len(self.facts):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                "recomputation.\n"
                f"Number of tensors saved during forward: {len(self.facts)}\n"
                f"Number of tensors saved during recomputation: {len(self.values)}."
            )
        if self.check == "none":
            return
        for i, (t, facts) in enumerate(zip(self.values, self.facts)):
            if (t.shape, t.dtype, t.device) != facts:
                raise CheckpointError(
                    "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata "
                    "than during the forward pass.\n"
                    f"tensor at position {i}:\n"
                    f"saved metadata: {facts}\n"
                    f"recomputed metadata: {(t.shape, t.dtype, t.device)}"
                )


_early_stop = None  # set_checkpoint_early_stop's word, which counts more than a call's own


@contextmanager
def set_checkpoint_early_stop(enable):
    """May computing again stop once everything needed is there? It may unless told otherwise."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled):
    """Accepted: errors name shapes and dtypes in any case."""
    yield


def _checkpoint_without_reentry(function, preserve, context_fn, check, early_stop, args, kwargs):
    from taper.autograd.graph import saved_tensors_hooks

    forward_context, recompute_context = context_fn()
    if not _C.is_grad_enabled():
        return function(*args, **kwargs)
    segment = _Segment(
        lambda: function(*args, **kwargs), args, _state_now(preserve), recompute_context, check, early_stop
    )
    with forward_context, saved_tensors_hooks(segment.pack, segment.unpack):
        result = function(*args, **kwargs)
    segment.is_complete = True
    return result


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    **kwargs,
):
    """function(*args, **kwargs), whose inner values are computed again in backward."""
    if use_reentrant is None:
        import warnings

        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch "
            "2.9, calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. "
            "Refer to docs for more details on the differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _checkpoint_without_reentry(function, preserve, context_fn, determinism_check, early_stop, args, kwargs)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """A sequence of modules in segments, each but the last checkpointed."""
    if use_reentrant is None:
        import warnings

        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def run(start, end):
        def forward(value):
            for i in range(start, end):
                value = functions[i](value)
            return value

        return forward

    last = size * (segments - 1)
    for start in range(0, last, size) if size else ():
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(last, len(functions))(input)


# ---- Selective checkpoints ----
class CheckpointPolicy(Enum):
    """What a policy answers for an operator."""

    MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE, PREFER_RECOMPUTE, MUST_CPU_OFFLOAD = range(5)


class SelectiveCheckpointContext:
    """What a policy is told: is this the second run?"""

    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """The contexts of the first run and of the second. Taper computes all of a checkpoint again, whatever the policy
    would keep: the results are the same."""
    if not callable(policy_fn_or_list) and not isinstance(policy_fn_or_list, (list, tuple)):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    from taper._ops import OpOverload, OpOverloadPacket

    for op in () if callable(policy_fn_or_list) else policy_fn_or_list:
        if not isinstance(op, OpOverload):
            more = (
                " Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                if isinstance(op, OpOverloadPacket)
                else ""
            )
            raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{more}")
    return nullcontext(), nullcontext()
