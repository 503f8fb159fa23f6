"""`minimize`: SciPy's methods, given exact derivatives by compiled replays.

SciPy asks for value and gradient apart, often for the gradient at the point whose value it has just asked for: `SciPyRun` finds
both at once and keeps those of the last point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..array.typing import Pytree
from ..common.errors import OptimizationError
from ..common.public import signature_of
from ..common.uninterrupted import uninterrupted
from ..many.sums import computed_by
from ..transforms.hessians import hvp
from . import loops
from .layout import Layout, as_bounds, shaped
from .objective import Objective
from .progress import Progress

if TYPE_CHECKING:
    from .result import Result

#: SciPy's methods by what they are given.
WITH_GRADIENT = {"cg": "CG", "bfgs": "BFGS", "l-bfgs-b": "L-BFGS-B", "tnc": "TNC", "slsqp": "SLSQP"}
WITH_PRODUCTS = {"newton-cg": "Newton-CG", "trust-ncg": "trust-ncg", "trust-krylov": "trust-krylov"}
WITH_HESSIAN = {"dogleg": "dogleg", "trust-exact": "trust-exact", "trust-constr": "trust-constr"}
WITHOUT = {"nelder-mead": "Nelder-Mead", "powell": "Powell", "cobyla": "COBYLA", "cobyqa": "COBYQA"}
SCIPY = WITH_GRADIENT | WITH_PRODUCTS | WITH_HESSIAN | WITHOUT
#: Those that shorten their step where the value is infinite; the others end there, some of them with success (L-BFGS-B, Powell).
STEP_BACK = {*WITH_PRODUCTS, *WITH_HESSIAN, "cg", "bfgs", "slsqp", "nelder-mead"}
#: Our compiled loops.
LOOPS = ("lbfgs", "gradient_descent", "adam")
BOUNDED = {"nelder-mead", "powell", "l-bfgs-b", "tnc", "slsqp", "trust-constr", "cobyla", "cobyqa", *LOOPS}
CONSTRAINED = {"slsqp", "trust-constr", "cobyla", "cobyqa"}
#: With more variables than that the dense matrices of SLSQP take longer than all else.
LARGE = 300


def minimize(
    f: Callable[..., Any], x0: Pytree, args: tuple[Any, ...] = (), method: str | None = None, *, bounds: Any = None,
    constraints: Any = (), tol: float | None = None, options: dict[str, Any] | None = None,
    callback: Callable[..., Any] | None = None, progress: bool | None = None, nonfinite: Literal["raise", "pass"] = "raise",
    client: Any = None,
) -> Result:  # fmt: skip
    """Minimise a function of numbers, arrays or containers of them by one of SciPy's methods, with exact derivatives.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns one number.  Plain Python and NumPy; the result of ``tg.value_and_grad(f)`` works too.
    x0 : float, array_like, or containers of them
        Where to begin; `f` takes the same containers and shapes.
    args : tuple
        Further arguments of `f`.
    method : str, optional
        Any of SciPy's, which gets the gradient (CG, BFGS, L-BFGS-B, TNC, SLSQP), and Hessian products (Newton-CG, trust-ncg, trust-krylov) or
        Hessians (dogleg, trust-exact, trust-constr).  Or a compiled loop: lbfgs, gradient_descent, adam.  By default as in SciPy: BFGS,
        L-BFGS-B with bounds, SLSQP with constraints; for more than 300 variables with constraints, trust-constr with sparse derivatives.
        `nlp` has IPOPT.
    bounds : optional
        A (low, high) for each element (None: no bound), ``scipy.optimize.Bounds``, or a pair of containers like `x0`.
    constraints : optional
        SciPy's dicts, LinearConstraint and NonlinearConstraint, or a sequence of them; their functions take `x` as `f` does, and get exact
        Jacobians.
    tol : float, optional
        As in SciPy; for a compiled loop: `gtol`.
    options : dict, optional
        Options of the method.
    callback : callable, optional
        As in SciPy: called after each iteration with `x`, or with an OptimizeResult if its parameter is named ``intermediate_result``; stops
        the run if it returns True or raises StopIteration.  For a compiled loop as in `lbfgs`.
    progress : bool, optional
        Whether to show a live line on stderr; by default after a second, on terminals and in notebooks.
    nonfinite : {"raise", "pass"}
        What to do with a value or gradient that is infinite or not a number.  By default CG, BFGS, SLSQP, Newton-CG, dogleg, Nelder-Mead and
        the trust regions step back from such a point, as `lbfgs` does, and `message` names the operation if they do not succeed; at the start, and
        in other methods, it is an error.  "pass" gives the method what the function gives.
    client : optional
        For a sum over data: what computes it, as in `tapegrad.distribute`.

    Returns
    -------
    Result
        SciPy's `OptimizeResult`, with `x` and `jac` in the containers of `x0`, and `counts`, `seconds`, `history`, `plot()`.  SLSQP
        adds `multipliers`, which have the other sign than those of `nlp`.

    Raises
    ------
    NonFiniteError
        See `nonfinite`.
    NonScalarOutputError
        If `f` returns more than one number; see `least_squares`.
    DtypeError, StructureError, OptimizationError
        If the start, bounds, constraints or method are invalid.

    Notes
    -----
    Value and gradient are computed together, once for each point, although SciPy asks for them separately.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> def rosenbrock(x):
    ...     return sum(100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2 for i in range(len(x) - 1))
    >>> result = tg.optimize.minimize(rosenbrock, [-1.2, 1.0, 0.5])
    >>> result.success, bool(np.allclose(result.x, 1.0, atol=1e-5))
    (True, True)
    """
    (name, chosen), f = _method(method, bounds, constraints, x0), computed_by(f, client)
    if nonfinite not in ("raise", "pass"):
        raise OptimizationError(f'nonfinite={nonfinite!r}: choose "raise" or "pass"')
    if name in LOOPS:
        return _loop(name, f, x0, args, bounds, constraints, tol, options, callback, progress)
    if bounds is not None and name not in BOUNDED:
        raise OptimizationError(f"{SCIPY[name]} takes no bounds; methods that do: {_listed(BOUNDED)}")
    if _any(constraints) and name not in CONSTRAINED:
        raise OptimizationError(f"{SCIPY[name]} takes no constraints; methods that do: {_listed(CONSTRAINED)}")
    result = SciPyRun(f, x0, args, name, nonfinite, progress).run(bounds, constraints, tol, options, callback)
    result.update(method=SCIPY[name], chosen=chosen)
    return result


def _method(method, bounds, constraints, x0):
    """The method, and why it was chosen."""
    if method is None:
        if not _any(constraints):
            return ("l-bfgs-b", "there are bounds") if bounds is not None else ("bfgs", "there are no bounds or constraints")
        size = Layout(x0).size
        if size <= LARGE:
            return "slsqp", f"there are constraints, and {size} variables"
        return "trust-constr", f"there are constraints, and {size} variables: SLSQP would take dense matrices of them (tg.optimize.nlp has IPOPT)"
    name = method.lower() if isinstance(method, str) else None
    if name not in SCIPY and name not in LOOPS:
        raise OptimizationError(f"method={method!r} is not known; choose one of {', '.join([*SCIPY.values(), *LOOPS])}")
    return name, "it was asked for"


def _any(constraints):
    return not (isinstance(constraints, (tuple, list)) and not constraints) and constraints is not None


def _listed(names):
    return ", ".join(sorted((SCIPY.get(n, n) for n in names), key=str.lower))


def _loop(name, f, x0, args, bounds, constraints, tol, options, callback, progress):
    """One of the compiled loops, with SciPy's names for what they have in common."""
    if _any(constraints):
        raise OptimizationError(f"{name} takes no constraints; methods that do: {_listed(CONSTRAINED)}")
    ours = {"maxiter": "max_iter", "maxfun": "max_evaluations", "maxcor": "memory"}
    options = {ours.get(option, option): value for option, value in (options or {}).items()}
    run = getattr(loops, name)
    accepted = [p for p in signature_of(run).parameters if p not in ("f", "x0", "args", "bounds", "callback", "progress", "client")]
    for option in options:
        if option not in accepted:
            raise OptimizationError(f"{name} has no option {option!r}; it has {', '.join(accepted)}")
    if tol is not None:
        options.setdefault("gtol", tol)
    return run(f, x0, args if isinstance(args, tuple) else (args,), bounds=bounds, callback=callback, progress=progress, **options)


