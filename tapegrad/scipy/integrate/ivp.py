"""`solve_ivp` and `odeint`: initial value problems whose solution is differentiated through its steps."""

import numpy as np

from ...array.complex import is_complex, refused
from ...array.functions import stack
from ...array.record import guard_on
from ...autograd.custom import stop_gradient
from ...common.errors import ConvergenceError, UnsupportedFunctionError
from ...common.host_functions import host_function
from ...common.uninterrupted import Lazily, cached_property
from ..mirrors import array, constant, differentiable, finite, plainly, value
from . import events as happenings
from .explicit import DormandPrince853, RungeKutta, classical
from .newton import of_problem
from .stepping import InitialValueProblem, flag
from .stiff import BDF, Radau

_integrate, _optimize = Lazily("scipy.integrate"), Lazily("scipy.optimize")

METHODS = {"RK45": RungeKutta, "RK23": RungeKutta, "DOP853": DormandPrince853, "BDF": BDF, "Radau": Radau}
IMPLICIT = ("BDF", "Radau")
#: SciPy's words, by status; -2 is -1 for a reason that SciPy has not.
MESSAGES = {
    -2: "The limit of steps (max_steps) was reached.",
    -1: "Required step size is less than spacing between numbers.",
    0: "The solver successfully reached the end of the integration interval.",
    1: "A termination event occurred.",
}
#: The end of an integration that takes no steps of its own choice.
FINISHED = {"failed": 0.0, "ended": 0.0, "njev": 0.0, "nlu": 0.0}


@host_function
def _step_at(ts, t):
    """The step in which each time lies; one between two steps belongs to the earlier of them along the integration."""
    way = 1.0 if ts[-1] >= ts[0] else -1.0
    return np.clip(np.searchsorted(way * ts, way * t, "left") - 1, 0, len(ts) - 2)


class OdeSolution:
    """A continuous solution: called with a time (n,) or with times, shape (n, m).

    Attributes
    ----------
    ts : ndarray
        Times between the steps.
    interpolants : list
        Functions of times, one for each step.
    """

    def __init__(self, ts, interpolants):
        self._ts, self.interpolants = ts, interpolants

    @cached_property
    def ts(self):
        return value(self._ts)

    t_min = property(lambda self: min(self.ts))
    t_max = property(lambda self: max(self.ts))

    def __call__(self, t):
        t = array(t)
        where = guard_on(_step_at(), self._ts, t)
        if t.ndim == 0:
            return self.interpolants[int(where)](t)
        if t.ndim != 1:
            raise ValueError("`t` must be a float or a 1-D array.")
        order = np.argsort(where, kind="stable")
        parts = [self.interpolants[k](t[np.flatnonzero(where == k)]) for k in np.unique(where)]
        states = np.transpose(np.concatenate(parts))
        return states if np.array_equal(order, np.arange(len(order))) else states[:, np.argsort(order, kind="stable")]


