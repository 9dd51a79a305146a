"""deepspeed's engine: engine(batch), engine.backward(loss), engine.step().

What lies in parts on the ranks: stage 0, nothing; 1, the optimiser's state (each rank steps its own parameters, then
all get them); 2, the gradients as well (reduced to the rank that steps them); 3, the parameters too, by fully_shard.
With bf16 or fp16 the model computes in 16 bits, and the optimiser keeps and steps float32."""

import os

import taper
from taper import distributed as dist
from taper import nn, optim
from taper.autograd.grad_mode import no_grad
from taper.deepspeed import _states
from taper.deepspeed.config import Config
from taper.deepspeed.runtime import lr_schedules
from taper.distributed._alone import local_rank
from taper.distributed._wrapper import Wrapper
from taper.nn.parallel._verify import broadcast_coalesced

_OPTIMISERS = {
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "sgd": optim.SGD,
    "adagrad": optim.Adagrad,
    "rmsprop": optim.RMSprop,
    "fusedadam": optim.AdamW,
}


class _Scaler:
    """fp16's loss scale: halved when gradients overflow, doubled after a window of steps without."""

    def __init__(self, options):
        fixed = options.get("loss_scale", 0)
        self.dynamic = not fixed
        self.scale = float(fixed or 2.0 ** options.get("initial_scale_power", 16))
        self.window, self.least, self.good = options.get("loss_scale_window", 1000), options.get("min_loss_scale", 1), 0

    def update(self, overflow):
        if not self.dynamic:
            return
        self.good = 0 if overflow else self.good + 1
        if overflow:
            self.scale = max(self.scale / 2, self.least)
        elif self.good % self.window == 0:
            self.scale *= 2


def _layers(module):
    """The members of the outermost lists and sequences in a module that have parameters."""
    found = []
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.Sequential)):
            found += [layer for layer in child if any(True for _ in layer.parameters())]
        else:
            found += _layers(child)
    return found


