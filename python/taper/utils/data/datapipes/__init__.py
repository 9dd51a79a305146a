"""torch.utils.data.datapipes: datasets in steps that are put together, each reading from the one before."""

from taper.utils.data.datapipes import iter, map  # noqa: F401,A004
