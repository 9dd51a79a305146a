"""torchvision.ops: regions, deformable convolutions, DropBlock and pyramids give torchvision's numbers."""

import json
import os
import sys

import pytest

import taper
from taper.torchvision import ops
from taper.torchvision.ops import feature_pyramid_network

FOLDER = os.path.join(os.path.dirname(__file__), "vision")
sys.path.insert(0, FOLDER)
import op_cases  # noqa: E402

with open(os.path.join(FOLDER, "ops.json")) as file:
    WANTED = json.load(file)


@pytest.fixture(scope="module")
def got():
    return op_cases.answers(taper, ops, feature_pyramid_network)


@pytest.mark.parametrize("name", WANTED)
def test_as_torchvision(name, got):
    assert got[name] == pytest.approx(WANTED[name], rel=2e-5, abs=2e-5)


def test_refusals():
    x, weight = taper.zeros(1, 4, 6, 6), taper.zeros(2, 4, 3, 3)
    with pytest.raises(RuntimeError, match="the shape of the offset tensor at dimension 1 is not valid"):
        ops.deform_conv2d(x, taper.zeros(1, 2, 4, 4), weight)
    with pytest.raises(RuntimeError, match="offset has shape"):
        ops.deform_conv2d(x, taper.zeros(1, 18, 5, 5), weight)
    with pytest.raises(RuntimeError, match="mask has shape"):
        ops.deform_conv2d(x, taper.zeros(1, 18, 4, 4), weight, mask=taper.zeros(1, 9, 5, 5))
    with pytest.raises(RuntimeError, match="input channels must be a multiple of pooling height"):
        ops.ps_roi_pool(taper.zeros(1, 5, 6, 6), taper.zeros(1, 5), 2)
    with pytest.raises(ValueError, match="drop probability"):
        ops.drop_block2d(x, 1.5, 3)
    with pytest.raises(ValueError, match="input should be 5 dimensional. Got 4 dimensions"):
        ops.drop_block3d(x, 0.5, 3)
    with pytest.raises(TypeError, match="extra_blocks should be of type ExtraFPNBlock"):
        ops.FeaturePyramidNetwork([4], 4, taper.nn.ReLU())
