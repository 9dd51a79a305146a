"""x[...] and x[...] = y against NumPy on generated keys, and what PyTorch does beyond NumPy."""

import numpy as np
import pytest
import taper as torch

rng = np.random.default_rng(7)


def random_key(shape):
    """A key for an array of this shape, as (NumPy's, ours). Integers stay out beside index arrays, where PyTorch
    departs from NumPy."""
    advanced = rng.random() < 0.6
    theirs, ours, dim, ellipsis = [], [], 0, False
    common = tuple(rng.integers(1, 4, rng.integers(1, 3)))
    while dim < len(shape):
        kind = rng.integers(0, 7)
        n = shape[dim]
        if kind == 0 and not advanced and n:
            key = int(rng.integers(-n, n))
            dim += 1
        elif kind == 1:
            key = slice(
                *(None if rng.random() < 0.3 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)),
                None if rng.random() < 0.5 else int(rng.integers(1, 3)),
            )
            dim += 1
        elif kind == 2:
            key = None
        elif kind == 3 and not ellipsis and rng.random() < 0.5:
            ellipsis = True
            rest = int(rng.integers(0, len(shape) - dim + 1))
            key = Ellipsis
            if dim + rest < len(shape):
                theirs.append(key), ours.append(key)
                # what follows an Ellipsis is for the last dims
                tail = len(shape) - dim - rest
                key = slice(None, int(rng.integers(0, 4)))
                for _ in range(tail):
                    theirs.append(key), ours.append(key)
                break
            dim += rest
        elif kind == 4 and advanced and n:
            index = rng.integers(-n, n, common)
            theirs.append(index), ours.append(index.tolist() if rng.random() < 0.3 else torch.from_numpy(index))
            dim += 1
            continue
        elif kind == 5 and advanced:
            k = int(rng.integers(1, len(shape) - dim + 1))
            mask = rng.random(shape[dim : dim + k]) < 0.5
            if mask.sum() != common[-1] and len(common) and any(isinstance(t, np.ndarray) for t in theirs):
                continue
            common = (int(mask.sum()),)
            theirs.append(mask), ours.append(torch.from_numpy(mask))
            dim += k
            continue
        elif kind == 6 and rng.random() < 0.3:
            break
        else:
            continue
        theirs.append(key), ours.append(key)
    if len(theirs) == 1 and not isinstance(ours[0], list) and rng.random() < 0.5:
        return theirs[0], ours[0]
    return tuple(theirs), tuple(ours)


def outcome(function):
    try:
        return function()
    except (IndexError, ValueError, RuntimeError) as error:
        return type(error)


def test_reading_like_numpy():
    compared = 0
    for _ in range(1500):
        shape = tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 else 1, 5, rng.integers(1, 5)))
        a = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        theirs, ours = random_key(shape)
        want = outcome(lambda: a[theirs])
        got = outcome(lambda: torch.from_numpy(a)[ours])
        if isinstance(want, type):
            assert isinstance(got, type), (shape, theirs)
            continue
        assert not isinstance(got, type), (shape, theirs, got)
        assert got.shape == want.shape, (shape, theirs)
        assert (got.numpy() == want).all(), (shape, theirs)
        compared += 1
    assert compared > 1000


def test_writing_like_numpy():
    compared = 0
    for _ in range(1500):
        shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 5)))
        a = np.zeros(shape, np.int64)
        theirs, ours = random_key(shape)
        target = outcome(lambda: a[theirs])
        if isinstance(target, type):
            continue
        value = (
            rng.integers(1, 100, target.shape[int(rng.integers(0, target.ndim + 1)) :])
            if rng.random() < 0.7
            else int(rng.integers(1, 100))
        )
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = int(value)
        b = torch.from_numpy(a.copy())
        if (
            isinstance(value, np.ndarray)
            and len({int(i) for i in np.arange(a.size).reshape(shape)[theirs].reshape(-1)}) < target.size
        ):
            continue  # one place is written twice: the order is nobody's promise
        a[theirs] = value
        b[ours] = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        assert (b.numpy() == a).all(), (shape, theirs, value)
        compared += 1
    assert compared > 900


x = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    "key, shape",
    [
        (0, (3, 4)),
        (-1, (3, 4)),
        (slice(1, None), (1, 3, 4)),
        ((slice(None), 2), (2, 4)),
        ((0, Ellipsis, 1), (3,)),
        (None, (1, 2, 3, 4)),
        (Ellipsis, (2, 3, 4)),
        ((), (2, 3, 4)),
        (True, (1, 2, 3, 4)),
        (False, (0, 2, 3, 4)),
        (torch.tensor(1), (3, 4)),
        (torch.tensor(True), (1, 2, 3, 4)),
        ([0, 1], (2, 3, 4)),
        ([], (0, 3, 4)),
        ((0, (0, 2)), (2, 4)),
        ((0, slice(None), torch.tensor([1, 2])), (3, 2)),
        ((torch.tensor([0, 1]), True), (2, 3, 4)),
        (np.int64(1), (3, 4)),
        (np.array([0, 1]), (2, 3, 4)),
        (np.array(1), (3, 4)),
        (range(2), (2, 3, 4)),
        ((slice(torch.tensor(0), torch.tensor(1)),), (1, 3, 4)),
        (torch.tensor([1, 0], dtype=torch.int32), (2, 3, 4)),
        ((Ellipsis, Ellipsis), (2, 3, 4)),
    ],
)
def test_keys_of_every_kind(key, shape):
    assert x[key].shape == shape


