"""Compiled graphs on a GPU, row by row: time of the eager and of the compiled step, how long the first compiled call
takes, how many kernels a step launches and how long they run, peak memory, and what takes the time.

    python bench/gpu_compile.py [--only gpt2,resnet50] [--mode reduce-overhead] [--seconds 1.5] [--pytorch PYTHON]

Kernels are counted by CUPTI where it is found. What takes the time is measured in a second process, in which every
launch waits until the kernel is done (CUDA_LAUNCH_BLOCKING), so that an operator's time is its kernels' and some 5 us
for each; its own kernels have no names that CUPTI could show.
--pytorch runs the same rows in an interpreter that has PyTorch.
"""

import argparse
import collections
import ctypes
import glob
import json
import os
import subprocess
import sys
import time
import types

import rows as workloads

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = 10


# ---- Rows: (the function to compile, what a step does with it)
def chain(b):
    torch = b.torch
    x, y = (torch.randn(b.small(1 << 26, 1 << 12), device=b.device) for _ in range(2))
    return lambda x, y: torch.tanh(x * 1.5 + y) * torch.sigmoid(y) + x, lambda run: run(x, y)


def reduced(b):
    torch = b.torch
    x, y = (torch.randn(b.small(1 << 16, 64), 1024, device=b.device) for _ in range(2))
    scale = torch.randn(1024, device=b.device)
    return lambda x, y: (torch.tanh(x * 1.5 + y) * scale).sum(0), lambda run: run(x, y)


def norm(b):
    torch, F = b.torch, b.F
    x = torch.randn(b.small(16384, 16), 1024, device=b.device, dtype=torch.bfloat16)
    residual, weight, bias = torch.randn_like(x), torch.randn_like(x[0]), torch.randn_like(x[0])

    def layer(x, residual, weight, bias):
        total = x + residual
        return F.gelu(F.layer_norm(total, (1024,), weight, bias)) * 0.5 + total

    return layer, lambda run: run(x, residual, weight, bias)


def classifier(b, model, optimizer, x, y, mixed=False):
    def loss(x, y):
        with b.torch.autocast(b.device, dtype=b.torch.bfloat16, enabled=mixed):
            out = model(x)
            return b.F.cross_entropy(out.view(-1, out.shape[-1]), y.view(-1))

    def step(run):
        optimizer.zero_grad()
        run(x, y).backward()
        optimizer.step()

    return loss, step


def mlp(b):
    model = workloads.tiny_network(b).to(b.device)
    x, y = b.torch.randn(32, 64, device=b.device), b.torch.randint(0, 10, (32,), device=b.device)
    return classifier(b, model, b.torch.optim.Adam(model.parameters(), lr=1e-3), x, y)


def cifar(b):
    model = workloads.cifar_network(b).to(b.device)
    x, y = b.torch.randn(32, 3, 32, 32, device=b.device), b.torch.randint(0, 10, (32,), device=b.device)
    return classifier(b, model, b.torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9), x, y)


def gpt2(b, batch=16, length=1024):
    b.torch.set_default_device(b.device)
    model = workloads.gpt_network(b, b.small(50304, 128), b.small(length, 32), b.small(12, 2), 12, b.small(768, 96))
    x, y = (b.torch.randint(0, b.small(50304, 128), (b.small(batch, 2), b.small(length, 32))) for _ in range(2))
    return classifier(b, model, b.torch.optim.AdamW(model.parameters(), lr=3e-4), x, y, mixed=True)


def resnet50_network(b):
    nn = b.nn

    def conv(i, o, kernel, stride=1):
        return [nn.Conv2d(i, o, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(o)]

    class Block(nn.Module):
        def __init__(self, i, width, stride):
            super().__init__()
            o, act = 4 * width, nn.ReLU(inplace=True)
            self.body = nn.Sequential(*conv(i, width, 1), act, *conv(width, width, 3, stride), act, *conv(width, o, 1))
            self.short = nn.Sequential() if stride == 1 and i == o else nn.Sequential(*conv(i, o, 1, stride))

        def forward(self, x):
            return b.F.relu(self.body(x) + self.short(x))

    layers, i = [*conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
    for width, stride, count in ((64, 1, 3), (128, 2, 4), (256, 2, 6), (512, 2, 3)):
        for k in range(b.small(count, 1)):
            layers.append(Block(i, width, stride if k == 0 else 1))
            i = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 1000))


def resnet50(b):
    torch = b.torch
    model = resnet50_network(b).to(b.device).to(memory_format=torch.channels_last)
    side, batch = b.small(224, 32), b.small(256, 2)
    x = torch.randn(batch, 3, side, side, device=b.device).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (batch,), device=b.device)
    return classifier(b, model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), x, y, mixed=True)


