"""Which functions of SciPy are mirrored, and how a call reaches SciPy or the mirror.

`MIRRORS` is the one table: `mirror` marks the functions of this package with it,
and `advice` reads it to name the mirror in the error that a tensor raises when
SciPy's own function turns it into an array.  Nothing here imports SciPy before
it is needed.
"""

import functools
import inspect
import itertools
import operator
import sys

import numpy as np

from ..array.complex import split
from ..array.differentiable import package_of
from ..array.functions import lift
from ..array.objects import holds_tensors, operand
from ..array.record import guard_on
from ..autograd.nested import current_trace
from ..common.errors import InternalError, UnsupportedFunctionError
from ..common.public import only_public
from ..common.uninterrupted import imported
from ..numpy_api.products import all_finite

#: Module of SciPy -> names mirrored in ``tapegrad.<module>``.
MIRRORS = {
    "scipy.special": ("log_softmax", "logsumexp", "multigammaln", "polygamma", "softmax"),
    "scipy.linalg": (
        "block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigvalsh", "expm", "inv", "norm",
        "pinv", "qr", "solve", "solve_banded", "solve_sylvester", "solve_triangular", "sqrtm", "svd", "svdvals", "toeplitz",
    ),
    "scipy.fft": (
        "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
    ),
    "scipy.signal": ("convolve", "correlate", "fftconvolve", "hilbert", "lfilter", "oaconvolve", "savgol_filter", "sosfilt"),
    "scipy.integrate": ("cumulative_trapezoid", "fixed_quad", "odeint", "quad", "simpson", "solve_ivp", "trapezoid"),
    "scipy.interpolate": ("BSpline", "CubicSpline", "PchipInterpolator", "RegularGridInterpolator", "make_interp_spline"),
    "scipy.ndimage": ("gaussian_filter", "gaussian_filter1d", "map_coordinates"),
    "scipy.optimize": ("rosen",),
    "scipy.sparse": ("coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix"),
    "scipy.sparse.linalg": ("splu", "spsolve"),
    "scipy.spatial.distance": ("cdist", "pdist"),
    "scipy.stats": (
        "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gaussian_kde", "geom", "gumbel_l",
        "gumbel_r", "halfnorm", "invgamma", "laplace", "logistic", "lognorm", "multinomial", "multivariate_normal", "nbinom", "norm",
        "pareto", "poisson", "rayleigh", "skewnorm", "t", "truncnorm", "uniform", "vonmises", "weibull_min", "wishart",
    ),
}  # fmt: skip


def differentiable(*things):
    """Whether one of the things, or something in a list or dict of them, stands for an array without being one.

    These are tensors, whether or not they require a gradient, and whatever else takes part in NumPy's functions by the
    protocol ``__array_function__``; plain numbers and arrays go to SciPy.
    """
    for thing in things:
        if isinstance(thing, (list, tuple, dict)):
            found = differentiable(*(thing.values() if isinstance(thing, dict) else thing))
        elif isinstance(thing, np.ndarray):
            found = holds_tensors(thing)
        else:
            found = hasattr(type(thing), "__array_function__") and not isinstance(thing, np.generic)
        if found:
            return True
    return False


def array(thing):
    """`thing` as an array or tensor of floats or complex numbers; lists of tensors are stacked."""
    thing = operand(thing)
    result = thing if differentiable(thing) else np.asarray(thing)
    return result if result.dtype.char in "fdFD" else result.astype(float)


def value(thing):
    """The numbers in `thing`, as an ndarray: what decides about steps and cases, and has no derivative."""
    thing = operand(thing)
    while differentiable(thing):
        thing = thing.detach().numpy()
    return np.asarray(thing)


def plainly(thing):
    """A result without derivative as plain numbers, unless they may differ in a replay of what is being recorded."""
    if current_trace() is not None or getattr(thing, "requires_grad", not isinstance(thing, np.ndarray)):
        return thing
    numbers = value(thing)
    return numbers if numbers.ndim else numbers.item()


