#!/usr/bin/env bash
# Every program that `make kernels` compiles ahead compiles, for one family; what was compiled once is not compiled again; and what the library
# then finds in the archive is what the compiler made. Needs NVRTC, and no GPU. Every eighth of them compiles for AMD's GPUs, where hiprtc is found.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --build "$TAPER_BUILD_DIR" --target kernels_tool > "$scratch/build.log" || { cat "$scratch/build.log"; exit 1; }
tool=$TAPER_BUILD_DIR/tools/kernels

if ! "$tool" "$scratch/taper-kernels-cuda.bin" --cache "$scratch/cache" --jobs "$(nproc)" --arch sm_80 > "$scratch/first.log" 2>&1; then
    if grep -q 'NVRTC was not found' "$scratch/first.log"; then echo "SKIPPED: NVRTC was not found"; exit 77; fi
    cat "$scratch/first.log"
    exit 1
fi
programs=$(sed -n 's/^kernels: \([0-9]*\) programs.*/\1/p' "$scratch/first.log")
[ "$programs" -gt 1000 ] || { echo "only $programs programs"; exit 1; }
[ "$(grep -c "^kernels: [0-9]* of $programs programs\$" "$scratch/first.log")" -eq 10 ] || { echo "no line for every tenth of the programs"; exit 1; }
[ "$(ls "$scratch/cache/kernels" | wc -l)" -eq "$programs" ] || { echo "the cache does not have one file per program"; exit 1; }

# Again, from the cache: the same archive, and nothing is compiled.
cp "$scratch/taper-kernels-cuda.bin" "$scratch/before.bin"
"$tool" "$scratch/taper-kernels-cuda.bin" --cache "$scratch/cache" --arch sm_80 > "$scratch/second.log" 2>&1 || { cat "$scratch/second.log"; exit 1; }
again=$(find "$scratch/cache" -type f -newer "$scratch/before.bin" | wc -l)
[ "$again" -eq 0 ] || { echo "the second run compiled $again programs again"; exit 1; }
cmp "$scratch/before.bin" "$scratch/taper-kernels-cuda.bin"
cat "$scratch/first.log"

if ! "$tool" --check 8 --jobs "$(nproc)" --arch gfx90a > "$scratch/amd.log" 2>&1; then
    grep -q 'hiprtc was not found' "$scratch/amd.log" || { cat "$scratch/amd.log"; exit 1; }
    echo "SKIPPED for AMD: hiprtc was not found"
fi
cat "$scratch/amd.log"
