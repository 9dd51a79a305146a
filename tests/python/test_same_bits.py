"""A dozen trainings end with the same bits whatever the number of threads, and whether a profiler runs, hooks hang on
the network, tensors are packed on their way to the backward, or the model, or the whole step, is captured, and whether
it is written in Python or in C. What a trained network then gives in evaluation is the same too."""

import contextlib
import os
import pathlib
import subprocess
import warnings

import numpy as np
import pytest
import taper as torch
import taper.nn.functional as F
from taper import nn

STEPS = 3
BUILD = pathlib.Path(os.environ.get("TAPER_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))


@pytest.fixture(autouse=True)
def own_threads():
    before = torch.get_num_threads()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a capture that gives up says so in a warning
        yield
    torch.set_num_threads(before)


# ---- The trainings: a model, what it is given, what becomes of its result, its optimiser. tests/trainings.c has the
# same ones in C. Sizes are such that the larger layers are worth several threads.
TRAININGS = {}


def training(function):
    TRAININGS[function.__name__] = function
    return function


def images(*shape, classes=10):
    return torch.randn(shape), torch.randint(0, classes, (shape[0],))


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)


@training
def mlp():
    model = nn.Sequential(nn.Linear(200, 256), nn.ReLU(), nn.Linear(256, 130), nn.ReLU(), nn.Linear(130, 10))
    return model, images(300, 200), F.cross_entropy, adam


@training
def tiny_mlp():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, images(32, 64), F.cross_entropy, adam


@training
def cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(32 * 49, 10),
    )
    return model, images(8, 3, 32, 32), F.cross_entropy, sgd


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.second, self.norm2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.down = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return F.relu(self.norm2(self.second(F.relu(self.norm1(self.first(x))))) + self.down(x))


@training
def resnet():
    model = nn.Sequential(
        Residual(3, 32, 1), Residual(32, 48, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10)
    )
    return model, images(4, 3, 24, 24), F.cross_entropy, sgd


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(400, 200), nn.ReLU(), nn.Linear(200, 40))
        self.decoder = nn.Sequential(nn.Linear(20, 200), nn.ReLU(), nn.Linear(200, 400))

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return torch.cat([self.decoder(z), mean, log_var], 1)


def vae_loss(out, x):
    image, mean, log_var = out.split([400, 20, 20], 1)
    return (
        F.binary_cross_entropy_with_logits(image, x, reduction="sum") / 400
        - 0.5 * (1 + log_var - mean.square() - log_var.exp()).sum()
    )


@training
def vae():
    model, x = Vae(), torch.rand(96, 400)
    return model, (x, x), vae_loss, adam


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(24, 72, batch_first=True, **options)
        self.head = nn.Linear(144 if self.layer.bidirectional else 72, 10)

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def recurrent(kind, **options):
    return Recurrent(kind, **options), images(20, 12, 24), F.cross_entropy, adam


@training
def lstm():
    return recurrent(nn.LSTM, num_layers=2, dropout=0.1)


@training
def gru():
    return recurrent(nn.GRU, bidirectional=True)


@training
def rnn():
    return recurrent(nn.RNN, nonlinearity="relu")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.token, self.place = nn.Embedding(50, width), nn.Embedding(40, width)
        self.blocks, self.norm = nn.Sequential(Block(width, 4), Block(width, 4)), nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.blocks(self.token(tokens) + self.place.weight[: tokens.shape[1]])
        return F.linear(self.norm(x), self.token.weight)  # the embedding is the head too


def next_token(out, targets):
    return F.cross_entropy(out.flatten(0, 1), targets.flatten())


@training
def gpt():
    model, tokens = Gpt(), torch.randint(0, 50, (6, 41))
    return model, (tokens[:, :-1], tokens[:, 1:]), next_token, lambda m: torch.optim.AdamW(m.parameters(), lr=3e-3)


@training
def attention():
    model = nn.Sequential(
        nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True), nn.Flatten(), nn.Linear(64 * 20, 10)
    )
    return model, images(16, 20, 64), F.cross_entropy, adam


@training
def embedding_bag():
    model = nn.Sequential(nn.EmbeddingBag(500, 96, mode="mean"), nn.ELU(), nn.Linear(96, 10))
    return (
        model,
        (torch.randint(0, 500, (128, 9)), torch.randint(0, 10, (128,))),
        F.cross_entropy,
        lambda m: torch.optim.Adagrad(m.parameters(), lr=0.05),
    )


