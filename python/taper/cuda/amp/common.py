"""Whether mixed precision on a GPU can be had at all."""


def amp_definitely_not_available():
    from taper import cuda

    return not cuda.is_available()
