"""torch._subclasses.fake_tensor: operators on tensors without elements, which say that they are on a device. A
FakeTensor's tensor lies on the meta device, where the library works out shapes, strides and dtypes."""

import taper
from taper import _C
from taper._dispatch import NoHandlers, tensors_of
from taper.utils._python_dispatch import TorchDispatchMode
from taper.utils._pytree import tree_map

aten = taper.ops.aten


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that cannot be one without elements."""


class UnsupportedOperatorException(RuntimeError):
    """An operator that cannot run without elements."""


class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on values."""

    def __init__(self, func):
        super().__init__(func)
        self.func = func


class DataDependentOutputException(RuntimeError):
    """A result depends on values."""

    def __init__(self, func):
        super().__init__(func)
        self.func = func


class MetadataMismatchError(RuntimeError):
    """A fake result does not look like the real one."""


class FakeTensor(taper.Tensor):
    """A tensor without elements. `fake_device` is where it says it is, `fake_mode` the mode that computes with it."""

    @staticmethod
    def __new__(cls, fake_mode, elem, device, constant=None, real_tensor=None, pytype=None, dispatch_keys=None):
        made = taper.Tensor._make_wrapper_subclass(
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=device,
            requires_grad=elem.requires_grad,
        )
        made.elem, made.fake_device, made.fake_mode, made.constant = (
            elem.detach() if elem.requires_grad else elem,
            taper.device(device),
            fake_mode,
            constant,
        )
        return made

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)

    def __repr__(self, *, tensor_contents=None):
        place = "" if self.fake_device.type == "cpu" else f"device='{self.fake_device}', "
        return f"FakeTensor(..., {place}size={tuple(self.shape)}" + (
            f", dtype={self.dtype})" if self.dtype != taper.get_default_dtype() else ")"
        )

    __torch_function__ = _C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        mode = next(t.fake_mode for t in tensors_of((args, kwargs or {})) if isinstance(t, FakeTensor))
        with mode:
            return func(*args, **(kwargs or {}))

    def tolist(self):
        raise DataDependentOutputException(aten._local_scalar_dense.default)


_READS = frozenset(("_local_scalar_dense", "equal", "item"))
_TABLE_NAMES = {  # aten's name -> the operator of the tables that does it, or its part that reads values
    "_unique2": "unique",
    "index.Tensor": "index",
    "repeat_interleave.self_Tensor": "repeat_interleave.Tensor",
}


def _shape_follows_values(func, given):
    """Do the results' sizes depend on the arguments' values? The operator's stanza says so (`dynamic_shape`)."""
    words = _C._operator_dynamic_shape(_TABLE_NAMES.get(func._name, func._name))
    if words.startswith("masks"):
        return any(t.dtype in (taper.bool, taper.uint8) for t in given[1:])
    return words == "always"


