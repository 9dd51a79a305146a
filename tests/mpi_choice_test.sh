#!/usr/bin/env bash
# cmake/Plugins.cmake: which MPIs get a plug-in, from stand-ins for their compilers and headers. Wrappers of each
# kind, several at once, a site's module variables, and TAPER_MPICC.
set -eu
fail() { echo "FAILED: $1"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
ninja=$(command -v ninja)
cmake=$(command -v cmake)
mkdir -p bin include src/dist/plugins openmpi/include mpich/include intel/include
for tool in sh sed cat uname as ld ar ranlib "$(basename "$CC")"; do ln -sf "$(command -v "$tool")" bin/; done
echo 'int nothing;' > src/dist/plugins/mpi.c
echo '#define OPEN_MPI 1' > openmpi/include/mpi.h
echo '#define MPICH_VERSION "4.2"' > mpich/include/mpi.h
echo '#define I_MPI_VERSION "2021"' > intel/include/mpi.h
cat > CMakeLists.txt << END
cmake_minimum_required(VERSION 3.22)
project(choice C)
include(GNUInstallDirs)
include(CheckCSourceCompiles)
add_library(taper_warnings INTERFACE)
include($TAPER_SOURCE_DIR/cmake/Plugins.cmake)
foreach(plugin \${TAPER_PLUGINS})
    get_target_property(folders \${plugin} INCLUDE_DIRECTORIES)
    message(STATUS "PLUGIN \${plugin} \${folders}")
endforeach()
END
wrapper() { # NAME QUESTION ANSWER: answers one question, as one kind of wrapper does
    printf '#!/bin/sh\n[ "$1" = "%s" ] || exit 1\necho "%s"\n' "$2" "$3" > "bin/$1"
    chmod +x "bin/$1"
}
plugins() { # what is built with these variables and options
    rm -rf build
    said=$(env -i HOME="$HOME" PATH="$scratch/bin" "${variables[@]}" "$cmake" -G Ninja -B build -DCMAKE_MAKE_PROGRAM="$ninja" -DCMAKE_C_COMPILER="$CC" \
        -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF "$@" 2>&1) || return 1
    grep -o 'PLUGIN .*' <<< "$said" | sed "s#PLUGIN taper_mpi_\([a-z]*\) .*$scratch/\([a-z]*\)/include.*#\1:\2#" | sort | tr '\n' ' ' || true
}
expect() { # WANTED OPTION...
    got=$(plugins "${@:2}") || fail "configuring: $(plugins "${@:2}"; echo "$said")"
    [ "$got" = "$1" ] || fail "expected '$1', got '$got'"
}
variables=(LANG=C)
expect ''
wrapper mpicc --showme:compile "-I$scratch/openmpi/include -pthread"
expect 'openmpi:openmpi '
wrapper mpicc.mpich -show "gcc -I$scratch/mpich/include -L/nowhere -lmpich"
expect 'mpich:mpich openmpi:openmpi '
rm bin/mpicc.mpich
wrapper mpiicx -show "icx -I\\\"$scratch/intel/include\\\" -lmpi"
expect 'mpich:intel openmpi:openmpi '
rm bin/mpiicx
variables=(LANG=C CRAY_MPICH_DIR="$scratch/mpich")
expect 'mpich:mpich openmpi:openmpi '
expect '' -DTAPER_MPICC=OFF
variables=(LANG=C)
expect 'mpich:intel openmpi:openmpi ' -DTAPER_MPICC="$scratch/intel/include"
if plugins -DTAPER_MPICC=/nowhere/mpicc > /dev/null; then fail "took an MPI compiler that is not there"; fi
