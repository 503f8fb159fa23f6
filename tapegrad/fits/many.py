"""`fit_many`: one model, fitted to many small data sets at once; `multistart`: one data set, from many starts.

Each fit is Levenberg and Marquardt's, with bounds by projection.  All of them go on together: the model is recorded once, as the
sum of squares with its gradient and Gauss-Newton matrix, and one call evaluates a batch of fits; the small systems are solved by NumPy for
the whole batch.  A fit that has ended leaves its place to the next one, so a slow one holds up no other.
(D. W. Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", 1963; the damping is that of H. B. Nielsen, "Damping
parameter in Marquardt's method", 1999; the scales those of J. J. Moré, "The Levenberg-Marquardt algorithm", 1978.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array.forward import jvp
from ..array.typing import Pytree
from ..common.errors import OptimizationError
from ..common.tree import flatten, leaf_names, unflatten
from ..optimize.progress import Progress
from ..transforms.functional import jit
from ..transforms.jacobians import jacobian
from ..transforms.keep import kept
from ..transforms.vmap import vmap
from .fitting import fit
from .models import FitModel
from .parameters import Parameters
from .uncertainty import FLAT

if TYPE_CHECKING:
    from .report import Fit

#: How many fits are evaluated at once.
BATCH = 2048
#: Relative changes of cost and parameters, and cosines between residuals and columns of the Jacobian, below which a fit has converged.
FTOL, XTOL, GTOL = 1e-14, 1e-9, 1e-12
#: Damping at the start, beside the squares of the Jacobian; and that at which nothing lower is found any more.
DAMPING, MOST = 1e-3, 1e16
RUNNING, BY_COST, BY_STEP, BY_GRADIENT, LIMIT, STUCK, NOT_FINITE = range(7)
#: What a status means.
STATUSES = (
    "still running", "converged: the cost falls no more", "converged: the parameters change no more", "converged: the gradient is zero",
    "the limit of iterations was reached", "no lower cost was found, though the gradient is not zero", "a residual or derivative at the start is not finite",
)  # fmt: skip


class FitMany:
    """Many fits; made by `tapegrad.fit_many`.  ``fits[k]`` is one of them: a `dict` of its numbers.

    Attributes
    ----------
    params, stderr : as starts
        With a first axis of one entry a fit.  Errors are NaN where the data do not determine a parameter, a bound holds it, or the fit did not converge.
    covariance : ndarray of shape (fits, parameters, parameters)
        By Gauss-Newton; of all parameters, in the order of `names`.
    success : ndarray of bool
    status : ndarray of int
        Why each ended; `STATUSES` has the words.
    cost : ndarray
        Half the sum of squares.
    iterations : ndarray of int
    names : list of str
    seconds : float
    """

    def __init__(self, parameters, x, covariance, cost, status, iterations, dof, seconds):
        self.parameters, self.x, self.cost, self.status, self.iterations, self.dof, self.seconds = parameters, x, cost, status, iterations, dof, seconds
        self.names, self.covariance = parameters.names, covariance
        self.success = (status == BY_COST) | (status == BY_STEP) | (status == BY_GRADIENT)
        self.covariance[~self.success] = np.nan
        with np.errstate(invalid="ignore"):
            self.errors = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        self.params, self.stderr = self._stacked(x), self._stacked(self.errors)

    def _stacked(self, x):
        layout = self.parameters.layout
        spans = zip(layout.shapes, layout.offsets, layout.offsets[1:])
        return unflatten(layout.structure, [x[:, a:b].reshape(len(x), *(shape or ())).copy() for shape, a, b in spans])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        one = lambda tree: unflatten(self.parameters.layout.structure, [leaf[k] for leaf in flatten(tree)[0]])  # noqa: E731
        return {
            "params": one(self.params), "stderr": one(self.stderr), "covariance": self.covariance[k], "cost": float(self.cost[k]),
            "success": bool(self.success[k]), "message": STATUSES[self.status[k]], "iterations": int(self.iterations[k]),
        }  # fmt: skip

    def _lines(self):
        done = int(self.success.sum())
        each = np.mean(self.iterations)
        yield f"{len(self)} fits of {len(self.parameters.free)} parameters, {done} converged, {self.seconds:.3g} s, {each:.1f} iterations each"
        for status in range(LIMIT, len(STATUSES)):
            which = np.flatnonzero(self.status == status)
            if len(which):
                yield f"{len(which)}: {STATUSES[status]} (fits {', '.join(map(str, which[:8]))}{', ...' if len(which) > 8 else ''})"
        if done:
            good = self.x[self.success]
            wide = max(map(len, self.names))
            yield f"{'name':<{wide}}  {'median':>12}  {'10 %':>12}  {'90 %':>12}  {'median std. error':>17}"
            for k, name in enumerate(self.names):
                low, middle, high = np.quantile(good[:, k], (0.1, 0.5, 0.9))
                errors = self.errors[self.success, k]
                error = f"{np.nanmedian(errors):.4g}" if np.isfinite(errors).any() else ""
                yield f"{name:<{wide}}  {middle:>12.6g}  {low:>12.6g}  {high:>12.6g}  {error:>17}".rstrip()

    def __repr__(self):
        return "\n".join(self._lines())

    def _repr_html_(self):
        return f"<pre>{escape(repr(self))}</pre>"


def fit_many(
    function: Callable[..., Any], starts: Pytree, *data: Any, observed: Any = None, sigma: Any = None, absolute_sigma: bool = False,
    in_axes: Any = 0, bounds: Any = None, fixed: Any = (), ties: dict[str, Callable[..., Any]] | None = None, max_iterations: int = 200,
    progress: bool | None = None,
) -> FitMany:  # fmt: skip
    """Fit one model to many data sets by least squares, each with its own parameters.

    Parameters
    ----------
    function : callable
        The model of one data set: ``function(params, *data)`` returns residuals, or with `observed` the predictions of the model.
    starts : array_like, or containers of them
        Initial parameters, with one entry per fit along the first axis.  A number is the same for all fits.
    *data
        Passed to `function` without the first axis, one entry per fit, as `in_axes` says.
    observed, sigma : array or container of arrays, optional
        The measured values and their standard deviations, with one entry per fit along the first axis; `sigma` may be a number.
    absolute_sigma : bool
        Whether `sigma` is in the units of the data; by default the size of the errors is estimated from the residuals.
    in_axes : {0, None} or tuple of them
        For `data`, as in `vmap`: None is the same for all fits.
    bounds, fixed, ties
        By name, for all fits: limits of parameters, those that keep their start value, and those computed from others, as in `fit`.
    max_iterations : int
        Limit for each fit.
    progress : bool, optional
        Whether to show a bar; by default only in a terminal.

    Returns
    -------
    FitMany
        Has ``params``, ``stderr``, ``covariance``, ``success``, ``status``, ... with one entry per fit along the first axis.

    Raises
    ------
    OptimizationError
        If first axes differ in length, a start is outside its bounds, a name is given twice, or data are not finite.

    Notes
    -----
    A fit that does not converge says so in its `status` and does not affect the others.  A bootstrap is one call, with simulated or drawn
    data sets along the first axis.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> t = np.linspace(0.0, 3.0, 20)
    >>> rates = np.array([0.5, 1.0, 2.0])
    >>> decay = lambda p, t: p["height"] * np.exp(-p["rate"] * t)
    >>> fits = tg.fit_many(decay, {"height": 1.0, "rate": np.ones(3)}, t, observed=3.0 * np.exp(-rates[:, None] * t), in_axes=None)
    >>> fits.success.all(), fits.params["rate"].round(6), fits.params["height"].round(6)
    (np.True_, array([0.5, 1. , 2. ]), array([3., 3., 3.]))
    """
    began = time.perf_counter()
    given = _Given(function, starts, data, observed, sigma, in_axes, bounds, fixed, ties)
    found = _solved(given, int(max_iterations), Progress(progress, total=given.count, unit="fits"))
    covariance = _covariance(given, found, absolute_sigma)
    full, dof, cost = given.full(found.u.T), given.size - len(found.u), 0.5 * found.squares
    return FitMany(given.parameters, full, covariance, cost, found.status, found.iterations, dof, time.perf_counter() - began)


def multistart(function: Callable[..., Any], starts: Pytree, *data: Any, observed: Any = None, sigma: Any = None, **options: Any) -> Fit:
    """Fit one data set from many starts and return the best fit.

    Parameters
    ----------
    function : callable
        ``function(params, *data)`` returns residuals, or with `observed` the predictions of the model.
    starts : array_like, or containers of them
        Initial parameters, with one entry per start along the first axis; a number is the same for all starts.
    *data, observed, sigma
        The data set, the measured values, and their standard deviations.
    **options
        `bounds`, `fixed`, `ties`, `absolute_sigma` and `covariance`, as in `fit`.

    Returns
    -------
    Fit
        The fit from the start that ends lowest.  Its `starts` has all fits, as a `FitMany`; its `reached` marks those that end there: with
        the same cost, or parameters, to six digits.

    Raises
    ------
    OptimizationError
        If a start is outside its bounds, a name is given twice, or data are not finite.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = np.linspace(0.0, 6.0, 50)
    >>> wave = lambda p, x: np.sin(p["frequency"] * x)
    >>> best = tg.multistart(wave, {"frequency": np.linspace(0.5, 5.0, 20)}, x, observed=np.sin(2.5 * x))
    >>> round(best.params["frequency"], 6), bool(0 < best.reached.sum() < 20)
    (2.5, True)
    """
    leaves, structure = flatten(starts)
    count = next((len(leaf) for leaf in leaves if np.ndim(leaf)), 1)
    repeated = None if observed is None else _mapped(lambda leaf: np.broadcast_to(leaf, (count, *np.shape(leaf))), observed)
    weights = sigma if sigma is None or not np.ndim(flatten(sigma)[0][0]) else _mapped(lambda leaf: np.broadcast_to(leaf, (count, *np.shape(leaf))), sigma)
    covariance = {name: options.pop(name) for name in ("covariance",) if name in options}
    many = fit_many(function, starts, *data, observed=repeated, sigma=weights, in_axes=None, **options)
    order = np.argsort(np.where(many.success, many.cost, np.inf), kind="stable")
    start = unflatten(structure, [leaf if not np.ndim(leaf) else np.asarray(leaf)[order[0]] for leaf in leaves])
    if many.success.any():
        start = many[order[0]]["params"]
    best = fit(function, start, *data, observed=observed, sigma=sigma, **covariance, **options)
    best.starts = many
    near = (np.abs(many.x - best.x) <= 1e-6 * np.maximum(np.abs(best.x), many.parameters.scale)).all(axis=1)
    best.reached = many.success & (near | (np.abs(many.cost - best.cost) <= 1e-6 * best.cost))
    return best


def _mapped(function, tree):
    leaves, structure = flatten(tree)
    return unflatten(structure, [function(leaf) for leaf in leaves])


class _Given:
    """What is to be fitted: the model of one fit, and the numbers of all.

    Attributes
    ----------
    parameters : Parameters
    model : FitModel
        Of the first fit.
    count, size : int
        Fits, and observations of each.
    start : ndarray of shape (count, free parameters)
        Scaled.
    others : ndarray
        Of each fit, what is not free.
    rows : list of (array, bool)
        What the residuals take besides the parameters, and whether it has an entry for each fit.
    """

    def __init__(self, function, starts, data, observed, sigma, in_axes, bounds, fixed, ties):
        leaves, structure = flatten(starts)
        arrays = [np.asarray(leaf, np.float64) for leaf in leaves]
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(data)
        if len(axes) != len(data) or any(axis not in (0, None) for axis in axes):
            raise OptimizationError(f"in_axes={in_axes!r}: give 0 or None for each of the {len(data)} data")
        lengths = {f"starts{name}": len(a) for name, a in zip(leaf_names(structure), arrays) if a.ndim}
        for k, (one, axis) in enumerate(zip(data, axes)):
            if axis == 0:
                if not np.ndim(one):
                    raise OptimizationError(f"data {k} is a number; give an array with an entry for each fit, or None for it in in_axes=")
                lengths[f"data {k}"] = len(one)
        seen = [] if observed is None else [np.asarray(leaf, np.float64) for leaf in flatten(observed)[0]]
        lengths |= {f"observed{k if len(seen) > 1 else ''}": len(leaf) if leaf.ndim else 0 for k, leaf in enumerate(seen)}
        if len({*lengths.values()}) != 1 or 0 in lengths.values():
            said = ", ".join(f"{name}: {length}" for name, length in lengths.items()) or "nothing has a first axis"
            raise OptimizationError(f"starts, data and observed need first axes of the same length, one entry a fit, not {said}")
        self.count = next(iter(lengths.values()))
        first = lambda tree: _mapped(lambda leaf: np.asarray(leaf)[0], tree)  # noqa: E731
        self.parameters = parameters = Parameters(unflatten(structure, [a[0] if a.ndim else float(a) for a in arrays]), bounds, fixed, ties)
        x = np.concatenate([np.broadcast_to(a, (self.count,)).reshape(-1, 1) if not a.ndim else a.reshape(self.count, -1) for a in arrays], axis=1)
        self._check(x)
        weights = sigma if sigma is None or all(np.ndim(leaf) == 0 for leaf in flatten(sigma)[0]) else first(sigma)
        one = [np.asarray(d)[0] if axis == 0 else d for d, axis in zip(data, axes)]
        self.model = FitModel(function, parameters, one, None if observed is None else first(observed), weights, None, None, "linear")
        self.scale = parameters.scale[parameters.free]
        self.start, self.others = x[:, parameters.free] / self.scale, x[:, parameters._others]
        self.low, self.high = (edge[parameters.free] / self.scale for edge in (parameters.lower, parameters.upper))
        columns = lambda parts: np.concatenate([part.reshape(self.count, -1) for part in parts], axis=1)  # noqa: E731
        self.rows = [(columns(seen), True) if seen else (np.zeros(0), False)]
        if seen and not np.isfinite(self.rows[0][0]).all():
            k, j = np.argwhere(~np.isfinite(self.rows[0][0]))[0]
            raise OptimizationError(f"observed of fit {k} has {self.rows[0][0][k, j]} at place {j}; leave such observations out, of the data too")
        self.rows.append(self._weights(sigma, weights, seen, columns))
        self.rows += [(np.asarray(d, np.float64) if axis == 0 and np.asarray(d).dtype.kind in "iuf" else d, axis == 0) for d, axis in zip(data, axes)]
        self.size = int(np.size(self.model.residuals(self.start[0], *self._constants(0))))
        if self.size < len(parameters.free):
            raise OptimizationError(f"there are {self.size} observations for {len(parameters.free)} free parameters; name some in fixed=, or give more data")

    def _weights(self, sigma, weights, seen, columns):
        if sigma is None:
            return np.zeros(0), False
        if weights is sigma:
            return self.model.sigma, False
        parts = [np.asarray(leaf, np.float64) for leaf in flatten(sigma)[0]]
        try:
            whole = columns([np.broadcast_to(part, leaf.shape) for part, leaf in zip(parts, seen, strict=True)])
        except ValueError:
            raise OptimizationError("sigma does not fit observed; give a number, or the same containers and shapes") from None
        if not (whole > 0.0).all():
            raise OptimizationError(f"sigma of fit {np.argwhere(~(whole > 0.0))[0][0]} has a number that is not above 0; leave such observations out")
        return whole, True

    def _check(self, x):
        parameters = self.parameters
        bad = ~np.isfinite(x)
        bad |= (x < parameters.lower) & (parameters.state == "free") | (x > parameters.upper) & (parameters.state == "free")
        for k, j in np.argwhere(bad)[:1]:
            name, low, high = parameters.names[j], parameters.lower[j], parameters.upper[j]
            raise OptimizationError(f"{name} of fit {k} starts at {x[k, j]:g}, outside of its bounds {low:g} to {high:g}")

    def _constants(self, k):
        rows = [row[k] if stacked else row for row, stacked in self.rows]
        return self.scale, self.others[k], rows[0], rows[1], np.zeros(0), 1.0, *rows[2:]

    def evaluate(self):
        """The function of a batch: sums of squares, gradients, Gauss-Newton matrices; of the parameters, the others, and the rows that are stacked."""
        stacked = [on for _, on in self.rows]
        shared = tuple(row for row, on in self.rows if not on)
        called = kept(self.model.residuals, ("many", tuple(stacked)), lambda residuals: jit(vmap(_normal(residuals, stacked), _axes(stacked))))
        return lambda u, others, *rows: called(u, others, self.scale, rows, shared)

    def full(self, u):
        """All numbers of each fit."""
        parameters = self.parameters
        if not parameters.ties:
            return np.concatenate([u * self.scale, self.others], axis=1)[:, parameters._order]
        return np.asarray(vmap(parameters.full, (0, None, 0))(u, self.scale, self.others))

    def slopes(self, u):
        """The derivatives of all numbers by the scaled free ones: of each fit, or of all alike."""
        parameters = self.parameters
        if parameters.ties:
            return np.asarray(vmap(jacobian(parameters.full), (0, None, 0))(u, self.scale, self.others))
        matrix = np.zeros((1, parameters.layout.size, len(parameters.free)))
        matrix[0, parameters.free, np.arange(len(parameters.free))] = self.scale
        return matrix


def _axes(stacked):
    return 0, 0, None, 0, None


def _normal(residuals, stacked):
    def normal(u, others, scale, rows, shared):
        """The sum of squares, half its gradient, and the lower triangle of the Gauss-Newton matrix row by row."""
        rows, shared = iter(rows), iter(shared)
        observed, sigma, *data = [next(rows) if on else next(shared) for on in stacked]
        args, unit, count = (scale, others, observed, sigma, np.zeros(0), 1.0, *data), np.eye(len(u)), range(len(u))
        # (By columns: recorded inside, a Jacobian comes by rows, of which there are many more.)
        r, *columns = residuals(u, *args), *[jvp(lambda u: residuals(u, *args), (u,), (unit[k],))[1] for k in count]
        return np.stack([np.sum(r * r), *[np.sum(r * c) for c in columns], *[np.sum(columns[i] * columns[j]) for i in count for j in count[: i + 1]]])

    return normal


class _Found:
    """Where the fits have ended: an entry each, along the last axis."""

    def __init__(self, given):
        n, p = given.start.shape
        self.u, self.squares, self.matrix = given.start.T.copy(), np.full(n, np.nan), np.full((p, p, n), np.nan)
        self.held, self.status, self.iterations = np.zeros((p, n), bool), np.zeros(n, np.int64), np.zeros(n, np.int64)


def _solved(given, limit, shown):
    evaluate, found = given.evaluate(), _Found(given)
    n, p = given.start.shape
    slots = _Slots(given, min(BATCH, n))
    lower = np.tril_indices(p)
    upcoming, ended = len(slots.index), 0
    with np.errstate(all="ignore"):
        while True:
            rows = np.ascontiguousarray(evaluate(slots.trial.T, slots.others, *slots.rows).T)
            a = np.empty((p, p, rows.shape[1]))
            a[lower] = a[lower[::-1]] = rows[1 + p :]
            slots.judge(rows[0], rows[1 : 1 + p], a, limit)
            done = np.flatnonzero(slots.active & (slots.status != RUNNING))
            if len(done):
                k = slots.index[done]
                found.u[:, k], found.squares[k], found.matrix[..., k], found.held[:, k] = (
                    slots.u[:, done], slots.squares[done], slots.a[..., done], slots.held[:, done]
                )  # fmt: skip
                found.status[k], found.iterations[k] = slots.status[done], slots.iterations[done]
                ended += len(done)
                shown.update(ended, 0.5 * float(slots.squares[done[0]]), 0.0)
                more = min(len(done), n - upcoming)
                slots.begin(done[:more], np.arange(upcoming, upcoming + more))
                slots.active[done[more:]] = False
                upcoming += more
                if ended == n:
                    break
            slots.step()
    shown.close(ended)
    return found


class _Slots:
    """The fits that are under way, one in each place of a batch: the last axis of all arrays but those that the model takes."""

    def __init__(self, given, size):
        p = given.start.shape[1]
        self.given, self.low, self.high = given, given.low[:, None], given.high[:, None]
        self.index, self.active = np.zeros(size, np.int64), np.ones(size, bool)
        self.u, self.trial, self.g, self.size, self.moved = (np.zeros((p, size)) for _ in range(5))
        self.a, self.held = np.zeros((p, p, size)), np.zeros((p, size), bool)
        self.squares, self.damping, self.factor, self.predicted = (np.zeros(size) for _ in range(4))
        self.status, self.iterations = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.others = np.empty((size, *given.others.shape[1:]))
        self.rows = [np.empty((size, *row.shape[1:]), row.dtype) for row, stacked in given.rows if stacked]
        self.begin(np.arange(size), np.arange(size))

    def begin(self, places, which):
        """Begin fits, `which`, in these places."""
        self.index[places], self.status[places], self.iterations[places] = which, RUNNING, 0
        self.squares[places], self.others[places] = np.inf, self.given.others[which]
        self.trial[:, places] = self.u[:, places] = self.given.start[which].T
        self.damping[places], self.factor[places], self.predicted[places], self.size[:, places] = DAMPING, 2.0, 0.0, 0.0
        for mine, row in zip(self.rows, [row for row, stacked in self.given.rows if stacked]):
            mine[places] = row[which]

    def judge(self, squares, g, a, limit):
        """Take the trials that are better, and end what has converged; `squares`, `g` and `a` are those of the trials."""
        fine = np.isfinite(squares) & np.isfinite(g.sum(axis=0)) & np.isfinite(a.sum(axis=(0, 1)))
        new, fallen = np.isinf(self.squares), self.squares - squares
        better = fine & (squares < self.squares)
        gain = np.where(self.predicted > 0.0, fallen / self.predicted, 0.0)
        flat = ~new & fine & (np.abs(fallen) <= FTOL * self.squares) & (np.abs(self.predicted) <= FTOL * self.squares)
        still = ~new & (np.sum((self.moved * self.size) ** 2, axis=0) <= XTOL**2 * np.sum((self.u * self.size) ** 2, axis=0))
        self.damping *= np.where(better, np.where(new, 1.0, np.maximum(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3)), self.factor)
        self.factor = np.where(better, 2.0, 2.0 * self.factor)
        self.u, self.squares = np.where(better, self.trial, self.u), np.where(better, squares, self.squares)
        self.g, self.a = np.where(better, g, self.g), np.where(better, a, self.a)
        self.iterations += 1
        lengths = np.sqrt(np.einsum("iik->ik", self.a))
        self.size = np.fmax(self.size, lengths)
        self.held = (self.u <= self.low) & (self.g > 0.0) | (self.u >= self.high) & (self.g < 0.0)
        straight = better & (self.held | (np.abs(self.g) <= GTOL * lengths * np.sqrt(self.squares))).all(axis=0)
        for status, which in (
            (STUCK, self.damping > MOST), (LIMIT, self.iterations > limit), (BY_STEP, still), (BY_COST, flat), (BY_GRADIENT, straight),
            (NOT_FINITE, new & ~fine),
        ):  # fmt: skip
            self.status[which & self.active] = status

    def step(self):
        """The next trials."""
        matrix, g = _without(self.a, self.held), np.where(self.held, 0.0, self.g)
        for i in range(len(g)):
            matrix[i, i] += np.where(self.held[i], 1.0, self.damping * np.where(self.size[i] > 0.0, self.size[i], 1.0) ** 2)
        factor, _ = _cholesky(matrix)
        self.trial = np.clip(self.u - _solution(factor, g), self.low, self.high)
        self.moved = self.trial - self.u
        along = np.sum(self.a * self.moved, axis=1)
        self.predicted = -np.sum(self.moved * (2.0 * self.g + along), axis=0)


def _without(matrix, held):
    """Matrices whose rows and columns that are held are zero."""
    return np.where(held[:, None] | held[None], 0.0, matrix)


def _cholesky(matrix):
    """The lower factors of many matrices, along the last axis, and their pivots; what is not positive definite has NaN."""
    factor, pivots = np.zeros_like(matrix), []
    for i in range(len(matrix)):
        for j in range(i):
            factor[i, j] = (matrix[i, j] - np.sum(factor[i, :j] * factor[j, :j], axis=0)) / factor[j, j]
        pivots.append(matrix[i, i] - np.sum(factor[i, :i] ** 2, axis=0))
        factor[i, i] = np.sqrt(pivots[i])
    return factor, np.stack(pivots)


def _solution(factor, g):
    """The solutions of ``factor factor^T x = g``."""
    x = np.empty_like(g)
    for i in range(len(g)):
        x[i] = (g[i] - np.sum(factor[i, :i] * x[:i], axis=0)) / factor[i, i]
    for i in reversed(range(len(g))):
        x[i] = (x[i] - np.sum(factor[i + 1 :, i] * x[i + 1 :], axis=0)) / factor[i, i]
    return x


def _inverse(matrix):
    """Inverses of symmetric matrices with ones in their diagonals, along the first axis now, and the directions that are flat, as columns."""
    p, n = matrix.shape[1:]
    with np.errstate(all="ignore"):
        factor, pivots = _cholesky(matrix)
        inverse = np.stack([_solution(factor, np.broadcast_to(unit[:, None], (p, n))) for unit in np.eye(p)]).transpose(2, 0, 1)
        # The smallest eigenvalue is at least the determinant over e, as the others add up to no more than p.
        sure = (pivots > 0.0).all(axis=0) & (np.prod(pivots, axis=0) > np.e * p * FLAT)
    directions = np.zeros((n, p, p))
    doubtful = np.flatnonzero(~sure)
    values, vectors = np.linalg.eigh(np.nan_to_num(matrix[..., doubtful]).transpose(2, 0, 1))
    flat = values <= FLAT * values[:, -1:]
    inverse[doubtful] = np.einsum("kia,ka,kja->kij", vectors, np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, values)), vectors)
    directions[doubtful] = vectors * flat[:, None, :]
    return inverse, directions


def _covariance(given, found, absolute):
    """The covariances of all numbers, by Gauss-Newton."""
    p, n = found.u.shape
    matrix = _without(np.nan_to_num(found.matrix), found.held)
    size = np.sqrt(np.einsum("iik->ik", matrix))
    size = np.where(size > 0.0, size, 1.0)
    matrix = matrix / (size[:, None] * size[None])
    for i in range(p):
        matrix[i, i] = np.where(found.held[i], 1.0, matrix[i, i])
    inverse, directions = _inverse(matrix)
    size, used = size.T, ~found.held.T
    inverse = np.where(used[:, :, None] & used[:, None, :], inverse / (size[:, :, None] * size[:, None, :]), 0.0)
    dof = given.size - used.sum(axis=1)
    variance = np.ones(n) if absolute else np.where(dof > 0, found.squares / np.maximum(dof, 1), np.nan)
    slopes = given.slopes(found.u.T)
    with np.errstate(all="ignore"):
        covariance = np.matmul(np.matmul(slopes, variance[:, None, None] * inverse), slopes.transpose(0, 2, 1))
    # What the data do not determine, or a bound holds, has no error.
    lost = (np.abs(slopes) * found.held.T[:, None, :]).any(axis=2)
    doubtful = np.flatnonzero(directions.any(axis=(1, 2)))
    moved = np.abs(np.matmul(np.broadcast_to(slopes, (n, *slopes.shape[1:]))[doubtful], directions[doubtful] / size[doubtful][:, :, None]))
    lost[doubtful] |= (moved > 1e-6 * np.maximum(moved.max(axis=1, keepdims=True), 1e-300)).any(axis=2)
    covariance[lost] = np.nan
    covariance.transpose(0, 2, 1)[lost] = np.nan
    return covariance
