#!/usr/bin/env bash
# No function of the library has a frame of more than 64 KiB, and none grows its frame at run time: a user's thread may have a small stack. Read from libtaper.so itself, so generated
# code and every instruction set are in it. x86-64 alone; tests/stack_test.c runs operators on a small stack everywhere.
set -eu
most=65536
grows=sub # what writes to %rsp when a frame grows: clang subtracts in another register first
! "${CC:-cc}" --version | grep -q clang || grows='(sub|mov)'

# Prints functions whose frames are too large ("NAME BYTES") or grow ("NAME grows"). The compiler subtracts a frame from %rsp in one instruction, or page by page.
offences() { # a disassembly on stdin
    awk -v most="$most" -v grows="$grows +%r[a-z0-9]+,%rsp" '
        function number(hex,   i, v) { v = 0; for (i = 1; i <= length(hex); i++) v = v * 16 + index("0123456789abcdef", substr(hex, i, 1)) - 1; return v }
        / <.*>:$/ { name = $2; next }
        /sub +\$0x[0-9a-f]+,%rsp/ { match($0, /\$0x[0-9a-f]+/); size = number(substr($0, RSTART + 3, RLENGTH - 3)); if (size > most && size < 2 ^ 40) print name, size }
        /lea +-0x[0-9a-f]+\(%rsp\),%r11/ { match($0, /-0x[0-9a-f]+/); size = number(substr($0, RSTART + 3, RLENGTH - 3)); if (size > most) print name, size }
        /mov +%rbp,%rsp/ { next } # the end of a frame
        $0 ~ grows { print name, "grows" }'
}

# The reading itself: one function of each kind must be found.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
[ "$(uname -m)" = x86_64 ] || { echo "not on x86-64: nothing to read"; exit 0; }
command -v objdump > /dev/null || { echo "objdump is not there: nothing to read"; exit 0; }
cat > "$scratch/large.c" << 'END'
void use(char *);
void large(void) { char block[100000]; use(block); }
void grows(int n) { char block[n]; use(block); }
void small(void) { char block[60000]; use(block); }
END
"${CC:-cc}" -O2 -c "$scratch/large.c" -o "$scratch/large.o"
found=$(objdump -d --no-show-raw-insn "$scratch/large.o" | offences | cut -d' ' -f1 | sort -u | tr -d '<>:\n')
[ "$found" = growslarge ] || { echo "FAILED: in the example were found: $found"; exit 1; }

if grep -q '^TAPER_SANITIZE:BOOL=ON' "$TAPER_BUILD_DIR/CMakeCache.txt"; then
    echo "sanitizers put room around every variable: not read"
    exit 0
fi
bad=$(objdump -d --no-show-raw-insn "$TAPER_BUILD_DIR/libtaper.so" | offences | sort -u)
[ -z "$bad" ] || { echo "FAILED: frames of more than $most bytes, or that grow:"; echo "$bad"; exit 1; }
