"""torch.distributed.fsdp.FullyShardedDataParallel: the wrapper. Its parameters are the parts (as with fully_shard, so
use_orig_params makes no difference); names in state dicts are those of the module without wrappers."""

from contextlib import contextmanager

from taper import _C
from taper import distributed as dist
from taper.autograd.grad_mode import no_grad
from taper.distributed._wrapper import Wrapper
from taper.distributed.device_mesh import DeviceMesh
from taper.distributed.fsdp import wrap
from taper.distributed.fsdp._fully_shard import cast
from taper.distributed.fsdp._unit import Unit, units_of
from taper.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalStateDictConfig,  # noqa: F401
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from taper.distributed.tensor._dtensor import DTensor
from taper.nn.modules.module import Module
from taper.nn.parallel._verify import broadcast_coalesced
from taper.nn.utils.clip_grad import clip_grad_norm_

__all__ = ["FullyShardedDataParallel"]

_INNER = "_fsdp_wrapped_module"


def clean(name):
    """A name without the wrappers in it."""
    return name.replace(_INNER + ".", "")


def _alone(rank):
    """A mesh of this rank by itself: nothing is sharded."""
    mine = None
    for other in range(dist.get_world_size()):
        group = dist.new_group([other])
        mine = group if other == rank else mine
    return DeviceMesh.from_group(mine, "cpu", [rank])


class _AllParameters:
    """What an optimiser over all parameters of a model has for groups."""

    def __init__(self, model):
        self.param_groups = [{"params": list(model.parameters())}]


def _materialize(module, init, device):
    """Gives what is on the meta device memory, and values: by init, or by its modules' reset_parameters."""
    for child in module.modules():
        own = [*child._parameters.values(), *child._buffers.values()]
        if not any(t is not None and t.is_meta for t in own):
            continue
        if init is not None:
            init(child)
            continue
        if device is None:
            device = _C.device("cuda" if _C._gpu_count("cuda") else "cpu")
        child.to_empty(device=f"cuda:{device}" if isinstance(device, int) else device, recurse=False)
        if not callable(getattr(child, "reset_parameters", None)):
            raise ValueError(
                f"Cannot initialize the meta parameters of {type(child).__name__}: it has no reset_parameters(); give "
                "param_init_fn"
            )
        child.reset_parameters()


