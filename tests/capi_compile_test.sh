#!/bin/bash
# Programs on the headers alone, with each compiler that is there: what must not compile, what must compile without a warning, and the C++ face.
set -e
source=$TAPER_SOURCE_DIR/tests/capi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries="-L$TAPER_BUILD_DIR -Wl,-rpath,$TAPER_BUILD_DIR -ltaper"
there() { command -v "$1" > /dev/null; }
fail() { echo "$1"; exit 1; }

# Every options struct of the headers has its TP_DEFAULTS, with the struct's size.
options=$(cat "$TAPER_SOURCE_DIR"/include/taper/*.h "$TAPER_BUILD_DIR"/generated/include/taper/*.h |
    sed -n 's/^typedef struct tp_\([A-Za-z0-9_]*\)_options {$/\1/p')
[[ $(wc -w <<< "$options") -gt 500 ]] || fail "only $(wc -w <<< "$options") options structs"
{
    echo '#include <taper/taper.h>'
    echo 'int main(void) {'
    for name in $options; do
        echo "    { tp_${name}_options o = TP_DEFAULTS(${name^^}); if (o.size != (int64_t)sizeof o) return 1; }"
    done
    echo '    tp_sum_options sum = TP_DEFAULTS(SUM);'
    echo '    tp_nn_conv2d_options conv = TP_DEFAULTS(NN_CONV2D);'
    echo '    conv.bias = false;'
    echo '    tp_module *m = tp_nn_conv2d_with(1, 2, TP_INTS(3), &conv);'
    echo '    tp_tensor *total = tp_sum_with(tp_ones(TP_INTS(2, 3)), &sum);'
    echo '    return tp_module_parameters(m).n != 1 || tp_item(total) != 6 || sum.keepdim || !!tp_error();'
    echo '}'
} > "$work/defaults.c"
${CC:-gcc} -std=c11 -Wall -Wextra -Werror -I "$TAPER_SOURCE_DIR/include" -I "$TAPER_BUILD_DIR/generated/include" \
    "$work/defaults.c" -o "$work/defaults" $libraries
"$work/defaults" || fail "a default of options"

# Headers of a project, and of the system, in whose macros compilers do not warn.
for include in -I -isystem; do
    headers="$include $TAPER_SOURCE_DIR/include $include $TAPER_BUILD_DIR/generated/include"
    for cc in gcc clang; do
        there $cc || continue
        case=0
        while :; do
            said=$($cc -std=c11 -w -DCASE=$case $headers -fsyntax-only "$source/refused.c" 2>&1) && compiled=yes || compiled=no
            [[ $said == *"#error"* ]] && break
            [[ $case = 0 && $compiled = no ]] && fail "$cc $include refuses case 0: $said"
            [[ $case != 0 && $compiled = yes ]] && fail "$cc $include takes case $case"
            case=$((case + 1))
        done
        [[ $case -gt 20 ]] || fail "$cc $include: only $case cases"
        case=1
        while [[ $include = -I ]] && pattern=$(sed -n "s,^#elif CASE == $case /\* says: \(.*\) \*/$,\1,p" "$source/mistakes.c") && [[ -n $pattern ]]; do
            said=$($cc -std=c11 -DCASE=$case $headers -fsyntax-only -fno-diagnostics-color "$source/mistakes.c" 2>&1) || true
            heads=$(grep -E 'error:|warning:' <<< "$said") || fail "$cc $include says nothing of mistake $case"
            grep -Eq -- "$pattern" <<< "$heads" || fail "$cc says of mistake $case '$heads', not '$pattern'"
            [[ $said == *tp_* ]] || fail "$cc $include: what it says of mistake $case names no function"
            case=$((case + 1))
        done
        [[ $include != -I || $case -gt 30 ]] || fail "$cc: only $((case - 1)) mistakes"
        $cc -std=c11 -Wall -Wextra -Wno-unused-value -Werror -DCASE=0 $headers -fsyntax-only "$source/mistakes.c" || fail "$cc refuses case 0 of mistakes.c"
        for std in c11 gnu17; do
            $cc -std=$std -Wall -Wextra -Wpedantic -Wno-unused-value -Werror $headers "$source/accepted.c" -o "$work/accepted" $libraries
            "$work/accepted" || fail "accepted.c by $cc"
        done
    done
    ${CC:-gcc} -std=c11 -Wall -Wextra -Werror $headers "$source/gone.c" -o "$work/gone" $libraries
    TAPER_DEBUG=1 "$work/gone" || fail "gone.c"
    ${CC:-gcc} -g -O1 -std=c11 -Wall -Wextra -Werror $headers "$source/leaks.c" -o "$work/leaks" $libraries
    TAPER_DEBUG=1 "$work/leaks" || fail "leaks.c"
    "$work/leaks" && fail "leaks.c without TAPER_DEBUG" || [[ $? = 2 ]] || fail "leaks.c without TAPER_DEBUG"
    rm -f "$work/report"
    TAPER_DEBUG=1 TAPER_LEAKS=$work/report "$work/leaks" leave || fail "leaks.c leave"
    grep -q '^2 objects of taper were never released$' "$work/report" || fail "the report at the end: $(cat "$work/report")"
    place=$(sed -n 's/^2 tensors made by tp_ones, called from [^ ]*+\(0x[0-9a-f]*\).*/\1/p' "$work/report")
    line=$(grep -n '/\* LINE \*/' "$source/leaks.c" | cut -d: -f1)
    [[ $(addr2line -e "$work/leaks" "$place") == *leaks.c:$line* ]] || fail "the place of a leak: $(cat "$work/report")"
    for cxx in g++ clang++; do
        there $cxx || continue
        [[ $include = -I ]] && std=c++17 || std=c++20
        $cxx -std=$std -Wall -Wextra -Werror $headers "$source/program.cpp" -o "$work/program" $libraries
        "$work/program" || fail "program.cpp by $cxx"
    done
done
