"""torch.distributed.device_mesh: ranks as a grid with named dimensions, and a process group along each line of it."""

import taper
from taper import distributed as dist

__all__ = ["DeviceMesh", "init_device_mesh"]

_current = []  # meshes of with statements
# the first mesh of each kind, for those that are unpickled, with the group of all ranks that it was made in
_known = {}


def _mesh_like(device_type, ranks, names):
    """A mesh that was pickled: the one of its kind, for groups do not travel. Where there is none, all ranks make it
    together."""
    world, found = _known.get((device_type, names, str(ranks)), (None, None))
    return (
        found
        if found is not None and world is dist.group.WORLD
        else DeviceMesh(device_type, ranks, mesh_dim_names=names)
    )


def current_mesh():
    """The mesh of the innermost with statement."""
    if not _current:
        raise RuntimeError("No device mesh is currently active!")
    return _current[-1]


def _lines(mesh, dims):
    """The ranks of each line along some dimensions of a grid."""
    rest = [dim for dim in range(mesh.dim()) if dim not in dims]
    count = 1
    for dim in dims:
        count *= mesh.shape[dim]
    return mesh.permute(*rest, *dims).reshape(-1, count).tolist()


def _group_along(mesh, dims):
    """The group of this rank's line; all lines' groups are made, by all ranks, in one order."""
    lines = _lines(mesh, dims)
    if len(lines) == 1 and lines[0] == list(range(dist.get_world_size())):
        return dist.distributed_c10d._get_default_group()
    mine = None
    for line in lines:
        group = dist.new_group(line)
        if dist.get_rank() in line:
            mine = group
    return mine


