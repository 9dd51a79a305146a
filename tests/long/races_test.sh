#!/usr/bin/env bash
# Threads under ThreadSanitizer: what they share must be locked or atomic. A test and the rooms that it is about are compiled for it, everything else is this build's.
#   dist             process groups: watchers, groups and the store have threads of their own
#   graph_branches   steps of a graph side by side
#   sharing          what docs/threads.md lets threads share
set -eu
cd "$TAPER_BUILD_DIR"
[ -f build.ninja ] || { echo "SKIPPED: this build is not Ninja's, whose commands are used"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

races() { # a test, its threads, folders of src
    local test=$1_test threads=$2 here=$scratch/$1
    shift 2
    mkdir "$here"
    ninja "$test" > /dev/null
    ninja -t commands "$test" > "$here/commands"
    while read -r command; do
        source=${command##* -c }
        folder=${source#"$TAPER_SOURCE_DIR"/src/}
        case " $* $test.c " in *" ${folder%%/*} "* | *" ${source##*/tests/} "*) ;; *) continue ;; esac
        case $source in *.isa.c) continue ;; esac
        object=$here/$(echo "${source#"$TAPER_SOURCE_DIR"/}" | tr / _).o
        flags=${command#* -I}
        echo "cc -DTP_POSITIONAL -I${flags%% -MD *} -Wno-error -O1 -g -fno-lto -fsanitize=thread -c $source -o $object"
    done < "$here/commands" > "$here/compile"
    objects=$(sed -n 's/.* -o //p' "$here/compile" | tr '\n' ' ')
    xargs -P 2 -I{} sh -c {} < "$here/compile"
    link=$(tail -1 "$here/commands")
    link=${link#*&& } && link=${link%% && :*}
    link=${link/CMakeFiles\/$test.dir\/tests\/$test.c.o/$objects}
    sh -c "${link/-o tests\/$test/-fsanitize=thread -o $here/test}"
    OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=1 TSAN_OPTIONS=exitcode=66 "$here/test"
}

races dist 1 dist base
races graph_branches 4 graph autograd tensor base
races sharing 2 nn data autograd tensor base
