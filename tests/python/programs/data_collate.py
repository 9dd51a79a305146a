"""What becomes of samples in a batch."""

from collections import OrderedDict, namedtuple

import numpy as np
import torch
from torch.utils.data import default_collate, default_convert
from torch.utils.data._utils.collate import collate, default_collate_fn_map

Pair = namedtuple("Pair", "a b")
print(default_collate([Pair(1, {"x": torch.ones(2), "s": "hi"}), Pair(2, {"x": torch.zeros(2), "s": "ho"})]))
print(default_collate([[1, 2.5, True], [3, 4.5, False]]), default_collate([b"a", b"b"]), default_collate([True, False]))
print(default_collate([1, 2.5]), default_collate([1.0, 2]), default_collate([range(3), range(3)]))
ordered = default_collate([OrderedDict(z=1, a=(1, 2)), OrderedDict(z=3, a=(4, 5))])
print(type(ordered).__name__, list(ordered.items()))  # how one prints changed in Python 3.12
print(default_collate([np.float32(1), np.float32(2)]), default_collate([np.ones(2), np.zeros(2)]))
print(
    default_collate([np.bool_(True), np.bool_(False)]),
    default_collate([np.int16(3)] * 2),
    default_collate([np.float64(3)] * 2),
)
print(default_convert({"a": np.ones(2), "b": (np.float32(1), "s"), "c": [np.array(["x"])], "d": Pair(np.int64(1), 2)}))


class Point:
    def __init__(self, x):
        self.x = x


print(
    collate(
        [{"p": Point(1)}, {"p": Point(2)}],
        collate_fn_map={Point: lambda batch, *, collate_fn_map: [point.x for point in batch]},
    )
)
print(
    collate(
        [(Point(1), 2), (Point(3), 4)],
        collate_fn_map={**default_collate_fn_map, Point: lambda batch, *, collate_fn_map: "points"},
    )
)
for wrong in ([None], [object()], [2j], [], [np.array(["a"])], [np.array([None])], [[1], [1, 2]], [{"a": 1}, {"b": 2}]):
    try:
        print(default_collate(wrong))
    except Exception as error:
        print(type(error).__name__, str(error).split(" at 0x")[0])
