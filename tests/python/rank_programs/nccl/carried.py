"""Runs another program of rank_programs/, with its arguments; NCCL must have carried more operations than the first
argument says."""

from nccl_begin import by_nccl
import os
import runpy
import sys

wanted, path = int(sys.argv[1]), sys.argv[2]
sys.argv[:] = sys.argv[2:]
sys.path.insert(0, os.path.dirname(path))
runpy.run_path(path)
assert by_nccl() > wanted, by_nccl()
