"""Saves a value into a folder, or dies before the checkpoint's last file is written."""

import os
import sys
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import filesystem

folder, how, value = sys.argv[1], sys.argv[2], float(sys.argv[3])
if how == "die":
    filesystem.FileSystemWriter.write_metadata = lambda self, metadata: os._exit(9)
dcp.save({"w": torch.full((3,), value)}, checkpoint_id=folder)
