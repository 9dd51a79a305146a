#!/bin/bash
# Theta: 64 KNL cores per node under Cobalt and aprun; four ranks of sixteen cores, two threads on each, as the site's page asks.
#   qsub -A PROJECT --env SCRIPT="train.py --epochs 10":VENV=$HOME/env theta.sh
#COBALT -n 2
#COBALT -t 60
#COBALT -q default
#COBALT --attrs mcdram=cache:numa=quad:filesystems=home,theta-fs0
set -eu
cd "${COBALT_WORKDIR:-.}"

# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }
export TAPER_CACHE=/tmp/taper-$COBALT_JOBID # in memory: nodes have no disk
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET

# aprun tells a process its number and nothing more.
per_node=4
export WORLD_SIZE=$((COBALT_JOBSIZE * per_node)) LOCAL_WORLD_SIZE=$per_node
export MASTER_PORT=$((20000 + COBALT_JOBID % 20000))
shared=$PWD/.taper-$COBALT_JOBID
aprun -n 1 -N 1 hostname > "$shared"
MASTER_ADDR=$(head -n 1 "$shared")
export MASTER_ADDR
rm -f "$shared"

# Two threads per core keep a KNL's vector units busy; Taper counts a core once unless it is told the number. KMP_BLOCKTIME=0 is
# for libraries that bring Intel's OpenMP along: their threads sleep when they wait, as Taper's own do.
threads=$((64 / per_node * 2))
aprun -n "$WORLD_SIZE" -N $per_node -d $threads -j 2 -cc depth \
    -e OMP_NUM_THREADS=$threads -e KMP_BLOCKTIME=0 \
    sh -c 'export RANK=$ALPS_APP_PE LOCAL_RANK=$((ALPS_APP_PE % LOCAL_WORLD_SIZE)); exec taper run "$@"' taper ${SCRIPT:-"$@"}
