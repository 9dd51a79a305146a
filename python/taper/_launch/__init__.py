"""`taper launch`: the processes of one node of a job, with torchrun's options and variables (options.py), each bound to
its processors (binding.py), watched and started again (agent.py), their output shown and kept (output.py). Nodes of a
job agree through meeting.py."""

import sys


def arguments(parser):
    """Adds torchrun's options, and those of Taper's own."""
    from taper._launch.options import add_arguments

    add_arguments(parser)
    parser.usage = f"{parser.prog} [options] [script.py | -m module] [arguments]"


def main(options):
    """`taper launch`: runs what the options say on this node; the exit status."""
    return _run(options, False)


def torchrun(options):
    """`taper torchrun`: the same with torchrun's own defaults."""
    return _run(options, True)


def _run(options, torchrun):
    from taper._launch.agent import Agent
    from taper._launch.options import settle_parsed

    return Agent(settle_parsed(options, torchrun)).run()


def run_module():
    """`python -m torch.distributed.run`, torchrun's other name."""
    from taper._launch.options import get_args_parser

    sys.exit(torchrun(get_args_parser("torchrun").parse_args(sys.argv[1:])))
