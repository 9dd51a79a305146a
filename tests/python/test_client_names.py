"""Names that packages on top of PyTorch read (docs/clients.md): what they mean here. Expected values are PyTorch's."""

import subprocess
import sys
from collections import namedtuple

import pytest
import taper as torch
from taper.utils import _pytree as pytree


def run(code):
    done = subprocess.run(
        [sys.executable, "-m", "taper", "run", "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_modules_that_no_file_holds():
    assert (
        run(
            "import torch.ops, torch.classes, torch._C._functorch, torch\n"
            "from torch.ops import aten\nfrom torch._C._nn import _parse_to\n"
            "print(aten.clone.default, _parse_to('cpu', torch.float64), torch.torch is torch)"
        )
        == "aten.clone.default (device(type='cpu'), torch.float64, False, None) True\n"
    )


@pytest.mark.parametrize("name", ["torch.Tensor", "torch.float32", "torch.nn.Linear", "torch.ops.aten"])
def test_what_is_no_module_cannot_be_imported(name):
    assert "ModuleNotFoundError" in run(
        f"try:\n    import {name}\nexcept ModuleNotFoundError as e:\n    print(repr(e))"
    )


def test_names_of_the_extension():
    assert isinstance(torch.Tensor, torch._C._TensorMeta)
    assert issubclass(torch._C._TensorMeta, type)
    assert torch._C._has_xpu is (torch.xpu.device_count() > 0)
    assert torch._C._get_default_device() == "cpu"
    assert not torch._C._are_functorch_transforms_active()
    active = []
    torch.func.vmap(lambda x: active.append(torch._C._are_functorch_transforms_active()) or x)(torch.ones(2))
    torch.func.grad(lambda x: active.append(torch._C._are_functorch_transforms_active()) or x)(torch.tensor(1.0))
    assert active
    assert all(active)
    x = torch.ones(4)
    assert torch._C._is_alias_of(x, x[1:])
    assert not torch._C._is_alias_of(x, x.clone())
    assert torch._C._jit_set_profiling_executor(False) is True
    assert torch._C._jit_set_profiling_executor(True) is False
    assert repr(torch.DeviceObjType.get()) == "Device"
    assert torch.TensorType.get() == torch.TensorType.get()
    with pytest.raises(AttributeError, match="_no_such_name"):
        torch._C._no_such_name


def test_a_checkpoint_by_its_records(tmp_path):
    torch.save({"w": torch.arange(3.0)}, tmp_path / "w.pt")
    reader = torch.PyTorchFileReader(str(tmp_path / "w.pt"))
    assert reader.has_record("data.pkl")
    assert not reader.has_record("none")
    assert "data/0" in reader.get_all_records()
    assert torch.equal(reader.get_storage_from_record("data/0", 3, torch.float32), torch.arange(3.0))


def test_checks_raise_their_errors():
    torch._check(True)
    for check, error in (
        (torch._check, RuntimeError),
        (torch._check_index, IndexError),
        (torch._check_value, ValueError),
        (torch._check_type, TypeError),
    ):
        with pytest.raises(error, match="^why$"):
            check(False, lambda: "why")
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        torch._check(False)
    with pytest.raises(TypeError, match="cond must be a bool"):
        torch._check(torch.tensor(True))
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(torch.tensor([True, False]))


def test_nodes_of_trees_can_be_read():
    point = namedtuple("point", "x y")
    assert dict in pytree.SUPPORTED_NODES
    assert int not in pytree.SUPPORTED_NODES
    assert list(pytree.SUPPORTED_NODES)[0] is dict
    assert pytree._get_node_type(point(1, 2)) is namedtuple
    assert pytree._get_node_type(1) is int
    assert pytree.SUPPORTED_NODES[list].flatten_fn([1, 2]) == ([1, 2], None)
    assert pytree.SUPPORTED_NODES[namedtuple].unflatten_fn([1, 2], point) == point(1, 2)
    assert pytree._dict_flatten_with_keys({"a": 1}) == ([(pytree.MappingKey("a"), 1)], ["a"])
    spec = pytree.tree_structure({"p": point(1, (2,)), "m": torch.max(torch.ones(1, 2), 1)})
    assert repr(spec).startswith("TreeSpec(dict, ['p', 'm'], [TreeSpec(namedtuple, <class")
    assert "TreeSpec(max, None, [*," in repr(spec)


def test_a_registered_type_gives_its_keys():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register_pytree_node(
        Pair,
        lambda p: ([p.a, p.b], None),
        lambda children, _: Pair(*children),
        flatten_with_keys_fn=lambda p: ([(pytree.GetAttrKey("a"), p.a), (pytree.GetAttrKey("b"), p.b)], None),
    )
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path([Pair(1, 2)])] == ["[0].a", "[0].b"]
    pytree._deregister_pytree_node(Pair)
    assert pytree.tree_leaves([1, Pair(1, 2)])[1].a == 1


def test_operators_of_aten_are_listed():
    aten = torch.ops.aten
    assert sorted(aten._foreach_maximum_.overloads()) == ["List", "Scalar", "ScalarList"]
    with pytest.raises(AttributeError, match="has no overload name 'nope'"):
        aten.add.nope
    assert not hasattr(aten, "no_such_operator")
    named = aten._sparse_mm_reduce_impl.default  # a name that subclasses of Tensor register for
    with pytest.raises(NotImplementedError, match="torch.ops.aten._sparse_mm_reduce_impl is not in Taper yet"):
        named()
    x = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(aten.silu_backward(torch.ones(2), x), torch.tensor([0.9276705, 1.0907843]))
    torch.testing.assert_close(aten.gelu_backward(torch.ones(2), x), torch.tensor([1.0833154, 1.0852319]))
    assert aten.sym_size.int(torch.ones(2, 3), 1) == 3
    assert aten._pin_memory.default.name() == "aten::_pin_memory"


def test_indices_of_rows():
    rows, columns = torch.tensor([0, 0, 2, 3]), torch.tensor([1, 2, 0, 1])
    crow = torch._convert_indices_from_coo_to_csr(rows, 5)
    assert crow.tolist() == [0, 2, 2, 3, 4, 4]
    assert torch._convert_indices_from_coo_to_csr(rows, 5, out_int32=True).dtype is torch.int32
    assert torch._convert_indices_from_csr_to_coo(crow, columns).tolist() == [[0, 0, 2, 3], [1, 2, 0, 1]]
    assert torch._convert_indices_from_csr_to_coo(crow, columns, transpose=True).tolist() == [
        [1, 2, 0, 1],
        [0, 0, 2, 3],
    ]


def test_printing_for_subclasses():
    from taper import _tensor_str as printing

    x = torch.arange(6.0).reshape(2, 3)
    assert printing._tensor_str(x, 3) == "[[0., 1., 2.],\n    [3., 4., 5.]]"
    assert printing._tensor_str(torch.tensor(3.5), 3) == "3.5000"
    assert printing._str_intern(x, tensor_contents="X") == "tensor(X)"
    assert printing.PRINT_OPTS.threshold == 1000
    assert printing._add_suffixes("tensor([1]", ["a=1", "b=2"], 4, False) == "tensor([1], a=1, b=2)"


def test_pipes_of_steps():
    pipes = torch.utils.data.datapipes.iter

    @torch.utils.data.functional_datapipe("twice")
    class Twice(torch.utils.data.IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            return (2 * x for x in self.source)

    numbers = pipes.IterableWrapper(range(7))
    assert list(numbers.twice().filter(lambda x: x % 4 == 0).batch(2)) == [[0, 4], [8, 12]]
    assert len(numbers.batch(2)) == 4
    torch.manual_seed(0)
    assert list(numbers.shuffle()) == [1, 3, 0, 2, 6, 5, 4]
    assert list(numbers.shuffle(buffer_size=3).set_seed(5)) == [
        2,
        1,
        3,
        4,
        5,
        0,
        6,
    ]
    assert list(numbers.groupby(lambda x: x % 3, group_size=2)) == [[0, 3], [1, 4], [2, 5], [6]]
    assert list(pipes.IterableWrapper([(1, 2), (3, 4)]).map(lambda x: x + 1, input_col=1)) == [(1, 3), (3, 5)]
    share = torch.utils.data.graph_settings.apply_sharding(numbers.sharding_filter(), 3, 1)
    assert list(share) == [1, 4]
    assert list(numbers.batch(2).unbatch()) == list(range(7))
    batches = list(torch.utils.data.DataLoader(numbers.map(float), batch_size=4))
    assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6]]


