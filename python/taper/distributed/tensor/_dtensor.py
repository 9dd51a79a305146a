"""DTensor: a tensor of which each rank of a mesh has a part. In memory it is this rank's part, so that optimisers and checkpoints work on parts;
its shape, and what operators make of it, are those of the whole.

An operator element by element over tensors that lie alike works on parts; any other gathers its arguments first."""
import taper
from taper import distributed as dist
from taper._C import Size, Tensor
from taper.overrides import DisableTorchFunctionSubclass
from taper.distributed.tensor._collectives import Gather, Split, Sum, SumToRows
from taper.distributed.tensor.placement_types import Partial, Replicate, Shard

# What works on parts as on the whole, and leaves the parts where they are.
_BY_PARTS = frozenset("""add add_ sub sub_ mul mul_ div div_ neg neg_ abs sqrt sqrt_ rsqrt exp log square pow pow_ clamp clamp_ sign where lerp lerp_ addcmul
    addcmul_ addcdiv addcdiv_ copy_ zero_ fill_ zeros_like ones_like empty_like full_like rand_like randn_like clone to float half bfloat16 double cpu contiguous
    requires_grad_ sigmoid tanh relu maximum minimum isnan isinf isfinite reciprocal normal_ uniform_ type cuda""".split())
_OF_SUMMANDS = frozenset("clone zero_ mul mul_ div div_ neg to copy_ zeros_like".split())  # of those, what is right for parts that add up to the whole
_AS_THEY_ARE = frozenset("""__get__ __set__ dim ndimension element_size is_floating_point is_complex is_contiguous untyped_storage storage data_ptr register_hook
    register_post_accumulate_grad_hook retain_grad backward __hash__ _is_view get_device is_shared is_pinned is_inference _typed_storage storage_offset has_names
    storage_type __reduce_ex__ set_ share_memory_""".split())


class _Spec:
    """Where the parts of a tensor are."""

    def __init__(self, mesh, placements, shape):
        self.mesh, self.placements, self.shape = mesh, tuple(placements), Size(shape)

    def local_box(self):
        """Where this rank's part begins, and its size."""
        offsets, sizes = [0] * len(self.shape), list(self.shape)
        for mesh_dim, placement in enumerate(self.placements):
            if placement.is_shard():
                dim = placement.dim % max(len(sizes), 1)
                start, count = placement.part(sizes[dim], self.mesh.size(mesh_dim), self.mesh.get_local_rank(mesh_dim))
                offsets[dim] += start
                sizes[dim] = count
        return offsets, sizes

    def like(self, other):
        return self.mesh == other.mesh and self.placements == other.placements and tuple(self.shape) == tuple(other.shape)


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
    def from_local(local_tensor, device_mesh=None, placements=None, *, run_check=False, shape=None, stride=None, grad_placements=None):
        """A tensor whose parts the ranks have already."""
        mesh = device_mesh
        placements = placements or [Replicate()] * mesh.ndim
        whole = list(local_tensor.shape) if shape is None else list(shape)
        if shape is None:
            for mesh_dim, placement in enumerate(placements):
                if placement.is_shard():
                    count = taper.tensor([whole[placement.dim]])
                    dist.all_reduce(count, group=mesh.get_group(mesh_dim))
                    whole[placement.dim] = int(count.item())
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
        """This rank's part."""
        return _plain(self)

    def full_tensor(self, *, grad_placements=None):
        """All of it, on every rank."""
        return self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim).to_local()

    def redistribute(self, device_mesh=None, placements=None, *, async_op=False, forward_dtype=None, backward_dtype=None):
        """The same tensor, lying otherwise."""
        spec, local = self._spec, _plain(self)
        wanted = tuple(placements)
        sizes = _sizes_by_mesh_dim(spec)
        for mesh_dim in reversed(range(spec.mesh.ndim)):
            local = _to_replicate(local, spec, mesh_dim, wanted[mesh_dim], sizes[mesh_dim])
        for mesh_dim, placement in enumerate(wanted):
            if placement.is_shard() and not spec.placements[mesh_dim] == placement and not spec.placements[mesh_dim].is_partial():
                local = Split.apply(local, spec.mesh.get_group(mesh_dim), placement.dim)
        return _wrap(local.view_as(local), _Spec(spec.mesh, wanted, spec.shape))

    def _local_boxes(self):
        """For checkpoints: the whole's size, and what this rank has of it; of copies the first rank's."""
        spec = self._spec
        offsets, _ = spec.local_box()
        return spec.shape, [(Size(offsets), _plain(self).detach())]

    @property
    def grad(self):
        raw = Tensor.grad.__get__(self)
        return raw if raw is None or isinstance(raw, DTensor) else _wrap(raw, self._spec)

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
        """What an optimiser keeps for this parameter, parts of the parameter's size as DTensors over the same memory."""
        mine = tuple(_plain(self).shape)
        return {name: _wrap(value.detach(), self._spec) if type(value) is Tensor and value.dim() and tuple(value.shape) == mine else value
                for name, value in state.items()}

    def _own_part(self, value):
        """This rank's part of state that was saved of the whole."""
        if isinstance(value, DTensor):
            return _plain(value if value._spec.like(self._spec) else value.redistribute(placements=self._spec.placements)).detach()
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

    def tolist(self):
        return self.full_tensor().tolist()

    def __repr__(self, *, tensor_contents=None):
        return f"DTensor(local_tensor={_plain(self).detach()!r}, device_mesh={self._spec.mesh!r}, placements={self._spec.placements})"

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
        if name in _BY_PARTS:
            spec = _common_spec(args, kwargs)
            if spec is not None:
                return _by_parts(func, name, spec, args, kwargs)
            if name == "copy_" and isinstance(args[0], DTensor):
                return _copy_whole(args[0], args[1])
        return _by_whole(func, name, args, kwargs)


