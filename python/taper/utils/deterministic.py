"""torch.utils.deterministic: whether memory without values is filled while algorithms are deterministic."""

import sys
from types import ModuleType

from taper import _C


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Do torch.empty, resize_ and their kin fill their memory with NaN and the largest integers then?"""
        return _C._get_fill_uninitialized()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        _C._set_fill_uninitialized(mode)


sys.modules[__name__].__class__ = _Deterministic
