"""`tg.explain_zero`: every reason it knows, with the line, and nothing where there is none."""


import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.observers import LISTENERS
from tests.threads import in_a_thread

V = np.array([1.0, -1.0, 2.0])


def under_no_grad(x):
    with tg.no_grad():
        return np.sin(x)


def under_no_grad_product(x):
    with tg.no_grad():
        return x * x


ZERO = [
    (lambda x: np.where(x > 1.0, 1.0, 0.0), 1.2, "only in a comparison (greater)"),
    (lambda x: 1.0 * (x <= 1.0), 1.2, "only in a comparison (less_equal)"),
    (lambda x: np.sum(np.where(np.less(x, 1.0), 1.0, 0.0)), V, "only in a comparison (less)"),
    (lambda x: np.floor(x) * 2, 1.2, "floor at"),
    (lambda x: np.sign(x) * 2, 1.2, "sign at"),
    (lambda x: np.round(x, 1), 1.2, "rint at"),
    (lambda x: 2.0 * x.item(), 1.2, "only through .item()"),
    (lambda x: 2.0 * x.detach(), 1.2, "only through .detach()"),
    (lambda x: 2.0 * np.sum(x.numpy()), V, "only through .numpy()"),
    (lambda x: 2.0 * np.sum(x.tolist()), V, "only through .tolist()"),
    (lambda x: tg.stop_gradient(x) * 2, 1.2, "only through .detach()"),
    (under_no_grad, 1.2, "under no_grad"),
    (under_no_grad_product, V, "under no_grad"),
    (lambda x: np.argmax(x) * 1.0, V, "numpy.argmax"),
    (lambda x: np.maximum(x, 0.0), -1.2, "maximum at"),
    (lambda x: tg.nn.functional.relu(x), -1.2, "relu at"),
    (lambda x: np.clip(x, 2.0, 3.0), 1.2, "outside of the bounds"),
    (lambda x: tg.sigmoid(1e4 * x), 1.2, "saturated"),
    (lambda x: np.tanh(1e4 * x), 1.2, "saturated"),
    (lambda x: x * 0.0, 1.2, "the other factor is 0"),
    (lambda x: np.where(x > 5.0, x, 0.0), 1.2, "the other branch"),
    (lambda x: x - x, 1.2, "cancel"),
    (lambda x: 1.0, 1.2, "the result does not depend on it"),
    (tg.custom_vjp(lambda x: x * 2, lambda g, r, x: 0.0 * g), 1.2, "its rule gives 0"),
]


@pytest.mark.parametrize("f, x, words", ZERO)
def test_a_zero_has_its_reason(f, x, words):
    (found,) = tg.explain_zero(f, x).arguments
    assert found.zeros == found.size
    assert any(words in reason for reason in found.reasons), found.reasons


@pytest.mark.parametrize("f, x, words", [case for case in ZERO if " at" in case[2] or "comparison" in case[2]])
def test_the_line_is_this_file(f, x, words):
    text = str(tg.explain_zero(f, x))
    assert f"{__file__}:" in text


def test_zero_in_some_elements():
    (found,) = tg.explain_zero(lambda x: np.sum(np.maximum(x, 0.0)), V).arguments
    assert (found.zeros, found.size) == (1, 3)
    assert "maximum" in found.reasons[0] and "1 of 3" in found.reasons[0]
    (found,) = tg.explain_zero(lambda x: 2.0 * x[0], V).arguments
    assert found.zeros == 2 and "2 of 3 elements are not read" in found.reasons[0]


def test_each_argument_by_itself_and_others_left_alone():
    found = tg.explain_zero(lambda x, n, y: [x**n, (np.floor(y),)], 2.0, 3, V)
    assert [a.index for a in found.arguments] == [0, 2]
    assert str(found.arguments[0]) == "argument 0: the derivative is not zero"
    assert "floor at" in str(found)


def test_nothing_is_said_of_a_derivative_that_is_not_zero():
    (found,) = tg.explain_zero(lambda x: x * x if x > 0 else -x, 2.0).arguments
    assert found.zeros == 0 and not found.reasons


def test_a_use_besides_is_not_called_the_only_one():
    (found,) = tg.explain_zero(lambda x: np.where(x > 1.0, 1.0, 0.0) + np.floor(x), 1.2).arguments
    assert len(found.reasons) == 2 and not any("only" in reason for reason in found.reasons)


def test_the_listener_goes_away_and_hears_its_own_thread_only():
    def failing(x):
        raise KeyError("x")

    with pytest.raises(KeyError):
        tg.explain_zero(failing, 1.0)
    assert not LISTENERS

    def other_thread(x):
        in_a_thread(lambda: tg.tensor(1.0, requires_grad=True).item())
        return x * 0.0

    (found,) = tg.explain_zero(other_thread, 1.0).arguments
    assert not any(".item()" in reason for reason in found.reasons)


def test_nothing_to_differentiate():
    with pytest.raises(TypeError, match="no argument"):
        tg.explain_zero(lambda n: n, 3)