def decoder(b, batch):
    """One token of a decoder of Llama's shape (1.2 billion weights, bfloat16), with the keys and values of the 1,023
    before it kept. A step reads every weight once: what memory allows is their bytes over its speed."""
    torch, nn, F = b.torch, b.nn, b.F
    width, heads, kept, hidden, vocabulary, length = (
        b.small(2048, 64),
        32,
        8,
        b.small(8192, 96),
        b.small(128256, 64),
        1024,
    )
    head = width // heads

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.k, self.v = (nn.Linear(width, n * head, bias=False) for n in (heads, kept, kept))
            self.o = nn.Linear(width, width, bias=False)
            self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
            self.down = nn.Linear(hidden, width, bias=False)
            for name in ("keys", "values"):
                self.register_buffer(name, torch.randn(batch, kept, length, head))

        def turned(self, x, cos, sin):
            first, second = x.chunk(2, -1)
            return x * cos + torch.cat([-second, first], -1) * sin

        def forward(self, x, at, cos, sin):
            h = self.before(x)
            q, k, v = (f(h).view(batch, 1, -1, head).transpose(1, 2) for f in (self.q, self.k, self.v))
            self.keys.index_copy_(2, at, self.turned(k, cos, sin))
            self.values.index_copy_(2, at, v)
            q = self.turned(q, cos, sin).view(batch, kept, heads // kept, head)  # heads that share keys are queries
            y = F.scaled_dot_product_attention(q, self.keys, self.values)
            x = x + self.o(y.reshape(batch, 1, width))
            h = self.between(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.layers = nn.ModuleList([Layer() for _ in range(b.small(16, 2))])
            self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, token, at, cos, sin):
            x = self.tokens(token)
            for layer in self.layers:
                x = layer(x, at, cos, sin)
            return self.head(self.norm(x))

    torch.set_default_device(b.device)
    model = Decoder().to(torch.bfloat16)
    angle = 1023 * 500000.0 ** (-torch.arange(0, head, 2).float() / head)
    cos, sin = (torch.cat([f(angle)] * 2).to(torch.bfloat16) for f in (torch.cos, torch.sin))
    token, at = torch.randint(0, vocabulary, (batch, 1)), torch.tensor([length - 1])

    def step(run):
        with torch.no_grad():
            run(token, at, cos, sin)

    return model, step


ROWS = {
    "pointwise_chain": chain,
    "chain_sum": reduced,
    "layer_norm": norm,
    "mlp_tiny": mlp,
    "cifar_32": cifar,
    "gpt2": gpt2,
    "resnet50": resnet50,
    "decode_1": lambda b: decoder(b, 1),
    "decode_32": lambda b: decoder(b, 32),
}


# ---- Kernels by CUPTI
class Kernels:
    """What ran on the GPU between start() and stop(), as (name, nanoseconds); None without CUPTI."""

    KERNEL = 10  # CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL

    def __init__(self):
        self.library, self.found = self.open(), []
        if not self.library:
            return
        request = ctypes.CFUNCTYPE(
            None,
            ctypes.POINTER(ctypes.c_void_p),
            ctypes.POINTER(ctypes.c_size_t),
            ctypes.POINTER(ctypes.c_size_t),
        )
        complete = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
        )
        self.buffers = {}
        self.calls = request(self.requested), complete(self.completed)
        if self.library.cuptiActivityRegisterCallbacks(*self.calls):
            self.library = None

    @staticmethod
    def open():
        places = ["libcupti.so", *glob.glob("/usr/local/cuda*/**/libcupti.so*", recursive=True)]
        for path in sys.path:
            places += glob.glob(os.path.join(path, "nvidia", "**", "libcupti.so*"), recursive=True)
        for place in places:
            try:
                return ctypes.CDLL(place)
            except OSError:
                pass
        return None

    def requested(self, buffer, size, most):
        block = ctypes.create_string_buffer((8 << 20) + 8)
        address = (ctypes.addressof(block) + 7) & ~7
        self.buffers[address] = block
        buffer[0], size[0], most[0] = address, 8 << 20, 0

    def completed(self, context, stream, buffer, size, valid):
        record = ctypes.c_void_p()
        while valid and not self.library.cuptiActivityGetNextRecord(
            ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)
        ):
            at = record.value
            if ctypes.c_uint32.from_address(at).value != self.KERNEL:
                continue
            start, end = (ctypes.c_uint64.from_address(at + offset).value for offset in (16, 24))
            name = ctypes.c_char_p.from_address(at + 104).value
            self.found.append(((name or b"?").decode(errors="replace"), end - start))
        self.buffers.pop(buffer, None)

    def start(self):
        self.found = []
        return bool(self.library) and not self.library.cuptiActivityEnable(self.KERNEL)

    def stop(self):
        self.library.cuptiActivityFlushAll(1)
        self.library.cuptiActivityDisable(self.KERNEL)
        return self.found


# ---- Measuring
def bench(module, device, small):
    import importlib

    torch = importlib.import_module(module)
    nn, F = importlib.import_module(f"{module}.nn"), importlib.import_module(f"{module}.nn.functional")
    return types.SimpleNamespace(torch=torch, nn=nn, F=F, device=device, small=lambda n, few: few if small else n)


