"""torch.distributed.checkpoint.state_dict: the states of a model and its optimisers by parameter names, the same
however the model is wrapped, so that what one job saved another can load."""

from dataclasses import dataclass

from taper import distributed as dist
from taper._C import Tensor
from taper.autograd.grad_mode import no_grad

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_orig_mod.", "module.")


@dataclass
class StateDictOptions:
    """full_state_dict: whole tensors instead of parts; cpu_offload: on the CPU. Both: rank 0 has it all, the others
    nothing. broadcast_from_rank0: rank 0 gives what is loaded."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    @classmethod
    def of(cls, given):
        """The options that were given, or the defaults."""
        options = given or cls()
        if options.broadcast_from_rank0 and not options.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
        return options

    def for_another(self):
        """Is what was asked for another rank's alone?"""
        return self.full_state_dict and self.cpu_offload and dist.is_initialized() and dist.get_rank() != 0


def _wrapped_names(model):
    """The prefixes under which wrappers hold what they wrap: only those are taken out of names."""
    from taper.nn import DataParallel
    from taper.nn.parallel.distributed import DistributedDataParallel

    return {
        (name + "." if name else "") + "module."
        for name, child in model.named_modules()
        if isinstance(child, (DistributedDataParallel, DataParallel))
    }


def _clean(name, prefixes):
    for prefix in sorted(prefixes, key=len, reverse=True):
        if name.startswith(prefix):
            name = prefix[: -len("module.")] + name[len(prefix) :]
    for wrapper in _WRAPPERS[:3]:
        name = name.replace(wrapper, "")
    return name


def _named(model):
    """Parameter to its clean name."""
    prefixes = _wrapped_names(model)
    return {p: _clean(name, prefixes) for name, p in _raw_parameters(model)}


def _raw_parameters(model):
    from taper.nn import Module

    return Module.named_parameters(model)


def _as_asked(value, options):
    """Whole, on the CPU, as the options say."""
    if not isinstance(value, Tensor):
        return value
    if options.full_state_dict and hasattr(value, "full_tensor"):
        value = value.detach().full_tensor()
    return value.cpu() if options.cpu_offload else value


def get_model_state_dict(model, *, submodules=None, options=None):
    """The model's state with clean names."""
    from taper.nn import Module

    options, prefixes = StateDictOptions.of(options), _wrapped_names(model)
    _at_rest(model)
    frozen = (
        {_clean(name, prefixes) for name, p in _raw_parameters(model) if not p.requires_grad}
        if options.ignore_frozen_params
        else ()
    )
    found = {_clean(name, prefixes): value for name, value in Module.state_dict(model).items()}
    if submodules:
        found = _inside(model, submodules, found, prefixes, options.keep_submodule_prefixes)
    asked = {name: _as_asked(value, options) for name, value in found.items() if name not in frozen}
    return {} if options.for_another() else asked


def _inside(model, submodules, state, prefixes, keep_prefixes):
    """Of a state what belongs to some modules inside, under its names in the model or in them."""
    found = {}
    for name, child in model.named_modules():
        if child in submodules:
            prefix = _clean(name + ".", prefixes)
            found.update(
                {
                    key if keep_prefixes else key[len(prefix) :]: value
                    for key, value in state.items()
                    if key.startswith(prefix)
                }
            )
    return found


