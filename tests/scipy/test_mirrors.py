"""The table of mirrors, and the error of a tensor that SciPy turns into an array."""

import importlib
import inspect

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats

import tapegrad as tg
from tapegrad.scipy import mirrors
from tests.every import every
from tests.rules.checker import leaf

NAMES = [(module, name) for module, names in mirrors.MIRRORS.items() for name in names]


@every("module, name", NAMES)
def test_the_signature_is_that_of_scipy(module, name):
    theirs, ours = (getattr(importlib.import_module(m), name) for m in (module, f"tapegrad.{module}"))
    assert ours is not theirs and (ours.__doc__ or "").strip()
    if module == "scipy.stats":
        for method in ("logpdf", "logpmf", "pdf", "pmf"):
            assert hasattr(theirs, method) == hasattr(ours, method)
        if inspect.isclass(theirs):
            theirs, ours = theirs.__init__, ours.__init__
            assert _parameters(ours) == _parameters(theirs)
            return
        if not hasattr(ours, "signature"):
            for method in ("logpdf", "pdf", "logpmf", "pmf"):
                assert not hasattr(theirs, method) or _parameters(getattr(ours, method)) == _parameters(getattr(theirs, method))
            return
        shapes = theirs.shapes.split(", ") if theirs.shapes else []
        rest = ["loc"] if hasattr(theirs, "logpmf") else ["loc", "scale"]
        assert list(ours.signature.parameters)[1:] == shapes + rest
        return
    if module == "scipy.sparse":
        # Classes there, of which ours are made by functions; how many are printed is no matter of derivatives.
        assert _parameters(ours) == [p for p in _parameters(theirs.__init__) if p[0] not in ("self", "maxprint")]
        return
    if inspect.isclass(theirs):
        theirs, ours = theirs.__init__, ours.__init__
    if name == "sqrtm":
        # Options that do nothing went in 1.18.
        assert _parameters(ours)[0] == _parameters(theirs)[0]
        return
    if name == "inv" and np.lib.NumpyVersion(scipy.__version__) < "1.17.0":
        # Options of its own came then.
        assert [p[0] for p in _parameters(theirs)] == [p[0] for p in _parameters(ours)][: len(_parameters(theirs))]
        return
    assert _parameters(ours) == _parameters(theirs)


def _parameters(function):
    # A bare object is SciPy's mark of an argument that is deprecated; here it has the default it had.
    return [(p.name, p.kind, None if type(p.default) is object else p.default) for p in inspect.signature(function).parameters.values()]


def test_the_table_is_sorted_and_has_no_duplicates():
    for names in mirrors.MIRRORS.values():
        assert list(names) == sorted(set(names))


def test_a_function_without_a_mirror_is_named():
    with pytest.raises(tg.errors.LeaveTapeError, match="^write lu of scipy.linalg in functions of NumPy"):
        scipy.linalg.lu(leaf(np.eye(2)))
    t = leaf([1.0, 2.0])
    for call, name in [
        (lambda: scipy.signal.medfilt(t), "medfilt of scipy.signal"),
        (lambda: scipy.stats.burr.pdf(t, 1.0, 2.0), "burr of scipy.stats"),
        (lambda: scipy.stats.multivariate_t.logpdf(t, np.zeros(2)), "multivariate_t of scipy.stats"),
        (lambda: scipy.interpolate.interp1d([0.0, 1.0], t), "interp1d of scipy.interpolate"),
        (lambda: scipy.optimize.nnls(np.eye(2), t), "nnls of scipy.optimize"),
    ]:
        with pytest.raises(tg.errors.LeaveTapeError, match=f"^write {name} in functions of NumPy"):
            call()


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.dia_array])
def test_a_sparse_matrix_says_what_to_do(kind):
    t = leaf([1.0, 2.0])
    with pytest.raises(tg.errors.LeaveTapeError, match=r"write A @ t or t @ A, or call spsolve and splu of tapegrad\.scipy\.sparse\.linalg"):
        kind(np.eye(2)).multiply(t)
    with pytest.raises(tg.errors.LeaveTapeError, match=r"^call tapegrad\.scipy\.sparse\.linalg\.spsolve, which takes tensors"):
        scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(kind(np.eye(2))), t)


def test_the_nearest_function_of_scipy_is_named():
    def inner(x):
        return scipy.linalg.det(x)

    with pytest.raises(tg.errors.LeaveTapeError, match=r"^call tapegrad\.scipy\.linalg\.det, which takes tensors"):
        scipy.integrate.quad(lambda s: inner(leaf(np.eye(2))), 0, 1)
    # A user's own conversion inside a function that SciPy calls is not SciPy's.
    with pytest.raises(tg.errors.LeaveTapeError) as caught:
        scipy.integrate.solve_ivp(lambda t, y: np.asarray(leaf([1.0])), (0, 1), [1.0])
    assert str(caught.value).startswith("leave np.asarray out")


def test_constants_are_arrays_for_scipy():
    np.testing.assert_array_equal(scipy.linalg.inv(tg.tensor(np.eye(2))), np.eye(2))


def test_what_counts_as_differentiable():
    t = leaf(1.0)
    assert mirrors.differentiable(t) and mirrors.differentiable([0.0, (t,)]) and mirrors.differentiable({"loc": t})
    assert not mirrors.differentiable(1.0, np.ones(2), np.float64(1), [1, [2]], None, "natural")


def test_arrays_and_constants():
    t = leaf([1.0, 2.0])
    assert mirrors.array(t) is t
    assert mirrors.array([1, 2]).dtype == float and mirrors.array(np.ones(2, "f")).dtype == np.float32
    assert mirrors.array([[t, t]]).shape == (1, 2, 2)
    with pytest.raises(tg.errors.UnsupportedFunctionError, match="argument k"):
        mirrors.constant([1.0, leaf(2.0)], "f", "k", "it is an integer")
    np.testing.assert_array_equal(mirrors.constant([1.0, tg.tensor(2.0)], "f", "k", ""), [1, 2])
    mirrors.finite(False, np.nan)
    with pytest.raises(ValueError, match="infs or NaNs"):
        mirrors.finite(True, leaf(np.nan))


def test_a_mirror_must_be_in_the_table():
    with pytest.raises(AssertionError, match="null_space"):

        @mirrors.mirror
        def null_space(a):
            return a
