"""Prints what the launcher told this rank."""

import json
import os
import sys

NAMES = """RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE ROLE_NAME
MASTER_ADDR MASTER_PORT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID OMP_NUM_THREADS"""
about = {name: os.environ.get(name) for name in NAMES.split()}
print(json.dumps({**about, "argv": sys.argv[1:], "cpus": sorted(os.sched_getaffinity(0))}), flush=True)
