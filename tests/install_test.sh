#!/usr/bin/env bash
# What a user gets from `make install`: installs to a fresh prefix, then builds and runs an outside project against it, by CMake's
# find_package, by pkg-config and from C++. The command and the Python package run with nothing but the prefix, and by its module
# files where a module system is there. Checks the library's face too: its names, its dependencies, its size, its headers.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
fail() { echo "FAILED: $1"; exit 1; }

cmake --install "$TAPER_BUILD_DIR" --prefix "$prefix" > "$scratch/install.log" || { cat "$scratch/install.log"; exit 1; }
library=$(find "$prefix" -name 'libtaper.so')
folder=$(dirname "$library")
pkgconfig=$(dirname "$(find "$prefix" -name taper.pc)")

echo "the installed pages link to what is installed"
python3 - "$prefix" << 'END' || fail "dead links in installed pages"
import pathlib
import re
import sys

pages = [p for p in pathlib.Path(sys.argv[1]).rglob("*.md") if "/share/doc/" in str(p)]
dead = [
    (str(page), target)
    for page in pages
    for target in re.findall(r"\]\(([^()\s]+)\)", page.read_text())
    if not re.match(r"[a-z]+:|#", target) and not (page.parent / target.split("#")[0]).exists()
]
for found in dead:
    print(*found)
sys.exit(len(pages) < 30 or bool(dead))
END
data=$(find "$prefix" -path '*/examples/data/train-images.idx.gz')
[ -n "$data" ] || fail "the data of the examples is not installed"

version=$(PKG_CONFIG_PATH=$pkgconfig pkg-config --modversion taper)

echo "the README is for those who find Taper installed"
readme=$(find "$prefix" -path '*/share/doc/*/README.md' -not -path '*/examples/*')
grep -q 'module load taper' "$readme" || fail "the installed README does not say how to load Taper"
! grep -qE 'make (demo|test)|git clone' "$readme" || fail "the installed README begins with building"

