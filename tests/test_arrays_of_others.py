"""Arrays that compiled loops cannot read as they are: of other machines' bytes, and fields of packed records."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.dtypes import readable
from tapegrad.errors import DtypeError

POINTS = [np.array([0.5, 1.5, -2.0, 3.0]) * (1.0 + 0.1 * k) for k in range(4)]
NUMBERS = np.array([1.0, 2.0, -1.0, 4.0])


def packed(values):
    """The values as a field of records of 9 bytes."""
    table = np.zeros(len(values), [("flag", "i1"), ("value", "f8")])
    table["value"] = values
    return table["value"]


STRANGE = {"big-endian": lambda a: a.astype(">f8"), "big-endian float32": lambda a: a.astype(">f4"), "packed": packed,
           "little-endian": lambda a: a.astype("<f8")}  # fmt: skip


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_constants(make):
    """In operators, products, maxima, assignments, products of matrices and as an index of what is chosen."""
    numbers = make(NUMBERS)

    def f(x):
        y = x * 1.0
        y[:2] = numbers[:2] * x[:2]
        product = numbers @ x + np.sum(np.maximum(numbers, x) * x) + np.sum(np.linalg.solve(np.diag(numbers), x))
        return product + np.sum(y * numbers) + np.sum(np.where(numbers > 1.0, x**2, numbers))

    larger = lambda x: np.where(NUMBERS > x, NUMBERS, 2.0 * x)  # noqa: E731
    for kernel in ("never", "always"):
        g = tg.value_and_grad(f, kernel=kernel)
        for x in POINTS:
            wanted = NUMBERS + larger(x) + 1.0 / NUMBERS + np.where(np.arange(4) < 2, NUMBERS**2, NUMBERS) + np.where(NUMBERS > 1.0, 2.0 * x, 0.0)
            value, gradient = g(x)
            np.testing.assert_allclose(value, f(x), rtol=1e-13)
            np.testing.assert_allclose(gradient, wanted, rtol=1e-13)
            np.testing.assert_allclose(tg.jvp(f, (x,), (NUMBERS,))[1], wanted @ NUMBERS, rtol=1e-13)


@pytest.mark.parametrize("make", STRANGE.values(), ids=STRANGE)
def test_arguments(make):
    f, x = lambda x: np.sum(x**3), make(NUMBERS)
    plain = np.array(NUMBERS, x.dtype.newbyteorder("="))
    tensor = tg.tensor(x, requires_grad=True)
    f(tensor).backward()
    found = [
        tensor.grad.numpy(), tg.grad(f)(x), tg.grad(f, kernel="always")(x), np.diag(tg.hessian(f)(x)) * NUMBERS / 2.0,
        tg.jacobian(lambda x: x**3)(x).sum(0), tg.jacfwd(f)(x), tg.vjp(f, x)[1](1.0)[0], tg.hvp(f)(x, plain) / 2.0,
    ]  # fmt: skip
    for gradient in found:
        np.testing.assert_allclose(gradient, 3.0 * NUMBERS**2)
        assert gradient.dtype.isnative
    replayed = tg.value_and_grad(f)
    for argument in (plain, x, plain, x, plain, x):
        np.testing.assert_allclose(replayed(argument)[1], 3.0 * NUMBERS**2)
    assert tg.jit(f)(x) == f(NUMBERS)
    np.testing.assert_allclose(tg.jvp(f, (x,), (x,))[1], 3.0 * np.sum(NUMBERS**3))
    np.testing.assert_allclose(tg.optimize.lbfgs(lambda p: np.sum((p - x) ** 2), np.zeros(4)).x, NUMBERS, rtol=1e-7)


def test_integers_and_truth_values():
    counts = np.array([1, 0, 2, 3], ">i8")
    g = tg.grad(lambda x: np.sum(counts * x) + np.sum(x[counts]))
    for x in POINTS:
        np.testing.assert_array_equal(g(x), [2.0, 1.0, 3.0, 4.0])


def test_what_can_be_read_is_not_copied():
    assert readable(NUMBERS) is NUMBERS and readable(NUMBERS[::2]).base is NUMBERS


def test_a_file_in_memory_is_an_array_and_other_subclasses_are_refused_by_name(tmp_path):
    held = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=4)
    held[:] = NUMBERS
    g = tg.grad(lambda x: np.sum(x**2))
    for _ in range(3):
        np.testing.assert_array_equal(g(held), 2.0 * NUMBERS)
    with pytest.raises(DtypeError, match=r"class MaskedArray .* np\.asarray"):
        g(np.ma.array(NUMBERS, mask=NUMBERS < 0.0))
