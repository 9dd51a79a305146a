"""torch.cuda, torch.xpu and torch.accelerator on the accelerator there is: PyTorch's names, and that tensors go where
they are sent. The build runs it with TAPER_XPU_DEVICES=cpu TAPER_XPU_TILES=2 CUDA_VISIBLE_DEVICES= in the environment:
OpenCL's processors (PoCL) stand in for GPUs. By hand it takes a GPU."""

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
from taper import _C, _hook

_hook.install()  # autocast_cases says `import torch`

if not torch.accelerator.is_available():
    why = f"no accelerator here: {_C._gpu_missing('cuda')}; {_C._gpu_missing('xpu')}"
    print(why, file=sys.stderr)
    pytest.skip(why, allow_module_level=True)

KIND = torch.accelerator.current_accelerator().type
WORD = {"xpu": "XPU", "cuda": torch.version.hip and "HIP" or "CUDA"}[KIND]
gpu = getattr(torch, KIND)
HERE, NEXT = torch.device(KIND, 0), torch.device(KIND, 1)
two_devices = pytest.mark.skipif(gpu.device_count() < 2, reason="there is one device")
on_xpu = pytest.mark.skipif(KIND != "xpu", reason="of OpenCL's devices")
on_cuda = pytest.mark.skipif(KIND != "cuda", reason="needs CUDA or HIP")


def isolated(code, **environment):
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- Devices ----
def test_devices_are_there():
    assert gpu.is_available()
    assert gpu.device_count() >= 1
    assert gpu.current_device() == 0
    about = gpu.get_device_properties(0)
    assert about.name == gpu.get_device_name()
    assert about.total_memory > 0
    assert gpu.is_bf16_supported()
    assert gpu.get_arch_list()
    assert gpu.is_initialized() in (True, False)
    with pytest.raises(AssertionError, match="Invalid device id"):
        gpu.get_device_properties(40)
    with pytest.raises(ValueError, match=f"Expected a {KIND} device, but got: cpu"):
        gpu.set_device("cpu")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        gpu.set_device(40)


@on_xpu
def test_what_an_xpu_is():
    about = gpu.get_device_properties(0)
    assert about.max_compute_units > 0
    assert gpu.get_device_capability()["has_fp64"] == about.has_fp64
    assert repr(about).startswith(f"_XpuDeviceProperties(name='{about.name}', platform_name=")
    assert torch.version.xpu
    assert torch.version.cuda is None
    assert torch.version.hip is None


@on_cuda
def test_what_a_gpu_is():
    about, mega = gpu.get_device_properties(0), 1 << 20
    assert gpu.get_device_capability() == (about.major, about.minor)
    assert about.multi_processor_count > 0
    assert about.warp_size in (32, 64)
    assert repr(about).startswith(
        f"_CudaDeviceProperties(name='{about.name}', major={about.major}, minor={about.minor}"
    )
    assert (
        f"total_memory={about.total_memory // mega}MB, multi_processor_count={about.multi_processor_count}, uuid="
        in repr(about)
    )
    assert (torch.version.cuda or torch.version.hip)[0].isdigit()
    assert torch.backends.cuda.is_built()
    assert torch.has_cuda
    assert torch.cuda.FloatTensor([1.0, 2.0]).device == HERE
    assert isinstance(torch.ones(1).cuda(), torch.cuda.FloatTensor)
    assert 0 <= gpu.utilization() <= 100
    assert gpu.temperature() > 0
    assert gpu.device_memory_used() > 0
    assert gpu.list_gpu_processes().startswith("GPU:0")
    assert "Allocated memory" in gpu.memory_summary()
    assert gpu.cudart().cudaMemGetInfo(0) == gpu.mem_get_info(0)
    interface = torch.ones(2, 3, device=KIND).T.__cuda_array_interface__
    assert interface["shape"] == (3, 2)
    assert interface["strides"] == (4, 12)
    assert interface["typestr"] == "<f4"
    assert interface["version"] == 2


def test_the_accelerator():
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator == torch.device(KIND)
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == gpu.device_count()
    assert torch.accelerator.current_device_index() == 0
    assert torch.get_device_module() is gpu
    assert torch.device(0) == HERE
    assert torch.ones(2).to(0).device == HERE
    assert torch.accelerator.current_stream().device == HERE
    torch.accelerator.synchronize(), torch.accelerator.empty_cache(), torch.accelerator.empty_host_cache()
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total
    assert torch.accelerator.memory.memory_reserved() == gpu.memory_reserved()
    assert torch.accelerator.random.get_rng_state().equal(gpu.get_rng_state())
    assert torch.accelerator.Graph().pool() is not None


