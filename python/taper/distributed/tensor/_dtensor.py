"""DTensor: a tensor of which each rank of a mesh has a part. In memory it is this rank's part, so that optimisers and
checkpoints work on parts; its shape, and what operators make of it, are those of the whole.

An operator works on parts where _rules.py says how; any other gathers its arguments first, and every rank has its
results. Gradients lie as their tensor does, and where that is yet to be summed, all ranks have them."""

import taper
from taper import distributed as dist
from taper import _C
from taper._C import Size, Tensor
from taper.distributed.tensor import _rules
from taper.distributed.tensor._collectives import Spread
from taper.distributed.tensor._redistribute import Spec as _Spec
from taper.distributed.tensor._redistribute import move
from taper.distributed.tensor.placement_types import Replicate, normalized
from taper.overrides import DisableTorchFunctionSubclass, redispatch_function

_AS_THEY_ARE = frozenset(
    """__get__ __set__ dim ndimension element_size is_floating_point is_complex is_contiguous untyped_storage storage
    data_ptr register_hook
    register_post_accumulate_grad_hook retain_grad backward __hash__ _is_view get_device is_shared is_pinned
    is_inference _typed_storage storage_offset has_names
    storage_type __reduce_ex__ set_ share_memory_""".split()
)
_NEW = frozenset("new_zeros new_ones new_empty new_full".split())
_implicit = []  # not empty: plain tensors count as what every rank has


def _wrap(local, spec):
    made = local.as_subclass(DTensor)
    made._spec = spec
    return made


def _plain(tensor):
    """This rank's part as an ordinary tensor; gradients flow back through it."""
    with DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


