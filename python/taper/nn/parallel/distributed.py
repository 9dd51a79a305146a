"""torch.nn.parallel.DistributedDataParallel: each process has the module and its part of the batch; gradients are
averaged while the backward runs (_reducer.py does that), so that all make the same step."""

from contextlib import contextmanager

import taper
from taper import distributed as dist
from taper.distributed.algorithms.join import Join, Joinable, JoinHook
from taper.nn.modules.module import Module
from taper.nn.parallel._reducer import Reducer
from taper.nn.parallel._verify import broadcast_coalesced, verify_same
from taper.nn.parallel.scatter_gather import gather, to_device

__all__ = ["DistributedDataParallel"]

_BUCKET_MB = 25


class _JoinHook(JoinHook):
    """What a rank that has no more inputs does, so that the others can go on."""

    def __init__(self, ddp, divide_by_initial_world_size):
        self.ddp = ddp
        ddp._divide_by_initial = divide_by_initial_world_size

    def main_hook(self):
        ddp = self.ddp
        ddp._sync_buffers_if_due()
        ddp.require_forward_param_sync = ddp._someone_reduces(False)
        if ddp.require_forward_param_sync:
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner):
        ddp = self.ddp
        ddp._sync_from(ddp._rank_of_last(is_last_joiner), list(ddp.module.parameters()) + ddp._buffers_to_sync())


