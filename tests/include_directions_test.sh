#!/usr/bin/env bash
# Includes point one way only: a room of src/ may include rooms before it in this order (rooms on one line are neighbours), never
# one that comes after. Generated code ("tpi_ops.h", "tpi_layers.h") counts as part of ops and nn. An include that points back is named by file and line.
set -eu
source_dir=${TAPER_SOURCE_DIR:-$(cd "$(dirname "$0")/.." && pwd)}

check() { # a source tree; prints each offence, fails if there was any
    (cd "$1" && find src python tools -name '*.[ch]' 2> /dev/null | sort | xargs awk '
        BEGIN {
            split("base|tensor|device|linalg|ops|autograd|nn optim graph amp|dist data io|python tools", level, "|")
            for (l in level) { n = split(level[l], names, " "); for (i = 1; i <= n; i++) rank[names[i]] = l + 0 }
        }
        FNR == 1 { n = split(FILENAME, part, "/"); here = part[1] == "src" ? part[2] : part[1] }
        FNR == 1 && !(here in rank) { print FILENAME ": the room \"" here "\" is not in the order of rooms"; bad = 1 }
        match($0, /^[ \t]*#[ \t]*include[ \t]*"[^"]+"/) {
            path = substr($0, RSTART, RLENGTH); sub(/^[^"]*"/, "", path); sub(/"$/, "", path)
            room = path ~ /\// ? substr(path, 1, index(path, "/") - 1) : path == "tpi_ops.h" ? "ops" : path == "tpi_layers.h" ? "nn" : here
            if (room == "..") why = "leaves its room by a relative path"
            else if (!(room in rank)) why = "is in no known room"
            else if (rank[room] > rank[here]) why = "points back: " here " comes before " room
            else next
            print FILENAME ":" FNR ": \"" path "\" " why; bad = 1
        }
        END { exit bad }')
}

check "$source_dir"

# The check itself: one bad include in a small tree must be found, where it stands.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/src/tensor" "$scratch/src/ops"
printf '#include "base/error.h"\n#include "ops/native.h"\n' > "$scratch/src/tensor/wrong.c"
printf '#include "tensor/tensor.h"\n#include "tpi_ops.h"\n' > "$scratch/src/ops/right.c"
if said=$(check "$scratch"); then echo "an include that points back was not found"; exit 1; fi
[ "$said" = 'src/tensor/wrong.c:2: "ops/native.h" points back: tensor comes before ops' ] || { echo "unexpected: $said"; exit 1; }
