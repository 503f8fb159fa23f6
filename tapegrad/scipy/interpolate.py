"""Splines and tables of `scipy.interpolate` on tensors; every other name is SciPy's own.

C. de Boor, "A Practical Guide to Splines" (1978): the slopes of a cubic spline at the knots solve
a linear system, which is dense here (n knots take a matrix of n by n).
"""

import math

import numpy as np

from ..array import trees
from ..array.functions import lift
from ..array.record import guard_on
from ..common.errors import UnsupportedFunctionError
from ..common.host_functions import host_function
from ..common.uninterrupted import Lazily, cached_property
from ..numpy_api.products import all_finite
from .mirrors import Beside, along, array, differentiable, names_of, of_theirs, value, weighted

__all__, __dir__, __getattr__ = names_of(__name__)
_interpolate = Lazily("scipy.interpolate")


class PiecewisePolynomial(Beside):
    """A piecewise polynomial, as SciPy's ``PPoly``.

    Parameters
    ----------
    c : array-like, shape (k, m, ...)
        Coefficients of m pieces, those of the highest power first.
    x : array-like, shape (m + 1,)
        Breakpoints.
    extrapolate : bool or "periodic"
    axis : int
        Where the axis of evaluation is in the result.
    theirs : PPoly, optional
        SciPy's object, where all is plain: it answers plain questions.
    """

    def __init__(self, c, x, extrapolate=True, axis=0, theirs=None):
        self.c, self.x, self.extrapolate, self.axis, self.theirs = c, x, extrapolate, axis, theirs

    def _through(self, plain, x, y, live, slopes):
        """Be the cubics `plain` of SciPy's; if they are `live`, those through the points with certain slopes there.

        `slopes` gives them, by widths and slopes between the points.
        """
        c, knots, theirs = plain.c, plain.x, plain
        if live:
            knots, y, theirs = array(x), np.moveaxis(array(y), plain.axis, 0), None
            h = np.reshape(knots[1:] - knots[:-1], (y.shape[0] - 1,) + (1,) * (y.ndim - 1))
            slope = (y[1:] - y[:-1]) / h
            s = slopes(h, slope)
            t = (s[:-1] + s[1:] - 2.0 * slope) / h
            c = np.stack([t / h, (slope - s[:-1]) / h - t, s[:-1], y[:-1]])
        PiecewisePolynomial.__init__(self, c, knots, plain.extrapolate, plain.axis, theirs)

    def _reduced(self, x):
        """`x` brought into the first period, and how many periods away it was."""
        start, period = self.x[0], self.x[-1] - self.x[0]
        count = np.floor((x - start) / period)
        return x - count * period, count

    @of_theirs
    def __call__(self, x, nu=0, extrapolate=None):
        """The value, or the derivative of order `nu`, at points `x`; differentiable in `x`, knots and values.

        Parameters
        ----------
        x : array-like
        nu : int
            Order of the derivative, not negative.
        extrapolate : bool or "periodic", optional
            As given to the spline by default.  False: NaN outside the knots.
        """
        if nu < 0:
            raise ValueError("Order of derivative cannot be negative")
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        # (Positions may be live: then no plain array is indexed.)
        x, knots, c = array(x), lift(self.x), lift((self.derivative(nu) if nu else self).c)
        if extrapolate == "periodic":
            x, _ = self._reduced(x)
        piece = np.clip(np.searchsorted(knots, x, "right") - 1, 0, knots.shape[0] - 2)
        trailing = (1,) * (len(self.c.shape) - 2)
        local = np.reshape(x - knots[piece], x.shape + trailing)
        result = c[0][piece]
        for k in range(1, c.shape[0]):
            result = result * local + c[k][piece]
        if not extrapolate:
            inside = np.logical_and(x >= knots[0], x <= knots[-1])
            result = np.where(np.reshape(inside, x.shape + trailing), result, np.nan)
        return np.moveaxis(result, range(x.ndim), range(self.axis, self.axis + x.ndim)) if self.axis else result

    def derivative(self, nu=1):
        """The derivative of order `nu` as a piecewise polynomial."""
        if nu < 0:
            return self.antiderivative(-nu)
        theirs = None if self.theirs is None else self.theirs.derivative(nu)
        degree = self.c.shape[0] - 1
        c = 0.0 * self.c[:1] if nu > degree else np.stack([float(math.perm(degree - k, nu)) * self.c[k] for k in range(degree - nu + 1)])
        return PiecewisePolynomial(c, self.x, self.extrapolate, self.axis, theirs)

    def antiderivative(self, nu=1):
        """The continuous antiderivative that is 0 at the first knot."""
        if nu <= 0:
            return self.derivative(-nu)
        order, count = self.c.shape[0], self.c.shape[1]
        width = np.reshape(self.x[1:] - self.x[:-1], (count,) + (1,) * (len(self.c.shape) - 2))
        terms = [self.c[k] / float(order - k) for k in range(order)]
        whole = 0.0
        for term in terms:
            whole = (whole + term) * width
        start = np.cumsum(np.concatenate([0.0 * whole[:1], whole[:-1]]), axis=0)
        extrapolate = False if self.extrapolate == "periodic" else self.extrapolate
        theirs = None if self.theirs is None else self.theirs.antiderivative()
        polynomial = PiecewisePolynomial(np.stack([*terms, start]), self.x, extrapolate, self.axis, theirs)
        return polynomial if nu == 1 else polynomial.antiderivative(nu - 1)

    @of_theirs
    def integrate(self, a, b, extrapolate=None):
        """The integral from `a` to `b`, both of shape (); differentiable in both ends and in what the polynomial is made of."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        whole = self.antiderivative()
        a, b = array(a), array(b)
        if extrapolate != "periodic":
            return whole(b, extrapolate=extrapolate) - whole(a, extrapolate=extrapolate)
        (a, before), (b, after) = self._reduced(a), self._reduced(b)
        period = whole(self.x[-1], extrapolate=True) if after != before else 0.0
        return whole(b, extrapolate=True) - whole(a, extrapolate=True) + (after - before) * period


class CubicSpline(PiecewisePolynomial):
    """The twice differentiable piecewise cubic through given points, as SciPy's.

    Differentiable in the values `y`, the knots `x`, the values in `bc_type` and the
    points of evaluation.

    Parameters
    ----------
    x : array-like, shape (n,)
        Knots, strictly increasing.
    y : array-like
        Values, with n along `axis`.
    axis : int
    bc_type : str or pair
        "not-a-knot" (default), "natural", "clamped", "periodic", or one for each
        end, which may be ``(order, value)`` of the first or second derivative.
    extrapolate : bool or "periodic", optional

    Raises
    ------
    ValueError
        For what SciPy refuses: knots that do not increase, lengths that do not
        match, values that are not finite, unknown or contradictory conditions.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.interpolate import CubicSpline
    >>> y = tg.tensor([0.0, 1.0, 8.0, 27.0], requires_grad=True)
    >>> spline = CubicSpline([0.0, 1.0, 2.0, 3.0], y)
    >>> spline(1.5)
    tensor(3.3750, grad_fn=<AddBackward0>)
    >>> spline(1.5).backward()
    >>> y.grad
    tensor([-0.0625,  0.5625,  0.5625, -0.0625])
    """

    def __init__(self, x, y, axis=0, bc_type="not-a-knot", extrapolate=None):
        conditions = trees.map(lambda part: np.zeros(array(part).shape) if differentiable(part) else part, bc_type)
        # SciPy refuses what cannot be.
        plain = _interpolate.CubicSpline(_knots(x), _stand_in(y, axis if bc_type == "periodic" else None), axis, conditions, extrapolate)
        ends = [_NAMED.get(bc, (bc, 0.0)) if isinstance(bc, str) else bc for bc in ([bc_type] * 2 if isinstance(bc_type, str) else bc_type)]
        self._through(plain, x, y, differentiable(x, y, bc_type), lambda width, slope: _slopes(width, slope, ends))


class PchipInterpolator(PiecewisePolynomial):
    """The monotonic piecewise cubic through given points, as SciPy's: where the data do not overshoot, it does not.

    Differentiable in the values `y`, the knots `x` and the points of evaluation. F. N. Fritsch and J. Butland (1984): a slope is the weighted
    harmonic mean of its neighbours', and 0 where these differ in sign; there it has a kink.

    Parameters
    ----------
    x : array-like, shape (n,)
        Knots, strictly increasing.
    y : array-like
        Values, with n along `axis`.
    axis : int
    extrapolate : bool, optional

    Raises
    ------
    ValueError
        For what SciPy refuses.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.interpolate import PchipInterpolator
    >>> tg.grad(lambda y: PchipInterpolator([0.0, 1.0, 2.0], y)(0.5))(np.array([0.0, 1.0, 3.0])).round(4)
    array([ 0.4236,  0.6667, -0.0903])
    """

    def __init__(self, x, y, axis=0, extrapolate=None):
        # SciPy refuses what cannot be.
        self._through(_interpolate.PchipInterpolator(_knots(x), _stand_in(y), axis, extrapolate), x, y, differentiable(x, y), _monotonic)


class BSpline(Beside):
    """A spline by its coefficients in the basis of B-splines, as SciPy's.

    Differentiable in the coefficients `c` and the points of evaluation; the knots are constant.

    Parameters
    ----------
    t : array-like, shape (n + k + 1,)
        Knots, not decreasing.
    c : array-like
        Coefficients, with n along `axis`.
    k : int
        Degree.
    extrapolate : bool or "periodic"
        Whether the first and the last polynomial go on beyond ``t[k]`` and ``t[n]``; False: NaN there.
    axis : int

    Raises
    ------
    ValueError
        For what SciPy refuses.
    UnsupportedFunctionError
        For knots that are tensors.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.interpolate import BSpline
    >>> knots = [0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0]
    >>> tg.grad(lambda c: BSpline(knots, c, 2)(0.5))(np.ones(4))
    array([0.25 , 0.625, 0.125, 0.   ])
    """

    def __init__(self, t, c, k, extrapolate=True, axis=0):
        if differentiable(t):
            raise UnsupportedFunctionError("the knots of a BSpline are tensors: give plain numbers; CubicSpline can be differentiated in its knots")
        # SciPy refuses what cannot be.
        plain = _interpolate.BSpline(t, _stand_in(c), k, extrapolate, axis)
        self.t, self.c, self.k, self.extrapolate, self.axis, self.theirs = plain.t, plain.c, plain.k, plain.extrapolate, plain.axis, plain
        if differentiable(c):
            self.c, self.theirs = np.moveaxis(array(c), self.axis, 0), None

    @cached_property
    def _basis(self):
        """The knots of the pieces, and the coefficients there of each spline of the basis: they depend on no coefficients of this one."""
        k, n = self.k, len(self.t) - self.k - 1
        # (What a last piece of no length has, as of degree 0 through points, holds from there on.)
        places = [i for i in range(k, n) if self.t[i] < self.t[i + 1]] + [n] * bool(self.t[n - 1] == self.t[n])
        basis = _interpolate.BSpline(self.t, np.eye(n), k)
        return self.t[[*places, n]], np.stack([basis(self.t[places], m) / math.factorial(m) for m in range(k, -1, -1)])

    def _pieces(self):
        """The polynomials between knots, whose coefficients are linear in those of the spline."""
        knots, basis = self._basis
        *shape, n = basis.shape
        coefficients = np.reshape(basis, (-1, n)) @ np.reshape(self.c[:n], (n, -1))
        return PiecewisePolynomial(np.reshape(coefficients, (*shape, *self.c.shape[1:])), knots, self.extrapolate, self.axis)

    @of_theirs
    def __call__(self, x, nu=0, extrapolate=None):
        """The value, or the derivative of order `nu`, at points `x`."""
        return self._pieces()(x, nu, extrapolate)

    def _linear(self, of):
        """What `of` makes of a spline of SciPy's, linear in its coefficients."""
        if self.theirs is not None:
            return _spline(of(self.theirs))
        return _linear_spline(lambda c: of(_interpolate.BSpline(self.t, c, self.k, self.extrapolate)), np.moveaxis(self.c, 0, self.axis), self.axis)

    def derivative(self, nu=1):
        """The derivative of order `nu`, as a spline."""
        return self._linear(lambda spline: spline.derivative(nu))

    def antiderivative(self, nu=1):
        """The continuous antiderivative of order `nu`, which is 0 at the first knot."""
        return self._linear(lambda spline: spline.antiderivative(nu))

    @of_theirs
    def integrate(self, a, b, extrapolate=None):
        """The integral from `a` to `b`, both of shape (); without `extrapolate` the spline is 0 beyond its knots."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        if not extrapolate:
            ends = self.t[self.k], self.t[len(self.t) - self.k - 1]
            a, b = np.clip(array(a), *ends), np.clip(array(b), *ends)
        return self._pieces().integrate(a, b, extrapolate or True)


def make_interp_spline(x, y, k=3, t=None, bc_type=None, axis=0, check_finite=True):
    """The `BSpline` through given points, as SciPy's; differentiable in the values `y`.

    Parameters
    ----------
    x : array-like, shape (n,)
        Where the points are, increasing.
    y : array-like
        Values, with n along `axis`.
    k : int
    t : array-like, optional
        Knots.
    bc_type : str or pair
        As in SciPy; for tensors None or names ("natural", "clamped", "periodic", "not-a-knot").
    axis : int
    check_finite : bool

    Returns
    -------
    BSpline

    Raises
    ------
    ValueError
        For what SciPy refuses.
    UnsupportedFunctionError
        For `x`, `t` or conditions with numbers that are tensors, or beside values that are.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.interpolate import make_interp_spline
    >>> tg.grad(lambda y: make_interp_spline(np.arange(4.0), y)(1.5))(np.zeros(4))
    array([-0.0625,  0.5625,  0.5625, -0.0625])
    """
    if differentiable(x, t, bc_type):
        raise UnsupportedFunctionError("make_interp_spline is differentiable in y alone; CubicSpline is in its knots and conditions, too")
    if not differentiable(y):
        return _spline(_interpolate.make_interp_spline(x, y, k, t, bc_type, axis, check_finite))
    if not (bc_type is None or isinstance(bc_type, str) or all(one is None or isinstance(one, str) for one in bc_type)):
        raise UnsupportedFunctionError('make_interp_spline of tensors takes conditions by name ("natural", "clamped", ...); CubicSpline takes numbers')
    periodic = bc_type == "periodic"
    # SciPy refuses what cannot be.
    _interpolate.make_interp_spline(x, _stand_in(y, axis if periodic else None), k, t, bc_type, axis, check_finite)

    def through(y):
        # The last value of a period is the first.
        return _interpolate.make_interp_spline(x, np.concatenate([y[:-1], y[:1]]) if periodic else y, k, t, bc_type)

    return _linear_spline(through, array(y), axis)


def _linear_spline(of, values, axis):
    """The spline that `of` gives, whose coefficients are linear in `values`."""
    shape = of(np.zeros((values.shape[axis], 1)))
    return BSpline(shape.t, along(values, axis, lambda units: of(units).c), shape.k, shape.extrapolate, axis)


def _spline(plain):
    """A spline of SciPy's, as one of ours."""
    return BSpline(plain.t, np.moveaxis(plain.c, 0, plain.axis), plain.k, plain.extrapolate, plain.axis)


