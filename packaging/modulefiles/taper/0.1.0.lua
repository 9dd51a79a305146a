-- Taper as a module of Lmod's: the C library, the Python package and the command, as `make install`
-- lays them down. Its copy of this file names the prefix; put it into a folder of MODULEPATH as
-- taper/0.1.0.lua, or `module use` the folder where it is. TAPER_PREFIX names another prefix.
local prefix = os.getenv("TAPER_PREFIX") or "/opt/taper/0.1.0"

whatis("Name: Taper")
whatis("Version: 0.1.0")
whatis("Description: tensors, automatic differentiation and neural networks in C; runs PyTorch scripts unchanged")
help([[taper run train.py runs a script that says `import torch`; taper launch --nproc 4 train.py runs it as four processes.]])

conflict("taper")
prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
prepend_path("CPATH", pathJoin(prefix, "include"))
setenv("TAPER_PACKAGING", pathJoin(prefix, "share/taper/packaging"))
for _, lib in ipairs({"lib", "lib64"}) do -- either, by system
    local folder = pathJoin(prefix, lib)
    if isDir(folder) then
        prepend_path("LD_LIBRARY_PATH", folder)
        prepend_path("LIBRARY_PATH", folder)
        prepend_path("PKG_CONFIG_PATH", pathJoin(folder, "pkgconfig"))
        -- The package, of whichever Python it was built for: a Python of another version does not
        -- see its extension.
        for name in lfs.dir(folder) do
            local packages = pathJoin(folder, name, "site-packages")
            if name:find("^python3") and isDir(packages) then prepend_path("PYTHONPATH", packages) end
        end
    end
end
