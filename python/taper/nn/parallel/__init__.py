"""torch.nn.parallel: one module on several devices of this process."""
from taper.nn.parallel.data_parallel import DataParallel, data_parallel  # noqa: F401
