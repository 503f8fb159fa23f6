"""Explicit Runge-Kutta methods.

The coefficients are those of SciPy's classes: of J. Dormand and P. Prince, "A family of embedded Runge-Kutta formulae",
J. Comput. Appl. Math. 6 (1980), with the quartic interpolant of L. Shampine, "Some practical Runge-Kutta formulas", Math. Comput.
46 (1986); of P. Bogacki and L. Shampine, "A 3(2) pair of Runge-Kutta formulas", Appl. Math. Lett. 2 (1989); and, for DOP853,
of E. Hairer, S. Norsett, G. Wanner, "Solving Ordinary Differential Equations I" (1993), II.5 and II.6.
"""

import numpy as np

from ...array.record import guard_on
from ...autograd.custom import stop_gradient
from ...common.host_functions import host_function
from ...common.uninterrupted import imported
from ...transforms.loops.api import scan
from ..mirrors import combined
from .stepping import LEAST, MOST, SAFETY, StepMethod, norm


class RungeKutta(StepMethod):
    """A pair of explicit methods, the difference of which is the error estimate."""

    def __init__(self, problem, name, jac=None, matrices=None):
        super().__init__(problem, name, jac)
        self.table = getattr(imported("scipy.integrate"), name)
        self.order = self.table.error_estimator_order

    def started(self, t, y, f, size):
        return {"f": f, "slopes": np.zeros((len(self.table.B) + 1, len(y)))}

    def attempt(self, state, end, size, cut):
        table, (t, y) = self.table, (state["t"], state["y"])
        h = end - t
        slopes = self._stages(t, y, h, [state["f"]], table.A[1:], table.C[1:])
        new = y + h * combined(table.B, slopes)
        slopes.append(self.problem.slope(end, new))
        size = np.abs(stop_gradient(h))
        error = self._error(stop_gradient(slopes), size, self.problem.scale(y, new))
        accepted = error < 1
        factor = SAFETY * np.maximum(error, 1e-100) ** (-1 / (self.order + 1))
        most = np.where(state["rejected"] > 0, 1.0, MOST)
        factor = np.where(accepted, np.minimum(most, factor), np.fmax(LEAST, factor))
        always = {"size": size * factor, "nfev": state["nfev"] + float(len(table.B))}
        return accepted, always, {"y": new, "f": slopes[-1], "slopes": np.stack(slopes)}

    def _stages(self, t, y, h, slopes, rows, nodes):
        for c, row in zip(nodes.tolist(), rows):
            slopes.append(self.problem.slope(t + c * h, y + h * combined(row, slopes)))
        return slopes

    def _error(self, slopes, size, scale):
        return norm(size * combined(self.table.E, slopes) / scale)

    def segment(self, state):
        rows = (state["t"] - state["t_old"]) * (np.transpose(self.table.P) @ state["slopes"])
        return {"t": state["t"], "t_old": state["t_old"], "origin": state["y_old"], "rows": rows}


class DormandPrince853(RungeKutta):
    """The pair of order 8, with two error estimates and an interpolant of order 7."""

    dense_calls = 3

    def _error(self, slopes, size, scale):
        fifth, third = (combined(e, slopes) / scale for e in (self.table.E5, self.table.E3))
        fifth, third = np.sum(fifth * fifth), np.sum(third * third)
        whole = fifth + 0.01 * third
        return size * np.where(whole > 0, fifth / np.sqrt(np.where(whole > 0, whole, 1.0) * len(slopes[0])), whole)

    def segment(self, state):
        table, t, y = self.table, state["t_old"], state["y_old"]
        h, slopes = state["t"] - t, list(state["slopes"])
        first, last, change = slopes[0], slopes[-1], state["y"] - y
        slopes = self._stages(t, y, h, slopes, table.A_EXTRA, table.C_EXTRA)
        rows = [change, h * first - change, 2.0 * change - h * (last + first), *(h * combined(row, slopes) for row in table.D)]
        return {"t": state["t"], "t_old": t, "origin": y, "rows": np.stack(rows)}

    def multipliers(self, segment, t):
        x, *_ = super().multipliers(segment, t)
        return [1.0 - x if k % 2 else x for k in range(len(segment["rows"]))]


@host_function
def _steps_in(width, most):
    return np.maximum(1.0, np.ceil(np.abs(width) / most * (1 - 1e-12)))


def classical(problem, y, times):
    """The classical method of order 4 with equal steps of at most `max_step`; times, values, and how often the slope was evaluated.

    Between the `times` that are asked for; with none the steps.
    """
    slope, start, most = problem.slope, problem.start, problem.max_step
    if not 0.0 < most < np.inf:
        raise ValueError("method='RK4' takes fixed steps: pass max_step=, the largest size, which must be positive")

    def step(y, at):
        t, h = at
        k1 = slope(t, y)
        k2 = slope(t + 0.5 * h, y + 0.5 * h * k1)
        k3 = slope(t + 0.5 * h, y + 0.5 * h * k2)
        k4 = slope(t + h, y + h * k3)
        y = y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
        return y, y

    ts, hs, counts = [], [], [0]
    for end in [problem.stop] if times is None else [times[k] for k in range(len(times))]:
        width = end - start
        count = int(guard_on(_steps_in(most), width))
        ts.append(start + width * (np.arange(count) / count))
        hs.append(width / count * np.ones(count))
        counts.append(counts[-1] + count)
        start = end
    _, states = scan(step, y, (np.concatenate(ts), np.concatenate(hs)))
    if times is None:
        times, states = np.concatenate([*ts, np.reshape(start, (1,))]), np.concatenate([np.expand_dims(y, 0), states])
    else:
        states = states[np.array(counts[1:]) - 1]
    return times, np.transpose(states), 4.0 * counts[-1]
