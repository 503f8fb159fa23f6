"""The dtype of float32 tensors beside every kind of number is NumPy's."""

import enum

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.scipy import linalg, signal
from tests.every import every
from tests.rules.checker import leaf

X = np.array([0.5, 1.5, 2.5], "f")
NUMBERS = {
    "float": 0.5, "int": 2, "bool": True, "float64": np.float64(0.5), "float32": np.float32(0.5), "float16": np.float16(0.5), "int64": np.int64(2),
    "int8": np.int8(2), "member": enum.IntEnum("Two", [("TWO", 2)]).TWO, "derived": type("Derived", (float,), {})(0.5), "0-d": np.array(0.5), "0-d single": np.array(0.5, "f"), "vector": np.array([0.5, 0.6, 0.7]),
}  # fmt: skip
FUNCTIONS = {
    **{
        name: getattr(np, name)
        for name in (
            "add subtract multiply divide power maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 copysign heaviside remainder "
            "fmod floor_divide float_power divmod outer dot inner kron append convolve gradient linspace quantile percentile"
        ).split()
    },
    "where": lambda x, n: np.where([True, False, True], x, n), "clip below": lambda x, n: np.clip(x, n, None), "clip above": lambda x, n: np.clip(x, 0.0, n),
    "hstack": lambda x, n: np.hstack([x, n]), "select": lambda x, n: np.select([X > 1], [x], n), "trapezoid": lambda x, n: np.trapezoid(x, dx=n),
    "sum": lambda x, n: np.sum(x, initial=np.ravel(n)[0]), "max": lambda x, n: np.max(x, initial=np.ravel(n)[0]), "prod": lambda x, n: np.prod(x, initial=np.ravel(n)[0]),
    "diff": lambda x, n: np.diff(x, prepend=n), "insert": lambda x, n: np.insert(x, 1, n), "full_like": lambda x, n: np.full_like(x, np.ravel(n)[0]),
    "average": lambda x, n: np.average(x, weights=x * 0 + n), "vander": lambda x, n: np.vander(x) * n, "power operator": lambda x, n: x**n,
}  # fmt: skip
#: Not defined for arrays in this place.
SCALAR_ONLY = {"trapezoid"}
#: Before, NumPy's operator gave float32 for float32 to a float64 number such as 0.5 or 2, and its ufunc float64.
OLD = np.lib.NumpyVersion(np.__version__) < "2.3.0"


def dtypes(result):
    return [dtypes(r) for r in result] if isinstance(result, (tuple, list)) else result.dtype


@pytest.mark.filterwarnings("ignore")
@every("number", NUMBERS)
@every("name", FUNCTIONS)
def test_beside_a_number(name, number):
    function, n = FUNCTIONS[name], NUMBERS[number]
    if name in SCALAR_ONLY and np.ndim(n) or name == "power operator" and OLD:
        return
    pairs = [lambda x: function(x, n)]
    if isinstance(function, np.ufunc):
        pairs.append(lambda x: function(n, x))
    for call in pairs:
        try:
            expected = call(X)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                call(leaf(X))
            continue
        assert dtypes(call(leaf(X))) == dtypes(expected)


@pytest.mark.parametrize("number", [0.1, np.float64(0.1), np.float32(0.1), np.array(0.1)], ids=repr)
@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"])
def test_comparisons_are_of_the_dtype_of_numpy(name, number):
    function, x = getattr(np, name), np.array([0.1, 0.2], "f")
    for call in (lambda x: function(number, x), lambda x: function(x, number)):
        for found in (call(leaf(x)), tg.jit(call)(x)):
            np.testing.assert_array_equal(found, call(x))


@pytest.mark.parametrize("name", ["add", "multiply", "power", "maximum", "hypot", "where", "clip below", "dot", "linspace"])
def test_tracked_floats_are_weak(name):
    for t in (leaf(0.5), leaf(np.float64(0.5)), leaf(X)[0] * 0.0 + leaf(0.5)):
        found = FUNCTIONS[name](leaf(X), t)
        assert found.dtype == np.float32
        found.sum().backward()
        assert t.dtype in (np.float64, np.float32) and isinstance(t, tg.Tensor)


Z = np.array([0.5 + 0.2j, -0.3 + 1.0j, 1.5 - 0.4j], "F")
A = np.array([[2.0, 1j, 0.5], [0.1, 3.0, 1.0], [-1j, 0.2, 2.5]], "F")
OF_COMPLEX = {
    "a complex128 number": lambda z: z * np.complex128(1j), "real beside it": lambda z: z.real + np.complex128(1j), "an array of no axes": lambda z: z * np.array(1j),
    "a Python number": lambda z: z * 1j, "complex64": lambda z: z.real * np.complex64(1j), "zero": lambda z: z.real * 0j, "sinc": np.sinc,
    "prod of nothing": lambda z: np.prod(z[:0]), "minimum": lambda z: np.minimum(z, 0.3), "maximum": lambda z: np.maximum(z, Z.astype("D")), "power": lambda z: z**z,
    "number to the power": lambda z: 2.0**z, "real to a complex power": lambda z: np.abs(z) ** (1.3 - 0.4j), "to the zeroth": lambda z: z**0, "float_power": lambda z: np.float_power(z, 2.5),
    "polyval": lambda z: np.polyval(z, z), "polyval of a list": lambda z: np.polyval([1.0, 2.0], z), "polyval of wide ones": lambda z: np.polyval(Z.astype("D"), z),
    "singular values": lambda z: np.linalg.svdvals(z * A), "svd": lambda z: np.linalg.svd(z * A, full_matrices=False)[0], "norm": lambda z: np.linalg.norm(z * A, "nuc"),
    "zeroth power of a matrix": lambda z: np.linalg.matrix_power(z * A, 0), "triangular": lambda z: linalg.solve_triangular(z * A, z), "hilbert": lambda z: signal.hilbert(z.real),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_of_complex_arrays(name):
    function = OF_COMPLEX[name]
    expected, jitted = function(Z), tg.jit(function, kernel="never")
    for found in (function(tg.tensor(Z)), function(leaf(Z)).detach(), tg.jvp(function, (Z,), (Z,))[0], jitted(Z), jitted(Z + 0.5), jitted(Z)):
        assert found.dtype == np.asarray(expected).dtype
    if name != "svd":
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)
    assert tg.grad(lambda z: np.sum(np.abs(function(z)) ** 2))(Z).dtype == Z.dtype