class SciPyRun:
    """One run of one of SciPy's methods, and what it asks of the objective."""

    def __init__(self, f, x0, args, name, nonfinite, progress):
        self.objective = Objective(f, x0, args)
        self.layout = self.objective.layout
        self.name, self.nonfinite = name, nonfinite
        self.shown = Progress(progress, unit="evaluations")
        self._key, self._value = None, np.nan
        #: Whether the numbers were finite at some point; what tells the fault at the first one where they were not.
        self._begun, self.outside = False, None
        self._g = np.empty(self.layout.size)
        self._point = np.empty(self.layout.size)
        self.asked_gradient = name not in WITHOUT

    # -- what SciPy calls -----------------------------------------------------------------
    def _at(self, x):
        key = x.tobytes()
        if key == self._key:
            return
        # Until it is done, the memo has nothing.
        self._key = None
        self._point[...] = x
        self._value = self.objective.evaluate(self._point, self._g)
        # Not a number if one component is none.
        norm = max(float(self._g.max()), -float(self._g.min()))
        finite = math.isfinite(self._value) and (math.isfinite(norm) or not self.asked_gradient)
        if not finite and self.nonfinite == "raise":
            if not self._begun or self.name not in STEP_BACK:
                self.objective.refuse(self._point, self._value, self._g, '; method="lbfgs" steps back from such points' if self._begun else "")
            self.outside = self.outside or partial(self.objective.fault, self._point.copy(), self._value, self._g.copy(), self.objective.counts["evaluations"])
            self._value = math.inf
        self._begun |= finite
        self.shown.note(self._value, norm)
        self._key = key

    def value(self, x):
        self._at(x)
        return self._value

    def gradient(self, x):
        self._at(x)
        return self._g.copy()

    def forget(self):
        """What is kept of the last point may be that of a recording."""
        self._key = None

    # -- the run ---------------------------------------------------------------------------
    def run(self, bounds, constraints, tol, options, callback):
        with uninterrupted:
            from scipy import optimize

            from .constraints import with_jacobians
            from .curvature import Curvature
            from .result import ended

        name, layout = self.name, self.layout
        keywords = {"method": SCIPY[name], "tol": tol, "options": options}
        if bounds is not None:
            keywords["bounds"] = optimize.Bounds(*as_bounds(bounds, layout))
        functions = []
        if _any(constraints):
            keywords["constraints"], functions = with_jacobians(constraints, layout, name)
        if self.asked_gradient:
            keywords["jac"] = self.gradient
        curvature = Curvature(self.objective)
        if name in WITH_PRODUCTS:
            keywords["hessp"] = curvature.by(hvp, "hessian_products")
        elif name in WITH_HESSIAN:
            keywords["hess"] = curvature.hessian(layout.size, any_form=name == "trust-constr")
        if callback is not None:
            keywords["callback"] = self._callback(callback)
        asked = None if "constraints" in keywords else self.objective.asked((keywords["bounds"].lb, keywords["bounds"].ub) if bounds is not None else None)
        return ended(self, partial(optimize.minimize, self.value, **keywords), functions, curvature.counts, asked)

    def _callback(self, callback):
        """The user's callback, with `x` in its containers."""
        with uninterrupted:
            from .result import Result

        names = [*signature_of(callback).parameters]

        def called(xk, *state):
            # What SciPy wants, so that its own signature check takes the vector.
            x = shaped(self.layout, xk)
            # User code may change what the function looks at.
            self.objective.suspect()
            if names == ["intermediate_result"]:
                stop = callback(intermediate_result=Result(x=x, fun=self.value(np.asarray(xk))))
            else:
                stop = callback(x, *state[: max(0, len(names) - 1)])
            if stop and not state:
                raise StopIteration
            return bool(stop)

        return called