def constant(thing, function, argument, why):
    """The numbers in an argument that has no derivative; one that asks for a derivative raises."""
    if differentiable(thing):
        if isinstance(thing, (list, tuple)):
            return np.stack([constant(part, function, argument, why) for part in thing])
        if getattr(thing, "requires_grad", True):
            raise UnsupportedFunctionError(
                f"{function} has no derivative in its argument {argument}: {why}. Give it a plain number or array, or "
                "leave the tape on purpose with .detach()"
            )
    return value(thing)


def finite(check, *things):
    """SciPy's ``check_finite``: ValueError if a value is infinite or NaN."""
    parts = [part for thing in things for part in (split(thing) or (thing,))] if check else ()
    if not all(guard_on(all_finite(), part) for part in parts):
        raise ValueError("array must not contain infs or NaNs")


def combined(factors, arrays):
    """The sum of the arrays with these factors; zeros are left out."""
    return functools.reduce(operator.add, [array if factor == 1.0 else float(factor) * array for factor, array in zip(factors, arrays) if factor])


def along(x, axis, function):
    """``function`` of an array, linear but for a constant and along the first axis, applied to a tensor along `axis`: by its matrix, which is sparse."""
    moved = np.moveaxis(x, axis, 0)
    n = moved.shape[0]
    constant_part = function(np.zeros((n, 1)))
    matrix = imported("scipy.sparse").csr_array(function(np.eye(n)) - constant_part)
    filtered = matrix @ np.reshape(moved, (n, -1)) + constant_part
    return in_dtype(np.moveaxis(np.reshape(filtered, (-1, *moved.shape[1:])), 0, axis), x)


def in_dtype(result, samples):
    """A result in the dtype of the samples, as SciPy's; of integers it stays float64."""
    return result.astype(samples.dtype, copy=False) if samples.dtype.kind in "fc" else result


def weighted(table, parts):
    """Sums of elements of a table, by products of weights: `parts` has, for each of its first axes, pairs of positions and weights."""
    rest = table.shape[len(parts) :]
    rows, total = lift(np.reshape(table, (-1, *rest))), 0.0
    for corner in itertools.product(*parts):
        place, weight = 0, 1.0
        for size, (position, share) in zip(table.shape, corner):
            place, weight = place * size + position, weight * share
        total = total + np.reshape(weight, np.shape(weight) + (1,) * len(rest)) * rows[place]
    return total


def mirror(ours):
    """Decorator: plain arguments go to SciPy's function of the same name, in the module that ours stands for, tensors to our own."""
    name, home = ours.__name__, _home(ours.__module__.partition(".")[2])
    if name not in MIRRORS.get(home, ()):
        raise InternalError(f"{name} is missing in MIRRORS[{home!r}]")

    @functools.wraps(ours)
    def call(*args, **kwargs):
        if differentiable(args, kwargs):
            return ours(*args, **kwargs)
        return getattr(imported(home), name)(*args, **kwargs)

    return call


class Beside:
    """An object beside one of SciPy's, `theirs`, which answers plain arguments and has what is not mirrored; None where a derivative is in it."""

    theirs = None

    def __getattr__(self, attribute):
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        if self.theirs is None:
            own = ", ".join(name for name in dir(type(self)) if not name.startswith("_") and name != "theirs")
            raise UnsupportedFunctionError(f"a {type(self).__name__} of tensors has no {attribute!r}; it can be called, and has {own}")
        return getattr(self.theirs, attribute)


def of_theirs(method):
    """Decorator of a method of an object `Beside`: plain arguments go to that of SciPy's object."""

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if self.theirs is None or differentiable(args, kwargs):
            return method(self, *args, **kwargs)
        return getattr(self.theirs, method.__name__)(*args, **kwargs)

    return call


