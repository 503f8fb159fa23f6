"""Complex functions next to poles, zeros and branch points and far out: value and slope keep 13 digits of |value|, in each mode and replayed.

References are closed forms that lose nothing: ``1 - z`` of a number near 1 is exact.
"""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

import tapegrad as tg

TURNS = np.exp(1j * np.array([0.0, 0.3, 0.25 * np.pi, 0.5 * np.pi, 2.0, 0.75 * np.pi, np.pi, -0.5 * np.pi, -2.0]))
NEAR = np.ravel(10.0 ** -np.arange(1.0, 13.0)[:, None] * TURNS)
SMALL = np.ravel(10.0 ** -np.array([1.0, 3.0, 8.0, 12.0, 20.0, 60.0, 150.0, 200.0])[:, None] * TURNS)
FAR = np.ravel(10.0 ** np.array([1.0, 2.0, 8.0, 20.0, 60.0, 150.0, 200.0])[:, None] * TURNS)
LEFT = np.array([-3.0 + 1.0j, -20.0 + 2.0j, -100.0 + 0.5j, -700.0 + 1.0j])


def series(z):
    """sin(pi z) / (pi z), its slope and its second derivative."""
    u, terms = np.pi * np.pi * z * z, range(14)
    c = [(-1.0) ** k / math.factorial(2 * k + 1) for k in terms]
    slope = sum(2 * k * c[k] * u ** (k - 1) for k in terms[1:]) * (np.pi * np.pi * z)
    curve = sum(2 * k * (2 * k - 1) * c[k] * u ** (k - 1) for k in terms[1:]) * np.pi**2
    return sum(c[k] * u**k for k in terms), slope, curve


def sum_of_logs(z):
    """log(1 + z) near 0, where NumPy has no digit of it."""
    return np.where(np.abs(z) < 2e-3, sum((-1) ** (k + 1) * z**k / k for k in range(8, 0, -1)), np.log1p(z))


def quotients(z, *roots):
    """1 / ((z - a) (z - b) ...), nothing of it too large."""
    result = np.ones_like(z)
    for root in roots:
        result = result / (z - root)
    return result


#: Function, points, value, slope and second derivative.
CASES = {
    "arctanh at 1": (np.arctanh, 1 + NEAR, np.arctanh, lambda z: -quotients(z, 1, -1), lambda z: 2 * z * quotients(z, 1, 1, -1, -1)),
    "arctanh at -1": (np.arctanh, -1 + NEAR, np.arctanh, lambda z: -quotients(z, 1, -1), lambda z: 2 * z * quotients(z, 1, 1, -1, -1)),
    "arctanh far": (np.arctanh, FAR, np.arctanh, lambda z: -quotients(z, 1, -1), None),
    "arctanh at 0": (np.arctanh, SMALL, np.arctanh, lambda z: -quotients(z, 1, -1), None),
    "arctan at i": (np.arctan, 1j + NEAR, np.arctan, lambda z: quotients(z, 1j, -1j), lambda z: -2 * z * quotients(z, 1j, 1j, -1j, -1j)),
    "arctan at -i": (np.arctan, -1j + NEAR, np.arctan, lambda z: quotients(z, 1j, -1j), lambda z: -2 * z * quotients(z, 1j, 1j, -1j, -1j)),
    "arctan far": (np.arctan, FAR, np.arctan, lambda z: quotients(z, 1j, -1j), None),
    "log1p at -1": (np.log1p, -1 + NEAR, np.log1p, lambda z: quotients(z, -1), lambda z: -quotients(z, -1, -1)),
    "log1p at 0": (np.log1p, SMALL, sum_of_logs, lambda z: quotients(z, -1), lambda z: -quotients(z, -1, -1)),
    "log1p far": (np.log1p, FAR, np.log1p, lambda z: quotients(z, -1), None),
    "log at 1": (np.log, 1 + NEAR, np.log, lambda z: quotients(z, 0), lambda z: -quotients(z, 0, 0)),
    "log10 at 1": (np.log10, 1 + NEAR, np.log10, lambda z: quotients(z, 0) / math.log(10), None),
    "log2 at 1": (np.log2, 1 + NEAR, np.log2, lambda z: quotients(z, 0) / math.log(2), None),
    "log at 0": (np.log, SMALL, np.log, lambda z: quotients(z, 0), None),
    "tan at pi/2": (np.tan, np.pi / 2 + NEAR, np.tan, lambda z: np.cos(z) ** -2.0, lambda z: 2 * np.sin(z) / np.cos(z) ** 3),
    "tanh at i pi/2": (np.tanh, 1j * (np.pi / 2 + NEAR), np.tanh, lambda z: np.cosh(z) ** -2.0, lambda z: -2 * np.sinh(z) / np.cosh(z) ** 3),
    "tanh far": (np.tanh, LEFT[:2], np.tanh, lambda z: np.cosh(z) ** -2.0, lambda z: -2 * np.sinh(z) / np.cosh(z) ** 3),
    "expm1 at 0": (np.expm1, SMALL, np.expm1, np.exp, np.exp),
    "expm1 left": (np.expm1, LEFT, np.expm1, np.exp, np.exp),
    "sinc at 0": (np.sinc, SMALL, lambda z: series(z)[0], lambda z: series(z)[1], lambda z: series(z)[2]),
}


