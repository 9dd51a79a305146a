#!/usr/bin/env bash
# Layout and lint of all tracked files: clang-format over C, ruff over Python, shellcheck over scripts, and
# tools/statements.py over C (one statement a line), tools/comment_names.py over its comments (names that nothing has),
# tools/pages.py over the documentation.
#   tools/lint.sh          tells what is wrong, file and line
#   tools/lint.sh --fix    lays out what can be laid out by a tool
# The tools come from PyPI at the versions of tests/python/requirements.txt, so every machine says the same.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.venv/bin
[ -x "$tools/ruff" ] || {
    echo "tools/lint.sh: the tools are not in .venv; 'make python' installs them" >&2
    exit 1
}
if ! git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    echo "lint: not a git checkout, so there is no list of files; nothing was looked at"
    exit 0
fi
mapfile -t c < <(git ls-files '*.c' '*.h' '*.cc' '*.cpp' '*.hpp')
mapfile -t written_out < <(git ls-files '*.c' '*.h' ':!include/taper/libtorch') # the headers in there are C++
mapfile -t pages < <(git ls-files '*.md' ':!bench/log/*' ':!bench/results.md')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)
if [ "${1:-}" = --fix ]; then
    "$tools/python" tools/statements.py --fix "${written_out[@]}" || true
    "$tools/python" tools/pages.py --fix "${pages[@]}" > /dev/null || true
    "$tools/clang-format" -i "${c[@]}"
    "$tools/ruff" format --quiet .
    "$tools/ruff" check --quiet --fix .
fi
# The tools run side by side, each with its own part of what is printed.
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
tool() { # tool NAME COMMAND...: in the background; said/NAME has what it prints, said/NAME.bad is there if it fails
    local name=$1
    shift
    { "$@" > "$said/$name" 2>&1 || touch "$said/$name.bad"; } &
}
layout() {
    printf '%s\0' "${c[@]}" | xargs -0 -n 60 -P "$(nproc)" "$tools/clang-format" --dry-run --Werror > "$said/raw" 2>&1 && return
    grep -E 'error:' "$said/raw" | cut -d: -f1,2 | sort -u | sed 's/$/: not laid out as .clang-format says; tools\/lint.sh --fix does it/' | head -40
    return 1
}
columns() {
    ! awk 'length > 120 && !/clang-format|_Generic|TP_NUMBER_CASES_|TP_BLOCK_/ { print FILENAME ":" FNR ": longer than 120 columns" }' "${c[@]}" | grep .
}
tool layout layout
tool statements "$tools/python" tools/statements.py "${written_out[@]}"
tool comment_names "$tools/python" tools/comment_names.py
tool shellcheck "$tools/shellcheck" --severity warning "${scripts[@]}"
tool pages "$tools/python" tools/pages.py "${pages[@]}"
tool columns columns
tool ruff_format "$tools/ruff" format --quiet --check .
tool ruff "$tools/ruff" check --quiet --output-format concise .
wait
cat "$said"/{layout,statements,comment_names,pages,columns,ruff_format,ruff,shellcheck}
if ls "$said"/*.bad > /dev/null 2>&1; then exit 1; fi
echo "lint: ${#c[@]} C files, ${#scripts[@]} scripts, ${#pages[@]} pages and the Python files are as they should be"