def names_of(module, *ours):
    """``__all__``, ``__dir__`` and ``__getattr__`` of a mirror: its own names and those it mirrors are listed, every other is SciPy's own object."""
    home = module.partition(".")[2]

    def find(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(imported(home), name)

    return [*ours, *MIRRORS.get(home, ())], only_public(module), find


#: Functions of SciPy that take a function -> what does their work with derivatives.
INSTEAD = {
    **dict.fromkeys(
        ("bisect", "brenth", "brentq", "fsolve", "newton", "newton_krylov", "ridder", "root", "root_scalar", "toms748"),
        "tg.implicit.root(F, x0, *args)",
    ),
    "fixed_point": "tg.implicit.fixed_point(F, x0, *args)",
    **dict.fromkeys(("minimize", "minimize_scalar", "fmin", "fmin_bfgs", "fmin_l_bfgs_b"), "tg.implicit.argmin(F, x0, *args)"),
    **dict.fromkeys(("least_squares", "leastsq", "curve_fit"), "tg.implicit.argmin(F, x0, *args), F half the sum of squares,"),
}


def advice(frame=None):
    """What to call for the function of SciPy that turns a tensor into an array (in `frame`, or now): its mirror, or what does its work here."""
    names = [name for frame in _frames_of_scipy(frame or sys._getframe(1)) for name in _names(frame)]
    if not names:
        return "look for SciPy's functions that take tensors in tapegrad.scipy"
    mirrors = [f"tapegrad.{home}.{name}{tail}" for home, name, tail in names if home != "scipy.sparse" and name in MIRRORS.get(home, ())]
    if mirrors:
        return f"call {mirrors[-1]}, which takes tensors"
    public = [(home, name) for home, name, _ in names if not home.startswith("scipy._") and not name.startswith(("_", "<"))]
    for home, name in reversed(public):
        if home == "scipy.optimize" and name in INSTEAD:
            return f"call {INSTEAD[name]} for scipy.optimize.{name}{', and differentiate by args' if 'args' in INSTEAD[name] else ''}"
    home, called = public[-1] if public else ("scipy", "this function")
    if home.startswith("scipy.sparse"):
        return (
            "of SciPy's sparse matrices write A @ t or t @ A, or call spsolve and splu of tapegrad.scipy.sparse.linalg; one with values on the "
            "tape is made by tapegrad.scipy.sparse.csr_array and its kin; "
            "anything else with a constant one can be made a primitive (tapegrad explain LeaveTapeError)"
        )
    return f"write {called} of {home} in functions of NumPy, or make it a primitive with a rule (tg.custom_vjp): tapegrad.scipy does not have it"


def _frames_of_scipy(frame):
    """The frames of SciPy nearest to the conversion, innermost first."""
    while package_of(frame) in ("tapegrad", "numpy"):
        frame = frame.f_back
    while package_of(frame) in ("scipy", "numpy"):
        yield frame
        frame = frame.f_back


def _names(frame):
    """What a frame of SciPy runs: (public module, name, method), the most telling last; a function, what it decorates, an object's class."""
    method, owner, wrapped = frame.f_code.co_name, frame.f_locals.get("self"), frame.f_locals.get("f")
    named = [(str(frame.f_globals.get("__name__")), method, "")]
    if inspect.isfunction(wrapped):
        named.append((wrapped.__module__, wrapped.__name__, ""))
    if owner is not None and not inspect.ismodule(owner):
        tail = "" if method.startswith("_") else f".{method}"
        kinds = [c.__name__.removesuffix("_gen") for c in reversed(type(owner).__mro__)]
        distribution = getattr(getattr(owner, "dist", owner), "name", None)
        named += [(type(owner).__module__, name, tail) for name in (*kinds, distribution) if isinstance(name, str)]
    return [(_home(module), name, tail) for module, name, tail in named]


def _home(module):
    """The public module of SciPy that `module` belongs to."""
    first = ".".join(module.split(".")[:3])
    return first if first in MIRRORS else first.rpartition(".")[0] if first.count(".") == 2 else first
