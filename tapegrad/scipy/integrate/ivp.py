"""`solve_ivp`: initial value problems whose solution is differentiated through its steps."""

from __future__ import annotations

import math

import numpy as np

from ...common.errors import UnsupportedFunctionError
from ...common.uninterrupted import Lazily
from ...tape.modes import no_grad
from ..mirrors import array, constant, differentiable, value
from .runge_kutta import Constant, Segment, classical_step

_integrate = Lazily("scipy.integrate")


class OdeSolution:
    """A continuous solution: called with a time (n,) or with times, shape (n, m).

    Attributes
    ----------
    ts : ndarray
        Times between the steps.
    interpolants : list
    """

    def __init__(self, ts, interpolants):
        self.ts, self.interpolants = ts, interpolants
        self.t_min, self.t_max = min(ts), max(ts)

    def __call__(self, t):
        t = array(t)
        times = value(t)
        count = len(self.interpolants)
        # A time between two steps belongs to the earlier of them along the integration.
        forward = self.ts[-1] >= self.ts[0]
        where = np.searchsorted(self.ts, times, "left") if forward else np.searchsorted(-self.ts, -times, "left")
        where = np.clip(where - 1, 0, count - 1)
        if times.ndim == 0:
            return self.interpolants[int(where)](t)
        if times.ndim != 1:
            raise ValueError("`t` must be a float or a 1-D array.")
        order = np.argsort(where, kind="stable")
        parts = [self.interpolants[k](t[np.flatnonzero(where == k)]) for k in np.unique(where)]
        states = np.concatenate(parts, axis=1)
        return states if np.array_equal(order, np.arange(len(order))) else states[:, np.argsort(order, kind="stable")]