def close(found, expected, tolerance=1e-13):
    with np.errstate(all="ignore"):
        lost = np.abs(found - expected) / np.abs(expected)
    finite = np.isfinite(expected) & (np.abs(expected) > 1e-290)
    assert finite.any() and not np.any(lost[finite] > tolerance) and np.all(np.isfinite(found[finite])), (found, expected)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_lost(name):
    f, z, value, slope, curve = CASES[name]
    one = np.ones(z.shape, complex)
    with np.errstate(all="ignore"):
        expected, slopes = value(z), slope(z)
        first, along_one = tg.jvp(f, (z,), (one,))
        close(first, expected)
        close(along_one, slopes)
        close(tg.jvp(f, (z,), (1j * one,))[1], 1j * slopes)
        for part, turn in ((np.real, 1.0), (np.imag, 1j)):
            gradient = tg.grad(lambda z, part=part: np.sum(part(f(z))))
            close(turn * np.conj(gradient(z)), slopes)
            replayed = tg.jit(gradient)
            replayed(np.full(z.shape, 0.3 + 0.4j))
            close(turn * np.conj(replayed(z)), slopes)
        both = tg.jit(lambda z: tg.jvp(f, (z,), (one,)))
        both(np.full(z.shape, 3.0 - 0.4j))
        for found, wanted in zip(both(z), (expected, slopes)):
            close(found, wanted)
        if curve is not None:
            close(tg.jvp(lambda z: tg.jvp(f, (z,), (one,))[1], (z,), (one,))[1], curve(z), 1e-12)
        leaf = tg.tensor(z[0], requires_grad=True)
        f(leaf).imag.backward()
        close(np.array([1j * np.conj(leaf.grad.item())]), slopes[:1])


def test_values_with_forty_digits():
    with localcontext() as context:
        context.prec = 40
        for k in (1, 4, 8, 10, 12):
            x = 1.0 + 10.0**-k
            pole = (((1 + Decimal(x)) / (Decimal(x) - 1)).ln() / 2, (Decimal(x) ** 2).ln() / 2)
            with np.errstate(all="ignore"):
                found = [np.real(tg.jvp(f, (x + 0j,), (1 + 0j,))[0]) for f in (np.arctanh, np.log)]
            np.testing.assert_allclose(found, np.array(pole, float), rtol=2e-14)


def test_the_sides_of_branch_cuts_are_numpys():
    steps = [-2.5, -2.0, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.0, 2.5]
    cuts = np.array([complex(a, b) for x in steps for y in (0.0, -0.0) for a, b in ((x, y), (y, x))])
    functions = [np.sqrt, np.log1p, np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh, np.tanh, np.expm1, np.angle]
    functions += [lambda z: np.sqrt(1.0 - z), lambda z: np.arctan(2.0 - z), lambda z: np.sqrt(np.reciprocal(z - 0.25))]
    for f in functions:
        replayed = tg.jit(lambda z, f=f: f(z))
        with np.errstate(all="ignore"):
            replayed(cuts[::-1].copy())
            for found in (tg.jvp(f, (cuts,), (cuts,))[0], replayed(cuts), np.array([f(tg.tensor(z)) for z in cuts], object).astype(complex)):
                np.testing.assert_allclose(found, f(cuts), rtol=1e-13, atol=1e-15)


SIZES = {
    "std": np.std, "std, ddof": lambda z: np.std(z, ddof=1), "std of columns": lambda z: np.sum(np.std(z[:, None] * [1.0, 2j], axis=0, keepdims=True)),
    "std where": lambda z: np.std(z, where=np.array([True, True, False, True])), "method": lambda z: z.std(), "var": np.var,
    "norm": np.linalg.norm, "norm, 2": lambda z: np.linalg.norm(z, 2), "fro": lambda z: np.linalg.norm(np.reshape(z, (2, 2)), "fro", keepdims=True)[0, 0],
    "of rows": lambda z: np.sum(np.linalg.norm(np.reshape(z, (2, 2)), axis=1)), "of both axes": lambda z: np.linalg.norm(np.reshape(z, (2, 2)), axis=(0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_equal_and_zero_numbers_at_second_order(name):
    f = SIZES[name]
    of_parts = lambda u: f(u[:4] + 1j * u[4:])
    slopes = tg.jit(tg.hessian(of_parts))
    slopes(np.arange(8.0) ** 1.5 + 1.0)
    for u in (np.array([1.0, 2.0, 3.0, 5.0] + [2.0] * 4), np.array([0.0, 1.0, 0.5, -1.0, 0.0, 1.0, 2.0, 3.0])):
        steps = 1e-4 * np.eye(8)
        by_differences = [[(of_parts(u + a + b) - of_parts(u + a - b) - of_parts(u - a + b) + of_parts(u - a - b)) / 4e-8 for a in steps] for b in steps]
        for found in (tg.hessian(of_parts)(u), tg.jacfwd(tg.jacfwd(of_parts))(u), tg.jacrev(tg.jacfwd(of_parts))(u), slopes(u)):
            np.testing.assert_allclose(found, by_differences, atol=2e-6)
    equal = np.array([1.0] * 4 + [2.0] * 4) * (not name.startswith(("norm", "fro", "of ")))
    if name not in ("var", "std where"):
        for found in (tg.grad(of_parts)(equal), tg.hessian(of_parts)(equal), tg.jacfwd(tg.jacfwd(of_parts))(equal), slopes(equal)):
            np.testing.assert_array_equal(found, 0.0 * found)
