#!/usr/bin/env bash
# Process groups under ThreadSanitizer: src/dist, src/base and dist_test are compiled for it, everything else is this build's. Watchers, groups and the store have
# threads of their own; what they share must be locked or atomic.
set -eu
cd "$TAPER_BUILD_DIR"
[ -f build.ninja ] || { echo "SKIPPED: this build is not Ninja's, whose commands are used"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ninja dist_test > /dev/null
ninja -t commands dist_test > "$scratch/commands"
while read -r command; do
    source=${command##* -c }
    case $source in */src/dist/*.c | */src/base/*.c | */tests/dist_test.c) ;; *) continue ;; esac
    object=$scratch/$(echo "${source#"$TAPER_SOURCE_DIR"/}" | tr / _).o
    flags=${command#* -I}
    echo "cc -I${flags%% -MD *} -Wno-error -O1 -g -fno-lto -fsanitize=thread -c $source -o $object"
done < "$scratch/commands" > "$scratch/compile"
objects=$(sed -n 's/.* -o //p' "$scratch/compile" | tr '\n' ' ')
xargs -P 2 -I{} sh -c {} < "$scratch/compile"
link=$(tail -1 "$scratch/commands")
link=${link#*&& } && link=${link%% && :*}
link=${link/CMakeFiles\/dist_test.dir\/tests\/dist_test.c.o/$objects}
sh -c "${link/-o tests\/dist_test/-fsanitize=thread -o $scratch/test}"
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 TSAN_OPTIONS=exitcode=66 "$scratch/test"
