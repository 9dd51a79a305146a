"""torchmetrics: a collection over batches, in a module, saved and reset."""

import torch
from show import show
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import (
    BinaryAUROC,
    MulticlassAccuracy,
    MulticlassCalibrationError,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MulticlassJaccardIndex,
)
from torchmetrics.image import StructuralSimilarityIndexMeasure
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef, R2Score, SpearmanCorrCoef

torch.manual_seed(0)
classes = MetricCollection(
    {
        "accuracy": MulticlassAccuracy(5),
        "f1": MulticlassF1Score(5),
        "jaccard": MulticlassJaccardIndex(5),
        "calibration": MulticlassCalibrationError(5),
    }
)
matrix, mean, auroc = MulticlassConfusionMatrix(5), MeanMetric(), BinaryAUROC()
values = MetricCollection(
    {"mse": MeanSquaredError(), "pearson": PearsonCorrCoef(), "r2": R2Score(), "spearman": SpearmanCorrCoef()}
)
for _ in range(4):
    logits, target = torch.randn(32, 5), torch.randint(5, (32,))
    classes.update(logits.softmax(-1), target)
    matrix.update(logits, target)
    mean.update(logits.square().mean())
    auroc.update(torch.rand(32), torch.randint(2, (32,)))
    a = torch.randn(32)
    values.update(a, a + 0.5 * torch.randn(32))
images = torch.rand(2, 3, 32, 32)
show(
    **{name: value for name, value in classes.compute().items()},
    matrix=matrix.compute(),
    mean=mean.compute(),
    auroc=auroc.compute(),
    **{name: value for name, value in values.compute().items()},
    ssim=StructuralSimilarityIndexMeasure(data_range=1.0)(
        images, (images + 0.1 * torch.randn_like(images)).clamp(0, 1)
    ),
)
