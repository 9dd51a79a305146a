"""torch.UntypedStorage and torch.TypedStorage: objects that stay with their memory, numbers of a dtype, refusals in
PyTorch's words."""

import copy
import gc
import pickle
import warnings
import weakref

import pytest
import taper as torch


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_storage_with_attributes_stays_with_its_memory():
    x = torch.ones(3)
    x.untyped_storage().mark = 5
    gc.collect()
    assert x.untyped_storage().mark == 5


def test_a_subclass_ends_with_the_last_tensor():
    ended = []

    class Mine(torch.UntypedStorage):
        __slots__ = ["held"]

        def __del__(self):
            ended.append(self.nbytes())

    class Held:
        pass

    s = Mine(16)
    s.held = Held()
    held = weakref.ref(s.held)
    x = torch.tensor(s, dtype=torch.float32)
    del s
    assert not ended
    assert type(x.untyped_storage()) is Mine
    del x
    assert ended == [16]
    assert held() is None


def test_weak_references_hold_while_tensors_have_the_memory():
    s = torch.UntypedStorage(8)
    ref = weakref.ref(s)
    x = torch.tensor(s)
    del s
    assert ref() is x.untyped_storage()
    del x
    assert ref() is None


def test_weak_references_to_a_tensor_hold_while_it_is_a_gradient():
    x, y = torch.ones(2), torch.ones(2)
    ref = weakref.ref(x)
    y.grad = x
    del x
    x = ref()
    del y
    assert x.sum() == 2
    del x
    assert ref() is None


def test_cycles_through_attributes_are_collected():
    a, b = torch.UntypedStorage(2), torch.UntypedStorage(2)
    a.other, b.other = b, a
    ref = weakref.ref(a)
    del a, b
    gc.collect()
    assert ref() is None


def test_only_subclasses_of_the_base_can_be_made():
    with pytest.raises(RuntimeError, match="Cannot directly construct StorageBase"):
        torch._C.StorageBase()

    class Other(torch._C.StorageBase):
        pass

    assert Other(torch.UntypedStorage([1, 2])).tolist() == [1, 2]


def test_a_tensor_of_a_storage_looks_at_it():
    s = torch.DoubleStorage([1, 2])
    x = torch.tensor(s, dtype=torch.float64)
    x[0] = 7
    assert s.tolist() == [7, 2]
    assert torch.tensor(torch.UntypedStorage(16)).dtype == torch.int64
    with pytest.raises(RuntimeError, match="Expected a Storage of type Float or an UntypedStorage, but got Double"):
        torch.tensor(s)
    with pytest.raises(RuntimeError, match="but got type Double for argument 1 'storage'"):
        torch.tensor([]).set_(s)


def test_meta_storages_have_a_size_and_no_values():
    s = torch.TypedStorage([1, 2, 3], dtype=torch.float32, device="meta")
    assert (s.nbytes(), s.data_ptr(), s.size()) == (12, 0, 3)
    for read in (lambda: s[0], s.tolist, lambda: s.untyped()[0], s.untyped().tolist):
        with pytest.raises(NotImplementedError, match="Not available for 'meta' device type"):
            read()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        s.cpu()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        s.share_memory_()


def test_casts_and_items():
    s = torch.IntStorage([-1, 0, 300])
    assert isinstance(s, torch.IntStorage)
    assert not isinstance(s, torch.LongStorage)
    assert type(s) is torch.TypedStorage
    assert s.byte().tolist() == [255, 0, 44]
    assert s.float().type() == "torch.FloatStorage"
    assert s.bool().tolist() == [True, False, True]
    s[1:] = 4
    assert s.tolist() == [-1, 4, 4]
    assert s.fill_(2).tolist() == [2, 2, 2]
    assert torch.UntypedStorage([1, 2]).float().tolist() == [1.0, 2.0]
    assert torch.storage._dtype_to_storage_type_map()[torch.int16] == "ShortStorage"