@two_devices
def test_the_current_device():
    with gpu.device(1):
        assert gpu.current_device() == 1
        assert torch.ones(2, device=KIND).device == NEXT == getattr(torch.ones(2), KIND)().device
        with torch.accelerator.device_index(0):
            assert gpu.current_device() == 0
        with gpu.device_of(torch.ones(1, device=HERE)), gpu.device(-1), gpu.device(None):
            assert gpu.current_device() == 0
    assert gpu.current_device() == 0
    seen = []
    with gpu.device(1):  # each thread has its own
        thread = threading.Thread(target=lambda: seen.append(gpu.current_device()))
        thread.start(), thread.join()
    assert seen == [0]
    across = torch.arange(4.0, device=HERE).to(NEXT)
    assert across.device.index == 1
    assert across.tolist() == [0, 1, 2, 3]
    with pytest.raises(
        RuntimeError,
        match=f"Expected all tensors to be on the same device, but found at least two devices, {HERE} and {NEXT}!",
    ):
        torch.ones(2, device=HERE) + torch.ones(2, device=NEXT)


@two_devices
def test_a_default_device_without_an_index_is_the_current_one():
    try:
        torch.set_default_device(KIND)
        assert torch.zeros(1).device == HERE == torch.get_default_device()
        gpu.set_device(1)
        assert torch.zeros(1).device == NEXT
        torch.set_default_device(HERE)
        gpu.set_device(0), gpu.set_device(1)
        assert torch.zeros(1).device == HERE
    finally:
        gpu.set_device(0)
        torch.set_default_device(None)
    torch.set_default_tensor_type(f"torch.{KIND}.DoubleTensor")
    double = torch.zeros(1)
    torch.set_default_tensor_type(torch.FloatTensor)
    assert (double.dtype, double.device) == (torch.float64, HERE)
    assert torch.zeros(1).type() == "torch.FloatTensor"
    with torch.device(KIND):
        with gpu.device(1):
            assert torch.zeros(1).device.index == 1
        assert torch.zeros(1).device == HERE
        assert torch.nn.Linear(2, 2).weight.device == HERE
        assert torch.tensor([1.0]).device == HERE
        with torch.device("cpu"):
            assert torch.zeros(1).is_cpu
        assert not torch.zeros(1).is_cpu
    assert torch.zeros(1).is_cpu


@on_xpu
def test_environment_chooses_devices():
    count = "import taper; print(taper.xpu.device_count(), taper.xpu.is_available())"
    assert isolated(count, TAPER_XPU_TILES="1", ZE_AFFINITY_MASK="0") == "1 True\n"
    assert isolated(count, TAPER_XPU_TILES="1", ZE_AFFINITY_MASK="7") == "0 False\n"
    without = isolated(
        """
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
    """,
        TAPER_XPU_DEVICES="gpu",
        ZE_AFFINITY_MASK="63",
    ).splitlines()
    assert without[:3] == [
        "False None",
        "Torch",
        "Torch not compiled with XPU enabled: OpenCL found no device for TAPER_XPU_DEVICES=gpu",
    ]


def test_a_forked_child_says_what_to_do():
    assert "you must use the 'spawn' start method" in isolated(f"""
        import os
        import taper
        taper.ones(1, device="{KIND}") + 1
        child = os.fork()
        if child == 0:
            try:
                taper.{KIND}.synchronize()
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """)


# ---- Tensors ----
def test_a_tensor_goes_there_and_back():
    x = torch.arange(6.0).reshape(2, 3)
    y = x.to(KIND)
    assert y.device == HERE
    assert (y.is_xpu, y.is_cuda) == (KIND == "xpu", KIND == "cuda")
    assert not y.is_cpu
    assert y.get_device() == 0
    assert y.type() == f"torch.{KIND}.FloatTensor"
    assert getattr(y, KIND)() is y
    assert y.to(HERE) is y
    assert y.to(y) is y
    assert y.cpu().equal(x)
    assert y.data_ptr() != 0
    assert repr(y) == f"tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='{HERE}')"
    assert (y * 2 + 1).cpu().equal(x * 2 + 1)
    assert (y + torch.tensor(2.0)).cpu().equal(x + 2)
    assert y.tolist() == x.tolist()
    assert y[1, 2].item() == 5
    assert y.T.to("cpu").equal(x.T)
    assert y[:, 1:].cpu().equal(x[:, 1:])
    assert y.to("cpu", torch.float64).dtype == torch.float64
    assert y.new_zeros(2).device == HERE
    assert torch.zeros_like(y).device == HERE
    assert torch.tensor([1], device=KIND).device == HERE
    assert torch.full((2,), 3, device=HERE).cpu().tolist() == [3, 3]
    assert torch.as_tensor(x, device=KIND).device == HERE
    with pytest.raises(
        TypeError,
        match=f"can't convert {HERE} device type tensor to numpy. Use Tensor.cpu\\(\\) to copy the tensor to host memory first.",
    ):
        y.numpy()
    with pytest.raises(
        RuntimeError,
        match=f"Expected all tensors to be on the same device, but found at least two devices, {HERE} and cpu!",
    ):
        y + x
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.zeros(1, device=f"{KIND}:40")
    assert y.sum(0).cpu().equal(x.sum(0))
    assert y.max().item() == 5
    assert (y @ y.T).cpu().equal(x @ x.T)


