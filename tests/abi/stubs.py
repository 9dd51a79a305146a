"""Writes an empty body for every public function that the headers declare, so that a compiler describes them with all
their types: `stubs.py OUTPUT HEADER...`. The library itself is built without debugging information."""

import re
import sys


def declarations(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#(?:[^\n\\]|\\\n|\\.)*", " ", text, flags=re.M)
    for found in re.finditer(r"\bTP_API\s+([^;{]*);", text):
        yield " ".join(found.group(1).split())


def main():
    seen = set()
    with open(sys.argv[1], "w") as out:
        out.write("#include <taper/dlpack.h>\n#include <taper/taper.h>\n")
        for path in sys.argv[2:]:
            for text in declarations(open(path).read()):
                found = re.match(r"(.*?)\b(tp_\w+)\s*\((.*)\)\s*(?:TP_\w+\(.*\))?$", text)
                if not found or found.group(2) in seen:
                    continue
                seen.add(found.group(2))
                result, name, parameters = found.groups()
                out.write(f"TP_API {result}({name})({parameters}) {{ __builtin_trap(); }}\n")


if __name__ == "__main__":
    main()
