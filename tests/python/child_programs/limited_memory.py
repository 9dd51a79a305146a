"""Reads a file with half a gigabyte of memory left."""

import resource
import sys
import taper as torch
from taper import _C
from taper.torchvision.datasets import mnist

torch.ones(2).sum()
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 29),) * 2)
what, path = sys.argv[1:]
try:
    if what == "idx":
        _C._read_idx(path)
    elif what == "mnist":
        mnist.read_sn3_pascalvincent_tensor(path)
    else:
        reader = _C._EventReader(path)
        print(len(reader.read()))
except MemoryError:
    raise SystemExit("the length was believed") from None
except (RuntimeError, ValueError, OSError) as error:
    print(error)
