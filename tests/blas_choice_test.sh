#!/usr/bin/env bash
# cmake/Blas.cmake: what TAPER_BLAS and TAPER_BLAS_LIBRARIES choose, from stand-ins for the
# libraries in a folder of their own; a BLAS whose integers have 64 bits, or one without LAPACK, is
# refused, and an error names all that was tried.
set -eu
fail() { echo "FAILED: $1"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
mkdir modules sources
cat > sources/blas.c << 'END'
#ifndef INTEGER
#define INTEGER int
#endif
void cblas_sgemm(void) {}
void cblas_zdotu_sub(void) {}
double cblas_ddot(INTEGER n, const double *x, int a, const double *y, int b) {
    double sum = 0;
    if (n > 1000) __builtin_trap(); /* a real one would leave its arrays */
    for (INTEGER i = 0; i < n; i++) sum += x[i * a] * y[i * b];
    return sum;
}
void strsm_(void) {}
END
echo 'void sgetrf_(void) {} void zgelsd_(void) {} void zgesdd_(void) {} void chetrf_(void) {} void ilaver_(void) {}' > sources/lapack.c
library() { name=$1; shift; "$CC" -shared -fPIC -Wl,-soname,"lib$name.so" -o "modules/lib$name.so" "$@"; }
cat > CMakeLists.txt << END
cmake_minimum_required(VERSION 3.22)
project(choice C)
include($TAPER_SOURCE_DIR/cmake/Blas.cmake)
get_target_property(libraries taper_blas INTERFACE_LINK_LIBRARIES)
message(STATUS "CHOSEN \${taper_blas_name} \${libraries}")
END
# Nothing of this machine's: no default folders, no pkg-config.
choose() {
    rm -rf build
    said=$(env -u MKLROOT -u CONDA_PREFIX LIBRARY_PATH="$scratch/modules" LD_LIBRARY_PATH="$scratch/modules" cmake -G Ninja -B build -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF -DCMAKE_MAKE_PROGRAM="$(command -v ninja)" -DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF "$@" 2>&1) || return 1
}
chosen() { choose "${@:2}" || fail "${*:2}: $said"; [[ $said == *"CHOSEN $1"* ]] || fail "${*:2} chose not $1: $said"; }

if choose; then fail "something was found in an empty folder: $said"; fi
for name in OpenBLAS FlexiBLAS MKL BLIS LibSci reference; do [[ $said == *"$name: not found"* ]] || fail "$name is not named: $said"; done
[[ $said == *TAPER_BLAS_LIBRARIES* ]] || fail "no way out is named: $said"

library blas sources/blas.c
library lapack sources/lapack.c
chosen "reference $scratch/modules/libblas.so;$scratch/modules/liblapack.so"
library blis sources/blas.c
chosen "BLIS $scratch/modules/libblis.so;$scratch/modules/liblapack.so"
library flexiblas sources/blas.c sources/lapack.c
library openblas sources/blas.c sources/lapack.c
chosen "OpenBLAS $scratch/modules/libopenblas.so"
chosen "FlexiBLAS $scratch/modules/libflexiblas.so" -DTAPER_BLAS=FlexiBLAS
chosen "reference" -DTAPER_BLAS=reference
library other sources/blas.c sources/lapack.c
chosen "TAPER_BLAS_LIBRARIES $scratch/modules/libother.so" -DTAPER_BLAS_LIBRARIES="$scratch/modules/libother.so"

library openblas -DINTEGER='long long' sources/blas.c sources/lapack.c
chosen FlexiBLAS
if choose -DTAPER_BLAS=OpenBLAS; then fail "integers of 64 bits were taken: $said"; fi
[[ $said == *"integers have 64"* ]] || fail "64 bits are not named: $said"
library openblas sources/blas.c
if choose -DTAPER_BLAS=OpenBLAS; then fail "a BLAS without LAPACK was taken: $said"; fi
[[ $said == *"does not link"* ]] || fail "LAPACK is not named: $said"
if choose -DTAPER_BLAS=ATLAS; then fail "an unknown name was taken: $said"; fi
[[ $said == *"expected auto or one of"* ]] || fail "unclear: $said"
