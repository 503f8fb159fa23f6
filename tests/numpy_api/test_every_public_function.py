"""Every public function of NumPy, and math.*, called with tensors: a right answer or a clear refusal.

The functions are found by NumPy itself, so a new one in a new NumPy fails here until
it is given a call below (where a generated one does not do), and a rule or a line in
`tapegrad.numpy_api.refused`.
"""

import inspect
import math

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.complex import ComplexTensor
from tapegrad.common.errors import LeaveTapeError, UnsupportedFunctionError
from tapegrad.numpy_api.dispatch import name_of
from tapegrad.numpy_api.refused import REFUSED, WITHOUT_DERIVATIVE
from tests.every import every
from tests.rules.checker import leaf, plain

overrides = pytest.importorskip("numpy.testing.overrides")

V = np.array([0.7, 0.2, 1.3, 0.45, 0.9])
A = np.array([[0.31, 0.62, 0.17], [0.83, 0.29, 0.54]])
S = np.array([[2.1, 0.3, 0.4], [0.3, 1.7, 0.2], [0.4, 0.2, 1.4]])
C = np.arange(1, 25).reshape(2, 3, 4) / 10 + 0.013 * np.arange(24).reshape(2, 3, 4) % 7
POS = np.array([1, 0, 2])
MASK = A > 0.5

#: Results without a derivative of functions that have several: name -> positions.
PLAIN_PARTS = {"numpy.linalg.slogdet": (0,)}  # the sign is piecewise constant