def test_tensors_as_weak_keys():
    from taper.utils.weak import WeakTensorKeyDictionary

    kept, x = WeakTensorKeyDictionary(), torch.ones(2)
    kept[x] = 1
    assert x in kept
    assert torch.ones(2) not in kept
    assert kept[x] == 1
    del x
    assert len(kept) == 0


def test_small_ones():
    assert torch.onnx.is_in_onnx_export() is False
    assert torch.onnx.TrainingMode.EVAL == 0
    assert not torch.mtia.is_available()
    assert torch.utils.data._utils.worker._generate_state(12345678901, 3) == [
        2973762914,
        2096409635,
        2530576639,
        2673913251,
    ]
    assert torch.futures.Future[int] is not None
    assert torch.Future is torch.futures.Future
    assert not torch.autograd._profiler_enabled()
    with torch.autograd.profiler.profile():
        assert torch.autograd._profiler_enabled()
    assert not torch.autograd._profiler_enabled()
    assert torch._utils._element_size(torch.float16) == 2
    assert torch._utils._get_device_module("cpu") is torch.cpu
    with torch.backends.__dict__["__allow_nonbracketed_mutation"]():
        pass
    assert torch.distributions.multivariate_normal.Distribution is torch.distributions.Distribution
    assert [len(piece) for piece in torch.ones(5).split(split_size=2)] == [2, 2, 1]
    assert len(torch.split(torch.ones(4), split_size_or_sections=2)) == 2
    assert torch.Tensor.__div__(torch.ones(1), 2) == 0.5
    with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed"):
        torch.symeig(torch.ones(2, 2))