def test_storages_copies_and_files():
    y = torch.arange(4, device=KIND)
    memory = y.untyped_storage()
    assert memory.device == HERE
    assert memory.cpu().device.type == "cpu"
    assert getattr(memory.cpu(), KIND)().device == HERE
    assert y.storage().type() == f"torch.{KIND}.LongStorage"
    for again in copy.deepcopy(y), copy.copy(y), pickle.loads(pickle.dumps(y)):
        assert again.device == HERE
        assert again.tolist() == [0, 1, 2, 3]
    assert y.is_shared()
    assert y.share_memory_() is y
    assert y.device == HERE
    parameter = copy.deepcopy(torch.nn.Parameter(torch.ones(2, device=KIND)))
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.device == HERE
    assert parameter.requires_grad
    file = io.BytesIO()
    torch.save({"y": y, "part": y[1:3]}, file)
    for map_location, place in (
        (None, HERE),
        ("cpu", "cpu"),
        (torch.device(KIND), HERE),
        ({str(HERE): "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
    ):
        file.seek(0)
        loaded = torch.load(file, map_location=map_location)
        assert loaded["y"].device == torch.device(place)
        assert loaded["part"].tolist() == [1, 2]
        assert loaded["part"].untyped_storage().data_ptr() == loaded["y"].untyped_storage().data_ptr()
    torch.save(torch.ones(1), here := io.BytesIO())
    here.seek(0)
    assert torch.load(here, map_location=KIND).device == HERE
    here.seek(0)
    with pytest.raises(
        RuntimeError,
        match=f"Attempting to deserialize object on {KIND.upper()} device 40 but torch.{KIND}.device_count\\(\\) is",
    ):
        torch.load(here, map_location=f"{KIND}:40")


def test_dlpack_stays_on_the_device():
    y = torch.arange(3.0, device=KIND)
    assert y.__dlpack_device__() == ({"cuda": 2, "xpu": 14}[KIND], 0)
    again = torch.from_dlpack(y)
    assert again.device == HERE
    assert again.data_ptr() == y.data_ptr()
    assert torch.from_dlpack(y, device="cpu").device.type == "cpu"
    other = gpu.Stream()
    with gpu.stream(other):  # who takes it waits for who made it
        assert torch.from_dlpack(y + 1).tolist() == [1, 2, 3]
    assert torch.from_dlpack((y * 2).__dlpack__(stream=other.stream_id)).tolist() == [0, 2, 4]
    with pytest.raises(
        AttributeError, match="Can't get __cuda_array_interface__ on non-CUDA tensor type: torch.FloatTensor"
    ):
        y.cpu().__cuda_array_interface__


def test_pinned_memory():
    x = torch.arange(1000.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert not x.is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.equal(x)
    y = pinned.to(KIND, non_blocking=True)
    back = torch.empty(1000, pin_memory=True).copy_(y, non_blocking=True)
    gpu.synchronize()
    assert back.equal(x)
    assert back.is_pinned()
    assert torch.tensor([1.0], pin_memory=True).is_pinned()
    assert pinned.untyped_storage().is_pinned()
    with pytest.raises(
        RuntimeError, match=f"cannot pin 'torch.{KIND}.FloatTensor' only dense CPU tensors can be pinned"
    ):
        y.pin_memory()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.zeros(2, device=KIND, pin_memory=True)


def test_a_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
    for workers in 0, 1:
        batches = list(torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers))
        assert len(batches) == 2
        assert all(t.is_pinned() for batch in batches for t in batch)
        assert batches[1][1].tolist() == [4, 5, 6, 7]
    named = torch.utils.data.DataLoader([{"x": torch.ones(2), "name": "a"}] * 2, batch_size=2, pin_memory=True)
    batch = next(iter(named))
    assert batch["x"].is_pinned()
    assert batch["name"] == ["a", "a"]


# ---- Streams, events, graphs ----
def test_streams_and_events():
    default, other = gpu.current_stream(), gpu.Stream()
    assert default == gpu.current_stream() != other
    assert hash(default) == hash(gpu.current_stream())
    assert other.device == HERE
    texts = {
        "xpu": "torch.xpu.Stream(device=xpu:0 sycl_queue=0x0)",
        "cuda": "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>",
    }
    assert repr(default) == texts[KIND]
    assert isinstance(other, torch.Stream)
    assert torch.Stream(KIND).device == HERE
    with gpu.stream(other), gpu.stream(None):
        assert gpu.current_stream() == other
        y = torch.ones(1000, device=KIND) * 2
        mark = other.record_event()
    with other:
        assert gpu.current_stream() == other
    assert gpu.current_stream() == default
    default.wait_event(mark), default.wait_stream(other)
    y.record_stream(default)
    assert (y + 1).sum().item() == 3000
    other.synchronize()
    assert other.query()
    assert mark.query()
    assert mark.device == HERE
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    assert repr(start) in ("torch.xpu.Event(uninitialized)", "<torch.cuda.Event uninitialized>")
    assert isinstance(start, torch.Event)
    start.record()
    torch.ones(1000, device=KIND) * 2
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert "uninitialized" not in repr(start)
    with pytest.raises(ValueError, match="enable_timing=True"):
        gpu.Event().elapsed_time(end)
    with pytest.raises(RuntimeError, match="unknown parameter type"):
        y.record_stream(None)
    gpu.set_stream(other)
    assert torch.accelerator.current_stream() == other
    torch.accelerator.set_stream(default)
    assert gpu.current_stream() == default


@on_xpu
def test_graphs_say_that_opencl_has_none():
    assert not gpu.is_current_stream_capturing()
    assert gpu.graph_pool_handle() != gpu.graph_pool_handle()
    graph = gpu.XPUGraph()
    with pytest.raises(NotImplementedError, match="graphs are not available with OpenCL"):
        with gpu.graph(graph):
            pass
    assert gpu.current_stream().sycl_queue == 0
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@on_cuda
def test_graphs_replay_what_was_recorded():
    x, graph = torch.zeros(1000, device=KIND), torch.cuda.CUDAGraph()
    aside = gpu.Stream()
    with gpu.stream(aside):
        (x * 2 + 1).sum()  # kernels are loaded before the capture
    gpu.current_stream().wait_stream(aside)
    with torch.cuda.graph(graph):
        assert gpu.is_current_stream_capturing()
        y = (x * 2 + 1).sum()
    assert not gpu.is_current_stream_capturing()
    for value in 1.0, 5.0:
        x.fill_(value)
        graph.replay()
        assert y.item() == 1000 * (2 * value + 1)
    again = torch.cuda.CUDAGraph()
    with torch.cuda.graph(again, pool=graph.pool()):
        z = x + 1
    again.replay()
    assert z.mean().item() == 6
    assert again.pool() == graph.pool()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


@on_cuda
def test_graphed_callables_give_the_same_gradients():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).to(KIND)
    twin, x = copy.deepcopy(model), torch.randn(32, 8, device=KIND, requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(32, 8, device=KIND, requires_grad=True),))
    for net in graphed, twin:
        for _ in range(2):
            net.zero_grad()
            net(x).square().mean().backward()
    for a, b in zip(graphed.parameters(), twin.parameters()):
        torch.testing.assert_close(a.grad, b.grad)


