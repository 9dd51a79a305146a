"""Graphs: work of a stream that is recorded once and started again as one piece, and the memory pools they own."""

from taper import _C
from taper._gpu.devices import need

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}


def graph_pool_handle():
    """The name of a memory pool that several graphs may share."""
    return 0, _C._gpu_pool_new()


class Graph:
    """Calls recorded once and replayed."""

    _kind, _word = "cuda", "CUDA"

    def __init__(self, keep_graph=False):
        need(self._kind, self._word)
        self._graph = _C._Graph()

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Records what comes on the current stream, which must not be the default one."""
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        self._graph.begin(
            self._kind, _C._gpu_current(self._kind), 0 if pool is None else pool[1], _MODES[capture_error_mode]
        )

    def capture_end(self):
        self._graph.end()

    def instantiate(self):
        """Nothing to do: capture_end has made it ready."""

    def replay(self):
        """Starts what was recorded, on the current stream."""
        self._graph.replay()

    def reset(self):
        """Gives up what was recorded and its memory."""
        self._graph.reset()

    def pool(self):
        """The pool its memory is from, for graphs that share it."""
        return 0, self._graph.pool()

    def enable_debug_mode(self):
        """Recorded work is not kept in a form that could be looked at."""

    def debug_dump(self, debug_path):
        raise RuntimeError("this graph keeps no debug data")


def capturing(device_module):
    """The class torch.ROOM.graph: records a with block into a graph, on a stream of its own."""

    class graph:
        default_capture_stream = None

        def __init__(self, graph, pool=None, stream=None, capture_error_mode="global", **unused):
            if stream is None:
                if type(self).default_capture_stream is None:
                    type(self).default_capture_stream = device_module.Stream()
                stream = type(self).default_capture_stream
            self.capture_stream, self.stream_ctx, self.graph = stream, device_module.stream(stream), graph
            self.pool, self.capture_error_mode = pool, capture_error_mode

        def __enter__(self):
            import gc

            device_module.synchronize()
            gc.collect()
            device_module.empty_cache()
            self.stream_ctx.__enter__()
            try:
                self.graph.capture_begin(self.pool, self.capture_error_mode)
            except BaseException:
                self.stream_ctx.__exit__(None, None, None)
                raise

        def __exit__(self, *error):
            try:
                self.graph.capture_end()
            finally:
                self.stream_ctx.__exit__(*error)
            return False

    graph.__doc__ = "Records a with block into a graph, on a stream of its own."
    graph.__module__, graph.__qualname__ = f"{device_module.__name__}.graphs", "graph"
    return graph


class MemPool:
    """A part of the device's memory that graphs may share."""

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        self.id = graph_pool_handle()


class use_mem_pool:
    """Memory for graphs comes from their own pools; outside of a capture there is one pool, and this changes
    nothing."""

    def __init__(self, pool, device=None):
        self.pool = pool

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def _flat(value):
    from taper.utils._pytree import tree_flatten

    return tree_flatten(value)


class _Graphed:
    """One callable whose forward and backward are graphs over tensors that stay where they are."""

    def __init__(self, function, sample, warmup, allow_unused, pool, device_module, graph_class, mode):
        from taper import autograd, empty_like

        self.function, self.device_module = function, device_module
        self.parameters = (
            tuple(p for p in function.parameters() if p.requires_grad) if hasattr(function, "parameters") else ()
        )
        leaves, self.shape = _flat(sample)
        self.inputs = tuple(leaves)
        surface = tuple(t for t in (*self.inputs, *self.parameters) if t.requires_grad)
        self.places = [i for i, t in enumerate((*self.inputs, *self.parameters)) if t.requires_grad]
        self.forward_graph, self.backward_graph = graph_class(), graph_class()
        graph = device_module.graph

        def run():
            outputs, self.made = _flat(function(*sample))
            return tuple(outputs)

        def gradients(outputs, grads):
            chosen = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
            return (
                autograd.grad(
                    [o for o, _ in chosen], surface, [g for _, g in chosen], only_inputs=True, allow_unused=allow_unused
                )
                if surface and chosen
                else ()
            )

        aside = device_module.Stream()
        aside.wait_stream(device_module.current_stream())
        with device_module.stream(aside):
            for _ in range(warmup):
                outputs = run()
                gradients(outputs, [empty_like(o) for o in outputs])
        device_module.current_stream().wait_stream(aside)
        with graph(self.forward_graph, pool=pool, capture_error_mode=mode):
            self.outputs = run()
        self.grad_outputs = tuple(empty_like(o) if o.requires_grad else None for o in self.outputs)
        self.differs = bool(surface) and any(o.requires_grad for o in self.outputs)
        if self.differs:
            with graph(self.backward_graph, pool=pool, capture_error_mode=mode):
                found = gradients(self.outputs, self.grad_outputs)
            by_place = dict(zip(self.places, found))
            self.grad_inputs = tuple(by_place.get(i) for i in range(len(self.inputs) + len(self.parameters)))
        self.autograd_function = self._function()

    def _function(self):
        from taper.autograd import Function

        graphed = self

        class Graphed(Function):
            @staticmethod
            def forward(ctx, *given):
                for static, new in zip(graphed.inputs, given):
                    if static.data_ptr() != new.data_ptr():
                        static.detach().copy_(new)
                graphed.forward_graph.replay()
                return tuple(o.detach() for o in graphed.outputs)

            @staticmethod
            def backward(ctx, *grads):
                for static, new in zip(graphed.grad_outputs, grads):
                    if static is not None and static.data_ptr() != new.data_ptr():
                        static.copy_(new)
                graphed.backward_graph.replay()
                return tuple(g if g is None else g.detach() for g in graphed.grad_inputs)

        return Graphed

    def __call__(self, *args):
        from taper.utils._pytree import tree_unflatten

        given, _ = _flat(args)
        outputs = self.autograd_function.apply(*given, *self.parameters)
        return tree_unflatten(outputs if isinstance(outputs, tuple) else (outputs,), self.made)


def graphed_callables(
    device_module,
    graph_class,
    callables,
    sample_args,
    num_warmup_iters=3,
    allow_unused_input=False,
    pool=None,
    capture_error_mode="global",
):
    """Callables (functions or modules) whose forward and backward are recorded as graphs with the sample arguments and
    replayed from then on."""
    one = not isinstance(callables, tuple)
    functions, samples = ((callables,), (sample_args,)) if one else (callables, sample_args)
    result = []
    for function, sample in zip(
        functions, samples
    ):  # each with memory of its own, so that their order at replay does not matter
        graphed = _Graphed(
            function,
            sample,
            num_warmup_iters,
            allow_unused_input,
            pool or graph_pool_handle(),
            device_module,
            graph_class,
            capture_error_mode,
        )
        if hasattr(function, "parameters"):
            training, forward = function.training, function.forward
            function.forward = lambda *args, _g=graphed, _t=training, _m=function, _f=forward: (
                _g(*args) if _m.training == _t else _f(*args)
            )
            result.append(function)
        else:
            result.append(graphed)
    return result[0] if one else tuple(result)
