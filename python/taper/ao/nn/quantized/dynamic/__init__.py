"""torch.ao.nn.quantized.dynamic: weights are whole numbers of eight bits; inputs are rounded by what each call
brings."""

import taper
from taper import nn
from taper._quantized import choose_scale, per_tensor_affine, qint8, quantize_per_tensor


def _of_weight(weight):
    """A weight in 8 bits, symmetric about zero."""
    scale = (weight.abs().max() / 127.5).clamp(min=1.1920928955078125e-07)
    return quantize_per_tensor(weight, scale, 0, qint8)


def _of_input(x):
    """An input as whole numbers of seven bits, less the zero point, and their scale, as PyTorch rounds it where not
    every processor has products of eight."""
    scale, zero_point = choose_scale(x.min().item(), x.max().item(), 0, 127)
    return (x / scale).round().add(zero_point).clamp(0, 127) - zero_point, scale


class _Kept(nn.Module):
    """What a module keeps for its state_dict beside parameters and buffers: `_kept`, a dict."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination.update((prefix + name, value) for name, value in self._kept.items())

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        for name in self._kept:
            if prefix + name in state_dict:
                self._kept[name] = state_dict[prefix + name]
            elif strict:
                missing.append(prefix + name)

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"


class Linear(_Kept):
    """A linear layer of 8-bit weights, or of 16-bit floats."""

    def __init__(self, in_features, out_features, bias_=True, dtype=qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0
        self._set(taper.zeros(out_features, in_features), taper.zeros(out_features) if bias_ else None, dtype)

    def _set(self, weight, bias, dtype):
        kept = _of_weight(weight.detach().float()) if dtype is qint8 else weight.detach().half()
        self._kept = {
            "scale": taper.tensor(self.scale),
            "zero_point": taper.tensor(self.zero_point),
            "_packed_params.dtype": dtype,
            "_packed_params._packed_params": (kept, None if bias is None else bias.detach().clone()),
        }

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False, dtype=qint8):
        made = cls(mod.in_features, mod.out_features, mod.bias is not None, dtype)
        made._set(mod.weight, mod.bias, dtype)
        return made

    def weight(self):
        return self._kept["_packed_params._packed_params"][0]

    def bias(self):
        return self._kept["_packed_params._packed_params"][1]

    def forward(self, x):
        weight, bias = self._kept["_packed_params._packed_params"]
        if self._kept["_packed_params.dtype"] is not qint8:
            return nn.functional.linear(x, weight.to(x.dtype), bias)
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise RuntimeError(f"expected input of {self.in_features} features, got shape {list(x.shape)}")
        numbers, scale = _of_input(x.detach())
        rows = numbers.to(taper.int8).reshape(-1, self.in_features)
        product = taper._int_mm(rows, weight.int_repr().t()).to(x.dtype)
        made = product.reshape(*x.shape[:-1], self.out_features) * (scale * weight.q_scale())
        return made if bias is None else made + bias

    def _get_name(self):
        return "DynamicQuantizedLinear"

    def extra_repr(self):
        dtype = self._kept["_packed_params.dtype"]
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={dtype}"
        return text + f", qscheme={per_tensor_affine}" if dtype is qint8 else text


class _Recurrent(_Kept):
    """A recurrent layer whose weights are kept in few bits and turned back when it runs; inputs and states stay
    floats."""

    def __init__(self, mod, dtype):
        super().__init__()
        self._inside, self._kept = [mod], {}
        for name, parameter in mod.named_parameters():
            value = parameter.detach()
            self._kept[name] = (
                value.clone() if name.startswith("bias") else _of_weight(value) if dtype is qint8 else value.half()
            )

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False, dtype=qint8):
        import copy

        return cls(copy.deepcopy(mod), dtype)

    def forward(self, input, hx=None):
        weights = {
            name: kept.dequantize() if hasattr(kept, "_scale") else kept.float() for name, kept in self._kept.items()
        }
        return taper.func.functional_call(self._inside[0], weights, (input,) if hx is None else (input, hx))

    def _get_name(self):
        return "DynamicQuantized" + type(self).__name__

    def extra_repr(self):
        return self._inside[0].extra_repr()


class LSTM(_Recurrent):
    """nn.LSTM with weights in few bits."""


class GRU(_Recurrent):
    """nn.GRU with weights in few bits."""
