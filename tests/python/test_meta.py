"""The meta device: shapes, dtypes and strides without elements."""

import copy
import io
import pickle

import pytest
import taper as torch
import taper.nn.functional as F
from taper import nn

META = torch.device("meta")


def meta(*size, **options):
    return torch.empty(*size, device="meta", **options)


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


# ---- Tensors ----
def test_device_has_no_index():
    x = meta(3, 4)
    assert x.device == META
    assert x.device.index is None
    assert str(x.device) == "meta"
    assert x.is_meta
    assert not x.is_cpu
    assert x.get_device() == -1
    assert torch.empty(2, device="meta:0").device == torch.empty(2, device=torch.device("meta", 3)).device == META
    assert torch.device("meta", 0) != META
    assert x.type() == "torch.meta.FloatTensor"


def test_text():
    assert repr(meta(3)) == "tensor(..., device='meta', size=(3,))"
    assert repr(meta((), dtype=torch.int64)) == "tensor(..., device='meta', size=(), dtype=torch.int64)"
    assert repr(meta(2, requires_grad=True)) == "tensor(..., device='meta', size=(2,), requires_grad=True)"
    assert repr(nn.Parameter(meta(2)) * 2) == "tensor(..., device='meta', size=(2,), grad_fn=<MulBackward0>)"
    assert f"{meta(())}" == "tensor(..., device='meta', size=())"


def test_memory_is_counted_and_not_there():
    x = meta(3, 4)
    assert (x.data_ptr(), x.nbytes, x.untyped_storage().nbytes(), x.untyped_storage().data_ptr()) == (0, 48, 48, 0)
    assert meta(1 << 40).untyped_storage().nbytes() == 1 << 42
    assert x[1].storage_offset() == 4
    assert x.t().stride() == (1, 4)


@pytest.mark.parametrize(
    "look, error, text",
    [
        (lambda x: x[0, 0].item(), RuntimeError, "Tensor.item() cannot be called on meta tensors"),
        (lambda x: bool(x[0, 0] > 0), RuntimeError, "Tensor.item() cannot be called on meta tensors"),
        (lambda x: x.tolist(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: x.cpu(), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: torch.zeros(3, 4).copy_(x), NotImplementedError, "Cannot copy out of meta tensor; no data!"),
        (lambda x: x.numpy(), TypeError, "can't convert meta device type tensor to numpy"),
        (lambda x: x + torch.ones(3, 4), RuntimeError, "Tensor on device cpu is not on the expected device meta!"),
        (lambda x: torch.ones(3, 4) + x, RuntimeError, "Tensor on device meta is not on the expected device cpu!"),
        (
            lambda x: torch.nn.functional.prelu(x, torch.ones(1)),
            RuntimeError,
            "Tensor on device cpu is not on the expected device meta!",
        ),
        (lambda x: x.share_memory_(), RuntimeError, "only available on CPU"),
        (lambda x: torch.utils.dlpack.to_dlpack(x), BufferError, "Cannot pack tensors on meta"),
        (
            lambda x: nn.Linear(2, 2, device="meta").to("cpu"),
            NotImplementedError,
            "Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to()",
        ),
    ],
)
def test_what_needs_values_says_so(look, error, text):
    with pytest.raises(error) as raised:
        look(meta(3, 4))
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "name", ["nonzero", "unique", "unique_consecutive", "argwhere", "where", "masked_select", "index", "bincount"]
)
def test_shapes_that_depend_on_values(name):
    x = meta(3, 4)
    calls = {
        "masked_select": lambda: x.masked_select(x > 0),
        "index": lambda: x[x > 0],
        "where": lambda: torch.where(x > 0),
        "bincount": lambda: torch.bincount(meta(3, dtype=torch.int64)),
    }
    with pytest.raises(NotImplementedError, match="with Meta tensors"):
        calls.get(name, lambda: getattr(torch, name)(x))()


def test_writing_is_nothing():
    x = meta(3, 4)
    assert x.copy_(torch.ones(3, 4)) is x
    assert x.add_(1) is x
    x[0] = 1.0
    x[:, 1] = torch.zeros(3)
    x[x > 0] = 0.0
    assert (x + torch.tensor(2.0)).device == (torch.tensor(2.0) * x).device == META
    with pytest.raises(RuntimeError, match="must match the size"):
        x.copy_(torch.ones(5))