# ---- Memory ----
def test_memory_is_counted():
    gpu.empty_cache()
    gpu.reset_peak_memory_stats()
    before = gpu.memory_allocated()
    y = torch.empty(1 << 20, device=KIND)
    assert gpu.memory_allocated() - before == 4 << 20 == gpu.memory_stats()["allocated_bytes.all.current"] - before
    assert gpu.memory_reserved() >= gpu.memory_allocated()
    assert torch.accelerator.memory_allocated() == gpu.memory_allocated(HERE)
    state = next(b for s in gpu.memory_snapshot() for b in s["blocks"] if b["address"] == y.data_ptr())
    assert state == {
        "address": y.data_ptr(),
        "size": 4 << 20,
        "requested_size": 4 << 20,
        "state": "active_allocated",
        "frames": [],
    }
    del y
    assert gpu.memory_allocated() == before
    assert gpu.max_memory_allocated() >= before + (4 << 20)
    reserved = gpu.memory_reserved()
    gpu.empty_cache()
    assert gpu.memory_reserved() < reserved
    gpu.reset_peak_memory_stats()
    assert gpu.max_memory_allocated() == before
    assert gpu.memory_stats_as_nested_dict()["num_ooms"] == 0
    free, total = gpu.mem_get_info()
    assert 0 < free <= total


