"""What operators give under torch.autocast("cpu"): cases, and the dtypes that PyTorch 2.15 gave for them
(autocast.txt).

`python autocast_cases.py` prints the table for whatever `torch` is; run under PyTorch it makes autocast.txt anew."""

import re
import warnings

import torch
import torch.nn.functional as F

# Per case: t(...) random tensors of the dtype in question, u(...) the same always in float32, i(n, hi) whole numbers.
CASES = """
linear: F.linear(t(3,4), t(5,4), t(5))
linear mixed: F.linear(t(3,4), u(5,4), u(5))
matmul: t(3,4) @ t(4,5)
matmul mixed: t(3,4) @ u(4,5)
matmul vector: t(4) @ t(4)
mm: torch.mm(t(3,4), t(4,5))
bmm: torch.bmm(t(2,3,4), t(2,4,5))
addmm: torch.addmm(t(3,5), t(3,4), t(4,5))
addmm mixed: torch.addmm(u(3,5), t(3,4), u(4,5))
addbmm: torch.addbmm(t(3,5), t(2,3,4), t(2,4,5))
baddbmm: torch.baddbmm(t(2,3,5), t(2,3,4), t(2,4,5))
linalg.vecdot: torch.linalg.vecdot(t(3,4), t(3,4))
mv: torch.mv(t(3,4), t(4))
dot: torch.dot(t(4), t(4))
addmv: torch.addmv(t(3), t(3,4), t(4))
addr: torch.addr(t(3,4), t(3), t(4))
outer: torch.outer(t(3), t(4))
einsum product: torch.einsum("ij,jk->ik", t(3,4), t(4,5))
einsum batch: torch.einsum("bij,bjk->bik", t(2,3,4), t(2,4,5))
einsum sum: torch.einsum("ij->i", t(3,4))
einsum rows: torch.einsum("ij,ij->i", t(3,4), t(3,4))
einsum mixed: torch.einsum("ij,jk->ik", t(3,4), u(4,5))
tensordot: torch.tensordot(t(3,4), t(4,5), dims=1)
inner: torch.inner(t(3,4), t(5,4))
kron: torch.kron(t(2,2), t(2,2))
chain_matmul: torch.linalg.multi_dot([t(3,4), t(4,5), t(5,2)])
matrix_power: torch.linalg.matrix_power(t(3,3), 3)
bilinear: F.bilinear(t(3,4), t(3,5), t(6,4,5), t(6))
conv1d: F.conv1d(t(2,3,7), t(4,3,3), t(4))
conv1d same: F.conv1d(t(2,3,7), t(4,3,3), t(4), padding="same")
conv2d: F.conv2d(t(2,3,6,6), t(4,3,3,3), t(4))
conv2d mixed: F.conv2d(t(2,3,6,6), u(4,3,3,3), u(4))
conv2d same: F.conv2d(t(2,3,6,6), t(4,3,3,3), padding="same")
conv3d: F.conv3d(t(1,2,4,4,4), t(3,2,2,2,2))
conv_transpose1d: F.conv_transpose1d(t(2,3,5), t(3,4,3))
conv_transpose2d: F.conv_transpose2d(t(2,3,5,5), t(3,4,3,3), t(4))
conv_transpose3d: F.conv_transpose3d(t(1,2,3,3,3), t(2,3,2,2,2))
conv_tbc: torch.conv_tbc(t(5,2,3), t(3,3,4), t(4), 1)
prelu: F.prelu(t(3,4), t(4))
prelu mixed: F.prelu(t(3,4), u(4))
sdpa: F.scaled_dot_product_attention(t(2,3,5,4), t(2,3,5,4), t(2,3,5,4))
sdpa mixed: F.scaled_dot_product_attention(t(2,3,5,4), u(2,3,5,4), u(2,3,5,4))
sdpa mask: F.scaled_dot_product_attention(t(2,3,5,4), t(2,3,5,4), t(2,3,5,4), torch.ones(5, 5, dtype=torch.bool))
cat: torch.cat([t(2,3), t(2,3)])
cat mixed: torch.cat([t(2,3), u(2,3)])
stack: torch.stack([t(2,3), t(2,3)])
stack mixed: torch.stack([t(2,3), u(2,3)])
index_copy: torch.index_copy(t(3,4), 0, i(2,3), t(2,4))
index_copy mixed: torch.index_copy(t(3,4), 0, i(2,3), u(2,4))
hstack: torch.hstack([t(3), u(3)])
vstack: torch.vstack([t(3), u(3)])
cross_entropy: F.cross_entropy(t(4,3), i(4,3))
cross_entropy weight: F.cross_entropy(t(4,3), i(4,3), weight=u(3).abs())
cross_entropy probabilities: F.cross_entropy(t(4,3), t(4,3).softmax(-1))
nll_loss: F.nll_loss(t(4,3), i(4,3))
nll_loss 2d: F.nll_loss(t(2,3,4,4), i(32,3).view(2,4,4))
mse_loss: F.mse_loss(t(4,3), t(4,3))
mse_loss mixed: F.mse_loss(t(4,3), u(4,3))
l1_loss: F.l1_loss(t(4,3), t(4,3))
smooth_l1_loss: F.smooth_l1_loss(t(4,3), t(4,3))
huber_loss: F.huber_loss(t(4,3), t(4,3))
kl_div: F.kl_div(t(4,3), t(4,3), reduction="batchmean")
bce: F.binary_cross_entropy(t(4,3).sigmoid(), t(4,3).sigmoid())
bce logits: F.binary_cross_entropy_with_logits(t(4,3), t(4,3).sigmoid())
bce logits mixed: F.binary_cross_entropy_with_logits(t(4,3), u(4,3).sigmoid(), pos_weight=u(3).abs())
poisson_nll_loss: F.poisson_nll_loss(t(4,3), t(4,3))
gaussian_nll_loss: F.gaussian_nll_loss(t(4,3), t(4,3), t(4,3).abs())
soft_margin_loss: F.soft_margin_loss(t(4,3), t(4,3).sign())
hinge_embedding_loss: F.hinge_embedding_loss(t(4,3), t(4,3).sign())
margin_ranking_loss: F.margin_ranking_loss(t(4), t(4), t(4).sign())
cosine_embedding_loss: F.cosine_embedding_loss(t(4,3), t(4,3), t(4).sign())
triplet_margin_loss: F.triplet_margin_loss(t(4,3), t(4,3), t(4,3))
multi_margin_loss: F.multi_margin_loss(t(4,3), i(4,3))
multilabel_margin_loss: F.multilabel_margin_loss(t(4,3), i(12,3).view(4,3))
multilabel_soft_margin_loss: F.multilabel_soft_margin_loss(t(4,3), t(4,3).sigmoid())
ctc_loss: F.ctc_loss(t(6,2,4).log_softmax(-1), i(4,3).view(2,2) + 1, torch.tensor([6,6]), torch.tensor([2,2]))
cosine_similarity: F.cosine_similarity(t(4,3), t(4,3))
pairwise_distance: F.pairwise_distance(t(4,3), t(4,3))
cdist: torch.cdist(t(4,3), t(5,3))
avg_pool3d: F.avg_pool3d(t(1,2,4,4,4), 2)
max_pool3d: F.max_pool3d(t(1,2,4,4,4), 2)
adaptive_avg_pool3d: F.adaptive_avg_pool3d(t(1,2,4,4,4), 2)
adaptive_max_pool3d: F.adaptive_max_pool3d(t(1,2,4,4,4), 2)
avg_pool2d: F.avg_pool2d(t(1,2,4,4), 2)
max_pool2d: F.max_pool2d(t(1,2,4,4), 2)
adaptive_avg_pool2d: F.adaptive_avg_pool2d(t(1,2,4,4), 2)
max_unpool1d: F.max_unpool1d(t(1,1,2), torch.tensor([[[0,2]]]), 2)
max_unpool2d: F.max_unpool2d(t(1,1,2,2), torch.tensor([[[[0,2],[8,10]]]]), 2)
fractional_max_pool2d: F.fractional_max_pool2d(t(1,2,6,6), 2, output_size=3)
grid_sample: F.grid_sample(t(1,2,4,4), t(1,3,3,2).tanh(), align_corners=False)
interpolate: F.interpolate(t(1,2,4,4), scale_factor=2)
interpolate bilinear: F.interpolate(t(1,2,4,4), scale_factor=2, mode="bilinear")
pad reflect: F.pad(t(1,2,4,4), (1,1,1,1), mode="reflect")
pad replicate: F.pad(t(1,2,4,4), (1,1,1,1), mode="replicate")
pad constant: F.pad(t(1,2,4,4), (1,1,1,1))
pad reflect 1d: F.pad(t(1,2,4), (1,1), mode="reflect")
fft: torch.fft.fft(t(8))
rfft: torch.fft.rfft(t(8))
irfft: torch.fft.irfft(torch.complex(u(5), u(5)))
fft2: torch.fft.fft2(t(4,4))
stft: torch.stft(t(32), 8, window=torch.ones(8), return_complex=True)
trace: torch.trace(t(3,3))
prod: torch.prod(t(3,4))
prod dim: torch.prod(t(3,4), 0)
quantile: torch.quantile(t(10), 0.3)
nanquantile: torch.nanquantile(t(10), 0.3)
polar: torch.polar(t(4).abs(), t(4))
view_as_complex: torch.view_as_complex(t(3,2))
inverse: torch.inverse(s(3))
linalg.inv: torch.linalg.inv(s(3))
linalg.solve: torch.linalg.solve(s(3), t(3,2))
linalg.cholesky: torch.linalg.cholesky(s(3))
linalg.qr: torch.linalg.qr(t(3,3))
linalg.svd: torch.linalg.svd(t(3,3))
linalg.svdvals: torch.linalg.svdvals(t(3,3))
linalg.eigh: torch.linalg.eigh(s(3))
linalg.eigvals: torch.linalg.eigvals(s(3))
linalg.lstsq: torch.linalg.lstsq(s(3), t(3,2)).solution
linalg.matrix_rank: torch.linalg.matrix_rank(s(3))
linalg.cond: torch.linalg.cond(s(3))
linalg.det: torch.linalg.det(s(3))
linalg.norm: torch.linalg.norm(t(3,3))
linalg.tensorinv: torch.linalg.tensorinv(s(4).view(4,2,2), ind=1)
pinverse: torch.pinverse(s(3))
svd: torch.svd(t(3,3))
cholesky_solve: torch.cholesky_solve(t(3,2), s(3))
cholesky_inverse: torch.cholesky_inverse(s(3))
triangular_solve: torch.triangular_solve(t(3,2), s(3))
add: t(3) + t(3)
add mixed: t(3) + u(3)
mul number: t(3) * 2.5
pow: t(3).abs() ** 1.5
exp: t(3).exp()
sum: t(3,4).sum()
mean: t(3,4).mean()
var: t(3,4).var()
norm: t(3,4).norm()
cumsum: t(3,4).cumsum(0)
softmax: t(3,4).softmax(-1)
log_softmax: t(3,4).log_softmax(-1)
relu: F.relu(t(3,4))
gelu: F.gelu(t(3,4))
layer_norm: F.layer_norm(t(3,4), (4,), u(4), u(4))
group_norm: F.group_norm(t(2,4,3), 2, u(4), u(4))
batch_norm: F.batch_norm(t(3,4,5), torch.zeros(4), torch.ones(4), u(4), u(4), training=True)
instance_norm: F.instance_norm(t(2,4,5))
rms_norm: F.rms_norm(t(3,4), (4,), t(4))
embedding: F.embedding(i(3,5), t(5,4))
dropout: F.dropout(t(3,4), 0.5)
one step of a composition: F.relu(F.linear(t(3,4), t(5,4))).sum()
addmm in place: t(3,5).addmm_(t(3,4), t(4,5))
mm out: torch.mm(t(3,4), t(4,5), out=torch.empty(3, 5, dtype=d))
rnn_tanh_cell: torch.rnn_tanh_cell(t(2,3), t(2,4), t(4,3), t(4,4), t(4), t(4))
gru_cell: torch.gru_cell(t(2,3), t(2,4), t(12,3), t(12,4), t(12), t(12))
lstm_cell: torch.lstm_cell(t(2,3), [t(2,4), t(2,4)], t(16,3), t(16,4), t(16), t(16))
gru: torch.gru(t(5,2,3), t(1,2,4), [t(12,3), t(12,4), t(12), t(12)], True, 1, 0.0, False, False, False)
rnn_tanh: torch.rnn_tanh(t(5,2,3), t(1,2,4), [t(4,3), t(4,4), t(4), t(4)], True, 1, 0.0, False, False, False)
layer GRU: nn.GRU(8,8)(t(5,2,8))
layer GRU both ways: nn.GRU(8,8,2,bidirectional=True)(t(5,2,8))
layer RNN: nn.RNN(8,8)(t(5,2,8))
layer LSTMCell: nn.LSTMCell(8,8)(t(2,8))
layer GRUCell: nn.GRUCell(8,8)(t(2,8))
layer MultiheadAttention: nn.MultiheadAttention(8,2)(t(5,2,8), t(5,2,8), t(5,2,8))
layer MultiheadAttention without weights: nn.MultiheadAttention(8,2)(t(5,2,8), t(5,2,8), t(5,2,8), need_weights=False)[0]
layer TransformerEncoderLayer: nn.TransformerEncoderLayer(8,2,16)(t(5,2,8))
layer TransformerEncoderLayer norm first: nn.TransformerEncoderLayer(8,2,16,norm_first=True)(t(5,2,8))
layer TransformerDecoderLayer: nn.TransformerDecoderLayer(8,2,16)(t(5,2,8), t(5,2,8))
layer Transformer: nn.Transformer(8,2,1,1,16)(t(5,2,8), t(5,2,8))
layers of an image classifier: nn.Sequential(nn.Conv2d(3,4,3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36,3))(t(2,3,8,8))
layer LayerNorm: nn.LayerNorm(8)(nn.Linear(8,8)(t(2,8)))
layer GroupNorm: nn.GroupNorm(2,4)(nn.Conv2d(3,4,3)(t(2,3,8,8)))
layer InstanceNorm2d: nn.InstanceNorm2d(4, affine=True)(nn.Conv2d(3,4,3)(t(2,3,8,8)))
layer CrossEntropyLoss: nn.CrossEntropyLoss()(nn.Linear(8,8)(t(2,8)), i(2,8))
layer BCEWithLogitsLoss: nn.BCEWithLogitsLoss()(nn.Linear(8,8)(t(2,8)), torch.ones(2,8))
layer NLLLoss: nn.NLLLoss()(nn.LogSoftmax(-1)(nn.Linear(8,8)(t(2,8))), i(2,8))
attention by hand: (nn.Linear(8,8)(t(2,3,8)) @ nn.Linear(8,8)(t(2,3,8)).mT / 2).masked_fill(torch.ones(3,3).triu(1).bool(), float("-inf")).softmax(-1) @ nn.Linear(8,8)(t(2,3,8))
residual: t(2,8) + nn.Linear(8,8)(t(2,8))
acos: t(3).tanh().acos()
asin: t(3).tanh().asin()
cosh: t(3).cosh()
sinh: t(3).sinh()
tan: t(3).tan()
erfinv: t(3).tanh().erfinv()
expm1: t(3).expm1()
log: t(3).abs().log()
log10: t(3).abs().log10()
log2: t(3).abs().log2()
log1p: t(3).abs().log1p()
reciprocal: t(3).reciprocal()
rsqrt: t(3).abs().rsqrt()
one over: 1 / t(3)
number to a power: 2.0 ** t(3)
pow tensor: torch.pow(t(3).abs(), t(3))
pow mixed: torch.pow(t(3).abs(), u(3))
square: t(3).square()
sigmoid: t(3).sigmoid()
tanh: t(3).tanh()
sqrt: t(3).abs().sqrt()
sin: t(3).sin()
softplus: F.softplus(t(3))
silu: F.silu(t(3))
softmin: F.softmin(t(3,4), -1)
softmax dtype: t(3,4).softmax(-1, dtype=torch.float64)
log_softmax dtype: F.log_softmax(t(3,4), -1, dtype=torch.float32)
sum dim: t(3,4).sum(1)
sum dtype: t(3,4).sum(1, dtype=torch.float64)
nansum: t(3,4).nansum()
mean dim: t(3,4).mean(1)
std: t(3,4).std(0)
cumprod: t(3,4).cumprod(0)
logcumsumexp: t(3,4).logcumsumexp(0)
logsumexp: t(3,4).logsumexp(1)
norm dim: t(3,4).norm(dim=1)
vector_norm: torch.linalg.vector_norm(t(3,4))
normalize: F.normalize(t(3,4))
dist: torch.dist(t(3), t(3))
pdist: F.pdist(t(4,3))
renorm: torch.renorm(t(3,4), 2, 0, 1.0)
addcdiv: torch.addcdiv(t(3), t(3), t(3))
addcdiv mixed: torch.addcdiv(t(3), u(3), t(3))
addcmul mixed: torch.addcmul(t(3), u(3), t(3))
atan2 mixed: torch.atan2(t(3), u(3))
cross: torch.cross(t(2,3), t(2,3), dim=1)
cross mixed: torch.cross(t(2,3), u(2,3), dim=1)
dot mixed: torch.dot(t(3), u(3))
vdot mixed: torch.vdot(t(3), u(3))
tensordot mixed: torch.tensordot(t(3,4), u(4,5), dims=1)
index_put mixed: torch.index_put(t(3,4), (i(2,3),), u(2,4))
scatter_add mixed: torch.scatter_add(t(3,4), 0, i(8,3).view(2,4), u(2,4))
grid_sample mixed: F.grid_sample(t(1,2,4,4), u(1,3,3,2).tanh(), align_corners=False)
bilinear mixed: F.bilinear(t(3,4), u(3,5), u(6,4,5))
lerp: torch.lerp(t(3), t(3), 0.5)
max: t(3,4).max()
sort: t(3,4).sort()[0]
where mixed: torch.where(t(3) > 0, t(3), u(3))
layer_norm plain: F.layer_norm(t(3,4), (4,))
native layer norm: nn.LayerNorm(4)(t(3,4))
batch norm of a convolution: nn.BatchNorm2d(4)(nn.Conv2d(3,4,3)(t(2,3,8,8)))
layer LSTM: nn.LSTM(8,8)(t(5,2,8))[0]
"""
# What PyTorch's CPU kernels refuse for reasons of their own.
GPU_ALONE = {"pdist", "cross mixed", "tensordot mixed", "bilinear mixed", "layer LSTM"}
LOWER = {"cpu": torch.bfloat16, "cuda": torch.float16, "xpu": torch.float16}


