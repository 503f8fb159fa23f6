"""Printing: fixed lines that PyTorch prints, and random arrays beside PyTorch itself."""

import numpy as np
import pytest

from tapegrad.common.printing import format_number, format_tensor
from tests.every import every

# What ``repr(torch.tensor(value))`` gives with float64 as the default dtype
# (and dtypes spelled without ``torch.``): name, value, keywords, text.
CASES = [
    ("number", 7.0, {}, "tensor(7.)"),
    ("third", 1 / 3, {}, "tensor(0.3333)"),
    ("integer_number", 3, {}, "tensor(3)"),
    ("truth", True, {}, "tensor(True)"),
    ("tiny_number", 1e-5, {}, "tensor(1.0000e-05)"),
    ("large_number", 123456789.0, {}, "tensor(1.2346e+08)"),
    ("minus_zero", -0.0, {}, "tensor(-0.)"),
    ("not_a_number", np.nan, {}, "tensor(nan)"),
    ("loss", 3.7183, {"grad_fn_name": "AddBackward0"}, "tensor(3.7183, grad_fn=<AddBackward0>)"),
    ("leaf", 1.359140914, {"requires_grad": True}, "tensor(1.3591, requires_grad=True)"),
    ("both_named", 2.0, {"grad_fn_name": "MulBackward0", "requires_grad": True},
     "tensor(2., grad_fn=<MulBackward0>)"),
    ("vector", np.array([1.0, 2.5, -3.0]), {}, "tensor([ 1.0000,  2.5000, -3.0000])"),
    ("whole_vector", np.arange(5.0), {}, "tensor([0., 1., 2., 3., 4.])"),
    ("zeros", np.zeros(4), {}, "tensor([0., 0., 0., 0.])"),
    ("matrix", np.array([[1.0, -2.5], [3.0, 40.0]]), {"requires_grad": True}, """\
tensor([[ 1.0000, -2.5000],
        [ 3.0000, 40.0000]], requires_grad=True)"""),
    ("whole_matrix", np.array([[8.0, 4.0], [4.0, 10.0]]), {}, """\
tensor([[ 8.,  4.],
        [ 4., 10.]])"""),
    ("cube", np.arange(12.0).reshape(2, 3, 2) / 4, {}, """\
tensor([[[0.0000, 0.2500],
         [0.5000, 0.7500],
         [1.0000, 1.2500]],

        [[1.5000, 1.7500],
         [2.0000, 2.2500],
         [2.5000, 2.7500]]])"""),
    ("scientific", np.array([1.0, 1e-5, -2e3]), {},
     "tensor([ 1.0000e+00,  1.0000e-05, -2.0000e+03])"),
    ("whole_scientific", np.array([1.0, 10000.0]), {}, "tensor([1.0000e+00, 1.0000e+04])"),
    ("ratio_of_a_thousand", np.array([1.5, 1500.0]), {}, "tensor([   1.5000, 1500.0000])"),
    ("not_finite", np.array([np.nan, 1.5, np.inf, -np.inf]), {},
     "tensor([   nan, 1.5000,    inf,   -inf])"),
    ("whole_not_finite", np.array([np.nan, 1.0, -np.inf, 0.0]), {}, "tensor([nan, 1., -inf, 0.])"),
    ("only_not_finite", np.array([np.nan, np.inf]), {}, "tensor([nan, inf])"),
    ("integers", np.array([[1, -20], [300, 4]]), {}, """\
tensor([[  1, -20],
        [300,   4]])"""),
    ("booleans", np.array([True, False]), {}, "tensor([ True, False])"),
    ("float32", np.array([1.5, 2.0], dtype=np.float32), {},
     "tensor([1.5000, 2.0000], dtype=float32)"),
    ("float32_scalar", np.float32(0.1), {}, "tensor(0.1000, dtype=float32)"),
    ("int32", np.array([1, 2], dtype=np.int32), {}, "tensor([1, 2], dtype=int32)"),
    ("empty", np.array([]), {}, "tensor([])"),
    ("empty_matrix", np.zeros((2, 0)), {}, "tensor([], size=(2, 0))"),
    ("empty_integers", np.zeros(0, dtype=np.int64), {}, "tensor([], dtype=int64)"),
    ("long_row", np.arange(30.0), {}, """\
tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,
        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,
        28., 29.])"""),
    ("long_row_of_fractions", np.linspace(0, 1, 20), {"requires_grad": True}, """\
tensor([0.0000, 0.0526, 0.1053, 0.1579, 0.2105, 0.2632, 0.3158, 0.3684, 0.4211,
        0.4737, 0.5263, 0.5789, 0.6316, 0.6842, 0.7368, 0.7895, 0.8421, 0.8947,
        0.9474, 1.0000], requires_grad=True)"""),
    ("suffix_on_its_own_line", np.linspace(0, 1, 7), {"grad_fn_name": "MulBackward0"}, """\
tensor([0.0000, 0.1667, 0.3333, 0.5000, 0.6667, 0.8333, 1.0000],
       grad_fn=<MulBackward0>)"""),
    ("summarised_vector", np.arange(1001.0), {},
     "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])"),
    ("summarised_fractions", np.arange(2000.0) / 8, {}, """\
tensor([0.0000e+00, 1.2500e-01, 2.5000e-01,  ..., 2.4962e+02, 2.4975e+02,
        2.4988e+02])"""),
    ("not_summarised_axis", np.arange(2002.0).reshape(2, 1001), {}, """\
tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.9800e+02, 9.9900e+02,
         1.0000e+03],
        [1.0010e+03, 1.0020e+03, 1.0030e+03,  ..., 1.9990e+03, 2.0000e+03,
         2.0010e+03]])"""),
    ("summarised_matrix", np.arange(10000.0).reshape(100, 100), {"requires_grad": True}, """\
tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 9.7000e+01, 9.8000e+01,
         9.9000e+01],
        [1.0000e+02, 1.0100e+02, 1.0200e+02,  ..., 1.9700e+02, 1.9800e+02,
         1.9900e+02],
        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 2.9700e+02, 2.9800e+02,
         2.9900e+02],
        ...,
        [9.7000e+03, 9.7010e+03, 9.7020e+03,  ..., 9.7970e+03, 9.7980e+03,
         9.7990e+03],
        [9.8000e+03, 9.8010e+03, 9.8020e+03,  ..., 9.8970e+03, 9.8980e+03,
         9.8990e+03],
        [9.9000e+03, 9.9010e+03, 9.9020e+03,  ..., 9.9970e+03, 9.9980e+03,
         9.9990e+03]], requires_grad=True)"""),
    ("summarised_cube", np.ones((11, 11, 11)), {}, """\
tensor([[[1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         ...,
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.]],

        [[1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         ...,
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.]],

        [[1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         ...,
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.]],

        ...,

        [[1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         ...,
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.]],

        [[1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         ...,
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.]],

        [[1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         ...,
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.],
         [1., 1., 1.,  ..., 1., 1., 1.]]])"""),
]