def test_out_of_memory_names_the_operators_that_hold_most():
    x = torch.ones(512, 512, device=KIND)
    held = [x @ x, x @ x, x @ x, x.relu(), x.relu(), x.softmax(1), x.cumsum(0)]
    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(1 << 45, device=KIND)
    text = str(caught.value)
    assert "Largest owners: " in text, text
    assert "no operator" not in text, text
    assert len(held) == 7, text
    assert "3.00 MiB in 3 blocks of mm" in text, text
    assert "2.00 MiB in 2 blocks of relu" in text, text


def test_out_of_memory_leaves_things_usable():
    y = torch.ones(10, device=KIND)
    with pytest.raises(torch.OutOfMemoryError, match=f"{WORD} out of memory. Tried to allocate 128.00 TiB") as caught:
        torch.empty(1 << 45, device=KIND)
    assert isinstance(caught.value, RuntimeError)
    assert torch.cuda.OutOfMemoryError is torch.OutOfMemoryError
    assert (y + 1).sum().item() == 20
    assert gpu.memory_stats()["num_ooms"] >= 1
    with pytest.raises(ValueError, match="Invalid fraction value: 2.0. Allowed range: 0~1"):
        gpu.set_per_process_memory_fraction(2.0)
    try:
        gpu.empty_cache()
        gpu.set_per_process_memory_fraction(1e-9)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 22, device=KIND)
    finally:
        gpu.set_per_process_memory_fraction(1.0)
    assert gpu.get_per_process_memory_fraction() == 1.0
    assert torch.empty(1 << 22, device=KIND).numel()


# ---- Random numbers ----
def test_each_device_has_a_generator():
    torch.manual_seed(7)
    assert gpu.initial_seed() == 7
    assert gpu.get_rng_state().dtype == torch.uint8
    assert len(gpu.get_rng_state_all()) == gpu.device_count()
    state, host = gpu.get_rng_state(), torch.get_rng_state()
    first = torch.rand(5, device=KIND)
    assert torch.get_rng_state().equal(host)
    assert not gpu.get_rng_state().equal(state)
    gpu.set_rng_state(state)
    assert torch.rand(5, device=KIND).equal(first)
    gpu.manual_seed_all(7)
    assert torch.rand(5, device=KIND).equal(first)
    with torch.random.fork_rng(device_type=KIND):
        torch.rand(5, device=KIND), torch.rand(5)
    again = torch.rand(5, device=KIND)
    gpu.set_rng_state(state)
    torch.rand(5, device=KIND)
    assert torch.rand(5, device=KIND).equal(again)
    own = torch.Generator(device=KIND).manual_seed(7)
    assert own.device == HERE
    assert torch.rand(5, device=KIND, generator=own).equal(first)
    assert own.get_offset() > 0
    gpu.seed(), gpu.seed_all()
    assert gpu.default_generators[0].initial_seed() == gpu.initial_seed() != 7


def test_a_call_that_goes_by_the_host_draws_from_the_devices_generator():
    """No kernel knows uint16, so the CPU's function fills it."""
    gpu.manual_seed(7)
    host = torch.get_rng_state()
    first = torch.zeros(8, dtype=torch.uint16, device=KIND).random_(0, 100).cpu()
    assert torch.equal(torch.get_rng_state(), host)
    assert gpu.default_generators[0].get_offset() > 0
    gpu.manual_seed(7)
    assert torch.equal(torch.zeros(8, dtype=torch.uint16, device=KIND).random_(0, 100).cpu(), first)


# ---- Modules, mixed precision ----
def test_a_module_moves_and_trains():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    twin = copy.deepcopy(model).to(KIND)
    parameters = list(twin.parameters())
    assert all(p.device == HERE for p in parameters)
    assert twin.cpu() is twin
    assert getattr(twin, KIND)() is twin
    assert list(twin.parameters())[0] is parameters[0]
    x, target = torch.randn(16, 4), torch.randn(16, 1)
    losses = []
    for net, device in (model, "cpu"), (twin, KIND):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(net(x.to(device)), target.to(device))
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert all(p.grad.device == HERE for p in twin.parameters())