class DistributedDataParallel(Module, Joinable):
    """The module as `module`, its gradients averaged over the processes of the group in each backward.

    Parameters and buffers start as rank 0's; buffers follow rank 0's before each forward (broadcast_buffers).
    Parameters that a loss does not use need find_unused_parameters=True, or static_graph=True where it is the same ones
    in each iteration."""

    def __init__(
        self,
        module,
        device_ids=None,
        output_device=None,
        dim=0,
        broadcast_buffers=None,
        init_sync=True,
        process_group=None,
        bucket_cap_mb=None,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        delay_all_reduce_named_params=None,
        param_to_hook_all_reduce=None,
        mixed_precision=None,
        device_mesh=None,
        skip_all_reduce_unused_params=False,
        bucket_cap_mb_list=None,
        batched_grad_copy=False,
        forward_sync_buffers=None,
        lazy_bucket_allocation=False,
    ):
        Module.__init__(self)
        Joinable.__init__(self)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        if process_group is None:
            process_group = (
                device_mesh.get_group() if device_mesh is not None else dist.distributed_c10d._get_default_group()
            )
        self.module, self.process_group, self.dim = module, process_group, dim
        on_device = any(p.device.type != "cpu" for p in module.parameters())
        self.device_ids = list(device_ids) if device_ids and on_device else None
        self.output_device = (
            output_device if output_device is not None else self.device_ids[0] if self.device_ids else None
        )
        self.device = next(p.device for p in module.parameters() if p.requires_grad)
        self._inputs_go_to = None  # a plain number means a device of the parameters' kind
        if self.device_ids:
            first = self.device_ids[0]
            self._inputs_go_to = taper.device(self.device.type, first) if isinstance(first, int) else first
        self.broadcast_buffers = True if broadcast_buffers is None else broadcast_buffers
        self.find_unused_parameters, self.gradient_as_bucket_view, self.static_graph = (
            find_unused_parameters,
            gradient_as_bucket_view,
            static_graph,
        )
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._divide_by_initial, self._ignored = True, set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.bucket_bytes_cap = int((_BUCKET_MB if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad and name not in self._ignored]
        if init_sync:
            verify_same(module, self._ignored, process_group)
            self._sync_from(
                0, [t for name, t in [*module.named_parameters(), *module.named_buffers()] if name not in self._ignored]
            )
        for part in module.modules():  # buckets are dense: embeddings with sparse=True give such gradients here
            if isinstance(part, (taper.nn.Embedding, taper.nn.EmbeddingBag)) and part.sparse:
                part.weight._dense_gradient = True
        self.reducer = Reducer(
            [p for _, p in named],
            [name for name, _ in named],
            process_group,
            self.bucket_bytes_cap,
            find_unused_parameters,
            gradient_as_bucket_view,
            static_graph,
        )

    # ---- Copies of one rank's tensors ----
    def _sync_from(self, rank, tensors):
        """All ranks get what the given rank of the group has."""
        broadcast_coalesced(tensors, rank, self.process_group)

    def _buffers_to_sync(self):
        return [buffer for name, buffer in self.module.named_buffers() if name not in self._ignored]

    def will_sync_module_buffers(self):
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_to_sync())

    def _sync_buffers_if_due(self):
        if self.will_sync_module_buffers():
            source = self._rank_of_last(self._still_has_inputs) if self._join_config.enable else 0
            self._sync_from(source, self._buffers_to_sync())

    # ---- Ranks that run out of inputs ----
    _still_has_inputs = True

    def _rank_of_last(self, candidate):
        """The highest rank that answers yes; all ranks ask together."""
        from taper import tensor

        rank = dist.get_rank(self.process_group)
        found = tensor([rank if candidate else -1], device=self.device)
        dist.all_reduce(found, dist.ReduceOp.MAX, group=self.process_group)
        return max(int(found.item()), 0)

    def _someone_reduces(self, here):
        from taper import tensor

        wanted = tensor([int(here)], device=self.device)
        dist.all_reduce(wanted, group=self.process_group)
        return bool(wanted.item())

    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """A region in which ranks may have different numbers of inputs: those that are done take part in the others'
        reductions."""
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs):
        return _JoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self):
        return self.device

    @property
    def join_process_group(self):
        return self.process_group

    # ---- Calls ----
    def forward(self, *inputs, **kwargs):
        inputs, kwargs = self._pre_forward(*inputs, **kwargs)
        return self._post_forward(self.module(*inputs, **kwargs))

    def _pre_forward(self, *inputs, **kwargs):
        """Before the module's forward: buffers, ranks without inputs, and the inputs' device."""
        from taper import is_grad_enabled

        recording = is_grad_enabled() and self.require_backward_grad_sync
        if recording:
            self.reducer.check_finished()
        active = Join.notify_join_context(self)
        self.reducer.divisor = (
            self.reducer.world if self._divide_by_initial or active is None else active
        )  # of those that still have inputs
        self._sync_buffers_if_due()
        if self._join_config.enable:
            self._someone_reduces(recording)
        if self.device_ids:
            inputs, kwargs = to_device((inputs, kwargs), self._inputs_go_to)
        self.require_forward_param_sync = recording
        return inputs, kwargs

    def _post_forward(self, output):
        """After it: the next backward is to be reduced."""
        if self.require_forward_param_sync:
            self.reducer.prepare(output)
        return output

    @contextmanager
    def no_sync(self):
        """Inside, backwards only add to this process's own gradients; the first one after it reduces the sum."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state, hook):
        """hook(state, bucket) -> Future[Tensor] takes the place of averaging a bucket."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook can only be called once.")
        self.reducer.hook = (state, hook)

    def _get_ddp_logging_data(self):
        """What this one was made of, by PyTorch's names."""
        import os

        params = self.reducer.params
        debug = {
            name.lower(): os.environ.get(name, "N/A")
            for name in (
                "CUDA_VISIBLE_DEVICES",
                "GLOO_DEVICE_TRANSPORT",
                "GLOO_SOCKET_IFNAME",
                "MASTER_ADDR",
                "MASTER_PORT",
                "TORCH_DISTRIBUTED_DEBUG",
                "NCCL_SOCKET_IFNAME",
                "NCCL_BLOCKING_WAIT",
                "NCCL_DEBUG",
                "NCCL_NTHREADS",
            )
        }
        return {
            **debug,
            "backend_name": dist.get_backend(self.process_group),
            "rank": dist.get_rank(self.process_group),
            "world_size": self.reducer.world,
            "module_name": type(self.module).__name__,
            "device_ids": ", ".join(map(str, self.device_ids or ())),
            "output_device": self.output_device if isinstance(self.output_device, int) else -1,
            "broadcast_buffers": int(self.broadcast_buffers),
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "bucket_sizes": ", ".join(str(b.flat.numel() * b.flat.element_size()) for b in self.reducer.buckets),
            "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view),
            "static_graph": int(self.static_graph),
            "dtypes": ", ".join(dict.fromkeys(str(p.dtype).rpartition(".")[2] for p in params)),
            "is_multi_device_module": 0,
            "has_sync_bn": int(any(type(child).__name__ == "SyncBatchNorm" for child in self.module.modules())),
            "num_parameter_tensors": len(params),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in params),
            "comm_hook": getattr(self.reducer.hook[1], "__name__", "") if self.reducer.hook else "",
        }

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate):
        if sample_rate < 1:
            raise ValueError("DDP runtime logging sample rate should be equal or greater than 1")

    def _set_static_graph(self):
        self.static_graph = self.reducer.static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def gather(self, outputs, output_device):
        return gather(outputs, output_device, dim=self.dim)

    def __getstate__(self):
        state = dict(self.__dict__)
        for name in ("process_group", "reducer"):
            state.pop(name)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.process_group = dist.distributed_c10d._get_default_group()
        named = [
            (name, p) for name, p in self.module.named_parameters() if p.requires_grad and name not in self._ignored
        ]
        self.reducer = Reducer(
            [p for _, p in named],
            [name for name, _ in named],
            self.process_group,
            self.bucket_bytes_cap,
            self.find_unused_parameters,
            self.gradient_as_bucket_view,
            self.static_graph,
        )
