"""torch.xpu and torch.accelerator on OpenCL's processors (PoCL), which stand in for GPUs: PyTorch's names, and that tensors go where they are sent.
The build runs it with TAPER_XPU_DEVICES=cpu TAPER_XPU_TILES=2 CUDA_VISIBLE_DEVICES= in the environment."""
import copy
import io
import os
import pickle
import subprocess
import sys
import textwrap
import threading

import pytest

import taper as torch
from taper import _C

if not torch.xpu.is_available():
    print(f"no xpu device here: {_C._gpu_missing('xpu')}", file=sys.stderr)
    pytest.skip(f"no xpu device here: {_C._gpu_missing('xpu')}", allow_module_level=True)

two_devices = pytest.mark.skipif(torch.xpu.device_count() < 2, reason="the processor cannot be cut in two")
XPU = torch.device("xpu:0")


def isolated(code, **environment):
    """What a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Devices ----
def test_devices_are_there():
    assert torch.xpu.device_count() >= 1 and torch.xpu.current_device() == 0 and not torch.cuda.is_available()
    about = torch.xpu.get_device_properties(0)
    assert about.name == torch.xpu.get_device_name() and about.total_memory > 0 and about.max_compute_units > 0
    assert repr(about).startswith(f"_XpuDeviceProperties(name='{about.name}', platform_name=")
    assert torch.xpu.get_device_capability()["has_fp64"] == about.has_fp64
    assert torch.xpu.is_bf16_supported() and torch.xpu.get_arch_list() and torch.xpu.is_initialized() in (True, False)
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.xpu.get_device_properties(40)
    with pytest.raises(ValueError, match="Expected a xpu device, but got: cpu"):
        torch.xpu.set_device("cpu")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.xpu.set_device(40)
    assert torch.version.xpu and torch.version.cuda is None and torch.version.hip is None


def test_the_accelerator_is_xpu():
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator == torch.device("xpu") and torch.accelerator.is_available() and torch.accelerator.device_count() == torch.xpu.device_count()
    assert torch.accelerator.current_device_index() == 0 and torch.get_device_module() is torch.xpu
    assert torch.device(0) == torch.device("xpu", 0) and torch.ones(2).to(0).device == XPU
    assert torch.accelerator.current_stream().device == XPU
    torch.accelerator.synchronize(), torch.accelerator.empty_cache(), torch.accelerator.empty_host_cache()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total


@two_devices
def test_the_current_device():
    with torch.xpu.device(1):
        assert torch.xpu.current_device() == 1
        assert torch.ones(2, device="xpu").device == torch.device("xpu:1") == torch.ones(2).xpu().device
        with torch.accelerator.device_index(0):
            assert torch.xpu.current_device() == 0
        with torch.xpu.device_of(torch.ones(1, device="xpu:0")), torch.xpu.device(-1), torch.xpu.device(None):
            assert torch.xpu.current_device() == 0
    assert torch.xpu.current_device() == 0
    seen = []
    with torch.xpu.device(1):  # each thread has its own
        thread = threading.Thread(target=lambda: seen.append(torch.xpu.current_device()))
        thread.start(), thread.join()
    assert seen == [0]
    across = torch.arange(4.0, device="xpu:0").to("xpu:1")
    assert across.device.index == 1 and across.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two devices, xpu:0 and xpu:1!"):
        torch.ones(2, device="xpu:0") + torch.ones(2, device="xpu:1")


@two_devices
def test_a_default_device_without_an_index_is_the_current_one():
    try:
        torch.set_default_device("xpu")
        assert torch.zeros(1).device == XPU == torch.get_default_device()
        torch.xpu.set_device(1)
        assert torch.zeros(1).device == torch.device("xpu:1")
        torch.set_default_device("xpu:0")
        torch.xpu.set_device(0), torch.xpu.set_device(1)
        assert torch.zeros(1).device == XPU
    finally:
        torch.xpu.set_device(0)
        torch.set_default_device(None)
    with torch.device("xpu"):
        with torch.xpu.device(1):
            assert torch.zeros(1).device.index == 1
        assert torch.zeros(1).device == XPU and torch.nn.Linear(2, 2).weight.device == XPU and torch.tensor([1.0]).device == XPU
        with torch.device("cpu"):
            assert torch.zeros(1).is_cpu
        assert torch.zeros(1).is_xpu
    assert torch.zeros(1).is_cpu


def test_environment_chooses_devices():
    count = "import taper; print(taper.xpu.device_count(), taper.xpu.is_available())"
    assert isolated(count, TAPER_XPU_TILES="1", ZE_AFFINITY_MASK="0") == "1 True\n"
    assert isolated(count, TAPER_XPU_TILES="1", ZE_AFFINITY_MASK="7") == "0 False\n"
    without = isolated("""
        import taper
        print(taper.xpu.is_available(), taper.accelerator.current_accelerator())
        try:
            taper.ones(1).to("xpu")
        except AssertionError as error:
            print(str(error).partition("Torch")[1])
        try:
            taper.xpu.current_device()
        except AssertionError as error:
            print(error)
    """, TAPER_XPU_DEVICES="gpu", ZE_AFFINITY_MASK="63").splitlines()
    assert without[:3] == ["False None", "Torch", "Torch not compiled with XPU enabled: OpenCL found no device for TAPER_XPU_DEVICES=gpu"]


def test_a_forked_child_says_what_to_do():
    assert "you must use the 'spawn' start method" in isolated("""
        import os
        import taper
        taper.ones(1, device="xpu") + 1
        child = os.fork()
        if child == 0:
            try:
                taper.xpu.synchronize()
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """)


# ---- Tensors ----
def test_a_tensor_goes_there_and_back():
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to("xpu")
    assert y.device == XPU and y.is_xpu and not y.is_cpu and not y.is_cuda and y.get_device() == 0 and y.type() == "torch.xpu.FloatTensor"
    assert y.xpu() is y and y.to(XPU) is y and y.to(y) is y and y.cpu().equal(x) and y.data_ptr() != 0
    assert repr(y) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='xpu:0')"
    assert (y * 2 + 1).cpu().equal(x * 2 + 1) and (y + torch.tensor(2.0)).cpu().equal(x + 2) and y.tolist() == x.tolist() and y[1, 2].item() == 5
    assert y.T.to("cpu").equal(x.T) and y[:, 1:].cpu().equal(x[:, 1:]) and y.to("cpu", torch.float64).dtype == torch.float64
    assert y.new_zeros(2).device == XPU and torch.zeros_like(y).device == XPU and torch.tensor([1], device="xpu").device == XPU
    assert torch.full((2,), 3, device=XPU).cpu().tolist() == [3, 3] and torch.as_tensor(x, device="xpu").device == XPU
    with pytest.raises(TypeError, match="can't convert xpu:0 device type tensor to numpy. Use Tensor.cpu\\(\\) to copy the tensor to host memory first."):
        y.numpy()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two devices, xpu:0 and cpu!"):
        y + x
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.zeros(1, device="xpu:40")
    assert y.sum(0).cpu().equal(x.sum(0)) and y.max().item() == 5 and (y @ y.T).cpu().equal(x @ x.T)


def test_storages_copies_and_files():
    y = torch.arange(4, device="xpu")
    memory = y.untyped_storage()
    assert memory.device == XPU and memory.cpu().device.type == "cpu" and memory.cpu().xpu().device == XPU and y.storage().type() == "torch.xpu.LongStorage"
    for again in copy.deepcopy(y), copy.copy(y), pickle.loads(pickle.dumps(y)):
        assert again.device == XPU and again.tolist() == [0, 1, 2, 3]
    parameter = copy.deepcopy(torch.nn.Parameter(torch.ones(2, device="xpu")))
    assert isinstance(parameter, torch.nn.Parameter) and parameter.device == XPU and parameter.requires_grad
    file = io.BytesIO()
    torch.save({"y": y, "part": y[1:3]}, file)
    for map_location, place in ((None, "xpu:0"), ("cpu", "cpu"), (torch.device("xpu"), "xpu:0"), ({"xpu:0": "cpu"}, "cpu"), (lambda storage, location: storage, "cpu")):
        file.seek(0)
        loaded = torch.load(file, map_location=map_location)
        assert str(loaded["y"].device) == place and loaded["part"].tolist() == [1, 2]
        assert loaded["part"].untyped_storage().data_ptr() == loaded["y"].untyped_storage().data_ptr()
    torch.save(torch.ones(1), here := io.BytesIO())
    here.seek(0)
    assert torch.load(here, map_location="xpu").device == XPU
    here.seek(0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on XPU device 40 but torch.xpu.device_count\\(\\) is"):
        torch.load(here, map_location="xpu:40")


def test_dlpack_stays_on_the_device():
    y = torch.arange(3.0, device="xpu")
    assert y.__dlpack_device__() == (14, 0)
    again = torch.from_dlpack(y)
    assert again.device == XPU and again.data_ptr() == y.data_ptr()
    assert torch.from_dlpack(y, device="cpu").device.type == "cpu"
    with pytest.raises(AttributeError, match="Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.xpu.FloatTensor"):
        y.__cuda_array_interface__


def test_pinned_memory():
    x = torch.arange(1000.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned and pinned.equal(x)
    y = pinned.to("xpu", non_blocking=True)
    back = torch.empty(1000, pin_memory=True).copy_(y, non_blocking=True)
    torch.xpu.synchronize()
    assert back.equal(x) and back.is_pinned() and torch.tensor([1.0], pin_memory=True).is_pinned() and pinned.untyped_storage().is_pinned()
    with pytest.raises(RuntimeError, match="cannot pin 'torch.xpu.FloatTensor' only dense CPU tensors can be pinned"):
        y.pin_memory()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.zeros(2, device="xpu", pin_memory=True)


def test_a_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    for workers in 0, 1:
        batches = list(torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers))
        assert len(batches) == 2 and all(t.is_pinned() for batch in batches for t in batch) and batches[1][1].tolist() == [4, 5, 6, 7]
    named = torch.utils.data.DataLoader([{"x": torch.ones(2), "name": "a"}] * 2, batch_size=2, pin_memory=True)
    batch = next(iter(named))
    assert batch["x"].is_pinned() and batch["name"] == ["a", "a"]


# ---- Streams, events, graphs ----
def test_streams_and_events():
    default, other = torch.xpu.current_stream(), torch.xpu.Stream()
    assert default == torch.xpu.current_stream() != other and hash(default) == hash(torch.xpu.current_stream()) and other.device == XPU
    assert repr(default) == "torch.xpu.Stream(device=xpu:0 sycl_queue=0x0)" and isinstance(other, torch.Stream) and torch.Stream("xpu").device == XPU
    with torch.xpu.stream(other), torch.xpu.stream(None):
        assert torch.xpu.current_stream() == other
        y = torch.ones(1000, device="xpu") * 2
        mark = other.record_event()
    with other:
        assert torch.xpu.current_stream() == other
    assert torch.xpu.current_stream() == default
    default.wait_event(mark), default.wait_stream(other)
    y.record_stream(default)
    assert (y + 1).sum().item() == 3000
    other.synchronize()
    assert other.query() and mark.query() and mark.device == XPU
    start, end = torch.xpu.Event(enable_timing=True), torch.xpu.Event(enable_timing=True)
    assert repr(start) == "torch.xpu.Event(uninitialized)" and isinstance(start, torch.Event)
    start.record()
    torch.ones(1000, device="xpu") * 2
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0 and repr(start).startswith("torch.xpu.Event(sycl_event=0x")
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.xpu.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="unknown parameter type"):
        y.record_stream(None)
    torch.xpu.set_stream(other)
    assert torch.accelerator.current_stream() == other
    torch.accelerator.set_stream(default)
    assert torch.xpu.current_stream() == default


def test_graphs_say_that_opencl_has_none():
    assert not torch.xpu.is_current_stream_capturing() and torch.xpu.graph_pool_handle() != torch.xpu.graph_pool_handle()
    graph = torch.xpu.XPUGraph()
    with pytest.raises(NotImplementedError, match="graphs are not available with OpenCL"):
        with torch.xpu.graph(graph):
            pass
    assert torch.xpu.current_stream().sycl_queue == 0
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


# ---- Memory ----
def test_memory_is_counted():
    torch.xpu.empty_cache()
    torch.xpu.reset_peak_memory_stats()
    before = torch.xpu.memory_allocated()
    y = torch.empty(1 << 20, device="xpu")
    assert torch.xpu.memory_allocated() - before == 4 << 20 == torch.xpu.memory_stats()["allocated_bytes.all.current"] - before
    assert torch.xpu.memory_reserved() >= torch.xpu.memory_allocated() and torch.accelerator.memory_allocated() == torch.xpu.memory_allocated("xpu:0")
    state = next(b for s in torch.xpu.memory_snapshot() for b in s["blocks"] if b["address"] == y.data_ptr())
    assert state == {"address": y.data_ptr(), "size": 4 << 20, "requested_size": 4 << 20, "state": "active_allocated", "frames": []}
    del y
    assert torch.xpu.memory_allocated() == before and torch.xpu.max_memory_allocated() >= before + (4 << 20)
    reserved = torch.xpu.memory_reserved()
    torch.xpu.empty_cache()
    assert torch.xpu.memory_reserved() < reserved
    torch.xpu.reset_peak_memory_stats()
    assert torch.xpu.max_memory_allocated() == before and torch.xpu.memory_stats_as_nested_dict()["num_ooms"] == 0
    free, total = torch.xpu.mem_get_info()
    assert 0 < free <= total


def test_out_of_memory_leaves_things_usable():
    y = torch.ones(10, device="xpu")
    with pytest.raises(torch.OutOfMemoryError, match="XPU out of memory. Tried to allocate 128.00 TiB") as caught:
        torch.empty(1 << 45, device="xpu")
    assert isinstance(caught.value, RuntimeError) and torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert (y + 1).sum().item() == 20 and torch.xpu.memory_stats()["num_ooms"] >= 1
    with pytest.raises(ValueError, match="Invalid fraction value: 2.0. Allowed range: 0~1"):
        torch.xpu.set_per_process_memory_fraction(2.0)
    try:
        torch.xpu.empty_cache()
        torch.xpu.set_per_process_memory_fraction(1e-9)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 22, device="xpu")
    finally:
        torch.xpu.set_per_process_memory_fraction(1.0)
    assert torch.xpu.get_per_process_memory_fraction() == 1.0 and torch.empty(1 << 22, device="xpu").is_xpu


# ---- Random numbers ----
def test_each_device_has_a_generator():
    torch.manual_seed(7)
    assert torch.xpu.initial_seed() == 7 and torch.xpu.get_rng_state().dtype == torch.uint8 and len(torch.xpu.get_rng_state_all()) == torch.xpu.device_count()
    state, host = torch.xpu.get_rng_state(), torch.get_rng_state()
    first = torch.rand(5, device="xpu")
    assert torch.get_rng_state().equal(host) and not torch.xpu.get_rng_state().equal(state)
    torch.xpu.set_rng_state(state)
    assert torch.rand(5, device="xpu").equal(first)
    torch.xpu.manual_seed_all(7)
    assert torch.rand(5, device="xpu").equal(first)
    with torch.random.fork_rng(device_type="xpu"):
        torch.rand(5, device="xpu"), torch.rand(5)
    again = torch.rand(5, device="xpu")
    torch.xpu.set_rng_state(state)
    torch.rand(5, device="xpu")
    assert torch.rand(5, device="xpu").equal(again)
    own = torch.Generator(device="xpu").manual_seed(7)
    assert own.device == XPU and torch.rand(5, device="xpu", generator=own).equal(first) and own.get_offset() > 0
    torch.xpu.seed(), torch.xpu.seed_all()
    assert torch.xpu.default_generators[0].initial_seed() == torch.xpu.initial_seed() != 7


# ---- Modules, mixed precision ----
def test_a_module_moves_and_trains():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    twin = copy.deepcopy(model).to("xpu")
    parameters = list(twin.parameters())
    assert all(p.is_xpu for p in parameters) and twin.cpu() is twin and twin.xpu() is twin and list(twin.parameters())[0] is parameters[0]
    x, target = torch.randn(16, 4), torch.randn(16, 1)
    losses = []
    for net, device in (model, "cpu"), (twin, "xpu"):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(x.to(device)), target.to(device))
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and all(p.grad.is_xpu for p in twin.parameters())


def test_autocast_of_a_device_type_touches_its_tensors_alone():
    x, y = torch.randn(4, 4), torch.randn(4, 4, device="xpu")
    with torch.autocast("xpu"):
        assert (y @ y).dtype == torch.bfloat16 and (x @ x).dtype == torch.float32 and torch.is_autocast_enabled("xpu") and not torch.is_autocast_enabled("cpu")
        with torch.autocast("xpu", enabled=False):
            assert (y @ y).dtype == torch.float32
        assert torch.nn.functional.mse_loss((y @ y), y).dtype == torch.float32
    with torch.autocast("xpu", dtype=torch.float16):
        assert (y @ y).dtype == torch.float16

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="xpu", cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype == torch.float32 and not torch.is_autocast_enabled("xpu")
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="xpu")
        def backward(ctx, grad):
            return grad * 2
    leaf = y.bfloat16().requires_grad_()
    with torch.autocast("xpu"):
        Double.apply(leaf).sum().backward()
    assert leaf.grad.unique().tolist() == [2.0]


def test_a_scaler_skips_steps_with_infinities():
    weight = torch.nn.Parameter(torch.ones(3, device="xpu"))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("xpu", init_scale=4.0, growth_interval=1)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer), scaler.update()
    assert weight.tolist() == [1, 1, 1] and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(weight.sum() * 0.5).backward()
    assert weight.grad.tolist() == [1, 1, 1]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [0.5, 0.5, 0.5]
    scaler.step(optimizer), scaler.update()
    assert weight.tolist() == [0.5, 0.5, 0.5] and scaler.get_scale() == 4.0


# ---- Around it ----
def test_intel_extension():
    from taper import intel_extension_for_pytorch as ipex
    model, optimizer = torch.nn.Linear(2, 2).to("xpu"), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained, stepper = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16)
    assert stepper is optimizer and trained.weight.dtype == torch.float32
    assert ipex.optimize(model.eval(), dtype=torch.bfloat16).weight.dtype == torch.bfloat16 and model.weight.dtype == torch.float32
    assert ipex.xpu.is_available() and ipex.xpu.device_count() == torch.xpu.device_count() and ipex.has_xpu()
    with torch.xpu.amp.autocast(enabled=True, dtype=torch.bfloat16):
        assert model(torch.ones(1, 2, device="xpu")).dtype == torch.bfloat16
    ipex.set_fp32_math_mode(ipex.FP32MathMode.TF32, device="xpu")
    assert torch.get_float32_matmul_precision() == "high" and ipex.get_fp32_math_mode("xpu") == ipex.FP32MathMode.TF32
    ipex.set_fp32_math_mode("FP32", "xpu")
    assert torch.get_float32_matmul_precision() == "highest"
    told = isolated("import taper.intel_extension_for_pytorch as i; print(i.get_fp32_math_mode('xpu').name)", IPEX_FP32_MATH_MODE="TF32")
    assert told == "TF32\n"


def test_info_lists_devices_and_libraries():
    text = isolated("from taper.__main__ import main; main(['info'])")
    assert "xpu:0" in next(line for line in text.splitlines() if line.startswith("devices:"))
    assert torch.xpu.get_device_name() in text and "CLBlast" in text and "OpenCL" in text and "cuda:             none: " in text
