"""torchvision.models: networks for images, with torchvision's names, order and starting values of parameters."""

from importlib import import_module as _import_module

from taper.torchvision.models._api import (  # noqa: F401
    Weights,
    WeightsEnum,
    get_model,
    get_model_builder,
    get_model_weights,
    get_weight,
    list_models,
)

_FAMILIES = {  # module -> how the names begin, in lower case, that this package has from it
    "alexnet": ("alexnet",),
    "convnext": ("convnext",),
    "densenet": ("densenet",),
    "efficientnet": ("efficientnet",),
    "googlenet": ("googlenet", "_googlenetoutputs"),
    "inception": ("inception3", "inception_v3", "inceptionoutputs"),
    "mnasnet": ("mnasnet",),
    "mobilenetv2": ("mobilenet",),
    "mobilenetv3": ("mobilenet",),
    "resnet": ("resnet", "resnext", "wide_resnet"),
    "shufflenetv2": ("shufflenet",),
    "squeezenet": ("squeezenet",),
    "swin_transformer": ("swin_", "swintransformer"),
    "vgg": ("vgg",),
    "vision_transformer": ("vit_", "visiontransformer"),
}
for (
    _family,
    _heads,
) in _FAMILIES.items():  # scripts look for names in vars(models), so they are all there from the start
    _module = _import_module("taper.torchvision.models." + _family)
    globals().update({name: value for name, value in vars(_module).items() if name.lower().startswith(_heads)})


def __getattr__(name):
    if name in ("feature_extraction", "_utils"):
        return _import_module("taper.torchvision.models." + name)
    raise AttributeError(f"module 'torchvision.models' has no attribute '{name}'")