class DeepSpeedEngine(Wrapper):
    def __init__(
        self,
        model,
        config,
        optimizer=None,
        model_parameters=None,
        lr_scheduler=None,
        training_data=None,
        collate_fn=None,
    ):
        super().__init__()
        self.world_size, self.global_rank = dist.get_world_size(), dist.get_rank()
        self.local_rank = local_rank()
        self._config = config = Config(config, self.world_size)
        self.device = taper.device("cuda", self.local_rank) if taper.cuda.is_available() else taper.device("cpu")
        self.module = model.to(self.device)
        self.global_steps = self.micro_steps = self.skipped_steps = 0
        self._norm = None
        self._compute = taper.bfloat16 if config.bf16 else taper.float16 if config.fp16 else None
        self.scaler = _Scaler(config.all.get("fp16", {})) if config.fp16 else None
        broadcast_coalesced([*model.parameters(), *model.buffers()], 0, dist.distributed_c10d._get_default_group())
        self._prepare(optimizer, model_parameters)
        self.lr_scheduler = self._make_schedule(lr_scheduler)
        self.training_dataloader = (
            self.deepspeed_io(training_data, collate_fn=collate_fn) if training_data is not None else None
        )

    # ---- Parameters and who steps them ----
    def _prepare(self, optimizer, model_parameters):
        stage = self._config.stage
        names = {p: name for name, p in self.module.named_parameters()}
        if stage == 3:
            self._shard(optimizer, model_parameters, names)
            return
        optimizer = self._make_optimizer(optimizer, model_parameters)
        self._params = [p for group in optimizer.param_groups for p in group["params"]]
        self._names = {p: names.get(p, str(i)) for i, p in enumerate(self._params)}
        self._masters = dict(zip(self._params, self._params))
        if self._compute is not None:
            self._masters = {p: nn.Parameter(p.detach().float().clone()) for p in self._params}
            self.module.to(self._compute)
        self._owner = self._owners() if stage else {}
        for group in optimizer.param_groups:
            group["params"] = [
                self._masters[p] for p in group["params"] if self._owner.get(p, self.global_rank) == self.global_rank
            ]
        self.optimizer = optimizer

    def _owners(self):
        load, owner = [0] * self.world_size, {}
        for p in sorted(self._params, key=lambda p: -p.numel()):
            rank = load.index(min(load))
            owner[p] = rank
            load[rank] += p.numel()
        return owner

    def _shard(self, optimizer, model_parameters, names):
        """Stage 3: every layer of a list or sequence is a unit, and what is left the last one."""
        from taper.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=self._compute, reduce_dtype=taper.float32 if self._compute else None)
        options = (
            [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
            if optimizer is not None
            else None
        )
        members = (
            [[names[p] for p in group["params"]] for group in optimizer.param_groups] if optimizer is not None else None
        )
        for layer in _layers(self.module):
            fully_shard(layer, mp_policy=policy)
        fully_shard(self.module, mp_policy=policy)
        parts = dict(self.module.named_parameters())
        if optimizer is None:
            self.optimizer = self._make_optimizer(None, list(parts.values()))
        else:
            for group, own, kept in zip(optimizer.param_groups, members, options):
                group.update(kept, params=[parts[name] for name in own])
            self.optimizer = optimizer
        self._params = [p for group in self.optimizer.param_groups for p in group["params"]]
        self._names = {p: name for name, p in parts.items()}
        self._masters, self._owner = dict(zip(self._params, self._params)), {}

    def _make_optimizer(self, given, model_parameters):
        if given is not None:
            if isinstance(given, optim.Optimizer):
                return given
            return given(model_parameters if model_parameters is not None else self.module.parameters())
        asked = self._config.all.get("optimizer")
        if asked is None:
            raise ValueError("deepspeed.initialize needs an optimizer, or one in the configuration")
        kind = _OPTIMISERS.get(asked["type"].lower()) or getattr(optim, asked["type"], None)
        if kind is None:
            raise ValueError(f"deepspeed: there is no optimizer '{asked['type']}' here")
        options = {
            key: tuple(value) if key == "betas" else value
            for key, value in asked.get("params", {}).items()
            if value != "auto"
        }
        plain = options.pop("adam_w_mode", True) is False or options.pop("torch_adam", False)
        if asked["type"].lower() == "adam" and not plain:
            kind = optim.AdamW  # DeepSpeed's Adam is AdamW unless it is told otherwise
        params = list(model_parameters) if model_parameters is not None else list(self.module.parameters())
        return kind(
            params if params and isinstance(params[0], dict) else [p for p in params if p.requires_grad], **options
        )

    def _make_schedule(self, given):
        if given is not None:
            return given(self.optimizer) if callable(given) and not hasattr(given, "step") else given
        asked = self._config.all.get("scheduler")
        if not asked or not asked.get("type"):
            return None
        kind = getattr(lr_schedules, asked["type"], None) or getattr(optim.lr_scheduler, asked["type"], None)
        if kind is None:
            raise ValueError(f"deepspeed: there is no scheduler '{asked['type']}' here")
        return kind(self.optimizer, **{key: value for key, value in asked.get("params", {}).items() if value != "auto"})

    def deepspeed_io(
        self,
        dataset,
        batch_size=None,
        route=None,
        pin_memory=False,
        data_sampler=None,
        collate_fn=None,
        num_local_io_workers=None,
    ):
        """A loader that gives each rank its part of a dataset."""
        from taper.utils.data import DataLoader
        from taper.utils.data.distributed import DistributedSampler

        sampler = data_sampler or DistributedSampler(dataset, self.world_size, self.global_rank)
        return DataLoader(
            dataset,
            batch_size or self._config.micro_batch,
            sampler=sampler,
            collate_fn=collate_fn,
            num_workers=num_local_io_workers or 0,
            drop_last=bool(self._config.all.get("dataloader_drop_last", False)),
        )

    # ---- Training ----
    def forward(self, *inputs, **kwargs):
        if self._compute is not None and self._config.stage != 3:
            from taper.distributed.fsdp._fully_shard import cast

            inputs, kwargs = cast(inputs, self._compute), cast(kwargs, self._compute)
        return self.module(*inputs, **kwargs)

    def is_gradient_accumulation_boundary(self):
        return (self.micro_steps + 1) % self._config.accumulation == 0

    def backward(self, loss, retain_graph=False, scale_wrt_gas=True, **options):
        """The backward of one micro-batch; at the end of a batch, gradients are averaged over the ranks."""
        scaled = loss / self._config.accumulation if scale_wrt_gas else loss
        if self._config.stage == 3:
            self.module.set_requires_gradient_sync(self.is_gradient_accumulation_boundary())
        (scaled * self.scaler.scale if self.scaler else scaled).backward(retain_graph=retain_graph)
        if self._config.stage != 3:
            self._accumulate()
            if self.is_gradient_accumulation_boundary():
                self._reduce()
        return loss

    def _accumulate(self):
        """16-bit gradients add up in float32."""
        if self._compute is None:
            return
        with no_grad():
            for p, master in self._masters.items():
                if p.grad is not None:
                    master.grad = p.grad.float() if master.grad is None else master.grad.add_(p.grad)
                    p.grad = None

    def _reduce(self):
        """Averages: over all ranks, or to the rank that steps a parameter."""
        with no_grad():
            for rank in range(self.world_size) if self._config.stage == 2 else [None]:
                params = [p for p in self._params if p.requires_grad and (rank is None or self._owner[p] == rank)]
                for p in params:
                    master = self._masters[p]
                    if master.grad is None:
                        master.grad = taper.zeros_like(master)
                if params:
                    self._reduce_together([self._masters[p].grad for p in params], rank)
                if rank is not None and rank != self.global_rank:
                    for p in params:
                        self._masters[p].grad = None

    def _reduce_together(self, grads, rank):
        flat = taper.cat([grad.reshape(-1) for grad in grads]).div_(self.world_size)
        dist.all_reduce(flat) if rank is None else dist.reduce(flat, rank)
        at = 0
        for grad in grads:
            grad.copy_(flat[at : at + grad.numel()].view(grad.shape))
            at += grad.numel()

    def _stepped(self):
        return [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]

    def _finish_gradients(self):
        """Unscales and clips; whether all gradients are finite."""
        stepped = self._stepped()
        if self.scaler is None and not self._config.clip:
            return True
        if self.scaler is not None:
            with no_grad():
                for p in stepped:
                    p.grad.div_(self.scaler.scale)
        total = self._total_norm(stepped)
        self._norm = float(total)
        if not total.isfinite():
            return self.scaler is None
        if self._config.clip and stepped:
            nn.utils.clip_grads_with_norm_(stepped, self._config.clip, total)
        return True

    def _total_norm(self, stepped):
        grads = [p.grad for p in stepped]
        if self._config.stage == 3:
            return nn.utils.get_total_norm(grads)
        square = nn.utils.get_total_norm(grads) ** 2 if grads else taper.zeros(())
        if self._config.stage:  # each rank has other parameters
            dist.all_reduce(square)
        return square.sqrt()

    def step(self, lr_kwargs=None):
        """At the end of a batch: one step of the optimiser and of the schedule."""
        boundary = self.is_gradient_accumulation_boundary()
        self.micro_steps += 1
        if not boundary:
            return
        finite = self._finish_gradients()
        if finite:
            self.optimizer.step()
            self._share()
            if self.lr_scheduler is not None:
                self.lr_scheduler.step(**(lr_kwargs or {}))
        else:
            self.skipped_steps += 1
        if self.scaler is not None:
            self.scaler.update(not finite)
        self.zero_grad()
        self.global_steps += 1

    def _share(self):
        """What was stepped reaches the model, and all ranks."""
        with no_grad():
            for p, master in self._masters.items():
                if master is not p and self._owner.get(p, self.global_rank) == self.global_rank:
                    p.copy_(master)
        for rank in range(self.world_size) if self._owner else ():
            mine = [p for p in self._params if self._owner[p] == rank]
            if mine:
                broadcast_coalesced(mine, rank, dist.distributed_c10d._get_default_group())

    def zero_grad(self, set_to_none=True):
        for p in self._params:
            p.grad = None
            self._masters[p].grad = None

    # ---- What scripts ask ----
    def train_batch_size(self):
        return self._config.train_batch_size

    def train_micro_batch_size_per_gpu(self):
        return self._config.micro_batch

    def gradient_accumulation_steps(self):
        return self._config.accumulation

    def gradient_clipping(self):
        return self._config.clip

    def zero_optimization(self):
        return self._config.stage > 0

    def zero_optimization_stage(self):
        return self._config.stage

    def get_global_grad_norm(self):
        return self._norm

    def get_lr(self):
        return [group["lr"] for group in self.optimizer.param_groups]

    def bfloat16_enabled(self):
        return self._config.bf16

    def fp16_enabled(self):
        return self._config.fp16

    @property
    def loss_scale(self):
        return self.scaler.scale if self.scaler else 1.0

    # ---- Checkpoints ----
    def save_checkpoint(self, save_dir, tag=None, client_state=None, save_latest=True, exclude_frozen_parameters=False):
        """A folder save_dir/tag to which each rank writes its part; save_dir/latest names the last one."""
        return _states.save(self, save_dir, tag, client_state or {}, save_latest)

    def load_checkpoint(
        self,
        load_dir,
        tag=None,
        load_module_strict=True,
        load_optimizer_states=True,
        load_lr_scheduler_states=True,
        load_module_only=False,
        custom_load_fn=None,
    ):
        """Loads what any number of ranks saved, in any stage: the folder, and the client's state; None where there is
        none."""
        return _states.load(
            self,
            load_dir,
            tag,
            load_optimizer_states and not load_module_only,
            load_lr_scheduler_states and not load_module_only,
        )

    def save_16bit_model(self, save_dir, save_filename="pytorch_model.bin", exclude_frozen_parameters=False):
        """The whole weights in one file, written by rank 0."""
        whole = _states.whole_weights(self)
        if self.global_rank == 0:
            os.makedirs(save_dir, exist_ok=True)
            taper.save(whole, os.path.join(save_dir, save_filename))
        dist.barrier()
        return True

    save_fp16_model = save_16bit_model
