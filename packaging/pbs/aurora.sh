#!/bin/bash -l
# Aurora: 6 GPUs of 2 tiles and 104 cores per node; a rank for each tile, with the eight cores that are nearest to it.
#   qsub -A PROJECT -v SCRIPT="train.py --epochs 10",VENV=$HOME/env aurora.sh
#PBS -N taper
#PBS -l select=2
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -l filesystems=home:flare
#PBS -q debug-scaling
set -eu
cd "${PBS_O_WORKDIR:-.}"

module load frameworks || echo "WARNING: module load frameworks failed: the job goes on with what PATH has" >&2
# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }

export TAPER_CACHE=/tmp/taper-${PBS_JOBID%%.*}
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET
export ZE_FLAT_DEVICE_HIERARCHY=FLAT # a tile is a device
export TAPER_GPU_VENDOR=intel TAPER_GPUS=12
# MPI carries the messages: what the site's page sets for libfabric is for it. oneCCL is not used, and reads no variable here.
export FI_MR_CACHE_MONITOR=userfaultfd FI_CXI_DEFAULT_CQ_SIZE=1048576 FI_CXI_RX_MATCH_MODE=hybrid FI_CXI_OFLOW_BUF_SIZE=8388608

nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
# Cores 0 and 52 are left to the system.
bind=verbose,list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100
mpiexec -n $((nodes * 12)) --ppn 12 --cpu-bind "${CPU_BIND:-$bind}" \
    "${TAPER_PACKAGING:-$(dirname "$(command -v taper)")/../share/taper/packaging}/one-gpu-per-rank" taper run ${SCRIPT:-"$@"}
