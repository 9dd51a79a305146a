"""torch.distributed.run: torchrun under its module's name, `python -m torch.distributed.run`."""

from taper._launch import run_module as main
from taper._launch.options import get_args_parser

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def parse_args(args):
    """torchrun's options as a namespace."""
    return get_args_parser().parse_args(args)


def run(args):
    """Runs what a namespace of torchrun's options says on this node; ChildFailedError where a rank fails."""
    from taper._launch.agent import Agent
    from taper._launch.options import settle_parsed

    status = Agent(settle_parsed(args, torchrun=True)).run()
    if status:
        from taper.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

        raise ChildFailedError(
            getattr(args, "training_script", "run"), {0: ProcessFailure(0, 0, status, message=f"exit status {status}")}
        )


if __name__ == "__main__":
    main()
