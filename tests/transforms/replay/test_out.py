"""Derivatives written to memory of the caller's: by the short way, by kernels and sweeps the long way, and what does not fit."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import DtypeError, HigherOrderError, OptionError, ShapeError


def chain(x):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(np.sin(x))


def dense(x):
    return np.prod(x) + np.sum(x**3)


CASES = {
    "jacobian": (tg.jacobian, lambda x: np.sin(x) * x[::-1], 5),
    "large jacobian": (tg.jacobian, lambda x: x[1:] * x[:-1], 90),
    "dense hessian": (tg.hessian, dense, 4),
    "large hessian": (tg.hessian, chain, 90),
    "diagonal": (tg.hessian_diag, chain, 7),
    "sparse jacobian": (tg.sparse_jacobian, lambda x: x[1:] * x[:-1], 20),
    "sparse hessian": (tg.sparse_hessian, chain, 20),
    "float32": (tg.jacobian, lambda x: np.sin(x) * x[::-1], np.float32),
}


def values(answer):
    return answer.data if hasattr(answer, "indptr") else answer


@pytest.mark.parametrize("kernel", [None, "never", "plainly"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_what_is_returned(name, kernel):
    make, f, n = CASES[name]
    dtype, n = (n, 5) if n is np.float32 else (np.float64, n)
    g = make(f) if kernel == "plainly" else tg.jit(make(f), kernel=kernel)
    expected = make(f)
    for k in range(4):
        x = np.linspace(0.5, 1.5 + k, n, dtype=dtype)
        answer = values(expected(x))
        out = np.full(answer.shape, np.nan, answer.dtype)
        assert g(x, out=out) is out
        # Also what is zero; the next call may be the first one by a kernel.
        for other in (answer, values(g(x))):
            np.testing.assert_allclose(out, other, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-14)
    if kernel is None:
        # The short way: no call went the long way but those before there was a kernel.
        assert g.stats().kernel_calls >= 6 and g.stats().records == 1


def test_a_number_goes_into_an_array_without_axes():
    out = np.empty(())
    assert tg.jit(tg.jacobian(lambda x: x**3))(2.0, out=out) is out and out == 12.0
    assert tg.laplacian(chain)(np.ones(3), out=out) == tg.laplacian(chain)(np.ones(3))


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("make", [tg.hessian, tg.sparse_hessian])
def test_what_does_not_fit(make, jit):
    g = tg.jit(make(chain)) if jit else make(chain)
    x = np.linspace(0.5, 1.5, 90)
    shape = values(g(x)).shape
    g(x)
    read_only = np.zeros(shape)
    read_only.flags.writeable = False
    for out, error, message in (
        (np.zeros(3), ShapeError, r"out has the shape \(3,\)"), (np.zeros(shape, "f"), DtypeError, "out is an array of float32"),
        ([0.0], OptionError, "out is of type list"), (read_only, OptionError, "out must be writable and C-contiguous"),
        (np.zeros((*shape, 2))[..., 0], OptionError, "out must be writable and C-contiguous"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            g(x, out=out)
    out = np.zeros(shape)
    with pytest.raises(HigherOrderError, match="call without it|cannot carry a derivative"):
        tg.grad(lambda x: np.sum(x) + np.sum(g(x, out=out)))(x)


@pytest.mark.parametrize("jit", [True, False])
def test_several_arrays_have_no_place_in_one(jit):
    for g in (tg.jacobian(lambda x: (x, x * 2.0)), tg.jacobian(lambda x, y: x * y, (0, 1))):
        g = tg.jit(g) if jit else g
        for _ in range(3):
            with pytest.raises(OptionError, match="out takes one array, but there are several"):
                g(np.ones(2), *[np.ones(2)] * (len(g._argnums) - 1), out=np.zeros((2, 2)))


def test_a_guard_writes_nothing_before_it_is_right():
    g = tg.jit(tg.jacobian(lambda x: x * x if x[0] > 0.0 else -x))
    out = np.zeros((2, 2))
    for sign in (1.0, 1.0, -1.0, 1.0, -1.0):
        g(sign * np.ones(2), out=out)
        np.testing.assert_array_equal(out, np.eye(2) * (2.0 if sign > 0.0 else -1.0))