def _at_rest(model):
    from taper.distributed.fsdp._unit import units_of

    for unit in units_of(model):
        unit.reshard()


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Loads a state with clean names, whole or in parts."""
    from taper.nn import Module

    options, prefixes = StateDictOptions.of(options), _wrapped_names(model)
    _at_rest(model)
    if options.broadcast_from_rank0:
        model_state_dict = _from_rank0(model_state_dict)
    names = {_clean(name, prefixes): name for name in Module.state_dict(model)}
    return Module.load_state_dict(
        model, {names.get(name, name): value for name, value in model_state_dict.items()}, options.strict
    )


def _from_rank0(state):
    box = [state if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, 0)
    return box[0]


def _init_optim_state(optim):
    """Makes state that the first step would make, without moving a parameter."""
    if optim.state:
        return
    kept = [(p, p.grad) for group in optim.param_groups for p in group["params"]]
    rates = [group["lr"] for group in optim.param_groups]
    with no_grad():
        for p, _ in kept:
            if p.requires_grad:
                raw = p.to_local() if hasattr(p, "to_local") else p
                p.grad = raw.detach().new_zeros(raw.shape)
    for group in optim.param_groups:
        group["lr"] = 0.0 if not isinstance(group["lr"], Tensor) else group["lr"] * 0
    before = [p.detach().clone() for p, _ in kept]
    optim.step(closure=None)
    with no_grad():
        for (p, grad), value in zip(kept, before):
            p.copy_(value)  # weight decay and the like may have moved it
            p.grad = grad
    for group, rate in zip(optim.param_groups, rates):
        group["lr"] = rate


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """{"state": {name: ...}, "param_groups": [...]}: as of an optimiser, with names in the place of numbers."""
    options, names = StateDictOptions.of(options), _named(model)
    _at_rest(model)
    state, groups = {}, []
    for optim in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        _init_optim_state(optim)
        told = optim.state_dict()
        number = {}
        for group, packed in zip(optim.param_groups, told["param_groups"]):
            number.update(zip(packed["params"], (names[p] for p in group["params"])))
            groups.append({**packed, "params": [names[p] for p in group["params"]]})
        state.update(
            {
                number[key]: {name: _as_asked(value, options) for name, value in entry.items()}
                for key, entry in told["state"].items()
            }
        )
    if options.for_another():
        return {}
    result = {"state": state, "param_groups": groups}
    return _flat(result) if options.flatten_optimizer_state_dict else result


def _flat(told):
    flat = {f"state.{name}.{key}": value for name, entry in told["state"].items() for key, value in entry.items()}
    for group in told["param_groups"]:
        flat.update(
            {
                f"param_groups.{name}.{key}": value
                for name in group["params"]
                for key, value in group.items()
                if key != "params"
            }
        )
    return flat


def _unflat(flat, names):
    """Names may have dots in them: they are known from the model."""
    state, options = {}, {}
    for key, value in flat.items():
        kind, _, rest = key.partition(".")
        name = next(name for name in sorted(names, key=len, reverse=True) if rest.startswith(name + "."))
        (state if kind == "state" else options).setdefault(name, {})[rest[len(name) + 1 :]] = value
    return {"state": state, "param_groups": [{**entry, "params": [name]} for name, entry in options.items()]}


def by_number(model, optim, told):
    """A state by names as optim.load_state_dict wants it."""
    names = _named(model)
    if "param_groups" not in told:
        told = _unflat(told, names.values())
    options = {name: group for group in told["param_groups"] for name in group["params"]}
    groups, state, count = [], {}, 0
    for group in optim.param_groups:
        numbers = list(range(count, count + len(group["params"])))
        count += len(numbers)
        own = [names[p] for p in group["params"]]
        saved = options.get(own[0], group) if own else group
        groups.append(
            {
                **{key: value for key, value in group.items() if key != "params"},
                **{key: value for key, value in saved.items() if key != "params"},
                "params": numbers,
            }
        )
        state.update({number: told["state"][name] for number, name in zip(numbers, own) if name in told["state"]})
    return {"state": state, "param_groups": groups}


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Loads what get_optimizer_state_dict gave, also in a job of another shape."""
    options = StateDictOptions.of(options)
    _at_rest(model)
    if options.broadcast_from_rank0:
        optim_state_dict = _from_rank0(optim_state_dict)
    for optim in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        _init_optim_state(optim)
        optim.load_state_dict(by_number(model, optim, optim_state_dict))


def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """Both."""
    return get_model_state_dict(model, submodules=submodules, options=options), get_optimizer_state_dict(
        model, optimizers, options=options
    )


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Both."""
    result = set_model_state_dict(model, model_state_dict, options=options) if model_state_dict else None
    if optim_state_dict:
        set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
