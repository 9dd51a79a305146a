"""Boxes: areas, overlaps, conversions, and the choice of the best of many."""

import math

import taper as torch


def _upcast(t):
    """Wide enough for products of coordinates."""
    if t.is_floating_point():
        return t if t.dtype in (torch.float32, torch.float64) else t.float()
    return t if t.dtype in (torch.int32, torch.int64) else t.int()


def nms(boxes, scores, iou_threshold):
    """The indices of boxes (N, 4), best score first, that overlap none better by more than the threshold."""
    if boxes.ndim != 2 or boxes.shape[-1] != 4:
        raise RuntimeError(f"boxes should be a 2d tensor of shape [N, 4], got {list(boxes.shape)}")
    if len(boxes) != len(scores):
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {len(boxes)} and {len(scores)}"
        )
    order = torch.sort(scores, stable=True, descending=True).indices
    boxes = boxes[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    dropped, kept = torch.zeros(len(boxes), dtype=torch.bool), []
    for i in range(len(boxes)):
        if dropped[i]:
            continue
        kept.append(i)
        sides = (torch.minimum(boxes[i, 2:], boxes[:, 2:]) - torch.maximum(boxes[i, :2], boxes[:, :2])).clamp(min=0)
        shared = sides[:, 0] * sides[:, 1]
        dropped |= shared / (areas[i] + areas - shared) > iou_threshold
    return order[torch.tensor(kept, dtype=torch.int64)]


def batched_nms(boxes, scores, idxs, iou_threshold):
    """nms within each category: boxes of different ones are moved apart first."""
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    apart = idxs.to(boxes) * (boxes.max() + torch.tensor(1).to(boxes))
    return nms(boxes + apart[:, None], scores, iou_threshold)


def remove_small_boxes(boxes, min_size):
    ws, hs = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return torch.where((ws >= min_size) & (hs >= min_size))[0]


def clip_boxes_to_image(boxes, size):
    height, width = size
    return torch.stack(
        (boxes[..., 0::2].clamp(min=0, max=width), boxes[..., 1::2].clamp(min=0, max=height)), dim=boxes.dim()
    ).reshape(boxes.shape)


def _to_corners(boxes, fmt):
    a, b, c, d = boxes.unbind(-1)
    if fmt == "xywh":
        return torch.stack([a, b, a + c, b + d], dim=-1)
    return torch.stack([a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d], dim=-1)


def _from_corners(boxes, fmt):
    x1, y1, x2, y2 = boxes.unbind(-1)
    if fmt == "xywh":
        return torch.stack([x1, y1, x2 - x1, y2 - y1], dim=-1)
    return torch.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], dim=-1)


def box_convert(boxes, in_fmt, out_fmt):
    """Between xyxy, xywh and cxcywh."""
    known = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in known or out_fmt not in known:
        raise ValueError(f"Unsupported Bounding Box Conversions for given in_fmt {in_fmt} and out_fmt {out_fmt}")
    if in_fmt == out_fmt:
        return boxes.clone()
    if in_fmt != "xyxy":
        boxes = _to_corners(boxes, in_fmt)
    return boxes if out_fmt == "xyxy" else _from_corners(boxes, out_fmt)


def box_area(boxes, fmt="xyxy"):
    boxes = _upcast(boxes)
    if fmt == "xyxy":
        return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    return boxes[..., 2] * boxes[..., 3]


