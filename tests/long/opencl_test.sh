#!/usr/bin/env bash
# A sixteenth of the operators, their samples on OpenCL's processor (PoCL) against the CPU, forward and backward, in every dtype and layout. All of them
# (make test-device DEVICE=xpu) take more than an hour on two cores, nearly all of it PoCL's compiler's.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TAPER_XPU_DEVICES=cpu TAPER_TEST_DEVICE=xpu TAPER_CACHE=$scratch POCL_CACHE_DIR=$scratch
tool=$TAPER_BUILD_DIR/tests/operators_device_test
TAPER_TEST_PART=1/32 "$tool" > "$scratch/first.log" 2>&1 & first=$!
second=0
TAPER_TEST_PART=17/32 "$tool" > "$scratch/second.log" 2>&1 || second=$?
wait $first && first=0 || first=$?
cat "$scratch"/*.log
[ $first -ne 77 ] && [ $second -ne 77 ] || exit 77
[ $first -eq 0 ] && [ $second -eq 0 ]