def test_makers():
    for make in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
        assert make(2, 3, device="meta").device == META
    assert torch.full((2,), 3.0, device=META).is_meta
    assert torch.arange(1 << 40, device=META).shape == (1 << 40,)
    assert torch.linspace(0, 1, 5, device=META).is_meta
    assert torch.tensor([1, 2], device="meta").dtype == torch.int64
    assert torch.empty_like(torch.ones(2, 3), device="meta").shape == (2, 3)
    assert torch.eye(3, device=META).is_meta
    assert torch.ones(2).to("meta").is_meta
    assert torch.ones(2).to(device=META, dtype=torch.half).dtype == torch.half
    assert meta(2).new_zeros(3).is_meta
    with META:
        assert torch.zeros(2).is_meta
        assert torch.randperm(5).is_meta
        assert torch.tril_indices(1 << 18, 1 << 18).shape[0] == 2


def test_no_numbers_are_drawn():
    generator, before = torch.Generator(), torch.get_rng_state()
    first = generator.get_state()
    (
        nn.Linear(10, 10, device="meta"),
        torch.randn(5, device="meta"),
        F.dropout(meta(5)),
        meta(5).uniform_(generator=generator),
        torch.rand(5, device=META, generator=generator),
    )
    nn.init.trunc_normal_(meta(5, 5)), nn.init.orthogonal_(meta(5, 5)), torch.multinomial(meta(5), 2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(generator.get_state(), first)


# ---- Copies and files ----
def test_copies_and_files():
    x = meta(6, 4)[::2].t().requires_grad_()
    for again in (
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        saved(x),
        saved(x, weights_only=False),
        saved(x, map_location="cpu"),
    ):
        assert again.is_meta
        assert again.shape == x.shape
        assert again.stride() == x.stride()
        assert again.requires_grad
        assert again.dtype == x.dtype
    net = nn.Linear(3, 2, device="meta")
    again = saved(net, weights_only=False)
    assert isinstance(again.weight, nn.Parameter)
    assert again.weight.is_meta
    assert copy.deepcopy(net).weight.is_meta
    both = saved({"a": meta(2, dtype=torch.int8), "b": torch.ones(2)})
    assert both["a"].dtype == torch.int8
    assert both["b"].sum() == 2
    assert saved({"b": torch.ones(2)}, map_location="meta")["b"].is_meta
    assert pickle.loads(pickle.dumps(net.state_dict()))["bias"].is_meta


# ---- Modules ----
def test_module_moves():
    with META:
        net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    assert all(v.is_meta for v in net.state_dict().values())
    values = {k: torch.ones(v.shape, dtype=v.dtype) for k, v in net.state_dict().items()}
    net.load_state_dict(values)  # into meta tensors: nothing
    assert net[0].weight.is_meta
    net.load_state_dict(values, assign=True)
    assert net[0].weight.sum() == 6
    assert isinstance(net[0].weight, nn.Parameter)
    assert nn.Linear(3, 2).to("meta").weight.is_meta
    empty = nn.Linear(3, 2, device="meta").to_empty(device="cpu")
    empty.reset_parameters()
    assert empty.weight.isfinite().all()
    assert nn.utils.skip_init(nn.Linear, 3, 2).weight.device.type == "cpu"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.out, self.up, self.down = (
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


def test_training_step_of_what_no_machine_holds():
    with META:
        words, blocks, head = (
            nn.Embedding(1 << 18, 16384),
            nn.Sequential(*(Block(16384, 128) for _ in range(3))),
            nn.Linear(16384, 1 << 18, bias=False),
        )
        net = nn.Sequential(words, blocks, head).to(torch.bfloat16)
        ids = torch.randint(0, 1 << 18, (64, 8192))
    assert sum(p.numel() * p.element_size() for p in net.parameters()) > 30 << 30
    optimizer = torch.optim.AdamW(net.parameters())
    loss = F.cross_entropy(net(ids).flatten(0, 1).float(), ids.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    assert loss.is_meta
    assert loss.shape == ()
    assert all(p.grad.shape == p.shape and p.grad.dtype == torch.bfloat16 for p in net.parameters())
    assert net(torch.ones(2, 3, dtype=torch.int64)).shape == (2, 3, 1 << 18)  # ids from the CPU may come along


LAYERS = {
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(8, 4, 2, 2),
            nn.GroupNorm(2, 4),
            nn.Flatten(),
        ),
        (2, 3, 16, 16),
    ),
    "lstm": (lambda: nn.LSTM(4, 6, 2, bidirectional=True, batch_first=True), (2, 5, 4)),
    "gru": (lambda: nn.GRU(4, 6), (5, 2, 4)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8)),
    "upsample": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 1),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
        ),
        (2, 3, 5, 5),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_as_on_the_cpu(name):
    make, shape = LAYERS[name]
    here = make()
    with META:
        there = make()
    got, want = there(meta(*shape)), here(torch.ones(shape))
    while isinstance(got, tuple):
        got, want = got[0], want[0]
    assert got.shape == want.shape
    assert got.stride() == want.stride()
    assert got.dtype == want.dtype
    got.sum().backward(), want.sum().backward()
    for a, b in zip(there.parameters(), here.parameters()):
        assert a.grad.shape == b.grad.shape
        assert a.grad.is_meta


