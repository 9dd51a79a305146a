#!/usr/bin/env bash
# Runs wheels for aarch64 of dist/wheels on this machine, by qemu-user: with Debian's own Python for that processor,
# unpacked without root, the wheel trains the digits and takes torch's name.
#   packaging/wheels/qemu.sh [3.11] [3.13]      for which Pythons; without any, both
# Needs qemu-aarch64-static (Debian's qemu-user-static), apt-get and dpkg-deb.
set -euo pipefail
sources=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# != 1 ]; then
    [ $# != 0 ] || set -- 3.11 3.13
    for version; do "$0" "$version"; done
    exit
fi
version=$1
case $version in
    3.11) suite=bookworm ssl=libssl3 ;;
    3.13) suite=trixie ssl=libssl3t64 ;;
    *) echo "qemu.sh: expected 3.11 or 3.13, got '$version'" >&2; exit 2 ;;
esac
root=$sources/${BUILD:-build}-wheels/python/$suite-arm64
wheel=$(find "$sources/dist/wheels" -name "taper_ml-*-cp${version/./}-*_aarch64.whl" | head -1)
[ -n "$wheel" ] || { echo "qemu.sh: dist/wheels has no wheel for Python $version on aarch64: make wheels" >&2; exit 1; }
echo "== Python $version of Debian's $suite: $(basename "$wheel")"
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "qemu.sh: qemu-aarch64-static is not there" >&2; exit 1; }
"$sources/packaging/wheels/sysroot.sh" "$suite" arm64 "$root" libc6 libgcc-s1 zlib1g libexpat1 libffi8 "$ssl" libbz2-1.0 liblzma5 libzstd1 \
    "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib"
# qemu looks for the loader and libraries below -L; Debian 13 has them in /usr/lib alone.
[ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
site=$root/site
rm -rf "$site"
mkdir "$site"
python3 -m zipfile -e "$wheel" "$site"
# qemu's own choice of a processor, `max`, has a matrix unit (SME), whose kernels not every OpenBLAS has right
# (build.sh); QEMU_CPU=neoverse-n1 is one without.
run() { PYTHONHOME=$root/usr PYTHONPATH=$site "$emulator" -L "$root" "$root/usr/bin/python$version" "$@"; }
cd "$site"
run -c 'import platform, taper; print(platform.machine(), taper.__config__.show())'
run -m taper train digits --most 1000 --epochs 2 --out "$site/runs"
run -m taper run -c 'import torch; print(torch.__version__, torch.linalg.inv(torch.eye(2, dtype=torch.float64) * 2))'
run -m taper run -c '
import torch
torch.manual_seed(0)
for dtype in (torch.float32, torch.float64, torch.complex128):
    a = torch.rand(150, 150, dtype=dtype) + 150 * torch.eye(150, dtype=dtype)
    wrong = (torch.linalg.inv(a) @ a - torch.eye(150, dtype=dtype)).abs().max().item()
    print(f"{dtype}: inverse times matrix is off by {wrong:.1e}")
    assert wrong < 1e-5'