#: Function -> arguments, one or more calls: float arrays become tensors that require a
#: gradient, everything else (ints, masks, numbers, strings) stays what it is.
CALLS = {
    # shapes
    "reshape": [(A, (3, 2)), (A, (3, 2), "F"), (A, -1)], "ravel": [(A,), (A.T, "K")], "transpose": [(A,), (C, (1, 2, 0))],
    "swapaxes": [(A, 0, 1)], "moveaxis": [(C, 0, -1)], "rollaxis": [(C, 2)], "squeeze": [(A[None],)], "expand_dims": [(A, (0, 2))],
    "broadcast_to": [(V, (2, 5))], "broadcast_arrays": [(A, A[:1])], "resize": [(A, (4, 2))], "astype": [(A, float)],
    # joining and cutting
    "concatenate": [([A, A],)], "stack": [([A, A, A * 2],), ([A, 2 * A], 1)], "vstack": [([A, A],)], "hstack": [([A, A],)], "dstack": [([A, A],)],
    "column_stack": [([V, V],)], "block": [([[A, A], [A, A]],)], "append": [(A, V)], "insert": [(V, [1, 3], 2.0), (V, 2, V[:2])],
    "delete": [(V, 1)], "split": [(V, [1, 3])], "array_split": [(V, 2)], "hsplit": [(A, 3)], "vsplit": [(A, 2)], "dsplit": [(C, 2)],
    # moving
    "tile": [(A, (2, 2))], "repeat": [(A, 2, 1)], "roll": [(A, 1, 0)], "pad": [(A, 1), (A, ((1, 0), (0, 2)), "edge")],
    "numpy.lib.stride_tricks.sliding_window_view": [(V, 3)], "rot90": [(A,)],
    # selecting
    "take": [(V, [1, 1, 4])], "take_along_axis": [(A, np.array([[0, 2], [1, 1]]), 1)], "choose": [(POS % 2, [V[:3], V[1:4]])],
    "select": [([MASK, ~MASK], [A, A * 2])], "where": [(MASK, A, 2 * A)], "extract": [(MASK, A)], "compress": [([True, False], A)],
    "piecewise": [(V, [V < 0.5, V >= 0.5], [np.sin, np.cos])], "apply_along_axis": [(np.sum, 0, A)], "apply_over_axes": [(np.sum, C, [0, 2])],
    "linalg.diagonal": [(S,)], "linalg.trace": [(S,)], "diagonal": [(S,)], "trace": [(S,)], "meshgrid": [(V, V[:2])], "ix_": [(V, V[:2])],
    "partition": [(V, 2)], "argpartition": [(V, 2)], "full_like": [(A, 2.0)], "trim_zeros": [(V,)], "full": [((2,), 3.0)],
    # writing
    "fill_diagonal": [(1.0 * S, 2.0)], "put": [(V, [0, 1], 2.0)], "place": [(A, MASK, [1.0, 2.0])], "putmask": [(A, MASK, 1.0)],
    "put_along_axis": [(A, np.array([[0], [1]]), 3.0, 1)], "copyto": [(A, 2.0)],
    # plain values
    "searchsorted": [(np.sort(V), V)], "digitize": [(V, np.sort(V))], "isin": [(V, V[:2])], "allclose": [(A, A)], "isclose": [(A, A)],
    "array_equal": [(A, A)], "array_equiv": [(A, A)], "lexsort": [((V, V),)], "can_cast": [(A.dtype, "f")], "shares_memory": [(A, A)],
    "may_share_memory": [(A, A)], "diag_indices_from": [(S,)], "tril_indices_from": [(S,)], "triu_indices_from": [(S,)],
    "ravel_multi_index": [((POS, POS), (3, 3))], "unravel_index": [(POS, (3, 3))], "bincount": [(POS, V[:3])],
    # reductions
    "quantile": [(V, 0.3)], "percentile": [(V, 30)], "nanquantile": [(V, 0.3)], "nanpercentile": [(V, 30)], "clip": [(A, 0.2, 0.5)],
    "average": [(A,), (V, None, 2 * V)], "cumulative_sum": [(V,)], "cumulative_prod": [(V,)], "histogram": [(V,)],
    # products
    "dot": [(A, S)], "inner": [(V, V)], "outer": [(V, V)], "vdot": [(V, V)], "tensordot": [(A, S, 1)], "einsum": [("ij,jk", A, S)],
    "einsum_path": [("ij,jk", A, S)], "kron": [(A, A)], "cross": [(S, S[::-1])], "convolve": [(V, V)], "correlate": [(V, V)],
    "interp": [(V[:2], [0.0, 1.0, 2.0, 3.0, 4.0], V)], "polyval": [(V, V)], "polyfit": [(V, V**2, 2)], "polyadd": [(V, V)], "polysub": [(V, 2 * V)],
    "polymul": [(V, V)], "polydiv": [(V, V[:2])], "linspace": [(V, 2 * V, 4)], "logspace": [(V, 2 * V, 4)], "geomspace": [(V, 2 * V, 4)],
    "linalg.cross": [(S, S[::-1])], "linalg.outer": [(V, V)], "linalg.tensordot": [(S, S)], "linalg.matmul": [(A, S)], "linalg.vecdot": [(V, V)],
    "linalg.solve": [(S, V[:3])], "linalg.lstsq": [(S, V[:3], None)], "linalg.matrix_power": [(S, 3)], "linalg.multi_dot": [([A, S, S],)],
    "linalg.tensorinv": [(S, 1)], "linalg.tensorsolve": [(S, V[:3])], "matmul": [(A, S)], "matvec": [(A, V[:3])], "vecmat": [(V[:2], A)],
    "vecdot": [(V, V)],
    # sets, histograms, bits
    "intersect1d": [(V, V)], "setdiff1d": [(V, V)], "setxor1d": [(V, V)], "union1d": [(V, V)], "histogram2d": [(V, V)], "packbits": [(V,)],
    "unpackbits": [(V,)], "require": [(V,)], "save": [("_", V)], "savetxt": [("_", V)], "savez": [("_", V)], "savez_compressed": [("_", V)],
    # ufuncs
    "ldexp": [(V, POS[0])], "arccosh": [(V + 1.5,)], "heaviside": [(V, 0.5)], "numpy.lib.scimath.logn": [(2.0, V)], "numpy.lib.scimath.power": [(V, 2.0)],
    "arcsin": [(V / 2,)], "arccos": [(V / 2,)], "arctanh": [(V / 2,)], "numpy.lib.scimath.arcsin": [(V / 2,)], "numpy.lib.scimath.arccos": [(V / 2,)],
    "numpy.lib.scimath.arctanh": [(V / 2,)], "equal": [(V, V)], "remainder": [(V, V[::-1] * 1.1)], "fmod": [(V, V[::-1] * 1.1)], "floor_divide": [(V, V[::-1] * 1.1)],
    "divmod": [(V, V[::-1] * 1.1)], "maximum": [(V, V[::-1] * 1.1)], "minimum": [(V, V[::-1] * 1.1)], "fmax": [(V, V[::-1] * 1.1)], "fmin": [(V, V[::-1] * 1.1)],
}  # fmt: skip

