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


class UserError(Unsupported):
    """What the program asks for in a way that cannot be."""

    def __init__(self, error_type, msg, case_name=None):
        super().__init__(msg)
        self.error_type = error_type
