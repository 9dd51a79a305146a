#!/usr/bin/env bash
# `make test-chroots`: what a new user meets. Minimal systems made by debootstrap, and in each, as an ordinary user
# without root, the words of docs/installing.md until a network is trained. Prints how long each took.
#   packaging/try/chroots.sh wheels [SYSTEM...]    the wheels of dist/wheels (`make wheels`), each where its Python is:
#                                                  nothing but Python is there, and no network
#   packaging/try/chroots.sh sources [SYSTEM...]   the row of this system, `make demo` and `pip install .`
#   packaging/try/chroots.sh blas [SYSTEM...]      after sources: the same build with each BLAS that the system has
# Systems: bookworm, trixie, forky (Debian), jammy, noble (Ubuntu). They stay in BUILD-chroots for the next time. Needs
# root (chroot), debootstrap, and the systems' mirrors; `sources` needs PyPI too. DEBIAN_MIRROR and UBUNTU_MIRROR
# name other mirrors, UBUNTU_KEYS the file of Ubuntu's keys (else they come from Debian's package ubuntu-keyring).
# CCACHE=FOLDER gives `sources` a ccache to begin with: what breaks shows sooner, and the times it prints are no new
# user's.
set -euo pipefail
sources=$(cd "$(dirname "$0")/../.." && pwd)
chroots=$sources/${BUILD:-build}-chroots
what=${1:?wheels, sources or blas}
shift
case $what in
    wheels) systems=${*:-bookworm trixie noble jammy forky} ;;
    sources) systems=${*:-bookworm trixie noble} ;;
    blas) systems=${*:-bookworm} ;;
    *) echo "chroots.sh: expected wheels, sources or blas, got '$what'" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "chroots.sh: chroot and debootstrap need root" >&2; exit 2; }
mkdir -p "$chroots" "$sources/dist/wheels"
root=
failures=0
say() { echo "== $*"; }
fail() { echo "FAILED: $system: $*"; failures=$((failures + 1)); }