def test_the_backward_that_runs():
    seen = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append(torch._C._current_autograd_node() is ctx)
            return gradient * 2

    y = Twice.apply(torch.ones(2, requires_grad=True) * 3)
    node = y.grad_fn
    y.register_hook(lambda gradient: seen.append(torch._C._current_autograd_node() is node))
    y.register_hook(lambda gradient: seen.append(torch._C._current_graph_task_id() >= 0))
    y.register_hook(
        lambda gradient: torch.autograd.variable.Variable._execution_engine.queue_callback(lambda: seen.append("end"))
    )
    y.sum().backward()
    assert seen == [True, True, True, "end"]
    assert torch._C._current_graph_task_id() == -1
    assert torch._C._current_autograd_node() is None
    with pytest.raises(RuntimeError, match="is deprecated, use torch.tensor"):
        torch.autograd.variable(torch.ones(1))


def test_holders_of_a_storage():
    x = torch.ones(3)
    assert torch._C._storage_Use_Count(x.untyped_storage()._cdata) == 2
    view = x[1:]
    assert torch._C._storage_Use_Count(x.untyped_storage()._cdata) == 3
    storage = view.untyped_storage()
    assert torch._C._storage_Use_Count(storage._cdata) == 3
    assert isinstance(storage, torch.StorageBase)
    with pytest.raises(RuntimeError):
        torch._C._storage_Use_Count(0)


def test_storages_from_buffers():
    data = torch.ByteTensor(torch.ByteStorage._from_buffer(b"abc"))
    assert data.tolist() == [97, 98, 99]
    for order, numbers in (("little", [1, 2]), ("big", [256, 512])):
        storage = torch.UntypedStorage.from_buffer(b"\x01\x00\x02\x00", order, dtype=torch.int16)
        assert torch.empty(0, dtype=torch.int16).set_(storage).tolist() == numbers
    with pytest.raises(ValueError, match="invalid byte_order"):
        torch.UntypedStorage.from_buffer(b"\x01\x00", "middle", dtype=torch.int16)
    with pytest.raises(RuntimeError, match="missing required argument .byte_order."):
        torch.TypedStorage._from_buffer(b"abc")


def test_exports_to_onnx_are_refused_as_without_its_packages():
    net, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with pytest.raises(ModuleNotFoundError, match="onnxscript"):
        torch.onnx.export(net, (x,), "net.onnx")
    with pytest.raises(torch.onnx.OnnxExporterError, match="onnx is not installed"):
        torch.onnx.export(net, (x,), "net.onnx", dynamo=False)
    assert not torch.onnx.is_in_onnx_export()
    assert not isinstance(x, torch.onnx._internal.exporter.ONNXProgram)
    assert issubclass(torch.onnx.errors.UnsupportedOperatorError, RuntimeError)


