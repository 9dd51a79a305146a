"""Files of named tensors beside torch.save's: .safetensors, .npz and .npy, written so that nothing is lost, read whole
or mapped into memory."""

import os

from taper import _C


def save(tensors, path):
    """Writes a dict of tensors to .safetensors, .npz, or (any other ending) a file that torch.load reads. The old file
    stays until the new one is complete on the disk."""
    _C._save_named(path, dict(tensors))


def load(path, mmap=False):
    """What a file holds, whichever of these formats it has: a dict of tensors; of .npy a tensor; of .pt any value, read
    without executing anything. With mmap tensors look at the file itself, and nothing is read before it is used, or
    checked."""
    os.stat(path)  # raises what Python raises where there is no file
    from taper._file_names import Names

    return _C._File(path, map=mmap).value(Names().find, None)
