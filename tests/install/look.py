"""Run in an installed tree: look.py PACKAGES LIBRARIES [children]. All that the package opens is the tree's own."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys

import torch
from taper._report import facts
from torch.utils import cmake_prefix_path, cpp_extension

packages, libraries = sys.argv[1:3]
found = facts()
assert found["package"] == packages + "/taper", found["package"]
assert os.path.dirname(found["library"]) == libraries, found["library"]
assert cpp_extension.library_paths() == [libraries], cpp_extension.library_paths()
assert importlib.metadata.version("taper-ml") == found["taper"]
[library] = re.findall(r'LIBRARY "(.*)"', pathlib.Path(cmake_prefix_path, "Torch/TorchConfig.cmake").read_text())
assert os.path.samefile(library.replace("${CMAKE_CURRENT_LIST_DIR}", cmake_prefix_path + "/Torch"), found["library"])
assert torch.ones(2).sum() == 2
if sys.argv[3:]:
    subprocess.run([sys.executable, "-c", "import torch, taper; print(taper.__file__)"], check=True)
