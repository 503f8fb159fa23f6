"""What NumPy and SciPy do not compute of arrays of objects that hold numbers on the tape: refused, each time with what to write."""

import math

import numpy as np
import pytest
import scipy.special

import tapegrad as tg
import tapegrad.scipy.integrate
from tapegrad.errors import DtypeError, LeaveTapeError, StructureError
from tests.every import every
from tests.numpy_api.object_arrays import P, V, leaf, numbers, slopes


def test_asarray_of_a_number_holds_that_number():
    x = leaf(0.3)
    held = np.asarray(x)
    assert held.shape == () and held.dtype == object and held[()] is x
    for result in (np.sum(held), np.sin(held), held * 2.0, 1.0 + held, leaf(1.0) * held, np.full(3, x) @ np.ones(3)):
        assert result.requires_grad


@pytest.mark.parametrize("make", [np.asarray, np.array, lambda t: np.array([t, t]), lambda t: np.array([t, [1.0, 2.0]]), np.atleast_1d(1.0).__add__], ids=["asarray", "array", "two", "one and a list", "operand"])
def test_an_array_of_vectors_is_right_or_raises(make):
    for t in (leaf(V), tg.Dual(V, V)):
        try:
            found = make(t)
        except LeaveTapeError as error:
            assert "tg.array" in str(error) or "write .detach()" in str(error) or isinstance(t, tg.Dual)
        else:
            assert isinstance(found, (tg.Tensor, tg.Dual)) and found.shape == (2,)


def _stored(a, t):
    a[0] = t


#: Before, they were compiled: no frame says which function of SciPy's it was.
ROTATIONS_IN_PYTHON = np.lib.NumpyVersion(scipy.__version__) >= "1.17.0"
HELP = {
    "a = tg.zeros(shape)": lambda x: _stored(np.zeros(3), x),
    "np.sin(t)": lambda x: math.sin(x),
    "np.hypot(t)": lambda x: math.hypot(x, 1.0),
    "tg.array([t, ...])": lambda x: np.array([x, x], dtype=float),
    "np.mean(tg.array(a))": lambda x: np.mean(np.array([x, x])),
    "np.std(tg.array(a))": lambda x: np.std(np.array([x, x])),
    "np.floor(tg.array(a))": lambda x: np.floor(np.array([x, x])),
    "write from_rotvec" if ROTATIONS_IN_PYTHON else "are in tapegrad.scipy": lambda x: rotation_of_scipy(np.array([x, 0.0, 0.0])),
}


def rotation_of_scipy(vector):
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec(vector)


@pytest.mark.parametrize("line", HELP)
def test_our_error_has_the_line_to_write(line):
    for x in (leaf(0.3), tg.Dual(0.3, 1.0)):
        with pytest.raises((LeaveTapeError, ValueError)) as caught:
            HELP[line](x)
        error = caught.value if isinstance(caught.value, LeaveTapeError) else caught.value.__cause__
        assert isinstance(error, LeaveTapeError) and line in str(error), str(error)


def test_rotation_of_a_number_is_our_error():
    from scipy.spatial.transform import Rotation

    with pytest.raises((LeaveTapeError, ValueError)) as caught:
        Rotation.from_euler("z", leaf(0.3))
    error = caught.value if ROTATIONS_IN_PYTHON else caught.value.__cause__
    assert isinstance(error, LeaveTapeError) and ("write from_euler" in str(error) or not ROTATIONS_IN_PYTHON)


