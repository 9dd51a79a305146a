"""Stands for srun, mpiexec or aprun (first argument): starts the ranks of one node, after writing down how it was called.
A step of one task per node, as scripts run to prepare, runs once."""

import json
import os
import subprocess
import sys

FLAGS = {"srun": set(), "mpiexec": {"-n", "--ppn", "--cpu-bind"}, "aprun": {"-n", "-N", "-d", "-j", "-cc", "-e"}}


def options_of(name, args):
    """The launcher's options, and the command behind them."""
    options, at = {}, 0
    while at < len(args) and args[at].startswith("-"):
        key, equals, value = args[at].partition("=")
        if not equals and key in FLAGS[name]:
            at += 1
            value = args[at]
        if key == "-e":
            os.environ.update([value.split("=", 1)])
        else:
            options[key] = value
        at += 1
    return options, args[at:]


def ranks_to_start(name, options):
    if options.get("--ntasks-per-node") == "1":
        return 1
    if name == "srun" and os.environ.get("SLURM_NTASKS_PER_NODE") == "1":
        return 1
    return int(options.get("-n", os.environ.get("SLURM_NTASKS", 1)))


def variables(name, i, count):
    if name == "srun":
        return dict(SLURM_PROCID=i, SLURM_LOCALID=i, SLURM_STEP_ID=0, SLURM_STEP_NUM_TASKS=count, SLURM_NODEID=0)
    if name == "mpiexec":
        pals = dict(PALS_RANKID=i, PALS_LOCAL_RANKID=i, PALS_SIZE=count, PALS_LOCAL_SIZE=count)
        return dict(**pals, PMI_RANK=i, PMI_SIZE=count)
    return dict(ALPS_APP_PE=i)


name = sys.argv[1]
options, command = options_of(name, sys.argv[2:])
with open(os.environ["STAND_IN_LOG"], "a") as file:
    file.write(json.dumps([name, options, command]) + "\n")
count = ranks_to_start(name, options)
started = []
for i in range(count):
    own = {key: str(value) for key, value in variables(name, i, count).items()}
    started.append(subprocess.Popen(command, env={**os.environ, **own}))
sys.exit(max(process.wait() for process in started))
