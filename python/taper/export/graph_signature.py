"""torch.export.graph_signature: what the placeholders and outputs of an exported graph are."""

import enum
from dataclasses import dataclass
from typing import Any

InputKind = enum.Enum("InputKind", "USER_INPUT PARAMETER BUFFER CONSTANT_TENSOR CUSTOM_OBJ TOKEN", module=__name__)
OutputKind = enum.Enum(
    "OutputKind",
    "USER_OUTPUT LOSS_OUTPUT BUFFER_MUTATION PARAMETER_MUTATION GRADIENT_TO_PARAMETER GRADIENT_TO_USER_INPUT "
    "USER_INPUT_MUTATION TOKEN",
    module=__name__,
)


@dataclass
class TensorArgument:
    name: str


@dataclass
class ConstantArgument:
    name: str
    value: Any


@dataclass
class InputSpec:
    """A placeholder; target is the name of a parameter or buffer."""

    kind: InputKind
    arg: Any
    target: "str | None" = None
    persistent: "bool | None" = None

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """A result of the graph."""

    kind: OutputKind
    arg: Any
    target: "str | None" = None

    def __str__(self):
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


class ExportGraphSignature:
    """What the graph's placeholders and outputs are."""

    def __init__(self, parameters, buffers, user_inputs, user_outputs, hidden=()):
        self.parameters, self.buffers = tuple(parameters.values()), tuple(buffers.values())
        self.inputs_to_parameters, self.inputs_to_buffers = dict(parameters), dict(buffers)
        self.user_inputs, self.user_outputs, self.buffers_to_mutate = tuple(user_inputs), tuple(user_outputs), {}
        self.lifted_tensor_constants = ()
        self.non_persistent_buffers = tuple(name for name in self.buffers if name in hidden)

    @property
    def input_specs(self):
        """All placeholders in order."""
        parameters, buffers = self.inputs_to_parameters.items(), self.inputs_to_buffers.items()
        return [
            *(InputSpec(InputKind.PARAMETER, TensorArgument(name), target) for name, target in parameters),
            *(
                InputSpec(InputKind.BUFFER, TensorArgument(name), target, target not in self.non_persistent_buffers)
                for name, target in buffers
            ),
            *(InputSpec(InputKind.USER_INPUT, TensorArgument(name)) for name in self.user_inputs),
        ]

    @property
    def output_specs(self):
        return [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name)) for name in self.user_outputs]

    def __repr__(self):
        return (
            f"ExportGraphSignature(parameters={list(self.parameters)}, buffers={list(self.buffers)}, "
            f"user_inputs={list(self.user_inputs)}, user_outputs={list(self.user_outputs)})"
        )