@training
def autoencoder():
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1),
        nn.LeakyReLU(0.1),
        nn.Conv2d(16, 32, 3, 2, 1),
        nn.SiLU(),
        nn.ConvTranspose2d(32, 16, 3, 2, 1, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 1, 4, 2, 1),
        nn.Sigmoid(),
    )
    x = torch.rand(8, 1, 28, 28)
    return model, (x, x), F.mse_loss, lambda m: torch.optim.RMSprop(m.parameters(), lr=1e-3)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Linear(16 * 64, 10)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.head(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1)).float()


@training
def mixed_precision():
    return Mixed(), images(16, 3, 16, 16), F.cross_entropy, adam


@training
def bfloat16():
    model = nn.Sequential(nn.Linear(200, 256), nn.Softplus(), nn.Linear(256, 10)).bfloat16()
    x, y = images(128, 200)
    return model, (x.bfloat16(), y), F.cross_entropy, sgd


@training
def group_norm():
    model = nn.Sequential(
        nn.Conv2d(4, 24, 1),
        nn.GroupNorm(4, 24),
        nn.Mish(),
        nn.Conv2d(24, 24, 3, padding=1, groups=24),
        nn.InstanceNorm2d(24, affine=True),
        nn.Hardswish(),
        nn.Upsample(scale_factor=2),
        nn.AdaptiveMaxPool2d(4),
        nn.Flatten(),
        nn.Linear(24 * 16, 10),
    )
    return model, images(8, 4, 20, 20), F.cross_entropy, lambda m: torch.optim.NAdam(m.parameters(), lr=5e-3)


@training
def volumes():
    model = nn.Sequential(
        nn.Conv3d(1, 8, 3),
        nn.BatchNorm3d(8),
        nn.ReLU(),
        nn.Flatten(2),
        nn.Conv1d(8, 12, 5, stride=3, dilation=2),
        nn.BatchNorm1d(12),
        nn.PReLU(),
        nn.AdaptiveAvgPool1d(5),
        nn.Flatten(),
        nn.Linear(60, 10),
    )
    return model, images(6, 1, 10, 11, 12), lambda out, y: F.multi_margin_loss(out, y), adam


# ---- Running them
def bits(t):
    return t.detach().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def train(
    name,
    capture=lambda model, x: model,
    step_of=lambda step: step,
    around=contextlib.nullcontext,
    prepare=lambda model: None,
):
    """Everything that the training leaves: losses, parameters, buffers, the optimiser's state, and the network's answer
    in evaluation."""
    torch.manual_seed(5)
    model, (x, y), loss_of, optimiser_of = TRAININGS[name]()
    optimiser, left = optimiser_of(model), {}
    prepare(model)
    torch.manual_seed(6)
    run = capture(model, x)

    def step(x, y):
        optimiser.zero_grad()
        loss = loss_of(run(x), y)
        loss.backward()
        optimiser.step()
        return loss

    step = step_of(step)
    torch.manual_seed(7)
    with around():
        for i in range(STEPS):
            left[f"loss {i}"] = bits(step(x, y))
        model.eval()
        run = capture(model, x)
        with torch.no_grad():
            for i in range(2):  # the first call of a compiled model is the one that is captured
                torch.manual_seed(8)
                left[f"evaluated {i}"] = bits(run(x))
    left.update({f"state {k}": bits(v) for k, v in model.state_dict().items()})
    left.update({f"gradient {k}": bits(p.grad) for k, p in model.named_parameters() if p.grad is not None})
    left.update(
        {
            f"optimiser {k} {s}": bits(v)
            for k, state in optimiser.state_dict()["state"].items()
            for s, v in state.items()
            if isinstance(v, torch.Tensor)
        }
    )
    return left


REFERENCES = {}


def reference(name):
    if name not in REFERENCES:
        torch.set_num_threads(1)
        REFERENCES[name] = train(name)
    return REFERENCES[name]


def check(name, **how):
    expected, got = reference(name), train(name, **how)
    assert expected.keys() == got.keys()
    assert [k for k in expected if expected[k] != got[k]] == []


every_training = pytest.mark.parametrize("name", TRAININGS)


@every_training
def test_steps_change_something(name):
    left = reference(name)
    assert len({left[f"loss {i}"] for i in range(STEPS)}) == STEPS


