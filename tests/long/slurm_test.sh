#!/usr/bin/env bash
# A Slurm of two nodes on this machine, for real: munge, slurmctld and two slurmd in a scratch folder, on the loopback and on ports of their own. Ranks are started by plain srun (Slurm's
# variables alone), by srun with PMIx and PMI-2, and by job scripts of packaging/ through sbatch. Signals of the scheduler lead to a checkpoint that the next job goes on from, and a
# rank that dies takes its step down.
set -eu
[ -d "$TAPER_BUILD_DIR/python/taper" ] || { echo "SKIPPED: this build has no Python package"; exit 77; }
for program in munged slurmctld slurmd srun sbatch; do
    command -v $program > /dev/null || { echo "SKIPPED: $program is not on this machine (Debian: munge slurmctld slurmd slurm-client)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: Slurm's daemons want root"; exit 77; }
host=$(hostname -s)
python=$(sed -n 's/^_*Python3_EXECUTABLE:[A-Z]*=//p' "$TAPER_BUILD_DIR/CMakeCache.txt" | head -1)
scratch=$(mktemp -d)
cd "$scratch"
fail() { echo "FAILED: $1"; tail -n 5 slurmctld.log slurmd-*.log 2> /dev/null || true; exit 1; }
cleanup() {
    trap - EXIT
    [ ! -e slurmctld.pid ] || timeout 20 scancel --state=RUNNING,PENDING --full 2> /dev/null || true
    for pid in slurmd-*.pid slurmctld.pid munged.pid; do
        [ -e "$pid" ] || continue
        daemon=$(cat "$pid")
        kill "$daemon" 2> /dev/null || true
        for _ in $(seq 50); do kill -0 "$daemon" 2> /dev/null && sleep 0.1 || break; done
    done
    cd / && rm -rf "$scratch"
}
trap cleanup EXIT

