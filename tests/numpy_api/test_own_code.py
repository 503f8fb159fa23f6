"""Functions that NumPy's own code computes: which they are, and how the code finds its names."""

import threading
from operator import attrgetter

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.numpy_api import own_code
from tests.every import every
from tests.rules.checker import leaf, plain

X = np.array([0.3, 1.1, 2.4, 3.0])


@every("name", own_code._NAMES.split())
def test_numpy_writes_it_in_python(name):
    assert attrgetter(name)(np)._implementation.__code__.co_filename.endswith(".py")


def test_first_use_by_many_threads():
    own_code.private_code.cache_clear()
    own_code._NAMESPACES.clear()
    barrier, slopes = threading.Barrier(6), []

    def work():
        barrier.wait()
        slopes.append(plain(np.gradient(leaf(X))))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(slopes, [np.gradient(X)] * 6)


def test_the_code_of_numpy_itself_is_as_it_was():
    plain(np.kron(leaf(X), X))
    assert np.kron._implementation.__globals__["asanyarray"] is np.asanyarray
    assert type(np.kron(X, X)) is np.ndarray


def test_the_dtype_of_a_ufunc_may_be_the_one_that_it_has():
    assert np.add(leaf(X), 1.0, dtype=np.float64).requires_grad
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="dtype"):
        np.add(leaf(X), 1.0, dtype=np.float32)
