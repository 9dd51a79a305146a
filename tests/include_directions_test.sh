#!/usr/bin/env bash
# Levels point one way only: a folder of src/ may include and call folders before it in this order (folders on one line
# are neighbours), never one that comes after. Generated code has the level of what it belongs to. The one way up is the
# table of src/tensor/upcalls.h. What points back is named.
set -eu
source_dir=${TAPER_SOURCE_DIR:-$(cd "$(dirname "$0")/.." && pwd)}
build_dir=${TAPER_BUILD_DIR:-$source_dir/build}

# Shared by both checks: rank[folder], and the folder of a file.
levels='
    BEGIN {
        split("base|tensor|device|linalg|dispatch|autograd ops|nn optim graph|dist data io|python tools", level, "|")
        for (l in level) { n = split(level[l], names, " "); for (i = 1; i <= n; i++) rank[names[i]] = l + 0 }
    }
    function folder_of(path,    name) {
        if (match(path, /(^|\/)src\/[a-z]+\//)) {
            path = substr(path, RSTART, RLENGTH); sub(/\/$/, "", path); sub(/^.*\//, "", path)
            return path
        }
        if (path !~ /generated\//) { sub(/\/.*/, "", path); return path }
        name = path; sub(/^.*\//, "", name)
        if (name ~ /^(layer|tpi_layer)/) return "nn"
        if (name ~ /update|optimiser/) return "optim"
        if (name ~ /_kernels\.isa\.c|tpi_registers\.h/) return "device"
        return "ops"
    }'

# shellcheck disable=SC2016 # the dollars are awk's
includes() { # a source tree and generated files; prints each offence, fails if there was any
    (cd "$1" && { find -L src python tools generated -name '*.[ch]' 2> /dev/null | grep -v 'generated/include/\|samples\.'; } | sort | xargs awk "$levels"'
        FNR == 1 { here = folder_of(FILENAME) }
        FNR == 1 && !(here in rank) { print FILENAME ": the folder \"" here "\" is not in the order of levels"; bad = 1 }
        match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]+"/) {
            path = substr($0, RSTART, RLENGTH); sub(/^[^"]*"/, "", path); sub(/"$/, "", path)
            folder = path ~ /\// ? substr(path, 1, index(path, "/") - 1) : path ~ /^tpi_/ ? folder_of("generated/" path) : here
            if (folder == "..") why = "leaves its folder by a relative path"
            else if (!(folder in rank)) why = "is in no known folder"
            else if (rank[folder] > rank[here]) why = "points back: " here " comes before " folder
            else next
            print FILENAME ":" FNR ": \"" path "\" " why; bad = 1
        }
        END { exit bad }')
}

calls() { # a list of "object symbol-type symbol" lines; a symbol used below the level that defines it is named
    awk "$levels"'
        $2 ~ /^[TDBRV]$/ { defined[$3] = $1 }
        $2 == "U" { user[++n] = $1; used[n] = $3 }
        END {
            for (i = 1; i <= n; i++) {
                if (!(used[i] in defined) || used[i] == "tpi_above") continue
                above = folder_of(defined[used[i]]); here = folder_of(user[i])
                if (rank[above] > rank[here]) { print user[i] ": " used[i] " is defined in " above ", which comes after " here; bad = 1 }
            }
            exit bad
        }'
}

objects() { # of the library; those of files that are gone may still lie about
    for directory in "$build_dir"/CMakeFiles/taper_objects*.dir; do
        (cd "$directory" && find . -name '*.o') | while read -r object; do
            file=${object#./}
            file=${file%.o}
            if [ -e "$source_dir/$file" ] || [ -e "$build_dir/$file" ]; then echo "$directory/${object#./}"; fi
        done
    done
}

symbols() { # "object type symbol" for each object
    objects | xargs nm -A |
        awk '{ object = $1; sub(/:.*/, "", object); sub(/^.*\.dir\//, "", object) } NF == 2 { print object, $1 == "U" ? "U" : $1, $2 } NF >= 3 { print object, $(NF - 1), $NF }'
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/all"
ln -s "$source_dir/src" "$source_dir/python" "$source_dir/tools" "$scratch/all"
[ ! -d "$build_dir/generated" ] || ln -s "$build_dir/generated" "$scratch/all"
includes "$scratch/all/."
if [ -d "$build_dir/CMakeFiles" ]; then symbols | calls; fi

# The checks themselves: one bad include and one bad call must be found, where they stand.
mkdir -p "$scratch/src/tensor" "$scratch/src/ops" "$scratch/generated"
printf '#include "base/error.h"\n#include "ops/native.h"\n' > "$scratch/src/tensor/wrong.c"
printf '#include "tensor/tensor.h"\n#include "tpi_ops.h"\n' > "$scratch/src/ops/right.c"
printf '#include "dispatch/detour.h"\n#include "nn/layer.h"\n' > "$scratch/generated/norm_glue.c"
if said=$(includes "$scratch"); then echo "an include that points back was not found"; exit 1; fi
expected='generated/norm_glue.c:2: "nn/layer.h" points back: ops comes before nn
src/tensor/wrong.c:2: "ops/native.h" points back: tensor comes before ops'
[ "$said" = "$expected" ] || { echo "unexpected: $said"; exit 1; }
if said=$(printf 'src/device/copy.c.o T tpi_x\nsrc/tensor/a.c.o U tpi_x\nsrc/ops/b.c.o U tpi_x\n' | calls); then
    echo "a call that points back was not found"
    exit 1
fi
[ "$said" = 'src/tensor/a.c.o: tpi_x is defined in device, which comes after tensor' ] || { echo "unexpected: $said"; exit 1; }