@host_function
def _increasing(x):
    return bool(x.ndim == 1 and np.isfinite(x).all() and (np.diff(x) > 0).all())


def _knots(x):
    """What SciPy looks at in place of knots: of tensors that increase, others."""
    return np.arange(1.0 * array(x).shape[0]) if differentiable(x) and guard_on(_increasing(), array(x)) else value(x)


def _stand_in(y, axis=None):
    """What SciPy looks at in place of `y`: of tensors their shape, as numbers that are let out would be guarded in a recording.

    If along the `axis` of a period the last value is not the first, it looks at the numbers, and refuses them.
    """
    if not differentiable(y):
        return y
    y = array(y)
    if not guard_on(all_finite(), y):
        raise ValueError("`y` must contain only finite values.")
    periodic = axis is None or np.allclose(np.take(y, 0, axis), np.take(y, -1, axis), atol=1e-15, rtol=1e-15)
    return np.zeros(y.shape) if periodic else value(y)


def _monotonic(h, slope):
    """The slopes of Fritsch and Butland at the knots."""
    if slope.shape[0] == 1:
        return np.concatenate([slope, slope])
    one, two = 2.0 * h[1:] + h[:-1], h[1:] + 2.0 * h[:-1]
    alike = np.sign(slope[1:]) * np.sign(slope[:-1]) > 0.0
    before, after = (np.where(alike, part, 1.0) for part in (slope[:-1], slope[1:]))
    inner = np.where(alike, before * ((one + two) / (one + two * (before / after))), 0.0)
    # At both ends: of three points and without overshooting (as SciPy's).
    h, h2, slope, slope2 = (of[at] for of in (h, slope) for at in ([0, -1], [1, -2]))
    s = ((2.0 * h + h2) * slope - h * slope2) / (h + h2)
    turned, steep = np.sign(s) != np.sign(slope), np.logical_and(np.sign(slope) != np.sign(slope2), np.abs(s) > 3.0 * np.abs(slope))
    ends = np.where(turned, 0.0, np.where(steep, 3.0 * slope, s))
    return np.concatenate([ends[:1], inner, ends[1:]])


