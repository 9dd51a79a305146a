"""torch.utils.flop_counter: the counts that PyTorch 2.15 gave for the same programs."""

import pytest
import taper as torch
from taper import nn
from taper.utils.flop_counter import FlopCounterMode


def counts(counter):
    return {
        place: {str(operator): count for operator, count in found.items()}
        for place, found in counter.get_flop_counts().items()
    }


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Sequential(nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.b(self.a(x))


def test_by_module_forward_and_backward():
    with FlopCounterMode(display=False) as counter:
        Net()(torch.randn(5, 8)).sum().backward()
    assert counter.get_total_flops() == 4480
    assert counts(counter) == {
        "Net": {"aten.addmm": 1920, "aten.mm": 2560},
        "Net.a": {"aten.addmm": 1280, "aten.mm": 1280},
        "Global": {"aten.addmm": 1920, "aten.mm": 2560},
        "Net.b": {"aten.addmm": 640, "aten.mm": 1280},
        "Net.b.1": {"aten.addmm": 640, "aten.mm": 1280},
    }
    assert counter.get_flop_counts()["Global"][torch.ops.aten.mm] == 2560
    assert counter.get_table().splitlines()[2].split() == ["Global", "4.480K", "100.00%"]


def test_convolutions_and_attention():
    with FlopCounterMode(display=False) as counter:
        nn.ConvTranspose2d(3, 6, 3, stride=2)(torch.randn(2, 3, 8, 8, requires_grad=True)).sum().backward()
    assert counts(counter)["Global"] == {"aten.convolution": 41472, "aten.convolution_backward": 82944}
    with FlopCounterMode(display=False) as counter:
        nn.Conv2d(3, 6, 3)(torch.randn(1, 3, 8, 8))
        torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5))
        nn.functional.scaled_dot_product_attention(*[torch.ones(1, 2, 4, 8)] * 3)
        torch.ones(2, 3) @ torch.ones(3, 4)
    assert counts(counter)["Global"] == {
        "aten.convolution": 11664,
        "aten.bmm": 240,
        "aten._scaled_dot_product_flash_attention_for_cpu": 1024,
        "aten.mm": 48,
    }


def test_nothing_is_left_behind(capsys):
    with FlopCounterMode():
        pass
    assert "Module" in capsys.readouterr().out
    net = Net()
    net(torch.randn(1, 8))
    assert not net._forward_hooks


def test_attention_by_shapes_and_a_needless_argument():
    from taper.utils.flop_counter import sdpa_flop_count

    assert sdpa_flop_count((2, 32, 128, 64), (2, 8, 128, 64), (2, 8, 128, 64)) == 2 * 2 * 32 * 128 * 128 * 128
    with pytest.raises(AssertionError):
        sdpa_flop_count((2, 32, 128, 64), (2, 5, 128, 64), (2, 5, 128, 64))
    with pytest.warns(UserWarning, match="not needed"):
        FlopCounterMode(torch.nn.Linear(2, 2))
