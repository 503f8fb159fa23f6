"""Optimisers that never come back to Python between two steps: `gradient_descent`, `adam`, `lbfgs`.

Each takes the function and a start, runs the compiled loop (`optimize.run`), which calls the recorded function by address, and returns a
`Result` whose `state` it can be resumed from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..array.typing import Pytree
from ..common.errors import OptimizationError
from ..common.uninterrupted import uninterrupted
from ..many.sums import computed_by
from . import state as P
from .state import State

if TYPE_CHECKING:
    from .result import Result


def _at_least(name, value, least, strictly=False):
    if not (value > least if strictly else value >= least):
        raise OptimizationError(f"{name}={value!r} must be {'above' if strictly else 'at least'} {least}")


def lbfgs(
    f: Callable[..., Any], x0: Pytree | State, args: tuple[Any, ...] = (), *, bounds: Any = None, max_iter: int = 1000, memory: int = 10,
    gtol: float | None = None, ftol: float | None = None, max_evaluations: int | None = None, callback: Callable[..., Any] | None = None,
    progress: bool | None = None, client: Any = None,
) -> Result:  # fmt: skip
    """Minimise by L-BFGS in a compiled loop.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns one number.  Plain Python and NumPy; loops and branches may depend on `x`.
    x0 : float, array_like, containers of them, or State
        Where to begin, or the `state` of an earlier result to continue from.
    args : tuple
    bounds : optional
        A (low, high) for each element, ``scipy.optimize.Bounds``, or a pair of containers like `x0`.
    max_iter : int
        Limit on iterations in this call.
    memory : int
        Number of pairs (change of point, change of gradient) to keep.
    gtol : float
        Stop when no component of the (projected) gradient is larger; by default 1e-6.
    ftol : float
        Stop when the value falls by no more than this, relative to the value or one; by default 1e-15.
    max_evaluations : int, optional
    callback : callable, optional
        Called about ten times a second with the result so far; stops the loop if it returns True or raises StopIteration.
    progress : bool, optional
        Whether to show a live line on stderr; by default after a second, on terminals and in notebooks.
    client : optional
        For a sum over data: what computes it, as in `tapegrad.distribute`.

    Returns
    -------
    Result
        SciPy's `OptimizeResult`, with `counts`, `seconds`, `history`, `state` and `plot()`.  Ctrl-C also returns it, with ``success=False``;
        `state` continues from there.

    Raises
    ------
    NonFiniteError
        If no step from the current point gives finite numbers; the message names the operation.
    DtypeError, StructureError, OptimizationError
        If the start, bounds or options are invalid.
    NonScalarOutputError
        If `f` returns more than one number.

    Notes
    -----
    J. Nocedal, "Updating quasi-Newton matrices with limited storage" (1980), with the line search of
    J. J. Moré and D. J. Thuente (1994); with bounds the projected search of D. P. Bertsekas (1982).
    The same start gives the same bits.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> def rosenbrock(x):
    ...     return sum(100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2 for i in range(len(x) - 1))
    >>> result = tg.optimize.lbfgs(rosenbrock, np.zeros(10))
    >>> result.success, bool(np.allclose(result.x, 1.0, atol=1e-6))
    (True, True)
    """
    _at_least("memory", memory, 1)
    options = ((P.R_GTOL, "gtol", gtol, 1e-6), (P.R_FTOL, "ftol", ftol, 1e-15))
    return _optimised("lbfgs", P.LBFGS, f, x0, args, options, bounds, max_iter, max_evaluations, callback, progress, client, memory=memory)


def gradient_descent(
    f: Callable[..., Any], x0: Pytree | State, args: tuple[Any, ...] = (), *, learning_rate: float | None = None, momentum: float | None = None,
    nesterov: bool = False, bounds: Any = None, max_iter: int = 1000, gtol: float | None = None, ftol: float | None = None,
    max_evaluations: int | None = None, callback: Callable[..., Any] | None = None,
    progress: bool | None = None, client: Any = None,
) -> Result:  # fmt: skip
    """Minimise by gradient descent in a compiled loop: ``v = momentum * v + g``, ``x = x - learning_rate * v``.

    Parameters
    ----------
    f, x0, args, bounds, max_iter, max_evaluations, callback, progress, client
        As in `lbfgs`.
    learning_rate : float
        By default 1e-3.
    momentum : float
        From 0 (the default) to below 1.
    nesterov : bool
        Step along ``g + momentum * v``.
    gtol : float
        Stop when no component of the (projected) gradient is larger; by default 1e-6.
    ftol : float
        Stop when the value changes by no more than this, relative to the value or one; by default 0, never.

    Returns
    -------
    Result

    Raises
    ------
    NonFiniteError
        If the value or gradient is not finite; the message names the operation.
    DtypeError, StructureError, OptimizationError, NonScalarOutputError
        As in `lbfgs`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> result = tg.optimize.gradient_descent(lambda x: np.sum((x - 1.0) ** 2), np.zeros(3), learning_rate=0.1)
    >>> bool(np.allclose(result.x, 1.0, atol=1e-6)), result.success
    (True, True)
    """
    options = (
        (P.R_RATE, "learning_rate", learning_rate, 1e-3), (P.R_MOMENTUM, "momentum", momentum, 0.0),
        (P.R_GTOL, "gtol", gtol, 1e-6), (P.R_FTOL, "ftol", ftol, 0.0),
    )  # fmt: skip
    kind = P.NESTEROV if nesterov else P.HEAVY_BALL
    return _optimised("gradient_descent", kind, f, x0, args, options, bounds, max_iter, max_evaluations, callback, progress, client)


def adam(
    f: Callable[..., Any], x0: Pytree | State, args: tuple[Any, ...] = (), *, learning_rate: float | None = None, beta1: float | None = None,
    beta2: float | None = None, epsilon: float | None = None, bounds: Any = None, max_iter: int = 1000, gtol: float | None = None, ftol: float | None = None,
    max_evaluations: int | None = None, callback: Callable[..., Any] | None = None,
    progress: bool | None = None, client: Any = None,
) -> Result:  # fmt: skip
    """Minimise by Adam in a compiled loop.

    Parameters
    ----------
    f, x0, args, bounds, max_iter, max_evaluations, callback, progress, client
        As in `lbfgs`.
    learning_rate, beta1, beta2, epsilon : float
        By default 1e-3, 0.9, 0.999, 1e-8.
    gtol, ftol : float
        As in `gradient_descent`.

    Returns
    -------
    Result

    Raises
    ------
    NonFiniteError, DtypeError, StructureError, OptimizationError, NonScalarOutputError
        As in `gradient_descent`.

    Notes
    -----
    D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> start = {"w": np.zeros(2), "b": 0.0}
    >>> result = tg.optimize.adam(lambda p: np.sum((p["w"] - p["b"] - 1.0) ** 2) + (p["b"] - 2.0) ** 2, start, learning_rate=0.05)
    >>> result.x["w"].round(3), round(result.x["b"], 3)
    (array([3., 3.]), 2.0)
    """
    options = (
        (P.R_RATE, "learning_rate", learning_rate, 1e-3), (P.R_BETA1, "beta1", beta1, 0.9),
        (P.R_BETA2, "beta2", beta2, 0.999), (P.R_EPSILON, "epsilon", epsilon, 1e-8),
        (P.R_GTOL, "gtol", gtol, 1e-6), (P.R_FTOL, "ftol", ftol, 0.0),
    )  # fmt: skip
    return _optimised("adam", P.ADAM, f, x0, args, options, bounds, max_iter, max_evaluations, callback, progress, client)


def _optimised(method, kind, f, x0, args, options, bounds, max_iter, max_evaluations, callback, progress, client, memory=0):
    """What the compiled loop ends with; `options` are (place among the reals of the state, name, what was given, default)."""
    with uninterrupted:
        from .drive import drive, started

    _at_least("max_iter", max_iter, 0)
    objective, state = started(computed_by(f, client), x0, args, method, memory, bounds)
    resumed = isinstance(x0, State)
    if not resumed:
        state.integers[P.I_KIND] = kind
    for at, name, value, default in options:
        if value is not None:
            _at_least(name, value, 0.0, strictly=name == "learning_rate")
            if name in ("momentum", "beta1", "beta2") and value >= 1.0:
                raise OptimizationError(f"{name}={value!r} must be below 1")
            state.reals[at] = value
        elif not resumed:
            state.reals[at] = default
    return drive(objective, state, max_iter, max_evaluations, callback, progress)
