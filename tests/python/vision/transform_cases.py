"""Transforms on a small picture, as Pillow image and as tensor, and what torchvision makes of it. `python
transform_cases.py FILE` under real torchvision writes the answers that test_vision_transforms.py compares with."""

import json
import random
import sys
import zlib


def pictures(torch, Image):
    h, w = 37, 45
    values = [
        (c * 90 + y * (6 - c) + x * (2 + c) + (x * y) % (11 + c)) % 256
        for y in range(h)
        for x in range(w)
        for c in range(3)
    ]
    bytes_ = torch.tensor(values, dtype=torch.uint8).view(h, w, 3).permute(2, 0, 1).contiguous()
    return {"pil": Image.frombytes("RGB", (w, h), bytes(values)), "bytes": bytes_, "floats": bytes_.float() / 255}


def cases(T, torch):
    M = T.InterpolationMode
    yield from (
        (f"T.Resize((23, 19), T.InterpolationMode.{m})", T.Resize((23, 19), M[m]))
        for m in ("NEAREST", "NEAREST_EXACT", "BILINEAR", "BICUBIC")
    )
    for text in """T.Resize(20)
T.Resize(20, max_size=22)
T.Resize((70, 60), antialias=False)
T.CenterCrop((50, 20))
T.RandomCrop(32, padding=4)
T.RandomCrop(60, pad_if_needed=True, padding_mode='reflect')
T.RandomResizedCrop(16)
T.FiveCrop(10)
T.TenCrop((10, 12), vertical_flip=True)
T.Pad((1, 2), fill=7)
T.Pad((1, 2, 3, 4), padding_mode='edge')
T.Pad((5, 2, 3, 4), padding_mode='symmetric')
T.RandomHorizontalFlip()
T.RandomVerticalFlip(0.7)
T.ColorJitter(0.4, 0.3, 0.5, 0.2)
T.Grayscale(3)
T.RandomGrayscale(0.9)
T.RandomInvert(1.0)
T.RandomPosterize(3, 1.0)
T.RandomSolarize(0.5, 1.0)
T.RandomAdjustSharpness(2.0, 1.0)
T.RandomAutocontrast(1.0)
T.RandomEqualize(1.0)
T.RandomRotation((10, 80), expand=True)
T.RandomRotation(30, interpolation=T.InterpolationMode.BILINEAR, fill=9, center=(5, 6))
T.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), (-5, 5, -3, 3), interpolation=T.InterpolationMode.BILINEAR)
T.RandomPerspective(p=1.0)
T.GaussianBlur((3, 7), 1.5)
T.ElasticTransform(60.0, 4.0)
T.RandomErasing(1.0)
T.RandomErasing(1.0, value='random')
T.ToTensor()
T.PILToTensor()
T.ToPILImage()
T.ConvertImageDtype(torch.float64)
T.ConvertImageDtype(torch.int16)
T.Normalize((0.5, 0.4, 0.3), (0.1, 0.2, 0.3))
T.RandAugment()
T.TrivialAugmentWide()
T.AutoAugment()
T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)
T.Compose([T.RandomApply([T.CenterCrop(20)]), T.RandomOrder([T.RandomHorizontalFlip(1.0), T.CenterCrop(9)]), T.RandomChoice([T.Pad(1), T.Pad(2)])])""".splitlines():
        yield text, eval(text, {"T": T, "torch": torch})


def summary(torch, result):
    """Numbers that tell results apart: of Pillow images a checksum, of tensors sums that tell where values stand."""
    if isinstance(result, (tuple, list)):
        return [summary(torch, one) for one in result]
    if not isinstance(result, torch.Tensor):
        return {"mode": result.mode, "size": list(result.size), "crc": zlib.crc32(result.tobytes())}
    flat = result.double().reshape(-1)
    place = torch.arange(len(flat), dtype=torch.float64)
    return {
        "dtype": str(result.dtype),
        "shape": list(result.shape),
        "sums": [float(flat.sum()), float((flat * torch.cos(place * 0.7)).sum())],
    }


def answers(torch, T, Image):
    """name -> {kind: [summary or the error's type, the next random number]}"""
    result = {}
    for name, transform in cases(T, torch):
        result[name] = {"repr": repr(transform)}
        for kind, image in pictures(torch, Image).items():
            torch.manual_seed(5)
            random.seed(5)
            try:
                got = summary(torch, transform(image))
            except (TypeError, ValueError, RuntimeError, AttributeError) as error:
                got = type(error).__name__
            result[name][kind] = [got, float(torch.rand(1))]
    return result


if __name__ == "__main__":
    import torch
    import torchvision.transforms
    from PIL import Image

    with open(sys.argv[1], "w") as file:
        lines = [
            f"{json.dumps(name)}: {json.dumps(answer)}"
            for name, answer in answers(torch, torchvision.transforms, Image).items()
        ]
        file.write("{" + ",\n".join(lines) + "}\n")