look_at_python() {
    echo "the command and the package, with nothing but the prefix"
    name=$(sed -n '1s/.* //p' "$prefix/bin/taper") # python3.11
    package=$prefix/lib/$name/site-packages
    mkdir "$scratch/bin" "$scratch/work" && cd "$scratch/work"
    ln -s "$("$TAPER_SOURCE_DIR/.venv/bin/python" -c 'import sys; print(sys._base_executable)')" "$scratch/bin/$name"
    cp "$TAPER_SOURCE_DIR/tests/install/look.py" .
    with_prefix() { env -u PYTHONPATH -u LD_LIBRARY_PATH PATH="$scratch/bin:$prefix/bin:/usr/bin:/bin" "$@"; }
    with_prefix taper run look.py "$package" "$folder" children > looked.txt || fail "taper run in the prefix returned $?"
    [ "$(tail -1 looked.txt)" = "$package/taper/__init__.py" ] || fail "a process that it starts has another taper"
    with_prefix taper train digits --epochs 1 > train.txt || fail "taper train digits returned $?"
    with_prefix taper launch --nproc 2 look.py "$package" "$folder" > launched.txt || fail "taper launch returned $?"
    [ "$(find "$package" -name '*.pyc' | wc -l)" -gt 500 ] || fail "the package is not compiled ahead"

    echo "module files, where they lie"
    modules=$prefix/share/taper/packaging/modulefiles
    grep -q "^set prefix $prefix\$" "$modules/taper/$version" || fail "the Tcl module file does not name the prefix"
    grep -q "or \"$prefix\"\$" "$modules/taper/$version.lua" || fail "the Lua module file does not name the prefix"
    for modulecmd in /usr/lib/*/modulecmd.tcl /usr/share/lmod/lmod/libexec/lmod; do
        [ -x "$modulecmd" ] || continue
        echo "  by $modulecmd"
        (
            eval "$(MODULEPATH=$modules "$modulecmd" bash load taper)"
            PATH=$scratch/bin:$PATH
            [ "$("$name" -c 'import taper; print(taper.__file__)')" = "$package/taper/__init__.py" ] || fail "import taper does not find the prefix"
            [ "$(command -v taper)" = "$prefix/bin/taper" ] && [ "$(taper --version)" = "taper $version" ] || fail "taper is not the prefix's"
            [ "$(realpath "$(pkg-config --variable=prefix taper)")" = "$(realpath "$prefix")" ] || fail "pkg-config finds another prefix"
        )
    done
}
# Builds for sanitizers and other compilers have the C library alone.
has_python=no
if grep -q "^TAPER_PYTHON:BOOL=ON" "$TAPER_BUILD_DIR/CMakeCache.txt"; then
    has_python=yes
    look_at_python
else
    [ ! -e "$prefix/bin/taper" ] || fail "the command is there without its package"
fi

mkdir "$scratch/project" && cd "$scratch/project"
cp "$TAPER_SOURCE_DIR"/tests/install/main.* .

echo "CMake: find_package(Torch), with a program for LibTorch"
if command -v g++ > /dev/null; then
    mkdir torch
    cp "$TAPER_SOURCE_DIR/examples/cpp/device.cpp" torch
    cat > torch/CMakeLists.txt << 'END'
cmake_minimum_required(VERSION 3.16)
project(device)
find_package(Torch REQUIRED)
add_executable(device device.cpp)
target_link_libraries(device "${TORCH_LIBRARIES}")
set_property(TARGET device PROPERTY CXX_STANDARD 14)
END
    cmake -G Ninja -S torch -B torch/build -DCMAKE_PREFIX_PATH="$prefix/share/taper/cmake" > torch.log &&
        cmake --build torch/build >> torch.log || { cat torch.log; exit 1; }
    ./torch/build/device > torch.txt || fail "device returned $?"
    printf 'on cpu\n 0.4963  0.7682  0.0885\n 0.1320  0.3074  0.6341\n[ CPUFloatType{2,3} ]\n' | diff - torch.txt ||
        [ -e /dev/nvidia0 ] || fail "device says something else than under LibTorch"
fi

echo "CMake: find_package(Taper)"
cat > CMakeLists.txt << END
cmake_minimum_required(VERSION 3.22)
project(outside C)
find_package(Taper $version REQUIRED)
add_executable(outside main.c)
target_compile_definitions(outside PRIVATE VERSION="$version")
target_link_libraries(outside PRIVATE Taper::taper)
END
cmake -G Ninja -B build -DCMAKE_PREFIX_PATH="$prefix" > cmake.log && cmake --build build >> cmake.log || { cat cmake.log; exit 1; }
./build/outside || fail "the CMake project returned $?"

echo "pkg-config"
flags=$(PKG_CONFIG_PATH=$pkgconfig pkg-config --cflags --libs taper)
"$CC" -Wall -Wextra -Werror -DVERSION="\"$version\"" main.c $flags -Wl,-rpath,"$folder" -o outside-pkg
./outside-pkg || fail "the pkg-config project returned $?"

echo "a moved prefix"
mv "$prefix" "$scratch/elsewhere"
moved=${pkgconfig/#$prefix/$scratch/elsewhere}
read -ra moved_flags <<< "$(PKG_CONFIG_PATH=$moved pkg-config --cflags --libs taper)"
"$CC" -DVERSION="\"$version\"" main.c "${moved_flags[@]}" -o outside-moved
LD_LIBRARY_PATH=${folder/#$prefix/$scratch/elsewhere} ./outside-moved || fail "the moved installation returned $?"
[ "$has_python" = no ] || [ "$(with_prefix "$scratch/elsewhere/bin/taper" --version)" = "taper $version" ] || fail "the moved command does not run"
mv "$scratch/elsewhere" "$prefix"

echo "C++"
if command -v g++ > /dev/null; then
    g++ -Wall -Wextra -Werror main.cpp $flags -Wl,-rpath,"$folder" -o outside-cpp
    ./outside-cpp || fail "the C++ program returned $?"
fi

echo "Fortran"
if command -v gfortran > /dev/null; then
    mkdir fortran
    printf 'program outside\n    use taper\n    implicit none\n    type(tp_tensor) :: y\n    y = tp_sum(2 * tp_ones([2, 3]))\n    if (y%%item() /= 12) error stop 2\nend program\n' > fortran/main.f90
    printf 'cmake_minimum_required(VERSION 3.22)\nproject(outside Fortran)\nfind_package(Taper REQUIRED)\nadd_executable(outside main.f90)\ntarget_link_libraries(outside PRIVATE Taper::fortran)\n' > fortran/CMakeLists.txt
    cmake -G Ninja -S fortran -B fortran/build -DCMAKE_PREFIX_PATH="$prefix" > cmake.log && cmake --build fortran/build >> cmake.log || { cat cmake.log; exit 1; }
    ./fortran/build/outside || fail "the Fortran program returned $?"
    [ -e "$(PKG_CONFIG_PATH=$pkgconfig pkg-config --variable=fortran taper)" ] || fail "pkg-config does not name the Fortran module"
fi

echo "headers, alone and pedantic"
for compiler in gcc clang; do
    command -v $compiler > /dev/null || continue
    for header in "$prefix"/include/taper/*.h; do
        $compiler -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$prefix/include" -fsyntax-only -x c - <<< "#include <taper/$(basename "$header")>" ||
            fail "$header is not clean under $compiler"
    done
done

echo "exported names, dependencies, size"
others=$(nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /^tp_/ { print $3 }')
[ -z "$others" ] || fail "names other than tp_ are exported: $others"
cat "$prefix"/include/taper/*.h | grep -oE '^TP_API [^;(]*\(' | grep -oE 'tp_[A-Za-z0-9_]+\($' | tr -d '(' | sort -u > "$scratch/declared"
nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u > "$scratch/exported"
missing=$(comm -23 "$scratch/declared" "$scratch/exported")
[ -s "$scratch/declared" ] && [ -z "$missing" ] || fail "declared but not exported: $missing"
[ "$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" = "libtaper.so.${version%%.*}" ] || fail "the soname is wrong"
needed=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
case $needed in *libstdc++* | *libc++* | *libdnnl*) fail "needs a C++ runtime: $needed" ;; esac
strip -o "$scratch/stripped.so" "$library"
size=$(stat -c %s "$scratch/stripped.so")
[ "$size" -le 16777216 ] || fail "the stripped library has $size bytes, more than 16 MB"
echo "needs: $(echo $needed); stripped: $size bytes"
