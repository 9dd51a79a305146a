#!/usr/bin/env bash
# Follows docs/adding-an-operator.md to the letter in a scratch copy: its stanza goes into the tables, its program must print what the page
# says, the tests that loop over the table must pick the operator up and pass; and a stanza without a derivative must be refused.
# Only the new family, the registry and the kernels' texts are compiled; everything else comes from the build. The GPU kernel runs where there
# is OpenCL.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
page=$TAPER_SOURCE_DIR/docs/adding-an-operator.md
fail() { echo "FAILED: $1"; exit 1; }
block() { awk -v start="^\`\`\`$1\$" '$0 ~ start {on = 1; next} /^```$/ {on = 0} on' "$page"; }

mkdir "$scratch/tables" "$scratch/generated" && cd "$scratch"
cp "$TAPER_SOURCE_DIR"/tables/operators/*.op tables/
block op > tables/bump.op
block c > program.c
block text > expected
for part in tables/bump.op program.c expected; do test -s $part || fail "the page has no block for $part"; done
opgen=$TAPER_BUILD_DIR/opgen
"$opgen" --out generated tables/*.op || fail "opgen refused the stanza"
for name in bump rms; do
    grep -q "op $name(" tables/bump.op && grep -q "\`$name(" generated/operators.md || fail "$name is not in the generated docs"
done

cc=${CC:-cc}
flags="-std=gnu11 -O3 -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off -Wall -Wextra -Werror -DTP_POSITIONAL \
  -I$TAPER_SOURCE_DIR/include -I$TAPER_SOURCE_DIR/src -Igenerated -Igenerated/include -I$TAPER_SOURCE_DIR/tests"
for isa in base avx2 avx512; do
    march=
    if [ "$(uname -m)" = x86_64 ]; then
        case $isa in avx2) march=-march=x86-64-v3 ;; avx512) march=-march=x86-64-v4 ;; esac
    elif [ $isa != base ]; then continue; fi
    $cc $flags $march -DTPI_ISA_SUFFIX=_$isa -c generated/bump_kernels.isa.c -o kernels_$isa.o
done
$cc $flags -c generated/bump_glue.c -o glue.o
$cc $flags -c generated/bump_texts.c -o texts.o # its text for GPUs
$cc $flags -c generated/registry.c -o registry.o
# The new objects come first, so that the archive's own registry is not taken.
libraries="$TAPER_BUILD_DIR/libtaper_testable.a $TAPER_BLAS_LINK -lz -lm -ldl -lpthread"
$cc $flags program.c kernels_*.o glue.o texts.o registry.o $libraries -o program || fail "the page's program does not build"
./program > printed
diff -u expected printed || fail "the page's program prints something else than the page says"

$cc $flags -c generated/samples.c -o samples.o
for part in samples samples_check; do $cc $flags -c "$TAPER_SOURCE_DIR/tests/$part.c" -o support_$part.o; done
for test in values gradient forms; do
    $cc $flags "$TAPER_SOURCE_DIR/tests/operators_${test}_test.c" support_*.o samples.o kernels_*.o glue.o texts.o registry.o $libraries -lcmocka -o test_$test ||
        fail "operators_${test}_test does not build with the new operator"
    for name in bump rms; do
        TAPER_TEST_OP=$name ./test_$test > log 2>&1 || { cat log; fail "operators_${test}_test fails for $name"; }
    done
done

# The second half: an operator with a function of its own. Its blocks are between lines of ~~~.
native() { awk -v which="$1" '/^~~~/ {if (on) {on = 0} else {on = 1; n++}; next} on && n == which' "$page"; }
native 1 > tables/rotate.op
native 2 > rotate.c
native 3 > rotate_gpu.c
native 4 > rotate_gpu_kernel.h
native 5 > rotate_test.c
for part in tables/rotate.op rotate.c rotate_gpu.c rotate_gpu_kernel.h rotate_test.c; do test -s $part || fail "the page has no block for $part"; done
"$opgen" --out generated tables/*.op || fail "opgen refused the native stanza"
rm -f native_*.o
for part in generated/bump_glue generated/bump_texts generated/rotate_glue generated/registry generated/samples rotate rotate_gpu; do
    $cc $flags -c $part.c -o "native_$(basename $part).o" || fail "$part.c does not compile"
done
cat > native.c << 'END'
#include <stdio.h>
#include <taper/taper.h>
int main(void) {
    TP_SCOPE
        for (int i = 0; i < 3; i++) {
            static const tp_dtype dtypes[] = {TP_FLOAT32, TP_FLOAT16, TP_INT8};
            tp_tensor *turned = tp_rotate_pairs(tp_ones(TP_INTS(100000), .dtype = dtypes[i]));
            printf("%s\n", turned && tp_ok() ? "turned" : "refused");
        }
    return 0;
}
END
$cc $flags native.c native_bump_*.o native_rotate*.o native_registry.o kernels_*.o $libraries -o native || fail "a program with the native operator does not build"
[ "$(./native | paste -sd' ')" = "turned turned refused" ] || { ./native; fail "the native operator takes other dtypes than the page says"; }
# The tests that loop over the table compare forms with one another; the page's own test knows the right values.
$cc $flags rotate_test.c native_bump_*.o native_rotate*.o native_registry.o kernels_*.o $libraries -lcmocka -o rotate_test ||
    fail "the page's test does not build"
./rotate_test > log 2>&1 || { cat log; fail "the native operator gives other values than the page's test wants"; }
for test in values gradient forms; do
    $cc $flags "$TAPER_SOURCE_DIR/tests/operators_${test}_test.c" support_*.o native_*.o kernels_*.o $libraries -lcmocka -o test_$test ||
        fail "operators_${test}_test does not build with the native operator"
    TAPER_TEST_OP=rotate_pairs ./test_$test > log 2>&1 || { cat log; fail "operators_${test}_test fails for the native operator"; }
done
texts=$(printf '%s;' "$TAPER_SOURCE_DIR"/src/device/gpu/kernels/*.h "$TAPER_SOURCE_DIR"/src/device/element/*.h \
    "$TAPER_SOURCE_DIR"/src/ops/*/*_gpu_kernel.h "$TAPER_SOURCE_DIR"/src/ops/*/*_element.h "$TAPER_SOURCE_DIR"/src/optim/*_gpu_kernel.h)rotate_gpu_kernel.h
cmake -DOUT="$scratch/kernel_texts.c" "-DFILES=$texts" -P "$TAPER_SOURCE_DIR/cmake/Embed.cmake"
for part in operators_device_test processors_as_xpu; do $cc $flags -c "$TAPER_SOURCE_DIR/tests/$part.c" -o device_$part.o; done
$cc $flags device_*.o kernel_texts.c support_*.o native_*.o kernels_*.o "$TAPER_BUILD_DIR/libtaper_test_support.a" $libraries -lcmocka -o test_device ||
    fail "operators_device_test does not build with the native operator"
# Compiled anew: the cache of programs is the user's.
TAPER_CACHE=$scratch/cache TAPER_TEST_OP=rotate_pairs TAPER_TEST_DEVICE=xpu TAPER_HOST_DETOURS=error ./test_device > log 2>&1 ||
    [ $? = 77 ] || { cat log; fail "the GPU kernel of the native operator fails"; }
rm tables/rotate.op

grep -v ' grad ' tables/bump.op > tables/bump.new && mv tables/bump.new tables/bump.op
if "$opgen" --out generated tables/*.op 2> refusal; then fail "a stanza without a derivative was accepted"; fi
grep -q "bump.op:1: error: bump: no derivative for 'self'" refusal || { cat refusal; fail "the refusal does not say what is missing"; }
