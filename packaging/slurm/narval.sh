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

module load StdEnv/2023 cuda nccl python taper || echo "WARNING: module load StdEnv/2023 cuda nccl python taper failed: the job goes on with what PATH has" >&2
command -v taper > /dev/null || { echo "taper is not in PATH: name its module, or its environment, above this line" >&2; exit 127; }
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
