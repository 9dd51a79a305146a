"""Writes src/io/tokenizer/unicode_ranges.h: which characters are letters, numbers and spaces.

tools/unicode_ranges.py > src/io/tokenizer/unicode_ranges.h"""

import sys
import unicodedata


def ranges(holds):
    found = []
    for code in range(0x110000):
        if not holds(code):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, holds):
    print(f"static const uint32_t {name}[][2] = {{")
    row = "   "
    for first, last in ranges(holds):
        item = f" {{0x{first:x}, 0x{last:x}}},"
        if len(row) + len(item) > 118:
            print(row)
            row = "   "
        row += item
    print(row)
    print("};")


def main():
    print(
        f"/* Written by tools/unicode_ranges.py from Unicode {unicodedata.unidata_version}: first and last character of"
    )
    print(" * each range. */")
    print("/* clang-format off */")
    table("letters", lambda c: unicodedata.category(chr(c)).startswith("L"))
    table("numbers", lambda c: unicodedata.category(chr(c)).startswith("N"))
    # White_Space of Unicode, which regular expressions' \s is; Python counts four separators (0x1c to 0x1f) more.
    table("spaces", lambda c: chr(c).isspace() and not 0x1C <= c <= 0x1F)
    print("/* clang-format on */")


if __name__ == "__main__":
    sys.exit(main())
