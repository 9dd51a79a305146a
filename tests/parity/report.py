#!/usr/bin/env python3
"""Writes docs/parity.md (what differs from the recorded PyTorch answers, with the reason) and right.txt (the operators with every case right).

  .venv/bin/python tests/parity/report.py
An operator that was right and no longer is fails; `--accept` takes it off the list. Reasons stand in reasons.txt: `operator: why`."""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def measure():
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run = subprocess.run([sys.executable, HERE / "check.py", "--module", "taper", "--quiet", "--json", out.name], capture_output=True, text=True)
        if not run.stdout:
            sys.exit(run.stderr)
        return json.loads(pathlib.Path(out.name).read_text()), run.stdout.strip().splitlines()[-1]


def reasons():
    lines = (line.split(":", 1) for line in (HERE / "reasons.txt").read_text().splitlines() if ":" in line and not line.startswith("#"))
    return {name.strip(): why.strip() for name, why in lines}


def main():
    found, totals = measure()
    first, why = found["first"], reasons()
    right = sorted(set(found["operators"]) - set(first))
    before = (HERE / "right.txt").read_text().split() if (HERE / "right.txt").exists() else []
    lost = sorted(set(before) - set(right))
    if lost and "--accept" not in sys.argv:
        sys.exit("right before, and no longer: " + " ".join(lost))
    (HERE / "right.txt").write_text("\n".join(right) + "\n")
    rows = [f"| `{name}` | {first[name].replace('|', '/')[:160]} | {why.get(name, why.get(name.split('.')[0] + '.*', ''))} |" for name in sorted(first)]
    text = f"""# Parity with PyTorch

Written by tests/parity/report.py: do not edit. What PyTorch 2.15 answers was recorded for {found['of']} operators on the CPU (values and dtypes, gradients, in-place
forms, methods, errors, seeded streams); tests/parity/check.py asks the same of Taper, and the tests fail when an operator that was right no longer is.

**{totals}**

What differs, the first case of each:

| operator | what differs | why |
|---|---|---|
""" + "\n".join(rows) + "\n"
    (ROOT / "docs" / "parity.md").write_text(text)
    print(totals)


if __name__ == "__main__":
    main()
