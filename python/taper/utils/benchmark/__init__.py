"""torch.utils.benchmark: how long statements take, and tables that lay them side by side."""

from taper.utils.benchmark.compare import Compare  # noqa: F401
from taper.utils.benchmark.measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)  # noqa: F401
from taper.utils.benchmark.timer import Language, Timer, set_torch_threads, timer  # noqa: F401
