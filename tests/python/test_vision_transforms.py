"""torchvision.transforms gives torchvision's pictures, draw for draw: Pillow images byte for byte, tensors within
rounding."""

import json
import os
import sys

import pytest

import taper
import taper.torchvision.transforms as T
from taper.torchvision.transforms import functional as F

Image = pytest.importorskip("PIL.Image")
FOLDER = os.path.join(os.path.dirname(__file__), "vision")
sys.path.insert(0, FOLDER)
import transform_cases  # noqa: E402

with open(os.path.join(FOLDER, "transforms.json")) as file:
    WANTED = json.load(file)
GOT = transform_cases.answers(taper, T, Image)


def assert_like(got, want):
    if isinstance(want, list):
        assert len(got) == len(want)
        for one, other in zip(got, want):
            assert_like(one, other)
    elif isinstance(want, dict) and "sums" in want:
        assert (got["dtype"], got["shape"]) == (want["dtype"], want["shape"])
        whole = "int" in want["dtype"]  # a value on the edge between two whole numbers may fall to either side
        assert got["sums"] == pytest.approx(want["sums"], rel=1e-5, abs=8 if whole else 2e-2)
    else:
        assert got == want


@pytest.mark.parametrize("name", WANTED)
def test_as_torchvision(name):
    got, want = GOT[name], WANTED[name]
    assert got["repr"] == want["repr"]
    for kind in ("pil", "bytes", "floats"):
        assert_like(got[kind], want[kind])


def test_there_and_back():
    image = transform_cases.pictures(taper, Image)["pil"]
    assert F.to_pil_image(F.pil_to_tensor(image)).tobytes() == image.tobytes()
    assert F.to_pil_image(F.to_tensor(image)).tobytes() == image.tobytes()
    for mode in ("1", "L", "I", "F", "RGBA", "CMYK", "LA"):
        other = image.convert("L").convert(mode) if mode == "LA" else image.convert(mode)
        tensor = F.pil_to_tensor(other)
        assert list(tensor.shape) == [len(other.getbands()), 37, 45]
        if mode in ("L", "I", "F", "RGBA", "LA"):
            assert F.to_pil_image(tensor, mode if mode == "F" else None).tobytes() == other.tobytes()


def test_numpy_images():
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(60, dtype=numpy.uint8).reshape(4, 5, 3)
    tensor = F.to_tensor(array)
    assert tensor.shape == (3, 4, 5)
    assert tensor[1, 2, 3].item() == taper.tensor(array[2, 3, 1] / 255.0, dtype=taper.float32).item()
    assert F.to_tensor(array[:, :, 0]).shape == (1, 4, 5)
    assert F.to_tensor(array.astype("float64")).dtype == taper.float64
    assert F.to_tensor(array[::-1]).shape == (3, 4, 5)
    assert F.to_pil_image(array).tobytes() == array.tobytes()


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match="pic should be PIL Image or ndarray"):
        T.ToTensor()(taper.zeros(3, 2, 2))
    with pytest.raises(TypeError, match="should be a float tensor"):
        T.Normalize(0.5, 0.5)(taper.zeros(3, 2, 2, dtype=taper.uint8))
    with pytest.raises(ValueError, match="std evaluated to zero"):
        T.Normalize([0.5], [0.0])(taper.zeros(1, 2, 2))
    with pytest.raises(ValueError, match="Required crop size"):
        T.RandomCrop(9)(taper.zeros(3, 4, 4))
    with pytest.raises(ValueError, match="odd and positive"):
        T.GaussianBlur(4)
    with pytest.raises(TypeError, match="interpolation"):
        T.Resize(3, interpolation="bilinear")
