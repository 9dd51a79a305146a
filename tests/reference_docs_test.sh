#!/usr/bin/env bash
# The reference pages in docs/ are what opgen makes of the tables now.
set -eu
for page in operators layers optimisers devices; do
    diff -u "$TAPER_SOURCE_DIR/docs/$page.md" "$TAPER_BUILD_DIR/generated/$page.md" || { echo "docs/$page.md is stale: 'make reference' writes it anew"; exit 1; }
done
