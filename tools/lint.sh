#!/usr/bin/env bash
# Layout and lint of all tracked files: clang-format over C, ruff over Python, shellcheck over scripts, and
# tools/statements.py over C (one statement a line), tools/pages.py over the documentation.
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
bad=0
"$tools/clang-format" --dry-run --Werror "${c[@]}" 2>&1 | grep -E 'error:' | cut -d: -f1,2 | sort -u | sed 's/$/: not laid out as .clang-format says; tools\/lint.sh --fix does it/' | head -40 && bad=1
"$tools/python" tools/statements.py "${written_out[@]}" || bad=1
"$tools/python" tools/pages.py "${pages[@]}" || bad=1
long=$(awk 'length > 120 && !/clang-format|_Generic|TP_NUMBER_CASES_|TP_BLOCK_/ { print FILENAME ":" FNR ": longer than 120 columns" }' "${c[@]}")
[ -z "$long" ] || { echo "$long"; bad=1; }
"$tools/ruff" format --quiet --check . || bad=1
"$tools/ruff" check --quiet --output-format concise . || bad=1
"$tools/shellcheck" --severity warning "${scripts[@]}" || bad=1
[ $bad = 0 ] && echo "lint: ${#c[@]} C files, ${#scripts[@]} scripts, ${#pages[@]} pages and the Python files are as they should be"
exit $bad
