"""`taper launch`: the processes of one node of a job, with torchrun's options and variables (options.py), each bound to its processors
(binding.py), watched and started again (agent.py), their output shown and kept (output.py). Nodes of a job agree through meeting.py."""

import sys


def launch(arguments, program="taper launch", torchrun=False):
    """Runs what the arguments say on this node; the exit status."""
    from taper._launch.agent import Agent
    from taper._launch.options import settle

    return Agent(settle(arguments, program, torchrun)).run()


def main():
    """`python -m torch.distributed.run`, torchrun's other name."""
    return sys.exit(launch(sys.argv[1:], "torchrun", torchrun=True))