def cases():
    for line in CASES.strip().splitlines():
        name, _, code = line.partition(": ")
        yield name, code


def dtypes_of(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype).replace("torch.", "")
    return "(" + ", ".join(dtypes_of(v) for v in value) + ")"


def given(code, dtype, device):
    """The dtypes of a case's result under autocast, or the error's type."""
    names = {
        "torch": torch,
        "F": F,
        "nn": torch.nn,
        "d": dtype,
        "t": lambda *n: torch.randn(*n).to(dtype),
        "u": lambda *n: torch.randn(*n),
        "i": lambda n, hi: torch.arange(n) % hi,
        "s": lambda n: (torch.eye(n) * 3 + 1).to(dtype),
    }
    torch.manual_seed(0)
    try:
        with warnings.catch_warnings(), torch.device(device), torch.autocast(device, LOWER[device]):
            warnings.simplefilter("ignore")
            return dtypes_of(eval(code, names))
    except (RuntimeError, NotImplementedError):
        return "refused"


def table(device="cpu", picked=None):
    """A line per case; float64 with float32 beside it is another question than autocast's, so mixed cases and layers,
    whose weights are float32, have no third column."""
    columns = [torch.float32, LOWER[device], torch.float64]
    return [
        f"{name}: "
        + " ".join(
            given(code, dtype, device).replace(", ", ",")
            for dtype in columns[: 2 if re.search(r"\bu\(|\bnn\.", code) else 3]
        )
        for name, code in cases()
        if (name in picked if picked is not None else device != "cpu" or name not in GPU_ALONE)
    ]


def pretend_cuda():
    """For PyTorch without a GPU: tensors of shapes and dtypes alone, on a device that is not there."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.cuda.is_available = torch.cuda.is_bf16_supported = lambda *_: True
    torch.backends.cudnn.is_acceptable = lambda tensor: False
    return FakeTensorMode()


if __name__ == "__main__":
    import contextlib
    import sys

    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    print(
        f"# What operators give under torch.autocast('{device}', {LOWER[device]}) for inputs of float32, that and float64, as PyTorch",
        torch.__version__,
    )
    with pretend_cuda() if device == "cuda" and not torch.cuda.is_available() else contextlib.nullcontext():
        print("\n".join(table(device)))
