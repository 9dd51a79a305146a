"""torchvision.models: same seed, same names, same numbers as torchvision's; weights come from local files."""

import json
import os
import pickle
import sys
import warnings

import pytest

import taper
from taper.torchvision import models, ops

FOLDER = os.path.join(os.path.dirname(__file__), "vision")
sys.path.insert(0, FOLDER)
import model_cases  # noqa: E402

with open(os.path.join(FOLDER, "models.json")) as file:
    WANTED = json.load(file)
MAKERS = dict(model_cases.built(models))


@pytest.mark.parametrize("name", WANTED)
def test_as_torchvision(name, monkeypatch):
    monkeypatch.setattr(model_cases, "built", lambda models: [(name, MAKERS[name])])
    got, want = model_cases.answers(taper, models)[name], WANTED[name]
    for part in ("keys", "names", "repr", "shape", "next"):
        assert got[part] == want[part], part
    assert got["starts"] == pytest.approx(want["starts"], rel=1e-5, abs=2e-7)
    scale = max(map(abs, want["out"]))
    assert got["out"] == pytest.approx(want["out"], abs=2e-4 * scale + 1e-30)
    assert got["train"] == pytest.approx(want["train"], rel=5e-3, abs=1e-3 * want["train"][1])


def test_models_by_name():
    assert "resnet18" in models.list_models()
    assert models.list_models(include="vgg*", exclude="*bn") == [
        "vgg11",
        "vgg13",
        "vgg16",
        "vgg19",
    ]
    assert models.get_model("squeezenet1_1", num_classes=3).num_classes == 3
    assert models.get_model_weights("resnet18") is models.ResNet18_Weights
    assert models.get_weight("ResNet50_Weights.IMAGENET1K_V2") is models.ResNet50_Weights.DEFAULT
    names = sorted(
        name
        for name in models.__dict__
        if name.islower() and not name.startswith("__") and callable(models.__dict__[name])
    )
    assert {"alexnet", "resnet50", "vgg16_bn", "vit_b_16", "get_model"} <= set(names)
    assert "resnet" not in names
    for enum in (models.ResNet18_Weights, models.ViT_B_16_Weights, models.Swin_T_Weights, models.MNASNet1_0_Weights):
        assert pickle.loads(pickle.dumps(enum.DEFAULT)) is enum.DEFAULT
    with pytest.raises(ValueError, match="Unknown model resnet19"):
        models.get_model("resnet19")


