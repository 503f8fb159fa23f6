"""`solve_ivp`: initial value problems whose solution is differentiated through its steps."""

from __future__ import annotations

import math
import warnings

import numpy as np

from ...common.errors import UnsupportedFunctionError
from ...common.uninterrupted import Lazily
from ..mirrors import array, constant, differentiable, value
from .runge_kutta import TOO_SMALL, Stepper, classical_step

_integrate = Lazily("scipy.integrate")
_optimize = Lazily("scipy.optimize")

FINISHED = "The solver successfully reached the end of the integration interval."


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
    the same steps: their sizes are decided by detached values, so the derivative
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
        first = fun(float(t_span[0]), _initial(y0)[:, None] if vectorized else _initial(y0), *(args or ()))
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
    t0, tf = t_span
    t0, tf, y0 = _time(t0), _time(tf), _initial(y0)
    start, stop = float(value(t0)), float(value(tf))
    calls = [0]

    def wrapped(t, y):
        calls[0] += 1
        slope = array(fun(t, np.expand_dims(y, 1) if vectorized else y, *(args or ())))
        if vectorized:
            slope = np.reshape(slope, (-1,))
        if tuple(slope.shape) != tuple(y.shape):
            raise ValueError(f"`fun` returned shape {tuple(slope.shape)}, `y` has shape {tuple(y.shape)}")
        return slope

    times = _evaluation_times(t_eval, start, stop)
    max_step, first_step, rtol, atol = _options(options, abs(stop - start), y0.shape[0])
    if name == "RK4":
        if dense_output:
            raise UnsupportedFunctionError("solve_ivp with method='RK4' has no dense_output; pass t_eval")
        ts, ys = _fixed(wrapped, t0, tf, y0, t_eval, times, max_step)
        return _result(ts, ys, None, calls[0], None)

    stepper = Stepper(getattr(_integrate, name), wrapped, t0, y0, tf, max_step, first_step, rtol, atol)
    ts, ys, sol, failed = _adaptive(stepper, t_eval, times, dense_output)
    return _result(ts, ys, sol, calls[0], failed)


def _adaptive(stepper, t_eval, times, dense_output):
    """Times, values there, continuous solution (or None), and why it could not go on (None: it could)."""
    ts, ys = ([stepper.t], [stepper.y]) if t_eval is None else ([], [])
    t_eval = None if t_eval is None else array(t_eval)
    nodes, segments, taken, failed = [stepper.now], [], 0, None
    size, running = stepper.y.shape[0], True
    while running:
        segment = stepper.stand() if stepper.done or not size else stepper.step()
        if segment is None:
            failed = TOO_SMALL
            break
        running = not stepper.done and bool(size)
        if dense_output:
            segments.append(segment)
            nodes.append(stepper.now)
        if t_eval is None:
            ts.append(stepper.t)
            ys.append(stepper.y)
            continue
        upto = int(np.sum((times - stepper.now) * stepper.direction <= 0))
        if upto > taken:
            ts.append(t_eval[taken:upto])
            ys.append(segment(t_eval[taken:upto]))
            taken = upto
    sol = OdeSolution(np.array(nodes), segments) if dense_output else None
    if t_eval is not None:
        return _concatenated(ts), np.concatenate(ys, axis=1) if ys else [], sol, failed
    return _stacked(ts), np.stack(ys, axis=1), sol, failed


def _result(ts, ys, sol, nfev, failed):
    return _optimize.OptimizeResult(
        t=ts, y=ys, sol=sol, t_events=None, y_events=None, nfev=nfev, njev=0, nlu=0, status=-1 if failed else 0,
        message=failed or FINISHED, success=not failed,
    )  # fmt: skip


def _time(t):
    return t if differentiable(t) else float(t)


def _initial(y0):
    y0 = array(y0)
    if y0.ndim != 1:
        raise ValueError("`y0` must be 1-dimensional.")
    if not np.isfinite(value(y0)).all():
        raise ValueError("All components of the initial state `y0` must be finite.")
    return y0


def _stacked(ts):
    return np.stack(ts) if differentiable(ts) else np.array(ts)


def _concatenated(ts):
    return np.concatenate(ts) if ts else []


def _evaluation_times(t_eval, start, stop):
    if t_eval is None:
        return None
    times = value(array(t_eval))
    if times.ndim != 1:
        raise ValueError("`t_eval` must be 1-dimensional.")
    if np.any(times < min(start, stop)) or np.any(times > max(start, stop)):
        raise ValueError("Values in `t_eval` are not within `t_span`.")
    d = np.diff(times)
    if (stop > start and np.any(d <= 0)) or (stop < start and np.any(d >= 0)):
        raise ValueError("Values in `t_eval` are not properly sorted.")
    return times


def _options(options, span, n):
    values = {}
    for name, default in (("max_step", np.inf), ("first_step", None), ("rtol", 1e-3), ("atol", 1e-6)):
        option = options.pop(name, default)
        values[name] = None if option is None else constant(option, "solve_ivp", name, "it chooses the steps")
    if options:
        warnings.warn(f"These options have no effect on an explicit method: {', '.join(options)}", stacklevel=3)
    max_step, first_step, rtol, atol = values.values()
    if max_step <= 0:
        raise ValueError("`max_step` must be positive.")
    if first_step is not None and first_step <= 0:
        raise ValueError("`first_step` must be positive.")
    if first_step is not None and first_step > span:
        raise ValueError("`first_step` exceeds bounds.")
    smallest = 100 * np.finfo(float).eps
    if np.any(rtol < smallest):
        warnings.warn(f"At least one element of `rtol` is too small. Setting to {smallest}.", stacklevel=3)
        rtol = np.maximum(rtol, smallest)
    if atol.ndim > 0 and atol.shape != (n,):
        raise ValueError("`atol` has wrong shape.")
    if np.any(atol < 0):
        raise ValueError("`atol` must be positive.")
    return float(max_step), None if first_step is None else float(first_step), rtol, atol


def _fixed(fun, t0, tf, y, t_eval, times, max_step):
    """The classical method with equal steps of at most `max_step`, between the times that are asked for."""
    if not math.isfinite(max_step):
        raise ValueError("method='RK4' takes fixed steps: pass max_step=, the largest size")
    ends = [tf] if t_eval is None else [array(t_eval)[k] for k in range(len(times))]
    ts, ys = ([t0], [y]) if t_eval is None else ([], [])
    t = t0
    for end in ends:
        width = end - t
        count = max(1, math.ceil(abs(float(value(width))) / max_step * (1 - 1e-12)))
        origin = t
        for k in range(count):
            y = classical_step(fun, t, y, width / count)
            t = end if k + 1 == count else origin + width * ((k + 1) / count)
            if t_eval is None:
                ts.append(t)
                ys.append(y)
        if t_eval is not None:
            ts.append(t)
            ys.append(y)
    return (array(t_eval) if t_eval is not None else _stacked(ts)), np.stack(ys, axis=1)
