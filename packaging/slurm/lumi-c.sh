#!/bin/bash
# LUMI's CPU partition: 128 cores per node, a rank for each NUMA domain of 16.
#   sbatch --account=project_46... lumi-c.sh train.py --epochs 10
#SBATCH --job-name=taper
#SBATCH --partition=standard
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --output=%x-%j.out
set -eu

module load LUMI partition/C || echo "WARNING: module load LUMI partition/C failed: the job goes on with what PATH has" >&2
# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }
export TAPER_CACHE=/tmp/$USER-$SLURM_JOB_ID
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET

# Threads per rank come from the mask that srun gives it.
unset OMP_NUM_THREADS
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores --hint=nomultithread taper run "$@"