class DTensor(Tensor):
    """See the file's head. Made by distribute_tensor or DTensor.from_local."""

    @staticmethod
    def from_local(
        local_tensor,
        device_mesh=None,
        placements=None,
        *,
        run_check=False,
        shape=None,
        stride=None,
        grad_placements=None,
    ):
        """A tensor whose parts the ranks have already."""
        if isinstance(local_tensor, DTensor):
            raise RuntimeError("the local_tensor argument only accepts torch.Tensor but got DTensor type")
        mesh = _mesh_or_current(device_mesh)
        placements = normalized(placements, mesh.ndim, local_tensor.dim())
        whole = list(local_tensor.shape) if shape is None else list(shape)
        if shape is None:
            for mesh_dim, placement in reversed(list(enumerate(placements))):
                if placement.is_shard():
                    count = taper.tensor([whole[placement.dim]])
                    dist.all_reduce(count, group=mesh.get_group(mesh_dim))
                    whole[placement.dim] = int(count.item())
        if run_check:
            local_tensor = _from_first(local_tensor, mesh, [i for i, p in enumerate(placements) if p.is_replicate()])
        return _wrap(local_tensor.view_as(local_tensor), _Spec(mesh, placements, whole))

    @property
    def device_mesh(self):
        return self._spec.mesh

    @property
    def placements(self):
        return self._spec.placements

    # ---- The whole's shape ----
    @property
    def shape(self):
        return self._spec.shape

    def size(self, dim=None):
        return self._spec.shape if dim is None else self._spec.shape[dim]

    def numel(self):
        return self._spec.shape.numel()

    nelement = numel

    def stride(self, dim=None):
        strides, step = [], 1
        for n in reversed(self._spec.shape):
            strides.append(step)
            step *= max(n, 1)
        strides = tuple(reversed(strides))
        return strides if dim is None else strides[dim]

    def __len__(self):
        return self._spec.shape[0]

    # ---- Parts and wholes ----
    def to_local(self, *, grad_placements=None):
        """This rank's part. grad_placements says how its gradients will lie: summands are added up in the backward."""
        local = _plain(self)
        for mesh_dim, (have, grad) in enumerate(zip(self._spec.placements, grad_placements or ())):
            if have.is_replicate() and grad.is_partial():
                local = Spread.apply(local, self._spec.mesh.get_group(mesh_dim))
        return local

    @property
    def _local_tensor(self):
        return _plain(self)

    def full_tensor(self, *, grad_placements=None):
        """All of it, on every rank."""
        return self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim).to_local(
            grad_placements=grad_placements
        )

    def redistribute(
        self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None
    ):
        """The same tensor, lying otherwise."""
        spec, local = self._spec, _plain(self)
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if device_mesh is not None and device_mesh != spec.mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        wanted = normalized(placements, spec.mesh.ndim, len(spec.shape))
        for have, want in zip(spec.placements, wanted):
            if want.is_partial() and have != want and not (have.is_shard() and want.is_partial("sum")):
                raise RuntimeError(
                    f"Can not redistribute from {have} to {want}, only Shard to Partial(sum) is supported!"
                )
        if forward_dtype is not None:
            local = local.to(forward_dtype)
        local = move(local, spec, wanted)
        return _wrap(local.view_as(local), _Spec(spec.mesh, wanted, spec.shape))

    def _local_boxes(self):
        """For checkpoints: the whole's size, and what this rank has of it; of copies the first rank's."""
        spec = self._spec
        offsets, _ = spec.local_box()
        return spec.shape, [(Size(offsets), _plain(self).detach())]

    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return raw if raw is None or isinstance(raw, DTensor) else _wrap(raw, _grad_spec(self._spec))

    @grad.setter
    def grad(self, value):
        Tensor.grad.__set__(self, _plain(value) if isinstance(value, DTensor) else value)

    def detach(self):
        return _wrap(_plain(self).detach(), self._spec)

    @property
    def data(self):
        gathered = self.__dict__.get("_gathered")
        return self.detach() if gathered is None else gathered

    @data.setter
    def data(self, value):
        Tensor.data.__set__(self, _plain(value) if isinstance(value, DTensor) else value)

    # ---- For optimisers ----
    def _state_of_whole(self, state):
        """What an optimiser keeps for this parameter, parts of the parameter's size as DTensors over the same
        memory."""
        mine = tuple(_plain(self).shape)
        return {
            name: _wrap(value.detach(), self._spec)
            if type(value) is Tensor and value.dim() and tuple(value.shape) == mine
            else value
            for name, value in state.items()
        }

    def _own_part(self, value):
        """This rank's part of state that was saved of the whole."""
        if isinstance(value, DTensor):
            return _plain(
                value if value._spec.like(self._spec) else value.redistribute(placements=self._spec.placements)
            ).detach()
        if value.dim() and tuple(value.shape) == tuple(self._spec.shape) != tuple(_plain(self).shape):
            offsets, sizes = self._spec.local_box()
            return value[tuple(slice(start, start + count) for start, count in zip(offsets, sizes))].clone()
        return value

    def __deepcopy__(self, memo):
        made = _wrap(_plain(self).detach().clone(), self._spec).requires_grad_(self.requires_grad)
        if getattr(self, "_is_param", False):
            made._is_param = True
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol):
        spec = self._spec
        return _unpickled, (
            _plain(self).detach(),
            spec.mesh,
            spec.placements,
            tuple(spec.shape),
            self.requires_grad,
            getattr(self, "_is_param", False),
        )

    def tolist(self):
        return self.full_tensor().tolist()

    def __repr__(self, *, tensor_contents=None):
        return (
            f"DTensor(local_tensor={_plain(self).detach()!r}, device_mesh={self._spec.mesh!r}, "
            f"placements={self._spec.placements})"
        )

    __str__ = __repr__

    def __format__(self, spec):
        return format(self.full_tensor().item() if spec and not self._spec.shape else repr(self), spec)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _AS_THEY_ARE:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if name in _NEW:
            return _new(func, args, kwargs)
        if _rules.is_face(func, name):
            return redispatch_function(func, types, args, kwargs)
        found = [value for value in _flat((*args, *kwargs.values())) if isinstance(value, DTensor)]
        args, kwargs = _wrapped_plain(name, found[0]._spec.mesh, args, kwargs)
        if _draws(name, args, kwargs):
            with _SameDraws(found[0]._spec):
                return _call(func, name, args, kwargs)
        return _call(func, name, args, kwargs)


def _draws(name, args, kwargs):
    """Does a call draw numbers? A dropout that does not train draws none."""
    trains = kwargs.get("training", args[2] if len(args) > 2 else True)
    return _C._operator_draws(name) and ("dropout" not in name or bool(trains))


def _unpickled(local, mesh, placements, shape, requires_grad, is_param):
    made = _wrap(local, _Spec(mesh, placements, shape)).requires_grad_(requires_grad)
    if is_param:
        made._is_param = True
    return made


def _grad_spec(spec):
    return _Spec(spec.mesh, [Replicate() if p.is_partial() else p for p in spec.placements], spec.shape)


def _wrapped_plain(name, mesh, args, kwargs):
    """Plain tensors of one element, or all within implicit_replication, count as what every rank has; others do not
    mix."""

    def wrap(value):
        if type(value) is Tensor and not (name == "copy_" and value.numel() > 1):
            if value.numel() > 1 and not _implicit and name not in ("__getitem__", "__setitem__"):
                raise RuntimeError(
                    f"{name} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                    "calling distributed operators! Use torch.distributed.tensor.distribute_tensor, or "
                    "torch.distributed.tensor.experimental.implicit_replication()."
                )
            return _wrap(value.view_as(value), _Spec(mesh, [Replicate()] * mesh.ndim, value.shape))
        return (
            [wrap(item) for item in value]
            if type(value) in (list, tuple) and any(isinstance(item, Tensor) for item in value)
            else value
        )

    return tuple(map(wrap, args)), {key: wrap(value) for key, value in kwargs.items()}


