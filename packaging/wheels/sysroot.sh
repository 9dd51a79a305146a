#!/bin/sh
# What a wheel is built against: a folder with the C library, zlib, libpng, libjpeg and the headers of two MPIs of an
# older Debian, unpacked from its packages as an ordinary user; nothing is installed. The C library's age is the
# wheels' age: bullseye has glibc 2.31 (SLES 15 SP3, Ubuntu 20.04 and newer), bookworm 2.36.
#   packaging/wheels/sysroot.sh SUITE amd64|arm64 FOLDER               the folder, made where it is not there
#   packaging/wheels/sysroot.sh SUITE amd64|arm64 FOLDER PACKAGE...    these packages instead
# SUITE may be one of Ubuntu's too (jammy, noble). Needs apt-get and dpkg-deb; DEBIAN_MIRROR and UBUNTU_MIRROR name
# other mirrors. apt checks signatures: with Debian's keys, or with Ubuntu's, from a package of Debian's where
# UBUNTU_KEYS names no file.
set -eu
suite=$1 architecture=$2 folder=$3
shift 3
[ ! -f "$folder/.complete" ] || exit 0
[ $# -gt 0 ] || set -- libc6 libc6-dev linux-libc-dev libcrypt-dev libgcc-s1 libgomp1 zlib1g zlib1g-dev libpng16-16 libpng-dev \
    libjpeg62-turbo libjpeg62-turbo-dev libopenmpi-dev libmpich-dev
components=main
case $suite in
    jammy | noble)
        # Ubuntu has two mirrors: one for x86-64, one for every other processor.
        mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} components='main universe'
        [ "$architecture" = amd64 ] || mirror=${UBUNTU_PORTS_MIRROR:-http://ports.ubuntu.com/ubuntu-ports}
        keys=$("$(dirname "$0")/ubuntu-keys.sh" "$(dirname "$folder")/ubuntu-keys") ;;
    *)
        mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
        keys=/usr/share/keyrings/debian-archive-keyring.gpg ;;
esac
rm -rf "$folder"
mkdir -p "$folder/.apt/state/lists/partial" "$folder/.apt/cache/archives/partial" "$folder/.apt/packages"
folder=$(cd "$folder" && pwd)
apt=$folder/.apt
: > "$apt/status"
echo "deb [signed-by=$keys] $mirror $suite $components" > "$apt/sources.list"
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
