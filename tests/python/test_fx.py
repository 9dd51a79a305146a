"""torch.fx: graphs of modules run and print as PyTorch's do. tests/python/programs/fx_*.py compare whole texts."""
import taper as torch
from taper import fx, nn
from taper.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.tensor([2.0]))
        self.register_buffer("shift", torch.tensor([0.5]))

    def forward(self, x, bias=None):
        x = F.adaptive_avg_pool2d(self.features(x), 1).flatten(1)
        x = self.head(F.dropout(x, 0.5, self.training)) * self.scale + self.shift
        return F.softmax(x, dim=-1)


def test_a_traced_module_computes_the_same():
    net = Net().eval()
    traced = fx.symbolic_trace(net)
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(traced(x), net(x))
    assert sorted(traced.state_dict()) == sorted(net.state_dict())
    assert not traced.training and type(traced).__name__ == "Net"
    traced(x).sum().backward()
    assert net.head.weight.grad is not None
    assert [node.target for node in traced.graph.nodes if node.op == "call_module"] == ["features.0", "features.1", "features.2", "head"]


def test_calls_are_as_they_were_after_a_trace():
    before = dict(vars(nn.Module))
    fx.symbolic_trace(Net())
    assert vars(nn.Module).keys() == before.keys()
    assert isinstance(nn.Linear(2, 2).weight, nn.Parameter)
