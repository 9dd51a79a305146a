"""The attention of nn.MultiheadAttention as one call: what PyTorch's fast path is made of."""

import taper
from taper.nn.functional import linear

__all__ = ["_native_multi_head_attention", "_transform_bias_rescale_qkv"]


def _heads(t, num_heads):
    """(batch, length, width) as (batch, heads, length, width of a head)."""
    batch, length, width = t.shape
    return t.reshape(batch, length, num_heads, width // num_heads).transpose(1, 2)


def _transform_bias_rescale_qkv(qkv, qkv_bias, num_heads):
    """The three parts of a projection with their biases, cut into heads; the queries are divided by the root of a
    head's width."""
    q, k, v = (_heads(part, num_heads) for part in (qkv + qkv_bias).chunk(3, -1))
    return q / q.shape[-1] ** 0.5, k, v


def _padded(t):
    """A nested tensor as an ordinary one, with a mask of what was added and the lengths; other tensors as they are."""
    if not t.is_nested:
        return t, None, None
    lengths = [part.shape[0] for part in t.unbind()]
    whole = t.to_padded_tensor(0.0)
    places = taper.arange(whole.shape[1], device=whole.device)
    return whole, places >= taper.tensor(lengths, device=whole.device).unsqueeze(1), lengths


def _project(q, k, v, weight, bias):
    """Queries, keys and values by their parts of the joint projection."""
    if q is k and k is v:
        return linear(q, weight, bias).chunk(3, -1)
    parts = zip((q, k, v), weight.chunk(3), bias.chunk(3))
    return tuple(linear(t, w, b) for t, w, b in parts)


def _scores(q, k, mask, mask_type):
    """mask_type 0: a mask of positions; 1: of keys; 2: of both, as it is."""
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if mask is None:
        return scores
    if mask_type == 1:
        mask = mask[:, None, None, :]
    elif mask_type == 0:
        mask = mask[None, None]
    return scores.masked_fill(mask, float("-inf")) if mask.dtype == taper.bool else scores + mask


def _native_multi_head_attention(
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    mask_type=None,
):
    """Attention with its projections: the result, and the weights or None."""
    if mask is not None and query.is_nested:
        raise RuntimeError("NestedTensor with mask is not supported yet")
    if mask is not None and mask_type is None:
        raise RuntimeError("mask_type should be 0, 1 or 2 when a mask is given")
    if embed_dim % num_head:
        raise RuntimeError("`embed_dim` must divide evenly by `num_heads`")
    same = query is key and key is value
    q, away, lengths = _padded(query)
    k, v = (q, q) if same else (_padded(key)[0], _padded(value)[0])
    if key.is_nested:
        mask, mask_type = _padded(key)[1], 1
    q, k, v = (_heads(t, num_head) for t in _project(q, k, v, qkv_weight, qkv_bias))
    weights = _scores(q, k, mask, mask_type).softmax(-1)
    out = linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    if lengths is not None:
        out = taper.nested.nested_tensor([row[:n] for row, n in zip(out, lengths)])
    if not need_weights:
        return out, None
    return out, weights.mean(1) if average_attn_weights else weights