def solve_ivp(
    fun, t_span, y0, method="RK45", t_eval=None, dense_output=False, events=None, vectorized=False, args=None, **options
):
    """Solve an initial value problem ``dy/dt = fun(t, y, *args)``.

    Differentiable in `y0`, `args`, the ends of `t_span`, `t_eval`, and in tensors that `fun`, `jac` and the events
    hold.  With plain arguments it is SciPy's (after one call of `fun` and the events that looks for tensors in the
    results), and with tensors it takes the same steps; the derivative is that of the accepted
    steps, and differs from the derivative of the exact solution by about the tolerance.

    Parameters
    ----------
    fun : callable
        ``fun(t, y, *args)`` with `y` of shape (n,), giving (n,); a list of
        scalars is stacked.
    t_span : pair of float
    y0 : array-like, shape (n,)
    method : {"RK45", "RK23", "DOP853", "BDF", "Radau", "RK4"}
        As in SciPy, or the classical method of order 4 with fixed steps of at most
        `max_step` (which SciPy has not).
    t_eval : array-like, shape (m,), optional
        Times of the result; the steps themselves by default.
    dense_output : bool
        Whether to return a continuous solution as `sol`.
    events : callable, or sequence of them, optional
        ``event(t, y, *args)``, with attributes `terminal` and `direction`; the times at which they are zero are differentiable.
    vectorized : bool
        Whether `fun` takes (n, k).
    args : tuple, optional
    **options
        `rtol` (1e-3), `atol` (1e-6), `first_step`, `max_step`, and `jac` and `jac_sparsity` of BDF and Radau, as in SciPy; without
        `jac` the Jacobian is the derivative of `fun`, without `jac_sparsity` its pattern is that of the recorded `fun`, if it is recorded,
        there are 200 unknowns or more, and this saves. And `max_steps`, which SciPy has not: the integration fails after so many attempts,
        so that an optimiser that tries wild parameters is not held up.

    Returns
    -------
    OptimizeResult
        With `t` (m,), `y` (n, m), `sol`, `status` (0; 1 after a terminal event; -1 for a step that
        becomes too small, or after `max_steps`), `message`, `success`, `nfev`, `njev`, `nlu`, `t_events`, `y_events`.

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
    args = () if args is None else tuple(args)
    happening = None if events is None else happenings.prepared(events, args)
    if not differentiable(t_span, y0, t_eval, args) and name != "RK4" and options.get("max_steps") is None:
        t, y = float(t_span[0]), array(y0)
        first = fun(t, y[:, None] if vectorized else y, *args)
        if not differentiable(first, happening[0](t, y) if happening else ()):
            return _integrate.solve_ivp(
                fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args or None, **options
            )
    if name not in (*METHODS, "RK4"):
        why = ": ODEPACK's steps have no derivative; give BDF or Radau if the equations are stiff, DOP853 if not" if name == "LSODA" else ""
        raise UnsupportedFunctionError(f"solve_ivp with tensors takes the methods {', '.join(METHODS)} and RK4, not {name!r}{why}")
    y0 = array(y0)
    if is_complex(y0):
        raise refused("solve_ivp from a complex y0")
    times = None if t_eval is None else array(t_eval)
    sparsity = options.pop("jac_sparsity", None) if name in IMPLICIT else None
    problem, first_step, jac = _problem(fun, t_span, y0, name, times, happening, vectorized, args, options)
    if name == "RK4":
        if dense_output or events:
            raise UnsupportedFunctionError("solve_ivp with method='RK4' has no dense_output and no events; pass t_eval")
        ts, ys, calls = classical(problem, y0, times)
        return _result(FINISHED, calls, ts, ys)
    met = None if problem.limits is None else [[] for _ in problem.limits]
    if y0.size == 0 or problem.start == problem.stop:
        return _nowhere(problem, y0, times, dense_output, met)
    method = METHODS[name](problem, name, jac, of_problem(problem, y0, sparsity, jac) if name in IMPLICIT else None)
    state = method.start(y0, first_step)
    if times is not None and not dense_output and events is None:
        end = method.at_times(state, times)
        kept = _reached(problem, times, end["t"]) if end["failed"] > 0 else len(times)
        return _result(end, end["nfev"], times[:kept], np.transpose(end["outputs"][:kept]) if kept else [])
    interpolated = dense_output or times is not None or events is not None
    end, count, steps = method.all_steps(state, interpolated)
    ts, ys, segments = np.reshape(problem.start, (1,)), np.expand_dims(y0, 0), []
    if count:
        ts, ys = np.concatenate([ts, steps["t"]]), np.concatenate([ys, steps["y"]])
        segments = [{key: leaf[k] for key, leaf in steps["segment"].items()} for k in range(count * interpolated)]
    solutions = [lambda t, segment=segment: method.between(segment, t) for segment in segments]
    if happening and count:
        met, last = happenings.met(problem, state, end, steps, ts, solutions)
        if last is not None:
            ts = np.concatenate([ts[:-1], np.reshape(last, (1,))])
            ys = np.concatenate([ys[:-1], np.expand_dims(solutions[-1](last), 0)])
    sol = OdeSolution(ts, solutions) if solutions else None
    calls = end["nfev"] + float(method.dense_calls * count * interpolated)
    if times is not None:
        ts = times[: _reached(problem, times, ts[-1])]
        ys = np.transpose(sol(ts)) if sol and len(ts) else []
    return _result(end, calls, ts, np.transpose(ys), sol if dense_output else None, met)


def odeint(
    func, y0, t, args=(), Dfun=None, col_deriv=0, full_output=0, ml=None, mu=None, rtol=None, atol=None, tcrit=None, h0=0.0, hmax=0.0,
    hmin=0.0, ixpr=0, mxstep=0, mxhnil=0, mxordn=12, mxords=5, printmessg=0, tfirst=False,
):  # fmt: skip
    """Solve ``dy/dt = func(y, t, *args)``, with `y0` at the first of the times `t`.

    With plain arguments it is SciPy's; with tensors it takes the steps of `solve_ivp` with the method
    DOP853 and these tolerances, not those of LSODA.  For stiff problems use `solve_ivp` with BDF or Radau.

    Parameters
    ----------
    func : callable
        ``func(y, t, *args)``, or ``func(t, y, *args)`` with `tfirst`; gives (n,).
    y0 : array-like, shape (n,)
    t : array-like, shape (m,)
        Differentiable, as are `y0`, `args` and what `func` itself holds.
    args : tuple
    rtol, atol : float or array-like, optional
        1.49e-8 by default.
    h0, hmax : float
        The first and the largest size of a step; 0, if they are chosen.
    tfirst : bool
    full_output, tcrit
        For plain numbers only.
    Dfun, col_deriv, ml, mu, hmin, ixpr, mxstep, mxhnil, mxordn, mxords, printmessg
        Of LSODA; tensors do not use them.

    Returns
    -------
    Tensor or ndarray, shape (m, n)

    Raises
    ------
    ConvergenceError
        A step becomes too small.
    UnsupportedFunctionError
        For options that are for plain numbers only.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.scipy.integrate import odeint
    >>> end = lambda k: odeint(lambda y, t: -k * y, [1.0], [0.0, 2.0])[-1, 0]
    >>> print(f"{tg.grad(end)(0.5):.6f} {-2 * np.exp(-1):.6f}")
    -0.735759 -0.735759
    """
    start, times = np.reshape(array(y0), (-1,)) if np.ndim(y0) == 0 else array(y0), array(t)
    slope = func if tfirst else lambda t, y, *args: func(y, t, *args)
    if not differentiable(y0, t, args) and not differentiable(slope(float(times[0]), start, *args)):
        return _integrate.odeint(
            func, y0, t, args, Dfun, col_deriv, full_output, ml, mu, rtol, atol, tcrit, h0, hmax, hmin, ixpr, mxstep, mxhnil, mxordn,
            mxords, printmessg, tfirst,
        )  # fmt: skip
    if full_output or tcrit is not None:
        raise UnsupportedFunctionError("odeint of tensors has no full_output= and no tcrit=; solve_ivp reports what it did")
    ahead = np.diff(times)
    if not (np.all(ahead >= 0) or np.all(ahead <= 0)):
        raise ValueError("The values in t must be monotonically increasing or monotonically decreasing; repeated values are allowed.")
    options = {"rtol": 1.49012e-8 if rtol is None else rtol, "atol": 1.49012e-8 if atol is None else atol}
    options |= {name: size for name, size in (("first_step", h0), ("max_step", hmax)) if size}
    problem, first_step, _ = _problem(slope, (times[0], times[-1]), start, "DOP853", None, None, False, tuple(args), options)
    if problem.start == problem.stop:
        return np.stack([start] * len(times))
    method = DormandPrince853(problem, "DOP853")
    end = method.at_times(method.start(start, first_step), times)
    if end["failed"] > 0:
        raise ConvergenceError(f"odeint: {MESSAGES[-1]} Stiff problems are for solve_ivp with method='BDF' or 'Radau'")
    return end["outputs"]


def _problem(fun, t_span, y0, name, times, happening, vectorized, args, options):
    """The problem, the first size and the Jacobian that were given; raises for what SciPy refuses."""
    jac = options.pop("jac", None) if name in IMPLICIT else None
    most = options.pop("max_steps", None)
    if most is not None and (not isinstance(most, (int, np.integer)) or most < 1):
        raise ValueError(f"`max_steps` is a number of steps, not {most!r}.")
    if most is not None and name == "RK4":
        raise ValueError("`max_steps` is for methods that choose their steps; those of RK4 follow from `max_step`.")
    options = {key: None if v is None else constant(v, "solve_ivp", key, "it chooses the steps") for key, v in options.items()}
    start, stop = (t if differentiable(t) else float(t) for t in t_span)
    # SciPy looks at the arguments when it is asked for a solver.
    length = np.inf if differentiable(start, stop) else abs(stop - start)
    theirs = {"jac": np.zeros((y0.size, y0.size))} if name in IMPLICIT else {}
    solver = getattr(_integrate, "RK45" if name == "RK4" else name)
    solver(lambda t, y: 0.0 * y, 0.0, np.zeros(y0.shape), length, **options, **theirs)
    try:
        finite(True, y0)
    except ValueError as error:
        raise ValueError("All components of the initial state `y0` must be finite.") from error
    forward = bool(stop >= start)
    if times is not None:
        if times.ndim != 1:
            raise ValueError("`t_eval` must be 1-dimensional.")
        low, high = (start, stop) if forward else (stop, start)
        if np.any(times < low) or np.any(times > high):
            raise ValueError("Values in `t_eval` are not within `t_span`.")
        if np.any((times[1:] <= times[:-1]) if forward else (times[1:] >= times[:-1])):
            raise ValueError("Values in `t_eval` are not properly sorted.")

    def slope(t, y):
        dydt = array(fun(t, np.expand_dims(y, 1) if vectorized else y, *args))
        if vectorized:
            dydt = np.reshape(dydt, (-1,))
        if tuple(dydt.shape) != tuple(y.shape):
            raise ValueError(f"`fun` returned shape {tuple(dydt.shape)}, `y` has shape {tuple(y.shape)}")
        return dydt

    together, ways, limits = happening or (None, None, None)
    problem = InitialValueProblem(
        slope, start, stop, 1.0 if forward else -1.0, np.maximum(options.get("rtol", 1e-3), 100 * np.finfo(float).eps),
        options.get("atol", 1e-6), float(options.get("max_step", np.inf)), together, ways, limits, np.inf if most is None else float(most),
    )  # fmt: skip
    return problem, options.get("first_step"), (lambda t, y: jac(t, y, *args)) if callable(jac) else jac


def _reached(problem, times, last):
    """How many of the times are not behind the last one."""
    return int(np.sum(flag(problem.direction * stop_gradient(last - times) >= 0)))


def _result(end, calls, t, y, sol=None, met=None):
    """The result as SciPy returns it."""
    status = -1 if end["failed"] > 0 else 1 if end["ended"] > 0 else 0
    times = states = None
    if met is not None:
        times, states = ([_joined([pair[k] for pair in pairs]) for pairs in met] for k in range(2))
    return _optimize.OptimizeResult(
        t=_joined(t), y=y, sol=sol, t_events=times, y_events=states, nfev=_count(calls), njev=_count(end["njev"]), nlu=_count(end["nlu"]),
        status=status, message=MESSAGES[-2 if end["failed"] > 1 else status], success=status >= 0,
    )  # fmt: skip


def _joined(parts):
    """A list of numbers or arrays, of which some may be tensors, as an array; one of plain numbers where it has no derivative."""
    whole = (stack(parts) if differentiable(*parts) else np.array(parts, float)) if isinstance(parts, list) else parts
    return plainly(whole)


def _count(number):
    number = plainly(number)
    return int(number) if isinstance(number, float) else number


def _nowhere(problem, y0, times, dense_output, met):
    """The result for an interval of no length, or no unknowns; it moves with the ends."""
    end = y0 + (problem.stop - problem.start) * problem.slope(problem.start, y0)
    sol = OdeSolution(array([problem.start, problem.stop]), [lambda t: y0 + 0.0 * np.expand_dims(t, -1)])
    ts = [problem.start, problem.stop] if times is None else times
    ys = np.stack([y0, end], axis=1) if times is None else sol(times)
    return _result(FINISHED, 1.0, ts, ys, sol if dense_output else None, met)
