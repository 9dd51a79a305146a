"""deepspeed.comm: torch.distributed under DeepSpeed's name."""

from taper.distributed import *  # noqa: F401,F403
from taper.deepspeed import init_distributed  # noqa: F401
from taper.distributed._alone import local_rank as get_local_rank  # noqa: F401
