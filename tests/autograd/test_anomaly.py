"""`tg.detect_anomaly`: the operation is named, forward and backward, and nothing else is disturbed."""

import inspect
import re
import threading
import traceback
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import NonFiniteError
from tests.threads import in_a_thread

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def here(text):
    """The number of the line of this file that ends with `text`."""
    lines, first = inspect.getsourcelines(inspect.getmodule(here))
    (found,) = [k for k, line in enumerate(lines, max(first, 1)) if line.rstrip().endswith(text)]
    return found


def scalars(x):
    y = x * 2.0
    z = np.log(y)  # scalar log
    return z * y


def arrays(x):
    y = np.exp(x * 1000.0)  # overflow
    return np.sum(y / (1.0 + y))


def division(x):
    total = 0.0
    for k in range(3):
        total = total + 1.0 / (x - k)  # division
    return total


def power(x):
    return np.sum(np.asarray([1.0, 2.0]) * x**-1.0)  # power


@pytest.mark.parametrize(
    "f, x, row, line",
    [
        (scalars, 0.0, "log", "# scalar log"),
        (scalars, -1.0, "log", "# scalar log"),
        (arrays, [0.0, 2.0], "exp", "# overflow"),
        (division, 1.0, "divide", "# division"),
        (power, [1.0, 0.0], "power", "# power"),
    ],
)
def test_forward(f, x, row, line):
    x = tg.tensor(x, requires_grad=True)
    with tg.detect_anomaly(), pytest.raises(NonFiniteError, match=rf"{row} at .*test_anomaly.py:{here(line)} \(`") as caught:
        f(x)
    # A debugger lands on the line.
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename == __file__]
    assert frames[-1].lineno == here(line)


def roots(x):
    return np.sum(np.sqrt(x) * 3.0)  # square root


def norm(x):
    return (x[0] * x[0] + x[1] * x[1]) ** 0.5  # norm


def absolute(x):
    y = x * 1.0
    return np.linalg.norm(y - 1.0) ** 0.5  # norm of array


@pytest.mark.parametrize(
    "f, x, row, line",
    [(roots, [1.0, 0.0], "sqrt", "# square root"), (norm, [0.0, 0.0], "power", "# norm"), (absolute, [1.0, 1.0], "power", "# norm of array")],
)
def test_backward(f, x, row, line):
    x = tg.tensor(x, requires_grad=True)
    with tg.detect_anomaly():
        y = f(x)
        assert np.isfinite(y.item())
        with pytest.raises(NonFiniteError, match=rf"derivative of {row} at .*test_anomaly.py:{here(line)} "):
            y.backward()
    assert x.grad is None


def test_gradients_are_the_same_inside():
    def f(x):
        y = np.sin(x) * x[::-1]
        total = y[0] * 2.0
        for k in range(1, 4):
            total = total * y[k] + np.sum(np.exp(-y) @ np.ones((4, 2)))
        return total

    x = tg.tensor([0.3, 0.2, 0.7, -0.4], requires_grad=True)
    f(x).backward()
    plain, x.grad = x.grad, None
    with tg.detect_anomaly():
        f(x).backward()
    assert np.array_equal(plain.numpy(), x.grad.numpy())
    x.grad = None
    with tg.detect_anomaly():
        y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * plain.numpy())


def test_what_came_in_bad_is_not_blamed_on_the_next():
    x = tg.tensor([1.0, np.inf], requires_grad=True)
    with tg.detect_anomaly():
        assert not np.isfinite((x * 2.0).sum().item())


def test_infinities_may_be_let_through():
    x = tg.tensor([1.0, 0.0], requires_grad=True)
    with tg.detect_anomaly(inf=False):
        np.sum(np.where(x.detach().numpy() > 0, np.log(x), 0.0)).backward()
        with pytest.raises(NonFiniteError, match="multiply at .* gave nan"):
            np.log(x) * x
    assert np.array_equal(x.grad.numpy(), [1.0, 0.0])


def test_it_ends_nests_and_decorates():
    x = tg.tensor(0.0, requires_grad=True)
    with tg.detect_anomaly():
        with tg.detect_anomaly(inf=False):
            np.log(x)
        with pytest.raises(NonFiniteError):
            np.log(x)
        with tg.no_grad():
            np.log(x)
        with pytest.raises(NonFiniteError):
            np.log(x)
    assert np.log(x).item() == -np.inf

    @tg.detect_anomaly()
    def f():
        return np.log(x)

    with pytest.raises(NonFiniteError):
        f()
    assert np.log(x).item() == -np.inf


def test_other_threads_are_left_alone():
    def work():
        return np.log(tg.tensor(0.0, requires_grad=True)).item()

    with tg.detect_anomaly():
        found = in_a_thread(work)
    assert found == -np.inf


def test_functional_recordings_are_looked_at_too():
    with tg.detect_anomaly(), pytest.raises(NonFiniteError, match=rf"log at .*:{here('# scalar log')} "):
        tg.grad(scalars)(0.0)


def test_an_explicit_tape_and_clearing():
    with tg.detect_anomaly(), tg.Tape() as tape:
        x = tg.tensor(0.0, requires_grad=True)
        with pytest.raises(NonFiniteError):
            np.log(x)
        tape.clear()
        with pytest.raises(NonFiniteError):
            1.0 / x
    assert re.search("tensor", repr(1.0 / x))


def test_the_fast_way_comes_back():
    from tapegrad.tape.store import thread_state

    with tg.detect_anomaly():
        assert thread_state().store.ident == -1
    assert thread_state().store.ident == threading.get_ident()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = tg.tensor(2.0, requires_grad=True)
        (x * x).backward()
    assert x.grad.item() == 4.0