class _SameDraws:
    """Inside, ranks that have the same part of a tensor draw the same numbers, and others other ones; the generator
    goes on alike on all."""

    def __init__(self, spec):
        self.spec = spec

    def __enter__(self):
        seed = taper.randint(0, 2**62, (1,), dtype=taper.int64, device="cpu")
        mesh, part = self.spec.mesh, 0
        for mesh_dim, placement in enumerate(self.spec.placements):
            dist.broadcast(seed, group=mesh.get_group(mesh_dim), group_src=0)
            if placement.is_shard():
                part = part * mesh.size(mesh_dim) + mesh.get_local_rank(mesh_dim)
        self.state = taper.get_rng_state()
        taper.manual_seed(int(seed.item()) + part)

    def __exit__(self, *error):
        taper.set_rng_state(self.state)


_AS_ANOTHER = {
    "view_as": ("view", Tensor.view),
    "reshape_as": ("reshape", Tensor.reshape),
    "expand_as": ("expand", Tensor.expand),
}


def _call(func, name, args, kwargs):
    if name in _AS_ANOTHER:
        (name, func), args, kwargs = (
            _AS_ANOTHER[name],
            (args[0], list((args[1] if len(args) > 1 else kwargs["other"]).shape)),
            {},
        )
    tensors = [value for value in _flat((*args, *kwargs.values())) if isinstance(value, DTensor)]
    specs = [t._spec for t in tensors]
    if any(spec.mesh != specs[0].mesh for spec in specs):
        raise RuntimeError(
            f"{name}: the tensors are on different meshes, {specs[0].mesh} and "
            f"{next(s.mesh for s in specs if s.mesh != specs[0].mesh)}"
        )
    if name == "copy_" and not isinstance(args[1], DTensor):
        return _copy_whole(args[0], args[1])
    plan = _rules.plan_for(func, name, specs, args, kwargs)
    if plan is None:
        return _by_whole(func, name, args, kwargs)
    parts = iter([_part(t, wanted, plan) for t, wanted in zip(tensors, plan.inputs)])
    if plan.args is not None:
        result = (plan.func or func)(next(parts), *plan.args[1:])
    else:
        result = _map(lambda t: next(parts), func, args, kwargs)
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    return _placed(result, specs[0].mesh, plan)


def _part(tensor, wanted, plan):
    """This rank's part of an argument where the plan wants it. What all ranks have goes into calls that differ by rank:
    gradients come back as summands."""
    spec = tensor._spec
    local = _plain(tensor) if tuple(wanted) == spec.placements else move(_plain(tensor), spec, wanted)
    for mesh_dim, placement in enumerate(wanted):
        differs = not plan.output[mesh_dim].is_replicate()
        if (
            differs
            and local.requires_grad
            and (placement.is_replicate() or placement.is_partial("avg") and not spec.placements[mesh_dim].is_partial())
        ):
            local = Spread.apply(local, spec.mesh.get_group(mesh_dim))
    return local


def _placed(result, mesh, plan):
    """Results as DTensors."""
    if isinstance(result, Tensor):
        shape = list(result.shape)
        for placement in plan.output:
            if placement.is_shard():
                shape[placement.dim] = plan.sizes[placement.dim]
        return _wrap(result, _Spec(mesh, plan.output, shape))
    return _each(result, lambda item: _placed(item, mesh, plan))


def _each(result, change):
    """A tuple or list with each item changed."""
    if not isinstance(result, (tuple, list)) or isinstance(result, Size):
        return result
    items = [change(item) for item in result]
    return (
        type(result)(items)
        if type(result) in (tuple, list) or hasattr(type(result), "n_sequence_fields")
        else type(result)(*items)
    )


def _new(func, args, kwargs):
    """x.new_zeros and the like: a tensor of x's shape lies as x does, others every rank has."""
    spec = args[0]._spec
    probe = func(_plain(args[0]), *args[1:], **kwargs)
    if tuple(probe.shape) != tuple(spec.shape):
        return _replicated(probe, spec.mesh)
    spec = _grad_spec(spec)
    offsets, sizes = spec.local_box()
    part = probe[tuple(slice(start, start + count) for start, count in zip(offsets, sizes))].clone(
        memory_format=taper.contiguous_format
    )
    return _wrap(part.requires_grad_(probe.requires_grad), spec)


