"""Which elements are in a set, beside Python's own sets."""

import pytest
import taper as torch

NAN = float("nan")


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float64], ids=str
)
@pytest.mark.parametrize("known", [0, 1, 7, 300, 5000])
def test_isin_is_membership(dtype, known):
    generator = torch.Generator().manual_seed(known)
    limit = 120 if dtype in (torch.uint8, torch.int8) else 9000
    elements = torch.randint(0, limit, (60, 100), generator=generator).to(dtype)
    tested = torch.randint(0, limit, (known,), generator=generator).to(dtype)
    members = set(tested.tolist())
    expected = [[e in members for e in row] for row in elements.tolist()]
    assert torch.isin(elements, tested).tolist() == expected
    assert torch.isin(elements, tested, invert=True).tolist() == [[not e for e in row] for row in expected]
    assert torch.isin(elements.t(), tested).t().tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_nan_is_in_no_set_and_both_zeros_are_one(dtype):
    elements = torch.tensor([0.0, -0.0, NAN, 1.0, float("inf"), -1.0], dtype=dtype)
    assert torch.isin(elements, elements).tolist() == [True, True, False, True, True, True]
    assert torch.isin(elements, torch.tensor([NAN, NAN], dtype=dtype)).tolist() == [False] * 6
    assert torch.isin(elements, torch.tensor([NAN, -0.0], dtype=dtype)).tolist() == [True, True] + [False] * 4
    assert torch.isin(elements, torch.tensor([], dtype=dtype), invert=True).tolist() == [True] * 6


def test_keys_that_differ_in_few_bits_are_told_apart():
    for step in (1, 2**16, 2**32, 2**52, -(2**62)):
        tested = torch.tensor([i * step % 2**62 for i in range(0, 400, 2)])
        elements = torch.tensor([i * step % 2**62 for i in range(400)])
        members = set(tested.tolist())
        assert torch.isin(elements, tested).tolist() == [e in members for e in elements.tolist()]


def test_elements_meet_in_the_wider_dtype():
    elements = torch.tensor([1, 2, -1], dtype=torch.int8)
    assert torch.isin(elements, torch.tensor([257, 2, 255])).tolist() == [False, True, False]
    assert torch.isin(elements, torch.tensor([1.0, 1.5])).tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64, torch.float32], ids=str)
def test_few_elements_among_many(dtype):
    many = torch.arange(0, 30000, 3).to(dtype)
    few = torch.tensor([0, 1, 3, 3, 29997, 30000, 29998, -3, 0]).to(dtype)
    expected = [True, False, True, True, True, False, False, False, True]
    assert torch.isin(few, many).tolist() == expected
    assert torch.isin(few, many, invert=True).tolist() == [not e for e in expected]
    assert torch.isin(few[:1], many).tolist() == [True]
    assert torch.isin(few[1:2], many).tolist() == [False]


def test_few_nan_among_many():
    many = torch.cat([torch.arange(100.0), torch.tensor([NAN])])
    assert torch.isin(torch.tensor([NAN, NAN]), many).tolist() == [False, False]
    assert torch.isin(torch.tensor([NAN, -0.0, 100.0]), many).tolist() == [False, True, False]