class FullyShardedDataParallel(Wrapper):
    """The module, with parameters, gradients and optimiser state in parts on the ranks of the group."""

    _inner = _INNER

    def __init__(
        self,
        module,
        process_group=None,
        sharding_strategy=None,
        cpu_offload=None,
        auto_wrap_policy=None,
        backward_prefetch=None,
        mixed_precision=None,
        ignored_modules=None,
        param_init_fn=None,
        device_id=None,
        sync_module_states=False,
        forward_prefetch=False,
        limit_all_gathers=True,
        use_orig_params=False,
        ignored_states=None,
        device_mesh=None,
    ):
        super().__init__()
        group = (
            process_group
            if process_group is not None and not isinstance(process_group, tuple)
            else dist.distributed_c10d._get_default_group()
        )
        self.process_group, self.sharding_strategy, self.mixed_precision = (
            group,
            sharding_strategy or ShardingStrategy.FULL_SHARD,
            mixed_precision,
        )
        _materialize(module, param_init_fn, device_id)
        if device_id is not None:
            module.to(device_id if not isinstance(device_id, int) else f"cuda:{device_id}")
        skip = set(ignored_modules or ())
        if auto_wrap_policy is not None:
            options = dict(
                process_group=group,
                sharding_strategy=self.sharding_strategy,
                mixed_precision=mixed_precision,
                device_mesh=device_mesh,
                param_init_fn=param_init_fn,
            )
            wrap.wrap_children(
                module,
                auto_wrap_policy,
                lambda child, **more: FullyShardedDataParallel(child, **{**options, **more}),
                skip,
            )
        if sync_module_states:
            broadcast_coalesced(
                [p for p in [*module.parameters(), *module.buffers()] if not isinstance(p, DTensor)], 0, group
            )
        self._fsdp_wrapped_module = module
        self._replicated = self.sharding_strategy == ShardingStrategy.NO_SHARD
        device = next((p.device.type for p in module.parameters()), "cpu")
        mesh = _alone(dist.get_rank()) if self._replicated else device_mesh or DeviceMesh.from_group(group, device)
        ignored = {p for one in skip for p in one.parameters()} | {
            p for p in ignored_states or () if not isinstance(p, Module)
        }
        precision = mixed_precision or type(
            "none", (), {"param_dtype": None, "reduce_dtype": None, "cast_forward_inputs": False}
        )
        self._unit = Unit(
            module,
            mesh,
            self.sharding_strategy not in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD),
            precision.param_dtype,
            precision.reduce_dtype,
            ignored,
        )
        if self._replicated:
            self._unit.replicas, self._unit.reduce_factor = group, dist.get_world_size(group)
        object.__setattr__(module, "_fsdp_unit", self._unit)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), OptimStateDictConfig())

    @property
    def module(self):
        return self._fsdp_wrapped_module

    def forward(self, *args, **kwargs):
        self._unit.before_forward()
        dtype = getattr(self.mixed_precision, "param_dtype", None)
        if dtype is not None:
            args, kwargs = cast(args, dtype), cast(kwargs, dtype)
        output = self._fsdp_wrapped_module(*args, **kwargs)
        self._unit.after_forward(output)
        return output

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        for name, p in super().named_parameters(prefix, recurse, remove_duplicate):
            yield clean(name), p

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        for name, b in super().named_buffers(prefix, recurse, remove_duplicate):
            yield clean(name), b

    # ---- Modes ----
    @contextmanager
    def no_sync(self):
        """Inside, gradients add up on each rank, whole."""
        units = units_of(self)
        for unit in units:
            unit.sync = False
        try:
            yield
        finally:
            for unit in units:
                unit.sync = True

    @staticmethod
    @contextmanager
    def summon_full_params(
        module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False
    ):
        """Inside, parameters are whole; what was written to them is kept."""
        units = [unit for unit in (units_of(module) if recurse else units_of(module)[:1]) if not unit.is_whole]
        for unit in units:
            unit.unshard()
        try:
            yield
        finally:
            for unit in units:
                if writeback:
                    with no_grad():
                        for one in unit.params:
                            one.write_back()
                unit.reshard()

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        return clip_grad_norm_(list(self.parameters()), max_norm, norm_type)

    @staticmethod
    def fsdp_modules(module, root_only=False):
        found = [child for child in module.modules() if isinstance(child, FullyShardedDataParallel)]
        return found[:1] if root_only else found

    def check_is_root(self):
        return True

    # ---- States ----
    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        settings = StateDictSettings(
            state_dict_type,
            state_dict_config or FullStateDictConfig(),
            optim_state_dict_config or OptimStateDictConfig(),
        )
        modules = FullyShardedDataParallel.fsdp_modules(module)
        before = modules[0]._settings if modules else settings
        for one in modules:
            one._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module):
        return FullyShardedDataParallel.fsdp_modules(module)[0]._settings

    @staticmethod
    @contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Inside, state_dict() gives that kind."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for one in FullyShardedDataParallel.fsdp_modules(module):
                one._settings = before

    def state_dict(self, *args, **kwargs):
        if args or kwargs.get("destination") is not None:
            return super().state_dict(*args, **kwargs)  # called for the wrapper around this one, which does the rest
        for unit in units_of(self):
            unit.reshard()
        found = super().state_dict(**kwargs)
        kind, config = self._settings.state_dict_type, self._settings.state_dict_config
        for name in list(found):
            value = found.pop(name)
            if kind == StateDictType.FULL_STATE_DICT and isinstance(value, DTensor):
                value = value.detach().full_tensor().reshape(self._shape_of(value))
                if getattr(config, "rank0_only", False) and dist.get_rank(self.process_group):
                    continue
                value = value.cpu() if config.offload_to_cpu else value
            found[clean(name)] = value
        return found

    def _shape_of(self, value):
        """The shape a parameter had: one without dimensions lies as a row."""
        return (
            ()
            if any(
                not one.shape and one.sharded.data_ptr() == value.data_ptr()
                for unit in units_of(self)
                for one in unit.params
            )
            else value.shape
        )

    def load_state_dict(self, state_dict, strict=True, assign=False):
        for unit in units_of(self):
            unit.reshard()
        wrapped = {}
        for name in super().state_dict():
            if clean(name) in state_dict:
                wrapped[name] = state_dict[clean(name)]
        wrapped.update(
            {name: value for name, value in state_dict.items() if name not in {clean(known) for known in wrapped}}
        )
        return super().load_state_dict(wrapped, strict, assign)

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """The optimiser's state by parameter names, whole or in parts as the model's settings say."""
        from taper.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

        full = FullyShardedDataParallel.get_state_dict_type(model).state_dict_type == StateDictType.FULL_STATE_DICT
        return get_optimizer_state_dict(model, optim, options=StateDictOptions(full_state_dict=full))

    @staticmethod
    def full_optim_state_dict(model, optim, optim_input=None, rank0_only=True, group=None):
        from taper.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

        return get_optimizer_state_dict(model, optim, options=StateDictOptions(full_state_dict=True))

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None):
        """A whole state, which every rank has, as this rank's optimiser (by default one over all of the model's
        parameters) can load it."""
        from taper.distributed.checkpoint.state_dict import by_number

        return by_number(model, optim if optim is not None else _AllParameters(model), full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict, model, optim_input=None, optim=None, group=None):
        """The same of a state that rank 0 alone has."""
        box = [full_optim_state_dict if dist.get_rank(group) == 0 else None]
        dist.broadcast_object_list(box, group=group, group_src=0)
        return FullyShardedDataParallel.shard_full_optim_state_dict(box[0], model, optim=optim)

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict, optim_state_key_type, model, optim_input=None, optim=None):
        """An optimiser's state whose entries are named by the parameters' names, or by their numbers."""
        names = [clean(name) for name, _ in model.named_parameters()]
        if optim is not None:
            known = {parameter: clean(name) for name, parameter in model.named_parameters()}
            names = [known[parameter] for group in optim.param_groups for parameter in group["params"]]
        by_name = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        new = dict(enumerate(names)) if by_name else {name: number for number, name in enumerate(names)}
        old = {key for group in optim_state_dict["param_groups"] for key in group["params"]} | set(
            optim_state_dict["state"]
        )
        if old and all(isinstance(key, str) for key in old) == by_name:
            return optim_state_dict
        groups = [
            {**group, "params": sorted(new[key] for key in group["params"])}
            for group in optim_state_dict["param_groups"]
        ]
        return {"state": {new[key]: value for key, value in optim_state_dict["state"].items()}, "param_groups": groups}

    @staticmethod
    def optim_state_dict_to_load(
        model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None
    ):
        """A state by names as this rank's optimiser can load it."""
        from taper.distributed.checkpoint.state_dict import by_number

        numbered = by_number(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(numbered)
        return numbered
