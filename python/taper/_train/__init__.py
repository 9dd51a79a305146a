"""`taper train`: the shipped examples, for people without a script."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = {
    "digits": "a convolutional network on handwritten digits",
    "shakespeare": "a small GPT on Shakespeare's plays, character by character",
}


def arguments(parser):
    """Adds what `taper train` takes."""
    add = parser.add_argument
    shown = "; ".join(f"{name}, {what}" for name, what in EXAMPLES.items())
    add("example", metavar="EXAMPLE", choices=list(EXAMPLES), help=shown)
    add("--out", metavar="FOLDER", help="where checkpoints and logs go (default: runs/EXAMPLE)")
    add("--resume", action="store_true", help="go on from the folder's last checkpoint")
    add("--data", metavar="FOLDER", help="the data, if not the data that came with Taper")
    add("--epochs", type=int, metavar="N", help="times over the data")
    add("--batch-size", type=int, metavar="N", help="samples of a step")
    add("--lr", type=float, metavar="RATE", help="the highest learning rate")
    add("--most", type=int, metavar="N", help="train on the first N samples alone")
    add("--seed", type=int, default=0, metavar="N", help="of the random numbers (default: 0)")
    add("--threads", type=int, metavar="N", help="default: one per core")
    add("--save-every", type=int, default=100, metavar="STEPS", help="steps between checkpoints (default: 100)")


def main(options):
    """The command; the exit status."""
    example = options.example
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
