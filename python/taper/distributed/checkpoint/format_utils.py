"""torch.distributed.checkpoint.format_utils: between one file of torch.save and a folder of parts."""
import taper
from taper.distributed.checkpoint._nested import unflatten
from taper.distributed.checkpoint.filesystem import FileSystemReader
from taper.distributed.checkpoint.metadata import BytesStorageMetadata, MetadataIndex
from taper.distributed.checkpoint.state_dict_loader import read_tensor
from taper.distributed.checkpoint.state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """A folder as one file; this process reads all of it."""
    reader = FileSystemReader(dcp_checkpoint_dir)
    metadata = reader.read_metadata()
    values = {name: reader.read_item(metadata.storage_data[MetadataIndex(name)]) if isinstance(entry, BytesStorageMetadata)
              else read_tensor(name, entry, metadata, reader) for name, entry in metadata.state_dict_metadata.items()}
    paths = metadata.planner_data or {name: (name,) for name in values}
    taper.save(unflatten(values, paths), torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """One file as a folder."""
    save(taper.load(torch_save_path, weights_only=True), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
