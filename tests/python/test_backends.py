"""Modules of devices that are not there, switches of libraries, and memory formats."""

import os
import pathlib
import subprocess
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # what a machine without a GPU answers
import pytest

import taper as torch

F = torch.nn.functional


@pytest.mark.parametrize(
    "code",
    [
        "torch.zeros(1).cuda()",
        "torch.zeros(1).to('cuda')",
        "torch.zeros(1, device='cuda')",
        "torch.tensor([1.0], device='cuda:0')",
        "torch.cuda.current_device()",
        "torch.cuda.set_device(0)",
        "torch.cuda.synchronize()",
        "torch.cuda.Stream()",
        "torch.cuda.Event(enable_timing=True).record()",
        "torch.cuda.get_device_name(0)",
        "torch.cuda.device(0).__enter__()",
        "torch.cuda.memory_summary()",
        "torch.cuda.random.seed()",
        "torch.nn.Module().register_buffer('a', torch.ones(1)) or torch.ones(1).to(torch.device('cuda'))",
    ],
)
def test_cuda_is_refused_as_without_a_driver(code):
    with pytest.raises(RuntimeError, match="Found no NVIDIA driver on your system"):
        eval(code)


def test_events_without_a_gpu_exist_and_were_reached():
    event = torch.cuda.Event(enable_timing=True)
    assert repr(event) == "<torch.cuda.Event uninitialized>"
    assert event.query()
    assert event.synchronize() is None
    with pytest.raises(ValueError, match="Both events must be recorded"):
        event.elapsed_time(torch.cuda.Event(enable_timing=True))


@pytest.mark.parametrize(
    "code", ["torch.ones(2, device='mps')", "torch.ones(2).to('mps')", "torch.nn.Linear(2, 2).to('mps')"]
)
def test_mps_is_refused(code):
    with pytest.raises(RuntimeError, match="PyTorch is not linked with support for mps devices"):
        eval(code)


def test_what_needs_no_gpu_works():
    assert not torch.cuda.is_available()
    assert torch.cuda.device_count() == 0
    assert not torch.cuda.is_initialized()
    assert torch.cuda.memory_allocated() == torch.cuda.max_memory_reserved() == 0
    assert torch.cuda.get_rng_state_all() == []
    assert torch.cuda.memory_stats() == {}
    assert not torch.cuda.is_bf16_supported()
    (
        torch.cuda.manual_seed_all(1),
        torch.cuda.empty_cache(),
        torch.cuda.reset_peak_memory_stats(),
        torch.cuda.set_device(-1),
    )
    with torch.cuda.device(None), torch.cuda.stream(None), torch.cuda.device_of(torch.ones(1)):
        pass
    with torch.cuda.nvtx.range("step {}", 3):  # marks nothing where no profiler listens
        torch.cuda.nvtx.mark("here"), torch.cuda.nvtx.range_push("a"), torch.cuda.nvtx.range_pop()
    assert not torch.xpu.is_available()
    assert not torch.mps.is_available()
    assert torch.mps.device_count() == 0
    with pytest.raises(AssertionError, match="Torch not compiled with XPU enabled"):
        torch.xpu.current_device()
    with pytest.raises(AssertionError, match="Torch not compiled with XPU enabled"):
        torch.zeros(1).to("xpu")
    assert torch.accelerator.current_accelerator() is None
    assert not torch.accelerator.is_available()
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available."):
        torch.accelerator.synchronize()
    torch.cpu.synchronize()
    with torch.cpu.stream(torch.cpu.Stream()):
        assert torch.cpu.current_device() == "cpu"
        assert torch.cpu.device_count() == 1
    assert torch.get_device_module("cuda") is torch.cuda
    assert torch.get_device_module() is torch.cpu
    with pytest.raises(RuntimeError):
        torch.get_device_module(3)


def test_switches_are_kept():
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
        assert torch.backends.cudnn.enabled
    assert not torch.backends.cudnn.deterministic
    assert torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    with pytest.raises(TypeError):
        torch.backends.cudnn.flags(colour=1)
    assert torch.backends.cudnn.version() is None
    assert not torch.backends.cudnn.is_available()
    assert not torch.backends.mps.is_available()
    assert torch.backends.openmp.is_available()
    assert not torch.backends.mkl.is_available()
    with torch.backends.mkldnn.flags(enabled=False):
        assert not torch.backends.mkldnn.enabled
    with (
        torch.backends.nnpack.flags(enabled=False),
        torch.backends.opt_einsum.flags(enabled=False),
        torch.backends.mkldnn.verbose(1),
    ):
        pass
    assert torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    with torch.backends.cuda.sdp_kernel(enable_flash=False):
        assert not torch.backends.cuda.flash_sdp_enabled()
        assert torch.backends.cuda.math_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_math_sdp(False)
    assert not torch.backends.cuda.math_sdp_enabled()
    torch.backends.cuda.enable_math_sdp(True)


def test_attention_kernels_are_chosen():
    from taper.nn.attention import SDPBackend, sdpa_kernel

    x = torch.randn(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert torch.backends.cuda.math_sdp_enabled()
        assert not torch.backends.cuda.mem_efficient_sdp_enabled()
        assert F.scaled_dot_product_attention(x, x, x).shape == x.shape
    assert torch.backends.cuda.mem_efficient_sdp_enabled()
    assert str(SDPBackend.MATH) == "SDPBackend.MATH"
    with pytest.raises(AssertionError, match="Backend must be an instance of SDPBackend"):
        with sdpa_kernel("math"):
            pass


def test_two_names_for_the_precision_of_products():
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
    torch.set_float32_matmul_precision("high")
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.warns(UserWarning, match="is not one of 'highest', 'high', or 'medium'"):
        torch.set_float32_matmul_precision("exact")
    assert torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(AttributeError, match="Unknown attribute colour"):
        torch.backends.cuda.matmul.colour = 1


# ---- Memory formats: strides are PyTorch 2.15's
# -----------------------------------------------------------------------------------------------


def channels_last():
    return torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)


