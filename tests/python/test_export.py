"""torch.export: what a program is made of can be looked at, its files need no Python class, and sizes that may change
do so from files too."""

import io

import pytest
import taper as torch
import taper.nn.functional as F
from taper import nn
from taper._dynamo import exc
from taper.export import Dim, export, load, save


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(4, 5)
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("hidden", torch.tensor([1.0, 2.0]), persistent=False)

    def forward(self, x, *, shift=None):
        h = F.relu(self.norm(self.conv(x))).mean((2, 3)) * self.scale
        y = self.head(h)
        return {"y": y if shift is None else y + shift, "p": y.softmax(-1)}


class Tiny(nn.Module):
    def __init__(self, vocabulary=11, width=8):
        super().__init__()
        self.embed, self.qkv, self.norm = (
            nn.Embedding(vocabulary, width),
            nn.Linear(width, 3 * width),
            nn.LayerNorm(width),
        )

    def forward(self, tokens):
        x = self.norm(self.embed(tokens))
        b, t, c = x.shape
        q, k, v = (a.view(b, t, 2, c // 2).transpose(1, 2) for a in self.qkv(x).chunk(3, -1))
        return (
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
            @ self.embed.weight.t()
        )


def through_files(program, tmp_path):
    """The program, and what comes back from a path and from memory."""
    save(program, tmp_path / "p.pt2")
    memory = io.BytesIO()
    save(program, memory)
    memory.seek(0)
    return program, load(tmp_path / "p.pt2"), load(memory)


def test_sizes_change_from_files_too(tmp_path):
    torch.manual_seed(0)
    net = Net().eval()
    batch, x = Dim("batch", min=1, max=64), torch.randn(2, 3, 8, 8)
    program = export(net, (x,), {"shift": torch.randn(2, 5)}, dynamic_shapes={"x": {0: batch}, "shift": {0: batch}})
    assert program.range_constraints == {"batch": (1, 64)}
    for p in through_files(program, tmp_path):
        module = p.module()
        for n in (2, 3, 7, 1, 64, 2):
            x, shift = torch.randn(n, 3, 8, 8), torch.randn(n, 5)
            got, want = module(x, shift=shift), net(x, shift=shift)
            assert got.keys() == want.keys()
            assert all(torch.allclose(got[key], want[key], atol=1e-5) for key in want)
        with pytest.raises(AssertionError, match="batch"):
            module(torch.randn(65, 3, 8, 8), shift=torch.randn(65, 5))
        with pytest.raises(AssertionError, match="batch"):
            module(torch.randn(3, 3, 8, 8), shift=torch.randn(4, 5))
        with pytest.raises(AssertionError, match="expected"):
            module(torch.randn(3, 3, 8, 9), shift=torch.randn(3, 5))


def test_two_sizes_and_attention(tmp_path):
    torch.manual_seed(0)
    net = Tiny().eval()
    program = export(net, (torch.randint(0, 11, (2, 6)),), dynamic_shapes=({0: Dim("batch"), 1: Dim("time", max=32)},))
    for p in through_files(program, tmp_path):
        for shape in ((2, 6), (5, 9), (1, 4), (3, 32)):
            tokens = torch.randint(0, 11, shape)
            assert torch.allclose(p.module()(tokens), net(tokens), atol=1e-5)


def test_automatic_dims_and_what_does_not_follow():
    double = type("Double", (nn.Module,), {"forward": lambda self, x, y: (x * 2 + y).sum(1)})()
    module = export(
        double, (torch.randn(4, 3), torch.randn(4, 3)), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.DYNAMIC}}
    ).module()
    assert torch.equal(module(torch.ones(9, 3), torch.ones(9, 3)), torch.full((9,), 9.0))
    scaled = type("Scaled", (nn.Module,), {"forward": lambda self, x: x * (1.0 / x.shape[0])})()
    with pytest.raises(exc.UserError, match="does not follow"):
        export(scaled, (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim("batch")}})


def test_what_a_program_is_made_of(tmp_path):
    net = Net().eval()
    for p in through_files(export(net, (torch.randn(2, 3, 8, 8),)), tmp_path):
        nodes = list(p.graph.nodes)
        assert {node.op for node in nodes} == {"placeholder", "call_function", "output"}
        assert nodes[-1].op == "output"
        assert all(node.name and isinstance(node.args, tuple) for node in nodes)
        assert any(node.target is torch.convolution for node in nodes)
        assert "p_conv_weight" in str(p.graph)
        assert "def forward(self" in p.graph_module.code
        assert "softmax" in str(p)
        signature = p.graph_signature
        assert signature.user_inputs == ("x",)
        assert "head.weight" in signature.parameters
        assert "scale" in signature.buffers
        assert len(signature.user_outputs) == 2
        assert signature.inputs_to_parameters["p_conv_weight"] == "conv.weight"
        assert p.run_decompositions() is p
        state = p.state_dict
        assert list(state) == list(net.state_dict())
        assert all(torch.equal(state[key], value) for key, value in net.state_dict().items())
        assert [name for name, _ in p.named_parameters()] == [name for name, _ in net.named_parameters()]
        module = p.module()
        assert dict(module.named_parameters()).keys() == dict(net.named_parameters()).keys()


