#!/bin/sh
# What a wheel is built against: a folder with the C library, zlib, libpng, libjpeg and the headers of two MPIs of an
# older Debian, unpacked from its packages as an ordinary user; nothing is installed. The C library's age is the
# wheels' age: bullseye has glibc 2.31 (SLES 15 SP3, Ubuntu 20.04 and newer), bookworm 2.36.
#   packaging/wheels/sysroot.sh SUITE amd64|arm64 FOLDER               the folder, made where it is not there
#   packaging/wheels/sysroot.sh SUITE amd64|arm64 FOLDER PACKAGE...    these packages instead
# Needs apt-get and dpkg-deb; DEBIAN_MIRROR names another mirror. Signatures are checked by apt, with Debian's keys.
set -eu
suite=$1 architecture=$2 folder=$3
shift 3
[ ! -f "$folder/.complete" ] || exit 0
[ $# -gt 0 ] || set -- libc6 libc6-dev linux-libc-dev libcrypt-dev libgomp1 zlib1g zlib1g-dev libpng16-16 libpng-dev \
    libjpeg62-turbo libjpeg62-turbo-dev libopenmpi-dev libmpich-dev
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
rm -rf "$folder"
mkdir -p "$folder/.apt/state/lists/partial" "$folder/.apt/cache/archives/partial" "$folder/.apt/packages"
folder=$(cd "$folder" && pwd)
apt=$folder/.apt
: > "$apt/status"
echo "deb [signed-by=$keys] $mirror $suite main" > "$apt/sources.list"
ask() {
    apt-get -qq -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State="$apt/state" \
        -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Architecture="$architecture" \
        -o APT::Architectures="$architecture" -o APT::Sandbox::User="$(id -un)" "$@"
}
ask update
(cd "$apt/packages" && ask download "$@")
for package in "$apt"/packages/*.deb; do
    dpkg-deb --extract "$package" "$folder"
done
# Newer Debians have merged /lib into /usr/lib; older ones have both. Links that begin at the root would leave the folder.
find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sf "$folder$(readlink "$link")" "$link"
done
rm -rf "$apt"
touch "$folder/.complete"