class RegularGridInterpolator(Beside):
    """Interpolation in a table on a grid, as SciPy's; with tensors "linear" and "nearest".

    Differentiable in the `values` and, where it is linear, in the points of evaluation; the grid is constant.

    Parameters
    ----------
    points : tuple of array-like, shapes (n_1,), ..., (n_d,)
        The grid, strictly increasing or decreasing along each dimension.
    values : array-like, shape (n_1, ..., n_d, ...)
    method : {"linear", "nearest"}
    bounds_error : bool
        Whether a point outside of the grid is an error, which names the dimension.
    fill_value : float or None
        The value outside, without `bounds_error`; None extrapolates.

    Raises
    ------
    ValueError
        For what SciPy refuses.
    UnsupportedFunctionError
        For methods whose derivative is not known.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.interpolate import RegularGridInterpolator
    >>> table = RegularGridInterpolator(([0.0, 1.0], [0.0, 2.0]), np.array([[0.0, 2.0], [3.0, 9.0]]))
    >>> tg.grad(lambda at: np.sum(table(at)))(np.array([[0.5, 1.0]]))
    array([[5., 2.]])
    """

    def __init__(self, points, values, method="linear", bounds_error=True, fill_value=np.nan, *, solver=None, solver_args=None):
        # SciPy refuses what cannot be.
        looked_at, options = np.zeros(array(values).shape) if differentiable(values) else values, {"solver": solver, "solver_args": solver_args}
        plain = _interpolate.RegularGridInterpolator(tuple(map(value, points)), looked_at, method, bounds_error, fill_value, **options)
        # SciPy's grid increases, so that values along axes that were given in falling order stand the other way round.
        falling = [k for k, given in enumerate(map(value, points)) if given[0] > given[-1]]
        self.grid, self.method, self.theirs = plain.grid, method, None if differentiable(values) else plain
        self.values = np.flip(array(values), falling) if falling else values
        self.bounds_error, self.fill_value = bounds_error, fill_value

    @of_theirs
    def __call__(self, xi, method=None):
        """The values at points of shape (..., d)."""
        method = self.method if method is None else method
        if method not in ("linear", "nearest"):
            raise UnsupportedFunctionError(f"RegularGridInterpolator of tensors is linear or nearest, not {method!r}")
        if isinstance(xi, tuple):
            xi = np.stack(np.broadcast_arrays(*map(array, xi)), axis=-1)
        xi, values, axes = array(xi), array(self.values), len(self.grid)
        xi = np.reshape(xi, (-1, axes)) if xi.ndim == 1 else xi
        if xi.shape[-1] != axes:
            raise ValueError(f"The requested sample points xi have dimension {xi.shape[-1]} but this RegularGridInterpolator has dimension {axes}")
        outside, parts = False, []
        for k, points in enumerate(self.grid):
            at = xi[..., k]
            beyond = np.logical_or(at < points[0], at > points[-1])
            if self.bounds_error and np.any(np.logical_or(beyond, np.isnan(at))):
                raise ValueError(f"One of the requested xi is out of bounds in dimension {k}")
            outside = np.logical_or(outside, beyond)
            below = np.clip(np.searchsorted(points, at, "right") - 1, 0, len(points) - 2)
            # (Positions may be live: then no plain array is indexed.)
            low, high = lift(points[:-1])[below], lift(points[1:])[below]
            share = (at - low) / (high - low)
            if method == "nearest":
                share = np.where(share <= 0.5, 0.0, np.where(np.isnan(at), np.nan, 1.0))
            parts.append([(below, 1.0 - share), (below + 1, share)])
        found = weighted(values, parts)
        if not self.bounds_error and self.fill_value is not None:
            outside = np.logical_and(outside, np.logical_not(np.any(np.isnan(xi), axis=-1)))
            found = np.where(np.reshape(outside, outside.shape + (1,) * (values.ndim - axes)), self.fill_value, found)
        return found


