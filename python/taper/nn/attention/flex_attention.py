"""torch.nn.attention.flex_attention: attention whose scores a function changes and whose mask a function tells. The
functions get index tensors that broadcast to all scores at once; blocks are counted, and nothing is skipped by them."""

import taper

__all__ = ["BlockMask", "flex_attention", "create_block_mask", "create_mask", "or_masks", "and_masks", "noop_mask"]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch, head, token_q, token_kv):
    """Everybody sees everything."""
    return batch.new_ones((), dtype=taper.bool)


def _joined(masks, join):
    if not all(callable(mask) for mask in masks):
        raise RuntimeError(f"All inputs should be callable mask_mods: {masks}")

    def joined(b, h, q_idx, kv_idx):
        result = masks[0](b, h, q_idx, kv_idx)
        for mask in masks[1:]:
            result = join(result, mask(b, h, q_idx, kv_idx))
        return result

    return joined


def or_masks(*mask_mods):
    """True where one of them is."""
    return _joined(mask_mods, lambda a, b: a | b)


def and_masks(*mask_mods):
    """True where all of them are."""
    return _joined(mask_mods, lambda a, b: a & b)


def _places(B, H, Q, K, device):
    """Index tensors of all scores, to be broadcast."""
    sizes = (B, H, Q, K)
    return [taper.arange(n, device=device).view([-1 if d == i else 1 for d in range(4)]) for i, n in enumerate(sizes)]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device="cuda"):
    """The mask (B, H, Q_LEN, KV_LEN) of a function of places."""
    B, H = B or 1, H or 1
    return mod_fn(*_places(B, H, Q_LEN, KV_LEN, device)).expand(B, H, Q_LEN, KV_LEN).contiguous()


class BlockMask:
    """A mask by its function, and which blocks of scores it leaves anything of."""

    def __init__(self, mask_mod, shape, BLOCK_SIZE, device):
        B, H, Q, K = self.shape = shape
        self.mask_mod, self.BLOCK_SIZE, self.seq_lengths = mask_mod, BLOCK_SIZE, (Q, K)
        rows, columns = -(-Q // BLOCK_SIZE[0]), -(-K // BLOCK_SIZE[1])
        mask = create_mask(mask_mod, B, H, Q, K, device)
        wide = taper.nn.functional.pad(mask, (0, columns * BLOCK_SIZE[1] - K, 0, rows * BLOCK_SIZE[0] - Q))
        blocks = wide.view(B, H, rows, BLOCK_SIZE[0], columns, BLOCK_SIZE[1])
        self._any, full = blocks.any(5).any(3), blocks.all(5).all(3)
        self.kv_num_blocks, self.kv_indices = self._listed(self._any & ~full)
        self.full_kv_num_blocks, self.full_kv_indices = self._listed(full)

    @staticmethod
    def _listed(blocks):
        """How many blocks each row has, and which, those first."""
        return blocks.sum(-1, dtype=taper.int32), taper.argsort(blocks.int(), dim=-1, descending=True, stable=True).to(
            taper.int32
        )

    def to_dense(self):
        """Which blocks there are."""
        return self._any.int()

    def numel(self):
        return taper.Size(self.shape).numel()

    def sparsity(self):
        """How many of a hundred scores lie in blocks that are left out."""
        return round(
            max(0.0, 100 * (1 - self._any.sum().item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())), 2
        )

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod, B, H, Q_LEN, KV_LEN, device="cuda", BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False, **options
):
    """The mask of a function of (batch, head, query, key)."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, (B or 1, H or 1, Q_LEN, KV_LEN), size, device)


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """softmax(score_mod(query key^T scale)) value, where the mask leaves it; rows that see nothing are 0. With
    return_lse the logarithms of the rows' sums too."""
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    (B, H, Q, D), heads, K = query.shape, key.shape[1], key.shape[2]
    if heads != H:
        if not enable_gqa:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={H} and Hkv={heads}. Try "
                "setting enable_gqa=True for GQA."
            )
        if H % heads:
            raise ValueError(
                f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={H} and Hkv={heads}."
            )
        key, value = (x.repeat_interleave(H // heads, 1) for x in (key, value))
    if block_mask is not None and block_mask.seq_lengths != (Q, K):
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={Q} and kv_len={K}."
        )
    scores = query @ key.transpose(-2, -1) * (D**-0.5 if scale is None else scale)
    places = _places(B, H, Q, K, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *places)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask.mask_mod(*places), float("-inf"))
    seen = (scores != float("-inf")).any(-1, keepdim=True)
    weights = taper.softmax(scores.masked_fill(~seen, 0), -1).masked_fill(~seen, 0)
    out = (weights.to(value.dtype) @ value).to(query.dtype)
    return (out, taper.logsumexp(scores, -1)) if return_lse else out
