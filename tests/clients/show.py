"""What the programs of this folder print: named numbers, as one line of JSON that run.py compares with those recorded
from PyTorch."""

import json


def _plain(value):
    if hasattr(value, "detach"):
        value = value.detach().cpu().double() if value.is_floating_point() else value.detach().cpu()
        value = value.reshape(-1)[:16].tolist()
    return [float(v) for v in value] if isinstance(value, (list, tuple)) else [float(value)]


def show(**numbers):
    """Prints the first sixteen numbers of each value."""
    print("NUMBERS " + json.dumps({name: _plain(value) for name, value in numbers.items()}), flush=True)