# ---- The cluster. The nodes' names are addresses of this machine, so that ranks find the first node by its name; each says that it has four processors. ----
ports=$(PYTHONPATH=$TAPER_BUILD_DIR/python "${python:-python3}" -c 'from taper._launch.options import free_port
ports = set()
while len(ports) < 3: ports.add(free_port())
print(*sorted(ports))')
read -r control first second <<< "$ports"
cat > slurm.conf << END_OF_CONF
ClusterName=taper
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmctldPort=$control
AuthType=auth/munge
AuthInfo=socket=$scratch/munge.socket
CredType=cred/munge
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool-%n
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd-%n.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=127.0.0.[1-2] NodeHostname=$host Port=$first,$second CPUs=4 State=UNKNOWN
PartitionName=standard Nodes=ALL Default=YES MaxTime=10 State=UP
END_OF_CONF
export SLURM_CONF=$scratch/slurm.conf OMP_NUM_THREADS=1 PYTHONPATH=$TAPER_BUILD_DIR/python USER=${USER:-root} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir state bin
dd if=/dev/urandom of=key bs=1024 count=1 2> /dev/null && chmod 400 key
started=yes
munged --force --key-file="$scratch/key" --socket="$scratch/munge.socket" --pid-file="$scratch/munged.pid" --log-file="$scratch/munged.log" --seed-file="$scratch/seed" 2> munged.txt \
    && slurmctld 2> slurmctld.txt && slurmd -N 127.0.0.1 2> slurmd.txt && slurmd -N 127.0.0.2 2>> slurmd.txt || started=no
for _ in $(seq 100); do
    [ $started = no ] && break
    [ "$(sinfo -h -t idle -o %D 2> /dev/null)" = 2 ] && started=ready && break
    sleep 0.2
done
[ $started = ready ] || { echo "SKIPPED: this machine does not let Slurm's daemons run: $(cat munged.txt slurm*.txt; tail -n 3 slurm*.log 2> /dev/null)"; exit 77; }
printf '#!/bin/sh\nexec "%s" -m taper "$@"\n' "${python:-python3}" > bin/taper
chmod +x bin/taper
export PATH=$scratch/bin:$PATH

cp "$TAPER_SOURCE_DIR/tests/long/slurm/sum.py" sum.py
cp "$TAPER_SOURCE_DIR/tests/long/slurm/train.py" train.py

# ---- Steps ----
four() { # what, the lines of four ranks, the engine, a file
    [ "$(grep -c '^rank [0-3] sum 4 ' "$4")" = 4 ] && [ "$(grep -c "by $3 on" "$4")" = 4 ] || fail "$1: $(cat "$4")"
}
timeout 60 srun -N 2 -n 4 --ntasks-per-node=2 taper run sum.py gloo > plain.txt 2>&1 || fail "plain srun: $(cat plain.txt)"
four "plain srun" 4 tcp plain.txt
grep -q "^rank 2 sum 4 local 0 by tcp on 127.0.0.2" plain.txt || fail "local ranks of the second node: $(cat plain.txt)"
if srun --mpi=list 2>&1 | grep -q pmix && [ -e "$TAPER_BUILD_DIR/libtaper-mpi-openmpi.so" ]; then
    timeout 60 srun --mpi=pmix -N 1 -n 4 taper run sum.py none > pmix.txt 2>&1 || fail "srun --mpi=pmix: $(cat pmix.txt)"
    four "srun --mpi=pmix" 4 openmpi pmix.txt
else
    echo "SKIPPED in part: no PMIx, or no OpenMPI"
fi
if [ -e "$TAPER_BUILD_DIR/libtaper-mpi-mpich.so" ]; then
    TAPER_MPI=mpich timeout 60 srun --mpi=pmi2 -N 1 -n 4 taper run sum.py mpi > pmi2.txt 2>&1 || fail "srun --mpi=pmi2: $(cat pmi2.txt)"
    four "srun --mpi=pmi2" 4 mpich pmi2.txt
else
    echo "SKIPPED in part: no MPICH"
fi
! timeout 60 srun --kill-on-bad-exit=0 -N 2 -n 4 taper run sum.py gloo --die > death.txt 2>&1 || fail "a rank died and srun ended well: $(cat death.txt)"
[ "$(grep -c "taper: rank [013]: rank 2 (host .* died: .*it \(came to\|left\) number 1" death.txt)" = 3 ] || fail "a rank's death is not told by all others: $(cat death.txt)"

# ---- Jobs. $1 says what the job is waited for, $2 its output ----
wait_for() {
    for _ in $(seq 600); do
        grep -q "$1" "$2" 2> /dev/null && return
        sleep 0.1
    done
    fail "'$1' did not come: $(cat "$2" 2> /dev/null)"
}
wait_job() {
    for _ in $(seq 900); do
        [ -n "$(squeue -h -j "$1" 2> /dev/null)" ] || return 0
        sleep 0.1
    done
    fail "job $1 does not end: $(cat "$2")"
}
scripts=$TAPER_SOURCE_DIR/packaging/slurm
# lumi-c.sh: ranks by srun. SIGUSR1 as `scancel` and a preemption send it.
job=$(sbatch --parsable -N 2 --ntasks-per-node=2 --cpus-per-task=1 --time=5 --output=first.txt "$scripts/lumi-c.sh" train.py 100000 0.01)
wait_for "rank 3 of 4 begins at 0" first.txt
scancel -s USR1 "$job"
wait_job "$job" first.txt
step=$(sed -n 's/^rank 0 ends at \([0-9]*\), preempted$/\1/p' first.txt)
[ -n "$step" ] && [ "$(grep -c "^rank [0-3] ends at $step, preempted$" first.txt)" = 4 ] || fail "SIGUSR1 did not lead to a checkpoint: $(cat first.txt)"
# It goes on from there on half the ranks, by launch-per-node.sh: `taper launch` hands the signal on that --signal asks for before the job's time is over.
job=$(RANKS_PER_NODE=1 sbatch --parsable -N 2 --time=2 --signal=USR1@90 --output=second.txt "$scripts/launch-per-node.sh" train.py 100000 0.01)
wait_for "rank 1 of 2 begins at $step" second.txt
wait_job "$job" second.txt
later=$(sed -n 's/^rank 0 ends at \([0-9]*\), preempted$/\1/p' second.txt)
[ -n "$later" ] && [ "$later" -gt "$step" ] || fail "--signal did not lead to a checkpoint: $(cat second.txt)"
[ -e "logs-$job" ] || fail "launch-per-node.sh kept no logs"
# The third job needs no signal.
job=$(sbatch --parsable -N 1 --ntasks-per-node=3 --cpus-per-task=1 --time=2 --output=third.txt "$scripts/lumi-c.sh" train.py $((later + 10)) 0)
wait_job "$job" third.txt
[ "$(grep -c "^rank [0-2] of 3 begins at $later" third.txt)" = 3 ] && [ "$(grep -c "^rank [0-2] ends at $((later + 10)), done" third.txt)" = 3 ] || fail "the third job: $(cat third.txt)"
echo "Slurm: srun, PMIx, PMI-2, a death, job scripts, and checkpoints at steps $step and $later are well"
