"""torch.distributed.pipelining: a model cut into stages, on each rank one or several, that work on the parts of a batch
one after the other."""

from taper.distributed.pipelining._split import Pipe, SplitPoint, build_stage, pipe_split, pipeline  # noqa: F401
from taper.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleLoopedBFS,
)  # noqa: F401
from taper.distributed.pipelining.stage import PipelineStage  # noqa: F401

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleLoopedBFS",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]
