#!/usr/bin/env bash
# What a user gets from PyPI's kind of archive: `make dist`, a wheel built from the unpacked archive (as `pip install .` builds it) into a
# fresh environment, imported from another folder; the installed package stays below 22 MB (and its C++ headers below
# 2.5), brings the `taper` command and the
# data that `taper train` comes with. The recipes name the archive's checksum. Needs PyPI for the build's own tools.
set -eu
fail() { echo "FAILED: $1"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
bin=$scratch/venv/bin
mkdir "$scratch/sources"
git -C "$TAPER_SOURCE_DIR" ls-files -z | (cd "$TAPER_SOURCE_DIR" && xargs -0 cp --parents -t "$scratch/sources") # without what was built
cd "$scratch/sources"
tools/dist.sh || fail "make dist returned $?"
checksum=$(sha256sum dist/taper_ml-*.tar.gz | cut -d ' ' -f 1)
for recipe in dist/recipes/easybuild/*.eb dist/recipes/spack/packages/taper/package.py dist/recipes/conda/recipe.yaml; do
    grep -q "$checksum" "$recipe" || fail "$recipe does not name the archive's checksum"
done
tar -xzf dist/taper_ml-*.tar.gz -C "$scratch"
cd "$scratch"/taper_ml-*
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
def size(top):
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(top) for name in names if not name.endswith(".pyc"))
headers = size(os.path.join(folder, "include"))  # for extensions in C++
package = size(folder) - headers
print(f"installed package: {package / 1e6:.1f} MB, headers: {headers / 1e6:.1f} MB")
assert package <= 22e6 and 0 < headers <= 2.5e6
assert sorted(os.listdir(os.path.join(folder, "_train", "data")))[-1] == "train-labels.idx.gz"
END
echo 'import torch; print(torch.arange(3).sum().item())' > script.py
[ "$("$bin/taper" run script.py)" = 3 ] || fail "taper run script.py"
version=$(sed -n 's/^#define TP_VERSION_[A-Z]* //p' "$TAPER_SOURCE_DIR/include/taper/base.h" | paste -sd.)
[ "$("$bin/taper" --version)" = "taper $version" ] || fail "taper --version is not $version"
[ "$("$bin/pip" show taper-ml | sed -n 's/^Version: //p')" = "$version" ] || fail "the distribution's version is not $version"
