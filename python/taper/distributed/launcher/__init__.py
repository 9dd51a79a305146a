"""torch.distributed.launcher: starting ranks from within a program."""

from taper.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent  # noqa: F401
