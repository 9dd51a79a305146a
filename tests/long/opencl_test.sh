#!/usr/bin/env bash
# Every operator's samples on OpenCL's processor (PoCL) against the CPU, forward and backward, in every dtype and layout: some 4,200 programs, nearly all of
# the time PoCL's compiler's. It is asked for plain code, and for one function per kernel that serves all sizes of blocks, which is a third of the work; the
# tests of `make test` and `make test-device DEVICE=xpu` leave both as users have them.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export TAPER_XPU_DEVICES=cpu TAPER_TEST_DEVICE=xpu TAPER_CACHE=$scratch POCL_CACHE_DIR=$scratch
export POCL_EXTRA_BUILD_FLAGS=-cl-opt-disable POCL_WORK_GROUP_SPECIALIZATION=0
tool=$TAPER_BUILD_DIR/tests/operators_device_test
TAPER_TEST_PART=1/2 "$tool" > "$scratch/first.log" 2>&1 & first=$!
second=0
TAPER_TEST_PART=2/2 "$tool" > "$scratch/second.log" 2>&1 || second=$?
wait $first && first=0 || first=$?
cat "$scratch"/*.log
[ $first -ne 77 ] && [ $second -ne 77 ] || exit 77
[ $first -eq 0 ] && [ $second -eq 0 ]