def test_moves_between_formats():
    x, last = torch.randn(2, 3, 8, 8), (192, 1, 24, 3)
    y = x.to(memory_format=torch.channels_last)
    assert y.stride() == last
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert not y.is_contiguous()
    assert torch.equal(x, y)
    assert y.contiguous(memory_format=torch.channels_last) is y
    assert x.to(memory_format=torch.preserve_format) is x
    assert y.contiguous().stride() == x.stride()
    assert x.clone(memory_format=torch.channels_last).stride() == last
    assert (
        y.clone().stride()
        == y.double().stride()
        == y.to(torch.float64).stride()
        == torch.empty_like(y).stride()
        == torch.randn_like(y).stride()
        == last
    )
    assert (
        torch.zeros_like(y, memory_format=torch.contiguous_format).stride()
        == torch.empty_like(x).stride()
        == x.stride()
    )
    assert (
        x.to(torch.float64, memory_format=torch.channels_last).stride()
        == torch.empty(2, 3, 8, 8, memory_format=torch.channels_last).stride()
        == last
    )
    z = torch.randn(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d)
    assert z.stride() == (192, 1, 48, 12, 3)
    assert z.is_contiguous(memory_format=torch.channels_last_3d)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        torch.randn(3).to(memory_format=torch.channels_last)


def test_to_settles_strides_where_both_formats_fit():
    assert torch.randn(4, 1, 5, 5).to(memory_format=torch.channels_last).stride() == (25, 1, 5, 1)
    assert torch.randn(1, 4, 1, 1).to(memory_format=torch.channels_last).stride() == (4, 1, 4, 4)
    x = torch.randn(4, 1, 5, 5)
    assert x.contiguous(memory_format=torch.channels_last) is x
    y = x.to(memory_format=torch.channels_last)
    assert y.to(memory_format=torch.channels_last) is y


@pytest.mark.parametrize(
    "step",
    [
        lambda x: F.conv2d(x, torch.randn(4, 3, 3, 3), padding=1),
        lambda x: F.conv2d(x.contiguous(), torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last)),
        lambda x: F.conv2d(x, torch.randn(3, 1, 3, 3), groups=3),
        lambda x: F.conv_transpose2d(x, torch.randn(3, 4, 3, 3)),
        F.relu,
        F.gelu,
        torch.sigmoid,
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True),
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.dropout(x, 0.5),
        lambda x: x + 1,
        lambda x: x * torch.randn(1, 3, 1, 1),
        lambda x: torch.cat([x, x], 1),
        lambda x: x > 0,
        lambda x: F.pad(x, (1, 1, 1, 1)),
        lambda x: torch.where(x > 0, x, x.contiguous()),
        lambda x: F.group_norm(x, 1),
        lambda x: x[torch.tensor([1, 0, 1])],
        lambda x: x[torch.tensor([True, True])],
    ],
)
def test_channels_last_survives(step):
    assert step(channels_last()).is_contiguous(memory_format=torch.channels_last)


def test_images_picked_by_number_are_the_same():
    x, order = channels_last(), torch.tensor([1, 0, -1])
    assert torch.equal(x[order], x.contiguous()[order])
    assert x[order].stride() == (192, 1, 24, 3)
    y = x.clone().requires_grad_()
    (y[order] * torch.arange(3.0).view(3, 1, 1, 1)).sum().backward()
    assert y.grad[:, 0, 0, 0].tolist() == [1, 2]


def test_gradients_keep_the_format():
    x = channels_last().requires_grad_()
    w = torch.randn(4, 3, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    F.max_pool2d(F.batch_norm(F.conv2d(x, w), None, None, training=True).relu(), 2).sum().backward()
    assert x.grad.stride() == x.stride()
    assert w.grad.stride() == w.stride()


def test_modules_move():
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(torch.randn(4, 3, 3, 3))
    module.bias = torch.nn.Parameter(torch.randn(4))
    module.register_buffer("counts", torch.zeros(2, 3, 4, 5, dtype=torch.int64))
    same = module.weight
    assert module.to(memory_format=torch.channels_last) is module
    assert module.weight is same
    assert module.weight.stride() == (27, 1, 9, 3)
    assert module.bias.stride() == (1,)
    assert module.counts.stride() == (60, 1, 15, 3)


def test_libraries_of_python_packages_are_found(tmp_path):
    build = pathlib.Path(os.environ.get("TAPER_BUILD_DIR") or os.path.join(os.path.dirname(torch.__file__), "..", ".."))
    nccl, driver = build / "tests" / "libfake-nccl.so", build / "tests" / "fake-cuda"
    if not nccl.exists() or not driver.exists():
        pytest.skip("tests/libfake-nccl.so or tests/fake-cuda was not built (they are part of the target `tests`)")
    place = tmp_path / "site" / "nvidia" / "nccl" / "lib"
    place.mkdir(parents=True)
    (place / "libnccl.so.2").symlink_to(nccl.resolve())
    program = f"import sys; sys.path.append({str(tmp_path / 'site')!r}); import taper; print(taper.cuda.nccl.version())"
    told = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "0", "TAPER_CUDA_PATH": str(driver)},
    )
    assert told.stdout.strip() == "(2, 27, 3)", told.stdout + told.stderr
