"""`least_squares`, `root` and `curve_fit`: SciPy's, with exact Jacobians.

Each makes a `VectorFunction` of what the user gives, hands its `values` and `jacobian` to SciPy, and puts what SciPy finds into
the containers of the start.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array.typing import ArrayLike, Pytree
from ..common.errors import OptimizationError, StructureError
from ..common.public import signature_of
from ..common.uninterrupted import Lazily, uninterrupted
from ..transforms.keep import kept
from .layout import Layout, as_bounds
from .progress import Progress
from .proof import proved
from .vector_function import VectorFunction

if TYPE_CHECKING:
    from .result import Result

_optimize = Lazily("scipy.optimize")

#: Methods of `root` that are given the Jacobian; the others make do with values.
ROOT_WITH_JACOBIAN = ("hybr", "lm")


def least_squares(
    fun: Callable[..., Any], x0: Pytree, jac: Any = "exact", bounds: Any = None, method: str = "trf", *, args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None, progress: bool | None = None, **options: Any,
) -> Result:  # fmt: skip
    """Minimise a sum of squares: SciPy's `least_squares` with the exact Jacobian.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args, **kwargs)`` returns the residuals: an array, or a container of numbers and arrays.
    x0 : float, array_like, or containers of them
    jac : {"exact", "sparse"} or callable
        "exact": dense, by forward or reverse sweeps, whichever costs less.  "sparse": a SciPy sparse array, for large problems whose
        residuals depend on few parameters each.  A callable takes `x` and `args`, as `fun` does, and returns one row for each residual.
    bounds : optional
        SciPy's ``(lower, upper)`` or ``Bounds``, or a pair of containers like `x0`.
    method : {"trf", "dogbox", "lm"}
    args : tuple
    kwargs : dict, optional
    progress : bool, optional
        As in `minimize`.
    **options
        Other options of ``scipy.optimize.least_squares``: `ftol`, `xtol`, `gtol`, `x_scale`, `loss`, `f_scale`, `max_nfev`, `tr_solver`, ...

    Returns
    -------
    Result
        SciPy's `OptimizeResult` with `x` in the containers of `x0`, and `counts`, `seconds`, `history` and `plot()`.

    Raises
    ------
    NonFiniteError
        If a residual at the start or a derivative is not finite; the message names the operation.
    OptimizationError, DtypeError, StructureError
        If the start, bounds or options are invalid.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> result = tg.optimize.least_squares(lambda x: [10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]], [-1.2, 1.0])
    >>> bool(np.allclose(result.x, 1.0))
    True
    """
    layout = Layout(x0)
    function = functools.partial(fun, **kwargs) if kwargs else fun
    residuals = VectorFunction(function, layout, args, "the residuals", Progress(progress, unit="Jacobians"))
    residuals.refuse(layout.vector, derivative=jac == "exact")
    keywords: dict[str, Any] = {"method": method, "jac": _jacobian_for(jac, residuals), **options}
    if bounds is not None:
        keywords["bounds"] = as_bounds(bounds, layout, two_sided=True)
    try:
        solution = proved(lambda x: _optimize.least_squares(residuals.values, x, **keywords), layout.vector, residuals.stands)
    finally:
        residuals.shown.close()
    return _result(solution, residuals, {
        "function": function, "args": residuals.args, "bounds": keywords.get("bounds"), "loss": options.get("loss", "linear"),
        "f_scale": options.get("f_scale", 1.0),
    })  # fmt: skip


def _jacobian_for(jac, residuals):
    """The function of the vector that SciPy calls for the Jacobian."""
    if callable(jac):
        return lambda x: jac(residuals.layout.container(x.copy()), *residuals.args)
    if jac == "exact":
        return residuals.finite_jacobian
    if jac == "sparse":
        return residuals.sparse_jacobian
    raise OptimizationError(f'jac={jac!r}: choose "exact" or "sparse", or give a function; finite differences are not needed')


def _result(solution, function, asked=None):
    with uninterrupted:
        from .result import finished

    return finished(
        solution, function.layout, function.proof.differs, function.shown, unit="Jacobian",
        counts={"evaluations": function.evaluations, "jacobians": function.jacobians, "records": function.records}, asked=asked,
    )  # fmt: skip


def root(
    fun: Callable[..., Any], x0: Pytree, args: tuple[Any, ...] = (), method: str = "hybr", jac: Any = None, tol: float | None = None,
    callback: Callable[..., Any] | None = None, options: dict[str, Any] | None = None,
) -> Result:  # fmt: skip
    """Solve a system of equations: SciPy's `root` with the exact Jacobian.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns as many numbers as `x` has: an array, or a container of numbers and arrays.
    x0 : float, array_like, or containers of them
    args : tuple
    method : str
        Any of SciPy's; "hybr" and "lm" use the Jacobian, the others use only values.
    jac : callable, optional
        A function to use instead of the exact Jacobian.
    tol, callback, options
        As in SciPy.

    Returns
    -------
    Result
        SciPy's `OptimizeResult` with `x` in the containers of `x0`, and `counts`, `seconds`, `history` and `plot()`.

    Raises
    ------
    NonFiniteError
        If an equation at the start or a derivative is not finite; the message names the operation.
    OptimizationError
        If the numbers of equations and unknowns differ.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> result = tg.optimize.root(lambda x: [x[0] + 0.5 * (x[0] - x[1]) ** 3 - 1.0, x[1] + 0.5 * (x[1] - x[0]) ** 3], [0.0, 0.0])
    >>> result.success, bool(np.allclose(result.x, [0.8411639, 0.1588361]))
    (True, True)
    """
    layout = Layout(x0)
    equations = VectorFunction(fun, layout, args, "the equations")
    equations.refuse(layout.vector, derivative=method in ROOT_WITH_JACOBIAN)
    count = len(equations.values(layout.vector))
    if count != layout.size and method != "lm":
        raise OptimizationError(
            f"there are {count} equations for {layout.size} unknowns; for more equations than unknowns see least_squares"
        )
    keywords: dict[str, Any] = {"method": method, "tol": tol, "options": options}
    if callback is not None:
        keywords["callback"] = lambda x, f: callback(layout.container(x.copy()), f)
    if method in ROOT_WITH_JACOBIAN:
        keywords["jac"] = _jacobian_for("exact" if jac is None else jac, equations)
    solution = proved(lambda x: _optimize.root(equations.values, x, **keywords), layout.vector, equations.stands)
    return _result(solution, equations)


def _of_vector(model):
    """A model ``f(xdata, *parameters)``, as a function of one vector of parameters."""
    return lambda parameters, xdata: model(xdata, *[parameters[k] for k in range(len(parameters))])


def curve_fit(
    f: Callable[..., Any], xdata: Any, ydata: ArrayLike, p0: ArrayLike | None = None, sigma: ArrayLike | None = None, absolute_sigma: bool = False,
    check_finite: bool | None = None, bounds: Any = (-np.inf, np.inf), method: str | None = None, jac: Any = None,
    *, full_output: bool = False, nan_policy: str | None = None, **kwargs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Fit a model to data: SciPy's `curve_fit` with the exact Jacobian.

    Parameters
    ----------
    f : callable
        ``f(xdata, *parameters)`` returns the model's values; plain Python and NumPy.
    xdata, ydata, p0, sigma, absolute_sigma, check_finite, bounds, method, full_output, nan_policy, **kwargs
        As in SciPy.
    jac : callable, optional
        A function to use instead of the exact Jacobian.

    Returns
    -------
    popt, pcov : ndarray
        Parameters and their covariance; with `full_output` also ``infodict, mesg, ier``.

    Raises
    ------
    RuntimeError
        If the fit fails, as in SciPy.
    NonFiniteError
        If a value of the model at the start or a derivative is not finite; the message names the operation.
    StructureError
        If neither the signature of `f` nor `p0` gives the number of parameters.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> t = np.linspace(0.0, 4.0, 50)
    >>> y = 2.5 * np.exp(-1.3 * t) + 0.5
    >>> popt, pcov = tg.optimize.curve_fit(lambda t, a, b, c: a * np.exp(-b * t) + c, t, y)
    >>> np.round(popt, 6)
    array([2.5, 1.3, 0.5])
    """
    if not callable(f):
        raise StructureError(f"the model must be a function f(xdata, *parameters), got {type(f).__name__}")
    model = kept(f, "model", _of_vector)
    functions = {}

    def of(data, start):
        # SciPy may hand on other data than it was given (without nan, as floats): one object in each run.
        if id(data) not in functions:
            layout = Layout(start, "p0")
            functions[id(data)] = data, VectorFunction(model, layout, (data,), "the model's values")
            functions[id(data)][1].refuse(layout.vector)
        return functions[id(data)][1]

    def values(data, *parameters):
        x = np.array(parameters, np.float64)
        return of(data, x).values(x)

    def rows(data, *parameters):
        x = np.array(parameters, np.float64)
        return of(data, x).finite_jacobian(x)

    if p0 is None:
        values.__signature__ = _signature_of(f)  # type: ignore[attr-defined]  # by which SciPy chooses a start
    kwargs |= {name: value for name, value in (("check_finite", check_finite), ("nan_policy", nan_policy)) if value is not None}
    fit = functools.partial(
        _optimize.curve_fit, values, xdata, ydata, sigma=sigma, absolute_sigma=absolute_sigma, bounds=bounds, method=method,
        jac=rows if jac is None else jac, full_output=full_output, **kwargs,
    )  # fmt: skip
    fitted = fit(p0=p0)
    return fitted if all([function.stands(fitted[0]) for _, function in functions.values()]) else fit(p0=fitted[0])


def _signature_of(f):
    """The signature of a model, which has to say how many parameters there are."""
    signature = signature_of(f)
    kinds = [p.kind for p in signature.parameters.values()]
    count = kinds.count(inspect.Parameter.POSITIONAL_ONLY) + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if count < 2 or inspect.Parameter.VAR_POSITIONAL in kinds:
        raise StructureError("the signature of the model does not say how many parameters it has; give p0")
    return signature
