"""torch.distributed.tensor.parallel.api: parallelize_module."""

from fnmatch import fnmatchcase

from taper.distributed.tensor.parallel.style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Applies a style to a module, or styles to the modules inside of it that names (with *) lead to."""
    if device_mesh is None:
        from taper import distributed as dist
        from taper.distributed.device_mesh import init_device_mesh

        device_mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan._apply(module, device_mesh)
    for path, style in (parallelize_plan or {}).items():
        found = [(name, child) for name, child in module.named_modules() if _matches(name, path)]
        if not found:
            import warnings

            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matching it")
        for _, child in found:
            style._apply(child, device_mesh)
    return module


def _matches(name, path):
    """Part by part, so that * stands for one level."""
    parts, patterns = name.split("."), path.split(".")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))
