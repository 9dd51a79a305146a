#!/usr/bin/env bash
# Each parser under its fuzzer for a minute.
exec "$TAPER_SOURCE_DIR/tests/fuzz/run.sh" "${TAPER_FUZZ_MINUTES:-1}"