def test_autocast_of_a_device_type_touches_its_tensors_alone():
    x, y = torch.randn(4, 4), torch.randn(4, 4, device=KIND)
    with torch.autocast(KIND):
        assert (y @ y).dtype == (torch.bfloat16 if KIND == "xpu" else torch.float16)
        assert (x @ x).dtype == torch.float32
        assert torch.is_autocast_enabled(KIND)
        assert not torch.is_autocast_enabled("cpu")
        with torch.autocast(KIND, enabled=False):
            assert (y @ y).dtype == torch.float32
        assert torch.nn.functional.mse_loss((y @ y), y).dtype == torch.float32
    with torch.autocast(KIND, dtype=torch.bfloat16):
        assert (y @ y).dtype == torch.bfloat16

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type=KIND, cast_inputs=torch.float32)
        def forward(ctx, x):
            assert x.dtype == torch.float32
            assert not torch.is_autocast_enabled(KIND)
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type=KIND)
        def backward(ctx, grad):
            return grad * 2

    leaf = y.bfloat16().requires_grad_()
    with torch.autocast(KIND):
        Double.apply(leaf).sum().backward()
    assert leaf.grad.unique().tolist() == [2.0]


# A few of the recorded cases; CUDA's devices go through all of them.
PICKED = [
    "linear mixed",
    "mv",
    "mean",
    "exp",
    "sum dim",
    "softmax",
    "layer_norm plain",
    "cross mixed",
    "dot mixed",
    "cat mixed",
    "mse_loss",
    "trace",
    "pow",
    "relu",
    "avg_pool3d",
    "lstm_cell",
]


def test_autocast_has_pytorchs_lists_for_gpus():
    import autocast_cases

    with open(os.path.join(os.path.dirname(__file__), "autocast_cuda.txt"), encoding="utf-8") as file:
        rows = [line.rstrip("\n") for line in file if not line.startswith("#")]
    rows = [row for row in rows if KIND == "cuda" or row.partition(":")[0] in PICKED]
    assert len(rows) >= len(PICKED)
    assert autocast_cases.table(KIND, {row.partition(":")[0] for row in rows}) == rows
    with (
        torch.autocast(KIND),
        pytest.raises(
            RuntimeError, match="torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
        ),
    ):
        torch.nn.functional.binary_cross_entropy(torch.rand(3, device=KIND), torch.rand(3, device=KIND))


def test_checkpointing_repeats_masks_and_regions():
    from taper.utils.checkpoint import checkpoint

    x = torch.randn(64, 64, device=KIND, requires_grad=True)
    for reentrant in False, True:
        seen = []

        def block(x):
            seen.append((x @ x).dtype)
            return torch.nn.functional.dropout(x * 2)

        x.grad = None
        with torch.autocast(KIND, torch.bfloat16):
            y = checkpoint(block, x, use_reentrant=reentrant)
        y.sum().backward()
        assert seen == [torch.bfloat16] * 2
        assert x.grad.equal((y.detach() != 0) * 4.0)


def test_a_scaler_skips_steps_with_infinities():
    weight = torch.nn.Parameter(torch.ones(3, device=KIND))
    optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler(KIND, init_scale=4.0, growth_interval=1)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer), scaler.update()
    assert weight.tolist() == [1, 1, 1]
    assert scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(weight.sum() * 0.5).backward()
    assert weight.grad.tolist() == [1, 1, 1]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [0.5, 0.5, 0.5]
    scaler.step(optimizer), scaler.update()
    assert weight.tolist() == [0.5, 0.5, 0.5]
    assert scaler.get_scale() == 4.0


# ---- Around it ----
@on_xpu
def test_intel_extension():
    from taper import intel_extension_for_pytorch as ipex

    model, optimizer = torch.nn.Linear(2, 2).to(KIND), None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trained, stepper = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16)
    assert stepper is optimizer
    assert trained.weight.dtype == torch.float32
    assert ipex.optimize(model.eval(), dtype=torch.bfloat16).weight.dtype == torch.bfloat16
    assert model.weight.dtype == torch.float32
    assert ipex.xpu.is_available()
    assert ipex.xpu.device_count() == gpu.device_count()
    assert ipex.has_xpu()
    with torch.xpu.amp.autocast(enabled=True, dtype=torch.bfloat16):
        assert model(torch.ones(1, 2, device=KIND)).dtype == torch.bfloat16
    ipex.set_fp32_math_mode(ipex.FP32MathMode.TF32, device=KIND)
    assert torch.get_float32_matmul_precision() == "high"
    assert ipex.get_fp32_math_mode("xpu") == ipex.FP32MathMode.TF32
    ipex.set_fp32_math_mode("FP32", "xpu")
    assert torch.get_float32_matmul_precision() == "highest"
    told = isolated(
        "import taper.intel_extension_for_pytorch as i; print(i.get_fp32_math_mode('xpu').name)",
        IPEX_FP32_MATH_MODE="TF32",
    )
    assert told == "TF32\n"


