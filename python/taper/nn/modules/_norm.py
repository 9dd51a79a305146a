"""Batch and instance normalisation: methods that the stanzas of tables/layers/batchnorm.layer and instancenorm.layer
cannot say. The classes themselves, with their constructors and parameters, are written from the stanzas."""

from taper import _C
from taper._C import _functions as _op
from taper.nn import functional as F


class NormMethods:
    """What batch and instance normalisation do alike: check their input, and load old states."""

    __slots__ = ()
    _version = 2  # 2: num_batches_tracked is part of the state
    _dims = None

    def _check_input_dim(self, input):
        if self._dims is None:
            raise NotImplementedError
        if input.dim() not in self._dims:
            wanted = " or ".join(f"{d}D" for d in self._dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

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


class BatchNormMethods:
    """Normalisation over the batch in training, by running statistics in evaluation."""

    __slots__ = ()

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


class SyncBatchNormMethods:
    """BatchNorm over the batches of all processes; alone it is BatchNorm."""

    __slots__ = ()

    def _check_input_dim(self, input):
        if input.dim() < self._dims[0]:
            raise ValueError(f"expected at least {self._dims[0]}D input (got {input.dim()}D input)")

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
        from taper.nn.modules.batchnorm import _BatchNorm

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


class InstanceNormMethods:
    """Normalisation of each sample's channels by themselves."""

    __slots__ = ()

    def _get_no_batch_dim(self):
        if self._dims is None:
            raise NotImplementedError
        return self._dims[0]

    def forward(self, input):
        self._check_input_dim(input)
        single = self._get_no_batch_dim()
        channels = input.dim() - single
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features ({self.num_features}), but got: "
                    f"{input.size(channels)}."
                )
            import warnings

            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning by not "
                "passing in num_features, which is not used because affine=False"
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
                    f"Unexpected running stats buffer(s) {' and '.join(repr(name) for name in stale)} for "
                    f"{type(self).__name__} with track_running_stats=False. If state_dict is a checkpoint saved "
                    f"before 0.4.0, this may be expected because {type(self).__name__} does not track running stats "
                    "by default since 0.4.0. Please remove these keys from state_dict."
                )
                for name in stale:
                    state_dict.pop(name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
