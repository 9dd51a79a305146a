"""deepspeed.utils.zero_to_fp32: the float32 weights of a checkpoint that several ranks wrote, as a plain state dict, in
one process."""

import os

import taper
from taper.deepspeed._states import _tag
from taper.distributed import checkpoint as dcp

__all__ = [
    "convert_zero_checkpoint_to_fp32_state_dict",
    "get_fp32_state_dict_from_zero_checkpoint",
    "load_state_dict_from_zero_checkpoint",
]


def get_fp32_state_dict_from_zero_checkpoint(
    checkpoint_dir, tag=None, exclude_frozen_parameters=False, lazy_mode=False
):
    """{name: float32 tensor on the CPU}, whole, of what engine.save_checkpoint wrote. tag None: the latest."""
    found = _tag(checkpoint_dir, tag)
    if found is None:
        raise ValueError(f"Unable to find 'latest' file at {os.path.join(checkpoint_dir, 'latest')}")
    path = os.path.join(checkpoint_dir, found)
    if not os.path.isdir(path):
        raise FileNotFoundError(f"Directory '{path}' doesn't exist")
    known = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
    wanted = {"module": {}, "master": {}}
    for key, about in known.items():
        kind, _, name = key.partition(".")
        if hasattr(about, "size") and (kind == "master" or kind == "module" and f"master.{name}" not in known):
            wanted[kind][name] = taper.empty(about.size, dtype=about.properties.dtype)
    dcp.load({kind: tensors for kind, tensors in wanted.items() if tensors}, checkpoint_id=path, no_dist=True)
    names = [key.partition(".")[2] for key in known if key.startswith("module.")]
    whole = {**wanted["module"], **wanted["master"]}
    return {
        name: whole[name].float() if whole[name].is_floating_point() else whole[name] for name in names if name in whole
    }


def convert_zero_checkpoint_to_fp32_state_dict(
    checkpoint_dir,
    output_dir,
    max_shard_size="5GB",
    safe_serialization=False,
    tag=None,
    exclude_frozen_parameters=False,
):
    """Writes them as one file: output_dir if that ends in .bin, .pt or .pth, else pytorch_model.bin in it."""
    state = get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag, exclude_frozen_parameters)
    path = output_dir
    if not str(output_dir).endswith((".bin", ".pt", ".pth")):
        os.makedirs(output_dir, exist_ok=True)
        path = os.path.join(output_dir, "pytorch_model.bin")
    taper.save(state, path)


def load_state_dict_from_zero_checkpoint(model, checkpoint_dir, tag=None):
    """The model, on the CPU, with a checkpoint's weights."""
    model = model.cpu()
    model.load_state_dict(get_fp32_state_dict_from_zero_checkpoint(checkpoint_dir, tag), strict=False)
    return model
