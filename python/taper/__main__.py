"""The `taper` command, also `python -m taper`."""

import sys

from taper import _command


def main(arguments=None):
    """Runs a command; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = arguments[0] if arguments else "--help"
    try:
        if command in _command.COMMANDS:
            status = _command.dispatch(command, arguments[1:])
        elif command in ("--version", "-V"):
            from taper._report import version

            print(f"taper {version()}")
            status = 0
        elif command in (*_command.HELP, "help"):
            _command.build_parser().print_help()
            status = 0
        else:
            status = _command.unknown(command)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `taper names | head` reads a few lines
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
