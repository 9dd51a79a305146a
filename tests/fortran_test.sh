#!/usr/bin/env bash
# The Fortran module: what each part promises (tests/fortran/face.f90) and the examples, by each compiler that is there. The data parallel one runs
# as one process and under each MPI that is there: all ranks end with the same weights, and two runs with the same bits.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $1"; exit 1; }
cd "$scratch"
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
examples=$TAPER_SOURCE_DIR/examples/fortran
module=$TAPER_BUILD_DIR/generated/include/taper/taper.f90

check() { # lines of all ranks: as many as there are ranks, a loss that fell, one checksum
    [ "$(grep -c '^rank ' "$1")" = "$2" ] || fail "expected $2 ranks: $(cat "$1")"
    [ "$(sed 's/.*weights//' "$1" | sort -u | wc -l)" = 1 ] || fail "ranks differ: $(cat "$1")"
    awk '{ if (!($6 > 10 * $8)) exit 1 }' <(tr -d , < "$1") || fail "the loss did not fall: $(cat "$1")"
}
compile() { # program, source
    "${compiler[@]}" "$2" taper.o -L"$TAPER_BUILD_DIR" -ltaper -Wl,-rpath,"$TAPER_BUILD_DIR" -o "$1" || fail "$1 does not compile"
}
found=
for compiler in "gfortran -std=f2018 -Wall -Werror -Wno-maybe-uninitialized -Wno-uninitialized" flang-22; do
    read -r -a compiler <<< "$compiler"
    command -v "${compiler[0]}" > /dev/null || continue
    found=yes
    rm -f ./*.mod ./*.o digits.pt
    "${compiler[@]}" -O0 -c "$module" || fail "the module does not compile"
    compile face "$TAPER_SOURCE_DIR/tests/fortran/face.f90"
    ./face > face.txt || fail "face: $(cat face.txt)"
    [ "$(cat face.txt)" = "the Fortran module holds" ] || fail "${compiler[0]}: $(cat face.txt)"
    for name in regression heat wave digits; do
        compile $name "$examples/$name.f90"
    done
    for name in regression heat; do
        ./$name > $name.txt 2>&1 || fail "$name: $(cat $name.txt)"
    done
    ./digits "$TAPER_SOURCE_DIR/examples/data" 1 > digits.txt 2>&1 || fail "digits: $(cat digits.txt)"
    ./digits "$TAPER_SOURCE_DIR/examples/data" 1 >> digits.txt 2>&1 || fail "digits again: $(cat digits.txt)"
    grep -q "epoch 2" digits.txt || fail "the second run did not go on from the checkpoint: $(cat digits.txt)"
    ./wave > one.txt || fail "alone: $(cat one.txt)"
    check one.txt 1
done
[ "$found" ] || { echo "SKIPPED: there is no Fortran compiler on this machine"; exit 77; }
for launcher in "openmpi mpirun.openmpi --oversubscribe" "mpich mpiexec.mpich"; do
    read -r mpi command rest <<< "$launcher"
    if ! command -v "$command" > /dev/null || [ ! -e "$TAPER_BUILD_DIR/libtaper-mpi-$mpi.so" ]; then
        echo "SKIPPED: $command or its engine is not on this machine"
        continue
    fi
    for run in 1 2; do
        # shellcheck disable=SC2086
        "$command" $rest -n 3 ./wave > "$mpi.$run.txt" 2> errors.txt || fail "$mpi: $(cat "$mpi.$run.txt" errors.txt)"
        check "$mpi.$run.txt" 3
    done
    diff <(sort "$mpi.1.txt") <(sort "$mpi.2.txt") || fail "$mpi: two runs differ"
done
cat ./*.txt
