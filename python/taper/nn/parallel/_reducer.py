"""What makes gradients the same in all processes: parameters in buckets, in the reverse of their order, each reduced as
soon as its last gradient is there, while the backward goes on.

Every rank starts its buckets in the order of their numbers, whatever order gradients come in, so that the same bucket
meets the same bucket; and the sum is taken by rank, so that a run gives the same bits again. A reducer is told of each
backward by `prepare`; hooks on the parameters do the rest, and the last one waits for what is still on its way."""

import taper
from taper import _C
from taper import distributed as dist
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad

FIRST_BUCKET_BYTES = 1 << 20  # small, so that the first reduction starts early


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

    def __init__(self, index, params):
        self.index, self.params, self.places = index, params, []
        total = 0
        for p in params:
            self.places.append(total)
            total += p.numel()
        self.flat = params[0].new_zeros(total, requires_grad=False).detach()
        self.views = [self._view(p, at) for p, at in zip(params, self.places)]
        self.missing, self.pending, self.result = 0, None, None

    def _view(self, p, at):
        """The parameter's part, laid out as the parameter is."""
        if p.is_contiguous():
            return self.flat[at : at + p.numel()].view(p.shape)
        order = sorted(range(p.dim()), key=p.stride, reverse=True)
        dense = self.flat[at : at + p.numel()].view([p.shape[d] for d in order])
        return dense.permute([order.index(d) for d in range(p.dim())])


def _bucket_lists(params, limits):
    """The parameters in reverse, cut when a bucket of their dtype and device is full."""
    made, open_lists = [], {}
    for p in reversed(params):
        key = (p.dtype, p.device)
        current = open_lists.get(key)
        limit = limits[min(len(made), len(limits) - 1)]
        if current is None:
            current = open_lists[key] = [[], 0, limit]
        current[0].append(p)
        current[1] += p.numel() * p.element_size()
        if current[1] >= current[2]:
            made.append(open_lists.pop(key)[0])
    return made + [current[0] for current in open_lists.values()]


