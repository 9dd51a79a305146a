"""Learned and random mixtures of transforms: AutoAugment, RandAugment, TrivialAugment and AugMix.

A `space` names each operation with the magnitudes it may take, a list from weak to strong (empty: it takes none), and
whether a coin decides their sign."""

import math
from enum import Enum

import taper as torch
from taper.nn import Module
from taper.torchvision.transforms import functional as F
from taper.torchvision.transforms._interpolation import InterpolationMode


class AutoAugmentPolicy(Enum):
    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


# The policies of the AutoAugment paper: pairs of (operation, probability, strength from 0 to 9).
_POLICIES = {
    AutoAugmentPolicy.IMAGENET: """
        Posterize 0.4 8, Rotate 0.6 9; Solarize 0.6 5, AutoContrast 0.6 -;
        Equalize 0.8 -, Equalize 0.6 -; Posterize 0.6 7, Posterize 0.6 6;
        Equalize 0.4 -, Solarize 0.2 4; Equalize 0.4 -, Rotate 0.8 8;
        Solarize 0.6 3, Equalize 0.6 -; Posterize 0.8 5, Equalize 1.0 -;
        Rotate 0.2 3, Solarize 0.6 8; Equalize 0.6 -, Posterize 0.4 6;
        Rotate 0.8 8, Color 0.4 0; Rotate 0.4 9, Equalize 0.6 -;
        Equalize 0.0 -, Equalize 0.8 -; Invert 0.6 -, Equalize 1.0 -;
        Color 0.6 4, Contrast 1.0 8; Rotate 0.8 8, Color 1.0 2;
        Color 0.8 8, Solarize 0.8 7; Sharpness 0.4 7, Invert 0.6 -;
        ShearX 0.6 5, Equalize 1.0 -; Color 0.4 0, Equalize 0.6 -;
        Equalize 0.4 -, Solarize 0.2 4; Solarize 0.6 5, AutoContrast 0.6 -;
        Invert 0.6 -, Equalize 1.0 -; Color 0.6 4, Contrast 1.0 8;
        Equalize 0.8 -, Equalize 0.6 -
        """,
    AutoAugmentPolicy.CIFAR10: """
        Invert 0.1 -, Contrast 0.2 6; Rotate 0.7 2, TranslateX 0.3 9;
        Sharpness 0.8 1, Sharpness 0.9 3; ShearY 0.5 8, TranslateY 0.7 9;
        AutoContrast 0.5 -, Equalize 0.9 -; ShearY 0.2 7, Posterize 0.3 7;
        Color 0.4 3, Brightness 0.6 7; Sharpness 0.3 9, Brightness 0.7 9;
        Equalize 0.6 -, Equalize 0.5 -; Contrast 0.6 7, Sharpness 0.6 5;
        Color 0.7 7, TranslateX 0.5 8; Equalize 0.3 -, AutoContrast 0.4 -;
        TranslateY 0.4 3, Sharpness 0.2 6; Brightness 0.9 6, Color 0.2 8;
        Solarize 0.5 2, Invert 0.0 -; Equalize 0.2 -, AutoContrast 0.6 -;
        Equalize 0.2 -, Equalize 0.6 -; Color 0.9 9, Equalize 0.6 -;
        AutoContrast 0.8 -, Solarize 0.2 8; Brightness 0.1 3, Color 0.7 0;
        Solarize 0.4 5, AutoContrast 0.9 -; TranslateY 0.9 9, TranslateY 0.7 9;
        AutoContrast 0.9 -, Solarize 0.8 3; Equalize 0.8 -, Invert 0.1 -;
        TranslateY 0.7 9, AutoContrast 0.9 -
        """,
    AutoAugmentPolicy.SVHN: """
        ShearX 0.9 4, Invert 0.2 -; ShearY 0.9 8, Invert 0.7 -;
        Equalize 0.6 -, Solarize 0.6 6; Invert 0.9 -, Equalize 0.6 -;
        Equalize 0.6 -, Rotate 0.9 3; ShearX 0.9 4, AutoContrast 0.8 -;
        ShearY 0.9 8, Invert 0.4 -; ShearY 0.9 5, Solarize 0.2 6;
        Invert 0.9 -, AutoContrast 0.8 -; Equalize 0.6 -, Rotate 0.9 3;
        ShearX 0.9 4, Solarize 0.3 3; ShearY 0.8 8, Invert 0.7 -;
        Equalize 0.9 -, TranslateY 0.6 6; Invert 0.9 -, Equalize 0.6 -;
        Contrast 0.3 3, Rotate 0.8 4; Invert 0.8 -, TranslateY 0.0 2;
        ShearY 0.7 6, Solarize 0.4 8; Invert 0.6 -, Rotate 0.8 4;
        ShearY 0.3 7, TranslateX 0.9 3; ShearX 0.1 6, Invert 0.6 -;
        Solarize 0.7 2, TranslateY 0.6 7; ShearY 0.8 4, Invert 0.8 -;
        ShearX 0.7 9, TranslateY 0.8 3; ShearY 0.8 5, AutoContrast 0.7 -;
        ShearX 0.7 2, Invert 0.1 -
        """,
}


