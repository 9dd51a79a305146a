"""torch.distributed._tensor.device_mesh, where torch.distributed.device_mesh was before."""

from taper.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
