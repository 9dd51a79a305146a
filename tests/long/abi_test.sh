#!/usr/bin/env bash
# The C ABI is what docs/abi.md promises: every function and every type of tests/abi/taper.abi is still there and has the same layout,
# as abidiff sees them. Additions are fine, at the end of the structs of
# tests/abi/growth.suppr too. `abi_test.sh record` writes the description anew, for a release that may break it.
set -eu
source_dir=${TAPER_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build_dir=${TAPER_BUILD_DIR:-$source_dir/build}
command -v abidiff > /dev/null || { echo "SKIPPED: abidiff (Debian's abigail-tools) is not here"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "SKIPPED: the recorded description is of x86-64"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
recorded=$source_dir/tests/abi/taper.abi.gz

# Written headers are left out but for their types: operators, layers and optimisers are what the tables say.
described() { # HEADERS OBJECT: what a compiler makes of the headers in the folder
    python3 "$source_dir/tests/abi/stubs.py" "$scratch/stubs.c" "$1"/taper/*.h
    ${CC:-cc} -std=gnu11 -w -g -O0 -fPIC -shared -DTP_POSITIONAL -I"$1" -I"$build_dir/generated/include" "$scratch/stubs.c" -o "$2"
}
described "$source_dir/include" "$scratch/libtaper.so"
if [ "${1:-}" = record ]; then
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs --type-id-style hash "$scratch/libtaper.so" | gzip -9n > "$recorded"
    exit 0
fi
gzip -dc "$recorded" > "$scratch/taper.abi"
same() { abidiff --no-added-syms --suppressions "$source_dir/tests/abi/growth.suppr" "$scratch/taper.abi" "$1"; }
same "$scratch/libtaper.so" || { echo "FAILED: the ABI differs from the recorded one"; exit 1; }

# A test that cannot fail is none: a function less and a member more at the front are seen.
cp -r "$source_dir/include" "$scratch/include"
sed -i 's/^TP_API int tp_version_number(void);//' "$scratch/include/taper/base.h"
described "$scratch/include" "$scratch/less.so"
if same "$scratch/less.so" > /dev/null; then echo "FAILED: a missing function went unseen"; exit 1; fi
cp "$source_dir/include/taper/base.h" "$scratch/include/taper/base.h"
sed -i 's/^typedef struct tp_memory_stats {/&\n    int64_t new_first;/' "$scratch/include/taper/base.h"
described "$scratch/include" "$scratch/moved.so"
if same "$scratch/moved.so" > /dev/null; then echo "FAILED: a moved member went unseen"; exit 1; fi
cp "$source_dir/include/taper/base.h" "$scratch/include/taper/base.h"
sed -i 's/^typedef struct tp_ints {/&\n    int64_t new_first;/' "$scratch/include/taper/base.h"
described "$scratch/include" "$scratch/plain.so"
if same "$scratch/plain.so" > /dev/null; then echo "FAILED: a plain struct that grew went unseen"; exit 1; fi
echo "the ABI is the recorded one"