# ---- A system ----
bootstrap() { # its name: sets `root`
    local mirror keys=() script
    root=$chroots/$1
    [ ! -f "$root/.complete" ] || return 0
    rm -rf "$root"
    case $1 in
        jammy | noble)
            mirror=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu} script=gutsy
            keys=(--keyring="$("$sources/packaging/wheels/ubuntu-keys.sh" "$chroots/ubuntu-keys")" "--components=main,universe") ;;
        *) mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian} script=sid ;;
    esac
    say "$1: debootstrap"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv "${keys[@]}" "$1" "$root" "$mirror" /usr/share/debootstrap/scripts/$script \
        > "$chroots/$1.log" 2>&1 || { tail -3 "$chroots/$1.log"; return 1; }
    chroot "$root" useradd --create-home user
    touch "$root/.complete"
}
enter() { # what every command in there needs; leave() takes it back
    cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/" 2> /dev/null || true
    # A machine behind a proxy with certificates of its own: those it trusts.
    [ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    install -d -m 1777 "$root/dev/shm"
}
leave() {
    [ -z "$root" ] || ! mountpoint -q "$root/proc" || umount "$root/proc"
}
trap leave EXIT
passed_on() { env | grep -E '^(CMAKE_[CX]+_COMPILER_LAUNCHER|PIP_(INDEX_URL|EXTRA_INDEX_URL|CERT|DEFAULT_TIMEOUT|TRUSTED_HOST)|[a-z]+_proxy|[A-Z]+_PROXY)=' || true; }
within() { # user, command of a shell: in the user's home
    local user=$1 home settings
    home=$([ "$1" = root ] && echo /root || echo "/home/$1")
    mapfile -t settings < <(passed_on)
    chroot --userspec="$user" "$root" env -i HOME="$home" USER="$user" PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        "${settings[@]}" sh -c "cd $home && $2"
}
timed() { # name, command...: the command's output goes to a file, its time, and that of processors, to the terminal
    local name=$1 TIMEFORMAT='%0R s, %0U + %0S s of processors' spent=$chroots/$system-$1.time
    shift
    if { time "$@" > "$chroots/$system-$name.log" 2>&1; } 2> "$spent"; then
        say "$system: $name, $(cat "$spent")"
    else
        fail "$name (the whole of it: $chroots/$system-$name.log)"
        tail -15 "$chroots/$system-$name.log"
        return 1
    fi
}

# ---- Wheels: no compiler, no package beyond Python, no network ----
try_wheel() {
    local version wheel
    version=$(within user 'python3 -c "import sys; print(\"%d%d\" % sys.version_info[:2])"')
    wheel=$(find "$sources/dist/wheels" -name "taper_ml-*-cp$version-*_$(uname -m).whl" | head -1)
    [ -n "$wheel" ] || { fail "no wheel for its Python ($version) in dist/wheels"; return; }
    if within user 'command -v cc gcc clang cmake make'; then
        say "$system: has a compiler by now (sources were tried in it): less is proven"
    fi
    cp "$wheel" "$root/home/user/"
    timed wheel within user "rm -rf env runs && python3 -m venv env && env/bin/pip install --no-index $(basename "$wheel") &&
        env/bin/taper --version && env/bin/taper train digits --epochs 3 && env/bin/taper torch install &&
        env/bin/python -c 'import torch; print(torch.linalg.inv(torch.eye(3, dtype=torch.float64) * 2), torch.__config__.show())' && { env/bin/taper doctor || true; }" || return 0
    grep -i 'accuracy' "$chroots/$system-wheel.log" | tail -1
}

# ---- Sources: the page's own words ----
words() { # of the row of this system: the commands between backticks
    local row
    row=$(grep -F "| $1" "$sources/docs/installing.md" | head -1)
    echo "$row" | grep -o '`[^`]*`' | tr -d '`'
}
share_ccache() {
    [ -n "${CCACHE:-}" ] || return 0
    within root 'apt-get install -y --no-install-recommends ccache' > /dev/null 2>&1
    rm -rf "$root/home/user/.cache"
    mkdir "$root/home/user/.cache"
    cp -r "$CCACHE" "$root/home/user/.cache/ccache"
    printf 'base_dir = /\nhash_dir = false\ncompiler_check = content\nsloppiness = include_file_ctime, include_file_mtime, time_macros\n' > "$root/home/user/.cache/ccache/ccache.conf"
    chroot "$root" chown -R user:user /home/user/.cache
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
}
try_sources() {
    local row install start=$SECONDS
    row='Debian 12 and 13, Ubuntu 24.04'
    install=$(words "$row" | grep '^apt ' | sed 's/^apt install/apt-get install -y/')
    [ -n "$install" ] || { fail "docs/installing.md has no row for '$row'"; return; }
    timed "packages" within root "apt-get update && $install" || return 0
    rm -rf "$root/home/user/taper"
    mkdir "$root/home/user/taper"
    git -C "$sources" ls-files -z | (cd "$sources" && xargs -0 cp --parents --no-dereference -t "$root/home/user/taper")
    chroot "$root" chown -R user:user /home/user/taper
    # An ordinary user is told what an administrator has to run, and it is what is run.
    if within user 'cd taper && make demo' > "$chroots/$system-asked.log" 2>&1; then
        say "$system: all was there"
    else
        install=$(sed -n 's/^  sudo //p' "$chroots/$system-asked.log" | sed 's/sudo //g')
        [ -n "$install" ] || { fail "make demo does not say what to install"; tail "$chroots/$system-asked.log"; return; }
        timed "told" within root "$(echo "$install" | sed 's/apt-get install/apt-get install -y/')" || return 0
        share_ccache
        timed "demo" within user 'cd taper && make demo' || return 0
    fi
    timed "pip" within user 'rm -rf env runs && python3 -m venv env && cd taper && ../env/bin/pip install .' || return 0
    timed "train" within user 'env/bin/taper info && env/bin/taper train digits --epochs 3' || return 0
    say "$system: from nothing to two trained networks in $(((SECONDS - start) / 60)) minutes"
}

# ---- Each BLAS: only the library is linked again ----
# Debian's libblas.so.3 is whichever BLAS is installed that it likes best: the others go before one is tried.
try_blas() {
    local name packages log
    [ -d "$root/home/user/taper/build" ] || { fail "try sources first"; return; }
    while read -r name packages; do
        log=$chroots/$system-$name-${packages%% *}.log
        within root "apt-get purge -y '^libopenblas[0-9-].*' '^libblis[0-9-].*' '^libatlas3?-.*' libblas-dev liblapack-dev" > "$chroots/$system-blas.log" 2>&1 || true
        if ! within root "apt-get install -y --no-install-recommends $packages" >> "$chroots/$system-blas.log" 2>&1; then
            say "$system: $packages: not in this system"
            continue
        fi
        timed "$name-${packages%% *}" within user "cd taper && cmake -U 'TAPER_LIBRARY_*' -U 'TAPER_BLAS_*' -DTAPER_BLAS=$name build &&
            cmake --build build --target digits && build/examples/digits examples/data /tmp/digits.pt &&
            echo used: && ldd build/libtaper.so | sed -n 's/.*=> \(.*blas.*\|.*blis.*\|.*lapack.*\) (.*/\1/p' | xargs -n 1 readlink -f" || continue
        grep accuracy "$log"
        sed '1,/^used:/d' "$log" | sort -u
    done << 'END'
OpenBLAS libopenblas-openmp-dev
OpenBLAS libopenblas-pthread-dev
OpenBLAS libopenblas-serial-dev
BLIS libblis-openmp-dev liblapack-dev
BLIS libblis-pthread-dev liblapack-dev
BLIS libblis-serial-dev liblapack-dev
reference libblas-dev liblapack-dev
reference libatlas-base-dev
END
}

for system in $systems; do
    if ! bootstrap "$system"; then
        fail "no such system could be made"
        continue
    fi
    enter
    case $what in
        wheels) try_wheel ;;
        sources) try_sources ;;
        blas) try_blas ;;
    esac
    leave
done
exit $((failures > 0))
