"""ultralytics: YOLO for boxes and classes from its configurations: forward, the loss with its gradient, suppression,
fused layers."""

import os

os.environ["YOLO_OFFLINE"] = "True"
import torch
from show import show
from ultralytics.cfg import get_cfg
from ultralytics.nn.tasks import ClassificationModel, DetectionModel
from ultralytics.utils.nms import non_max_suppression

torch.manual_seed(0)
images = torch.rand(2, 3, 64, 64)
net = DetectionModel("yolov8n.yaml", ch=3, nc=3, verbose=False)
net.args = get_cfg()
batch = {
    "img": images,
    "batch_idx": torch.tensor([0.0, 0.0, 1.0]),
    "cls": torch.tensor([[0.0], [1.0], [2.0]]),
    "bboxes": torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.2], [0.6, 0.6, 0.5, 0.3]]),
}
net.train()
loss, parts = net.loss(batch)
loss.sum().backward()
norm = sum(p.grad.double().square().sum() for p in net.parameters() if p.grad is not None).sqrt()
net.eval()
with torch.no_grad():
    boxes = net(images)[0]
    fused = net.fuse(verbose=False)(images)[0]
    kept = non_max_suppression(boxes, conf_thres=0.001, iou_thres=0.5, max_det=20)
    classes = ClassificationModel("yolov8n-cls.yaml", ch=3, nc=5, verbose=False).eval()(images)
show(
    parts=[float(value) for _, value in sorted(parts.items())],
    norm=norm,
    boxes=boxes[0, :, 0],
    fused=(fused - boxes).abs().max() < 1e-2,
    kept=[len(each) for each in kept],
    first=kept[0][:2, :4],
    classes=classes[0] if isinstance(classes, (tuple, list)) else classes,
)
