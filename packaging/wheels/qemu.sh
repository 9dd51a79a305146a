#!/usr/bin/env bash
# Runs the wheel for aarch64 and Python 3.13 of dist/wheels on this machine, by qemu-user: with Debian's own Python for
# that processor, unpacked without root, the wheel trains the digits and takes torch's name.
#   packaging/wheels/qemu.sh
# Needs qemu-aarch64-static (Debian's qemu-user-static), apt-get and dpkg-deb.
set -euo pipefail
sources=$(cd "$(dirname "$0")/../.." && pwd)
root=$sources/${BUILD:-build}-wheels/python/trixie-arm64
wheel=$(find "$sources/dist/wheels" -name 'taper_ml-*-cp313-*_aarch64.whl' | head -1)
[ -n "$wheel" ] || { echo "qemu.sh: dist/wheels has no wheel for Python 3.13 on aarch64: make wheels" >&2; exit 1; }
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "qemu.sh: qemu-aarch64-static is not there" >&2; exit 1; }
"$sources/packaging/wheels/sysroot.sh" trixie arm64 "$root" libc6 libgcc-s1 zlib1g libexpat1 libffi8 libssl3t64 libbz2-1.0 liblzma5 libzstd1 \
    python3.13-minimal libpython3.13-minimal libpython3.13-stdlib
# qemu looks for the loader and libraries below -L; Debian 13 has them in /usr/lib alone.
[ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
site=$root/site
rm -rf "$site"
mkdir "$site"
python3 -m zipfile -e "$wheel" "$site"
# qemu's own choice, `max`, has a matrix unit (SME), for which OpenBLAS 0.3.34 takes kernels that are wrong on qemu 7.2:
# a plain cblas_dgemm gives NaN there, and the right numbers on each processor that exists.
export QEMU_CPU=${QEMU_CPU:-neoverse-n1}
run() { PYTHONHOME=$root/usr PYTHONPATH=$site "$emulator" -L "$root" "$root/usr/bin/python3.13" "$@"; }
cd "$site"
run -c 'import platform, taper; print(platform.machine(), taper.__config__.show())'
run -m taper train digits --most 1000 --epochs 2 --out "$site/runs"
run -m taper run -c 'import torch; print(torch.__version__, torch.linalg.inv(torch.eye(2, dtype=torch.float64) * 2))'
