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
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..array import trees
from ..array.typing import Pytree
from ..common.errors import OptimizationError
from ..common.printing import Printed, table
from ..common.tree import flatten, leaf_names, unflatten
from ..optimize.progress import Progress
from ..transforms.forward import jvp
from ..transforms.functional import jit
from ..transforms.jacobians import jacobian
from ..transforms.keep import kept
from ..transforms.vmap import vmap
from .fitting import fit
from .models import FitModel
from .parameters import Parameters
from .report import Fit
from .uncertainty import FLAT

#: How many fits are evaluated at once.
BATCH = 2048
#: Relative changes of cost and parameters, and cosines between residuals and columns of the Jacobian, below which a fit has converged.
FTOL, XTOL, GTOL = 1e-14, 1e-9, 1e-12
#: Damping at the start, beside the squares of the Jacobian; and that at which nothing lower is found any more.
DAMPING, MOST = 1e-3, 1e16
RUNNING, BY_COST, BY_STEP, BY_GRADIENT, LIMIT, STUCK, NOT_FINITE = range(7)
#: What is kept of a fit that has ended.
ENDED = ("u", "squares", "a", "held", "status", "iterations")
#: What a status means.
STATUSES = (
    "still running", "converged: the cost falls no more", "converged: the parameters change no more", "converged: the gradient is zero",
    "the limit of iterations was reached", "no lower cost was found, though the gradient is not zero", "a residual or derivative at the start is not finite",
)  # fmt: skip


