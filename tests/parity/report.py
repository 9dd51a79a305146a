#!/usr/bin/env python3
"""Writes docs/parity.md (what differs from the recorded PyTorch answers, with the reason) and the lists of how many
cases of each name are right: right.txt for operators, right_module.txt for layers, right_optim.txt and
right_schedule.txt for optimisers and learning-rate schedules.

  .venv/bin/python tests/parity/report.py
It fails where fewer cases are right than a list says; `--accept` writes the lists all the same. Reasons stand in
reasons.txt: `name: why`."""

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
        if run.returncode or not run.stdout:
            sys.exit(run.stdout + run.stderr)
        return json.loads(pathlib.Path(out.name).read_text()), run.stdout.strip().splitlines()[-1]


def reasons():
    lines = (
        line.split(":", 1)
        for line in (HERE / "reasons.txt").read_text().splitlines()
        if ":" in line and not line.startswith("#")
    )
    return {name.strip(): why.strip() for name, why in lines}


def line(name, kinds):
    return name + "".join(f" {kind}={right}/{of}" for kind, (right, of) in sorted(kinds.items())) + "\n"


def section(heading, word, list_name, check, why):
    """A part of the page; its list of how much is right is written anew."""
    found, totals = measure(*check)
    first, names = found["first"], found.get("operators") or found["names"]
    file = HERE / list_name
    if file.exists() and "--accept" not in sys.argv:
        measure(*check, "--require", file)
    file.write_text("".join(line(name, names[name]) for name in sorted(names)))
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
of schedules learning rates. tests/parity/record.py recorded it; check.py and check_nn.py ask the same of Taper, and the tests fail when fewer cases are right than before.
"""
    beyond = """
## PyTorch's own samples

Of 13,681 sample inputs that PyTorch's tests have for its operators, 13,643 give PyTorch's values on the CPU, and 2,000 of 2,010 of their gradients (2026-11-18). The rest:

| what differs | samples | why |
|---|---|---|
| 16-bit results of `conv_transpose`, `grid_sample`, `hinge_embedding_loss` | 12 | PyTorch rounds in between, or computes coordinates in 16 bits; Taper rounds once |
| `broadcast_shapes` | 10 | recorded as a tuple; both give a `torch.Size` |
| eigenvectors of `eig` and `eigh` | 9 | signs are free, and LAPACK libraries differ |
| `sort`, `argsort` of equal elements | 4 | Taper's order is stable, PyTorch's is not unless `stable=True` |
| `matrix_exp` in bfloat16 | 2 | refused; PyTorch gives NaN |
| `scaled_dot_product_attention` with dropout | 1 | the draw was not recorded |
| gradients of `as_strided_scatter` | 5 | Taper's are the derivative (checked by differences), PyTorch's are not |
| gradients of `max_pool2d_with_indices_backward` | 5 | Taper gives none |
"""
    (ROOT / "docs" / "parity.md").write_text(text + "".join(section(*part, why) for part in PARTS) + beyond)


if __name__ == "__main__":
    main()
