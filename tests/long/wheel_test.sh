#!/usr/bin/env bash
# `pip install .` as a user types it: a wheel built from the sources into a fresh environment, imported from another folder; the installed
# package stays below 20 MB and brings the `taper` command. Needs PyPI for the build's own tool.
set -eu
fail() { echo "FAILED: $1"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
bin=$scratch/venv/bin
cd "$TAPER_SOURCE_DIR"
"$bin/pip" install --quiet --disable-pip-version-check . || fail "pip install . returned $?"

cd "$scratch"
"$bin/python" - << 'END'
import os, sys, taper
assert taper.__file__.startswith(sys.prefix), taper.__file__
x = taper.ones(3).requires_grad_()
(x * 2).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
folder = os.path.dirname(taper.__file__)
libraries = sorted({line.split()[-1] for line in open("/proc/self/maps") if "libtaper" in line})
assert [os.path.dirname(path) for path in libraries] == [folder], libraries
size = sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names if not name.endswith(".pyc"))
print(f"installed package: {size / 1e6:.1f} MB")
assert size <= 20e6
END
echo 'import torch; print(torch.arange(3).sum().item())' > script.py
[ "$("$bin/taper" run script.py)" = 3 ] || fail "taper run script.py"
version=$(sed -n 's/^#define TP_VERSION_[A-Z]* //p' "$TAPER_SOURCE_DIR/include/taper/base.h" | paste -sd.)
[ "$("$bin/taper" --version)" = "taper $version" ] || fail "taper --version is not $version"
[ "$("$bin/pip" show taper-ml | sed -n 's/^Version: //p')" = "$version" ] || fail "the distribution's version is not $version"