def test_associative_scan():
    from taper._higher_order_ops import associative_scan

    x = torch.arange(1.0, 8.0).repeat(2, 1).requires_grad_()
    assert torch.equal(associative_scan(torch.add, x, 1), x.cumsum(1))
    assert torch.equal(associative_scan(torch.mul, x, -1, reverse=True), x.flip(1).cumprod(1).flip(1))
    for n in range(1, 6):
        part = x[:, :n].detach()
        assert torch.equal(associative_scan(torch.maximum, part, 1), part.cummax(1)[0])

    def affine(left, right):  # h = a * h + b, one step after another
        return {"a": left["a"] * right["a"], "b": left["b"] * right["a"] + right["b"]}

    steps = {"a": torch.full((5,), 0.5), "b": torch.ones(5)}
    assert associative_scan(affine, steps, 0)["b"].tolist() == [1.0, 1.5, 1.75, 1.875, 1.9375]
    associative_scan(torch.add, x, 1).sum().backward()
    assert x.grad[0].tolist() == [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    with pytest.raises(ValueError, match="at least 1 xs leaf"):
        associative_scan(torch.add, (), 0)


def test_grouped_products():
    grouped = torch.nn.functional.grouped_mm
    a, b, ends = torch.randn(6, 4), torch.randn(2, 4, 3, requires_grad=True), torch.tensor([2, 5], dtype=torch.int32)
    out = grouped(a, b, offs=ends)
    assert out.shape == (6, 3)
    assert torch.allclose(out[2:5], a[2:5] @ b[1])
    assert torch.equal(torch._grouped_mm(a, b, ends), out)
    out.sum().backward()
    assert torch.allclose(b.grad[0], a[:2].sum(0)[:, None].expand(4, 3))
    columns = torch.randn(4, 5)
    assert torch.allclose(grouped(torch.stack([a, a]), columns, offs=ends)[:, 2:5], a @ columns[:, 2:5])
    assert torch.allclose(grouped(a.T.contiguous(), a, offs=ends)[1], a[2:5].T @ a[2:5])
    for call, text in (
        (lambda: grouped(a, b), "Have to provide offsets"),
        (lambda: grouped(a, b, offs=ends.long()), "Offsets have to be int32"),
        (lambda: grouped(a.double(), b.double(), offs=ends), "Expected mat_a to be Float32"),
        (lambda: grouped(a[:, :3], b, offs=ends), "contraction dimension of mat_a and mat_b must match"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()


def test_a_compiled_modules_other_methods():
    """lightning compiles a module's steps by the context of the compiled module, and asks for their arguments."""
    import inspect

    class Net(torch.nn.Linear):
        def training_step(self, batch, index):
            return self(batch).sum() * index

    net = Net(2, 2)
    step = torch.compile(net).dynamo_ctx(net.training_step)
    assert inspect.getfullargspec(step.__wrapped__).args == ["self", "batch", "index"]
    assert str(inspect.signature(step)) == "(batch, index)"
    assert torch.allclose(step(torch.ones(1, 2), 2), net.training_step(torch.ones(1, 2), 2))


def test_steps_of_vmap_can_be_replaced(monkeypatch):
    """tensordict puts steps of its own in their place, which know its containers."""
    from taper._functorch import vmap as steps

    created = steps._create_batched_inputs
    seen = []
    monkeypatch.setattr(
        steps,
        "_create_batched_inputs",
        lambda dims, leaves, level, spec: seen.append(dims) or created(dims, leaves, level, spec),
    )
    assert torch.vmap(lambda x, y: x * y, in_dims=(0, None))(torch.ones(3), torch.tensor(2.0)).tolist() == [2.0] * 3
    assert seen == [[0, None]]
    assert torch._functorch.config.donated_buffer is True
    assert torch._guards.active_fake_mode() is None


def test_nested_views_of_a_buffer():
    buffer, sizes = torch.arange(7.0), torch.tensor([[1, 3], [2, 2]])
    nested = torch._nested_view_from_buffer(buffer, sizes, torch.tensor([[3, 1], [2, 1]]), torch.tensor([0, 3]))
    assert [part.tolist() for part in nested.unbind()] == [
        [[0.0, 1.0, 2.0]],
        [[3.0, 4.0], [5.0, 6.0]],
    ]
    assert nested.is_nested
    buffer[0] = 9
    assert nested.unbind()[0][0, 0] == 9
    from taper._subclasses.functional_tensor import FunctionalTensor

    assert not isinstance(buffer, FunctionalTensor)
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]


def test_one_tensor_of_a_module_for_another():
    from taper.nn.utils._named_member_accessor import swap_tensor

    net = torch.nn.Linear(2, 2)
    weight = swap_tensor(net, "weight", torch.ones(2, 2))
    assert isinstance(weight, torch.nn.Parameter)
    assert type(net.weight) is torch.Tensor
    assert list(net._parameters) == ["weight", "bias"]
    assert type(swap_tensor(net, "weight", weight)) is torch.Tensor
    assert net.weight is weight
    missing = swap_tensor(net, "new", torch.ones(1), allow_missing=True)
    assert "new" in net.__dict__
    swap_tensor(net, "new", missing)
    assert not hasattr(net, "new")
    for arguments, error in (
        ((net, "none", weight), AttributeError),
        ((net, "a.b", weight), KeyError),
        (("x", "w", weight), TypeError),
        ((net, "bias", 3), TypeError),
    ):
        with pytest.raises(error):
            swap_tensor(*arguments)


def test_old_casts_by_name():
    x = torch.tensor([1.7, -2.2])
    assert torch._cast_Long(x).tolist() == [1, -2]
    assert torch._cast_Half(x).dtype is torch.float16


def test_a_module_with_other_tensors():
    from taper.nn.utils.stateless import _reparametrize_module

    layer = torch.nn.Linear(2, 1)
    own = layer.weight
    with _reparametrize_module(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}):
        assert layer(torch.ones(1, 2)).item() == 2
    assert layer.weight is own


def test_boxes_shared_in_other_formats():
    from taper.torchvision.ops import boxes

    first, second = torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 2, 2]])
    inter, union = boxes._box_inter_union(first, second, "xywh")
    assert (inter.item(), union.item()) == (1, 7)
    assert boxes.box_iou(first, second, "xywh").equal(inter / union)


