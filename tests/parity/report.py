#!/usr/bin/env python3
"""Writes docs/parity.md (what differs from the recorded PyTorch answers, with the reason) and the lists of what has every case right:
right.txt for operators, right_module.txt for layers, right_optim.txt and right_schedule.txt for optimisers and learning-rate schedules.

  .venv/bin/python tests/parity/report.py
What was right and no longer is fails; `--accept` takes it off its list. Reasons stand in reasons.txt: `name: why`."""

import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# What is asked: (heading, its word in the table, the list of what is right, the checker with its arguments)
PARTS = [
    ("Operators", "operator", "right.txt", ["check.py"]),
    ("Layers", "layer", "right_module.txt", ["check_nn.py", "--kind", "module"]),
    ("Optimisers", "optimiser", "right_optim.txt", ["check_nn.py", "--kind", "optim"]),
    ("Learning-rate schedules", "schedule", "right_schedule.txt", ["check_nn.py", "--kind", "schedule"]),
]


def measure(program, *args):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run = subprocess.run(
            [sys.executable, HERE / program, "--module", "taper", "--quiet", "--json", out.name, *args],
            capture_output=True,
            text=True,
        )
        if not run.stdout:
            sys.exit(run.stderr)
        return json.loads(pathlib.Path(out.name).read_text()), run.stdout.strip().splitlines()[-1]


def reasons():
    lines = (
        line.split(":", 1)
        for line in (HERE / "reasons.txt").read_text().splitlines()
        if ":" in line and not line.startswith("#")
    )
    return {name.strip(): why.strip() for name, why in lines}


def section(heading, word, list_name, check, why):
    """A part of the page; its list of what is right is written anew."""
    found, totals = measure(*check)
    first, names = found["first"], found.get("operators") or found["names"]
    right = sorted(set(names) - set(first))
    file = HERE / list_name
    lost = sorted(set(file.read_text().split() if file.exists() else []) - set(right))
    if lost and "--accept" not in sys.argv:
        sys.exit("right before, and no longer: " + " ".join(lost))
    file.write_text("\n".join(right) + "\n" if right else "")
    print(totals)
    rows = [
        f"| `{name}` | {first[name].replace('|', '/')[:160]} | {why.get(name, why.get(name.split('.')[0] + '.*', ''))} |"
        for name in sorted(first)
    ]
    table = (
        f"\nWhat differs, the first case of each:\n\n| {word} | what differs | why |\n|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
        if rows
        else ""
    )
    return f"\n## {heading}\n\n**{totals}**\n{table}"


def main():
    why = reasons()
    text = """# Parity with PyTorch

Written by tests/parity/report.py: do not edit. What PyTorch 2.15 answers was recorded on the CPU: of operators values and dtypes, gradients, in-place
forms, methods, errors and seeded streams; of layers outputs, parameter gradients, state_dict and repr; of optimisers parameters after steps and their state;
of schedules learning rates. tests/parity/check.py and check_nn.py ask the same of Taper, and the tests fail when what was right no longer is.
"""
    (ROOT / "docs" / "parity.md").write_text(text + "".join(section(*part, why) for part in PARTS))


if __name__ == "__main__":
    main()
