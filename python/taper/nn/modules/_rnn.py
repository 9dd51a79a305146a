"""Recurrent layers: what the stanzas of tables/layers/rnn.layer cannot say of RNN, LSTM, GRU and of their single
steps."""

import math

from taper import _C
from taper._C import _functions as _op
from taper.nn import init
from taper.nn.parameter import Parameter
from taper.nn.utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RecurrentMethods:
    """Layers of a recurrent network, forward and, if bidirectional, backward in time. Weights are named weight_ih_l0,
    weight_hh_l0_reverse, ..."""

    __slots__ = ()

    def _check_settings(self):
        dropout = self.dropout
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and self.num_layers == 1:
            import warnings

            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
                "expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={self.num_layers}",
                stacklevel=5,
            )
        for name in ("bias", "batch_first", "bidirectional"):
            flag = getattr(self, name)
            if not isinstance(flag, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
        for name in ("input_size", "hidden_size", "num_layers"):
            size = getattr(self, name)
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _make_weights(self, device, dtype):
        self._check_settings()
        self.dropout = float(self.dropout)
        hidden_size, proj_size, directions = self.hidden_size, self.proj_size, 2 if self.bidirectional else 1
        self._flat_weights_names = []
        gates, out = _GATES[self.mode] * hidden_size, proj_size or hidden_size
        for layer in range(self.num_layers):
            for suffix in ("", "_reverse") if self.bidirectional else ("",):
                width = self.input_size if layer == 0 else out * directions
                shapes = [("weight_ih", (gates, width)), ("weight_hh", (gates, out))]
                shapes += [("bias_ih", (gates,)), ("bias_hh", (gates,))] if self.bias else []
                shapes += [("weight_hr", (proj_size, hidden_size))] if proj_size else []
                for kind, shape in shapes:
                    name = f"{kind}_l{layer}{suffix}"
                    setattr(self, name, Parameter(_op["empty"](shape, device=device, dtype=dtype)))
                    self._flat_weights_names.append(name)
        self.reset_parameters()

    @property
    def _flat_weights(self):
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self):
        per = (4 if self.bias else 2) + (1 if self.proj_size else 0)
        flat = self._flat_weights
        return [flat[i : i + per] for i in range(0, len(flat), per)]

    def __getstate__(self):
        """With the two lists that PyTorch's layers keep, so that PyTorch can load a whole layer."""
        per = len(self.all_weights[0])
        names = [self._flat_weights_names[i : i + per] for i in range(0, len(self._flat_weights_names), per)]
        return {**self.__dict__, "_all_weights": names, "_flat_weights": self._flat_weights}

    def __setstate__(self, state):
        super().__setstate__(
            {
                name: value
                for name, value in state.items()
                if name not in ("_all_weights", "_flat_weights", "_flat_weight_refs")
            }
        )

    def flatten_parameters(self):
        """Parameters may lie anywhere in memory."""

    def reset_parameters(self):
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _states(self):
        """(size, count) of the hidden states."""
        return [self.proj_size or self.hidden_size] + ([self.hidden_size] if self.mode == "LSTM" else [])

    def _zeros(self, batch, like):
        directions = 2 if self.bidirectional else 1
        made = [
            _op["zeros"](self.num_layers * directions, batch, size, dtype=like.dtype, device=like.device)
            for size in self._states()
        ]
        return tuple(made) if self.mode == "LSTM" else made[0]

    def _check(self, states, batch):
        directions = 2 if self.bidirectional else 1
        for i, (state, size) in enumerate(zip(states, self._states())):
            expected = (self.num_layers * directions, batch, size)
            if tuple(state.shape) != expected:
                raise RuntimeError(
                    f"Expected hidden[{i}] size {expected}, got {list(state.shape)}"
                    if self.mode == "LSTM"
                    else f"Expected hidden size {expected}, got {list(state.shape)}"
                )

    def _check_input(self, input, packed):
        if not packed and input.dim() not in (2, 3):
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        if input.dtype != self._flat_weights[0].dtype and not _C.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype "
                f"({self._flat_weights[0].dtype}). Convert input: input.to({self._flat_weights[0].dtype}), "
                "or convert model: model.to(" + str(input.dtype) + ")"
            )

    def forward(self, input, hx=None):
        packed = isinstance(input, PackedSequence)
        data = input.data if packed else input
        self._check_input(data, packed)
        batched = packed or data.dim() == 3
        if not batched:
            data = data.unsqueeze(0 if self.batch_first else 1)
        batch = int(input.batch_sizes[0]) if packed else data.shape[0 if self.batch_first else 1]
        if hx is None:
            hx = self._zeros(batch, data)
        else:
            states = hx if self.mode == "LSTM" else (hx,)
            wanted = 3 if batched else 2
            if any(state.dim() != wanted for state in states):
                found = (
                    f"({', '.join(f'{state.dim()}-D' for state in states)}) tensors"
                    if self.mode == "LSTM"
                    else f"{hx.dim()}-D tensor"
                )
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, "
                    f"hx{' and cx' if self.mode == 'LSTM' else ''} should also be {wanted}-D but got {found}"
                )
            if not batched:
                states = tuple(state.unsqueeze(1) for state in states)
            if packed and input.sorted_indices is not None:
                states = tuple(state.index_select(1, input.sorted_indices) for state in states)
            hx = states if self.mode == "LSTM" else states[0]
        self._check(hx if self.mode == "LSTM" else (hx,), batch)
        output, *states = self._run(input, data, list(hx) if self.mode == "LSTM" else hx, packed)
        if packed:
            output = PackedSequence(output, *input[1:])
            if input.unsorted_indices is not None:
                states = [state.index_select(1, input.unsorted_indices) for state in states]
        elif not batched:
            output, states = output.squeeze(0 if self.batch_first else 1), [state.squeeze(1) for state in states]
        return output, tuple(states) if self.mode == "LSTM" else states[0]

    def _run(self, input, data, hx, packed):
        operator, rest = (
            _op[self.mode.lower()],
            (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional),
        )
        if packed:
            return operator(data, input.batch_sizes, hx, self._flat_weights, *rest)
        return operator(data, hx, self._flat_weights, *rest, self.batch_first)


_CELLS = ("rnn_tanh_cell", "rnn_relu_cell", "lstm_cell", "gru_cell")


class CellMethods:
    """One step of a recurrent layer."""

    __slots__ = ()

    def _step(self, name, input, hx, count):
        if name not in _CELLS:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        if input.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        for i, state in enumerate(() if hx is None else hx if count > 1 else (hx,)):
            if state.dim() not in (1, 2):
                which = f"hx[{i}]" if count > 1 else "hidden"
                raise ValueError(f"{self._get_name()}: Expected {which} to be 1D or 2D, got {state.dim()}D instead")
        single = input.dim() == 1
        if single:
            input = input.unsqueeze(0)
        if hx is None:
            states = [_op["zeros"](input.shape[0], self.hidden_size, dtype=input.dtype, device=input.device)] * count
        else:
            states = [state.unsqueeze(0) if single else state for state in (hx if count > 1 else (hx,))]
        result = _op[name](
            input, states if count > 1 else states[0], self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )
        results = tuple(result) if count > 1 else (result,)
        results = tuple(r.squeeze(0) for r in results) if single else results
        return results if count > 1 else results[0]
