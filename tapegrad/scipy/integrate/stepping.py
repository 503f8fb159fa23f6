"""One attempt at a step of an initial value problem, written as the body of a loop.

A loop carries the state of a method as a dict of numbers and arrays whose shapes do not change: time `t` and
solution `y`, those of the step before (`t_old`, `y_old`), the `size` of the step to try (without its sign), and what the method keeps.
`StepMethod.trial` is an iteration of the loop: it attempts a step, and takes it or makes it smaller.  How many iterations there are
is for the loop to find out, and depends on the numbers; an iteration itself decides by `np.where`, but for whether the step is taken.

What is chosen from error estimates (sizes, orders, whether a step is taken) is detached: the derivative is that of the
steps that were taken, as if their sizes had been given.  But the interval ends where it ends: the last step goes to `stop`,
and moves with it, as all of them move with the time at the start.

First sizes and controllers are those of E. Hairer, S. Norsett, G. Wanner, "Solving Ordinary Differential Equations I" (1993), II.4,
with the constants of SciPy, so that the steps are SciPy's but for rounding.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from ...autograd.custom import stop_gradient
from ...transforms.loops.api import scan, while_loop
from ..mirrors import differentiable, value

#: By how much a step may grow or shrink from one to the next, and how careful its choice is.
MOST, LEAST, SAFETY = 10.0, 0.2, 0.9


@dataclass
class InitialValueProblem:
    """``dy/dt = slope(t, y)`` from `start` to `stop`, with the tolerances of the steps.

    Attributes
    ----------
    events : callable or None
        ``events(t, y)``, a vector of numbers; `ways` are the directions in which each counts, `limits` how often it may
        until the integration stops.
    most : float
        Steps that may be tried.
    """

    slope: Callable[[Any, Any], Any]
    start: Any
    stop: Any
    direction: float
    rtol: Any
    atol: Any
    max_step: float
    events: Callable[[Any, Any], Any] | None
    ways: np.ndarray
    limits: np.ndarray
    most: float = np.inf

    def scale(self, *states):
        """What an error is measured by, at the larger one of some states."""
        return self.atol + self.rtol * reduce(np.maximum, map(np.abs, stop_gradient(states)))

    def first_size(self, order, t, y, f):
        """The size of the first step of a method whose error estimate is of this order."""
        t, y, f = stop_gradient((t, y, f))
        scale, span = self.scale(y), np.abs(stop_gradient(self.stop) - t)
        of_state, of_slope = norm(y / scale), norm(f / scale)
        small = np.where(np.minimum(of_state, of_slope) < 1e-5, 1e-6, 0.01 * of_state / np.maximum(of_slope, 1e-5))
        small = np.minimum(small, span)
        ahead = stop_gradient(self.slope(t + self.direction * small, y + self.direction * small * f))
        most = np.maximum(of_slope, norm((ahead - f) / scale) / small)
        size = np.where(most <= 1e-15, np.maximum(1e-6, small * 1e-3), (0.01 / np.maximum(most, 1e-15)) ** (1 / (order + 1)))
        return np.minimum(np.minimum(100 * small, size), np.minimum(span, self.max_step))

    def crossed(self, before, after):
        """Which events are met between two values of them."""
        up, down = np.logical_and(before <= 0, after >= 0), np.logical_and(before >= 0, after <= 0)
        return np.logical_or(np.logical_and(up, self.ways >= 0), np.logical_and(down, self.ways <= 0))


def norm(x):
    """The root of the mean square."""
    return np.sqrt(np.mean(x * x))


def flag(condition):
    """1 where a condition holds, and 0."""
    return np.where(condition, 1.0, 0.0)


class StepMethod(ABC):
    """How steps are taken.

    Parameters
    ----------
    problem : InitialValueProblem
    name : str
        That of the method in SciPy.
    jac : array or callable, optional
        The Jacobian of the slope, of methods that use one.
    matrices : newton.DenseMatrices, optional
        How these keep it.
    """

    #: Order of the error estimate.
    order: int
    #: Evaluations of the slope that the interpolant of a step takes.
    dense_calls = 0

    def __init__(self, problem, name, jac=None, matrices=None):
        self.problem = problem

    @abstractmethod
    def started(self, t, y, f, size):
        """What the method keeps of a state that nothing was done with."""

    @abstractmethod
    def attempt(self, state, end, size, cut):
        """Try a step of a size to the time `end`, which is that of the interval where `cut` holds.

        Returns
        -------
        accepted
        always : dict
            What the state becomes in any case, the next `size` among it.
        taken : dict
            What it becomes if the step is accepted, `y` among it.
        """

    @abstractmethod
    def segment(self, state):
        """The interpolant of the last step, as a dict of arrays, for `between`."""

    def multipliers(self, segment, t):
        """By what each of the rows of an interpolant is multiplied at the times `t`; row k by the first k + 1 of them."""
        return [(t - segment["t_old"]) / (segment["t"] - segment["t_old"])] * len(segment["rows"])

    def between(self, segment, t):
        """The solution within a step: (n,) for a number, (m, n) for m times."""
        y = 0.0
        for row, x in reversed(list(zip(segment["rows"], self.multipliers(segment, np.expand_dims(t, -1))))):
            y = (y + row) * x
        return segment["origin"] + y

    # -- loops -----------------------------------------------------------------
    def start(self, y, first_step):
        """The state before the first step."""
        problem, t = self.problem, self.problem.start
        f = problem.slope(t, y)
        size = self.problem.first_size(self.order, t, y, f) if first_step is None else first_step
        state = {
            "t": t, "y": y, "t_old": t, "y_old": y, "size": size, "rejected": 0.0, "failed": 0.0, "steps": 0.0, "njev": 0.0, "nlu": 0.0,
            "nfev": 1.0 if first_step is not None else 2.0, "ended": 0.0, "trials": 0.0, **self.started(t, y, f, size),
        }  # fmt: skip
        if problem.events is not None:
            state |= {"events": problem.events(t, y), "met": np.zeros(len(problem.limits))}
        return state

    def goes_on(self, state):
        """Whether there is a step to try."""
        goes_on = np.logical_and(self._left(state), state["failed"] + state["ended"] < 1)
        return goes_on if self.problem.most == np.inf else np.logical_and(goes_on, state["trials"] < self.problem.most)

    def _left(self, state):
        return self.problem.direction * stop_gradient(self.problem.stop - state["t"]) > 0

    def trial(self, state, times=None):
        """The state after one more attempt at a step; with `times`, its `outputs` there are filled in."""
        problem, t = self.problem, state["t"]
        # Ten times the distance from t to the next number.
        least = 10.0 * np.exp2(np.floor(np.log2(np.maximum(np.abs(stop_gradient(t)), 1e-290))) - 52.0)
        size = np.where(state["rejected"] > 0, state["size"], np.maximum(np.minimum(state["size"], problem.max_step), least))
        end = t + problem.direction * size
        cut = problem.direction * stop_gradient(end - problem.stop) > 0
        end = np.where(cut, problem.stop, end)
        accepted, always, taken = self.attempt(state, end, size, cut)
        new = state | always | {"trials": state["trials"] + 1.0}
        # Two paths of the body: what was computed for a step that is not taken, finite or not, has no part in the derivative.
        if not np.logical_and(accepted, size >= least):
            return new | {"rejected": 1.0, "failed": flag(size < least)}
        new |= taken | {"t": end, "t_old": t, "y_old": state["y"], "rejected": 0.0, "steps": state["steps"] + 1.0}
        if problem.events is not None:
            new["events"] = problem.events(end, new["y"])
            met = problem.crossed(*stop_gradient((state["events"], new["events"])))
            new["met"] = state["met"] + flag(met)
            new["ended"] = np.max(flag(np.logical_and(met, new["met"] >= problem.limits)))
        if times is not None:
            ahead = np.where(state["steps"] < 1, 1.0, problem.direction * stop_gradient(times - t))
            within = flag(ahead > 0) * flag(problem.direction * stop_gradient(times - end) <= 0) > 0
            outputs = self.between(self.segment(new), np.where(within, times, end))
            new["outputs"] = np.where(np.expand_dims(within, 1), outputs, state["outputs"])
            new["nfev"] = new["nfev"] + self.dense_calls * np.max(flag(within), initial=0.0)
        return new

    def at_times(self, state, times):
        """The last state, with the solution at some times as `outputs`, shape (m, n)."""
        outputs = np.zeros((len(times), len(state["y"])))
        return self._ended(while_loop(self.goes_on, lambda state: self.trial(state, times), state | {"outputs": outputs}))

    def all_steps(self, state, interpolated):
        """The last state, the number of steps, and their times, solutions, events and interpolants, with a first axis for the steps."""
        # How many attempts there are is counted first, without derivatives.
        counting = self.undifferentiated()
        end = while_loop(self.goes_on, lambda state: stop_gradient(counting.trial(state)), stop_gradient(state))

        def attempted(state, _):
            state = self.trial(state)
            result = {name: state[name] for name in ("t", "y", "rejected", "events") if name in state}
            return state, result | ({"segment": self.segment(state)} if interpolated else {})

        trials = int(stop_gradient(end["trials"]))
        if not trials:
            return self._ended(end), 0, None
        end, results = scan(attempted, state, length=trials)
        taken = np.flatnonzero(value(results.pop("rejected")) == 0)
        segments = results.pop("segment", {})
        steps = self._ended({name: result[taken] for name, result in results.items()})
        return self._ended(end), len(taken), steps | {"segment": {name: part[taken] for name, part in segments.items()}}

    def _ended(self, state):
        """A state after a loop: numbers that count and report have no derivative, and times have none where the ends have none."""
        if self.problem.most < np.inf and "trials" in state:
            over = np.logical_and(self._left(state), np.logical_and(state["trials"] >= self.problem.most, state["failed"] + state["ended"] < 1))
            state = state | {"failed": state["failed"] + 2.0 * flag(over)}
        live = ("t", "y", "outputs", "events") if differentiable(self.problem.start, self.problem.stop) else ("y", "outputs", "events")
        return {name: part if name in live else stop_gradient(part) for name, part in state.items()}

    def undifferentiated(self):
        """The same method, for values only."""
        return self
