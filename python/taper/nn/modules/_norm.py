"""Batch and instance normalisation."""

from taper import _C
from taper._C import _functions as _op
from taper.nn import functional as F
from taper.nn import init
from taper.nn.modules.module import Module
from taper.nn.parameter import Parameter


class _NormBase(Module):
    """Scale, shift and running statistics of channels."""

    _version = 2  # 2: num_batches_tracked is part of the state
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine, self.track_running_stats = (
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
        )
        self.register_parameter(
            "weight", Parameter(_op["empty"](num_features, device=device, dtype=dtype)) if affine else None
        )
        self.register_parameter(
            "bias", Parameter(_op["empty"](num_features, device=device, dtype=dtype)) if affine and bias else None
        )
        self.register_buffer(
            "running_mean", _op["zeros"](num_features, device=device, dtype=dtype) if track_running_stats else None
        )
        self.register_buffer(
            "running_var", _op["ones"](num_features, device=device, dtype=dtype) if track_running_stats else None
        )
        self.register_buffer(
            "num_batches_tracked", _op["zeros"]((), dtype=_C.int64, device=device) if track_running_stats else None
        )
        self.reset_parameters()

    def reset_running_stats(self):
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if local_metadata.get("version", None) in (None, 1) and self.track_running_stats:
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                own = self.num_batches_tracked
                state_dict[key] = (
                    own if own is not None and own.device.type != "meta" else _op["zeros"]((), dtype=_C.int64)
                )
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Normalisation over the batch in training, by running statistics in evaluation."""

    def forward(self, input):
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches so far
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


def _expects(input, *dims):
    if input.dim() not in dims:
        raise ValueError(f"expected {' or '.join(f'{d}D' for d in dims)} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """BatchNorm of (N, C) or (N, C, L)."""

    def _check_input_dim(self, input):
        _expects(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """BatchNorm of images (N, C, H, W)."""

    def _check_input_dim(self, input):
        _expects(input, 4)


class BatchNorm3d(_BatchNorm):
    """BatchNorm of volumes (N, C, D, H, W)."""

    def _check_input_dim(self, input):
        _expects(input, 5)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm over the batches of all processes; alone it is BatchNorm."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=True,
        track_running_stats=True,
        process_group=None,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input):
        from taper import distributed

        alone = (
            not (distributed.is_available() and distributed.is_initialized())
            or distributed.get_world_size(self.process_group) == 1
        )
        if alone or not (self.training or (self.running_mean is None and self.running_var is None)):
            return super().forward(input)
        self._check_input_dim(input)
        from taper.nn.parallel._sync_batch_norm import normalise

        return normalise(self, input)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """The module with every BatchNorm in it made a SyncBatchNorm over the same tensors."""
        made = module
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias"):
                if getattr(module, name) is not None:
                    setattr(made, name, getattr(module, name))
            made.running_mean, made.running_var, made.num_batches_tracked = (
                module.running_mean,
                module.running_var,
                module.num_batches_tracked,
            )
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_NormBase):
    """Normalisation of each sample's channels by themselves."""

    def __init__(
        self,
        num_features,
        eps=1e-5,
        momentum=0.1,
        affine=False,
        track_running_stats=False,
        device=None,
        dtype=None,
        *,
        bias=True,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self):
        raise NotImplementedError

    def forward(self, input):
        self._check_input_dim(input)
        single = self._get_no_batch_dim()
        channels = input.dim() - single
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got: {input.size(channels)}."
                )
            import warnings

            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning by not passing in num_features, which is not used "
                "because affine=False"
            )
        momentum = self.momentum if self.momentum is not None else 0.0
        out = F.instance_norm(
            input if channels else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            momentum,
            self.eps,
        )
        return out if channels else out.squeeze(0)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            stale = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if stale:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(repr(name) for name in stale)} for {type(self).__name__} with "
                    "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this may be expected because "
                    f"{type(self).__name__} does not track running stats by default since 0.4.0. Please remove these keys from state_dict."
                )
                for name in stale:
                    state_dict.pop(name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """InstanceNorm of (N, C, L) or (C, L)."""

    def _get_no_batch_dim(self):
        return 2

    def _check_input_dim(self, input):
        _expects(input, 2, 3)


class InstanceNorm2d(_InstanceNorm):
    """InstanceNorm of images."""

    def _get_no_batch_dim(self):
        return 3

    def _check_input_dim(self, input):
        _expects(input, 3, 4)


class InstanceNorm3d(_InstanceNorm):
    """InstanceNorm of volumes."""

    def _get_no_batch_dim(self):
        return 4

    def _check_input_dim(self, input):
        _expects(input, 4, 5)
