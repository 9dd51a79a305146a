"""Fails in a function under `record`."""

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    raise KeyError("column")


main()
