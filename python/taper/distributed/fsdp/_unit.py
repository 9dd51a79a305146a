"""Parameters that are whole only while they are needed: what fully_shard and FullyShardedDataParallel are made of.

A unit is the parameters of a module, less those of units inside of it. At rest each rank has its rows of every
parameter, as DTensors. Before the module's forward, and again before its backward, one all_gather makes them whole;
after each the memory is given back. When the gradients of a unit are there, one reduce_scatter gives each rank the
average of its rows.

The whole parameter is one tensor for ever: only its memory comes and goes, so that what the tape saved of it is valid
again when the memory is."""

import taper
from taper import _C
from taper import distributed as dist
from taper._C import Tensor
from taper._hook import NotCovered
from taper.autograd.grad_mode import no_grad
from taper.distributed.tensor._dtensor import DTensor, _plain, _Spec, _wrap
from taper.distributed.tensor.placement_types import Replicate, Shard, _StridedShard
from taper.nn.parallel._reducer import tensors_in
from taper.nn.parameter import Parameter


class _Sharded:
    """One parameter: where modules hold it, its rows here, and the whole."""

    def __init__(self, owners, param, mesh, compute_dtype):
        inner = (
            param._spec if isinstance(param, DTensor) else None
        )  # cut already, by tensor parallel layers: what is left of it here is cut again
        here = (param if inner is None else _plain(param)).detach()
        self.owners, self.shape = owners, here.shape
        rows = here.reshape(1) if here.dim() == 0 else here
        world, rank = mesh.size(-1 if mesh.ndim > 1 else 0), mesh.get_local_rank(mesh.ndim - 1)
        self.rows, self.rest = rows.shape[0], rows[0].numel() if rows.shape[0] else 0
        self.each = -(-self.rows // world)
        self.start, self.count = Shard(0).part(self.rows, world, rank)
        local = self.own_rows(rows).clone(memory_format=taper.contiguous_format)
        spec = (
            _Spec(mesh, [Replicate()] * (mesh.ndim - 1) + [Shard(0)], rows.shape)
            if inner is None
            else _cut_twice(inner, mesh)
        )
        self.sharded = Parameter(_wrap(local, spec), param.requires_grad)
        whole = taper.empty(here.shape, dtype=compute_dtype or param.dtype, device=param.device)
        self.whole = Parameter(whole if inner is None else _wrap(whole, inner), param.requires_grad)
        self.bytes = self.whole.untyped_storage().nbytes()
        for name, value in vars(param).items():
            if name != "_spec":
                setattr(self.sharded, name, value)
        self.release()
        self.show(self.sharded)

    def own_rows(self, rows):
        return rows[self.start : self.start + self.count]

    def raw(self):
        """The whole's memory as a plain tensor. The tape does not see what is written there: it is what it has seen
        before."""
        return _plain(self.whole).data

    def write_back(self):
        """What was written to the whole becomes this rank's rows."""
        _plain(self.sharded).detach().copy_(self.own_rows(self.raw() if self.shape else self.raw().reshape(1)))

    def adopt(self):
        """Takes a parameter over that was put in the rows' place since: load_state_dict(assign=True) does, after a
        start on the meta device."""
        module, name = self.owners[0]
        now = module._parameters.get(name)
        if now is None or now is self.sharded or now is self.whole:
            return
        if not isinstance(now, DTensor) or now.shape != self.sharded.shape:
            raise RuntimeError(
                f"the parameter '{name}' of {type(module).__name__} lies in parts: expected a DTensor of shape "
                f"{list(self.sharded.shape)} in its place, got {type(now).__name__} of shape {list(now.shape)}"
            )
        self.sharded = now
        self.show(now)

    def show(self, which):
        for module, name in self.owners:
            module._parameters[name] = which

    def release(self):
        self.whole.untyped_storage().resize_(0)

    def allocate(self):
        device = self.sharded.device
        if self.whole.device != device:  # made on the meta device, and its rows have moved since (to_empty)
            whole = taper.empty(self.shape, dtype=self.whole.dtype, device=device)
            self.whole.data = _wrap(whole, self.whole._spec) if isinstance(self.whole, DTensor) else whole
        if self.whole.untyped_storage().nbytes() != self.bytes:
            self.whole.untyped_storage().resize_(self.bytes)


def _cut_twice(inner, mesh):
    """Where a parameter lies that one dimension of a mesh has cut, and another one now cuts along its rows: in the mesh
    of both."""
    root = mesh._get_root_mesh()
    if mesh.ndim > 1 or root is not inner.mesh._get_root_mesh() or root.mesh_dim_names is None:
        raise NotCovered(
            f"torch.distributed.fsdp over parameters that lie in parts of {inner.mesh} already, unless both meshes "
            "are parts of one with named dimensions"
        )
    outer, names = mesh.mesh_dim_names[0], inner.mesh.mesh_dim_names
    order = [name for name in root.mesh_dim_names if name == outer or name in names]
    after = [
        name
        for name in order[order.index(outer) :]
        if name != outer and inner.placements[names.index(name)].is_shard(0)
    ]
    ways = 1
    for name in after:
        ways *= inner.mesh.size(names.index(name))
    mine = _StridedShard(0, split_factor=ways) if after else Shard(0)
    return _Spec(
        root[tuple(order)],
        [mine if name == outer else inner.placements[names.index(name)] for name in order],
        inner.shape,
    )


def _owners(module, ignored, claimed):
    """The parameters of a module that no unit has yet, each with all places it is held at."""
    found = {}
    for child in module.modules():
        for name, p in child._parameters.items():
            if p is not None and p not in ignored and id(p) not in claimed:
                found.setdefault(id(p), (p, []))[1].append((child, name))
    return list(found.values())


class Unit:
    def __init__(self, module, mesh, reshard_after_forward=True, compute_dtype=None, reduce_dtype=None, ignored=()):
        self.module, self.mesh = module, mesh
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim > 1 else None
        self.world = dist.get_world_size(self.group)
        self.reshard_after_forward, self.reduce_dtype = reshard_after_forward, reduce_dtype
        claimed = {id(one.sharded) for unit in units_of(module) for one in unit.params}
        self.params = [_Sharded(owners, p, mesh, compute_dtype) for p, owners in _owners(module, set(ignored), claimed)]
        self.is_whole, self.sync, self.reduce_factor, self.calls, self.waiting = False, True, None, 0, set()
        for one in self.params:
            if one.whole.requires_grad:
                one.whole.register_post_accumulate_grad_hook(self._arrived)

    # ---- Whole and in parts ----
    def unshard(self):
        """Makes the parameters whole: one all_gather of all of them."""
        if self.is_whole:
            return
        self.is_whole = True
        if not self.params:
            return
        with no_grad():
            for one in self.params:
                one.adopt()
            dtype = self.params[0].whole.dtype
            mine = taper.cat([self._padded(_plain(one.sharded).detach(), one).to(dtype) for one in self.params])
            every = mine.new_empty(self.world * mine.numel())
            dist.all_gather_into_tensor(every, mine, group=self.group)
            every, at = every.view(self.world, -1), 0
            for one in self.params:
                one.allocate()
                size = one.each * one.rest
                rows = every[:, at : at + size].reshape(self.world * one.each, one.rest)[: one.rows]
                one.raw().copy_(rows.reshape(one.shape))
                at += size
                one.show(one.whole)

    @staticmethod
    def _padded(local, one):
        flat = local.reshape(-1)
        missing = one.each * one.rest - flat.numel()
        return taper.cat([flat, flat.new_zeros(missing)]) if missing else flat

    def reshard(self):
        """Gives the memory of the whole parameters back."""
        if self.is_whole:
            self.is_whole = False
            for one in self.params:
                one.release()
                one.show(one.sharded)

    # ---- Calls ----
    def before_forward(self):
        self.unshard()

    def after_forward(self, output):
        """Afterwards the parameters may go; they come back when the gradient of the result does."""
        from taper import is_grad_enabled

        if is_grad_enabled():
            for tensor in tensors_in(output):
                if tensor.requires_grad and not tensor.is_leaf:
                    tensor.register_hook(self._before_backward)
        if self.reshard_after_forward or not is_grad_enabled():
            self.reshard()

    def _before_backward(self, grad):
        self.unshard()
        if not self.calls:
            self.calls = 1
            self.waiting = {one.whole for one in self.params if one.whole.requires_grad}
            _C._queue_callback(self._end_of_backward)

    def _arrived(self, whole):
        self.waiting.discard(whole)
        if not self.waiting and self.calls:
            self._reduce()

    def _end_of_backward(self):
        if self.waiting:
            self._reduce()
        self.reshard()
        self.calls = 0

    def _reduce(self):
        """The average of the gradients: each rank gets its rows of it."""
        self.waiting = set()
        if not self.sync:
            return
        given = [one for one in self.params if one.whole.requires_grad]
        with no_grad():
            if given:
                self._reduce_these(given)
        for one in given:
            one.whole.grad = None
        self.reshard()

    def _reduce_these(self, params):
        """One reduce_scatter of all gradients; beside them travels who has any, so that what no rank has used gets
        none."""
        dtype, device = self.reduce_dtype or params[0].whole.dtype, params[0].whole.device
        has = taper.tensor(
            [float(Tensor.grad.__get__(one.whole) is not None) for one in params], dtype=dtype, device=device
        )
        packed = taper.cat([*(self._by_rank(one, dtype) for one in params), has.expand(self.world, -1)], 1).reshape(-1)
        packed.div_(
            self.reduce_factor or self.world * (dist.get_world_size(self.replicas) if self.replicas is not None else 1)
        )
        mine = packed.new_empty(packed.numel() // self.world)
        dist.reduce_scatter_tensor(mine, packed, group=self.group)
        if self.replicas is not None:
            dist.all_reduce(mine, group=self.replicas)
        at, used = 0, (mine[-len(params) :] > 0).tolist()
        for one, some in zip(params, used):
            local = _plain(one.sharded)
            rows = mine[at : at + local.numel()].view(local.shape).to(local.dtype)
            at += one.each * one.rest
            had = Tensor.grad.__get__(one.sharded)
            if some and had is None:
                one.sharded.grad = rows.clone()
            elif some:
                had.add_(rows)

    def _by_rank(self, one, dtype):
        """(ranks, elements of each): a whole gradient as the rows that ranks have, the last ones filled up with
        zeros."""
        block = taper.zeros((self.world * one.each, one.rest), dtype=dtype, device=one.whole.device)
        grad = Tensor.grad.__get__(one.whole)
        if grad is not None:
            block[: one.rows] = grad.reshape(one.rows, one.rest)
        return block.view(self.world, -1)


def units_of(module):
    """The units of a module and of all inside of it."""
    return [child.__dict__["_fsdp_unit"] for child in module.modules() if "_fsdp_unit" in child.__dict__]