def test_info_lists_devices_and_libraries():
    text = isolated("from taper.__main__ import main; main(['info'])")
    assert str(HERE) in next(line for line in text.splitlines() if line.startswith("devices:"))
    assert gpu.get_device_name() in text
    assert {"xpu": "CLBlast", "cuda": "RTC"}[KIND] in text
    assert _C._gpu_backend(KIND) in text


def test_taper_profile_holds_operators_and_kernels_against_the_device():
    script = "import torch\na = torch.ones(64, 64, device='KIND')\nfor _ in range(3):\n    b = a @ a\nb.sum().item()"
    done = subprocess.run(
        [sys.executable, "-m", "taper", "profile", "-c", script.replace("KIND", KIND)], capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert any(line.startswith("the GPU, ") and "GB/s" in line and "GFLOP/s in float32" in line for line in lines), (
        done.stdout + done.stderr
    )
    row = next(line for line in lines if line.startswith("mm "))
    assert row.split()[1] == "3", done.stdout
    assert row.count("%") == 3, done.stdout  # its share, and of both limits
    kernels = lines[next(i for i, line in enumerate(lines) if line.startswith("kernel ")) + 1 :]
    shares = [float(line[60:67].rstrip("%")) for line in kernels if "%" in line]
    assert any(line.split()[1] == "3" and line.count("%") == 3 for line in kernels)
    assert abs(sum(shares) - 100) < 1


def profiled_step(**settings):
    x = torch.randn(64, 64, device=KIND, requires_grad=True)
    (x @ x).relu().sum().backward()
    with torch.profiler.profile(**settings) as prof:
        y = (x @ x).relu()
        y.sum().backward()
        y.sum().item()
    return prof


def test_profiles_have_the_devices_times():
    from taper.autograd.profiler_util import DeviceType

    prof = profiled_step(profile_memory=True)
    events = prof.events()
    there = [event for event in events if event.device_type is not DeviceType.CPU]
    relu = next(event for event in events if event.name == "aten::relu")
    matmul, mm = (next(event for event in events if event.name == f"aten::{name}") for name in ("matmul", "mm"))
    assert len(relu.kernels) == 1
    assert relu.kernels[0].name in {event.name for event in there}
    assert relu.self_device_time_total == relu.device_time_total == relu.kernels[0].duration > 0
    assert matmul.self_device_time_total == 0
    assert matmul.device_time_total == mm.self_device_time_total > 0
    assert relu.cuda_time_total == relu.device_time_total
    assert relu.use_device == KIND
    assert mm.device_memory_usage == 64 * 64 * 4
    assert mm.cpu_memory_usage == 0
    table = prof.key_averages().table(sort_by="self_cuda_time_total", row_limit=5)
    for column in ("Self %s", "Self %s %%", "%s total", "%s time avg", "%s Mem", "Self %s Mem"):
        assert column % KIND.upper() in table.splitlines()[1], table
    total = sum(event.self_device_time_total for event in there)
    assert f"Self {KIND.upper()} time total: " in table
    assert total > 0
    owned = sum(event.self_device_time_total for event in events if event.device_type is DeviceType.CPU)
    launched = sum(event.self_device_time_total for event in there if event.linked_correlation_id)
    assert abs(owned - launched) <= 1e-6 * total  # item() is no operator
    rows = {(row.key, row.device_type): row for row in prof.key_averages()}
    assert rows["aten::mm", DeviceType.CPU].count == 3
    assert rows["aten::mm", DeviceType.CPU].device_time_total > 0
    cpu_alone = profiled_step(activities=[torch.profiler.ProfilerActivity.CPU])
    assert all(event.device_type is DeviceType.CPU and not event.kernels for event in cpu_alone.events())


def test_traces_have_rows_for_streams(tmp_path):
    import json

    prof = profiled_step(profile_memory=True)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    rows = trace["traceEvents"]
    kernels = [row for row in rows if row.get("cat") == "kernel"]
    copies = [row for row in rows if row.get("cat") == "gpu_memcpy"]
    calls = {row["args"]["External id"]: row for row in rows if row.get("cat") == "cpu_op"}
    assert kernels
    assert copies
    assert all(row["pid"] == 0 and row["dur"] >= 0 for row in kernels + copies)
    assert calls[kernels[0]["args"]["External id"]]["name"] == "aten::mm"
    assert copies[-1]["args"]["bytes"] > 0
    lanes = {(row["pid"], row["tid"]) for row in kernels}
    named = {(row["pid"], row["tid"]) for row in rows if row["name"] == "thread_name"}
    assert lanes <= named
    assert {"GPU 0"} <= {row["args"].get("labels") for row in rows if row["ph"] == "M"}
    arrows = [row for row in rows if row.get("cat") == "ac2g"]
    assert len(arrows) == 2 * len([row for row in kernels + copies if "External id" in row["args"]])
    assert trace["deviceProperties"][0]["name"] == gpu.get_device_name()
    assert any(row["name"] == "[memory]" and row["args"]["Device Id"] == 0 for row in rows)


def takes_memory():
    return torch.empty(12345, dtype=torch.uint8, device=KIND)


def test_snapshots_have_stacks(tmp_path):
    gpu.memory._record_memory_history()
    try:
        kept, gone = takes_memory(), takes_memory()
        addresses = kept.data_ptr(), gone.data_ptr()
        del gone
        path = tmp_path / "snapshot.pickle"
        gpu.memory._dump_snapshot(str(path))
    finally:
        gpu.memory._record_memory_history(None)
    snapshot = pickle.loads(path.read_bytes())
    blocks = {block["address"]: block for segment in snapshot["segments"] for block in segment["blocks"]}
    frames = blocks[addresses[0]]["frames"]
    assert frames[0]["name"] == "takes_memory"
    assert frames[1]["name"] == "test_snapshots_have_stacks"
    assert frames[0]["filename"] == __file__
    assert frames[0]["line"] == takes_memory.__code__.co_firstlineno + 1
    happened = [(entry["action"], entry["addr"]) for entry in snapshot["device_traces"][0]]
    assert happened == [
        ("alloc", addresses[0]),
        ("alloc", addresses[1]),
        ("free_requested", addresses[1]),
        ("free_completed", addresses[1]),
    ]
    freed = snapshot["device_traces"][0][2]
    assert freed["size"] == 12345
    assert freed["frames"][0]["name"] == "test_snapshots_have_stacks"
    assert gpu.memory._snapshot()["device_traces"][0] == []
    gpu.memory._record_memory_history("state", context="alloc", max_entries=1)
    kept = takes_memory()
    assert gpu.memory._snapshot()["device_traces"][0] == []
    gpu.memory._record_memory_history(None)
    for wrong in ({"enabled": "some"}, {"context": "none"}, {"stacks": "c"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            gpu.memory._record_memory_history(**wrong)


def test_products_of_8_bit_numbers():
    a, b = (torch.randint(-128, 128, shape).to(torch.int8) for shape in ((17, 32), (32, 16)))
    wanted = a.int() @ b.int()
    assert torch._int_mm(a.to(KIND), b.to(KIND)).cpu().equal(wanted)
    assert torch._int_mm(a.to(KIND), b.t().contiguous().t().to(KIND)).cpu().equal(wanted)
    x, y = torch.randn(17, 32).to(torch.float8_e4m3fn), torch.randn(16, 32).to(torch.float8_e4m3fn).t()
    one, two = torch.tensor(0.5), torch.tensor(3.0)
    exact = x.float() @ y.float() * 1.5
    exactly = 1e-3 if KIND == "cuda" else 1e-5  # cuBLASLt's sums of float8 products have some 14 bits on an H200
    for dtype, tolerance in ((torch.float32, exactly), (torch.bfloat16, 1e-2)):
        got = torch._scaled_mm(x.to(KIND), y.to(KIND), one.to(KIND), two.to(KIND), out_dtype=dtype)
        assert got.dtype is dtype
        assert torch.allclose(got.cpu().float(), exact, tolerance, 10 * tolerance)
    rows, columns = torch.rand(17, 1), torch.rand(1, 16)
    got = torch._scaled_mm(x.to(KIND), y.to(KIND), rows.to(KIND), columns.to(KIND), out_dtype=torch.float32)
    assert torch.allclose(got.cpu(), x.float() @ y.float() * rows * columns, exactly, 10 * exactly)
    weight, scales = torch.randint(-128, 128, (24, 32)).to(torch.int8), torch.rand(24).to(torch.bfloat16)
    for vectors in (1, 5, 40):
        z = torch.randn(vectors, 32).to(torch.bfloat16)
        wanted = (z.float() @ weight.float().t() * scales.float()).to(torch.bfloat16)
        got = torch._weight_int8pack_mm(z.to(KIND), weight.to(KIND), scales.to(KIND))
        assert got.dtype is torch.bfloat16
        assert torch.allclose(got.cpu().float(), wanted.float(), 2e-2, 1)
