"""torch.distributed.device_mesh: ranks as a grid with named dimensions, and a process group along each line of it."""
import taper
from taper import distributed as dist

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """A grid of ranks. All ranks make a mesh together, for its groups are made with it."""

    def __init__(self, device_type, mesh, *, mesh_dim_names=None, _init_backend=True, _groups=None):
        self.device_type = device_type
        self.mesh = mesh if isinstance(mesh, taper.Tensor) else taper.tensor(mesh)
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names is not None else None
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.dim():
            raise RuntimeError("mesh_dim_names must have same length as mesh_shape")
        if not dist.is_initialized():
            dist.init_process_group()
        where = (self.mesh == dist.get_rank()).nonzero()
        self._coordinate = where[0].tolist() if len(where) else None
        self._groups = _groups if _groups is not None else [self._make_groups(dim) for dim in range(self.mesh.dim())]

    def _make_groups(self, dim):
        """The group of this rank's line along a dimension; all lines' groups are made, by all ranks, in one order."""
        lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
        if len(lines) == 1 and sorted(lines[0]) == list(range(dist.get_world_size())) and lines[0] == sorted(lines[0]):
            return dist.distributed_c10d._get_default_group()
        mine = None
        for line in lines:
            group = dist.new_group(line)
            if dist.get_rank() in line:
                mine = group
        return mine

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
            if self.mesh_dim_names is None or dim not in self.mesh_dim_names:
                raise KeyError(f"Invalid mesh_dim_name '{dim}': the mesh has {self.mesh_dim_names}")
            return self.mesh_dim_names.index(dim)
        return dim

    def get_group(self, mesh_dim=None):
        """The group along a dimension; a mesh of one dimension has but one."""
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.")
            mesh_dim = 0
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

    def __getitem__(self, names):
        """The mesh along some of the dimensions, at this rank's place in the others."""
        names = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name) for name in names]
        at = tuple(slice(None) if dim in dims else self._coordinate[dim] for dim in range(self.ndim))
        part = self.mesh[at]
        kept = [dim for dim in range(self.ndim) if dim in dims]
        return DeviceMesh(self.device_type, part.permute([kept.index(dim) for dim in dims]), mesh_dim_names=names, _groups=[self._groups[dim] for dim in dims])

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """A mesh over groups that are there already."""
        groups = list(group) if isinstance(group, (list, tuple)) else [group]
        mesh = dist.get_process_group_ranks(groups[0]) if mesh is None else mesh
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups)

    def __eq__(self, other):
        return self is other or isinstance(other, DeviceMesh) and self.device_type == other.device_type and self.mesh.tolist() == other.mesh.tolist()

    def __hash__(self):
        return hash((self.device_type, str(self.mesh.tolist())))

    def __repr__(self):
        names = self.mesh_dim_names or [str(n) for n in self.shape]
        dims = ", ".join(f"{name}={n}" if self.mesh_dim_names else name for name, n in zip(names, self.shape))
        return f"DeviceMesh(({dims}), '{self.device_type}', stride={tuple(self.mesh.stride())})"


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """A mesh over the first ranks, in order."""
    count = 1
    for n in mesh_shape:
        count *= n
    if not dist.is_initialized():
        dist.init_process_group()
    if count > dist.get_world_size():
        raise RuntimeError(f"Mesh should not be bigger than default world size {dist.get_world_size()}, but found {count} ranks!")
    return DeviceMesh(device_type, taper.arange(count).view(tuple(mesh_shape)), mesh_dim_names=mesh_dim_names)
