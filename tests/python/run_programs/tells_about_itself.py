"""Says what a script sees of itself; fails or ends as its argument asks."""

import sys
import os

if len(sys.argv) > 1 and sys.argv[1] == "fail":

    def inner():
        raise ValueError("on purpose")

    inner()
print(
    __name__,
    os.path.isabs(__file__),
    __file__,
    sys.argv,
    sys.path[0],
    __spec__ and __spec__.name,
    __package__,
    sorted(globals()),
)
sys.exit(int(sys.argv[1]))