#: Not about numbers, or not called with arrays: strings, dates, files, structured dtypes, names without a user.
SKIPPED = {
    "busday_count", "busday_offset", "is_busday", "datetime_as_string", "frombuffer", "fromfile", "fromfunction", "fromiter",
    "fromstring", "genfromtxt", "loadtxt", "isnat", "in1d",  # the last is an old name of isin, gone in NumPy 2.4
}  # fmt: skip
#: Functions that make arrays without taking one: tensors reach them through like= only.
CREATION = {"arange", "array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "empty", "eye", "identity", "ones", "tri", "zeros", "full", "require"}

#: Not numpy.char, numpy.rec, numpy.ma: text, records, and arrays of another kind.
MODULES = {"numpy", "numpy.linalg", "numpy.fft", "numpy.lib.scimath", "numpy.lib.stride_tricks"}
assert np.lib.scimath and np.lib.stride_tricks  # imported, so that NumPy finds their functions


def _public():
    found = {}
    for function in [*overrides.get_overridable_numpy_array_functions(), *vars(np.fft).values(), *vars(np.linalg).values()]:
        name = name_of(function)
        if callable(function) and hasattr(function, "__wrapped__") | hasattr(function, "_implementation") and name.startswith("numpy."):
            found[name] = function
    for ufunc in overrides.get_overridable_numpy_ufuncs():
        if getattr(np, ufunc.__name__, None) is ufunc:
            found[f"numpy.{ufunc.__name__}"] = ufunc
    return {
        name: function
        for name, function in found.items()
        if name.rpartition(".")[0] in MODULES and name.rpartition(".")[2] not in SKIPPED | CREATION
    }


PUBLIC = _public()


def calls_of(name, function):
    found = CALLS.get(name) or CALLS.get(name.removeprefix("numpy."))
    if found:
        return found
    if isinstance(function, np.ufunc):
        if function.types[0].split("->")[0].strip("?") == "" or all(set(t.split("->")[0]) <= set("?bBhHiIlLqQmMO") for t in function.types):
            return [(np.array([1, 2, 3]),) * function.nin]
        return [(V, V * 1.7)[: function.nin]] if function.nin <= 2 else [(V, 0.3 * V, V * 1.7)]
    return [(S,)] if "linalg" in name else [(A,)] if name not in {"numpy.vander", "numpy.poly", "numpy.roots"} else [(V,)]


def floats_of(thing, found):
    if isinstance(thing, np.ndarray) and thing.dtype.kind == "f":
        found.append(thing)
    elif isinstance(thing, (list, tuple)):
        for x in thing:
            floats_of(x, found)
    return found


def replaced(thing, values):
    """`thing` with its float arrays taken from the iterator `values`."""
    if isinstance(thing, np.ndarray) and thing.dtype.kind == "f":
        return next(values)
    if isinstance(thing, (list, tuple)):
        return type(thing)(replaced(x, values) for x in thing)
    return thing


def parts(result):
    """The arrays of a result, in order."""
    if isinstance(result, (list, tuple)):
        return [p for r in result for p in parts(r)]
    return [result]


def ids():
    return [(name, k) for name in sorted(PUBLIC) for k in range(len(calls_of(name, PUBLIC[name])))]


WRITING = {"numpy.copyto", "numpy.fill_diagonal", "numpy.put", "numpy.place", "numpy.putmask", "numpy.put_along_axis"}


def run(name, call, values):
    args = replaced(call, iter(values))
    if name in WRITING:
        target = args[0] * 1.0
        PUBLIC[name](target, *args[1:])
        return target
    return PUBLIC[name](*args)


#: Of Fourier transforms and eigenvalues, those that give real arrays of real ones.
PARTS_ARE_REAL = {
    "numpy.fft.irfft", "numpy.fft.irfft2", "numpy.fft.irfftn", "numpy.fft.hfft", "numpy.fft.fftshift", "numpy.fft.ifftshift", "numpy.fft.fftfreq",
    "numpy.fft.rfftfreq", "numpy.linalg.eigh", "numpy.linalg.eigvalsh",
}  # fmt: skip


def real(results, always=False):
    """Results with the parts of complex ones, or of all, in their place."""
    split = []
    for r in results:
        if isinstance(r, ComplexTensor) or always or np.iscomplexobj(r) and not isinstance(r, (str, type, np.dtype)):
            split += [r.real, r.imag]
        else:
            split.append(r)
    return split


@pytest.mark.filterwarnings("ignore")
@every("name, number", ids())
def test_function(name, number):
    call = calls_of(name, PUBLIC[name])[number]
    arrays = floats_of(call, [])
    leaves = [leaf(a.copy()) for a in arrays]
    try:
        result = run(name, call, leaves)
    except (UnsupportedFunctionError, LeaveTapeError) as error:
        assert name in REFUSED, f"{name} is refused without a line in tapegrad.numpy_api.refused"
        assert name.split(".")[-1] in str(error) and REFUSED[name] in str(error)
        return
    assert name not in REFUSED, f"{name} works: remove its line from tapegrad.numpy_api.refused"
    with np.errstate(all="ignore"):
        expected = parts(run(name, call, [a.copy() for a in arrays]))
    found = real(parts(result))
    expected = real(expected, always=any(isinstance(f, ComplexTensor) for f in parts(result)))
    assert len(found) == len(expected)
    for k, (f, e) in enumerate(zip(found, expected)):
        if isinstance(e, (str, type, np.dtype, bool)) or e is None:
            assert f == e
            continue
        assert np.shape(plain(f)) == np.shape(e)
        if name != "numpy.empty_like":
            np.testing.assert_allclose(plain(f), e, rtol=1e-12, atol=1e-14)
        tracked = isinstance(f, tg.Differentiable) and f.requires_grad
        if name in WITHOUT_DERIVATIVE or k in PLAIN_PARTS.get(name, ()):
            assert not tracked
        elif arrays:
            assert tracked or np.size(e) == 0 or np.asarray(e).dtype.kind in "iub", f"{name} loses the derivative"
    check_derivative(name, call, arrays, leaves, found)


def check_derivative(name, call, arrays, leaves, found):
    which = [k for k, f in enumerate(found) if isinstance(f, tg.Differentiable) and f.requires_grad]
    found = [found[k] for k in which]
    if not found:
        return
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(f.shape) for f in found]
    sum((w * f).sum() for w, f in zip(weights, found)).backward()
    ways = [rng.standard_normal(a.shape) for a in arrays]
    if name in {"numpy.linalg.cholesky", "numpy.linalg.eigh", "numpy.linalg.eigvalsh"}:
        ways = [(d + d.T) / 2 for d in ways]
    exact = sum(float(np.sum(plain(t.grad) * d)) for t, d in zip(leaves, ways) if t.grad is not None)

    def side(step):
        with np.errstate(all="ignore"):
            results = parts(run(name, call, [a + step * d for a, d in zip(arrays, ways)]))
            results = real(results, always=name.startswith(("numpy.fft.", "numpy.linalg.eig")) and name not in PARTS_ARE_REAL)
        return sum(float(np.sum(w * results[k])) for w, k in zip(weights, which))

    measured = (side(1e-6) - side(-1e-6)) / 2e-6
    assert abs(exact - measured) < 1e-6 * (1 + abs(exact) + abs(measured)), (exact, measured)


