"""torch.distributed.pipelining: a model cut into stages, one per rank, that work on the parts of a batch one after the other."""
from taper.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe  # noqa: F401
from taper.distributed.pipelining.stage import PipelineStage  # noqa: F401

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
