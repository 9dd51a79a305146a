"""Softmax over very many classes, sorted by frequency: the frequent ones in the head, the rest in clusters of fewer
dimensions."""

from collections import namedtuple

from taper._C import _functions as _op
from taper.nn import functional as F
from taper.nn.modules.container import ModuleList, Sequential
from taper.nn.modules.linear import Linear
from taper.nn.modules.module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probability of each sample's target, and the mean loss."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, cutoffs + [n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **made),
                    Linear(width, self.cutoffs[i + 1] - self.cutoffs[i], bias=False, **made),
                )
            )

    def reset_parameters(self):
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_, target_):
        batched = target_.dim() > 0
        if input_.dim() != (2 if batched else 1) or (batched and input_.shape[0] != target_.shape[0]):
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension."
                if input_.dim() == 2 and target_.dim() == 1
                else "1D target tensor expects 2D input tensors, but found inputs with size " + str(input_.size())
                if target_.dim() == 1
                else "0D target tensor expects 1D input tensors, but found inputs with size " + str(input_.size())
                if target_.dim() == 0
                else "0D or 1D target tensor expected, multi-target not supported"
            )
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output, gather, used = input.new_zeros(target.shape[0]), target.new_empty(target.shape[0]), 0
        for i, (low, high) in enumerate(zip([0] + self.cutoffs[:-1], self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            if i == 0:
                gather.index_copy_(0, rows, target[rows])
            else:
                cluster = self.shortlist_size + i - 1
                scores = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
                output.index_copy_(0, rows, scores.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1))
                gather.index_fill_(0, rows, cluster)
            used += rows.numel()
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, gather.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _get_full_log_prob(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return _op["cat"](parts, 1)

    def log_prob(self, input):
        """The log-probabilities of all classes."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input):
        """The most probable class of each sample; the tails are looked at only where the head points to them."""
        head = self.head(input)
        best = head.argmax(1)
        outside = best >= self.shortlist_size
        if outside.any():
            best[outside] = self._get_full_log_prob(input[outside], head[outside]).argmax(1)
        return best
