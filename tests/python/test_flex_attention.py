"""torch.nn.attention: attention by functions of scores and places, and causal biases, against
scaled_dot_product_attention."""

import pytest

import taper as torch
import taper.nn.functional as F
from taper.nn.attention.bias import CausalBias, causal_lower_right, causal_upper_left
from taper.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention, or_masks


def causal(b, h, q, k):
    return q >= k


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return [torch.randn(2, 4, 6, 8) for _ in range(3)]


def test_masks_and_scores(qkv):
    q, k, v = qkv
    assert torch.allclose(flex_attention(q, k, v), F.scaled_dot_product_attention(q, k, v), atol=1e-5)
    mask = create_block_mask(causal, None, None, 6, 6, device="cpu")
    assert torch.allclose(
        flex_attention(q, k, v, block_mask=mask), F.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-5
    )
    slopes, places = torch.exp2(-torch.arange(1, 5.0)), torch.arange(6)
    bias = slopes[:, None, None] * (places - places[:, None])
    q.requires_grad_()
    got = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (j - i))
    want = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    assert torch.allclose(got, want, atol=1e-5)
    assert torch.allclose(
        torch.autograd.grad(got.square().sum(), q)[0], torch.autograd.grad(want.square().sum(), q)[0], atol=1e-4
    )


def test_documents_rows_that_see_nothing_and_groups(qkv):
    q, k, v = qkv
    documents = torch.tensor([0, 0, 1, 1, 2, 2])
    same = and_masks(causal, lambda b, h, i, j: documents[i] == documents[j])
    assert torch.equal(
        create_mask(same, 1, 1, 6, 6, device="cpu")[0, 0], torch.block_diag(*[torch.ones(2, 2).tril()] * 3).bool()
    )
    assert create_mask(or_masks(same, lambda b, h, i, j: j == 0), 1, 1, 6, 6, device="cpu")[0, 0, :, 0].all()
    out, sums = flex_attention(
        q,
        k,
        v,
        block_mask=create_block_mask(lambda b, h, i, j: (i > 2) & (j >= 0), None, None, 6, 6, device="cpu"),
        return_lse=True,
    )
    assert (out[:, :, :3] == 0).all()
    assert sums[0, 0, 0] == float("-inf")
    assert torch.allclose(out[:, :, 3:], F.scaled_dot_product_attention(q, k, v)[:, :, 3:], atol=1e-5)
    grouped = flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    assert torch.allclose(grouped, F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True), atol=1e-5)
    with pytest.raises(ValueError, match="enable_gqa"):
        flex_attention(q, k[:, :2], v[:, :2])


def test_blocks():
    mask = create_block_mask(causal, 1, 1, 512, 512, device="cpu")
    assert mask.sparsity() == 37.5
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]]
    assert mask.full_kv_num_blocks.tolist() == [[[0, 1, 2, 3]]]


def test_causal_biases(qkv):
    q, k, v = qkv
    assert isinstance(causal_lower_right(2, 3), CausalBias)
    assert causal_lower_right(2, 3).tolist() == [
        [True, True, False],
        [True, True, True],
    ]
    got = F.scaled_dot_product_attention(q[:, :, :3], k, v, attn_mask=causal_upper_left(3, 6))
    assert torch.allclose(got, F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, :3], atol=1e-5)
