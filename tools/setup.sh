#!/bin/sh
# Makes sure that what Taper is built from is there.
#   tools/setup.sh GROUP...    groups: build, test, python, long
#
# The package manager (dpkg; rpm with dnf or zypper) is asked first: where all is installed this is quick and
# silent. What no package brought is then looked for itself, for it may come from a module, a user's own
# folder or a container: commands in PATH, headers and libraries as the compiler finds them.
#
# What is missing is installed by root, or through sudo (which may ask for a password when a person is there
# to type it). Where neither works, things that the build can do without are passed over; for the others it
# prints what to load, install or build, and stops with status 1.
set -eu

# Each line: group, how much it matters, what it is, how it is looked for, and its names as a package (apt, dnf,
# zypper) and as a module. a|b is satisfied by either, and the first that the package lists have is installed.
#   need    the build stops without it
#   want    installed where that is possible; the build, or a test, does without
#   extra   as want, and not a word is said about it
table='
build  need  C-compiler   cmd:cc|gcc|clang          gcc                                    gcc                    gcc                    GCC
build  need  C-headers    hdr:stdio.h               libc6-dev                              glibc-devel            glibc-devel            -
build  need  CMake        cmd:cmake                 cmake                                  cmake                  cmake                  CMake
build  need  BLAS-LAPACK  blas                      libopenblas-openmp-dev|libopenblas-dev openblas-devel         openblas-devel|libopenblas_openmp-devel OpenBLAS
build  want  Ninja        cmd:ninja|ninja-build     ninja-build                            ninja-build            ninja                  Ninja
build  want  pkg-config   cmd:pkg-config|pkgconf    pkgconf|pkg-config                     pkgconf-pkg-config     pkgconf-pkg-config|pkg-config pkgconf
build  want  zlib         hdr:zlib.h                zlib1g-dev                             zlib-devel             zlib-devel             zlib
build  want  libpng       hdr:png.h                 libpng-dev                             libpng-devel           libpng16-devel         libpng
build  want  libjpeg      hdr:jpeglib.h             libjpeg-dev                            libjpeg-turbo-devel    libjpeg8-devel|libjpeg62-devel libjpeg-turbo
build  extra oneDNN       -                         libdnnl3|libdnnl3.6|libdnnl2           onednn                 libdnnl3|libdnnl2      -
test   need  cmocka       hdr:cmocka.h              libcmocka-dev                          libcmocka-devel        libcmocka-devel        cmocka
test   want  C++-compiler cmd:c++|g++|clang++       g++                                    gcc-c++                gcc-c++                GCC
test   want  binutils     cmd:readelf               binutils                               binutils               binutils               binutils
test   want  Fortran      cmd:gfortran              gfortran                               gcc-gfortran           gcc-fortran            GCC
test   want  OpenCL       -                         ocl-icd-libopencl1                     ocl-icd                libOpenCL1             -
test   want  PoCL         -                         pocl-opencl-icd                        pocl                   pocl                   -
test   want  OpenMPI-h    -                         libopenmpi-dev                         openmpi-devel          openmpi4-devel         OpenMPI
test   want  OpenMPI      cmd:mpirun.openmpi        openmpi-bin                            openmpi                openmpi4               OpenMPI
test   want  MPICH-h      -                         libmpich-dev                           mpich-devel            mpich-devel            -
test   want  MPICH        cmd:mpiexec.mpich         mpich                                  mpich                  mpich                  -
test   want  gloo         hdr:gloo/config.h         libgloo-dev                            gloo-devel             gloo-devel             -
python need  Python       cmd:python3               python3                                python3                python3                Python
python need  Python-h     python                    python3-dev                            python3-devel          python3-devel          Python
python need  venv         venv                      python3-venv                           python3                python3                Python
long   want  valgrind     cmd:valgrind              valgrind                               valgrind               valgrind               Valgrind
long   want  clang        cmd:clang                 clang                                  clang                  clang                  Clang
long   want  clang-rt     -                         libclang-rt-dev|libclang-rt-14-dev     compiler-rt            -                      -
long   want  libomp       -                         libomp-dev                             libomp-devel           libomp-devel           -
long   want  abidiff      cmd:abidiff               abigail-tools                          libabigail             libabigail-tools|libabigail -
long   want  aarch64-gcc  cmd:aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu                  gcc-aarch64-linux-gnu  cross-aarch64-gcc13    -
long   want  aarch64-libc -                         libc6-dev-arm64-cross                  -                      -                      -
long   want  ip           cmd:ip                    iproute2                               iproute                iproute2               -
long   want  munge        cmd:munge                 munge                                  munge                  munge                  -
long   want  slurmctld    cmd:slurmctld             slurmctld                              slurm-slurmctld        slurm                  -
long   want  slurmd       cmd:slurmd                slurmd                                 slurm-slurmd           slurm-node             -
long   want  slurm        cmd:srun                  slurm-client                           slurm                  slurm                  -
'
for group in "$@"; do
    case $group in
        build | test | python | long) ;;
        *) echo "setup.sh: no group '$group': expected build, test, python or long" >&2; exit 2 ;;
    esac
