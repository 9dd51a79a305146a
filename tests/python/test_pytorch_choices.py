"""Answers that mathematics leaves open or that rounding decides, and that are PyTorch's all the same. The expected
numbers were printed by PyTorch 2.15 on the CPU."""

import pytest
import taper as torch
import taper.nn.functional as F

ORDERED = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ORDERED += [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def many_equal(n):
    return torch.tensor([(i * 7 + 3) % 5 for i in range(n)])


def test_topk_chooses_among_equals_as_pytorch():
    assert many_equal(40).topk(7)[1].tolist() == [23, 18, 8, 33, 3, 28, 38]
    assert many_equal(40).topk(7, largest=False)[1].tolist() == [1, 16, 11, 21, 26, 6, 31]
    # few of many take another selection
    assert many_equal(200).float().topk(3)[1].tolist() == [13, 8, 3]
    assert many_equal(200).topk(9, largest=False)[1].tolist() == [131, 111, 116, 41, 121, 126, 36, 141, 26]


def test_kthvalue_chooses_among_equals_as_pytorch():
    assert [int(many_equal(40).kthvalue(k)[1]) for k in (1, 9, 20, 33)] == [1, 34, 2, 18]


@pytest.mark.parametrize("dtype", ORDERED, ids=str)
def test_choices_among_equals_are_those_of_every_dtype(dtype):
    def places(n, k, largest):
        at = many_equal(n).to(dtype).topk(k, largest=largest)[1]
        return int((at * torch.arange(1, k + 1)).sum() % 99991)

    rows = {
        (700, 10): (1620, 1375),
        (700, 20): (71520, 62420),
        (700, 40): (78428, 63558),
        (700, 300): (37697, 39578),
        (70000, 1000): (39991, 59771),
        (70000, 2000): (74506, 24849),
    }
    assert {(n, k): (places(n, k, True), places(n, k, False)) for n, k in rows} == rows
    kth = {(10, 4): 9, (23, 9): 14, (24, 9): 4, (700, 50): 286, (70000, 30000): 36062}
    assert {(n, k): int(many_equal(n).to(dtype).kthvalue(k)[1]) for n, k in kth} == kth


def test_weights_of_interpolation_are_rounded_to_16_bits():
    x = torch.arange(7).reshape(1, 1, 7).bfloat16() * 1.7
    assert F.interpolate(x, size=5, mode="linear").flatten().tolist() == [0.341796875, 2.734375, 5.09375, 7.5, 9.875]
    cubic = F.interpolate(x.reshape(1, 1, 1, 7), size=(1, 5), mode="bicubic")
    assert cubic.flatten().tolist() == [0.259765625, 2.6875, 5.09375, 7.53125, 9.9375]


def test_logcumsumexp_does_not_wrap_the_imaginary_part():
    x = torch.tensor([1 + 4j, 0.5 - 3.5j, 2 + 0.1j], dtype=torch.complex128)
    expected = [1 + 4j, 1.2906521099201487 + 3.560564250667202j, 1.4107347747599512 - 0.18182234651739468j]
    assert torch.allclose(torch.logcumsumexp(x, 0), torch.tensor(expected, dtype=torch.complex128))


def test_embedding_bag_rounds_the_weighted_sum_once():
    rows = (torch.arange(20).reshape(10, 2) * 1.3).bfloat16()
    weights = (torch.arange(10).reshape(2, 5) * 0.37).bfloat16()
    bags = F.embedding_bag(torch.arange(10).reshape(2, 5), rows, mode="sum", per_sample_weights=weights)
    assert bags.tolist() == [[28.75, 33.5], [245.0, 262.0]]


def test_a_truncated_quotient_of_16_bit_numbers_is_that_of_the_rounded_quotient():
    a, b = torch.tensor([-3.890625, 7.0]).bfloat16(), torch.tensor([-0.216796875, 2.0]).bfloat16()
    assert torch.div(a, b, rounding_mode="trunc").tolist() == [18.0, 3.0]
    assert torch.div(a.float(), b.float(), rounding_mode="trunc").tolist() == [17.0, 3.0]


def test_addbmm_of_16_bit_numbers_is_rounded_after_each_product():
    a = (torch.arange(60).reshape(10, 2, 3) % 7 * 0.37).bfloat16()
    b = (torch.arange(90).reshape(10, 3, 3) % 5 * 0.61).bfloat16()
    ones = torch.ones(2, 3).bfloat16()
    assert torch.addbmm(ones, a, b).tolist() == [[41.25, 39.0, 39.75], [39.25, 41.5, 39.25]]
    assert torch.addbmm(ones.float(), a.float(), b.float()).bfloat16()[0, 1] == 38.75