def _by_whole(func, name, args, kwargs):
    """Gathers, and calls: what comes of it every rank has. A call in place changes this rank's part."""
    mesh = next(value._spec.mesh for value in _flat((*args, *kwargs.values())) if isinstance(value, DTensor))
    if name == "__setitem__":
        whole = args[0].full_tensor().clone()
        _map(lambda t: t.full_tensor(), whole.__setitem__, args[1:], kwargs)
        return _copy_whole(args[0], whole)
    result = _map(lambda t: t.full_tensor(), func, args, kwargs)
    if name.endswith("_") and not name.endswith("__") and isinstance(args[0], DTensor):
        return _copy_whole(args[0], result)
    return _replicated(result, mesh)


def _flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _replicated(result, mesh):
    if type(result) is Tensor:
        return _wrap(result, _Spec(mesh, [Replicate()] * mesh.ndim, result.shape))
    return _each(result, lambda item: _replicated(item, mesh))


def _copy_whole(target, source):
    """Into a DTensor from one that lies otherwise, or from a whole tensor that every rank has."""
    source = source.full_tensor() if isinstance(source, DTensor) else source
    if any(p.is_partial() for p in target._spec.placements):
        raise RuntimeError(f"copy_: a whole tensor cannot be copied into one that lies as {target._spec.placements}")
    offsets, sizes = target._spec.local_box()
    part = source.expand(target._spec.shape)[tuple(slice(start, start + count) for start, count in zip(offsets, sizes))]
    _plain(target).copy_(part)
    return target


def _map(change, func, args, kwargs):
    """Calls with each DTensor changed, also those in lists."""

    def visit(value):
        if isinstance(value, DTensor):
            return change(value)
        if isinstance(value, (list, tuple)) and not isinstance(value, Size):
            return type(value)(*map(visit, value)) if hasattr(value, "_fields") else type(value)(map(visit, value))
        return value

    return func(*map(visit, args), **{key: visit(value) for key, value in kwargs.items()})


def _mesh_or_current(mesh):
    if mesh is None:
        from taper.distributed.device_mesh import current_mesh

        mesh = current_mesh()
    return mesh


def _from_first(local, mesh, mesh_dims, first=0):
    """A copy of the first rank's along some mesh dimensions."""
    local = local.clone(memory_format=taper.contiguous_format)
    for mesh_dim in mesh_dims:
        dist.broadcast(local.detach(), group=mesh.get_group(mesh_dim), group_src=first)
    return local


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """The first rank's tensor, each rank keeping its part."""
    mesh = _mesh_or_current(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    placements = normalized(placements, mesh.ndim, tensor.dim())
    if isinstance(tensor, DTensor):
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != placements:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements "
                f"{placements}. do you want to call `redistribute` instead?"
            )
        return tensor
    local = tensor.detach()
    if src_data_rank is not None:
        local = _from_first(local, mesh, range(mesh.ndim), src_data_rank)
    spec = _Spec(mesh, placements, tensor.shape)
    offsets, sizes = spec.local_box()
    local = local[tuple(slice(start, start + count) for start, count in zip(offsets, sizes))].contiguous().clone()
    for mesh_dim, placement in enumerate(placements):
        if placement.is_partial("sum") and mesh.get_local_rank(mesh_dim) != 0:
            local.zero_()
    made = _wrap(local, spec).requires_grad_(tensor.requires_grad)
    if isinstance(tensor, taper.nn.Parameter):
        made._is_param = True
    return made


def total_norm(tensors, norm_type):
    """The norm of all elements of tensors some of which lie on several ranks."""
    from taper import _C

    by_groups, infinite = {}, norm_type == float("inf")
    for t in tensors:
        spec = getattr(t, "_spec", None)
        dims = (
            () if spec is None else tuple(dim for dim, placement in enumerate(spec.placements) if placement.is_shard())
        )
        key = (id(spec.mesh) if dims else None, dims)
        by_groups.setdefault(key, (spec, []))[1].append(_plain(t) if spec is not None else t)
    powers = []
    for (_, dims), (spec, parts) in by_groups.items():
        norm = _C._total_norm(parts, norm_type)
        value = norm if infinite else norm**norm_type
        for dim in dims:
            dist.all_reduce(value, dist.ReduceOp.MAX if infinite else dist.ReduceOp.SUM, group=spec.mesh.get_group(dim))
        powers.append(value)
    together = taper.stack(powers)
    return _replicated(
        together.max() if infinite else together.sum() ** (1.0 / norm_type),
        next(t._spec.mesh for t in tensors if hasattr(t, "_spec")),
    )
