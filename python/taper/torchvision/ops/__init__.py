"""torchvision.ops: boxes, regions, and the small modules that models are made of."""

from taper.torchvision.ops import boxes  # noqa: F401
from taper.torchvision.ops.boxes import (  # noqa: F401
    batched_nms,
    box_area,
    box_convert,
    box_iou,
    clip_boxes_to_image,
    complete_box_iou,
    complete_box_iou_loss,
    distance_box_iou,
    distance_box_iou_loss,
    generalized_box_iou,
    generalized_box_iou_loss,
    masks_to_boxes,
    nms,
    remove_small_boxes,
    sigmoid_focal_loss,
)
from taper.torchvision.ops.deform_conv import DeformConv2d, deform_conv2d  # noqa: F401
from taper.torchvision.ops.drop_block import DropBlock2d, DropBlock3d, drop_block2d, drop_block3d  # noqa: F401
from taper.torchvision.ops.feature_pyramid_network import FeaturePyramidNetwork  # noqa: F401
from taper.torchvision.ops.misc import (  # noqa: F401
    MLP,
    Conv2dNormActivation,
    Conv3dNormActivation,
    FrozenBatchNorm2d,
    Permute,
    SqueezeExcitation,
    StochasticDepth,
    stochastic_depth,
)
from taper.torchvision.ops.poolers import MultiScaleRoIAlign  # noqa: F401
from taper.torchvision.ops.regions import (  # noqa: F401
    PSRoIAlign,
    PSRoIPool,
    RoIAlign,
    RoIPool,
    ps_roi_align,
    ps_roi_pool,
    roi_align,
    roi_pool,
)