def _sizes_by_mesh_dim(spec):
    """How large a sharded dimension is, for each mesh dimension, where those before it have cut it already."""
    sizes, found = list(spec.shape), []
    for mesh_dim, placement in enumerate(spec.placements):
        found.append(sizes[placement.dim] if placement.is_shard() else None)
        if placement.is_shard():
            _, sizes[placement.dim] = placement.part(sizes[placement.dim], spec.mesh.size(mesh_dim), spec.mesh.get_local_rank(mesh_dim))
    return found


def _to_replicate(local, spec, mesh_dim, wanted, size):
    have, group = spec.placements[mesh_dim], spec.mesh.get_group(mesh_dim)
    if have == wanted or have.is_replicate():
        return local
    if have.is_partial():
        return SumToRows.apply(local, group, wanted.dim) if wanted.is_shard() else Sum.apply(local, group)
    return Gather.apply(local, group, have.dim, size)


def _common_spec(args, kwargs):
    """Where all DTensors among the arguments lie alike, and everything else is a number: how."""
    spec = None
    for value in (*args, *kwargs.values()):
        if isinstance(value, DTensor):
            if spec is not None and not spec.like(value._spec):
                return None
            spec = value._spec
        elif isinstance(value, Tensor) and value.dim():
            return None
    return spec


def _by_parts(func, name, spec, args, kwargs):
    if any(placement.is_partial() for placement in spec.placements) and name not in _OF_SUMMANDS:
        return _by_whole(func, name, args, kwargs)
    result = _map(_plain, func, args, kwargs)
    if name.endswith("_") and not name.endswith("__"):
        return args[0]
    return _wrap(result, spec) if isinstance(result, Tensor) else result


def _by_whole(func, name, args, kwargs):
    """Gathers, and calls: what comes of it every rank has. A call in place changes this rank's part."""
    mesh = next(value._spec.mesh for value in _flat((*args, *kwargs.values())) if isinstance(value, DTensor))
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
    if isinstance(result, (tuple, list)) and not isinstance(result, Size):
        items = [_replicated(item, mesh) for item in result]
        return type(result)(items) if type(result) in (tuple, list) or hasattr(type(result), "n_sequence_fields") else type(result)(*items)
    return result


def _copy_whole(target, source):
    """Into a DTensor from one that lies otherwise, or from a whole tensor that every rank has."""
    source = source.full_tensor() if isinstance(source, DTensor) else source
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


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """The first rank's tensor, each rank keeping its part."""
    placements = tuple(placements or [Replicate()] * device_mesh.ndim)
    local = tensor.detach()
    if src_data_rank is not None:
        local = local.clone()
        for mesh_dim in range(device_mesh.ndim):
            group = device_mesh.get_group(mesh_dim)
            dist.broadcast(local, dist.get_global_rank(group, src_data_rank), group=group)
    spec = _Spec(device_mesh, [Replicate() if p.is_partial() else p for p in placements], tensor.shape)
    offsets, sizes = spec.local_box()
    local = local[tuple(slice(start, start + count) for start, count in zip(offsets, sizes))].contiguous().clone()
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
        dims = () if spec is None else tuple(dim for dim, placement in enumerate(spec.placements) if placement.is_shard())
        key = (id(spec.mesh) if dims else None, dims)
        by_groups.setdefault(key, (spec, []))[1].append(_plain(t) if spec is not None else t)
    powers = []
    for (_, dims), (spec, parts) in by_groups.items():
        norm = _C._total_norm(parts, norm_type)
        value = norm if infinite else norm ** norm_type
        for dim in dims:
            dist.all_reduce(value, dist.ReduceOp.MAX if infinite else dist.ReduceOp.SUM, group=spec.mesh.get_group(dim))
        powers.append(value)
    together = taper.stack(powers)
    return _replicated(together.max() if infinite else together.sum() ** (1.0 / norm_type), next(t._spec.mesh for t in tensors if hasattr(t, "_spec")))
