#!/usr/bin/env bash
# The least that Taper is built from: no Ninja, no pkg-config, no MPI, no zlib, libpng or libjpeg.
# The package imports; what needs a missing library refuses and names it; `taper info` tells; files
# that are not packed are written and read as ever.
set -eu
fail() { echo "FAILED: $1"; exit 1; }
build=$TAPER_BUILD_DIR-minimal
python=$TAPER_SOURCE_DIR/.venv/bin/python
mkdir -p "$build"
left_out=$(printf -- ' -DCMAKE_DISABLE_FIND_PACKAGE_%s=ON' ZLIB PNG JPEG PkgConfig)
# shellcheck disable=SC2086
cmake -S "$TAPER_SOURCE_DIR" -B "$build" -G "Unix Makefiles" -DCMAKE_C_COMPILER="$CC" -DTAPER_WERROR=ON -DTAPER_PYTHON=ON \
    -DPython3_EXECUTABLE="$python" -DTAPER_MPICC=OFF $left_out > "$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }
cmake --build "$build" --parallel "$(nproc)" --target python_extension > "$build/build.log" 2>&1 || { tail -30 "$build/build.log"; exit 1; }

needed=$(readelf -d "$build/libtaper.so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
case $needed in *libz.* | *libpng* | *libjpeg*) fail "it is linked with what was left out: $needed" ;; esac
export PYTHONPATH=$build/python
told=$("$python" -m taper info)
for library in zlib libpng libjpeg; do
    grep -q "^$library: *not in this build" <<< "$told" || fail "taper info does not tell of $library: $told"
done
cd "$(mktemp -d)"
cat > script.py << 'END'
import zipfile

import torch
from torchvision.io import decode_jpeg, decode_png, encode_jpeg, encode_png

picture, nothing = torch.zeros(3, 2, 2, dtype=torch.uint8), torch.zeros(10, dtype=torch.uint8)


def refused(what, function, *arguments):
    try:
        function(*arguments)
    except NotImplementedError as error:
        assert f"this build of Taper has no {what}" in str(error), error
    else:
        raise AssertionError(what)


refused("libpng", encode_png, picture)
refused("libpng", decode_png, nothing)
refused("libjpeg", encode_jpeg, picture)
refused("libjpeg", decode_jpeg, nothing)

values = torch.arange(3_000_000.0)  # more than a thread reads alone
torch.save({"a": values}, "plain.pt")
with zipfile.ZipFile("plain.pt") as plain, zipfile.ZipFile("packed.pt", "w", zipfile.ZIP_DEFLATED) as packed:
    assert plain.testzip() is None  # our checksums are zlib's
    for name in plain.namelist():
        packed.writestr(name, plain.read(name))
assert torch.equal(torch.load("plain.pt")["a"], values)
refused("zlib", torch.load, "packed.pt")
print("right")
END
[ "$("$python" -m taper run script.py)" = right ] || fail "the script"