@every("value, keywords, text", [case[1:] for case in CASES])
def test_prints_as_pytorch_does(value, keywords, text):
    assert format_tensor(value, **keywords) == text


def test_float32_can_be_the_default():
    value = np.array([1.5], dtype=np.float32)
    assert format_tensor(value, default_dtype="float32") == "tensor([1.5000])"
    assert format_tensor(1.5, default_dtype="float32") == "tensor(1.5000, dtype=float64)"


def test_format_number():
    assert format_number(2 / 3, ".3f") == "0.667"
    assert format_number(np.array(2.5), "8.2e") == "2.50e+00"
    assert format_number(np.float32(0.5)) == "0.5"
    assert format_number(np.int64(42), "05d") == "00042"
    assert format_number(np.array([1.0, 2.0])) == "tensor([1., 2.])"


def test_format_number_refuses_an_array_and_says_what_to_do():
    with pytest.raises(TypeError, match=r"shape \(2,\).*t\[0\]:\.3f"):
        format_number(np.array([1.0, 2.0]), ".3f")


SHAPES = [(), (0,), (1,), (3,), (7,), (40,), (1100,), (0, 2), (2, 3), (8, 9), (12, 120), (1001, 1)]
SHAPES += [(2, 3, 4), (7, 1, 8), (9, 12, 11), (2, 2, 2, 2)]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, 1e-4, 1e-5, 1000.0, 1e8, 1e9]


def random_array(rng):
    """An array of random shape, kind and range, with a few special values."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    kind = rng.integers(6)
    if kind == 0:
        return rng.integers(-(10 ** rng.integers(1, 9)), 10**5, size=shape)
    if kind == 1:
        return rng.random(shape) < 0.5
    if kind == 2:
        return np.asarray(rng.choice(SPECIAL, size=shape))
    array = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-6, 9))
    if kind == 3:
        array = np.round(array)
    if kind == 4:
        array = np.where(rng.random(shape) < 0.2, rng.choice(SPECIAL, size=shape), array)
    return np.asarray(array)


@every("seed", range(300))
def test_random_arrays_beside_pytorch(seed):
    torch = pytest.importorskip("torch")
    array = random_array(np.random.default_rng(seed))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        tensor = torch.tensor(array)
        wanted = repr(tensor)
        assert format_tensor(array) == wanted.replace("dtype=torch.", "dtype=")
        if array.dtype == np.float64:
            leaf = tensor.clone().requires_grad_(True)
            assert format_tensor(array, requires_grad=True) == repr(leaf)
            result = leaf * 1.0
            assert format_tensor(array, grad_fn_name="MulBackward0") == repr(result)
    finally:
        torch.set_default_dtype(before)