class FitMany(Printed):
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
    undetermined : ndarray of bool
        The fits whose data do not determine some parameter, or a combination of parameters.
    dof : int or ndarray of int
        Observations of each fit less free parameters, those at a bound left out; an array where fits differ in that, or ``sigma=np.inf`` leaves
        observations out.
    names : list of str
    seconds : float

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> x = np.arange(4.0)
    >>> lines = tg.fit_many(lambda p, x: p["a"] + p["b"] * x, {"a": np.zeros(2), "b": 0.0}, x, observed=np.stack([2.0 * x, 1.0 - x]), in_axes=None)
    >>> len(lines), lines.success.tolist(), lines.params["b"].round(6).tolist(), lines.dof
    (2, [True, True], [2.0, -1.0], 2)
    >>> round(lines[1]["params"]["b"], 6), lines[1]["message"].partition(":")[0]
    (-1.0, 'converged')
    """

    def __init__(
        self, parameters: Any, x: NDArray[Any], covariance: NDArray[Any], undetermined: NDArray[Any], found: Any, dof: Any, seconds: float
    ) -> None:
        self.parameters, self.x, self.names, self.covariance, self.dof = parameters, x, parameters.names, covariance, dof
        self.cost, self.status, self.iterations, self.seconds = 0.5 * found.squares, found.status, found.iterations, seconds
        self.success = (self.status >= BY_COST) & (self.status <= BY_GRADIENT)
        self.covariance[~self.success] = np.nan
        self.undetermined = undetermined & self.success
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
        container = self.parameters.layout.container
        return {
            "params": container(self.x[k].copy()), "stderr": container(self.errors[k].copy()), "covariance": self.covariance[k], "cost": float(self.cost[k]),
            "success": bool(self.success[k]), "message": STATUSES[self.status[k]], "iterations": int(self.iterations[k]),
        }  # fmt: skip

    def _lines(self):
        done = int(self.success.sum())
        each = np.mean(self.iterations)
        yield f"{len(self)} fits of {len(self.parameters.free)} parameters, {done} converged, {self.seconds:.3g} s, {each:.1f} iterations each"
        notes = [(self.status == status, STATUSES[status]) for status in range(LIMIT, len(STATUSES))]
        unknown = "converged, but the data do not determine a parameter, whose stderr is NaN; fits.undetermined marks them"
        for marked, said in [*notes, (self.undetermined, unknown)]:
            which = np.flatnonzero(marked)
            if len(which):
                yield f"{len(which)}: {said} (fits {', '.join(map(str, which[:8]))}{', ...' if len(which) > 8 else ''})"
        if done:
            quantiles = np.quantile(self.x[self.success], (0.5, 0.1, 0.9), axis=0).T
            known = [errors[np.isfinite(errors)] for errors in self.errors[self.success].T]
            rows = [
                (name, *(f"{q:.6g}" for q in three), f"{np.median(errors):.4g}" if len(errors) else "")
                for name, three, errors in zip(self.names, quantiles, known)
            ]
            yield table(("name", "median", "10 %", "90 %", "median std. error"), rows, numbers=True)

    def __str__(self):
        return "\n".join(self._lines())


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
        The measured values and their standard deviations, with one entry per fit along the first axis; `sigma` may be a number, or one for each fit.
        An infinite `sigma` leaves its observation out, of `dof` too (SciPy's ``curve_fit`` counts it).
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
    dof = given.size - (np.sum(~found.held, axis=0) if found.held.any() else len(found.u))
    covariance, undetermined = _covariance(given, found, dof, absolute_sigma)
    return FitMany(given.parameters, given.full(found.u.T), covariance, undetermined, found, dof, time.perf_counter() - began)


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
    count = next((len(leaf) for leaf in flatten(starts)[0] if np.ndim(leaf)), 1)
    repeated = [
        None if one is None else trees.map(lambda leaf: np.broadcast_to(leaf, (count, *np.shape(leaf))), one) for one in (observed, sigma)
    ]
    covariance = options.pop("covariance", None)
    many = fit_many(function, starts, *data, observed=repeated[0], sigma=repeated[1], in_axes=None, **options)
    lowest = np.lexsort((many.cost, ~many.success))[0]
    best = fit(function, many[lowest]["params"], *data, observed=observed, sigma=sigma, covariance=covariance, **options)
    best.starts = many
    near = (np.abs(many.x - best.x) <= 1e-6 * np.maximum(np.abs(best.x), many.parameters.scale)).all(axis=1)
    best.reached = many.success & (near | (np.abs(many.cost - best.cost) <= 1e-6 * best.cost))
    return best


class _Given:
    """What is to be fitted: the model of one fit, and the numbers of all.

    Attributes
    ----------
    parameters : Parameters
    model : FitModel
        Of the first fit.
    count, size : int
        Fits, and observations of each: for each fit where some are left out.
    start : ndarray of shape (count, free parameters)
        Scaled.
    low, high : ndarray
        Their bounds, scaled.
    args, axes : list, tuple
        What the residuals take besides the parameters, and for each whether it has an entry for each fit (0), or is the same for all (None).
    """

    def __init__(self, function, starts, data, observed, sigma, in_axes, bounds, fixed, ties):
        leaves, structure = flatten(starts)
        arrays = [np.asarray(leaf, np.float64) for leaf in leaves]
        seen = [] if observed is None else [np.asarray(leaf, np.float64) for leaf in flatten(observed)[0]]
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(data)
        if len(axes) != len(data) or any(axis not in (0, None) for axis in axes):
            raise OptimizationError(f"in_axes={in_axes!r}: give 0 or None for each of the {len(data)} data")
        for k, (one, axis) in enumerate(zip(data, axes)):
            if axis == 0 and not np.ndim(one):
                raise OptimizationError(f"data {k} is a number; give an array with an entry for each fit, or None for it in in_axes=")
        lengths = {f"starts{name}": len(a) for name, a in zip(leaf_names(structure), arrays) if a.ndim}
        lengths |= {f"data {k}": len(one) for k, (one, axis) in enumerate(zip(data, axes)) if axis == 0}
        lengths |= {f"observed{k if len(seen) > 1 else ''}": len(leaf) if leaf.ndim else 0 for k, leaf in enumerate(seen)}
        if len({*lengths.values()}) != 1 or 0 in lengths.values():
            said = ", ".join(f"{name}: {length}" for name, length in lengths.items()) or "nothing has a first axis"
            said += "; data that all fits share have None in in_axes="
            raise OptimizationError(f"starts, data and observed need first axes of the same length, one entry a fit, not {said}")
        self.count = next(iter(lengths.values()))
        self.parameters = parameters = Parameters(unflatten(structure, [a[0] if a.ndim else float(a) for a in arrays]), bounds, fixed, ties)
        x = _joined([a if a.ndim else np.full(self.count, a) for a in arrays])
        free = parameters.state == "free"
        for k, j in np.argwhere(~np.isfinite(x) | free & ((x < parameters.lower) | (x > parameters.upper)))[:1]:
            name, low, high = parameters.names[j], parameters.lower[j], parameters.upper[j]
            raise OptimizationError(f"{name} of fit {k} starts at {x[k, j]:g}, outside of its bounds {low:g} to {high:g}")
        # Numbers stand for what is observed, of which residuals are made here.
        given = [None if each is None else 1.0 for each in (observed, sigma)]
        self.residuals = FitModel(function, parameters, (), *given, None, None, "linear").residuals
        scale = parameters.scale[free]
        self.start, self.low, self.high = x[:, free] / scale, parameters.lower[free] / scale, parameters.upper[free] / scale
        rows = _joined(seen) if seen else np.zeros((1, 0))
        for k, j in np.argwhere(~np.isfinite(rows))[:1]:
            raise OptimizationError(f"observed of fit {k} has {rows[k, j]} at place {j}; give any number there, and sigma=np.inf, which leaves it out")
        weights, axis = (np.zeros(0), None) if sigma is None else _weights(sigma, seen)
        data = [np.asarray(d, np.float64) if axis == 0 and np.asarray(d).dtype.kind in "iuf" else d for d, axis in zip(data, axes)]
        self.args = [scale, x[:, ~free], rows, weights, np.zeros(0), 1.0, *data]
        self.axes = (None, 0, 0 if seen else None, axis, None, None, *axes)
        first = [arg if axis is None else arg[0] for arg, axis in zip(self.args, self.axes)]
        left_out = np.isinf(weights).sum(axis=-1) if np.isinf(weights).any() else 0
        self.size = int(np.size(self.residuals(self.start[0], *first))) - left_out
        if np.min(self.size) < len(scale):
            whose = f"fit {np.argmin(self.size)} has" if np.ndim(self.size) else "each fit has"
            raise OptimizationError(f"{whose} {np.min(self.size)} observations for {len(scale)} free parameters; name some in fixed=, or give more data")

    def evaluate(self, u, args):
        """Of a batch: sums of squares, half their gradients, and Gauss-Newton matrices; `args` are those of its fits."""
        return kept(self.residuals, ("many", self.axes), lambda residuals: jit(vmap(_normal(residuals), (0, *self.axes))))(u, *args)

    def full(self, u):
        """All numbers of each fit."""
        return np.asarray(vmap(self.parameters.full, (0, None, 0))(u, *self.args[:2]))

    def slopes(self, u):
        """The derivatives of all numbers by the scaled free ones: of each fit, or of all alike."""
        each, (scale, others) = jacobian(self.parameters.full), self.args[:2]
        return np.asarray(vmap(each, (0, None, 0))(u, scale, others) if self.parameters.ties else each(u[0], scale, others[0])[None])


def _joined(parts):
    """Arrays with an entry for each fit along the first axis, as the columns of one."""
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _weights(sigma, seen):
    """The standard deviations of what was `seen`, and their axis: one for each fit, or for all alike where they are numbers."""
    parts = [np.asarray(leaf, np.float64) for leaf in flatten(sigma)[0]]
    if len(parts) == 1 and parts[0].ndim < 2:
        # A number, of all fits or of each, is that of all that was seen.
        parts *= len(seen)
    alike = not any(part.ndim for part in parts)
    try:
        columns = [part.reshape(part.shape + (1,) * (leaf.ndim - part.ndim)) for part, leaf in zip(parts, seen, strict=True)]
        rows = _joined([np.broadcast_to(part, leaf[:1].shape if alike else leaf.shape) for part, leaf in zip(columns, seen)])
    except ValueError:
        raise OptimizationError("sigma does not fit observed; give a number, or an entry for each fit along the first axis, in the same containers") from None
    for k, _ in np.argwhere(~(rows > 0.0))[:1]:
        raise OptimizationError(f"sigma of fit {k} has a number that is not above 0; np.inf leaves an observation out")
    return (rows[0], None) if alike else (rows, 0)


def _normal(residuals):
    def normal(u, *args):
        """The sum of squares, half its gradient, and the lower triangle of the Gauss-Newton matrix row by row."""
        unit, count = np.eye(len(u)), range(len(u))
        # (By columns: recorded inside, a Jacobian comes by rows, of which there are many more.)
        r, *columns = residuals(u, *args), *[jvp(lambda u: residuals(u, *args), (u,), (unit[k],))[1] for k in count]
        return np.stack([np.sum(r * r), *[np.sum(r * c) for c in columns], *[np.sum(columns[i] * columns[j]) for i in count for j in count[: i + 1]]])

    return normal


def _solved(given, limit, shown):
    """Where the fits have ended: an entry each, along the last axis."""
    n, p = given.start.shape
    slots, lower = _Slots(given, min(BATCH, n)), np.tril_indices(p)
    found = SimpleNamespace(**{name: np.empty((*getattr(slots, name).shape[:-1], n), getattr(slots, name).dtype) for name in ENDED})
    upcoming, ended = len(slots.index), 0
    with np.errstate(all="ignore"):
        while True:
            rows = np.ascontiguousarray(given.evaluate(slots.trial.T, slots.args).T)
            a = np.empty((p, p, rows.shape[1]))
            a[lower] = a[lower[::-1]] = rows[1 + p :]
            slots.judge(rows[0], rows[1 : 1 + p], a, limit)
            done = np.flatnonzero(slots.active & (slots.status != RUNNING))
            if len(done):
                for name in ENDED:
                    getattr(found, name)[..., slots.index[done]] = getattr(slots, name)[..., done]
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
        self.active, (self.index, self.status, self.iterations) = np.ones(size, bool), np.zeros((3, size), np.int64)
        self.u, self.trial, self.g, self.size, self.moved = np.zeros((5, p, size))
        self.a, self.held = np.zeros((p, p, size)), np.zeros((p, size), bool)
        self.squares, self.damping, self.factor, self.predicted = np.zeros((4, size))
        self.args = [np.empty((size, *arg.shape[1:]), arg.dtype) if axis == 0 else arg for arg, axis in zip(given.args, given.axes)]
        self.begin(np.arange(size), np.arange(size))

    def begin(self, places, which):
        """Begin fits, `which`, in these places."""
        self.index[places], self.status[places], self.iterations[places], self.squares[places] = which, RUNNING, 0, np.inf
        self.trial[:, places] = self.u[:, places] = self.given.start[which].T
        self.damping[places], self.factor[places], self.predicted[places], self.size[:, places] = DAMPING, 2.0, 0.0, 0.0
        for mine, arg, axis in zip(self.args, self.given.args, self.given.axes):
            if axis == 0:
                mine[places] = arg[which]

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
        lengths = np.sqrt(_diagonal(self.a))
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
        _diagonal(matrix)[...] += np.where(self.held, 1.0, self.damping * np.where(self.size > 0.0, self.size, 1.0) ** 2)
        self.trial = np.clip(self.u - _solutions(matrix, g[:, None])[0][:, 0], self.low, self.high)
        self.moved = self.trial - self.u
        self.predicted = -np.sum(self.moved * (2.0 * self.g + np.sum(self.a * self.moved, axis=1)), axis=0)


def _without(matrix, held):
    """Matrices whose rows and columns that are held are zero."""
    return np.where(held[:, None] | held[None], 0.0, matrix)


def _diagonal(matrix):
    """The diagonals of many matrices, along the last axis: a view."""
    return np.einsum("iik->ik", matrix)


def _solutions(matrix, right):
    """The solutions of many symmetric systems, along the last axis, for each column of `right`; and the pivots, by Gauss's elimination."""
    size, rows, pivots = len(matrix), np.concatenate([matrix, right], axis=1), np.empty(matrix.shape[1:])
    for k, pivot in enumerate(pivots):
        pivot[...] = rows[k, k]
        rows[k, k + 1 :] /= pivot
        rows[k + 1 :, k + 1 :] -= rows[k + 1 :, k, None] * rows[k, k + 1 :]
    for k in reversed(range(size)):
        rows[:k, size:] -= rows[:k, k, None] * rows[k, size:]
    return rows[:, size:], pivots


