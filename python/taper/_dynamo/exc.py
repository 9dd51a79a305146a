"""torch._dynamo.exc: the errors of torch.compile."""


class TorchDynamoException(RuntimeError):
    """An error of torch.compile."""


class InvalidBackend(TorchDynamoException):
    def __init__(self, name):
        super().__init__(f"Invalid backend: {name!r}. See `torch._dynamo.list_backends()` for available backends.")


class BackendCompilerFailed(TorchDynamoException):
    """A backend failed."""


class Unsupported(TorchDynamoException):
    """What cannot go into a graph."""


class InternalTorchDynamoError(TorchDynamoException):
    """A mistake of the compiler's own."""