def test_functions_of_the_extensions_nn():
    x = torch.tensor([[-1.0, 2.0]])
    nn = torch._C._nn
    assert nn.elu(x, 1.0, 1.0, 1.0).tolist() == torch.nn.functional.elu(x).tolist()
    assert nn.cross_entropy_loss(x, torch.tensor([1]), None, 1, -100, 0.0) == torch.nn.functional.cross_entropy(
        x, torch.tensor([1])
    )
    assert not hasattr(nn, "nothing_of_the_kind")


def test_constants_are_nodes_without_leaves():
    class Choice:
        def __init__(self, word):
            self.word = word

        def __eq__(self, other):
            return isinstance(other, Choice) and self.word == other.word

        def __hash__(self):
            return hash(self.word)

    pytree.register_constant(Choice)
    leaves, spec = pytree.tree_flatten([Choice("a"), 1])
    assert leaves == [1] and spec == pytree.tree_structure([Choice("a"), 2]) != pytree.tree_structure([Choice("b"), 2])
    assert pytree.tree_unflatten([3], spec) == [Choice("a"), 3]
    assert pytree.is_constant_class(Choice) and not pytree.is_constant_class(int)
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(type("Plain", (), {}))


def test_names_that_torchao_reads():
    from taper._dynamo import utils
    from taper._inductor import decomposition
    from taper._utils import _get_obj_state, _set_obj_state

    assert torch._C.Tag is torch.Tag and decomposition.register_decomposition
    assert torch.cpu.get_capabilities()["num_logical_cores"] == torch._C._cpu._get_cpu_capability()["num_logical_cores"]
    assert torch.cpu._is_avx512_supported() == torch.cpu.get_capabilities()["avx512_f"]
    assert utils.is_compile_supported("cpu") and not utils.is_compile_supported("nothing")
    one, other = torch.ones(1), torch.ones(1)
    one.word = "a"
    assert _set_obj_state(other, _get_obj_state(one)).word == "a"
    assert torch.ops.c10d.scatter_.default != torch.ops.c10d.broadcast_.default
    with pytest.raises(NotImplementedError, match="torch.ops.c10d.scatter_"):
        torch.ops.c10d.scatter_()
    assert torch.ops._c10d_functional.wait_tensor(torch.ones(1)) == 1
    assert str(torch.ops.c10d_functional.all_reduce.default) == "c10d_functional.all_reduce.default"