def test_every_line_is_about_a_function_that_exists_or_did():
    assert not set(REFUSED) & set(WITHOUT_DERIVATIVE)
    for reasons in (REFUSED, WITHOUT_DERIVATIVE):
        for name, reason in reasons.items():
            assert name.startswith(("numpy.", "scipy.")) and len(reason) > 10 and not reason.endswith(".")


def _takes_like(name):
    try:
        return "like" in str(inspect.signature(getattr(np, name)))
    except ValueError:  # no signature before NumPy 2.4
        return False


@pytest.mark.parametrize("name", sorted(n for n in CREATION - {"require", "full", "arange"} if _takes_like(n)))
def test_creation_like_a_tensor(name):
    function = getattr(np, name)
    argument = [1.0, 2.0] if name.startswith("a") else 2
    found = function(argument, like=leaf(V))
    assert isinstance(found, tg.Differentiable) and found.shape == function(argument).shape


# ---- math ------------------------------------------------------------------------------

#: Arguments of the functions of math, where one number will not do.
MATH = {
    **dict.fromkeys(("atan2", "copysign", "fmod", "isclose", "log", "nextafter", "pow", "remainder", "hypot"), (0.5, 1.5)),
    **dict.fromkeys(("comb", "gcd", "lcm", "perm"), (5, 3)), "fma": (0.5, 1.5, 2.5), "ldexp": (0.5, 2), "factorial": (5,), "isqrt": (5,),
    "dist": ([0.5, 1.5], [1.0, 2.0]), "fsum": ([0.5, 1.5],), "prod": ([0.5, 1.5],), "sumprod": ([0.5, 1.5], [1.0, 2.0]),
    "acosh": (1.5,), "fmax": (0.5, 1.5), "fmin": (0.5, 1.5),
}  # fmt: skip


@every("name", [n for n, f in vars(math).items() if callable(f) and not n.startswith("_")])
def test_math(name):
    function = getattr(math, name)
    args = MATH.get(name, (0.5,))

    def tensors(thing):
        if isinstance(thing, list):
            return [tensors(x) for x in thing]
        return leaf(thing) if isinstance(thing, float) else tg.tensor(thing)

    given = [tensors(a) for a in args]
    try:
        found = function(*given)
    except LeaveTapeError as error:
        assert "derivative" in str(error)
        return
    expected = function(*args)
    if isinstance(expected, float):
        assert isinstance(found, tg.Differentiable) and found.requires_grad
    np.testing.assert_allclose(plain(found), expected)
