"""The `taper` command, also `python -m taper`."""

import sys

USAGE = """usage: taper COMMAND

  run script.py [arguments]   run a script that says `import torch`, unchanged; also -m module, -c command, - (standard input)
  torch install               make `import torch` be Taper's in this environment, for plain `python`; also remove, status, wheel DIR
  launch --nproc N script.py  the same as N processes that work together, with torchrun's options; taper launch --help; also taper torchrun
  profile script.py           the same, and where its time went: operators, bandwidth, FLOP/s, memory, threads; taper profile --help
  train EXAMPLE               train a shipped example: digits, shakespeare
  watch [RUN...]              draw the curves of TensorBoard logs in the terminal; taper watch --help
  names [pattern]             what is covered of PyTorch's names: taper names, taper names torch.linalg, taper names softmax
  info                        the version, the processor, devices, libraries and Python
  --version, --help
"""


def _listing(command, *arguments):
    """A command that prints many lines, of which `| head` may read a few."""
    try:
        status = command(*arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def main(arguments=None):
    """Runs a command; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = arguments[0] if arguments else "--help"
    if command == "run":
        from taper._run import run

        return run(arguments[1:])
    if command == "torch":
        from taper._torch_install import torch

        return torch(arguments[1:])
    if command in ("launch", "torchrun"):
        from taper._launch import launch

        return launch(arguments[1:], f"taper {command}", command == "torchrun")
    if command == "profile":
        from taper._profile import profile

        return profile(arguments[1:])
    if command == "train":
        from taper._train import train

        return train(arguments[1:])
    if command == "watch":
        from taper._watch import watch

        return watch(arguments[1:])
    if command == "names":
        from taper._covered import names

        return _listing(names, arguments[1:])
    if command == "info":
        from taper._report import info

        return _listing(info)
    if command in ("--version", "-V"):
        from taper._report import version

        print(f"taper {version()}")
        return 0
    print(USAGE, end="", file=sys.stdout if command in ("--help", "-h", "help") else sys.stderr)
    if command in ("--help", "-h", "help"):
        return 0
    print(f"taper: there is no command '{command}'", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