def _box_inter_union(boxes1, boxes2, fmt="xyxy"):
    """What each pair shares, and what it covers together."""
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    sides = _upcast(
        torch.min(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
        - torch.max(boxes1[..., None, :2], boxes2[..., None, :, :2])
    ).clamp(min=0)
    inter = sides[..., 0] * sides[..., 1]
    return inter, box_area(boxes1)[..., None] + box_area(boxes2)[..., None, :] - inter


def box_iou(boxes1, boxes2, fmt="xyxy"):
    """(N, M): what pairs of boxes share over what they cover."""
    inter, union = _box_inter_union(boxes1, boxes2, fmt)
    return inter / union


def _hull(boxes1, boxes2):
    """The sides of the smallest boxes that hold each pair."""
    return _upcast(
        torch.max(boxes1[..., None, 2:], boxes2[..., None, :, 2:])
        - torch.min(boxes1[..., None, :2], boxes2[..., None, :, :2])
    ).clamp(min=0)


def generalized_box_iou(boxes1, boxes2):
    inter, union = _box_inter_union(boxes1, boxes2)
    sides = _hull(boxes1, boxes2)
    hull = sides[..., 0] * sides[..., 1]
    return inter / union - (hull - union) / hull


def _distance(boxes1, boxes2, eps):
    """The overlap, and the squared distance of centres over that of the hull's corners."""
    sides = _hull(boxes1, boxes2)
    diagonal = sides[..., 0] ** 2 + sides[..., 1] ** 2 + eps
    centre1, centre2 = ((_upcast(b[..., :2]) + _upcast(b[..., 2:])) / 2 for b in (boxes1, boxes2))
    apart = ((centre1[..., None, :] - centre2[..., None, :, :]) ** 2).sum(-1)
    return box_iou(boxes1, boxes2), apart / diagonal


def distance_box_iou(boxes1, boxes2, eps=1e-7):
    iou, apart = _distance(_upcast(boxes1), _upcast(boxes2), eps)
    return iou - apart


def complete_box_iou(boxes1, boxes2, eps=1e-7):
    boxes1, boxes2 = _upcast(boxes1), _upcast(boxes2)
    iou, apart = _distance(boxes1, boxes2, eps)
    slopes = [torch.atan((b[..., 2] - b[..., 0]) / (b[..., 3] - b[..., 1])) for b in (boxes1, boxes2)]
    v = 4 / math.pi**2 * torch.pow(slopes[0][..., None] - slopes[1][..., None, :], 2)
    with torch.no_grad():
        alpha = v / (1 - iou + v + eps)
    return iou - apart - alpha * v


def masks_to_boxes(masks):
    """The smallest boxes around masks (N, H, W)."""
    if masks.numel() == 0:
        return torch.zeros((0, 4), dtype=torch.float)
    boxes = torch.zeros((masks.shape[0], 4), dtype=torch.float)
    for box, mask in zip(boxes, masks):
        y, x = torch.where(mask != 0)
        box.copy_(torch.stack([x.min(), y.min(), x.max(), y.max()]))
    return boxes


# ---- Losses of pairs of boxes ----
def _reduced(loss, reduction):
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean() if loss.numel() > 0 else 0.0 * loss.sum()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(
        f"Invalid Value for arg 'reduction': '{reduction} \n Supported reduction modes: 'none', 'mean', 'sum'"
    )


def _pair(boxes1, boxes2, eps):
    """Of the i-th with the i-th: the overlap, what they cover, their hull's sides."""
    boxes1, boxes2 = (
        b if b.is_floating_point() and b.dtype in (torch.float32, torch.float64) else b.float()
        for b in (boxes1, boxes2)
    )
    sides = torch.min(boxes1[..., 2:], boxes2[..., 2:]) - torch.max(boxes1[..., :2], boxes2[..., :2])
    inter = torch.where((sides > 0).all(-1), sides.prod(-1), torch.zeros_like(sides[..., 0]))
    union = box_area(boxes1) + box_area(boxes2) - inter
    hull = torch.max(boxes1[..., 2:], boxes2[..., 2:]) - torch.min(boxes1[..., :2], boxes2[..., :2])
    return boxes1, boxes2, inter / (union + eps), union, hull


def generalized_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    _, _, iou, union, hull = _pair(boxes1, boxes2, eps)
    area = hull.prod(-1)
    return _reduced(1 - (iou - (area - union) / (area + eps)), reduction)


def _distance_loss(boxes1, boxes2, eps):
    boxes1, boxes2, iou, _, hull = _pair(boxes1, boxes2, eps)
    apart = (((boxes1[..., :2] + boxes1[..., 2:]) / 2 - (boxes2[..., :2] + boxes2[..., 2:]) / 2) ** 2).sum(-1)
    return boxes1, boxes2, iou, 1 - iou + apart / ((hull**2).sum(-1) + eps)


def distance_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    return _reduced(_distance_loss(boxes1, boxes2, eps)[3], reduction)


def complete_box_iou_loss(boxes1, boxes2, reduction="none", eps=1e-7):
    boxes1, boxes2, iou, loss = _distance_loss(boxes1, boxes2, eps)
    slopes = [torch.atan((b[..., 2] - b[..., 0]) / (b[..., 3] - b[..., 1])) for b in (boxes1, boxes2)]
    v = 4 / math.pi**2 * torch.pow(slopes[1] - slopes[0], 2)
    with torch.no_grad():
        alpha = v / (1 - iou + v + eps)
    return _reduced(loss + alpha * v, reduction)


def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2, reduction="none"):
    """Binary cross entropy in which easy examples count less."""
    if not (0 <= alpha <= 1) and alpha != -1:
        raise ValueError(f"Invalid alpha value: {alpha}. alpha must be in the range [0,1] or -1 for ignore.")
    p = torch.sigmoid(inputs)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = entropy * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return loss.mean() if reduction == "mean" else _reduced(loss, reduction)