def test_bytes_from_a_buffer_in_any_order():
    a = bytearray([1, 2, 3, 4])
    assert torch.ShortStorage.from_buffer(a, "big").tolist() == [258, 772]
    assert torch.IntStorage.from_buffer(a, "little").tolist() == [67305985]
    assert torch.ByteStorage.from_buffer(a, count=2, offset=1).tolist() == [2, 3]
    assert torch.BoolStorage.from_buffer(bytearray([0, 1, 9]), "big").tolist() == [False, True, True]
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        torch.IntStorage.from_buffer(bytearray(7), "little")
    with pytest.raises(ValueError, match="invalid byte_order"):
        torch.IntStorage.from_buffer(a, "up")


def test_byteswap_by_dtype():
    for dtype, swapped in (
        (torch.float64, [7, 6, 5, 4, 3, 2, 1, 0]),
        (torch.int16, [1, 0, 3, 2, 5, 4, 7, 6]),
        (torch.complex64, [3, 2, 1, 0, 7, 6, 5, 4]),
        (torch.uint8, list(range(8))),
    ):
        s = torch.UntypedStorage(list(range(8)))
        s.byteswap(dtype)
        assert s.tolist() == swapped


def test_the_file_of_a_shared_mapping(tmp_path):
    path = str(tmp_path / "numbers")
    torch.arange(4.0).numpy().tofile(path)
    shared, private = (torch.from_file(path, shared=on, size=4) for on in (True, False))
    assert shared.untyped_storage().filename == path
    assert private.untyped_storage().filename is None
    s = torch.FloatStorage.from_file(path, True, 4)
    s[0] = 9
    assert shared[0] == 9


@pytest.mark.parametrize(
    "make, kind, words",
    [
        (
            lambda: torch.storage._LegacyStorage(),
            RuntimeError,
            "Only child classes of _LegacyStorage can be instantiated",
        ),
        (lambda: torch.FloatStorage(device="cpu"), RuntimeError, "'device' cannot be specified"),
        (lambda: torch.FloatStorage(0, 0), RuntimeError, "Too many positional arguments"),
        (lambda: torch.FloatStorage("text"), TypeError, "invalid data type"),
        (lambda: torch.FloatStorage(torch.ones(1)), TypeError, "Argument type not recognized"),
        (
            lambda: torch.TypedStorage(wrap_storage=torch.UntypedStorage(4)),
            RuntimeError,
            "Argument 'dtype' must be specified",
        ),
        (
            lambda: torch.TypedStorage(wrap_storage=torch.FloatStorage(1), dtype=torch.float32),
            TypeError,
            "must be UntypedStorage",
        ),
        (lambda: torch.FloatStorage(2).resize_("a"), RuntimeError, "resize_ expects an int"),
        (lambda: torch.FloatStorage(2)[5], IndexError, "out of range for storage of size 2"),
        (lambda: torch.FloatStorage(2).fill_(torch.FloatStorage(2)), RuntimeError, "cannot set item"),
        (lambda: torch.cuda.FloatStorage.from_buffer(), RuntimeError, "Not available for CUDA storage"),
    ],
)
def test_refusals(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


def test_typed_storages_say_that_they_will_go():
    torch.storage._reset_warn_typed_storage_removal()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.FloatStorage()
        torch.ones(2).storage()
    assert len(seen) == 1
    assert str(seen[0].message).startswith("TypedStorage is deprecated")
    assert seen[0].filename == __file__


def test_copies_and_pickles():
    x = torch.ones(2)
    copied, storage = copy.deepcopy([x, x.storage()])
    copied[0] = 5
    assert storage[0] == 5
    assert x[0] == 1
    assert pickle.loads(pickle.dumps(torch.FloatStorage([1, 2]))).tolist() == [1, 2]
    g = torch.Generator().manual_seed(12)
    torch.rand(5, generator=g)
    for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        assert other.initial_seed() == 12
        assert torch.equal(other.get_state(), g.get_state())


def test_resized_in_the_order_of_channels():
    x = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert torch.empty(0).resize_(2, 3, 4, 5, memory_format=torch.channels_last).stride() == x.stride()
    assert torch.empty(0).resize_as_(x, memory_format=torch.preserve_format).stride() == x.stride()
    assert torch.empty(0).resize_as_(x).is_contiguous()
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        torch.empty(0).resize_(2, 3, memory_format=torch.channels_last)
