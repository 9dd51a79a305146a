"""torchvision.transforms.v2: whole samples, the same draws for every part; the numbers of version 1 where both have a
transform."""

import pytest

import taper
from taper.torchvision import transforms as v1
from taper.torchvision import tv_tensors
from taper.torchvision.transforms import v2

IMAGE = taper.arange(3 * 20 * 24, dtype=taper.int32).mul(7).remainder(256).to(taper.uint8).view(3, 20, 24)


def test_kinds_of_tensors():
    image = tv_tensors.Image(IMAGE)
    assert isinstance(image, tv_tensors.Image)
    assert type(image + 1) is taper.Tensor
    assert type(image[0]) is taper.Tensor
    assert isinstance(image.clone(), tv_tensors.Image)
    assert isinstance(image.to(taper.float32), tv_tensors.Image)
    assert tv_tensors.Image(IMAGE[0]).shape == (1, 20, 24)
    boxes = tv_tensors.BoundingBoxes([[1, 2, 3, 4]], format="XYWH", canvas_size=(20, 24))
    assert boxes.format is tv_tensors.BoundingBoxFormat.XYWH
    assert boxes.canvas_size == (20, 24)
    assert "canvas_size=(20, 24)" in repr(boxes)
    assert tv_tensors.wrap(taper.zeros(1, 4), like=boxes).canvas_size == (20, 24)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("RandomResizedCrop", (8,)),
        ("RandomHorizontalFlip", (0.5,)),
        ("ColorJitter", (0.3, 0.3, 0.3, 0.1)),
        ("RandomRotation", (30,)),
        ("GaussianBlur", (3,)),
        ("RandomAffine", (20, (0.1, 0.1))),
        ("Resize", ((9, 11),)),
        ("CenterCrop", (10,)),
        ("RandomErasing", (1.0,)),
        ("RandAugment", ()),
        ("RandomCrop", (15,)),
    ],
)
def test_as_version_1(name, arguments):
    for seed in range(3):
        taper.manual_seed(seed)
        want, after = getattr(v1, name)(*arguments)(IMAGE), taper.rand(1)
        taper.manual_seed(seed)
        assert taper.equal(getattr(v2, name)(*arguments)(IMAGE), want)
        assert taper.equal(taper.rand(1), after)
        taper.manual_seed(seed)
        got = getattr(v2, name)(*arguments)(tv_tensors.Image(IMAGE))
        assert isinstance(got, tv_tensors.Image)
        assert taper.equal(got.as_subclass(taper.Tensor), want)


def sample():
    mask = taper.zeros(20, 24, dtype=taper.uint8)
    mask[4:9, 6:16] = 1
    boxes = tv_tensors.BoundingBoxes(taper.tensor([[6, 4, 16, 9]]), format="XYXY", canvas_size=(20, 24))
    return {"image": tv_tensors.Image(IMAGE), "target": {"boxes": boxes, "mask": tv_tensors.Mask(mask), "label": 3}}


@pytest.mark.parametrize(
    "transform",
    [
        v2.RandomHorizontalFlip(1.0),
        v2.RandomVerticalFlip(1.0),
        v2.RandomCrop(18),
        v2.Pad([1, 2, 3, 4]),
        v2.CenterCrop(19),
    ],
)
def test_boxes_and_masks_move_with_their_image(transform):
    taper.manual_seed(0)
    out = transform(sample())
    boxes, mask = out["target"]["boxes"], out["target"]["mask"]
    assert out["target"]["label"] == 3
    assert isinstance(mask, tv_tensors.Mask)
    y, x = taper.where(mask == 1)
    assert boxes.tolist() == [[x.min().item(), y.min().item(), x.max().item() + 1, y.max().item() + 1]]
    assert boxes.canvas_size == tuple(mask.shape[-2:]) == tuple(out["image"].shape[-2:])


def test_a_resized_sample():
    out = v2.Resize((40, 12))(sample())
    assert out["target"]["boxes"].tolist() == [[3, 8, 8, 18]]
    assert out["target"]["mask"].shape == (40, 12)
    assert set(out["target"]["mask"].unique().tolist()) == {0, 1}


def test_the_usual_chain():
    steps = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomHorizontalFlip(1.0),
            v2.ToDtype(taper.float32, scale=True),
            v2.Normalize([0.5], [0.5]),
            v2.ToPureTensor(),
        ]
    )
    out, label = steps(IMAGE, 5)
    assert label == 5
    assert type(out) is taper.Tensor
    assert out[0, 0, 0].item() == pytest.approx(IMAGE[0, 0, 23].item() / 127.5 - 1)
    assert (
        repr(v2.Compose([v2.ToImage(), v2.Resize(4)]))
        == "Compose(\n      ToImage()\n      Resize(size=[4], interpolation=bilinear, antialias=True)\n)"
    )
    assert repr(v2.RandomResizedCrop(4, scale=(0.5, 1.0), ratio=(1.0, 2.0))) == (
        "RandomResizedCrop(size=(4, 4), scale=(0.5, 1.0), ratio=(1.0, 2.0), interpolation=bilinear, antialias=True)"
    )
    picture = pytest.importorskip("PIL.Image").frombytes("RGB", (4, 2), bytes(range(24)))
    assert v2.ToImage()(picture).shape == (3, 2, 4)


def test_boxes_change_their_format():
    boxes = sample()["target"]["boxes"]
    assert v2.ConvertBoundingBoxFormat("CXCYWH")(boxes).tolist() == [[11, 6, 10, 5]]
    assert v2.functional.convert_bounding_box_format(boxes, new_format="XYWH").tolist() == [[6, 4, 10, 5]]


def test_mixed_batches():
    images, labels = taper.rand(4, 3, 8, 8), taper.tensor([0, 1, 2, 1])
    for mixture in (v2.MixUp(num_classes=3), v2.CutMix(num_classes=3)):
        mixed, shares = mixture(images, labels)
        assert mixed.shape == images.shape
        assert shares.sum(1).tolist() == pytest.approx([1.0] * 4)
    with pytest.raises(ValueError, match="num_classes must be passed"):
        v2.MixUp()(images, labels)
