#!/bin/bash -l
# Polaris: 4 A100 and 32 cores per node, a rank for each GPU.
# Two nodes of the queue for trials; `-q prod` takes ten and more: qsub -q prod -l select=16:system=polaris ...
#   qsub -A PROJECT -v SCRIPT="train.py --epochs 10",VENV=$HOME/env polaris.sh
#PBS -N taper
#PBS -l select=2:system=polaris
#PBS -l place=scatter
#PBS -l walltime=01:00:00
#PBS -l filesystems=home:eagle
#PBS -q debug-scaling
set -eu
cd "${PBS_O_WORKDIR:-.}"

module use /soft/modulefiles || echo "WARNING: module use /soft/modulefiles failed" >&2
module load cudatoolkit-standalone || echo "WARNING: module load cudatoolkit-standalone failed: the job goes on with what PATH has" >&2
# Taper itself is in a Python environment of yours (VENV=$HOME/env), or a module of the site's.
if [ -n "${VENV:-}" ]; then
    . "$VENV/bin/activate"
else
    module load taper || echo "WARNING: module load taper failed: the job goes on with what PATH has" >&2
fi
command -v taper > /dev/null || { echo "taper is not in PATH: VENV=FOLDER names a Python environment that has it" >&2; exit 127; }

# Between nodes NCCL goes over Slingshot by its libfabric plug-in; without it, over sockets, which is slow. Where a program hangs in it, leave NCCL_NET unset.
plugin=/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib
if [ -d "$plugin" ]; then
    export LD_LIBRARY_PATH=$plugin:/soft/libraries/hwloc/lib:${LD_LIBRARY_PATH:-} NCCL_NET="AWS Libfabric"
else
    echo "WARNING: $plugin is not there: NCCL goes over sockets between nodes" >&2
fi

# The nodes' own disks.
export TAPER_CACHE=/local/scratch/taper-${PBS_JOBID%%.*}
# Ranks prove to each other that they are of this job: nobody else who reaches their ports is let in.
TAPER_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -vtx1 | tr -d ' \n')
export TAPER_JOB_SECRET
export NCCL_NET_GDR_LEVEL=PHB NCCL_CROSS_NIC=1 NCCL_COLLNET_ENABLE=1 FI_CXI_DISABLE_HOST_REGISTER=1 FI_CXI_DEFAULT_CQ_SIZE=131072 FI_MR_CACHE_MONITOR=userfaultfd

# Several ranks may share a GPU: RANKS_PER_GPU=2 makes eight per node, of four cores each.
nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
export TAPER_GPU_VENDOR=nvidia TAPER_GPUS=4 TAPER_RANKS_PER_GPU=${RANKS_PER_GPU:-1}
per_node=$((TAPER_GPUS * TAPER_RANKS_PER_GPU))
depth=$((32 / per_node))

# GPU 3 is nearest to the first eight cores. CPU_BIND takes another binding, as the site's page has it: CPU_BIND=verbose,list:0,8,16,24
export TAPER_GPU_ORDER=reversed
mpiexec -n $((nodes * per_node)) --ppn $per_node --depth=$depth --cpu-bind "${CPU_BIND:-depth}" \
    "${TAPER_PACKAGING:-$(dirname "$(command -v taper)")/../share/taper/packaging}/one-gpu-per-rank" taper run ${SCRIPT:-"$@"}
