"""Meets, then writes the job's secret to a file of this rank and attempt; the first attempt fails."""

import os

import job  # noqa: F401

secret = os.environ["TAPER_JOB_SECRET"]
assert len(bytes.fromhex(secret)) == 32
with open(os.environ["SECRETS"] + f"/{os.environ['RANK']}.{os.environ['TORCHELASTIC_RESTART_COUNT']}", "w") as file:
    file.write(secret)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os._exit(3)