#: What docs/limits.md says that NumPy does not compute.
REFUSED_BY_NUMPY = {
    "mean": np.mean, "average": np.average, "var": np.var, "std": np.std, "median": np.median,
    "gradient": np.gradient, "interp": lambda m: np.interp(m[0], V[::-1], V), "sin": np.sin, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "copysign": lambda m: np.copysign(m, -1.0), "heaviside": lambda m: np.heaviside(m, 0.5), "ldexp": lambda m: np.ldexp(m, 2),
    "logaddexp": lambda m: np.logaddexp(m, m), "logaddexp2": lambda m: np.logaddexp2(m, m), "float_power": lambda m: np.float_power(m, 2.0),
    "divmod": lambda m: np.divmod(m, 0.4), "modf": np.modf, "frexp": np.frexp, "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf,
    "signbit": np.signbit, "isclose": lambda m: np.isclose(m, m), "allclose": lambda m: np.allclose(m, m), "inv": np.linalg.inv,
    "det": np.linalg.det, "solve": lambda m: np.linalg.solve(m, V), "eigh": np.linalg.eigh, "svd": np.linalg.svd,
    "lstsq": lambda m: np.linalg.lstsq(m, V)[0], "eigvalsh": np.linalg.eigvalsh, "qr": np.linalg.qr, "cholesky": lambda m: np.linalg.cholesky(m.T @ m),
}  # fmt: skip


