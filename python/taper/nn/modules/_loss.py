"""What losses share, and the two that the table cannot say."""

from taper.nn import functional as F
from taper.nn.modules.module import Module


class _Loss(Module):
    """How elements are reduced; size_average and reduce are the old way to say it."""

    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        self.reduction = F._reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight, which is a buffer."""

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with any distance."""

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        if distance_function is None:
            from taper.nn.modules.distance import PairwiseDistance

            distance_function = PairwiseDistance()
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss of a Linear, in one step."""

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features,
        num_classes,
        *,
        out_features=(),
        bias=False,
        device=None,
        dtype=None,
        reduction="mean",
        weight=None,
        ignore_index=None,
        label_smoothing=0.0,
        options=None,
    ):
        from math import prod

        from taper.nn.modules.linear import Linear

        super().__init__(weight, reduction=reduction)
        self.in_features, self.num_classes, self.out_features, self.ignore_index = (
            in_features,
            num_classes,
            tuple(out_features),
            ignore_index,
        )
        self.label_smoothing, self.options = label_smoothing, options
        self.linear = Linear(in_features, num_classes * prod(self.out_features), bias=bias, device=device, dtype=dtype)

    def forward(self, input, target):
        return F.linear_cross_entropy(
            input,
            self._shaped(self.linear.weight),
            target,
            linear_bias=self._shaped(self.linear.bias),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def _shaped(self, parameter):
        if parameter is None or not self.out_features:
            return parameter
        return parameter.view(self.num_classes, *self.out_features, *parameter.shape[1:])

    def extra_repr(self):
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
