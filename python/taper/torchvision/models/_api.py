"""Builders of models by name, and the weights that torchvision offers for them. Weights are read from the folder where
PyTorch keeps what it downloads; where a file is not there, the error says which one belongs there."""

import os
from enum import Enum
from functools import lru_cache, partial, wraps

HOME = os.path.dirname(os.path.abspath(__file__))
URL = "https://download.pytorch.org/models/"
_builders = {}  # name -> builder
_enums = {}  # name of an enumeration of weights -> it, once asked for


class Weights:
    """One file of weights: where it comes from, what its model wants done to images, and what is known about it."""

    def __init__(self, url, transforms, meta):
        self.url, self.transforms, self.meta = url, transforms, meta

    def __repr__(self):
        return f"Weights(url={self.url!r})"


class WeightsEnum(Enum):
    """The weights that there are for a model."""

    @classmethod
    def verify(cls, obj):
        """A member, also from its name."""
        if obj is None or isinstance(obj, cls):
            return obj
        if isinstance(obj, str):
            return cls[obj.replace(cls.__name__ + ".", "")]
        raise TypeError(
            f"Invalid Weight class provided; expected {cls.__name__} but received {obj.__class__.__name__}."
        )

    def get_state_dict(self, *args, **kwargs):
        import taper as torch

        path = os.path.join(checkpoints(), os.path.basename(self.url))
        if not os.path.isfile(path):
            raise RuntimeError(
                f"{self} is not on this machine, and Taper downloads nothing by itself: please put {self.url} into "
                f"{path}"
            )
        return torch.load(path, map_location="cpu", weights_only=True)

    def __reduce_ex__(self, protocol):
        return getattr, (type(self), self._name_)

    def __repr__(self):
        return f"{type(self).__name__}.{self._name_}"

    url = property(lambda self: self.value.url)
    transforms = property(lambda self: self.value.transforms)
    meta = property(lambda self: self.value.meta)


def checkpoints():
    """The folder of downloaded weights: $TORCH_HOME/hub/checkpoints unless torch.hub.set_dir says otherwise."""
    from taper import hub

    return os.path.join(hub.get_dir(), "checkpoints")


class _Meta(dict):
    """What is known about weights; the thousand categories of ImageNet are read when they are asked for."""

    def __missing__(self, key):
        if key != "categories":
            raise KeyError(key)
        with open(os.path.join(HOME, "imagenet.txt"), encoding="utf-8") as file:
            self[key] = file.read().splitlines()
        return self[key]


def _preset(crop, resize, interpolation, colours):
    def make(**changes):
        from taper.torchvision.transforms._interpolation import InterpolationMode
        from taper.torchvision.transforms._presets import ImageClassification

        options = {
            "crop_size": int(crop),
            "resize_size": int(resize),
            "interpolation": InterpolationMode(interpolation),
        }
        if colours != "-":
            options["mean"], options["std"] = (tuple(map(float, part.split(","))) for part in colours.split("/"))
        return ImageClassification(**{**options, **changes})

    return partial(make)


@lru_cache(maxsize=None)
def _rows():
    with open(os.path.join(HOME, "weights.txt"), encoding="utf-8") as file:
        return [line.split() for line in file if not line.startswith("#")]


def weights_enum(name):
    """The enumeration of that name, made from weights.txt."""
    if name not in _enums:
        members = {}
        for _, member, file, crop, resize, interpolation, colours, parameters, smallest, top1, top5 in (
            row for row in _rows() if row[0] == name
        ):
            meta = _Meta(
                num_params=int(parameters),
                min_size=tuple(map(int, smallest.split("x"))),
                _metrics={"ImageNet-1K": {"acc@1": float(top1), "acc@5": float(top5)}},
            )
            weights = members[member.rstrip("*")] = Weights(
                URL + file, _preset(crop, resize, interpolation, colours), meta
            )
            if member.endswith("*"):
                default = weights
        _enums[name] = WeightsEnum(name, {**members, "DEFAULT": default}, module="taper.torchvision.models")
    return _enums[name]


def builder(enum_name):
    """Makes a function of a model's options into torchvision's: weights=, progress=, and the old pretrained=, which
    also comes first."""

    def decorate(function):
        @wraps(function)
        def build(*args, weights=None, progress=True, **kwargs):
            if args:
                weights = args[0]
            weights = kwargs.pop("pretrained", weights)
            enum = weights_enum(enum_name)
            if isinstance(weights, bool):
                import warnings

                warnings.warn(
                    "The parameter 'pretrained' is deprecated since 0.13 and may be removed in the future, please "
                    "use 'weights' instead."
                )
                weights = next(iter(enum)) if weights else None
            weights = enum.verify(weights)
            if weights is None:
                return function(**kwargs)
            if kwargs.setdefault("num_classes", 1000) != 1000:
                raise ValueError(
                    f"The parameter 'num_classes' expected value 1000 but got {kwargs['num_classes']} instead."
                )
            state = weights.get_state_dict(progress=progress, check_hash=True)
            loaded = getattr(function, "loaded", None)
            return loaded(state, **kwargs) if loaded else _with_state(function(**kwargs), state)

        _builders[function.__name__] = build
        build.weights = enum_name
        return build

    return decorate


def register(namespace, name, enum, function, loaded=None):
    """Puts a builder and its enumeration of weights into a module. loaded(state, **options) makes the model where
    weights are given."""
    function.__name__ = function.__qualname__ = name
    if loaded is not None:
        function.loaded = loaded
    namespace[enum] = weights_enum(enum)
    namespace[name] = builder(enum)(function)


def _with_state(model, state):
    model.load_state_dict(state)
    return model


def list_models(module=None, include=None, exclude=None):
    """The names of the models there are; include and exclude are patterns of names, or lists of them."""
    from fnmatch import fnmatch

    def matches(name, patterns):
        return any(fnmatch(name, p) for p in ([patterns] if isinstance(patterns, str) else patterns))

    names = [
        n
        for n in _builders
        if module is None or module.__name__ in (_builders[n].__module__, "taper.torchvision.models")
    ]
    return sorted(
        n for n in names if (include is None or matches(n, include)) and (exclude is None or not matches(n, exclude))
    )


def get_model_builder(name):
    try:
        return _builders[name.lower()]
    except KeyError:
        raise ValueError(f"Unknown model {name}") from None


def get_model(name, **config):
    return get_model_builder(name)(**config)


def get_model_weights(name):
    """The enumeration of weights of a model."""
    return weights_enum((name if callable(name) else get_model_builder(name)).weights)


def get_weight(name):
    """Of "ResNet50_Weights.IMAGENET1K_V2", the weights."""
    enum, dot, member = name.partition(".")
    if not dot:
        raise ValueError(f"Invalid weight name provided: '{name}'.")
    if enum not in {row[0] for row in _rows()}:
        raise ValueError(f"The weight enum '{enum}' for the specific method couldn't be retrieved.")
    return weights_enum(enum)[member]