def test_weights_of_a_loaded_program_can_be_exchanged(tmp_path):
    net, other, x = Tiny().eval(), Tiny().eval(), torch.randint(0, 11, (2, 6))
    _, loaded, _ = through_files(export(net, (x,), dynamic_shapes=({0: Dim("batch")},)), tmp_path)
    module = loaded.module()
    module.load_state_dict(other.state_dict())
    for tokens in (x, torch.randint(0, 11, (4, 6))):
        assert torch.allclose(module(tokens), other(tokens), atol=1e-5)


def test_absent_names_say_so():
    import subprocess
    import sys

    code = """import torch
for owner, name in ((torch.export, "ShapesCollection"), (torch.cuda, "GreenContext"), (torch.jit, "ONNXTracedModule")):
    assert not hasattr(owner, name)
    try:
        getattr(owner, name)
        raise SystemExit(name)
    except NotImplementedError as error:
        assert isinstance(error, AttributeError) and name in str(error), error
try:
    torch.cuda.no_such_name
except NotImplementedError:
    raise SystemExit("a name that PyTorch does not have")
except AttributeError:
    print("fine")
"""
    done = subprocess.run([sys.executable, "-m", "taper", "run", "-c", code], capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_the_module_stays_as_it_was():
    m = torch.nn.BatchNorm1d(2)
    torch.export.export(m, (torch.ones(4, 2),))
    assert m.num_batches_tracked.item() == 0
    assert m.running_mean.tolist() == [0, 0]


class Sizes(torch.nn.Module):
    def forward(self, x, y):
        return x.sum(0) + y.sum(0), x.shape[0] * y.shape[0], {"rows": x.shape[0]}


def test_sizes_among_the_results_and_dims_of_dims(tmp_path):
    n = Dim("n", min=2, max=50)
    program = export(Sizes(), (torch.randn(4, 3), torch.randn(9, 3)), dynamic_shapes={"x": {0: n}, "y": {0: 2 * n + 1}})
    torch.export.save(program, tmp_path / "sizes.pt2")
    for module in (program.module(), torch.export.load(tmp_path / "sizes.pt2").module()):
        x, y = torch.randn(6, 3), torch.randn(13, 3)
        total, product, rows = module(x, y)
        assert torch.allclose(total, x.sum(0) + y.sum(0), atol=1e-5)
        assert product == 78
        assert rows == {"rows": 6}
        assert module(torch.randn(4, 3), torch.randn(9, 3))[1] == 36
        with pytest.raises(AssertionError, match="Guard failed"):
            module(x, torch.randn(12, 3))
        with pytest.raises(AssertionError, match="Guard failed"):
            module(x, torch.randn(15, 3))
    assert (2 * n - 1).__name__ == "2*n - 1"
    with pytest.raises(NotImplementedError, match="positive integer"):
        n * 1.5


class Causal(torch.nn.Module):
    """Its mask has time by time elements."""

    def forward(self, x):
        time = x.shape[1]
        mask = torch.triu(torch.full((time, time), float("-inf")), 1)
        return torch.softmax(x @ x.transpose(1, 2) + mask, -1) @ x


def test_squares_of_sizes():
    module = export(
        Causal(), (torch.randn(2, 6, 4),), dynamic_shapes={"x": {0: Dim("batch"), 1: Dim("time", max=64)}}
    ).module()
    for shape in ((3, 9, 4), (1, 20, 4), (5, 1, 4)):
        x = torch.randn(shape)
        assert torch.allclose(module(x), Causal()(x), atol=1e-5)


def test_dynamic_programs_follow_sizes_from_files_of_files(tmp_path):
    """Loading may put steps in another order than the file's, which the rules of sizes are about."""

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x):
            n = x.shape[1]
            return self.layer(
                x + torch.arange(n)[None, :, None] * 0.01, src_mask=nn.Transformer.generate_square_subsequent_mask(n)
            )

    model = Masked().eval()
    program = torch.export.export(
        model, (torch.ones(2, 5, 16),), dynamic_shapes={"x": {1: torch.export.Dim("t", max=64)}}
    )
    for name in ("first.pt2", "second.pt2"):
        torch.export.save(program, tmp_path / name)
        program = torch.export.load(tmp_path / name)
        for n in (5, 9, 3):
            x = torch.randn(2, n, 16)
            assert torch.equal(program.module()(x), model(x))
    with torch.no_grad():
        program.module().layer.linear2.bias.add_(1)
        model.layer.linear2.bias.add_(1)
    torch.export.save(program, tmp_path / "third.pt2")
    for held in (program, torch.export.load(tmp_path / "third.pt2")):
        x = torch.randn(2, 7, 16)
        assert torch.equal(held.module()(x), model(x))