class Reducer:
    def __init__(self, params, names, group, cap_bytes, find_unused, as_views, static_graph):
        self.params, self.names, self.group = params, names, group
        self.world = dist.get_world_size(group)
        self.find_unused, self.as_views, self.static_graph = find_unused, as_views, static_graph
        self.buckets = [
            Bucket(i, part)
            for i, part in enumerate(_bucket_lists(params, (min(FIRST_BUCKET_BYTES, cap_bytes), cap_bytes)))
        ]
        self.place = {p: (bucket, i) for bucket in self.buckets for i, p in enumerate(bucket.params)}
        self.hook, self.divisor = None, self.world
        self.expects, self.running, self.next_bucket = False, False, 0
        self.counts, self.left = (
            None,
            None,
        )  # with a static graph: how often each parameter's gradient grows in a backward
        self.handles = [p.register_post_accumulate_grad_hook(self._arrived) for p in params]

    # ---- Before a backward ----
    def check_finished(self):
        """A backward that began must have reached all parameters before the next forward."""
        if not self.running:
            return
        silent = [i for i, p in enumerate(self.params) if p not in self.seen]
        raise RuntimeError(
            "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that "
            "were not used in producing loss. You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs participate in calculating loss.\n"
            f"Parameters which did not receive grad for rank {dist.get_rank(self.group)}: {', '.join(self.names[i] for i in silent)}\n"
            f"Parameter indices which did not receive grad for rank {dist.get_rank(self.group)}: {' '.join(map(str, silent))}"
        )

    def prepare(self, outputs):
        """The next backward is to be reduced. outputs: what the forward gave, None where its parameters are known to be
        all used."""
        self.expects, self.running, self.next_bucket, self.seen = True, False, 0, set()
        for bucket in self.buckets:
            bucket.missing, bucket.pending, bucket.result = len(bucket.params), None, None
        self.unused = ()
        if self.static_graph:
            if self.counts is not None:
                self.left, self.unused = dict(self.counts), [p for p in self.params if not self.counts.get(p)]
            else:
                self.left = None
        elif self.find_unused:
            reached = {id(leaf) for leaf in _C._leaves_of([t for t in tensors_in(outputs) if t.requires_grad])}
            self.unused = [p for p in self.params if id(p) not in reached]

    # ---- While a backward runs ----
    def _arrived(self, p):
        if not self.expects:
            return
        if not self.running:
            self.running = True
            if self.static_graph and self.counts is None:
                self.first_counts = {}
                _C._queue_callback(self._end_of_first)
            for absent in self.unused:
                self._ready(absent, False)
        if self.static_graph and self.counts is None:
            self.first_counts[p] = self.first_counts.get(p, 0) + 1
            return
        if self.left is not None:
            self.left[p] = self.left.get(p, 0) - 1
            if self.left[p] > 0:
                return
        if p in self.seen:
            raise RuntimeError(
                f"Expected to mark a variable ready only once: parameter '{self.names[self.params.index(p)]}' has been marked as ready twice. Either it is used "
                "in several forwards or reentrant backwards of one iteration (if the graph does not change, _set_static_graph() or static_graph=True helps), or a "
                "forward output that it hangs on is not part of the loss."
            )
        self._ready(p, True)

    def _end_of_first(self):
        """The first backward over a static graph is done: what came, and how often, is what will come."""
        self.counts = self.first_counts
        for bucket in self.buckets:
            for p in bucket.params:
                self._ready(p, p in self.counts)

    def _ready(self, p, has_gradient):
        self.seen.add(p)
        bucket, i = self.place[p]
        view = bucket.views[i]
        with no_grad():
            if has_gradient:
                if p.grad.data_ptr() != view.data_ptr() or p.grad.dtype != view.dtype:
                    view.copy_(p.grad)
            elif p.grad is None or p.grad.data_ptr() != view.data_ptr():
                view.zero_()
        bucket.missing -= 1
        while self.next_bucket < len(self.buckets) and not self.buckets[self.next_bucket].missing:
            self._start(self.buckets[self.next_bucket])
            self.next_bucket += 1
        if self.next_bucket == len(self.buckets):
            self._finish()

    def _start(self, bucket):
        if self.hook is not None:
            state, hook = self.hook
            seen = GradBucket(bucket, bucket.index == len(self.buckets) - 1)
            bucket.result = hook(state, seen)
            return
        with no_grad():
            if self.divisor != 1:
                bucket.flat.div_(self.divisor)
            bucket.pending = dist.all_reduce(bucket.flat, group=self.group, async_op=True)

    def _global_use(self):
        """Which parameters some rank has used: the gradients of the others stay as they are."""
        if not self.unused and not self.find_unused:
            return None
        absent = {id(p) for p in self.unused}
        used = taper.tensor([0 if id(p) in absent else 1 for p in self.params], dtype=_C.int32, device="cpu")
        dist.all_reduce(used, group=self.group)
        return {p: bool(flag) for p, flag in zip(self.params, used.tolist())}

    def _finish(self):
        used = self._global_use()
        with no_grad():
            for bucket in self.buckets:
                self._settle(bucket)
                for p, view in zip(bucket.params, bucket.views):
                    if used is not None and not used[p]:
                        continue
                    if self.as_views:
                        if p.grad is None or p.grad.data_ptr() != view.data_ptr():
                            p.grad = view
                    elif p.grad is None:
                        p.grad = view.clone()
                    else:
                        p.grad.copy_(view)
        self.expects = self.running = False

    def _settle(self, bucket):
        """Waits until the bucket holds what all ranks agree on."""
        if bucket.pending is not None:
            bucket.pending.wait()
        elif bucket.result is not None:
            result = bucket.result.wait()
            result = result[0] if isinstance(result, (list, tuple)) else result
            if result.data_ptr() != bucket.flat.data_ptr():
                bucket.flat.copy_(result)
        bucket.pending = bucket.result = None

    # ---- For a rank that has run out of inputs ----
    def shadow(self):
        """Takes part in the reductions of one backward of the others, with nothing of its own."""
        for bucket in self.buckets:
            with no_grad():
                bucket.flat.zero_()
            self._start(bucket)
        if self.find_unused:
            dist.all_reduce(taper.zeros(len(self.params), dtype=_C.int32, device="cpu"), group=self.group)
        for bucket in self.buckets:
            self._settle(bucket)

    def remove(self):
        for handle in self.handles:
            handle.remove()
