#!/bin/sh
# Makes sure that the system packages for building Taper are there (Debian 12, Ubuntu 24.04, or newer).
#   tools/setup.sh GROUP...    groups: build, test, python, long
# Asks dpkg first and touches nothing when all is there. Installs what is missing as root or through sudo; where neither works
# it prints the one command to run and stops with status 1. On other systems it leaves the search to CMake.
set -eu

# A word is a package; a|b is satisfied by either, and the first one is installed.
build='gcc libc6-dev cmake ninja-build pkgconf|pkg-config libopenblas-openmp-dev|libopenblas-dev zlib1g-dev libdnnl-dev'
test='g++ libcmocka-dev binutils'
python='python3-dev python3-venv'
long='valgrind clang libomp-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross'

command -v dpkg-query > /dev/null || exit 0

wanted=
for group in "$@"; do
    case $group in
        build) wanted="$wanted $build" ;;
        test) wanted="$wanted $test" ;;
        python) wanted="$wanted $python" ;;
        long) wanted="$wanted $long" ;;
        *) echo "setup.sh: no group '$group': expected build, test, python or long" >&2; exit 2 ;;
    esac
done

installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | tr '\n' ' ') "
missing=
for choice in $wanted; do
    found=
    for package in $(echo "$choice" | tr '|' ' '); do
        case $installed in *" $package "*) found=yes ;; esac
    done
    [ -n "$found" ] || missing="$missing ${choice%%|*}"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    as_root='sudo -n'
else
    echo "Taper needs packages that are not installed. Run this once, then try again:" >&2
    echo "  sudo $install" >&2
    exit 1
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q || echo "setup.sh: the package lists could not be refreshed; trying with those there are" >&2
exec $as_root $install
