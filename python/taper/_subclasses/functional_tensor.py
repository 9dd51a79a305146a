"""torch._subclasses.functional_tensor: tensors by which PyTorch's compiler turns writes into copies. Captures here need
none, so nothing is one."""

__all__ = ["FunctionalTensor", "FunctionalTensorMode"]


class FunctionalTensor:
    """A class to ask for with isinstance."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError("FunctionalTensor: no tensor here is wrapped to be functional")


class FunctionalTensorMode:
    """The mode that would make them."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError("FunctionalTensorMode: no tensor here is wrapped to be functional")
