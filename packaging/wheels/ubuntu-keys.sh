#!/bin/sh
# Prints the name of the file with the keys that sign Ubuntu's archive: UBUNTU_KEYS, this system's own, or those of
# Debian 13's package ubuntu-keyring, unpacked to FOLDER. So Debian's keys vouch for Ubuntu's.
#   packaging/wheels/ubuntu-keys.sh FOLDER
set -eu
for file in "${UBUNTU_KEYS:-}" /usr/share/keyrings/ubuntu-archive-keyring.gpg; do
    if [ -f "$file" ]; then
        echo "$file"
        exit 0
    fi
done
"$(dirname "$0")/sysroot.sh" trixie all "$1" ubuntu-keyring >&2
cd "$1"
echo "$PWD/usr/share/keyrings/ubuntu-archive-keyring.gpg"