def solve_ivp(
    fun, t_span, y0, method="RK45", t_eval=None, dense_output=False, events=None, vectorized=False, args=None, **options
):
    """Solve an initial value problem ``dy/dt = fun(t, y, *args)``.

    Differentiable in `y0`, `args`, the ends of `t_span`, `t_eval`, and in
    tensors that `fun` itself holds.  With plain arguments it is SciPy's (after one
    call of `fun` that looks for tensors in the result), and with tensors it takes
    the same steps: SciPy chooses them on plain numbers, and they are taken again with tensors, so the derivative
    is that of the accepted steps.  It differs from the derivative of the exact
    solution by about the tolerance.

    Parameters
    ----------
    fun : callable
        ``fun(t, y, *args)`` with `y` of shape (n,), giving (n,); a list of
        scalars is stacked.
    t_span : pair of float
    y0 : array-like, shape (n,)
    method : {"RK45", "RK23", "RK4"}
        Dormand-Prince, Bogacki-Shampine, or the classical method of order 4 with
        fixed steps of at most `max_step` (which SciPy has not).  SciPy's other
        methods are refused for tensors.
    t_eval : array-like, shape (m,), optional
        Times of the result; the steps themselves by default.
    dense_output : bool
        Whether to return a continuous solution as `sol`.
    events
        Refused for tensors.
    vectorized : bool
        Whether `fun` takes (n, k).
    args : tuple, optional
    **options
        `rtol` (1e-3), `atol` (1e-6), `first_step`, `max_step`, as in SciPy.

    Returns
    -------
    OptimizeResult
        With `t` (m,), `y` (n, m), `sol`, `status` (0, or -1 for a step that
        becomes too small), `message`, `success`, `nfev`, `njev`, `nlu`,
        `t_events`, `y_events`.

    Raises
    ------
    UnsupportedFunctionError
        For methods and options whose derivative is not known.
    ValueError
        For inputs that SciPy refuses.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.integrate import solve_ivp
    >>> rate = tg.tensor(0.5, requires_grad=True)
    >>> found = solve_ivp(lambda t, y, k: -k * y, (0.0, 2.0), [1.0], args=(rate,), rtol=1e-8, atol=1e-10)
    >>> found.y[0, -1].backward()
    >>> print(f"{rate.grad.item():.6f} {-2 * np.exp(-1):.6f}")
    -0.735759 -0.735759
    """
    name = method if isinstance(method, str) else getattr(method, "__name__", str(method))
    if not differentiable(t_span, y0, t_eval, args) and name != "RK4":
        first = fun(float(t_span[0]), array(y0)[:, None] if vectorized else array(y0), *(args or ()))
        if not differentiable(first):
            return _integrate.solve_ivp(
                fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options
            )
    if name not in ("RK45", "RK23", "RK4"):
        raise UnsupportedFunctionError(
            f"solve_ivp with tensors takes the methods RK45, RK23 and RK4 (fixed steps), not {name!r}"
        )
    if events is not None:
        raise UnsupportedFunctionError(
            "solve_ivp with tensors takes no events=: the time of an event depends on the solution. Find it on plain "
            "numbers, and end t_span there"
        )
    start, stop = (float(value(t)) for t in t_span)
    t0, tf, y0 = _time(t_span[0]), _time(t_span[1]), array(y0)
    times = None if t_eval is None else array(t_eval)

    def slope(t, y):
        dydt = array(fun(t, np.expand_dims(y, 1) if vectorized else y, *(args or ())))
        if vectorized:
            dydt = np.reshape(dydt, (-1,))
        if tuple(dydt.shape) != tuple(y.shape):
            raise ValueError(f"`fun` returned shape {tuple(dydt.shape)}, `y` has shape {tuple(y.shape)}")
        return dydt

    def on_numbers(t, y):
        with no_grad():
            return value(slope(t, y))

    options = {key: None if v is None else constant(v, "solve_ivp", key, "it chooses the steps") for key, v in options.items()}
    # Of fixed steps SciPy only looks at the arguments.
    fixed = name == "RK4"
    max_step = options.pop("max_step", np.inf) if fixed else None
    theirs = _integrate.solve_ivp(
        (lambda t, y: 0.0 * y) if fixed else on_numbers, (start, stop), value(y0), "RK45" if fixed else method,
        None if times is None else value(times), True, **options,
    )  # fmt: skip
    if fixed:
        if dense_output:
            raise UnsupportedFunctionError("solve_ivp with method='RK4' has no dense_output; pass t_eval")
        theirs.nfev, ts, ys = _fixed(slope, t0, tf, y0, times, max_step)
        return _result(theirs, ts, np.stack(ys, axis=1), None)
    nodes, t, y, segments, ts, ys = theirs.sol.ts, t0, y0, [], [t0], [y0]
    table, f = getattr(_integrate, name), slope(t0, y0)
    for node in nodes[1:]:
        new = tf if node == stop else t0 + (node - start)
        segments.append(Segment(slope, t, y, f, new, table) if start != stop and y0.size else Constant(y, y + (new - t) * f))
        t, y, f = new, segments[-1].end, segments[-1].slope
        ts.append(t)
        ys.append(y)
    sol = OdeSolution(nodes, segments)
    if times is None:
        ts, ys = _stacked(ts), np.stack(ys, axis=1)
    else:
        # Where the steps became too small, there is nothing behind the last one.
        ts = times[: int(np.sum((value(times) - nodes[-1]) * (1.0 if stop >= start else -1.0) <= 0))]
        ys = sol(ts) if len(ts) else []
    return _result(theirs, ts, ys, sol if dense_output else None)


def _result(theirs, ts, ys, sol):
    """SciPy's result with these times, values and continuous solution."""
    theirs.update(t=ts, y=ys, sol=sol)
    return theirs


def _time(t):
    return t if differentiable(t) else float(t)


def _stacked(ts):
    return np.stack(ts) if differentiable(ts) else np.array(ts)


def _fixed(fun, t0, tf, y, times, max_step):
    """The classical method with equal steps of at most `max_step`, between the times that are asked for."""
    if not 0.0 < max_step < np.inf:
        raise ValueError("method='RK4' takes fixed steps: pass max_step=, the largest size, which must be positive")
    ts, ys, calls, t = [t0], [y], 0, t0
    for end in [tf] if times is None else [times[k] for k in range(len(times))]:
        width, origin = end - t, t
        count = max(1, math.ceil(abs(float(value(width))) / max_step * (1 - 1e-12)))
        for k in range(count):
            y = classical_step(fun, t, y, width / count)
            t = end if k + 1 == count else origin + width * ((k + 1) / count)
            calls += 4
            if times is None or k + 1 == count:
                ts.append(t)
                ys.append(y)
    return (calls, _stacked(ts), ys) if times is None else (calls, times, ys[1:])
