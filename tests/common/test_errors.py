"""An option that has not one of its values raises `OptionError`, which is a ValueError and names what there is."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import OptionError, StructureError

X = np.ones(2)


def square(x):
    return np.sum(x * x)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: tg.jacobian(square, mode="up")(X), "mode='up' is not one of auto, forward, reverse"),
        (lambda: tg.sparse_jacobian(square, mode="up")(X), "mode='up' is not one of"),
        (lambda: tg.hessian(square, mode="up")(X), "mode='up' is not one of"),
        (lambda: tg.sparsity(square, order=3)(X), "order=3: 1 is the pattern of the Jacobian, 2"),
        (lambda: tg.check(square, X, order=3), "order=3 is not 1 or 2"),
        (lambda: tg.check(square, X, modes="up"), "there is no check 'up'; there are value, reverse"),
        (lambda: tg.optimize.lbfgs(square, X, progress="up"), "progress='up': give True, False or None"),
        (lambda: tg.compile(square, X, workspaces=0), "workspaces must be at least 1"),
        (lambda: tg.nn.functional.mse_loss(tg.tensor(X), tg.tensor(X), reduction="up"), "'mean', 'sum' or 'none', not 'up'"),
        (lambda: tg.jit(tg.grad(square), kernel="up")(X), "kernel='up': choose one of"),
    ],
)
def test_an_option_without_such_a_value(call, words):
    with pytest.raises(OptionError, match=words) as caught:
        call()
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("call", [lambda: tg.check(len, "abc"), lambda: tg.explain_zero(len, "abc")])
def test_nothing_to_differentiate(call):
    with pytest.raises(StructureError, match="no argument is a float or an array of floats"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: tg.check(lambda x: None, 1.0),
        lambda: tg.check(lambda x: {"a": x, "b": "text"}, 1.0),
        lambda: tg.implicit.root(lambda x: None, 1.0),
        lambda: tg.implicit.fixed_point(lambda x: None, 1.0),
        lambda: tg.implicit.argmin(lambda x: None, 1.0),
        lambda: tg.grad(lambda x: None)(1.0),
        lambda: tg.hessian(lambda x: None)(1.0),
        lambda: tg.jacfwd(lambda x: None)(1.0),
        lambda: tg.optimize.lbfgs(lambda x: None, X),
    ],
)
def test_a_function_that_forgets_its_return(call):
    with pytest.raises(StructureError, match="does the function return what it computes"):
        call()


def test_a_function_that_returns_a_dict_is_checked():
    assert tg.check(lambda x: {"a": np.sin(x), "b": [x * 2.0]}, X, order=2).passed