@every_training
def test_threads(name):
    for threads in (2, 3, 4, 8):
        reference(name)
        torch.set_num_threads(threads)
        check(name)


# ---- From C
@pytest.fixture(scope="session")
def from_c(tmp_path_factory):
    program = BUILD / "tests" / "same_bits_test"
    if not program.exists():
        pytest.skip("the C tests are not built")
    file = tmp_path_factory.mktemp("trainings") / "c.npz"
    run = subprocess.run(
        [program], env={**os.environ, "TAPER_TRAINING_RESULTS": str(file)}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    with np.load(file) as arrays:
        return {key: arrays[key].tobytes() for key in arrays.files}


@every_training
def test_from_c(name, from_c):
    expected = {f"{name}/{k}": v for k, v in reference(name).items() if not k.startswith("optimiser ")}
    got = {k: v for k, v in from_c.items() if k.startswith(name + "/")}
    assert expected.keys() == got.keys()
    assert [k for k in expected if expected[k] != got[k]] == []


# ---- Who watches
@contextlib.contextmanager
def profiled():
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=False):
        yield


def packed():
    """What a backward needs comes back as another tensor. Of the same layout: below AVX2 products are the BLAS's, whose
    sums may follow it."""
    return torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t.clone())


def hooked(model):
    for module in model.modules():
        module.register_forward_pre_hook(lambda m, args: None)
        module.register_forward_hook(lambda m, args, out: None)
        if not list(module.children()) and not isinstance(module, (nn.RNNBase, nn.Flatten)):
            module.register_full_backward_hook(lambda m, before, after: None)
    for p in model.parameters():
        p.register_hook(lambda g: None)
        p.register_post_accumulate_grad_hook(lambda p: None)


@every_training
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "how",
    [{"around": profiled}, {"around": packed}, {"around": torch.autograd.detect_anomaly}, {"prepare": hooked}],
    ids=["profiler", "saved", "anomaly", "hooks"],
)
def test_watchers(name, threads, how):
    reference(name)
    torch.set_num_threads(threads)
    with warnings.catch_warnings():
        if how.get("around") is torch.autograd.detect_anomaly:
            warnings.simplefilter("ignore")  # it warns that it is on
        warnings.filterwarnings("ignore", "Full backward hook is firing")  # the first layer's input needs no gradient
        check(name, **how)


# ---- Captures
def traced(model, x):
    """A trace runs the model once, which moves statistics and random numbers on."""
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.random.fork_rng():
        trace = torch.jit.trace(model, (x,), check_trace=False)
    model.load_state_dict(before)
    return trace


CAPTURES = {
    "compiled model": {"capture": lambda model, x: torch.compile(model)},
    "compiled step": {"step_of": torch.compile},
    "traced model": {"capture": traced},
}


@every_training
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("how", CAPTURES)
def test_captures(name, threads, how):
    reference(name)
    torch.set_num_threads(threads)
    check(name, **CAPTURES[how])
    if threads > 1:
        check(name, **CAPTURES[how], around=profiled)


# ---- Evaluation
def exported(model, x, folder):
    return torch.export.export(model, (x,)).module()


def saved_and_loaded(model, x, folder):
    torch.jit.trace(model, (x,), check_trace=False).save(folder / "net.pt")
    return torch.jit.load(folder / "net.pt")


def called_with(around):
    def run(model, x, folder):
        def call(x):
            with around():
                return model(x)

        return call

    return run


EVALUATIONS = {
    "gradients": called_with(torch.enable_grad),
    "inference mode": called_with(torch.inference_mode),
    "profiler": called_with(profiled),
    "exported": exported,
    "saved": saved_and_loaded,
    "compiled": lambda model, x, folder: torch.compile(model),
    "compiled, gradients": lambda model, x, folder: torch.compile(called_with(torch.enable_grad)(model, x, folder)),
}


@every_training
@pytest.mark.parametrize("how", EVALUATIONS)
def test_evaluation(name, how, tmp_path):
    torch.manual_seed(5)
    model, (x, _), _, _ = TRAININGS[name]()
    model.eval()
    with torch.no_grad():
        run = EVALUATIONS[how](model, x, tmp_path)
        for _ in range(3):
            torch.manual_seed(8)
            want = model(x)
            torch.manual_seed(8)
            assert bits(run(x)) == bits(want)
