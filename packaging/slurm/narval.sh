#!/bin/bash
# Narval: 4 A100 and 48 cores per node, a rank for each GPU, data and caches on the node's own disk.
#   sbatch --account=def-... narval.sh train.py --epochs 10
#SBATCH --job-name=taper
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=12
#SBATCH --gpus-per-node=a100:4
#SBATCH --mem=0
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --output=%x-%j.out
set -eu

module load StdEnv/2023 cuda nccl python || echo "WARNING: module load StdEnv/2023 cuda nccl python failed: the job goes on with what PATH has" >&2
# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }
export TAPER_CACHE=$SLURM_TMPDIR/taper
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET

# An archive of many small files is read from the parallel file system once, and unpacked on each node.
if [ -n "${DATA_TAR:-}" ]; then
    srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 tar -xf "$DATA_TAR" -C "$SLURM_TMPDIR"
fi

# One GPU per rank; all four stay in sight, so that NCCL may use NVLink, and scripts choose by LOCAL_RANK (SLURM_LOCALID).
unset OMP_NUM_THREADS
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --cpu-bind=cores taper run "$@"