@every("name", REFUSED_BY_NUMPY)
def test_what_numpy_refuses_works_through_array(name):
    function, x = REFUSED_BY_NUMPY[name], leaf(P)
    objects = np.array([[x[0], 1.0], [1.0, x[1]]])
    with pytest.raises((TypeError, ValueError, LeaveTapeError)):
        function(objects)
    for found, expected in zip(*(numbers(function(m)) for m in (tg.array(objects), np.array([[P[0], 1.0], [1.0, P[1]]]))), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


#: What docs/limits.md says that NumPy computes by adding, multiplying and comparing.
BY_NUMPY = {
    "quantile": lambda m: np.quantile(m, 0.3), "norm": np.linalg.norm, "trace": np.trace, "cross": lambda m: np.cross(m[0], P), "kron": lambda m: np.kron(m, m), "cumsum": np.cumsum,
    "sort": lambda m: np.sort(m, None), "max": np.max, "clip": lambda m: np.clip(m, -0.5, 1.1), "diff": np.diff, "power": lambda m: np.linalg.matrix_power(m, 3),
    "tensordot": lambda m: np.tensordot(m, m), "convolve": lambda m: np.convolve(m[0], m[1]), "where": lambda m: np.where(m > 0, m * m, m),
    "mean of rows": lambda m: np.mean(m, 0), "norm of rows": lambda m: np.linalg.norm(m, axis=1), "prod": lambda m: np.prod(m, 1), "ptp": np.ptp,
    "cumprod": np.cumprod, "tril": np.tril, "roll": lambda m: np.roll(m, 1), "linspace": lambda m: np.linspace(m[0], P, 4), "minimum": lambda m: np.minimum(m, m.T),
    "transposed": lambda m: m.T.reshape(-1)[::2], "vectorize": lambda m: np.vectorize(lambda e: e * e, otypes=[object])(m), "polyval": lambda m: np.polyval(m[1], 0.7),
}  # fmt: skip


if np.lib.NumpyVersion(np.__version__) < "2.3.0":
    del BY_NUMPY["cross"]  # NumPy multiplies into an array of floats there


@every("name", BY_NUMPY)
def test_what_numpy_computes_of_objects(name):
    def f(p, array=np.array):
        return np.sum(BY_NUMPY[name](array([[p[0], p[1], 2.0], [p[2] * p[0], 0.25, p[1]], [1.0, p[2], p[0]]])) ** 2)

    if name == "vectorize":
        expected = slopes(lambda p: np.sum(np.array([[p[0], p[1], 2.0], [p[2] * p[0], 0.25, p[1]], [1.0, p[2], p[0]]]) ** 4), P)
    else:
        expected = slopes(f, P)
    for gradient in (tg.grad(f), tg.jacfwd(f), tg.jit(tg.grad(f)), tg.jit(tg.grad(f), kernel="always")):
        np.testing.assert_allclose(gradient(P), expected, rtol=1e-7, atol=1e-8)


def test_results_written_into_objects_where_it_is_wanted():
    def f(p):
        out = np.array([p[0], 1.0, p[1]])
        np.multiply(p, p, out=out, where=[True, False, False])
        np.multiply(p, 3.0, out=out, where=False)
        return np.sum(np.sin(p, out=out, where=np.array([False, False, True])) * [1.0, 2.0, 4.0])

    np.testing.assert_allclose(tg.grad(f)(P), [2.0 * P[0], 0.0, 4.0 * np.cos(P[2])])


def test_the_fourier_transform_takes_no_array_of_objects():
    with pytest.raises(TypeError):
        np.fft.fft(np.array([leaf(0.3), 1.0]))
    np.testing.assert_allclose(np.fft.fft(tg.array([leaf(0.3), 1.0])).detach().numpy(), [1.3, -0.7])


def test_other_objects_are_refused():
    t = leaf(V)
    for other in (np.array([1.0, None]), np.array(["a", 1.0], object), np.array([object(), 2.0])):
        with pytest.raises(DtypeError):
            t * other
        mixed = other.copy()
        mixed[[isinstance(e, float) for e in other].index(True)] = t[0]
        with pytest.raises(DtypeError, match="only numbers can stand beside tensors"):
            t * mixed
        with pytest.raises((StructureError, DtypeError)):
            tg.jacobian(lambda x: other)(V)
    vectors = np.empty(2, object)
    vectors[0], vectors[1] = t, 1.0
    with pytest.raises(LeaveTapeError, match="np.stack"):
        t * vectors
    for make in (tg.tensor, tg.Parameter, lambda a: tg.as_tensor(a, dtype=float)):
        with pytest.raises(LeaveTapeError, match="tg.array"):
            make(np.array([t[0], 1.0]))
    plain = np.zeros(2)
    with pytest.raises(LeaveTapeError):
        plain += t
    with pytest.raises((DtypeError, StructureError)):
        tg.grad(np.sum)(np.array([1, 2], object))


REFUSED = [
    np.exp, np.sqrt, np.log1p, np.tanh, np.rint, np.sinc, np.isnan, np.isfinite, np.std, np.median, np.cov, np.nanmean,
    np.linalg.inv, np.linalg.det, np.linalg.cholesky, np.linalg.eigvalsh, np.fft.fft, scipy.special.expit, scipy.special.gammaln,
    lambda a: np.arctan2(a, 1.0), lambda a: np.hypot(a, a), lambda a: np.logaddexp(a, 0.0), lambda a: np.linalg.solve(a, np.ones(2)), lambda a: np.interp(a, [0, 1], [0, 1]),
    lambda a: a.astype(float), lambda a: a.round(2), lambda a: np.histogram(a), lambda a: np.allclose(a, a), lambda a: np.float64(a[0, 0]),
    lambda a: np.mean([a[0], a[1]]), lambda a: np.zeros((2, 2)).__setitem__(slice(None), a), lambda a: np.floor(a),
]  # fmt: skip


def test_what_numpy_refuses_says_what_to_write():
    x = np.array([1.2, 2.5])
    for function in REFUSED:

        def f(x, function=function):
            return np.sum(function(np.array([[x[0], 0.1], [0.2, x[1]]])))

        for transformation in (tg.grad, tg.hessian, tg.jacfwd, tg.jit, lambda f: tg.jit(tg.grad(f)), lambda f: lambda x: tg.vmap(f)(x[None])):
            with pytest.raises(TypeError, match=r"tg\.array|tg\.zeros\(") as raised:
                transformation(f)(x)
            assert isinstance(raised.value, tg.errors.TapegradError)
    # What is the user's own stays what it is.
    for own, kind in ((lambda x: x[0] + (1.0).mean(), AttributeError), (lambda x: {}[x[0].item()], KeyError), (lambda x: x[0] + "a", TypeError)):
        with pytest.raises(kind) as raised:
            tg.grad(own)(x)
        assert not isinstance(raised.value, tg.errors.TapegradError)
