"""Functional derivatives refuse what has none."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import DtypeError, NonScalarOutputError, SeedShapeError, StructureError

X = np.array([0.5, 1.5])
TRANSFORMED = [tg.grad, tg.value_and_grad, tg.elementwise_grad, tg.jacobian, tg.jacrev]
EVERY = pytest.mark.parametrize("transform", TRANSFORMED, ids=lambda t: t.__name__)


@EVERY
@pytest.mark.parametrize("result", [None, "text", len, {1, 2}, np.array([object()])], ids=["None", "text", "function", "set", "objects"])
def test_results_that_are_no_numbers(transform, result):
    with pytest.raises((StructureError, DtypeError)):
        transform(lambda x: result)(X)
    with pytest.raises((StructureError, DtypeError)):
        tg.vjp(lambda x: result, X)


@EVERY
def test_results_without_derivative(transform):
    with pytest.raises(DtypeError, match="bool"):
        transform(lambda x: x > 1.0)(0.5)


@EVERY
def test_arguments_without_derivative(transform):
    with pytest.raises(DtypeError, match=r"argument 0 .*int64"):
        transform(np.sum)(np.array([1, 2]))
    with pytest.raises(DtypeError, match=r"argument 1\['a'\]"):
        transform(lambda x, y: x * y["a"][0], argnums=1)(2.0, {"a": np.array([1, 2])})
    for wrong in ("text", None):
        with pytest.raises(StructureError, match="argument 0"):
            transform(lambda x: x)(wrong)


@EVERY
def test_argnums(transform):
    with pytest.raises(StructureError, match="argnums"):
        transform(lambda x: x, argnums=1)(1.0)
    for wrong in ("z", 1.5, None, True, (0, "y"), ()):
        with pytest.raises(StructureError, match="argnums"):
            transform(lambda x: x, argnums=wrong)
    with pytest.raises(StructureError, match="argnum"):
        transform(lambda x, y: x, argnums=1, argnum=1)
    with pytest.raises(StructureError, match="function"):
        transform(3.0)


def test_more_than_one_number():
    for several in (lambda x: x, lambda x: (x[0], x[1]), lambda x: {"a": x[0], "b": 1.0}):
        with pytest.raises(NonScalarOutputError, match="jacobian"):
            tg.grad(several)(X)
    with pytest.raises(StructureError, match="has_aux"):
        tg.grad(lambda x: x[0], has_aux=True)(X)


def test_seeds_and_tangents_that_do_not_fit():
    _, pullback = tg.vjp(lambda x: {"a": x, "b": x[0]}, X)
    for wrong in ({"a": X}, {"a": np.ones(3), "b": 1.0}, X):
        with pytest.raises(SeedShapeError):
            pullback(wrong)
    with pytest.raises(StructureError):
        pullback({"a": X, "c": 1.0})
    with pytest.raises(SeedShapeError):
        tg.vjp(lambda x: x[0], X)[1]("a")
    _, push = tg.linearize(lambda x, y: x * y, X, 2.0)
    with pytest.raises(StructureError, match="2 arguments"):
        push(X)
    with pytest.raises(SeedShapeError, match="tangent 1"):
        push(X, X)


def test_result_may_change_its_structure_with_the_path():
    jacobian = tg.jacobian(lambda x: {"a": x} if x > 0 else (x * 2.0, x * 3.0))
    for x in (1.0, -1.0, 2.0, -2.0):
        assert jacobian(x) == ({"a": 1.0} if x > 0 else (2.0, 3.0))


def test_forward_mode_inside_gives_second_derivatives():
    gradient = tg.grad(tg.derivative(lambda x: x**3))
    second = tg.jacobian(tg.jacfwd(lambda x: np.sum(x**3)))
    for k in range(1, 5):
        assert gradient(float(k)) == 6.0 * k
        np.testing.assert_allclose(second(k * X), np.diag(6.0 * k * X), rtol=1e-14)
