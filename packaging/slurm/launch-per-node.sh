#!/bin/bash
# Any Slurm machine: one `taper launch` per node, which starts and watches the ranks of its node, starts all again after a failure, and keeps a log per rank.
#   sbatch launch-per-node.sh train.py --epochs 10
#SBATCH --job-name=taper
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=01:00:00
#SBATCH --signal=USR1@120
#SBATCH --output=%x-%j.out
set -eu

# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }

# What is compiled at run time goes to the nodes' own disks.
export TAPER_CACHE=${TMPDIR:-/tmp}/$USER-taper-$SLURM_JOB_ID
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET

# All of a node is the launcher's: its ranks share it out. Sites that count GPUs want --gpus-per-node too.
# Node numbers, and the host that all meet at, come from Slurm's variables.
srun --kill-on-bad-exit=1 taper launch --nnodes="$SLURM_NNODES" --nproc="${RANKS_PER_NODE:-auto}" --max-restarts="${RESTARTS:-3}" --cpu-bind=cores \
    --log-dir="logs-$SLURM_JOB_ID" "$@"
