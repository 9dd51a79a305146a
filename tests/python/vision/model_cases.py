"""Models with a seed, and what torchvision's are: names and shapes of parameters, starting values, outputs. `python
model_cases.py FILE` under real torchvision writes the answers that test_vision_models.py compares with."""

import json
import sys
import warnings
import zlib

NAMES = (
    "resnet18 squeezenet1_0 squeezenet1_1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 "
    "densenet121 googlenet"
).split()


def built(models):
    """name -> how to make it; large ones in small."""
    for name in NAMES:
        extra = {"init_weights": True} if name == "googlenet" else {}
        yield name, lambda name=name, extra=extra: getattr(models, name)(num_classes=5, **extra)
    resnet, vit, convnext, efficientnet, vgg, inception = (
        sys.modules[f"{models.__name__}.{part}"]
        for part in ("resnet", "vision_transformer", "convnext", "efficientnet", "vgg", "inception")
    )
    yield (
        "small resnext",
        lambda: resnet.ResNet(
            resnet.Bottleneck,
            [1, 1, 1, 1],
            5,
            True,
            groups=8,
            width_per_group=4,
            replace_stride_with_dilation=[False, True, False],
        ),
    )
    yield "small vit", lambda: vit.VisionTransformer(64, 16, 2, 4, 32, 64, num_classes=5, representation_size=16)
    yield (
        "small convnext",
        lambda: convnext.ConvNeXt(
            [convnext.CNBlockConfig(16, 32, 1), convnext.CNBlockConfig(32, None, 2)], 0.2, num_classes=5
        ),
    )
    yield (
        "small efficientnet v2",
        lambda: efficientnet.EfficientNet(
            [
                efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1),
                efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 2),
                efficientnet.MBConvConfig(4, 3, 2, 16, 24, 2),
            ],
            0.2,
            num_classes=5,
            last_channel=32,
        ),
    )
    swin = sys.modules[f"{models.__name__}.swin_transformer"]
    yield (
        "small swin",
        lambda: swin.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [7, 7], num_classes=5, stochastic_depth_prob=0.2),
    )
    yield "vgg features", lambda: vgg.make_layers([8, "M", 16, 16, "M"], batch_norm=True)
    yield "inception blocks", lambda: inception.InceptionC(16, 8)


def answers(torch, models):
    result = {}
    for name, make in built(models):
        torch.manual_seed(0)
        model = make()
        state = model.state_dict()
        starts = [
            float(v.reshape(-1)[k]) for v in state.values() if v.is_floating_point() and v.numel() > 40 for k in (0, -1)
        ]
        next_number = float(torch.rand(1))
        x = torch.randn(2, 16 if "blocks" in name else 3, 64, 64)
        with torch.no_grad():
            model.eval()
            out = model(x)
            torch.manual_seed(3)
            trained = model.train()(x)
        trained = trained if isinstance(trained, torch.Tensor) else sum(trained)
        result[name] = {
            "keys": len(state),
            "names": zlib.crc32(" ".join(f"{k}{list(v.shape)}" for k, v in state.items()).encode()),
            "starts": [round(v, 7) for v in starts[:8] + starts[-4:]],
            "next": next_number,
            "shape": list(out.shape),
            "out": out.reshape(-1)[:10].tolist(),
            "train": [float(trained.sum()), float(trained.abs().sum())],
            "repr": zlib.crc32(repr(model).encode()),
        }
    return result


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import torch
    import torchvision.models

    with open(sys.argv[1], "w") as file:
        lines = [
            f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers(torch, torchvision.models).items()
        ]
        file.write("{" + ",\n".join(lines) + "}\n")