class DeviceMesh:
    """A grid of ranks. All ranks make a mesh together, for its groups are made with it."""

    def __init__(
        self,
        device_type,
        mesh,
        *,
        mesh_dim_names=None,
        backend_override=None,
        _init_backend=True,
        _groups=None,
        _root=None,
    ):
        self.device_type = device_type
        self.mesh = mesh if isinstance(mesh, taper.Tensor) else taper.tensor(mesh)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.dim():
            raise RuntimeError("mesh_dim_names must have same length as mesh_shape")
        if not dist.is_initialized():
            dist.init_process_group()
        where = (self.mesh == dist.get_rank()).nonzero()
        self._coordinate = where[0].tolist() if len(where) else None
        self._groups = (
            _groups if _groups is not None else [_group_along(self.mesh, [dim]) for dim in range(self.mesh.dim())]
        )
        self._root, self._flat, self._parts = _root, {}, {}
        if _known.get(self._key(), (None,))[0] is not dist.group.WORLD:
            _known[self._key()] = dist.group.WORLD, self

    @property
    def ndim(self):
        return self.mesh.dim()

    @property
    def shape(self):
        return tuple(self.mesh.shape)

    def size(self, mesh_dim=None):
        return self.mesh.numel() if mesh_dim is None else self.mesh.shape[self._dim(mesh_dim)]

    def _dim(self, dim):
        if isinstance(dim, str):
            if self.mesh_dim_names is None:
                raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
            if dim not in self.mesh_dim_names:
                raise KeyError(
                    f"Mesh dimension '{dim}' does not exist. Available mesh dimensions are: "
                    f"mesh_dim_names={self.mesh_dim_names}"
                )
            return self.mesh_dim_names.index(dim)
        return dim

    def get_group(self, mesh_dim=None):
        """The group along a dimension; a mesh of one dimension has but one."""
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(
                    f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be "
                    "specified when device_mesh.ndim > 1."
                )
            mesh_dim = 0
        if isinstance(mesh_dim, str) and mesh_dim in self._get_root_mesh()._flat:
            return self[mesh_dim].get_group()
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self):
        return list(self._groups)

    def get_rank(self):
        return dist.get_rank()

    def get_local_rank(self, mesh_dim=None):
        """This rank's number along a dimension."""
        return dist.get_rank(self.get_group(mesh_dim))

    def get_coordinate(self):
        return tuple(self._coordinate) if self._coordinate is not None else None

    def _is_current_rank_part_of_mesh(self):
        return self._coordinate is not None

    def _get_root_mesh(self):
        """The mesh that this one is a part of; itself if of none."""
        return self._root[0] if self._root is not None else self

    def __getitem__(self, names):
        """The mesh along some of the dimensions, at this rank's place in the others."""
        if isinstance(names, int):
            raise TypeError(
                f"a mesh is sliced by the names of its dimensions, {self.mesh_dim_names}, not by numbers: got {names}"
            )
        names = (names,) if isinstance(names, str) else tuple(names)
        if len(names) == 1 and names[0] in self._get_root_mesh()._flat:
            return self._get_root_mesh()._flat[names[0]]
        if names == self.mesh_dim_names:
            return self
        if names not in self._parts:
            dims = [self._dim(name) for name in names]
            at = tuple(slice(None) if dim in dims else self._coordinate[dim] for dim in range(self.ndim))
            kept = [dim for dim in range(self.ndim) if dim in dims]
            root = self._root or (self, list(range(self.ndim)))
            self._parts[names] = DeviceMesh(
                self.device_type,
                self.mesh[at].permute([kept.index(dim) for dim in dims]),
                mesh_dim_names=names,
                _groups=[self._groups[dim] for dim in dims],
                _root=(root[0], [root[1][dim] for dim in dims]),
            )
        return self._parts[names]

    def _flatten(self, mesh_dim_name=None, backend_override=None):
        """All dimensions as one, which has a name in the mesh that this one is a part of."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or (str(dim) for dim in range(self.ndim)))
        root, dims = self._root or (self, list(range(self.ndim)))
        if self.ndim == 1 and self.mesh_dim_names == (name,):
            return self
        if name not in root._flat:
            group = self._groups[0] if self.ndim == 1 else _group_along(root.mesh, dims)
            root._flat[name] = DeviceMesh(
                self.device_type, self.mesh.reshape(-1), mesh_dim_names=(name,), _groups=[group], _root=(root, dims)
            )
        return root._flat[name]

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh over groups that are there already."""
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        mesh = dist.get_process_group_ranks(groups[0]) if mesh is None else mesh
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups)

    def __reduce__(self):
        return _mesh_like, (self.device_type, self.mesh.tolist(), self.mesh_dim_names)

    def __enter__(self):
        _current.append(self)
        return self

    def __exit__(self, *error):
        _current.pop()

    def __eq__(self, other):
        return self is other or isinstance(other, DeviceMesh) and self._key() == other._key()

    def _key(self):
        return self.device_type, self.mesh_dim_names, str(self.mesh.tolist())

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        names = self.mesh_dim_names or [str(n) for n in self.shape]
        dims = ", ".join(f"{name}={n}" if self.mesh_dim_names else name for name, n in zip(names, self.shape))
        comma = "," if len(self.shape) == 1 and not self.mesh_dim_names else ""
        return f"DeviceMesh(({dims}{comma}), '{self.device_type}', stride={tuple(self.mesh.stride())})"


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh over the first ranks, in order."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(
                f"Each mesh_dim_name must be unique, found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}"
            )
        if len(mesh_dim_names) != len(mesh_shape):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
                f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    if not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. If you maintained a 'torch.device' "
            "object, it's recommended to pass in 'device.type'."
        )
    count = 1
    for n in mesh_shape:
        count *= n
    if not dist.is_initialized():
        dist.init_process_group()
    if count > dist.get_world_size():
        raise RuntimeError(
            f"Mesh should not be bigger than default world size {dist.get_world_size()}, but found {count} ranks!"
        )
    return DeviceMesh(device_type, taper.arange(count).view(tuple(mesh_shape)), mesh_dim_names=mesh_dim_names)
