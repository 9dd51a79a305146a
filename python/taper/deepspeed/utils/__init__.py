"""deepspeed.utils: its logger, and whole weights from checkpoints (zero_to_fp32)."""

import logging

logger = logging.getLogger("DeepSpeed")


def log_dist(message, ranks=None, level=logging.INFO):
    """Logs on some ranks; on all for None or [-1]."""
    from taper import distributed as dist

    rank = dist.get_rank() if dist.is_initialized() else 0
    if not ranks or -1 in ranks or rank in ranks:
        logger.log(level, "[Rank %d] %s", rank, message)
