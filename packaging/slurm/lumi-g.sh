#!/bin/bash
# LUMI's GPU partition: 8 GPUs (dies) and 56 usable cores per node; each rank gets one die and the seven cores that are nearest to it.
#   sbatch --account=project_46... lumi-g.sh train.py --epochs 10
#SBATCH --job-name=taper
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --output=%x-%j.out
# Two minutes before the end SIGUSR1 reaches every rank: taper.preempted() is true from then on.
set -eu

module load LUMI partition/G rocm || echo "WARNING: module load LUMI partition/G rocm failed: the job goes on with what PATH has" >&2
# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }

# Between nodes RCCL goes over Slingshot by its libfabric plug-in, a module of the site's; without it, over sockets, which is slow.
module load aws-ofi-rccl || echo "WARNING: module load aws-ofi-rccl failed: RCCL goes over sockets between nodes" >&2

# Nodes have no disk: what is compiled at run time goes to memory, a folder per job.
export TAPER_CACHE=/tmp/$USER-$SLURM_JOB_ID
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET
export MIOPEN_USER_DB_PATH=$TAPER_CACHE/miopen MIOPEN_CUSTOM_CACHE_DIR=$TAPER_CACHE/miopen
srun --ntasks-per-node=1 mkdir -p "$MIOPEN_USER_DB_PATH"

# Die 0 is nearest to cores 49-55, die 1 to 57-63, and so on: the order of the masks is that of the dies. Core 0 of each eight is the system's.
bind=mask_cpu:fe000000000000,fe00000000000000,fe0000,fe000000,fe,fe00,fe00000000,fe0000000000
export NCCL_SOCKET_IFNAME=hsn0,hsn1,hsn2,hsn3 NCCL_NET_GDR_LEVEL=3
# Taper hands MPI the host's memory alone. Where a module sets this to 1, Cray's MPI_Init ends a program that is not linked with its
# library for GPUs.
export MPICH_GPU_SUPPORT_ENABLED=0
export TAPER_GPU_VENDOR=amd TAPER_GPUS=8

srun --cpu-bind=$bind "${TAPER_PACKAGING:-$(dirname "$(command -v taper)")/../share/taper/packaging}/one-gpu-per-rank" taper run "$@"