class FakeTensorMode(TorchDispatchMode):
    """with FakeTensorMode(): tensors that are made have no elements, and operators compute shapes."""

    def __init__(
        self,
        *,
        allow_fallback_kernels=True,
        allow_non_fake_inputs=False,
        shape_env=None,
        static_shapes=None,
        export=False,
        **more,
    ):
        super().__init__()
        self.allow_fallback_kernels, self.allow_non_fake_inputs, self.shape_env, self.static_shapes = (
            allow_fallback_kernels,
            allow_non_fake_inputs,
            shape_env,
            static_shapes,
        )
        self.enter_stack = []

    def __enter__(self):
        from taper._dispatch import state

        if any(mode is self for mode in state.modes):
            self.enter_stack.append(False)
            return self
        self.enter_stack.append(True)
        return super().__enter__()

    def __exit__(self, *error):
        if self.enter_stack.pop():
            super().__exit__(*error)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True, **more):
        """A fake tensor that looks like a real one."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return tensor
        with NoHandlers(), taper.no_grad():
            meta = taper.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        made = FakeTensor(self, meta, tensor.device)
        if tensor.is_leaf:
            made.requires_grad_(tensor.requires_grad)
        if isinstance(tensor, taper.nn.Parameter):
            made._is_param = True
        return made

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = tensors_of((args, kwargs))
        if any(type(t) not in (taper.Tensor, FakeTensor, taper.nn.Parameter) and _C._has_handler(t) for t in given):
            return NotImplemented
        for t in given:
            if (
                not isinstance(t, FakeTensor)
                and not self.allow_non_fake_inputs
                and t.dim()
                and func is not aten.lift_fresh.default
            ):
                raise AssertionError(
                    "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                    f"'allow_non_fake_inputs'. Found in {func}(*{args}, **{kwargs})"
                )
        if func is aten.lift_fresh.default and not isinstance(given[0], FakeTensor):
            with NoHandlers():
                return FakeTensor(
                    self,
                    given[0].detach().to("meta"),
                    given[0].device,
                    constant=given[0] if given[0].numel() == 1 else None,
                )
        if func._opname in _READS:
            constant = getattr(given[0], "constant", None) if given else None
            if constant is not None:
                return constant.item()
            raise DataDependentOutputException(func)
        if _shape_follows_values(func, given):
            raise DynamicOutputShapeException(func)
        device = kwargs.get("device")
        device = taper.device(device) if device is not None else _common_device(func, given)

        def meta(t):
            if isinstance(t, FakeTensor):
                return t.elem
            return t.detach().to("meta") if isinstance(t, taper.Tensor) else t

        inner = tree_map(meta, kwargs)
        if "device" in {a.name for a in func._schema.arguments} and ("device" in kwargs or not given):
            inner["device"] = taper.device("meta")
        with NoHandlers():
            kernel = func._kernel
            fake = getattr(kernel, "fake", None)
            if fake is not None:
                made = self._run_fake(fake, args, kwargs)
                return made
            made = kernel(*tree_map(meta, tuple(args)), **inner)
        written = [t for t in given if isinstance(t, FakeTensor)]

        def wrap(t):
            if not isinstance(t, taper.Tensor):
                return t
            same = next((w for w in written if w.elem is t), None)
            return FakeTensor(self, t, device) if same is None else same

        return tree_map(wrap, made)

    def _run_fake(self, fake, args, kwargs):
        with self:
            return fake(*args, **kwargs)


def _common_device(func, given):
    """The device that an operator's tensors are on; numbers in tensors may be on the CPU."""
    device = None
    for t in given:
        if device is None or device.type == "cpu" and t.dim():
            if (
                device is not None
                and device != t.device
                and t.dim()
                and any(u.dim() and u.device == device for u in given)
            ):
                raise RuntimeError(
                    f"Unhandled FakeTensor Device Propagation for {func}, found two different devices {device}, "
                    f"{t.device}"
                )
            device = t.device
        elif t.dim() and t.device != device:
            raise RuntimeError(
                f"Unhandled FakeTensor Device Propagation for {func}, found two different devices {device}, {t.device}"
            )
    return device or taper.get_default_device()


def is_fake(x):
    """Is it a fake tensor, or does it consist of such?"""
    from taper.utils._python_dispatch import is_traceable_wrapper_subclass

    if isinstance(x, FakeTensor):
        return True
    if is_traceable_wrapper_subclass(x):
        return all(is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0])
    return False


def maybe_get_fake_mode(t):
    return t.fake_mode if isinstance(t, FakeTensor) else None


def unset_fake_temporarily():
    """with this: no fake mode makes tensors fake."""
    from taper.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


class FakeTensorConverter:
    """Real tensors to fake ones, each once."""

    def __init__(self, **options):
        self._made = {}

    def from_real_tensor(self, fake_mode, t, **more):
        found = self._made.get(id(t))
        if found is None:
            found = self._made[id(t)] = fake_mode.from_tensor(t)
        return found
