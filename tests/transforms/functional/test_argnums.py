"""`argnums` by name, and from the end."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import StructureError
from tests.every import every

X = np.array([1.0, 2.0])


def f(a, b, c=1.0):
    return np.sum(a**2) * b**3 * c


def of_two(a, b):
    return np.sum(a**2) * b**3


TRANSFORMATIONS = {
    "grad": tg.grad, "value_and_grad": tg.value_and_grad, "jacobian": tg.jacobian, "jacrev": tg.jacrev, "jacfwd": tg.jacfwd, "hessian": tg.hessian,
    "hessian_diag": tg.hessian_diag, "laplacian": tg.laplacian, "elementwise_grad": tg.elementwise_grad,
    "sparse_jacobian": lambda *a, **k: lambda *x: tg.sparse_jacobian(*a, **k)(*x).toarray(), "jit": lambda *a, **k: tg.jit(tg.grad(*a, **k)),
}  # fmt: skip


def same(one, other):
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for x, y in zip(one, other):
            same(x, y)
    else:
        np.testing.assert_allclose(one, other, rtol=1e-13)


@every("name", sorted(TRANSFORMATIONS))
def test_names_and_positions_from_the_end_are_positions(name):
    make = TRANSFORMATIONS[name]
    for named, numbers in (("a", 0), ("b", 1), (("b", "a"), (1, 0)), (("a", 1), (0, 1)), (range(2), (0, 1))):
        same(make(f, argnums=named)(X, 3.0), make(f, argnums=numbers)(X, 3.0))
    for last, numbers in ((-1, 1), ((-1, 0), (1, 0)), (("a", -1), (0, 1))):
        same(make(of_two, argnums=last)(X, 3.0), make(of_two, argnums=numbers)(X, 3.0))


def test_what_is_computed_of_one_argument_may_be_written_into_what_is_computed_of_another():
    def mixed(a, b):
        c, d = a * 1.0, b * 1.0
        c[0], d[1] = b[0] * b[1], a[0] * a[1]
        return c * c * d

    def apart(a, b):
        return np.stack([b[0] * b[1], a[1]]) ** 2 * np.stack([b[0], a[0] * a[1]])

    for name in ("jacobian", "jacrev", "jacfwd"):
        same(TRANSFORMATIONS[name](mixed, argnums=(0, 1))(X, X + 2.0), tg.jacobian(apart, argnums=(0, 1))(X, X + 2.0))
    for name in ("grad", "value_and_grad", "hessian", "hessian_diag", "laplacian", "jit"):
        total = (TRANSFORMATIONS[name](lambda a, b, f=f: np.sum(f(a, b)), argnums=(0, 1))(X, X + 2.0) for f in (mixed, apart))
        same(*total)


def test_products():
    for last in ("b", -1):
        assert tg.hvp(of_two, argnums=last)(X, 3.0, 1.0) == tg.hvp(of_two, argnums=1)(X, 3.0, 1.0)


def test_what_is_no_argument_is_named():
    with pytest.raises(StructureError, match=r"argnums='q': f .* has no positional argument of this name; there are a, b, c"):
        tg.grad(f, argnums="q")
    with pytest.raises(StructureError, match=r"argnums=-1: how many arguments f .* takes is not certain"):
        tg.grad(f, argnums=-1)
    with pytest.raises(StructureError, match="argnums=-3"):
        tg.hessian(of_two, argnums=(-3, 0))
    with pytest.raises(StructureError, match="argnums=-1"):
        tg.grad(lambda *args: args[0], argnums=-1)


# ---- None in containers, as in JAX ---------------------------------------------------------------------


def rate(p, q=None):
    return p["a"] ** 2 * (2.0 if p["b"] is None else 3.0) * (1.0 if q is None or q["n"] is None else q["n"])


def test_none_in_a_container_is_part_of_it():
    p = {"a": 1.5, "b": None}
    for change in (lambda f: f, tg.jit):
        assert change(tg.grad(rate))(p) == {"a": 6.0, "b": None}
        assert change(tg.hessian(rate))(p) == {"a": {"a": 4.0, "b": None}, "b": None}
        assert change(tg.hvp(rate))(p, p) == {"a": 6.0, "b": None}
        assert change(tg.grad(lambda p: tg.grad(rate)(p)["a"] ** 2))(p) == {"a": 48.0, "b": None}
    value, back = tg.vjp(rate, p)
    assert (value, back(1.0)) == (4.5, ({"a": 6.0, "b": None},))
    assert tg.jvp(rate, (p,), (p,)) == (4.5, 9.0)
    assert tg.vmap(rate)({"a": np.array([1.0, 2.0]), "b": None}).tolist() == [2.0, 8.0]
    assert tg.tree.leaves(p) == [1.5]


def test_under_jit_none_is_told_from_a_number():
    g = tg.jit(tg.grad(rate))
    p = {"a": 1.5, "b": None}
    assert [g(p, {"n": n})["a"] for n in (None, 2.0, None, 2.0)] == [6.0, 12.0, 6.0, 12.0]
    assert g.stats().records == 2


def test_none_alone_cannot_be_differentiated():
    for transform in (tg.grad, tg.jacobian, tg.jacrev, tg.jacfwd, tg.hessian, tg.sparse_jacobian):
        with pytest.raises(StructureError, match="argument 0 .*NoneType"):
            transform(lambda x: 1.0)(None)


def test_bounds_of_a_start_with_none():
    def f(p):
        return (p["a"] - 3.0) ** 2 + (p["b"] - 4.0) ** 2

    found = tg.optimize.minimize(f, {"a": 0.0, "b": 0.0, "c": None}, bounds=(dict(a=None, b=None, c=None), dict(a=1.0, b=None, c=None))).x
    assert found["a"] == pytest.approx(1.0) and found["b"] == pytest.approx(4.0) and found["c"] is None
