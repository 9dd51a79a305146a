"""torch.distributed.run: torchrun under its module's name, `python -m torch.distributed.run`."""
from taper._launch import main
from taper._launch.options import get_args_parser

__all__ = ["get_args_parser", "main", "parse_args"]


def parse_args(args):
    """torchrun's options as a namespace."""
    return get_args_parser().parse_args(args)


if __name__ == "__main__":
    main()
