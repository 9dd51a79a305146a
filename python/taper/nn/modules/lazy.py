"""Modules whose parameters take their shapes from the first input."""

from itertools import chain

from taper.autograd.grad_mode import no_grad as _no_grad
from taper.nn.parameter import is_lazy


class LazyModuleMixin:
    """Beside a Module: the first call hands its arguments to initialize_parameters, which materialises the parameters;
    then the module becomes an ordinary cls_to_become."""

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        hooks = (
            self._register_load_state_dict_pre_hook(self._lazy_load_hook),
            self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True),
        )
        self._load_hook, self._initialize_hook = hooks

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """As Module's, with the parameters that have no shape yet as they are."""
        for name, own in chain(self._parameters.items(), self._buffers.items()):
            if own is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = own if is_lazy(own) or keep_vars else own.detach()

    def _lazy_load_hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name, own in chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(own) and given is not None and not is_lazy(given):
                with _no_grad():
                    own.materialize(given.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Materialises the parameters for these arguments of forward; every lazy module defines it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self):
        """Are there parameters or buffers without a shape?"""
        return any(map(is_lazy, chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **kwargs or {})
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        for hook in ("_initialize_hook", "_load_hook"):
            getattr(module, hook).remove()
            delattr(module, hook)
        module.__class__ = module.cls_to_become or type(module)

    def _replicate_for_data_parallel(self):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
