"""Losses: methods that the stanzas of tables/layers/loss.layer cannot say, and the one loss that is made of a layer."""

from taper.nn import functional as F
from taper.nn.modules.base_loss import _WeightedLoss


class TripletDistanceMethods:
    """A distance that is any function."""

    __slots__ = ()

    def _settle_distance(self):
        if self.distance_function is None:
            from taper.nn.modules.distance import PairwiseDistance

            self.distance_function = PairwiseDistance()

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
