#!/usr/bin/env bash
# tools/setup.sh: silent and quick when nothing is missing, one command to copy when packages are missing and it may not install, and
# apt-get with just the missing ones when it may; an optional package never makes it fail. dpkg-query, id, sudo, apt-get and apt-cache are
# stand-ins in a folder put before the others.
set -eu
setup=$TAPER_SOURCE_DIR/tools/setup.sh
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
stand_in() { printf '#!/bin/sh\n%s\n' "$2" > "$bin/$1"; chmod +x "$bin/$1"; }
fail() { echo "$1"; exit 1; }
all='gcc libc6-dev cmake ninja-build pkgconf libopenblas-dev zlib1g-dev libpng-dev libjpeg-dev libdnnl2'
have() { stand_in dpkg-query "for p in $*; do echo \"installed \$p\"; done; echo 'config-files cmake-gone'"; }
export PATH="$bin:$PATH"
stand_in sudo 'exit 1'
stand_in apt-get 'echo "apt-get $*"'
stand_in apt-cache '[ "$2" = libdnnl2 ]' # the lists have this one alone

have "$all" # libopenblas-dev stands in for the OpenMP build that is asked for first
stand_in id 'echo 1000'
said=$("$setup" build 2>&1) || fail "failed although nothing is missing: $said"
[ -z "$said" ] || fail "not silent: $said"

have "${all/cmake ninja-build/}"
if said=$("$setup" build 2>&1); then fail "succeeded without packages and without root: $said"; fi
[[ $said == *'sudo apt-get update && sudo apt-get install -y --no-install-recommends cmake ninja-build' ]] || fail "no command to copy: $said"

stand_in id 'echo 0'
said=$("$setup" build 2>&1) || fail "root could not install: $said"
[[ $said == *'apt-get install -y --no-install-recommends cmake ninja-build' ]] || fail "root installs something else: $said"

if said=$("$setup" nonsense 2>&1); then fail "took an unknown group"; fi
[[ $said == *"no group 'nonsense'"* ]] || fail "unclear: $said"

have "${all/libdnnl2/}"
said=$("$setup" build 2>&1) || fail "root could not install an optional package: $said"
[[ $said == *'apt-get install -y --no-install-recommends libdnnl2' ]] || fail "the optional package was not installed: $said"
stand_in apt-get 'exit 100'
said=$("$setup" build 2>&1) || fail "failed for want of an optional package: $said"
stand_in apt-cache 'exit 100'
said=$("$setup" build 2>&1) || fail "failed for want of an optional package that does not exist: $said"
[ -z "$said" ] || fail "not silent about a package that does not exist: $said"
stand_in id 'echo 1000'
said=$("$setup" build 2>&1) || fail "failed without root for want of an optional package: $said"
[ -z "$said" ] || fail "not silent without root: $said"