#: Conditions by name that are derivatives: order and value.
_NAMED = {"clamped": (1, 0.0), "natural": (2, 0.0)}
#: The pieces at the ends, and those beside them.
_FIRST, _LAST = (slice(0, 1), slice(1, 2)), (slice(-1, None), slice(-2, -1))
#: What a condition is about, for piece `k` at an end and the next one: slopes, half the second and the third derivatives of pieces.
_AT_END = {
    1: lambda s, second, third, k, beside: s[k], 2: lambda s, second, third, k, beside: 2.0 * second[k],
    3: lambda s, second, third, k, beside: third(k), "not-a-knot": lambda s, second, third, k, beside: third(k) - third(beside),
}  # fmt: skip


def _slopes(h, slope, ends):
    """The slopes at the knots of the twice differentiable cubics, by linear equations; `ends` are pairs of a condition and its value."""
    n, named = slope.shape[0] + 1, [order for order, _ in ends]
    if n == 2:
        ends = [(1, slope[0]) if order == "not-a-knot" else (order, known) for order, known in ends]
    elif n == 3 and named == ["not-a-knot"] * 2:
        # Both conditions are the same: the parabola through the points.
        ends = [(3, 0.0)] * 2
    (start, first), (end, last) = ends
    h, columns = np.reshape(h, (n - 1, 1)), np.reshape(slope, (n - 1, -1))

    def missed(left, right, s):
        """By how much slopes `s` at the knots miss equations without values; `left` and `right` are half the second derivatives of the pieces."""
        if start == "periodic":
            rows = s[:1] - s[-1:], right[-1:] - left[:1]
        else:
            third = lambda k: (right[k] - left[k]) / h[k]  # noqa: E731
            rows = _AT_END[start](s, left, third, *_FIRST), _AT_END[end](s, right, third, *_LAST)
        return np.concatenate([rows[0], right[:-1] - left[1:], rows[1]])

    s, live = np.eye(n), differentiable(h)
    matrix = missed(-(2.0 * s[:-1] + s[1:]) / h, (s[:-1] + 2.0 * s[1:]) / h, s)
    # Knots are constants more often than not: products with constant matrices are cheaper to differentiate.
    moments = 3.0 * (columns if live else np.eye(n - 1)) / h
    of_slopes = missed(moments, -moments, np.zeros((n, moments.shape[1])))
    known = np.stack([np.broadcast_to(np.reshape(array(one), (-1,)), columns.shape[1:]) for one in (first, last)])
    wanted = s[:, [0, -1]] @ known - (of_slopes if live else of_slopes @ columns)
    return np.reshape(np.linalg.solve(matrix, wanted) if live else np.linalg.inv(matrix) @ wanted, (n, *slope.shape[1:]))
