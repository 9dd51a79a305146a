#!/usr/bin/env bash
# tools/setup.sh: silent when nothing is missing; apt-get, dnf or zypper with just what is missing
# where it may install; one command to copy, or the modules to load, where it may not; content with
# things that no package brought. All that it calls is a stand-in, in the only folder of PATH.
set -eu
setup=$TAPER_SOURCE_DIR/tools/setup.sh
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
stand_in() { printf '#!/bin/sh\n%s\n' "$2" > "$bin/$1"; chmod +x "$bin/$1"; }
fail() { echo "$1"; exit 1; }
tools() { for tool in sh sed tr cat rm mktemp printf; do ln -sf "$(command -v $tool)" "$bin/$tool"; done; }
only() { rm -f "$bin"/*; tools; for tool in "$@"; do stand_in "$tool" 'exit 1'; done; }
tools
run() { said=$(PATH=$bin "$bin/sh" "$setup" "$@" 2>&1); }
as_user() { stand_in id 'echo 1000'; stand_in sudo 'exit 1'; }
as_root() { stand_in id 'echo 0'; }
unset CC MODULEPATH LMOD_CMD MKLROOT CRAY_LIBSCI_PREFIX_DIR

# ---- Debian and Ubuntu ----
all='gcc libc6-dev cmake ninja-build pkgconf libopenblas-dev zlib1g-dev libpng-dev libjpeg-dev libdnnl2'
have() { stand_in dpkg-query "for p in $*; do echo \"installed \$p\"; done; echo 'config-files cmake-gone'"; }
debian() {
    only
    stand_in apt-get 'case $1 in update) ;; *) echo "apt-get $*" ;; esac'
    stand_in apt-cache 'case $2 in libdnnl*) [ "$2" = libdnnl2 ] ;; esac' # the lists have this one of its names
}
debian; as_user
have "$all" # libopenblas-dev stands in for the OpenMP build that is asked for first
run build || fail "failed although nothing is missing: $said"
[ -z "$said" ] || fail "not silent: $said"

have "${all/gcc libc6-dev cmake/}"
if run build; then fail "succeeded without packages and without root: $said"; fi
[[ $said == *'C-compiler, C-headers, CMake'*'sudo apt-get update && sudo apt-get install -y --no-install-recommends gcc libc6-dev cmake' ]] ||
    fail "no command to copy: $said"
have "${all/zlib1g-dev libpng-dev libjpeg-dev/}"
run build || fail "stopped for want of what the build can do without: $said"
[ -z "$said" ] || fail "not silent about it: $said"

as_root
have "${all/cmake ninja-build/}"
run build || fail "root could not install: $said"
[[ $said == *'apt-get install -y --no-install-recommends cmake ninja-build -o DPkg::Lock::Timeout='* ]] || fail "root installs something else: $said"

if run nonsense; then fail "took an unknown group"; fi
[[ $said == *"no group 'nonsense'"* ]] || fail "unclear: $said"

have "${all/libdnnl2/}"
run build || fail "root could not install an optional package: $said"
[[ $said == *'apt-get install -y --no-install-recommends libdnnl2 '* ]] || fail "the optional package was not installed: $said"
stand_in apt-get 'exit 100'
run build || fail "failed for want of an optional package: $said"
stand_in apt-cache 'exit 100'
run build || fail "failed for want of an optional package that does not exist: $said"
[ -z "$said" ] || fail "not silent about a package that does not exist: $said"
as_user
run build || fail "failed without root for want of an optional package: $said"
[ -z "$said" ] || fail "not silent without root: $said"

# The reference BLAS alone: OpenBLAS is installed where that is possible, and nobody is stopped where it is not.
have "${all/libopenblas-dev/}"
stand_in gcc 'case "$*" in *-lblas*) exit 0 ;; *) exit 1 ;; esac'
run build || fail "stopped although there is a BLAS: $said"
[ -z "$said" ] || fail "not silent about the reference BLAS: $said"
debian; as_root
have "${all/libopenblas-dev/}"
stand_in gcc 'case "$*" in *-lblas*) exit 0 ;; *) exit 1 ;; esac'
run build || fail "root could not install a BLAS: $said"
[[ $said == *'apt-get install -y --no-install-recommends libopenblas-openmp-dev '* ]] || fail "the reference BLAS was enough: $said"

# A wanted package that cannot be installed does not take the others with it.
debian; as_root
have "${all/libpng-dev libjpeg-dev/}"
stand_in apt-get 'case "$*" in *libpng-dev*) exit 100 ;; *install*) echo "apt-get $*" ;; esac'
run build || fail "failed for want of a package that the build can do without: $said"
[[ $said == *'libjpeg-dev'*'apt-get install -y --no-install-recommends libjpeg-dev'* && $said == *'libpng-dev could not be installed'* ]] || fail "$said"

# ---- Fedora, RHEL and SLES ----
rpm_has() { stand_in rpm "case \" $* \" in *\" \$3 \"*) ;; *) exit 1 ;; esac"; }
all_dnf='gcc glibc-devel cmake ninja-build pkgconf-pkg-config openblas-devel zlib-devel libpng-devel libjpeg-turbo-devel onednn'
only; as_user
stand_in dnf 'case $1 in -q) ;; *) echo "dnf $*" ;; esac'
rpm_has "$all_dnf"
run build || fail "dnf: failed although nothing is missing: $said"
[ -z "$said" ] || fail "dnf: not silent: $said"
rpm_has "${all_dnf/cmake ninja-build pkgconf-pkg-config openblas-devel/}"
if run build; then fail "dnf: succeeded without packages and without root: $said"; fi
[[ $said == *'sudo dnf install -y --setopt=install_weak_deps=False cmake openblas-devel ninja-build pkgconf-pkg-config' ]] || fail "dnf: no command to copy: $said"
as_root
run build || fail "dnf: $said"
[[ $said == *'dnf install -y --setopt=install_weak_deps=False cmake openblas-devel ninja-build pkgconf-pkg-config' ]] || fail "dnf: $said"

only; as_root
stand_in zypper 'case "$*" in *search*) [ "$5" != libjpeg8-devel ] ;; *) echo "zypper $*" ;; esac'
rpm_has 'gcc glibc-devel openblas-devel ninja pkg-config zlib-devel libpng16-devel libdnnl3'
run build || fail "zypper: $said"
[[ $said == *'zypper --non-interactive install --no-recommends cmake libjpeg62-devel' ]] || fail "zypper: $said"

# ---- No package manager: things in PATH and where the compiler looks will do; else modules, or an
# environment of one's own ----
only cmake; as_user
stand_in cc 'cat > /dev/null' # finds every header and library
run build || fail "did not find what is there: $said"
[ -z "$said" ] || fail "not silent: $said"
only; as_user
if run build; then fail "succeeded with nothing: $said"; fi
[[ $said == *'C-compiler, C-headers, CMake, BLAS-LAPACK'*'micromamba create -n taper'* && $said != *'module load'* ]] || fail "no advice: $said"
if MODULEPATH=/modules run build; then fail "succeeded with nothing: $said"; fi
[[ $said == *'module load GCC CMake OpenBLAS'* ]] || fail "no modules: $said"
stand_in cc 'case "$*" in *-lflexiblas*) ;; *-l*) exit 1 ;; *-fsyntax-only*) ;; *) exit 1 ;; esac; cat > /dev/null'
stand_in cmake ''
run build || fail "did not find FlexiBLAS: $said"
