"""torch.distributed.launch, the way before torchrun: scripts get --local-rank=N as their first argument, unless
--use-env is given."""

import sys

__all__ = ["main"]


def main(args=None):
    """Runs the launcher and leaves with its status."""
    from taper._launch.agent import Agent
    from taper._launch.options import get_args_parser, settle

    given = sys.argv[1:] if args is None else list(args)
    at = next((i for i, text in enumerate(given) if text in ("--use-env", "--use_env")), None)
    script = get_args_parser().parse_args([text for text in given if text not in ("--use-env", "--use_env")])
    before_script = len(given) - len(script.training_script_args) - 1
    own = at is not None and at < before_script
    asked = settle(given[:at] + given[at + 1 :] if own else given, "torch.distributed.launch", torchrun=True)
    asked.pass_local_rank = not own
    sys.exit(Agent(asked).run())


if __name__ == "__main__":
    main()
