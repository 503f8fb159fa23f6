"""The names of `tapegrad.numpy`: all of NumPy's, on plain data NumPy's results bit for bit, and with lists that hold tensors those of tensors."""

import pickle
import subprocess
import sys

import numpy
import pytest

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad.common.errors import LeaveTapeError, UnsupportedFunctionError
from tapegrad.numpy_api.dispatch import parameters, taking_lists
from tapegrad.numpy_api.refused import REFUSED, WITHOUT_DERIVATIVE
from tests.every import every
from tests.numpy_api.test_every_public_function import PUBLIC, WRITING, V, calls_of, parts, replaced, run
from tests.rules.checker import leaf, plain

MODULES = {"": numpy, "linalg": numpy.linalg, "fft": numpy.fft, "random": numpy.random}


def ours(path):
    """What `tapegrad.numpy` has under a dotted name of NumPy."""
    thing = np
    for part in path.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_there(name):
    here, theirs = ours(f"numpy.{name}" if name else "numpy"), MODULES[name]
    assert set(here.__all__) == set(theirs.__all__) == set(dir(here)) - {"__doc__", "__file__", "__name__"} | {n for n in theirs.__all__ if n.startswith("__")}
    for public in theirs.__all__:
        made, original = getattr(here, public), getattr(theirs, public)
        assert getattr(here, public) is made
        if isinstance(original, type | float | int | str) or original is None:
            assert made is original or public in ("vectorize", "ndarray") and issubclass(made, original)
        elif callable(original) and public != "test":
            assert made.__name__ == original.__name__ and made.__doc__ == original.__doc__


def test_signatures_are_read_when_a_list_of_tensors_comes():
    """To read hundreds of them was a third of `import tapegrad.hips`; all of them can be read."""
    def function(arrays, axis=0):
        return arrays

    before, made = parameters.cache_info().misses, taking_lists(function)
    made([1.0, 2.0])
    assert parameters.cache_info().misses == before
    assert isinstance(made([[tg.tensor(1.0), 2.0]])[0], tg.Tensor)
    assert parameters.cache_info().misses == before + 1
    things = [getattr(ours(f"numpy.{name}" if name else "numpy"), public) for name, module in MODULES.items() for public in module.__all__]
    things += [getattr(np.add, name) for name in ("reduce", "accumulate", "reduceat", "outer")]
    originals = [thing.__wrapped__ for thing in things if taking_lists.__name__ in getattr(thing, "__code__", function.__code__).co_qualname]
    assert len(originals) > 200
    for original in originals:
        assert isinstance(original, numpy.ufunc) or original is numpy.block or isinstance(parameters(original), list)


def test_what_has_two_names_is_one_thing():
    assert np.abs is np.absolute and np.conj is np.conjugate and np.linalg.cross is not np.cross
    assert np.linalg.LinAlgError is numpy.linalg.LinAlgError and np.emath is numpy.emath and np.ma is numpy.ma


def test_a_name_that_numpy_has_not():
    for module, name in ((np, "sinus"), (np, "float"), (np.linalg, "solv"), (np.random, "nothing"), (np, "__wrapped__")):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
    with pytest.raises(AttributeError, match=rf"tapegrad.numpy has the names of NumPy {numpy.__version__}, but not 'float': (.|\n)*deprecated alias"):
        np.float  # noqa: B018
    with pytest.raises(ImportError, match="sinus"):
        from tapegrad.numpy import sinus  # noqa: F401