def test_a_file_that_names_no_device_to_run_on_is_refused(tmp_path):
    save(export(nn.Linear(2, 2), (torch.ones(1, 2),)), tmp_path / "good.pt2")
    document = torch.load(tmp_path / "good.pt2")
    for device in ([6, 0], [99, 0], [1, -1], [1], "cpu"):
        torch.save({**document, "device": device}, tmp_path / "bad.pt2")
        with pytest.raises(OSError, match="damaged: a device"):
            load(tmp_path / "bad.pt2")


class Weighs(torch.nn.Module):
    def forward(self, x):
        return x.sum(0) * torch.tensor(1 / x.shape[0])


def test_a_constant_made_from_a_size_does_not_follow_it():
    x = torch.ones(4, 3)
    assert torch.equal(export(Weighs(), (x,)).module()(x), torch.ones(3))
    with pytest.raises(exc.UserError, match="does not follow"):
        export(Weighs(), (x,), dynamic_shapes=({0: Dim("batch")},))
    traced = torch.jit.trace(Weighs(), x)
    held = io.BytesIO()
    torch.jit.save(traced, held)
    held.seek(0)
    assert torch.equal(torch.jit.load(held)(x), torch.ones(3))


def test_parameters_that_get_other_data_are_seen():
    net, x = nn.Linear(3, 2), torch.randn(4, 3)
    module = export(net, (x,), dynamic_shapes=({0: Dim("batch")},)).module()
    net.weight.data = torch.zeros(2, 3)
    net.bias.data = torch.ones(2)
    for n in (4, 7):
        assert torch.equal(module(torch.randn(n, 3)), torch.ones(n, 2))


class Clips(torch.nn.Module):
    def forward(self, x):
        return x[:, :5] * 2


def test_layouts_and_sizes_that_do_not_fit(tmp_path):
    """Strides of dims of one element do not count; what was captured may not be possible at all sizes."""
    program = export(nn.Linear(4, 2), (torch.randn(6, 4),), dynamic_shapes=({0: Dim("n")},))
    for p in through_files(program, tmp_path):
        module = p.module()
        for x in (
            torch.randn(5, 8)[:1, :4],
            torch.randn(4).expand(1, -1),
            torch.randn(3, 8)[:, ::2],
            torch.randn(0, 4),
        ):
            assert module(x).shape == (x.shape[0], 2)
    module = export(Clips(), (torch.randn(2, 8),), dynamic_shapes=({1: Dim("columns")},)).module()
    assert module(torch.ones(2, 11)).shape == (2, 5)
    with pytest.raises(ValueError, match="columns is 4"):
        module(torch.ones(2, 4))


class Looks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        return (x @ self.w.t()).sum(1, keepdim=True) + self.w[1] * 2


def test_parameters_of_another_layout_are_refused():
    net, x = Looks(), torch.randn(5, 4)
    module = export(net, (x,)).module()
    net.w.data = torch.randn(3, 4)
    assert torch.equal(module(x), net(x))
    net.w.data = torch.randn(4, 3).t()
    with pytest.raises(RuntimeError, match="not laid out as it was"):
        module(x)


def test_specs_of_a_graphs_inputs_and_outputs():
    from taper.export.graph_signature import InputKind, OutputKind

    class Shifted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)
            self.register_buffer("shift", torch.ones(2))

        def forward(self, x, y):
            return self.linear(x) + self.shift, y * 2

    signature = torch.export.export(Shifted(), (torch.ones(1, 4), torch.ones(2))).graph_signature
    specs = signature.input_specs
    assert [(spec.kind, spec.target, spec.persistent) for spec in specs] == [
        (InputKind.PARAMETER, "linear.weight", None),
        (InputKind.PARAMETER, "linear.bias", None),
        (InputKind.BUFFER, "shift", True),
        (InputKind.USER_INPUT, None, None),
        (InputKind.USER_INPUT, None, None),
    ]
    assert str(specs[0]) == "p_linear_weight: PARAMETER target='linear.weight'" and specs[-1].arg.name == "y"
    assert [spec.kind for spec in signature.output_specs] == [OutputKind.USER_OUTPUT] * 2