def _covariance(given, found, dof, absolute):
    """The covariances of all numbers, by Gauss-Newton, and of which fits a combination of parameters is undetermined."""
    matrix = _without(np.nan_to_num(found.a), found.held)
    _diagonal(matrix)[found.held] = 1.0
    size = np.sqrt(np.where(_diagonal(matrix) > 0.0, _diagonal(matrix), 1.0))
    matrix /= size[:, None] * size
    with np.errstate(all="ignore"):
        inverse, pivots = _solutions(matrix, np.broadcast_to(np.eye(len(matrix))[..., None], matrix.shape))
        # The smallest eigenvalue is at least the determinant over e, as the others add up to no more than p.
        sure = (pivots > 0.0).all(axis=0) & (np.prod(pivots, axis=0) > np.e * len(matrix) * FLAT)
    doubtful, inverse = np.flatnonzero(~sure), np.ascontiguousarray(inverse.transpose(2, 0, 1))
    values, vectors = np.linalg.eigh(matrix[..., doubtful].transpose(2, 0, 1))
    flat = values <= FLAT * values[:, -1:]
    undetermined = np.isin(np.arange(given.count), doubtful[flat.any(axis=1)])
    inverse[doubtful] = np.einsum("kia,ka,kja->kij", vectors, np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, values)), vectors)
    variance = np.ones(given.count) if absolute else np.where(np.greater(dof, 0), found.squares / np.maximum(dof, 1), np.nan)
    slopes = given.slopes(found.u.T) / size.T[:, None]
    with np.errstate(all="ignore"):
        covariance = np.matmul(np.matmul(slopes, variance[:, None, None] * inverse), slopes.transpose(0, 2, 1))
    # What the data do not determine, or a bound holds, has no error.
    lost = (np.abs(slopes) * found.held.T[:, None]).any(axis=2)
    moved = np.abs(np.matmul(slopes[doubtful], vectors * flat[:, None]))
    lost[doubtful] |= (moved > 1e-6 * np.maximum(moved.max(axis=1, keepdims=True), 1e-300)).any(axis=2)
    covariance[lost] = np.nan
    covariance.transpose(0, 2, 1)[lost] = np.nan
    return covariance, undetermined
