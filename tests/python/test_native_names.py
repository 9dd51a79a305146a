"""Functions of torch itself whose siblings are in nn.functional: the values that PyTorch 2.15 gave for the same calls."""

import pytest
import taper as torch
from taper.nn import functional as F

A, B = torch.tensor([-1.0, 0.5, 2.0]), torch.tensor([0.2, 0.9, 0.4])


def test_losses_take_numbers_for_reductions():
    pairs = [(torch.kl_div, F.kl_div), (torch.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits)]
    for ours, theirs in pairs:
        for number, word in enumerate(("none", "mean", "sum")):
            assert torch.equal(ours(A, B, reduction=number), theirs(A, B, reduction=word))
        assert ours(A, B).shape == (3,)
    assert torch.equal(
        torch.margin_ranking_loss(A, B, torch.ones(3), 0.1, 2),
        F.margin_ranking_loss(A, B, torch.ones(3), 0.1, reduction="sum"),
    )
    scores = torch.randn(6, 2, 4).log_softmax(2)
    arguments = scores, torch.tensor([[1, 2], [3, 1]]), [6, 6], [2, 2]
    assert torch.equal(torch.ctc_loss(*arguments, 0, 2), F.ctc_loss(*arguments, reduction="sum"))
    assert torch.ctc_loss(*arguments).shape == (2,)
    assert torch.equal(torch.poisson_nll_loss(A, B, True, False, 1e-8, 1), F.poisson_nll_loss(A, B))
    assert torch.equal(
        torch.triplet_margin_loss(A[None], B[None], -A[None], reduction=1),
        F.triplet_margin_loss(A[None], B[None], -A[None]),
    )


def test_layers_by_position():
    table, at = torch.arange(6.0).view(3, 2), torch.tensor([2, 0])
    assert torch.embedding(table, at).tolist() == [[4, 5], [0, 1]]
    bags = torch.embedding_bag(table, at, torch.tensor([0, 1]))
    assert len(bags) == 4
    assert bags[0].tolist() == [[4, 5], [0, 1]]
    images = torch.randn(2, 3, 4)
    assert torch.equal(
        torch.batch_norm(images, None, None, None, None, True, 0.1, 1e-5, False),
        F.batch_norm(images, None, None, training=True),
    )
    assert torch.equal(
        torch.instance_norm(images, None, None, None, None, True, 0.1, 1e-5, False), F.instance_norm(images)
    )
    assert torch.adaptive_max_pool1d(images, 2)[1].shape == (2, 3, 2)
    kept, mask = torch.native_dropout(torch.ones(100), 0.5, True)
    assert set(kept.tolist()) == {0.0, 2.0}
    assert torch.equal(kept > 0, mask)
    assert torch.empty_permuted((2, 3), (1, 0)).stride() == (1, 2)


def test_gradients_of_convolutions():
    assert torch.nn.grad.conv2d_input((1, 1, 3, 3), torch.ones(1, 1, 2, 2), torch.ones(1, 1, 2, 2)).tolist() == [
        [[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]
    ]
    assert torch.nn.grad.conv2d_weight(torch.ones(1, 1, 3, 3), (1, 1, 2, 2), torch.ones(1, 1, 2, 2)).tolist() == [
        [[[4, 4], [4, 4]]]
    ]


def test_control_flow_and_sizes():
    assert torch.cond(torch.tensor(False), lambda x: x + 1, lambda x: x - 1, (A,)).tolist() == [-2, -0.5, 1]
    count, value = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(1)))
    assert count.item() == 3
    assert value.item() == 8
    assert (
        torch.sym_int(3.5),
        torch.sym_max(1, 2.5),
        torch.sym_min(1, 2.0),
        torch.sym_not(True),
        torch.sym_ite(True, 1, 2),
        torch.sym_sum([1, 2]),
    ) == (3, 2.5, 1.0, False, 1, 3)
    assert not isinstance(3, torch.SymInt)


def test_small_differences():
    leaf, wide = torch.zeros(3, requires_grad=True), torch.ones(2, 3)
    assert torch.broadcast_tensors(leaf, torch.ones(3))[0] is leaf
    assert torch.broadcast_tensors(leaf, wide)[1] is wide
    torch.distributions.Normal(leaf, torch.ones(3)).rsample().sum().backward()
    assert leaf.grad.tolist() == [1, 1, 1]
    assert (
        repr(torch.histogramdd(torch.zeros(1, 1), [1], range=[0.0, 1.0]))
        == "torch.return_types.histogramdd(\nhist=tensor([1.]),\nbin_edges=(tensor([0., 1.]),))"
    )
    with pytest.raises(RuntimeError, match="Invalid number of data points \\(0\\) specified"):
        torch.fft.fft(torch.ones(3), n=0)
    assert torch.full((2,), 3.0, dtype=torch.float64).float_power_(2).tolist() == [9, 9]
    assert torch.ones(1).polygamma_(1).item() == pytest.approx(1.6449, abs=1e-4)
