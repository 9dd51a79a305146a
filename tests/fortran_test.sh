#!/usr/bin/env bash
# The Fortran module and its example: a network trained on a Fortran array, by one process and under each MPI that is there; all ranks end with the
# same weights, and two runs with the same bits.
set -eu
command -v gfortran > /dev/null || { echo "SKIPPED: gfortran is not on this machine"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAILED: $1"; exit 1; }
cd "$scratch"
gfortran -Wall -Werror -Wno-error=maybe-uninitialized -O1 "$TAPER_SOURCE_DIR/include/taper/taper.f90" "$TAPER_SOURCE_DIR/examples/fortran/wave.f90" \
    -L"$TAPER_BUILD_DIR" -ltaper -Wl,-rpath,"$TAPER_BUILD_DIR" -o wave
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

check() { # lines of all ranks: as many as there are ranks, a loss that fell, one checksum
    [ "$(grep -c '^rank ' "$1")" = "$2" ] || fail "expected $2 ranks: $(cat "$1")"
    [ "$(sed 's/.*weights//' "$1" | sort -u | wc -l)" = 1 ] || fail "ranks differ: $(cat "$1")"
    awk '{ if (!($6 > 10 * $8)) exit 1 }' <(tr -d , < "$1") || fail "the loss did not fall: $(cat "$1")"
}
./wave > one.txt || fail "alone: $(cat one.txt)"
check one.txt 1
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