done

# ---- Package managers ----
manager=
column=
patience=
if command -v dpkg-query > /dev/null && command -v apt-get > /dev/null; then
    manager=apt column=5
    install='apt-get install -y --no-install-recommends'
    refresh='apt-get update -q'
    patience='-o DPkg::Lock::Timeout=600' # fresh systems update themselves for some minutes, and hold the lock
    installed=" $(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | tr '\n' ' ') "
elif command -v rpm > /dev/null && command -v dnf > /dev/null; then
    manager=dnf column=6
    install='dnf install -y --setopt=install_weak_deps=False'
elif command -v rpm > /dev/null && command -v zypper > /dev/null; then
    manager=zypper column=7
    install='zypper --non-interactive install --no-recommends'
fi

is_installed() { # one package
    if [ "$manager" = apt ]; then
        case $installed in *" $1 "*) return 0 ;; *) return 1 ;; esac
    fi
    rpm -q --whatprovides "$1" > /dev/null 2>&1
}
is_offered() { # by the package lists
    case $manager in
        apt) apt-cache show "$1" ;;
        dnf) dnf -q info "$1" ;;
        zypper) zypper --non-interactive --quiet search --match-exact "$1" ;;
    esac > /dev/null 2>&1
}

# ---- Looking for the things themselves ----
compiler() { # of the user's choice
    for cc in ${CC:-} cc gcc clang; do
        if command -v "$cc" > /dev/null; then
            echo "$cc"
            return
        fi
    done
    echo false
}
compiles() { # a line of C, with these options
    text=$1
    shift
    printf '#include <stddef.h>\n#include <stdio.h>\n%s\n' "$text" | $(compiler) -x c - "$@" -o /dev/null > /dev/null 2>&1
}
links_blas() { # one of these libraries
    for library in "$@"; do
        for folder in "" "${MKLROOT:+-L$MKLROOT/lib}" "${CRAY_LIBSCI_PREFIX_DIR:+-L$CRAY_LIBSCI_PREFIX_DIR/lib}"; do
            # shellcheck disable=SC2086
            compiles 'void cblas_sgemm(void), sgetrf_(void); int main(void) { cblas_sgemm(), sgetrf_(); return 0; }' \
                $folder ${library:+-l$library} && return 0
        done
    done
    return 1
}
is_here() { # by what the table says of it
    case $1 in
        cmd:*)
            for command in $(echo "${1#cmd:}" | tr '|' ' '); do
                command -v "$command" > /dev/null && return 0
            done
            return 1 ;;
        hdr:*) compiles "#include <${1#hdr:}>" -fsyntax-only || compiles "#include <stdarg.h>
#include <stdint.h>
#include <setjmp.h>
#include <${1#hdr:}>" -fsyntax-only ;;
        blas) links_blas openblas flexiblas mkl_rt "blis -llapack" sci_gnu sci_cray ||
            { [ -n "${CRAYPE_VERSION:-}" ] && links_blas ""; } ;; # Cray's compiler links LibSci by itself
        python) folder=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))' 2> /dev/null) && [ -f "$folder/Python.h" ] ;;
        venv) python3 -c 'import venv, ensurepip' 2> /dev/null ;;
        *) return 1 ;;
    esac
}