def _policy(kind):
    def operation(text):
        name, probability, strength = text.split()
        return name, float(probability), None if strength == "-" else int(strength)

    return [tuple(operation(text) for text in pair.split(",")) for pair in _POLICIES[kind].split(";")]


_COLOURS = {
    "Brightness": F.adjust_brightness,
    "Color": F.adjust_saturation,
    "Contrast": F.adjust_contrast,
    "Sharpness": F.adjust_sharpness,
}
_LEVELS = {"AutoContrast": F.autocontrast, "Equalize": F.equalize, "Invert": F.invert, "Identity": lambda img: img}


def _apply_op(img, op_name, magnitude, interpolation, fill):
    if op_name in _LEVELS:
        return _LEVELS[op_name](img)
    if op_name in _COLOURS:
        return _COLOURS[op_name](img, 1.0 + magnitude)
    if op_name == "Posterize":
        return F.posterize(img, int(magnitude))
    if op_name == "Solarize":
        return F.solarize(img, magnitude)
    if op_name == "Rotate":
        return F.rotate(img, magnitude, interpolation=interpolation, fill=fill)
    shear, translate, center = [0.0, 0.0], [0, 0], None
    axis = 0 if op_name.endswith("X") else 1
    if op_name.startswith("Shear"):  # magnitudes are the shear's tangent; the papers shear around the corner
        shear[axis], center = math.degrees(math.atan(magnitude)), [0, 0]
    elif op_name.startswith("Translate"):
        translate[axis] = int(magnitude)
    else:
        raise ValueError(f"The provided operator {op_name} is not recognized.")
    return F.affine(
        img,
        angle=0.0,
        translate=translate,
        scale=1.0,
        shear=shear,
        interpolation=interpolation,
        fill=fill,
        center=center,
    )


_SIGNED = frozenset("ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness".split())


def _space(names, bins, tops, bits=8, bits_lost=4):
    """name -> (magnitudes, signed). tops: the strongest magnitude of those that are signed."""
    space = {}
    for name in names.split():
        if name in _SIGNED:
            magnitudes = torch.linspace(0.0, tops[name], bins).tolist()
        elif name == "Posterize":
            magnitudes = (bits - (torch.arange(bins) / ((bins - 1) / bits_lost)).round().int()).tolist()
        else:
            magnitudes = torch.linspace(255.0, 0.0, bins).tolist() if name == "Solarize" else []
        space[name] = magnitudes, name in _SIGNED
    return space


def _tops(shear, x, y, degrees, colour):
    return {
        "ShearX": shear,
        "ShearY": shear,
        "TranslateX": x,
        "TranslateY": y,
        "Rotate": degrees,
        "Brightness": colour,
        "Color": colour,
        "Contrast": colour,
        "Sharpness": colour,
    }


def _coin(signed, magnitude):
    return -magnitude if signed and torch.randint(2, (1,)) else magnitude


def _draw(space):
    """An operation by chance: its name, its magnitudes, whether they are signed."""
    name = list(space)[int(torch.randint(len(space), (1,)).item())]
    return (name, *space[name])


class _Augment(Module):
    def __init__(self, interpolation, fill):
        super().__init__()
        self.interpolation, self.fill = interpolation, fill

    def _fill_for(self, img):
        if not isinstance(img, torch.Tensor) or self.fill is None:
            return self.fill
        if isinstance(self.fill, (int, float)):
            return [float(self.fill)] * F.get_dimensions(img)[0]
        return [float(f) for f in self.fill]

    def __repr__(self):
        return f"{type(self).__name__}(" + ", ".join(f"{name}={getattr(self, name)}" for name in self._shown) + ")"


class AutoAugment(_Augment):
    _shown = "policy", "fill"
    _names = (
        "ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize Solarize "
        "AutoContrast Equalize Invert"
    )

    def __init__(self, policy=AutoAugmentPolicy.IMAGENET, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation, fill)
        if policy not in _POLICIES:
            raise ValueError(f"The provided policy {policy} is not recognized.")
        self.policy = policy
        self.policies = _policy(policy)

    @staticmethod
    def get_params(transform_num):
        policy_id = int(torch.randint(transform_num, (1,)).item())
        probs = torch.rand((2,))
        return policy_id, probs, torch.randint(2, (2,))

    def forward(self, img):
        fill = self._fill_for(img)
        _, height, width = F.get_dimensions(img)
        chosen, probs, signs = self.get_params(len(self.policies))
        space = _space(self._names, 10, _tops(0.3, 150.0 / 331.0 * width, 150.0 / 331.0 * height, 30.0, 0.9))
        for (name, p, strength), probability, sign in zip(self.policies[chosen], probs, signs):
            if probability <= p:
                magnitudes, signed = space[name]
                magnitude = 0.0 if strength is None else float(magnitudes[strength])
                img = _apply_op(img, name, -magnitude if signed and sign == 0 else magnitude, self.interpolation, fill)
        return img


