"""torch.distributed.checkpoint.format_utils: between one file of torch.save and a folder of parts."""

import taper
from taper.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner  # noqa: F401
from taper.distributed.checkpoint.filesystem import FileSystemReader
from taper.distributed.checkpoint.state_dict_loader import _load_state_dict, read_all  # noqa: F401
from taper.distributed.checkpoint.state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """A folder as one file; this process reads all of it."""
    reader = FileSystemReader(dcp_checkpoint_dir)
    taper.save(read_all(reader, reader.read_metadata()), torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """One file as a folder."""
    save(taper.load(torch_save_path, weights_only=True), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
