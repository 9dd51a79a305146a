#!/usr/bin/env bash
# Follows docs/adding-an-operator.md to the letter in a scratch copy: its stanza goes into the tables, its program must print what the page
# says, the tests that loop over the table must pick the operator up and pass; and a stanza without a derivative must be refused.
# Only the new family and the registry are compiled; everything else comes from the build.
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
grep -q 'op bump' tables/bump.op && grep -q '`bump(' generated/operators.md || fail "the operator is not in the generated docs"

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
    TAPER_TEST_OP=bump ./test_$test > log 2>&1 || { cat log; fail "operators_${test}_test fails for the new operator"; }
done

grep -v ' grad ' tables/bump.op > tables/bump.new && mv tables/bump.new tables/bump.op
if "$opgen" --out generated tables/*.op 2> refusal; then fail "a stanza without a derivative was accepted"; fi
grep -q "bump.op:1: error: bump: no derivative for 'self'" refusal || { cat refusal; fail "the refusal does not say what is missing"; }