@pytest.mark.parametrize(
    "key, error, message",
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, 5), IndexError, "index 5 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (1.0, IndexError, "only integers, slices"),
        ("a", TypeError, "invalid data type 'str'"),
        (slice("a"), TypeError, "slice indices"),
        ({}, IndexError, "got dict"),
        (torch.tensor([1.0]), IndexError, "must be long, int, byte or bool"),
        (torch.tensor([5]), IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (torch.tensor([True] * 3), IndexError, r"shape of the mask \[3\] at index 0 does not match"),
        (2**70, ValueError, "Overflow"),
        ((None,) * 100, IndexError, "too many"),
        ((torch.tensor([0, 1]), torch.tensor([0, 1, 2])), IndexError, "could not be broadcast together"),
    ],
)
def test_bad_keys(key, error, message):
    with pytest.raises(error, match=message):
        x[key]
    with pytest.raises(error):
        x.clone()[key] = 1


def test_zero_dimensions():
    t = torch.tensor(1.0)
    assert t[...].shape == ()
    assert t[None].shape == (1,)
    assert t[True].shape == (1,)
    assert t[()].shape == ()
    for key, message in ((0, "0-dim tensor"), (slice(None), "0-dim tensor"), (torch.tensor([0]), "too many indices")):
        with pytest.raises(IndexError, match=message):
            t[key]


def test_basic_keys_give_views_and_others_copies():
    t = torch.zeros(3, 3)
    t[1][:] = 1
    t[:, None, 2][0] = 2
    t[[0]][:] = 9
    assert t.tolist() == [[0, 0, 2], [1, 1, 1], [0, 0, 0]]
    assert t[...] is not t
    assert t[...].data_ptr() == t.data_ptr()


def test_assigning_values():
    t = torch.zeros(2, 3)
    t[0] = torch.ones(1, 1, 3)  # leading ones fall away
    t[1] = torch.tensor([1, 2, 3])  # another dtype
    assert t.tolist() == [[1, 1, 1], [1, 2, 3]]
    t[t > 1] = torch.tensor(7.0, dtype=torch.float64)
    assert t.tolist() == [[1, 1, 1], [1, 7, 7]]
    t[torch.tensor([0, 1]), torch.tensor([0, 0])] = torch.tensor([[5.0, 6.0]])
    assert t.tolist() == [[5, 1, 1], [6, 7, 7]]
    integers = torch.arange(3)
    integers[:2] = 1.7
    assert integers.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "value, error",
    [
        ([1, 2, 3], TypeError),
        (np.ones(3), TypeError),
        ("a", TypeError),
        (None, TypeError),
        (1j, RuntimeError),
        (torch.ones(4), RuntimeError),
        (torch.ones(2, 3), RuntimeError),
    ],
)
def test_values_that_cannot_be_assigned(value, error):
    t = torch.zeros(2, 3)
    with pytest.raises(error):
        t[0] = value
    assert t.tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("key", [0, slice(None), [0, 2], torch.tensor([True, False, True]), True, (True,)])
@pytest.mark.parametrize("dtype, value", [(torch.uint8, 300), (torch.int8, -129), (torch.int16, 1e10)])
def test_numbers_that_the_dtype_does_not_hold(key, dtype, value):
    t = torch.zeros(3, dtype=dtype)
    with pytest.raises(RuntimeError, match=f"cannot be converted to type {str(dtype)[6:]}_t without overflow"):
        t[key] = value
    assert t.tolist() == [0] * 3


def test_a_mask_takes_one_number_of_another_dtype():
    t = torch.zeros(3)
    t[torch.tensor([True, False, True])] = torch.tensor([300])
    assert t.tolist() == [300, 0, 300]


def test_truth_values_as_keys_of_writes():
    t = torch.zeros(3, 2)
    t[False] = torch.ones(7)  # nothing is written, so nothing is looked at
    assert t._version == 0
    t[True] = torch.tensor(2, dtype=torch.int32)  # as t[None]
    assert t.tolist() == [[2] * 2] * 3


def test_index_tensors_want_the_same_dtype():
    t = torch.zeros(3)
    with pytest.raises(RuntimeError, match="got Float for the destination and Double for the source"):
        t[torch.tensor([0])] = torch.ones(1, dtype=torch.float64)
    with pytest.raises(TypeError):
        del t[0]


def test_warnings():
    with pytest.warns(UserWarning, match="torch.uint8 is now deprecated"):
        assert x[torch.tensor([1, 0], dtype=torch.uint8)].shape == (1, 3, 4)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 0]]].shape == (2, 4)


def test_where_and_masked_fill_take_numbers_that_fit():
    small, mask = torch.zeros(2, dtype=torch.uint8), torch.tensor([True, False])
    for call in (lambda: torch.where(mask, small, 300), lambda: small.masked_fill(mask, 300)):
        with pytest.raises(RuntimeError, match="cannot be converted to type uint8_t without overflow"):
            call()
    assert torch.where(mask, 1.5, small).tolist() == [1.5, 0]
    assert torch.where(mask, small.half(), -1e9).tolist() == [0, -float("inf")]


def test_a_mask_among_whole_dimensions_takes_one_number_of_another_dtype():
    """As for a mask alone: what stands around it are slices, None and numbers."""
    five, mask = torch.tensor([5.0]), torch.tensor([False, True, False])
    x = torch.arange(12).reshape(2, 3, 2)
    x[-1, None, mask] = five
    x[:, mask] = torch.tensor(7.9)
    assert x.tolist() == [[[0, 1], [7, 7], [4, 5]], [[6, 7], [7, 7], [10, 11]]]
    y = torch.zeros(1, 3)
    y[torch.tensor([True]), None, :2] = torch.tensor(3)
    assert y.tolist() == [[3, 3, 0]]
    z = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="dtypes match"):
        z[torch.tensor([0]), mask] = five
