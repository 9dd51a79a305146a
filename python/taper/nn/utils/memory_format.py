"""Weights of convolutions in another memory format."""


def _convert(module, kinds, memory_format):
    for layer in module.modules():
        if any(kind.__name__ in kinds for kind in type(layer).__mro__):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Puts the weights of Conv2d and ConvTranspose2d into the format, here and below."""
    return _convert(module, ("Conv2d", "ConvTranspose2d"), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """Puts the weights of Conv3d and ConvTranspose3d into the format, here and below."""
    return _convert(module, ("Conv3d", "ConvTranspose3d"), memory_format)
