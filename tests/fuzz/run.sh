#!/usr/bin/env bash
# Builds the fuzz targets beside the build (BUILD-fuzz: clang, libFuzzer, ASan, UBSan) and runs them, two at a time.
#   tests/fuzz/run.sh [MINUTES [NAME...]]     MINUTES for each target, 1 if not given; all targets if none is named
# What the fuzzer finds out is kept in BUILD-fuzz/corpus and used again; an input that failed is in BUILD-fuzz/findings.
set -eu
source=${TAPER_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
build=${TAPER_BUILD_DIR:-$source/build}-fuzz
minutes=${1:-1}
[ $# -eq 0 ] || shift
command -v clang > /dev/null || { echo "clang is not installed"; exit 77; }
[ -e "$(clang -print-runtime-dir)/libclang_rt.fuzzer-$(uname -m).a" ] || [ -e "$(clang -print-runtime-dir)/libclang_rt.fuzzer.a" ] ||
    { echo "clang has no libFuzzer here (libclang-rt-dev)"; exit 77; }

CC=clang cmake -S "$source" -B "$build" -G Ninja -DTAPER_SANITIZE=ON -DTAPER_FUZZ=ON > /dev/null
cmake --build "$build" --target fuzz > "$build/build.log" 2>&1 || { tail -n 100 "$build/build.log"; exit 1; }
names=${*:-$(cd "$source/tests/fuzz" && ls -- *_fuzz.c | sed 's/_fuzz\.c//')}
mkdir -p "$build/logs" "$build/findings"
# An allocation that fails is an error like others; one of a gigabyte, for inputs of some kilobytes, is a finding.
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 OMP_WAIT_POLICY=passive
export LSAN_OPTIONS=suppressions=$source/tests/long/lsan.supp

run() { # one target
    mkdir -p "$build/corpus/$1"
    case $1 in
        graph | steps) export ASAN_OPTIONS=$ASAN_OPTIONS:max_allocation_size_mb=256 ;; # a program may ask for any amount: it gets an error
    esac
    "$build/fuzz/$1_fuzz" -max_total_time=$((minutes * 60)) -timeout=20 -malloc_limit_mb=1024 -rss_limit_mb=3072 \
        -max_len=8192 -print_final_stats=1 -artifact_prefix="$build/findings/$1-" \
        "$build/corpus/$1" "$source/tests/fuzz/corpus/$1" > "$build/logs/$1" 2>&1
}
runs_of() {
    grep -aoE '^(#[0-9]+|stat::number_of_executed_units: [0-9]+)' "$build/logs/$1" 2> /dev/null | tail -n 1 | grep -oE '[0-9]+$' ||
        echo 0
}

failed=
set -- $names
while [ $# -gt 0 ]; do
    first=$1 second=${2:-}
    run "$first" & pids=$!
    [ -z "$second" ] || { run "$second" & pids="$pids $!"; }
    for ((spent = 0; spent < minutes * 60; spent += 15)); do
        sleep 15
        [ -n "$(jobs -rp)" ] || break
        others=${second:+, $second: $(runs_of "$second") runs}
        echo "$first: $(runs_of "$first") runs$others in $((spent + 15)) of $((minutes * 60)) s"
    done
    for pid in $pids; do
        name=$first; [ "$pid" = "${pids%% *}" ] || name=$second
        if wait "$pid"; then echo "$name: $(runs_of "$name") runs in $minutes min, nothing found"
        else
            failed="$failed $name"
            echo "$name: FOUND something:"
            grep -aE 'ERROR|SUMMARY|runtime error|Test unit written' "$build/logs/$name" | head -n 8
        fi
    done
    shift; [ $# -eq 0 ] || shift
done
[ -z "$failed" ] || { echo "findings in:$failed ($build/findings, $build/logs)"; exit 1; }
