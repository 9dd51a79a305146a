"""Programs whose state changes between calls, for torch.compile: test_compile_state.py runs each,
tests/long/compile_programs.py thousands of combinations."""

from state import classes, flags, functions, hidden, objects, outside, random_numbers, tensors  # noqa: F401
from state.base import PLAIN, SOURCES, reset  # noqa: F401
