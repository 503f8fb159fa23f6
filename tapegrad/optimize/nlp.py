"""`nlp`: an objective with constraints and bounds, by IPOPT or trust-constr, with sparse derivatives.

A `Problem` is all that a method asks for: value and gradient, the constraints as one vector, their Jacobian, and the Hessian of the
Lagrangian ``s f(x) + sum of l_k g_k(x)``.  Each function is recorded by itself (`VectorFunction`), so a later problem with one of them
finds its recordings.  The patterns are those of the paths that were met: where a function takes another path, with an entry that the
pattern has no place for, the method begins again, at that point, with the pattern of both (`Grown`); no entry is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array.objects import array
from ..array.trees import joined
from ..array.typing import Pytree
from ..common.errors import NonFiniteError, OptimizationError
from ..common.tree import unflatten
from ..common.uninterrupted import imported, uninterrupted
from . import ipopt
from .layout import Layout, as_bounds, shaped
from .minimize import SciPyRun
from .vector_function import VectorFunction

if TYPE_CHECKING:
    from .result import Result


class Grown(Exception):
    """A derivative has an entry for which the pattern has no place yet."""


class Entries:
    """The places of a sparse matrix, column by column, into which parts of it are put.

    Parameters
    ----------
    rows : int
    triangle : bool
        Whether it is the upper triangle of a symmetric one.

    Attributes
    ----------
    keys : ndarray of int64
        ``column * rows + row`` of each place, ascending.
    """

    def __init__(self, rows, triangle=False):
        self.rows, self.triangle = rows, triangle
        self.keys, self._known = np.zeros(0, np.int64), {}

    def places(self):
        """Columns and rows."""
        return np.divmod(self.keys, self.rows)

    def know(self, part, offset=0):
        """Have a place for each entry of a part; returns which of them count (of a triangle, not all), and where they are among the old places."""
        row = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)) + offset
        which = np.flatnonzero(row <= part.indices) if self.triangle else slice(None)
        keys = (part.indices.astype(np.int64) * self.rows + row)[which]
        places = np.searchsorted(self.keys, keys)
        if not np.array_equal(self.keys[places[places < len(self.keys)]], keys):
            self.keys, self._known = np.union1d(self.keys, keys), {}
        return which, places

    def add(self, values, name, part, offset=0, factor=1.0):
        """Add a part, a ``csr_array`` whose first row is row `offset`, times `factor`, to the `values` of all places."""
        known = self._known.get(name)
        if known is None or not (np.array_equal(known[0], part.indptr) and np.array_equal(known[1], part.indices)):
            which, places = self.know(part, offset)
            if len(self.keys) > len(values):
                raise Grown
            known = self._known[name] = part.indptr.copy(), part.indices.copy(), which, places
        _, _, which, places = known
        values[places] += factor * part.data[which]


class Problem:
    """What a method asks of an objective with constraints and bounds.

    Parameters
    ----------
    run : SciPyRun
        Of the objective.
    constraints : sequence of (callable, lower, upper)
    bounds : optional
        As of `nlp`.

    Attributes
    ----------
    size : int
        How many variables there are.
    lower, upper : ndarray
        Of the constraints.
    bounds : pair of ndarray
        Of the variables.
    jacobian, hessian : Entries
        Of all constraints, and of the Lagrangian (its upper triangle).
    constraints : list of (VectorFunction, Layout, slice)
        Each function, what it returns, and where that lies among all.
    """

    def __init__(self, run, constraints, bounds):
        self.run, self.gradient, self.layout, self.size, objective = run, run.gradient, run.layout, run.layout.size, run.objective
        self.bounds = as_bounds((None, None) if bounds is None else bounds, self.layout, two_sided=True)
        self.curvature = VectorFunction(objective.function, self.layout, objective.args, "the objective")
        found = [_constraint(k, one, self.layout, objective.args) for k, one in enumerate(constraints)]
        ends = np.cumsum([0, *(given.size for _, given, _ in found)]).tolist()
        self.constraints = [(f, given, slice(a, b)) for (f, given, _), a, b in zip(found, ends, ends[1:])]
        self.lower, self.upper = np.concatenate([np.zeros((2, 0)), *(limits for _, _, limits in found)], axis=1)
        self.jacobian, self.hessian = Entries(ends[-1]), Entries(self.size, True)
        self.last = self.layout.vector

    # -- what methods ask for -----------------------------------------------------------
    def value(self, x):
        self.last = x.copy()
        return self.run.value(self.last)

    def values(self, x):
        """All constraints at vector `x`."""
        return np.concatenate([np.zeros(0), *(f.values(np.array(x)) for f, _, _ in self.constraints)])

    def of_jacobian(self, x):
        """The entries of `jacobian` at vector `x`."""
        values = np.zeros(len(self.jacobian.keys))
        for f, _, part in self.constraints:
            self.jacobian.add(values, f.what, f.sparse_jacobian(x), part.start)
        return values

    def of_hessian(self, x, weight, weights):
        """The entries of `hessian` at vector `x`, for weights of the objective and of each constraint."""
        values = np.zeros(len(self.hessian.keys))
        self.hessian.add(values, "the objective", self.curvature.sparse_hessian(x), 0, weight)
        for f, given, part in self.constraints:
            self.hessian.add(values, f.what, f.sparse_hessian(x, given.container(weights[part].copy())))
        return values

    def multipliers(self, vector):
        """Multipliers of all constraints, each in the containers of what its function returns."""
        return [given.container(vector[part]) for _, given, part in self.constraints]

    def violation(self, x):
        """By how much a constraint or bound is violated at vector `x`, at most."""
        g, (low, high) = self.values(x), self.bounds
        return float(max(np.max(v, initial=0.0) for v in (self.lower - g, g - self.upper, low - x, x - high)))

    def know(self, x):
        """Take the patterns at vector `x`."""
        self.hessian.know(self.curvature.sparse_hessian(x))
        for f, given, part in self.constraints:
            self.jacobian.know(f.sparse_jacobian(x), part.start)
            self.hessian.know(f.sparse_hessian(x, given.container(np.ones(given.size))))


def _constraint(k, one, layout, args):
    """A constraint as its function, what that returns as a `Layout`, and its two limits."""
    if not isinstance(one, (tuple, list)) or len(one) != 3 or not callable(one[0]):
        raise OptimizationError(f"constraint {k} is {one!r}; give (function, lower, upper), with None for a side that is open")
    function, name = VectorFunction(one[0], layout, args, f"constraint {k}"), f"constraint {k}"
    outcome = function.proof.evaluate(layout.vector, False)
    for value in outcome.values:
        if not np.all(np.isfinite(value)):
            function.refuse(layout.vector, False)
            raise NonFiniteError(f"{name} is not finite at the start; begin elsewhere")
    given = Layout(unflatten(outcome.structure, [np.asarray(v, float) if np.ndim(v) else float(v) for v in outcome.values]), name)
    if given.structure != outcome.structure:
        # Numbers in a list are an array, as at the start.
        return _constraint(k, (lambda *given: array(one[0](*given)), *one[1:]), layout, args)
    lower, upper = given.spread(one[1], f"the lower limit of {name}"), given.spread(one[2], f"the upper limit of {name}")
    lower, upper = np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)
    for j in np.flatnonzero((lower > upper) | (lower == np.inf) | (upper == -np.inf))[:1]:
        raise OptimizationError(f"{given.name_of(j)}: no number is at least {lower[j]} and at most {upper[j]}; the limits contradict each other")
    return function, given, np.array([lower, upper])


def nlp(
    objective: Callable[..., Any], x0: Pytree, constraints: Any = (), bounds: Any = None, *, args: tuple[Any, ...] = (),
    method: str | None = None, tol: float | None = None, options: dict[str, Any] | None = None, progress: bool | None = None,
) -> Result:  # fmt: skip
    """Minimise a function under constraints, with exact sparse derivatives up to the Hessian of the Lagrangian.

    Parameters
    ----------
    objective : callable
        ``objective(x, *args)`` returns one number.  Plain Python and NumPy.
    x0 : float, array_like, containers of them, or Result
        Where to begin.  The result of an earlier call supplies its `x`, and its multipliers to IPOPT.
    constraints : sequence of (function, lower, upper)
        ``lower <= function(x, *args) <= upper``.  Each limit is a number, or has the form of what the function returns; None leaves a side
        open.  An equality has two equal limits.
    bounds : optional
        ``(lower, upper)`` of the variables, each a number or in the containers of `x0`; or bounds as in `minimize`.
    args : tuple
        Further arguments of all functions.
    method : {"ipopt", "trust-constr"}, optional
        By default IPOPT, if cyipopt or CasADi is installed (``pip install "tapegrad[nlp]"``), else SciPy's trust-constr.
    tol : float, optional
        IPOPT's `tol`; `gtol` of trust-constr.
    options : dict, optional
        Options of the method: IPOPT's own names (``max_iter``, ``linear_solver``, ``print_level``, ...), or those of trust-constr.
    progress : bool, optional
        As in `minimize`.

    Returns
    -------
    Result
        As in `minimize`, with `multipliers`, for each constraint in the containers of what its function returns; `bound_multipliers` in the
        containers of `x0`; `constr_violation`; `method`, and why it was `chosen`.  At a solution the gradient of the objective, plus the
        multipliers times the Jacobians, plus `bound_multipliers`, is zero: a multiplier is negative at a lower limit, and positive at an
        upper one.  If both limits of an equality rise by h, the least value rises by ``-multiplier * h``.  (SLSQP's, of `minimize`, have the other
        sign.)

    Raises
    ------
    OptimizationError
        If limits contradict each other or do not fit, or the method is unknown.
    NonFiniteError
        If the objective or a constraint is not finite at the start; the message names the operation.
    MissingPackageError
        If the method is "ipopt" and neither package is installed.

    Notes
    -----
    The recordings give the sparsity patterns; colouring compresses Jacobians and Hessians.  An exception in a function, or Ctrl-C, ends the
    run and is raised.  IPOPT moves a start outside its bounds to their inside.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> found = tg.optimize.nlp(
    ...     lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], [1.0, 5.0, 5.0, 1.0],
    ...     [(np.prod, 25.0, None), (lambda x: np.sum(x**2), 40.0, 40.0)], bounds=(1.0, 5.0),
    ... )
    >>> found.success, bool(np.allclose(found.x, [1.0, 4.743, 3.8211, 1.3794], atol=1e-3)), round(found.fun, 4)
    (True, True, 17.014)
    """
    with uninterrupted:
        from .result import Result, ended

    warm = x0 if isinstance(x0, Result) else None
    if isinstance(constraints, (tuple, list)) and len(constraints) == 3 and callable(constraints[0]):
        raise OptimizationError("constraints is one (function, lower, upper); give a list of them")
    name, chosen = _method(method)
    run = SciPyRun(objective, x0 if warm is None else warm.x, args if isinstance(args, tuple) else (args,), name, "pass", progress)
    begin = run.layout.vector
    value, g = run.value(begin), run.gradient(begin)
    if not (np.isfinite(value) and np.all(np.isfinite(g))):
        run.objective.refuse(begin, value, g)
    problem = Problem(run, constraints, bounds)
    multipliers = None if warm is None or "multipliers" not in warm else _flat_multipliers(problem, warm)
    solver = ipopt.solve if name == "ipopt" else _trust_constr

    def solve(start):
        problem.know(start)
        while True:
            try:
                found = solver(problem, start, multipliers, tol, dict(options or {}))
                break
            except Grown:
                start = problem.last
        found.update(fun=run.value(found.x), constr_violation=problem.violation(found.x))
        found.update(multipliers=problem.multipliers(found.pop("v")), bound_multipliers=shaped(run.layout, found.pop("z")))
        return found

    result = ended(run, solve, [f for f, _, _ in problem.constraints])
    result.update(method=name, chosen=chosen, nfev=len(run.shown.history))
    return result


def _method(method):
    if method is None:
        if package := ipopt.package():
            return "ipopt", f"{package} is installed, which has IPOPT"
        return "trust-constr", 'IPOPT is not installed (pip install "tapegrad[nlp]")'
    if method not in ("ipopt", "trust-constr"):
        raise OptimizationError(f'method={method!r}: choose "ipopt" or "trust-constr"')
    return method, "it was asked for"


def _flat_multipliers(problem, warm):
    found = np.asarray(joined(warm.multipliers), float)
    if len(found) != len(problem.lower):
        raise OptimizationError(f"the result to begin with has {len(found)} multipliers, but there are {len(problem.lower)} constraints")
    return found, problem.layout.spread(warm.bound_multipliers, "the multipliers of the bounds")


def _trust_constr(problem, start, multipliers, tol, options):
    optimize, sparse = imported("scipy.optimize"), imported("scipy.sparse")
    count, size = len(problem.lower), problem.size

    def matrix(entries, values):
        return sparse.csr_array((values, entries.places()[::-1]), shape=(entries.rows, size))

    def hessian(x, weight, weights):
        upper = matrix(problem.hessian, problem.of_hessian(x, weight, weights))
        return (upper + sparse.triu(upper, 1).T).tocsr()

    given = {"bounds": optimize.Bounds(*problem.bounds, keep_feasible=False)}
    if count:
        given["constraints"] = optimize.NonlinearConstraint(
            problem.values, problem.lower, problem.upper, jac=lambda x: matrix(problem.jacobian, problem.of_jacobian(x)),
            hess=lambda x, v: hessian(x, 0.0, v),
        )  # fmt: skip
    found = optimize.minimize(
        problem.value, start, method="trust-constr", jac=problem.gradient, hess=lambda x: hessian(x, 1.0, np.zeros(count)), tol=tol, options=options, **given
    )
    v = [*found.v, np.zeros(size)]
    found.update(v=v[0] if count else np.zeros(0), z=v[1] if count else v[0], success=bool(found.status in (1, 2) and found.constr_violation < 1e-6))
    return found
