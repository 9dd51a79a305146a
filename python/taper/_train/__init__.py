"""`taper train`: the shipped examples, for people without a script."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = {
    "digits": "a convolutional network on handwritten digits",
    "shakespeare": "a small GPT on Shakespeare's plays, character by character",
}


def _parser(example):
    import argparse

    parser = argparse.ArgumentParser(prog=f"taper train {example}", description=EXAMPLES[example].capitalize() + ".")
    parser.add_argument("--out", metavar="FOLDER", help=f"where checkpoints and logs go (default: runs/{example})")
    parser.add_argument("--resume", action="store_true", help="go on from the folder's last checkpoint")
    parser.add_argument("--data", metavar="FOLDER", help="the data, if not the data that came with Taper")
    parser.add_argument("--epochs", type=int, metavar="N")
    parser.add_argument("--batch-size", type=int, metavar="N")
    parser.add_argument("--lr", type=float, metavar="RATE", help="the highest learning rate")
    parser.add_argument("--most", type=int, metavar="N", help="train on the first N samples alone")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--threads", type=int, metavar="N", help="default: one per core")
    parser.add_argument(
        "--save-every", type=int, default=100, metavar="STEPS", help="steps between checkpoints (default: 100)"
    )
    return parser


def train(arguments):
    """The command; the exit status."""
    example = arguments[0] if arguments else "--help"
    if example not in EXAMPLES:
        helping = example in ("--help", "-h")
        print(
            "usage: taper train EXAMPLE [options]; `taper train EXAMPLE --help` lists the options\n",
            file=sys.stdout if helping else sys.stderr,
        )
        for name, what in EXAMPLES.items():
            print(f"  {name:12s} {what}", file=sys.stdout if helping else sys.stderr)
        if not helping:
            print(f"\ntaper train: there is no example '{example}'", file=sys.stderr)
        return 0 if helping else 2
    options = _parser(example).parse_args(arguments[1:])
    options.out = options.out or os.path.join("runs", example)
    options.data = options.data or os.path.join(HERE, "data")
    from importlib import import_module

    import taper

    if options.threads:
        taper.set_num_threads(options.threads)
    taper.manual_seed(options.seed)
    try:
        import_module("taper._train." + example).main(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"taper train {example}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"\nstopped; `taper train {example} --out {options.out} --resume` goes on from the last checkpoint",
            file=sys.stderr,
        )
        return 130
    return 0
