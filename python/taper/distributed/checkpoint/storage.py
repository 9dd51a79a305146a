"""torch.distributed.checkpoint.storage: where checkpoints may be kept; filesystem.py has the one there is."""

__all__ = ["StorageReader", "StorageWriter"]


class StorageWriter:
    """A place that parts of a checkpoint and its index are written to."""

    def prepare(self):
        """On rank 0, before anything is written: a number that all parts of this save are given."""
        return 0

    def write_items(self, rank, items, number=0):
        """Writes (MetadataIndex, value) pairs as one part; a dict of where each went."""
        raise NotImplementedError

    def write_metadata(self, metadata):
        """Writes the index, which makes the checkpoint complete."""
        raise NotImplementedError


class StorageReader:
    """A place that a checkpoint is read from."""

    def read_metadata(self):
        raise NotImplementedError

    def read_item(self, info, weights_only=True):
        """What was written at a place."""
        raise NotImplementedError
