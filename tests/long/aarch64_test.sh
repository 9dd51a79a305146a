#!/usr/bin/env bash
# Portability: every source of the library, generated ones included, compiles for aarch64 without a warning. Nothing is run. Headers of
# zlib, libpng and libjpeg come from this machine's folders, which say nothing about its processor.
set -eu
compiler=aarch64-linux-gnu-gcc
command -v $compiler > /dev/null || { echo "$compiler is not installed"; exit 77; }
cd "$TAPER_SOURCE_DIR"
generated=$TAPER_BUILD_DIR/generated
host=$("$CC" -print-multiarch)
flags="-std=gnu11 -O3 -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off -DTP_POSITIONAL -Wall -Wextra -Werror -Iinclude -I$generated/include -Isrc -I$generated
    -DTPI_HAVE_ZLIB -DTPI_HAVE_PNG -DTPI_HAVE_JPEG -idirafter /usr/include/$host -idirafter /usr/include"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
list() { find src "$generated" -name "$1" ! -name '*samples.c' ! -path 'src/dist/plugins/*' | sort; } # plug-ins need an MPI's headers
{
    list '*.c' | grep -v '\.isa\.c$'
    list '*.isa.c' | sed 's/$/ -DTPI_ISA_SUFFIX=_base/'
} > "$scratch/work"
echo "$(wc -l < "$scratch/work") files"
# shellcheck disable=SC2086
xargs -P "$(nproc)" -L 1 sh -c '"$@" -c -o /dev/null' sh $compiler $flags < "$scratch/work"
