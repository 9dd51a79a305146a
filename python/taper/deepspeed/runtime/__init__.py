"""deepspeed.runtime: see lr_schedules."""
