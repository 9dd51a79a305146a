"""torch.profiler: what a program spends its time on."""

from taper.autograd.profiler import record_function
from taper.profiler.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    _KinetoProfile,
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from taper.profiler import itt, profiler

__all__ = [
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "record_function",
    "ExecutionTraceObserver",
    "itt",
    "profiler",
]
