"""torch.utils.data: datasets, samplers and the loader that makes batches of them."""

from taper.utils.data.dataset import (  # noqa: F401
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from taper.utils.data.sampler import (  # noqa: F401
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from taper.utils.data.distributed import DistributedSampler  # noqa: F401
from taper.utils.data.dataloader import DataLoader, _DatasetKind, default_collate, default_convert, get_worker_info  # noqa: F401

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

_PIPES = {
    "DFIterDataPipe": "datapipe",
    "DataChunk": "datapipe",
    "IterDataPipe": "datapipe",
    "MapDataPipe": "datapipe",
    "functional_datapipe": "_decorator",
    "guaranteed_datapipes_determinism": "_decorator",
    "non_deterministic": "_decorator",
}
__all__ += _PIPES


def __getattr__(name):  # pipes are loaded when a program uses them
    from importlib import import_module

    if name in _PIPES:
        value = globals()[name] = getattr(import_module("taper.utils.data.datapipes." + _PIPES[name]), name)
        return value
    if name in ("datapipes", "graph_settings"):
        return import_module("taper.utils.data." + name)
    raise AttributeError(f"module 'torch.utils.data' has no attribute '{name}'")
