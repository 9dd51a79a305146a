#!/usr/bin/env bash
# docs/operators.md is what opgen makes of the tables now.
set -eu
diff -u "$TAPER_SOURCE_DIR/docs/operators.md" "$TAPER_BUILD_DIR/generated/operators.md" ||
    { echo "docs/operators.md is stale: 'make docs' writes it anew"; exit 1; }
