"""Events of initial value problems: where a function of time and solution passes zero, with the derivative of that time.

Which events a step has met is seen at its ends, and the time is found by bisection on the step's interpolant.  It moves with
everything the solution depends on, so that the function stays zero: ``dt = -dg / (dg/dt)``, the derivative below the bar along the
solution.  Steps of Newton's method that leave the number as it is have this derivative; two of them, up to the third.
"""

import numpy as np

from ...array.record import guard_on
from ...autograd.custom import stop_gradient
from ...common.errors import OptionError
from ...common.host_functions import host_function
from ...transforms.forward import jvp
from ..mirrors import array, value

#: Halvings after which an interval is as short as it can be.
HALVINGS = 54


def prepared(events, args):
    """``events(t, y)`` as a vector, the directions in which each counts, and how often each may."""
    events = (events,) if callable(events) else tuple(events)
    limits = [getattr(event, "terminal", None) or np.inf for event in events]
    if not all(limit == np.inf or limit > 0 and int(limit) == limit for limit in limits):
        raise OptionError("The `terminal` attribute of each event must be a boolean or positive integer.")

    def together(t, y):
        return array([np.reshape(event(t, y, *args), ()) for event in events])

    return together, np.array([getattr(event, "direction", 0.0) for event in events], float), np.array(limits, float)


def located(event, solution, start, stop):
    """The time between `start` and `stop` at which ``event(t, solution(t))`` is zero."""

    def along(t):
        return event(t, solution(t))

    low, time = stop_gradient((start, stop))
    at_low = stop_gradient(along(low))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + time)
        at_middle = stop_gradient(along(middle))
        before = at_low * at_middle <= 0
        low, at_low, time = np.where(before, low, middle), np.where(before, at_low, at_middle), np.where(before, middle, time)
    left = stop_gradient(along(time))
    for _ in range(2):
        at, rate = jvp(along, (time,), (np.ones(()),))
        time = time - (at - left) / rate
    return time


@host_function
def _in_order(times):
    return np.argsort(times, kind="stable")


def met(problem, start, end, steps, ts, solutions):
    """For each event the times at which it was met, with the solution there, as pairs; and the time that ends the integration, or None.

    Parameters
    ----------
    start, end : dict
        The states before the first step and after the last one.
    steps : dict
        Of what the steps ended with, the ``"events"``, shape (steps, events).
    ts : array
        Times between the steps.
    solutions : list of callable
        Their interpolants.
    """
    pairs: list = [[] for _ in problem.limits]
    after = stop_gradient(steps["events"])
    before = np.concatenate([np.expand_dims(stop_gradient(start["events"]), 0), after[:-1]])
    crossings, terminal = value(problem.crossed(before, after)), value(end["met"] >= problem.limits)
    last = None
    for k in np.flatnonzero(crossings.any(axis=1)):
        active, step = np.flatnonzero(crossings[k]), solutions[k]
        times = [located(lambda t, y, e=e: problem.events(t, y)[e], step, ts[k], ts[k + 1]) for e in active]
        if k == len(crossings) - 1 and terminal[active].any():
            order = guard_on(_in_order(), problem.direction * array(times))
            order = order[: 1 + np.flatnonzero(terminal[active[order]])[0]]
            active, times = active[order], [times[j] for j in order]
            last = times[-1]
        for e, time in zip(active, times):
            pairs[e].append((time, step(time)))
    return pairs, last
