-- Taper as a module of Lmod's. Put this file into a folder of MODULEPATH as taper/0.1.0.lua, and set the prefix that `make install` was given;
-- the Python package is a wheel (`pip install`), found under the same prefix.
local prefix = os.getenv("TAPER_PREFIX") or "/opt/taper/0.1.0"

whatis("Name: Taper")
whatis("Version: 0.1.0")
whatis("Description: tensors, automatic differentiation and neural networks in C; runs PyTorch scripts unchanged")
help([[taper run train.py runs a script that says `import torch`; taper launch --nproc 4 train.py runs it as four processes.]])

conflict("taper")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("CPATH", pathJoin(prefix, "include"))
prepend_path("LIBRARY_PATH", pathJoin(prefix, "lib"))
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib/pkgconfig"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
setenv("TAPER_PACKAGING", pathJoin(prefix, "share/taper/packaging"))