def test_weights_from_a_local_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    weights = models.SqueezeNet1_1_Weights.DEFAULT
    assert weights is models.SqueezeNet1_1_Weights.IMAGENET1K_V1
    assert weights.meta["categories"][1] == "goldfish"
    assert weights.meta["num_params"] == 1235496
    with pytest.raises(
        RuntimeError,
        match="downloads nothing by itself: please put https://download.pytorch.org/models/squeezenet1_1-b8a52dc0.pth into ",
    ):
        models.squeezenet1_1(weights=weights)
    saved = models.squeezenet1_1()
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    taper.save(saved.state_dict(), folder / "squeezenet1_1-b8a52dc0.pth")
    for given in ({"weights": weights}, {"weights": "IMAGENET1K_V1"}, {"weights": "DEFAULT"}, {"pretrained": True}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = models.squeezenet1_1(**given)
        assert all(taper.equal(a, b) for a, b in zip(saved.state_dict().values(), loaded.state_dict().values()))
    with pytest.raises(ValueError, match="expected value 1000 but got 3"):
        models.squeezenet1_1(weights=weights, num_classes=3)
    with pytest.raises(TypeError, match="expected SqueezeNet1_1_Weights"):
        models.squeezenet1_1(weights=models.ResNet18_Weights.DEFAULT)


def test_what_weights_want_done_to_images():
    preset = models.ResNet50_Weights.IMAGENET1K_V2.transforms()
    assert "resize_size=[232]" in repr(preset)
    assert preset(taper.zeros(3, 300, 280, dtype=taper.uint8)).shape == (3, 224, 224)
    assert preset(taper.zeros(3, 300, 280, dtype=taper.uint8))[0, 0, 0].item() == pytest.approx(-0.485 / 0.229)


# ---- Boxes and regions; numbers are torchvision 0.29's ----
BOXES = [[0.0, 0, 10, 10], [1, 1, 11, 12], [20, 20, 30, 30], [21, 19, 29, 31], [0, 0, 40, 40]]


def test_boxes():
    boxes = taper.tensor(BOXES)
    scores = taper.tensor([0.5, 0.9, 0.3, 0.8, 0.1])
    assert ops.nms(boxes, scores, 0.5).tolist() == [1, 3, 4]
    assert ops.batched_nms(boxes, scores, taper.tensor([0, 1, 0, 0, 0]), 0.5).tolist() == [1, 3, 0, 4]
    assert ops.box_iou(boxes[:2], boxes[1:3]).flatten().tolist() == pytest.approx([81 / 129, 0, 1, 0])
    assert ops.box_convert(boxes[1:2], "xyxy", "cxcywh").tolist() == [[6, 6.5, 10, 11]]
    assert ops.box_convert(taper.tensor([[1.0, 2, 3, 4]]), "xywh", "xyxy").tolist() == [[1, 2, 4, 6]]
    assert ops.generalized_box_iou(boxes[:1], boxes[2:3]).item() == pytest.approx(RECORDED["giou"])
    assert ops.distance_box_iou(boxes[:1], boxes[1:2]).item() == pytest.approx(RECORDED["diou"])
    assert ops.complete_box_iou(boxes[:1], boxes[1:2]).item() == pytest.approx(RECORDED["ciou"])
    losses = [
        f(boxes[:2], boxes[1:3]).tolist()
        for f in (ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss)
    ]
    assert losses == [pytest.approx(want, rel=1e-5) for want in RECORDED["losses"]]
    assert ops.clip_boxes_to_image(boxes[3:4], (25, 28)).tolist() == [[21, 19, 28, 25]]
    assert ops.remove_small_boxes(boxes, 12).tolist() == [4]
    mask = taper.zeros(1, 9, 9)
    mask[0, 2:5, 3:8] = 1
    assert ops.masks_to_boxes(mask).tolist() == [[3, 2, 7, 4]]


def test_regions_and_losses():
    features = taper.arange(2 * 2 * 8 * 8, dtype=taper.float32).view(2, 2, 8, 8).sin().requires_grad_()
    rois = taper.tensor([[0, 1.0, 2.0, 6.5, 7.0], [1, -2.0, 0.5, 3.0, 9.0]])
    for key, options in (("align", {}), ("aligned", {"aligned": True, "sampling_ratio": 2, "spatial_scale": 0.5})):
        assert ops.roi_align(features, rois, (3, 2), **options).flatten()[:8].tolist() == pytest.approx(
            RECORDED[key], abs=1e-5
        )
    assert ops.roi_pool(features, rois, 2).flatten()[:8].tolist() == pytest.approx(RECORDED["pool"], abs=1e-5)
    ops.roi_align(features, rois, 2).sum().backward()
    assert features.grad.abs().sum().item() == pytest.approx(RECORDED["grad"], rel=1e-4)
    x = taper.tensor([-1.0, 0.5, 2.0])
    assert ops.sigmoid_focal_loss(x, taper.tensor([0.0, 1.0, 1.0])).tolist() == pytest.approx(
        RECORDED["focal"], rel=1e-5
    )


RECORDED = {
    "giou": -0.777778,
    "diou": 0.615643,
    "ciou": 0.615641,
    "losses": [[0.39482, 1.750297], [0.384357, 1.418103], [0.384359, 1.418104]],
    "align": [0.290531, -0.202177, -0.268848, 0.132802, 0.145097, -0.013009, 0.311056, -0.378884],
    "aligned": [0.500914, -0.326451, -0.406193, -0.573737, -0.524182, 0.145385, -0.220673, -0.640838],
    "pool": [0.999912, 0.963795, 0.992873, 0.986628, 0.968364, 0.994827, 0.998815, 0.97263],
    "grad": 14.0,
    "focal": [0.016993543, 0.01689337, 0.000450891],
}


def test_features_from_inside():
    from taper.torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

    model = models.squeezenet1_1(num_classes=4).eval()
    x = taper.rand(1, 3, 64, 64)
    out = create_feature_extractor(model, {"features.3": "early", "classifier": "last"})(x)
    assert list(out) == ["early", "last"]
    assert out["early"].shape == (1, 128, 15, 15)
    assert taper.equal(out["last"].flatten(1), model(x))
    assert "features.0" in get_graph_node_names(model)[0]
    with pytest.raises(ValueError, match="node: 'nothing' is not present"):
        create_feature_extractor(model, ["nothing"])
