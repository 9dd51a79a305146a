"""What makes gradients the same in all processes: parameters in buckets, in the reverse of their order, each reduced as
soon as its last gradient is there, while the backward goes on.

The library's reducer (taper/ddp.h) does that, for C as for Python; here is how a bucket reaches the other ranks: by the
process group, or by a communication hook. The sum is taken by rank, so that a run gives the same bits again. A reducer
is told of each backward by `prepare`; the last gradient's hook waits for what is still on its way."""

from taper import _C
from taper import distributed as dist
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad


def tensors_in(value):
    """All tensors in lists, tuples, dicts and objects with a __dict__ of a result."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        value = vars(value).values() if hasattr(value, "__dataclass_fields__") else ()
    return [tensor for item in value for tensor in tensors_in(item)]


class GradBucket:
    """What a communication hook sees of a bucket: its gradients, end to end."""

    def __init__(self, bucket, last):
        self._bucket, self._last, self._buffer = bucket, last, bucket.flat

    def index(self):
        return self._bucket.index

    def buffer(self):
        return self._buffer

    def set_buffer(self, tensor):
        self._buffer = tensor

    def gradients(self):
        return [
            self._buffer[at : at + p.numel()].view(p.shape) for p, at in zip(self._bucket.params, self._bucket.places)
        ]

    def parameters(self):
        return list(self._bucket.params)

    def is_last(self):
        return self._last


class Bucket:
    """Parameters of one dtype and device, and one block of memory for their gradients."""

    def __init__(self, reducer, index):
        self.index = index
        self.flat, members = reducer._bucket(index)
        self.params, self.places = [reducer.params[i] for i in members], []
        total = 0
        for p in self.params:
            self.places.append(total)
            total += p.numel()
        self.pending = self.result = None


class Reducer(_C._Reducer):
    def __init__(self, params, names, group, cap_bytes, find_unused, as_views, static_graph):
        super().__init__(params, names, cap_bytes, find_unused, as_views, static_graph)
        self.params, self.names, self.group = params, names, group
        self.find_unused, self._static_graph = find_unused, static_graph
        self.world = dist.get_world_size(group)
        self.buckets = [Bucket(self, i) for i in range(self._bucket_count)]
        self.hook = None  # (state, function) of register_comm_hook
        self.divisor = self.world

    @property
    def static_graph(self):
        return self._static_graph

    @static_graph.setter
    def static_graph(self, value):
        self._static_graph = value
        if value:
            self._set_static()

    # ---- Before a backward ----
    def check_finished(self):
        """A backward that began must have reached all parameters before the next forward."""
        if not self.running:
            return
        silent = [i for i in range(len(self.params)) if not self._has(i)]
        rank = dist.get_rank(self.group)
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error "
            "indicates that your module has parameters that were not used in producing loss. You can enable unused "
            "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
            "participate in calculating loss.\n"
            f"Parameters which did not receive grad for rank {rank}: {', '.join(self.names[i] for i in silent)}\n"
            f"Parameter indices which did not receive grad for rank {rank}: {' '.join(map(str, silent))}"
        )

    def prepare(self, outputs):
        """The next backward is to be reduced. outputs: what the forward gave, None where its parameters are known to be
        all used."""
        unused = None
        if self.find_unused and not self.static_graph:
            reached = {id(leaf) for leaf in _C._leaves_of([t for t in tensors_in(outputs) if t.requires_grad])}
            unused = [id(p) not in reached for p in self.params]
        self._divide(1 if self.hook else self.divisor)
        self._prepare(unused)

    # ---- While a backward runs: what the library's reducer calls ----
    def _began(self):
        """The first backward over a static graph: what comes in it, and how often, is what will come."""
        _C._queue_callback(self._first_done)

    def _start(self, index):
        bucket = self.buckets[index]
        if self.hook is None:
            bucket.pending = dist.all_reduce(bucket.flat, group=self.group, async_op=True)
            return
        state, hook = self.hook
        bucket.result = hook(state, GradBucket(bucket, index == len(self.buckets) - 1))

    def _wait(self, index):
        """Waits until the bucket holds what all ranks agree on."""
        bucket = self.buckets[index]
        pending, result, bucket.pending, bucket.result = bucket.pending, bucket.result, None, None
        if pending is not None:
            pending.wait()
        elif result is not None:
            result = result.wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            if result.data_ptr() != bucket.flat.data_ptr():
                with no_grad():
                    bucket.flat.copy_(result)

    def _sum(self, used):
        dist.all_reduce(used, group=self.group)

    def _copy(self, to, source):
        with no_grad():
            to.copy_(source)

    # ---- For a rank that has run out of inputs ----
    def shadow(self):
        """Takes part in the reductions of one backward of the others, with nothing of its own."""
        self._divide(1 if self.hook else self.divisor)
        self._shadow()