def test_the_ways_to_import_it():
    program = """
import sys
import tapegrad
assert "tapegrad.numpy" not in sys.modules
from tapegrad.numpy import *
import tapegrad.numpy.linalg as la, tapegrad.numpy.random as npr, tapegrad.numpy.fft
from tapegrad.numpy.linalg import solve
from tapegrad.numpy import linalg, sin, pi
import tapegrad.numpy as np
assert linalg is la and sin is np.sin and la.solve is solve and npr.randn and fft.fft is np.fft.fft and array is np.array and pi > 3
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["sin", "sum", "zeros", "array", "full", "vectorize", "linalg.svd", "fft.fft", "einsum"])
def test_functions_are_pickled_by_name(name):
    function = ours(f"numpy.{name}")
    assert pickle.loads(pickle.dumps(function)) is function


def same(found, expected):
    """Whether two results are the same to the last bit, and of the same types."""
    if isinstance(expected, (list, tuple)):
        return type(found) is type(expected) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, (numpy.ndarray, numpy.generic)):
        return type(found) is type(expected) and found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()
    return type(found) is type(expected) and (found == expected or found != found)


HERE = sorted(name for name in PUBLIC if name.startswith(("numpy.linalg", "numpy.fft")) or name.count(".") == 1)


@pytest.mark.filterwarnings("ignore")
@every("name", [n for n in HERE if n not in ("numpy.empty_like", "numpy.save", "numpy.savetxt", "numpy.savez", "numpy.savez_compressed")])
def test_plain_data_gives_what_numpy_gives(name, monkeypatch):
    for args in calls_of(name, PUBLIC[name]):
        copies = [pickle.loads(pickle.dumps(args)) for _ in range(2)] if name not in ("numpy.apply_along_axis", "numpy.apply_over_axes", "numpy.piecewise") else [args, args]
        with numpy.errstate(all="ignore"):
            try:
                expected = PUBLIC[name](*copies[0])
            except Exception as error:
                with pytest.raises(type(error)) as raised:
                    ours(name)(*copies[1])
                assert str(raised.value) == str(error)
                continue
            found = ours(name)(*copies[1])
        assert same(found, expected)
        if name in WRITING:
            assert same(copies[1][0], copies[0][0])


ARRAYS = {
    "zeros": (3,), "ones": ((2, 3), "f"), "eye": (3, 4, 1), "identity": (3,), "tri": (3, 4), "arange": (1.0, 2.0, 0.25), "full": ((2, 2), 1.5), "array": ([[1, 2.5], [3, 4]],),
    "asarray": ([1, 2],), "asanyarray": ((1.0, 2.0),), "ascontiguousarray": (V[::-1],), "asfortranarray": ([[1.0, 2.0], [3.0, 4.0]],), "require": ([1.0], "f", "C"),
    "fromiter": ([1.0, 2.0, 3.0], float, 2), "fromfunction": (lambda i, j: i + 2.0 * j, (2, 3)), "linspace": (0, 1, 5), "hanning": (5,), "indices": ((2, 2),),
    "diag": ([1.0, 2.0], 1), "vander": ([1, 2, 3],), "logspace": (0.0, 1.0, 4), "copy": ([1.0, 2.0],), "zeros_like": ([1, 2],), "full_like": ([1.0, 2.0], 3), "isscalar": (2.0,),
}  # fmt: skip


@every("name", ARRAYS)
def test_what_makes_arrays_makes_numpys(name):
    assert same(getattr(np, name)(*ARRAYS[name]), getattr(numpy, name)(*ARRAYS[name]))


def test_arrays_of_more_kinds():
    x = numpy.arange(6.0).reshape(2, 3)
    assert np.asarray(x) is x and np.array(x, copy=False) is x and np.array(x) is not x and np.array(x, ndmin=3).shape == (1, 2, 3)
    assert same(np.array(["a", "bc"]), numpy.array(["a", "bc"])) and same(np.array(2.0), numpy.array(2.0)) and same(np.array([1j]), numpy.array([1j]))
    assert same(np.r_[1:3, 0.5, x[0]], numpy.r_[1:3, 0.5, x[0]]) and same(np.c_[x[0], [1, 2, 3]], numpy.c_[x[0], [1, 2, 3]])
    assert same(np.r_["0,2", x[0], x[1]], numpy.r_["0,2", x[0], x[1]]) and len(np.r_) == 0 and np.s_[1:2] == numpy.s_[1:2]
    assert same(np.vectorize(lambda a, b: a + b, otypes=["f"])([1, 2], 3), numpy.vectorize(lambda a, b: a + b, otypes=["f"])([1, 2], 3))
    assert same(np.add.reduce([1, 2]), numpy.add.reduce([1, 2])) and same(np.multiply.outer(x[0], [1, 2]), numpy.multiply.outer(x[0], [1, 2]))
    assert np.add.nin == 2 and np.add.identity == 0 and same(np.add.reduceat(x[0], [0, 2]), numpy.add.reduceat(x[0], [0, 2]))
    for bad in (lambda np: np.zeros("a"), lambda np: np.array([[1], [1, 2]]), lambda np: np.sum(x, axis=5), lambda np: np.sin("a"), lambda np: np.full(2, [1, 2, 3]), lambda np: np.r_[x, x[0]],
                lambda np: np.sin(), lambda np: np.array(), lambda np: np.linalg.inv([[1.0, 2.0]]), lambda np: np.arange(None)):  # fmt: skip
        with pytest.raises(Exception) as theirs:  # noqa: B017, PT011
            bad(numpy)
        with pytest.raises(type(theirs.value)) as mine:
            bad(np)
        assert str(mine.value) == str(theirs.value)


def test_random_numbers_are_drawn_as_by_numpy():
    draws = []
    for module in (np, numpy):
        module.random.seed(3)
        draws.append((module.random.randn(3), module.random.RandomState(1).randn(2), module.random.default_rng(0).normal(size=2)))
    assert same(*draws)


# ---- lists that hold tensors ---------------------------------------------------------------


def listed(thing):
    """Tensors as lists of their parts, numbers in the innermost."""
    if isinstance(thing, tg.Tensor):
        return [listed(part) for part in thing] if thing.shape else thing
    return type(thing)(map(listed, thing)) if isinstance(thing, (list, tuple)) else thing


def floats(thing):
    if isinstance(thing, numpy.ndarray) and thing.dtype.kind == "f":
        yield thing
    elif isinstance(thing, (list, tuple)):
        for part in thing:
            yield from floats(part)


#: Lists are no arrays in these, or a tensor is written to.
NO_LISTS = {"numpy.block", *WRITING, "numpy.astype", "numpy.unstack", "numpy.matrix_transpose"}


@pytest.mark.filterwarnings("ignore")
@every("name", sorted(set(HERE) - NO_LISTS - {n for n in WITHOUT_DERIVATIVE if n in HERE}))
def test_lists_of_tensors_are_arrays(name):
    args = calls_of(name, PUBLIC[name])[0]
    leaves = [leaf(a.copy()) for a in floats(args)]
    if not leaves:
        return
    tensors = replaced(args, iter(leaves))
    lists = [listed(a) for a in tensors]
    if name in REFUSED:
        with pytest.raises((UnsupportedFunctionError, LeaveTapeError), match=name.split(".")[-1]):
            ours(name)(*lists)
        return
    gradients = []
    for arguments in (tensors, lists):
        results = [r for r in parts(run_ours(name, arguments)) if isinstance(r, tg.Tensor) and r.requires_grad]
        for t in leaves:
            t.grad = None
        assert results or name in ("numpy.isnan",) or not expects_tensor(name, args)
        if results:
            sum((numpy.arange(1.0, r.size + 1.0).reshape(r.shape) * r).sum() for r in results).backward()
        gradients.append([*map(plain, results), *[plain(t.grad) for t in leaves if t.grad is not None]])
    assert len(gradients[0]) == len(gradients[1])
    for expected, found in zip(*gradients):
        numpy.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def run_ours(name, args):
    return ours(name)(*args)


def expects_tensor(name, args):
    leaves = [leaf(a.copy()) for a in floats(args)]
    return any(isinstance(r, tg.Tensor) and r.requires_grad for r in parts(run(name, args, leaves)))


def test_numpy_stays_as_it_is():
    for name in np.__all__:
        getattr(np, name)
        thing = getattr(numpy, name)
        assert "tapegrad" not in str(getattr(thing, "__module__", "")), name


def test_more_lists():
    t, u = leaf(V[:3]), leaf(2.0 * V[:3])

    def check(found, expected):
        assert isinstance(found, tg.Tensor) and found.requires_grad
        numpy.testing.assert_array_equal(plain(found), numpy.array(expected) if isinstance(expected, list) else plain(expected))

    check(np.array([t, u]), numpy.stack([t, u]))
    check(np.asarray([t[0], 2.0]), numpy.stack([t[0], 2.0]))
    check(np.array([[t[0], 1], [2, u[0]]], dtype="f"), numpy.array([[0.7, 1], [2, 1.4]], "f"))
    assert np.asarray(t) is t and np.array(t, copy=False) is t and np.array(t) is not t and np.asarray(t, float) is t and np.array(t, ndmin=2).shape == (1, 3)
    check(np.sum(a=[t, u], axis=0), t + u)
    check(np.add([t[0], 1.0], [2.0, u[1]]), [2.7, V[1] * 2.0 + 1.0])
    check(np.add.reduce([t, u]), t + u)
    check(np.multiply.outer([t[0], t[1]], [1.0, 2.0]), numpy.multiply.outer(t[:2], [1.0, 2.0]))
    check(np.concatenate([[t[0]], [u[1], 1.0], t]), numpy.concatenate([t[:1], u[1:2], [1.0], t]))
    check(np.array(object=[t[0], 1.0]), [V[0], 1.0])
    check(np.asarray(a=[t[0], 1.0]), [V[0], 1.0])
    check(np.stack([[t[0], t[1]], [u[0], 1.0]], axis=1), [[V[0], 2 * V[0]], [V[1], 1.0]])
    check(np.einsum("i,i->", [t[0], t[1]], [1.0, 2.0]), t[0] + 2.0 * t[1])
    check(np.dot([t[0], t[1]], [1.0, 2.0]), t[0] + 2.0 * t[1])
    check(np.where([True, False], [t[0], t[1]], 0.0), [V[0], 0.0])
    check(np.linalg.det([[t[0], 1.0], [2.0, u[0]]]), numpy.linalg.det([[V[0], 1.0], [2.0, 2.0 * V[0]]]))
    check(np.linalg.solve([[t[0], 1.0], [2.0, u[0]]], [t[0], 1.0]), numpy.linalg.solve([[V[0], 1.0], [2.0, 2.0 * V[0]]], [V[0], 1.0]))
    check(np.polyval([t[0], t[1]], 2.0), 2.0 * t[0] + t[1])
    check(np.polyfit([0.0, 1.0], [t[0], t[1]], 1), numpy.polyfit([0.0, 1.0], t[:2], 1))
    check(np.block([[t, 1.0], [u, t[0]]]), numpy.block([[V[:3], 1.0], [2.0 * V[:3], V[0]]]))
    check(np.r_[t, 1.0, 2:4, [u[0], 0.5]], numpy.r_[V[:3], 1.0, 2:4, [2.0 * V[0], 0.5]])
    check(np.r_["1,2,0", t, u], numpy.r_["1,2,0", V[:3], 2.0 * V[:3]])
    check(np.c_[t, [1, 2, 3], u], numpy.c_[V[:3], [1, 2, 3], 2.0 * V[:3]])
    check(np.full((2, 3), t), numpy.broadcast_to(V[:3], (2, 3)))
    check(np.full(2, t[0], "f"), numpy.full(2, V[0], "f"))
    check(np.fromiter((x * 2.0 for x in t), float), V[:3] * 2.0)
    check(np.fromiter(t, "f", 2), V[:2].astype("f"))
    check(np.select([[True, False, True]], [[t[0], t[1], 1.0]], [u[0], u[1], u[2]]), [V[0], 2.0 * V[1], 1.0])
    objects = numpy.array([t[0], 1.0])
    check(np.asarray(objects), [V[0], 1.0])
    check(np.reshape([t[0], t[1]], (2, 1)), V[:2, None])


def test_vectorize():
    x = leaf(V)

    def check(found, expected):
        assert isinstance(found, tg.Tensor) and found.requires_grad and found.dtype == expected.dtype
        numpy.testing.assert_array_equal(plain(found), expected)

    check(np.vectorize(lambda v: v * v if v > 0.5 else 0.0)(x), numpy.where(V > 0.5, V * V, 0.0))
    check(np.vectorize(lambda a, b: a * b)(x, [[1], [2]]), V * [[1], [2]])
    check(np.vectorize(lambda a, b: a * b)([x[0], 1.0], b=2.0), 2.0 * numpy.array([V[0], 1.0]))
    check(np.vectorize(lambda a: a * 2.0, otypes="f")(x), (V * 2.0).astype("f"))
    check(np.vectorize(lambda a, p: np.polyval(p, a), excluded=[1, "p"])(x, [1.0, 2.0]), V + 2.0)
    check(np.vectorize(lambda a, p: np.sum(p) * a, excluded=["p"])(2.0, p=x), numpy.asarray(2.0 * V.sum()))
    check(np.vectorize(lambda a: a * x[0])(V), V * V[0])
    first, second = np.vectorize(lambda a: (a + 1.0, 2))(x)
    check(first, V + 1.0)
    assert same(second, numpy.full(5, 2))
    products, scaled = np.vectorize(lambda a, b: (a @ b, a * b[0]), signature="(n),(n)->(),(n)")([x[:2], x[2:4]], V[:2])
    numpy.testing.assert_allclose(plain(products), V[:4].reshape(2, 2) @ V[:2])
    check(scaled, V[:4].reshape(2, 2) * V[0])
    check(np.vectorize(lambda a: a[::-1] * 2.0, signature="(n)->(n)")(x), V[::-1] * 2.0)
    check(np.vectorize(lambda a: np.array([a, 1.0]), signature="()->(m)")(x), numpy.stack([V, numpy.ones(5)], 1))

    @np.vectorize
    def shifted(v):
        """Its own text."""
        return v + 1.0

    check(shifted(x), V + 1.0)
    assert shifted.__doc__ == "Its own text." and isinstance(shifted, numpy.vectorize)
    with pytest.raises(tg.errors.DtypeError, match="rounded"):
        np.vectorize(lambda v: v, otypes=[int])(x)


def test_functions_of_functions_that_have_tensors_from_outside():
    w, a = V[:3], numpy.arange(6.0).reshape(2, 3)

    def along(w):
        return np.sum(np.apply_along_axis(lambda row: row * w, 1, a) ** 2) + np.sum(np.apply_along_axis(lambda row: row @ w, 1, a))

    def pieces(w):
        return np.sum(np.piecewise(numpy.array([0.2, 0.8]), [numpy.array([True, False])], [lambda v: v * w[0], lambda v: w[1] + v]))

    numpy.testing.assert_allclose(tg.grad(along)(w), 2.0 * w * (a**2).sum(0) + a.sum(0))
    numpy.testing.assert_allclose(tg.grad(pieces)(w), [0.2, 1.0, 0.0])


def test_wrong_input():
    t = leaf(V)
    for call, error, message in (
        (lambda: np.array([t, t[:2]]), ValueError, "shape"),
        (lambda: np.concatenate([[t[0]], t.reshape(5, 1)]), ValueError, "dimension"),
        (lambda: np.sum([t, t], axis=2), ValueError, "axis"),
        (lambda: np.sort_complex(t), UnsupportedFunctionError, "no order"),
        (lambda: np.fft.rfft([t[0], t[1] * 1j]), TypeError, "real signals"),
        (lambda: np.fft.fft(t, out=numpy.zeros(5)), UnsupportedFunctionError, "out="),
        (lambda: np.unique([t[0], t[1]]), UnsupportedFunctionError, "exact equality"),
        (lambda: np.roots([t[0], t[1]]), UnsupportedFunctionError, "no rules"),
        (lambda: np.array([t[0], 1.0], dtype=int), tg.errors.DtypeError, "rounded"),
        (lambda: np.zeros(3).__setitem__(0, t[0]), ValueError, "setting an array element"),
        (lambda: np.ones(t), (TypeError, LeaveTapeError), "integer"),
        (lambda: numpy.arange(t[0]), LeaveTapeError, "float"),
        (lambda: np.fromiter([t, t], float), ValueError, "one axis of numbers"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()


def test_instructions_belong_to_the_line_that_calls():
    def lines(np):
        t, v = leaf(0.5), leaf(V)
        with tg.Tape() as tape:
            y = np.sin(t * 2.0)
            y = np.add(y, t)
            y = np.maximum(y, 0.3)
            np.sum(np.exp(v), axis=0)
        return [tape.store.place(i.slot).text for i in tape.instructions]

    assert lines(np) == lines(numpy)

    def decided(x):
        y = np.sin(x)
        return np.cos(y) if y > 0.3 else y

    g = tg.jit(tg.grad(decided))
    assert g(1.0) == g(1.0) == tg.grad(decided)(1.0)
    assert g(0.1) == pytest.approx(numpy.cos(0.1))
    assert str(g.tape(1.0)).count("test_names.py") == 4