# ---- What is missing ----
missing='' missing_wanted='' missing_extra='' things='' modules='' modules_wanted=''
while read -r group weight thing probe apt dnf zypper module; do
    case " $* " in *" $group "*) ;; *) continue ;; esac
    case $column in 5) names=$apt ;; 6) names=$dnf ;; 7) names=$zypper ;; *) names=- ;; esac
    found=
    for package in $(echo "$names" | tr '|' ' '); do
        if [ "$package" != - ] && is_installed "$package"; then found=yes; fi
    done
    [ -z "$found" ] && [ "$weight" != extra ] && is_here "$probe" && found=yes
    [ -z "$found" ] || continue
    # The reference BLAS serves where nothing better can be installed; it is many times slower.
    [ "$probe" = blas ] && links_blas "" "cblas -lblas -llapack" "blas -llapack" && weight=want
    case $weight in
        need)
            missing="$missing $names" things="$things${things:+, }$thing"
            case $modules in *"$module"*) ;; *) [ "$module" = - ] || modules="$modules $module" ;; esac ;;
        want)
            [ "$names" = - ] || missing_wanted="$missing_wanted $names"
            case $modules$modules_wanted in *"$module"*) ;; *) [ "$module" = - ] || modules_wanted="$modules_wanted $module" ;; esac ;;
        extra) [ "$names" = - ] || missing_extra="$missing_extra $names" ;;
    esac
done << END
$(echo "$table" | sed '/^$/d')
END
[ -n "$missing$missing_wanted$missing_extra" ] || exit 0

offered() { # of each choice, the first that the lists have, or the first
    for choice in "$@"; do
        taken=
        for package in $(echo "$choice" | tr '|' ' '); do
            [ -z "$taken" ] && [ "$package" != - ] && is_offered "$package" && taken=$package
        done
        [ "$choice" = - ] || printf ' %s' "${taken:-${choice%%|*}}"
    done
}

# ---- Telling what to do ----
tell() {
    echo "Taper needs what is not here: $things."
    if [ -n "${MODULEPATH:-}${LMOD_CMD:-}" ] && [ -n "$modules" ]; then
        echo "From the site's modules (\`module spider NAME\`, or \`module avail\`, tells how they are called here):"
        echo "  module load$modules"
        [ -z "$modules_wanted" ] || echo "and, for packed files, images and a quicker build, where they are there:$modules_wanted"
    fi
    # What can be done without is in the command too, as root would install it: the examples' data are packed by zlib.
    # shellcheck disable=SC2086
    packages=$(offered $missing $missing_wanted)
    if [ -n "$manager" ] && [ -n "$packages" ]; then
        echo "As packages. Run this once, then try again:"
        echo "  ${refresh:+sudo ${refresh% -q} && }sudo $install$packages"
    else
        echo "Without packages and without root, in an environment of your own (conda, or micromamba, which is one file):"
        echo "  micromamba create -n taper -c conda-forge c-compiler cmake ninja pkg-config openblas zlib libpng libjpeg-turbo python"
        echo "or by hand: \`python3 -m pip install --user cmake ninja\`, and a BLAS as docs/installing.md says."
    fi
} >&2

if [ -z "$manager" ]; then
    [ -n "$things" ] || exit 0
    tell
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    as_root='sudo -n'
elif [ -z "$missing" ]; then
    exit 0
elif [ -t 0 ] && command -v sudo > /dev/null && echo "Taper needs: $things" && sudo -v; then
    as_root=sudo
else
    tell
    exit 1
fi

# ---- Installing ----
export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing$missing_wanted" ] && [ -n "${refresh:-}" ]; then
    $as_root $refresh $patience || echo "setup.sh: the package lists could not be refreshed; trying with those there are" >&2
fi
# shellcheck disable=SC2086
needed=$(offered $missing) wanted=$(offered $missing_wanted)
if [ -n "$needed$wanted" ]; then
    echo "Installing:$needed$wanted"
    if ! $as_root $install$needed$wanted $patience; then
        [ -z "$needed" ] || $as_root $install$needed $patience
        for package in $wanted; do
            $as_root $install "$package" $patience || echo "setup.sh: $package could not be installed; Taper is built without it" >&2
        done
    fi
fi
for choice in $missing_extra; do
    for package in $(echo "$choice" | tr '|' ' '); do
        is_offered "$package" || continue
        echo "Installing, as an option: $package"
        $as_root $install "$package" $patience || echo "setup.sh: $package could not be installed; Taper works without it" >&2
        break
    done
done
exit 0