@pytest.mark.parametrize(
    "name",
    ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "Muon"],
)
def test_optimizers(name):
    weight = nn.Parameter(meta(1 << 20, 1 << 12))
    weight.grad = meta(1 << 20, 1 << 12)
    optimizer = getattr(torch.optim, name)([weight], lr=0.1)
    optimizer.step()
    for key, value in optimizer.state_dict()["state"].get(0, {}).items():
        assert (
            key == "step"
            or not isinstance(value, torch.Tensor)
            or value.ndim == 0
            or (value.is_meta and value.shape == weight.shape)
        )


def test_sharded_parameters_are_assigned():
    from taper import distributed as dist
    from taper.distributed.fsdp import fully_shard
    from taper.distributed.tensor import distribute_tensor

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        plain = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        with META:
            net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        fully_shard(net[0]), fully_shard(net)
        parts = {
            k: distribute_tensor(plain.state_dict()[k], v.device_mesh, v.placements)
            for k, v in net.state_dict().items()
        }
        net.load_state_dict(parts, assign=True)
        x = torch.randn(3, 8)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        assert torch.allclose(net(x), plain(x))
        net(x).sum().backward()
        plain(x).sum().backward()
        optimizer.step()
        torch.optim.SGD(plain.parameters(), lr=0.1).step()
        assert not any(p.is_meta for p in net.parameters())
        assert torch.allclose(net(x), plain(x))
    finally:
        dist.destroy_process_group()


def test_sharded_parameters_get_memory_last():
    from taper import distributed as dist
    from taper.distributed.fsdp import FullyShardedDataParallel, fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with META:
            net, other = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Linear(8, 4)
        fully_shard(net[0]), fully_shard(net)
        assert all(p.is_meta for p in net.parameters())
        net.to_empty(device="cpu")
        net[0].reset_parameters(), net[2].reset_parameters()
        other = FullyShardedDataParallel(other, device_id=torch.device("cpu"))
        for module in (net, other):
            optimizer = torch.optim.AdamW(module.parameters())
            module(torch.ones(3, 8)).sum().backward()
            optimizer.step()
            assert module(torch.ones(3, 8)).isfinite().all()
            assert not any(p.is_meta for p in module.parameters())
    finally:
        dist.destroy_process_group()


def test_matrices():
    assert torch.linalg.svd(meta(2, 512, 300))[1].shape == (2, 300)
    assert torch.linalg.inv(meta(700, 700)).is_meta
    assert torch.linalg.eigh(meta(9, 9))[0].shape == (9,)
    assert torch.linalg.cholesky(meta(300, 300)).shape == (300, 300)
    assert torch.linalg.det(meta(4, 5, 5)).shape == (4,)
    assert torch.linalg.qr(meta(6, 4))[0].shape == (6, 4)


def test_fake_results_are_compared_with_real_ones():
    from taper._prims_common import compare_tensor_meta
    from taper._subclasses.fake_tensor import FakeTensorMode
    from taper._subclasses.fake_utils import outputs_alias_inputs
    from taper.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = torch.ones(2, 3)
    fake = mode.from_tensor(x)
    with mode:
        turned, sum_ = fake.t(), fake + fake
    compare_tensor_meta(turned, x.t(), True, check_strides=True)
    with pytest.raises(AssertionError, match="shape"):
        compare_tensor_meta(sum_, x.t(), True)
    assert outputs_alias_inputs(turned, fake)
    assert outputs_alias_inputs(x.t(), x)
    assert not outputs_alias_inputs(sum_, fake)
    assert not outputs_alias_inputs(x + x, x)
