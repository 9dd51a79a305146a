"""Many operators, on a thread with a stack of 128 KiB (`thread`) or on the main thread (`main`)."""

import sys
import threading

import taper as torch

F = torch.nn.functional


def work():
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.float16):
        for n in (10, 5000, 300000):
            x = torch.ones(n, dtype=dtype)
            x.sum(), x.cumsum(0), x[::2].sum(), x.exp(), x.prod()
    y = torch.randn(600, 700)
    for dim in (0, 1):
        (
            y.max(dim),
            y.var(dim),
            y.softmax(dim),
            y.sort(dim),
            y.median(dim),
            y.cummax(dim),
            y.topk(3, dim),
            y.norm(3.0, dim=dim),
        )
    y.t() @ y, torch.linalg.multi_dot([y, y.t(), y]), y.unique(), torch.cdist(y, y), str(y)
    image = torch.randn(2, 64, 28, 28, requires_grad=True)
    weight = torch.randn(64, 64, 3, 3, requires_grad=True)
    F.interpolate(F.conv2d(image, weight, padding=1).relu(), scale_factor=2, mode="bilinear").sum().backward()
    q = torch.randn(2, 4, 100, 32, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q).sum().backward()
    torch.nn.LSTM(16, 32)(torch.randn(5, 3, 16))[0].sum().backward()
    torch.fft.fft(torch.randn(4, 1000)), torch.linalg.svd(torch.randn(50, 40))
    print("fine")


if sys.argv[1] == "thread":
    threading.stack_size(128 * 1024)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
else:
    work()
