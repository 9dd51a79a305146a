#!/bin/sh
# `make dist`: the source archive, dist/taper_ml-VERSION.tar.gz, and the recipes with its checksum,
# dist/recipes. Needs PyPI, or an index that PIP_INDEX_URL names, for the archive's own tools.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/env"
"$scratch/env/bin/pip" install --quiet --disable-pip-version-check build 'scikit-build-core>=0.10'
rm -rf dist/taper_ml-*.tar.gz dist/recipes # wheels stay
"$scratch/env/bin/python" -m build --sdist --no-isolation --outdir dist . > "$scratch/log" || { cat "$scratch/log"; exit 1; }
archive=$(ls dist/taper_ml-*.tar.gz)
checksum=$(sha256sum "$archive" | cut -d ' ' -f 1)
mkdir dist/recipes
cp -r packaging/easybuild packaging/spack packaging/conda packaging/cotainr packaging/apptainer packaging/modulefiles dist/recipes
zeros=$(printf '%064d' 0)
find dist/recipes -type f -exec sed -i "s/$zeros/$checksum/" {} +
echo "$archive  sha256 $checksum; recipes with it in dist/recipes"
