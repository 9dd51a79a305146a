#!/bin/sh
# Makes sure that the system packages for building Taper are there (Debian 12, Ubuntu 24.04, or newer).
#   tools/setup.sh GROUP...    groups: build, test, python, long
# Asks dpkg first and touches nothing when all is there. Installs what is missing as root or through sudo (which may ask for a password
# when a person is there to type it); where neither works it prints the one command to run and stops with status 1. On other systems it
# leaves the search to CMake.
set -eu

# A word is a package; a|b is satisfied by either, and the first one is installed. An optional one is installed where the package lists
# have it under any of its names; that nothing came of it is no failure.
optional='libdnnl3|libdnnl3.6|libdnnl2' # oneDNN, which the library opens when it is there
build='gcc libc6-dev cmake ninja-build pkgconf|pkg-config libopenblas-openmp-dev|libopenblas-dev zlib1g-dev libpng-dev libjpeg-dev'
test='g++ libcmocka-dev binutils ocl-icd-libopencl1 pocl-opencl-icd libopenmpi-dev openmpi-bin libmpich-dev mpich libgloo-dev gfortran'
python='python3-dev python3-venv'
long='valgrind clang libclang-rt-dev|libclang-rt-14-dev libomp-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross iproute2 munge slurmctld slurmd slurm-client'

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
missing_of() { # the first name of each choice none of whose names is installed
    for choice in "$@"; do
        found=
        for package in $(echo "$choice" | tr '|' ' '); do
            case $installed in *" $package "*) found=yes ;; esac
        done
        [ -n "$found" ] || printf ' %s' "${choice%%|*}"
    done
}
missing=$(missing_of $wanted)
missing_optional=$(missing_of $optional)
[ -n "$missing$missing_optional" ] || exit 0

install="apt-get install -y --no-install-recommends"
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    as_root='sudo -n'
elif [ -z "$missing" ]; then
    exit 0
elif [ -t 0 ] && command -v sudo > /dev/null && echo "Taper needs:$missing" && sudo -v; then
    as_root=sudo
else
    echo "Taper needs packages that are not installed. Run this once, then try again:" >&2
    echo "  sudo apt-get update && sudo $install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing" ]; then
    echo "Installing:$missing"
    $as_root apt-get update -q || echo "setup.sh: the package lists could not be refreshed; trying with those there are" >&2
    $as_root $install$missing
fi
[ -n "$missing_optional" ] || exit 0
for package in $(echo "$optional" | tr '|' ' '); do
    apt-cache show "$package" > /dev/null 2>&1 || continue
    echo "Installing, as an option: $package"
    $as_root $install "$package" || echo "setup.sh: $package could not be installed; Taper works without it" >&2
    break
done