class RandAugment(_Augment):
    _shown = "num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"
    _names = (
        "Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize Solarize "
        "AutoContrast Equalize"
    )

    def __init__(
        self, num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST, fill=None
    ):
        super().__init__(interpolation, fill)
        self.num_ops, self.magnitude, self.num_magnitude_bins = num_ops, magnitude, num_magnitude_bins

    def forward(self, img):
        fill = self._fill_for(img)
        _, height, width = F.get_dimensions(img)
        space = _space(
            self._names, self.num_magnitude_bins, _tops(0.3, 150.0 / 331.0 * width, 150.0 / 331.0 * height, 30.0, 0.9)
        )
        for _ in range(self.num_ops):
            name, magnitudes, signed = _draw(space)
            magnitude = float(magnitudes[self.magnitude]) if magnitudes else 0.0
            img = _apply_op(img, name, _coin(signed, magnitude), self.interpolation, fill)
        return img


class TrivialAugmentWide(_Augment):
    _shown = "num_magnitude_bins", "interpolation", "fill"
    _names = RandAugment._names

    def __init__(self, num_magnitude_bins=31, interpolation=InterpolationMode.NEAREST, fill=None):
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = num_magnitude_bins

    def forward(self, img):
        fill = self._fill_for(img)
        name, magnitudes, signed = _draw(
            _space(self._names, self.num_magnitude_bins, _tops(0.99, 32.0, 32.0, 135.0, 0.99), bits_lost=6)
        )
        magnitude = float(magnitudes[torch.randint(len(magnitudes), (1,)).item()]) if magnitudes else 0.0
        return _apply_op(img, name, _coin(signed, magnitude), self.interpolation, fill)


class AugMix(_Augment):
    _shown = "severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill"
    _names = "ShearX ShearY TranslateX TranslateY Rotate Posterize Solarize AutoContrast Equalize"
    _colours = " Brightness Color Contrast Sharpness"

    def __init__(
        self,
        severity=3,
        mixture_width=3,
        chain_depth=-1,
        alpha=1.0,
        all_ops=True,
        interpolation=InterpolationMode.BILINEAR,
        fill=None,
    ):
        super().__init__(interpolation, fill)
        if not 1 <= severity <= 10:
            raise ValueError(f"The severity must be between [1, 10]. Got {severity} instead.")
        self.severity, self.mixture_width, self.chain_depth, self.alpha, self.all_ops = (
            severity,
            mixture_width,
            chain_depth,
            alpha,
            all_ops,
        )

    def _dirichlet(self, n, batch):
        return torch._sample_dirichlet(torch.tensor([self.alpha] * n).expand(batch, -1))

    def _chain(self, img, space, fill):
        depth = self.chain_depth if self.chain_depth > 0 else int(torch.randint(low=1, high=4, size=(1,)).item())
        for _ in range(depth):
            name, magnitudes, signed = _draw(space)
            magnitude = float(magnitudes[torch.randint(self.severity, (1,)).item()]) if magnitudes else 0.0
            img = _apply_op(img, name, _coin(signed, magnitude), self.interpolation, fill)
        return img

    def forward(self, orig_img):
        fill = self._fill_for(orig_img)
        _, height, width = F.get_dimensions(orig_img)
        img = orig_img if isinstance(orig_img, torch.Tensor) else F.pil_to_tensor(orig_img)
        space = _space(
            self._names + self._colours * self.all_ops, 10, _tops(0.3, width / 3.0, height / 3.0, 30.0, 0.9), bits=4
        )
        batch = img.view([1] * max(4 - img.ndim, 0) + list(img.shape))
        n = [batch.size(0)] + [1] * (batch.ndim - 1)
        share = self._dirichlet(2, n[0])  # of the image itself, of all chains together
        weights = self._dirichlet(self.mixture_width, n[0]) * share[:, 1].view(n[0], -1)
        mix = share[:, 0].view(n) * batch
        for i in range(self.mixture_width):
            mix.add_(weights[:, i].view(n) * self._chain(batch, space, fill))
        mix = mix.view(img.shape).to(dtype=img.dtype)
        return mix if isinstance(orig_img, torch.Tensor) else F.to_pil_image(mix)