def timed(b, step, run, seconds):
    wait = getattr(b.torch, b.device).synchronize
    for _ in range(3):
        step(run)
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start, n = time.perf_counter(), 0
        while n < 1000 and (n == 0 or time.perf_counter() - start < seconds / 8):
            step(run)
            n += 1
        wait()
        best = min(best, (time.perf_counter() - start) / n)
    return best * 1e6


def measure(b, name, seconds, mode, kernels):
    b.torch.manual_seed(0)
    function, step = ROWS[name](b)
    place = getattr(b.torch, b.device)
    result = {"eager": timed(b, step, function, seconds)}
    place.reset_peak_memory_stats()
    step(function)
    place.synchronize()
    result["eager_peak"] = place.max_memory_allocated()
    compiled, start = b.torch.compile(function, mode=mode), time.perf_counter()
    for _ in range(2):  # the first records, the second runs what was made of it
        step(compiled)
    place.synchronize()
    result["first"] = time.perf_counter() - start
    result["compiled"] = timed(b, step, compiled, seconds)
    place.reset_peak_memory_stats()
    step(compiled)
    place.synchronize()
    result["compiled_peak"] = place.max_memory_allocated()
    if kernels.start():
        step(compiled)
        place.synchronize()
        result["kernels"] = kernels.stop()
    return result


def operators(b, name):
    """What the operators of an eager and of a compiled step take, each waited for."""
    function, step = ROWS[name](b)
    found = []
    for run in (function, b.torch.compile(function)):
        for _ in range(3):
            step(run)
        getattr(b.torch, b.device).synchronize()
        with b.torch.profiler.profile(activities=[b.torch.profiler.ProfilerActivity.CPU]) as profile:
            step(run)
            getattr(b.torch, b.device).synchronize()
        found.append([[e.key, e.count, e.self_cpu_time_total] for e in profile.key_averages()])
    return found


def child(options):
    b, kernels = bench(options.module, options.device, options.small), Kernels()
    for name in options.only:
        try:
            found = (
                operators(b, name) if options.operators else measure(b, name, options.seconds, options.mode, kernels)
            )
        except (RuntimeError, TypeError, ValueError, AttributeError, ImportError) as error:  # the others go on
            found = {"error": f"{type(error).__name__}: {error}"}
        b.torch.set_default_device("cpu")
        print("ROW " + json.dumps([name, found]), flush=True)


# ---- The report
def asked(python, module, options, *more, env=None):
    command = [python, os.path.abspath(__file__), "--module", module, "--device", options.device, *more]
    command += ["--seconds", str(options.seconds), "--only", ",".join(options.only)] + ["--small"] * options.small
    command += ["--mode", options.mode] if options.mode else []
    output = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}, cwd=HERE
    )
    return dict(json.loads(line[4:]) for line in output.stdout.splitlines() if line.startswith("ROW "))


def show(side, found):
    print(f"\n{side}")
    print(
        f"{'row':<18}{'eager us':>11}{'compiled us':>13}{'first s':>9}{'kernels':>9}{'GPU us':>10}{'eager MiB':>11}{'MiB':>9}"
    )
    for name, r in found.items():
        if "error" in r:
            print(f"{name:<18}  {r['error']}")
            continue
        kernels = r.get("kernels")
        count, busy = (len(kernels), f"{sum(t for _, t in kernels) / 1e3:.0f}") if kernels else ("?", "?")
        print(
            f"{name:<18}{r['eager']:>11.1f}{r['compiled']:>13.1f}{r['first']:>9.2f}{count:>9}{busy:>10}"
            f"{r['eager_peak'] / 2**20:>11.0f}{r['compiled_peak'] / 2**20:>9.0f}"
        )
    for name, r in found.items():
        total = collections.defaultdict(lambda: [0, 0.0])
        for kernel, t in r.get("kernels") or []:
            total[kernel][0] += 1
            total[kernel][1] += t / 1e3
        top("kernels of " + name, total)


def top(title, total):
    if not total:
        return
    print(f"  {title}")
    for key, (count, us) in sorted(total.items(), key=lambda item: -item[1][1])[:TOP]:
        print(f"    {us:>10.1f} us {count:>5}x  {key[:110]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(ROWS), help="rows, with commas between them")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each measurement")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mode", help="torch.compile's")
    parser.add_argument("--pytorch", help="an interpreter that has PyTorch")
    parser.add_argument("--small", action="store_true", help="networks that a processor runs: to try this file")
    parser.add_argument("--module", help=argparse.SUPPRESS)
    parser.add_argument("--operators", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.only = options.only.split(",")
    if options.module:
        return child(options)
    show("Taper", asked(sys.executable, "taper", options))
    for name, found in asked(
        sys.executable, "taper", options, "--operators", env={"CUDA_LAUNCH_BLOCKING": "1"}
    ).items():
        if isinstance(found, list):
            for side, of in zip(("eager", "compiled"), found):
                top(f"operators of {name}, {side}, each waited for", {key: (count, us) for key, count, us in of})
        else:
            print(f"  {name}: {found['error']}")
    if options.pytorch:
        show("PyTorch", asked(options.pytorch, "torch", options))


if __name__ == "__main__":
    main()
