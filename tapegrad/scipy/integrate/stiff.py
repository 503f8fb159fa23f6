"""Implicit methods for stiff problems: BDF and Radau.

A step solves equations by a simplified Newton iteration, with a Jacobian that is kept for as long as it serves.  The iteration runs
on detached numbers; the derivative is that of the equations, by the implicit function theorem: further corrections, with
the Jacobian at the solution, that leave the numbers as they are, so that what is left of the residual counts as a constant.  Each
correction makes one more order of derivatives exact.

The derivatives are of the differences D and the stages Z at the sizes and orders that were taken.

L. Shampine and M. Reichelt, "The MATLAB ODE Suite", SIAM J. Sci. Comput. 18 (1997); G. Byrne and A. Hindmarsh, "A polyalgorithm for
the numerical solution of ordinary differential equations", ACM Trans. Math. Softw. 1 (1975); E. Hairer and G. Wanner, "Solving
Ordinary Differential Equations II" (1996), IV.8.  Constants and decisions are those of SciPy.
"""

from abc import abstractmethod
from copy import copy

import numpy as np

from ...array.functions import stack
from ...autograd.custom import stop_gradient
from ...transforms.loops.api import cond
from .stepping import LEAST, MOST, SAFETY, StepMethod, flag, norm

#: The matrix of one block.
ONE = np.ones((1, 1))
#: The smallest error that a step size is computed from.
TINY = 1e-100


class Implicit(StepMethod):
    """A method whose steps solve equations with the Jacobian of the slope."""

    #: How many times the equations of a step are corrected for their derivatives, which are exact up to this order.
    corrections = 2
    #: Iterations of Newton's method in a step.
    iterations: int

    def __init__(self, problem, name, jac=None, matrices=None):
        super().__init__(problem, name, jac)
        self.jac, self.constant, self.matrices = jac, jac is not None and not callable(jac), matrices
        self.tolerance = max(10 * np.finfo(float).eps / problem.rtol, min(0.03, problem.rtol**0.5))

    def undifferentiated(self):
        other = copy(self)
        other.corrections = 0
        return other

    def exact(self, t, y):
        """The Jacobian of the slope, by its derivative."""
        return stop_gradient(self.matrices.derivative(lambda y: self.problem.slope(t, y), stop_gradient(y)))

    def jacobian(self, t, y):
        """The Jacobian for Newton's method."""
        if self.jac is None:
            return self.exact(t, y)
        return stop_gradient(self.matrices.given(self.jac if self.constant else self.jac(stop_gradient(t), stop_gradient(y))))

    def started(self, t, y, f, size):
        # `lu` is what the matrix of the iteration was made with, 0 where there is none.
        counted = 0.0 if self.constant else 1.0
        return {"J": self.jacobian(t, y), "njev": counted, "nlu": 0.0, "lu": 0.0, "fresh": 1.0 - counted}

    def attempt(self, state, end, size, cut):
        step = self.equations(state, end, size, cut)
        now, known = step["with"], step["lu"] != 0
        lu = np.where(known, step["lu"], now)
        solved = self._newton(step, state["J"], lu)

        def again():
            J = self.jacobian(*step["at"])
            return J, now, self._newton(step, J, now), 1.0

        retry = np.logical_and(solved["status"] < 1, state["fresh"] < 1)
        J, lu, second, calls = cond(retry, again, lambda: (state["J"], lu, solved, 0.0))
        always = {
            "J": J, "lu": lu, "fresh": np.maximum(state["fresh"], calls), "njev": state["njev"] + calls,
            "nfev": state["nfev"] + self.stages * (solved["turns"] + calls * second["turns"]),
            "nlu": state["nlu"] + self.factored * (1.0 - flag(known) + calls),
        }  # fmt: skip
        safety = SAFETY * (2 * self.iterations + 1) / (2 * self.iterations + second["turns"])
        return self.finished(state | always, step, second, safety, always)

    def _newton(self, step, J, lu):
        """The solution of the equations of a step: a dict of its `x`, `turns`, `rate`, and `status`, 1 where it was found."""
        solve, tolerance = self.solver(J, lu), self.tolerance
        x, status, turns, width, rate = stop_gradient(step["guess"]), 0.0, 0.0, 1.0, 0.0
        for k in range(self.iterations):
            # Where the iteration has come to an end, the rest of it is without effect.
            runs, before = status == 0, width
            change = np.reshape(solve(np.reshape(stop_gradient(step["residual"](x)), (-1,))), np.shape(x))
            width = norm(change / step["scale"])
            fits, near = width < np.inf, width == 0
            if k:
                rate = np.where(runs, width / before, rate)
                gap = np.maximum(1.0 - rate, 1e-300)
                fits = np.logical_and(rate < 1, rate ** (self.iterations - k) / gap * width <= tolerance)
                near = np.logical_or(near, rate / gap * width < tolerance)
            x = np.where(np.logical_and(runs, fits), x + change, x)
            turns = turns + flag(runs)
            status = np.where(runs, np.where(fits, flag(near), -1.0), status)
        return {"x": x, "turns": turns, "rate": rate, "status": status}

    def corrected(self, residual, x, solver):
        """The solution x of the equations, with its derivatives; `solver` gives the one of the matrix of minus the residual."""
        if not self.corrections:
            return x
        left = stop_gradient(residual(x))
        solve = solver()
        for _ in range(self.corrections):
            x = x + np.reshape(solve(np.reshape(residual(x) - left, (-1,))), np.shape(x))
        return x

    @abstractmethod
    def equations(self, state, end, size, cut):
        """The equations of a step.

        Returns
        -------
        dict
            `residual`, which a correction makes zero, `guess`, `scale`, the time and state `at` which a Jacobian is
            evaluated, and what the matrix would be made `with`; `lu`, with what it was made.
        """

    @abstractmethod
    def solver(self, J, lu):
        """What solves systems with the matrix of the iteration."""

    @abstractmethod
    def finished(self, state, step, solved, safety, always):
        """What `attempt` returns, after the iteration."""


#: Largest order of BDF, rows of its differences, and their numbers.
LARGEST, ROWS = 5, 8
NUMBERS = np.arange(float(ROWS))
KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0, 0.0, 0.0])
GAMMA = np.concatenate([[0.0], np.cumsum(1 / NUMBERS[1:])])
ALPHA, ERRORS = (1 - KAPPA) * GAMMA, KAPPA * GAMMA + 1 / (NUMBERS + 1)


def _change(factor):
    """Differences at points `factor` times as far apart, times a constant matrix."""
    rows, columns = NUMBERS[:, None], NUMBERS
    fixed = np.where(rows == 0, 1.0, np.where(columns == 0, 0.0, (rows - 1) / np.maximum(rows, 1)))
    return np.cumprod(fixed - factor * np.where(rows == 0, 0.0, columns / np.maximum(rows, 1)), axis=0)


UNCHANGED = _change(1.0)


def _rescaled(factor, order):
    """The matrix that takes differences up to an order to those of a step `factor` times as large."""
    within = flag(NUMBERS <= order)
    return np.where(np.expand_dims(within, 1) * within > 0, np.transpose(_change(factor) @ UNCHANGED), np.eye(ROWS))


class BDF(Implicit):
    """Backward differentiation formulas of orders 1 to 5, with steps of constant size for as long as they serve."""

    order, iterations, stages, factored = 1, 4, 1.0, 1.0

    def started(self, t, y, f, size):
        differences = stack([y, self.problem.direction * size * f, *[0.0 * y] * (ROWS - 2)])
        return super().started(t, y, f, size) | {"D": differences, "order": 1.0, "equal": 0.0}

    def equations(self, state, end, size, cut):
        direction, order = self.problem.direction, state["order"]
        h = end - state["t"]
        changed = np.logical_or(cut, size != state["size"])
        D = _rescaled(np.where(changed, direction * h / state["size"], 1.0), order) @ state["D"]
        within = flag(NUMBERS <= order)
        alpha = np.sum(flag(NUMBERS == order) * ALPHA)
        predicted, c, psi = within @ D, h / alpha, (within * GAMMA / alpha) @ D

        def residual(d):
            return c * self.problem.slope(end, predicted + d) - psi - d

        return {
            "residual": residual, "guess": 0.0 * predicted, "scale": self.problem.scale(predicted), "at": (end, stop_gradient(predicted)),
            "with": stop_gradient(c), "lu": np.where(cut, 0.0, state["lu"]), "D": D, "predicted": predicted, "end": end,
            "size": np.abs(stop_gradient(h)), "equal": np.where(changed, 0.0, state["equal"]),
        }  # fmt: skip

    def solver(self, J, lu):
        return self.matrices.solver(ONE, 1.0, ONE, lu, [J])

    def finished(self, state, step, solved, safety, always):
        order = state["order"]
        new = step["predicted"] + solved["x"]
        d = self.corrected(step["residual"], solved["x"], lambda: self.solver(self.exact(step["end"], new), step["with"]))
        new, scale, lower, higher = step["predicted"] + d, self.problem.scale(new), order - 1, order + 1
        flat, D = stop_gradient(d), stop_gradient(step["D"])
        error = norm(np.sum(flag(NUMBERS == order) * ERRORS) * flat / scale)
        converged = solved["status"] > 0
        accepted = np.logical_and(converged, error <= 1)
        refused = np.where(converged, np.fmax(LEAST, safety * np.maximum(error, TINY) ** (-1 / (order + 1))), 0.5)
        # D^{j+1} y_n = D^j y_n - D^j y_{n-1}, where d is the one of order k + 1.
        within, last = flag(NUMBERS <= order), flag(NUMBERS == order + 2)
        sums = np.triu(np.ones((ROWS, ROWS))) * np.expand_dims(within, 1) * within - np.expand_dims(last, 1) * flag(NUMBERS == higher)
        adds = flag(NUMBERS <= order + 2)
        after = sums @ D + np.expand_dims(adds, 1) * flat
        of_lower = norm(np.sum(flag(NUMBERS == lower) * ERRORS) * (flag(NUMBERS == order) @ after) / scale)
        of_higher = norm(np.sum(flag(NUMBERS == higher) * ERRORS) * (last @ after) / scale)
        down = np.where(order > 1, np.maximum(of_lower, TINY) ** (-1 / order), 0.0)
        same = np.maximum(error, TINY) ** (-1 / (order + 1))
        up = np.where(order < LARGEST, np.maximum(of_higher, TINY) ** (-1 / (order + 2)), 0.0)
        best = np.maximum(np.maximum(down, same), up)
        chosen = np.where(down >= best, lower, np.where(same >= best, order, higher))
        equal = np.where(accepted, step["equal"] + 1.0, 0.0)
        renewed = np.logical_and(accepted, equal > order)
        factor = np.where(renewed, np.minimum(MOST, safety * best), np.where(accepted, 1.0, refused))
        next_order = np.where(renewed, chosen, order)
        change = _rescaled(factor, next_order)
        whole = change @ np.where(accepted, sums, np.eye(ROWS))
        adds = change @ np.where(accepted, adds, 0.0)
        always |= {
            "D": whole @ step["D"] + np.expand_dims(adds, 1) * d, "order": next_order, "equal": np.where(renewed, 0.0, equal),
            "lu": np.where(np.logical_or(renewed, np.logical_not(converged)), 0.0, state["lu"]), "size": step["size"] * factor,
            "fresh": np.where(accepted, flag(self.constant), state["fresh"]),
        }  # fmt: skip
        return accepted, always, {"y": new}

    def segment(self, state):
        rows = np.expand_dims(flag(NUMBERS[1 : LARGEST + 1] <= state["order"]), 1) * state["D"][1 : LARGEST + 1]
        return {"t": state["t"], "origin": state["D"][0], "rows": rows, "h": self.problem.direction * state["size"]}

    def multipliers(self, segment, t):
        return [(t - segment["t"] + k * segment["h"]) / ((k + 1) * segment["h"]) for k in range(LARGEST)]


class Radau(Implicit):
    """The implicit Runge-Kutta method of order 5 with three stages.

    Its matrix A, of coefficients at the nodes, is ``T inv(L) T^-1`` with a block of one row and a block of two; the iteration is for
    the stages ``W = T^-1 Z``, as lengths of its steps are measured there.
    """

    order, iterations, stages, factored = 3, 6, 3.0, 2.0

    def __init__(self, problem, name, jac=None, matrices=None):
        super().__init__(problem, name, jac, matrices)
        root = 6**0.5
        self.nodes = np.array([(4 - root) / 10, (4 + root) / 10, 1.0])
        self.weights = np.array([-13 - 7 * root, -13 + 7 * root, -1.0]) / 3
        powers = self.nodes[:, None] ** [1, 2, 3]
        #: Coefficients of the polynomial through the stages.
        self.powers = np.linalg.inv(powers)
        self.A = (powers / [1, 2, 3]) @ np.linalg.inv(self.nodes[:, None] ** [0, 1, 2])
        values, vectors = np.linalg.eig(np.linalg.inv(self.A))
        vectors = vectors / vectors[-1]
        real, pair = np.argmin(np.abs(values.imag)), np.argmax(values.imag)
        self.real, a, b = values[real].real, values[pair].real, values[pair].imag
        self.L = np.array([[self.real, 0.0, 0.0], [0.0, a, b], [0.0, -b, a]])
        self.T = np.stack([vectors[:, real].real, vectors[:, pair].real, vectors[:, pair].imag], axis=1)
        self.inverse = np.linalg.inv(self.T)

    def started(self, t, y, f, size):
        kept = {"Z": np.zeros((3, len(y))), "f": stop_gradient(f), "fresh": 1.0, "erred": 0.0, "begun": size, "size_old": 0.0, "error_old": 0.0}
        return super().started(t, y, f, size) | kept

    def equations(self, state, end, size, cut):
        t, y = state["t"], state["y"]
        h = end - t
        width, at = stop_gradient((h, y))
        last = stop_gradient(t - state["t_old"])
        x = 1.0 + width / np.where(last == 0, 1.0, last) * self.nodes
        ahead = (np.expand_dims(x, 1) ** np.array([1.0, 2.0, 3.0])) @ self.powers @ stop_gradient(state["Z"]) - stop_gradient(state["Z"])[2]
        first = state["rejected"] < 1
        reset = np.logical_and(first, size != state["size"])
        return {
            "residual": lambda W: self.inverse @ self._slopes(t, at, h, self.T @ W) - (self.L / width) @ W, "guess": self.inverse @ ahead,
            "scale": self.problem.scale(y), "at": (t, at), "with": width, "lu": state["lu"], "h": h, "end": end,
            "begun": np.where(first, state["size"], state["begun"]), "size_old": np.where(reset, 0.0, state["size_old"]),
            "error_old": np.where(reset, 0.0, state["error_old"]),
        }  # fmt: skip

    def _slopes(self, t, y, h, Z):
        return stack([self.problem.slope(t + c * h, y + Z[k]) for k, c in enumerate(self.nodes.tolist())])

    def solver(self, J, lu):
        return self.matrices.solver(self.L, 1.0 / lu, np.eye(3), 1.0, [J] * 3)

    def finished(self, state, step, solved, safety, always):
        problem, (t, y, h, end) = self.problem, (state["t"], state["y"], step["h"], step["end"])
        stages, width, size = self.T @ solved["x"], step["with"], np.abs(step["with"])

        def solver():
            at = [self.exact(t + c * h, y + stages[k]) for k, c in enumerate(self.nodes.tolist())]
            return self.matrices.solver(np.eye(3), 1.0, self.A, width, at)

        Z = self.corrected(lambda Z: h * (self.A @ self._slopes(t, y, h, Z)) - Z, stages, solver)
        new = y + Z[2]
        scale, f = problem.scale(y, new), stop_gradient(problem.slope(end, new))
        ends = (self.weights @ stages) / width
        solve = self.matrices.solver(ONE, self.real / state["lu"], ONE, 1.0, [state["J"]])
        first = solve(state["f"] + ends)
        again = np.logical_and(state["erred"] > 0, norm(first / scale) > 1)
        better = solve(stop_gradient(problem.slope(t, y + first)) + ends)
        error = norm(np.where(again, better, first) / scale)
        converged = solved["status"] > 0
        accepted = np.logical_and(converged, error <= 1)
        known = np.logical_and(np.logical_and(step["size_old"] > 0, step["error_old"] > 0), error > 0)
        ratio = step["error_old"] / np.where(known, error, 1.0)
        trend = np.where(known, size / np.where(known, step["size_old"], 1.0) * ratio**0.25, 1.0)
        factor = np.minimum(1.0, trend) * np.maximum(error, TINY) ** -0.25
        renewed = np.logical_and(accepted, np.logical_and(solved["turns"] > 2, solved["rate"] > 1e-3))
        renewed = np.logical_and(renewed, not self.constant)
        grown = np.minimum(MOST, safety * factor)
        kept = np.logical_and(accepted, np.logical_and(np.logical_not(renewed), grown < 1.2))
        grown = np.where(kept, 1.0, grown)
        J = cond(renewed, lambda: self.jacobian(end, new), lambda: state["J"])
        refused = np.where(converged, np.fmax(LEAST, safety * factor), 0.5)
        always |= {
            "size": size * np.where(accepted, grown, refused), "lu": np.where(kept, state["lu"], 0.0), "J": J,
            "njev": state["njev"] + flag(renewed), "nfev": state["nfev"] + flag(np.logical_and(converged, again)) + flag(accepted),
            "fresh": np.where(np.logical_and(accepted, not self.constant), flag(renewed), state["fresh"]),
            "erred": np.where(accepted, 0.0, np.maximum(state["erred"], flag(converged))), "begun": step["begun"],
            "size_old": np.where(accepted, step["begun"], step["size_old"]), "error_old": np.where(accepted, error, step["error_old"]),
        }  # fmt: skip
        return accepted, always, {"y": new, "Z": Z, "f": f}

    def segment(self, state):
        return {"t": state["t"], "t_old": state["t_old"], "origin": state["y_old"], "rows": self.powers @ state["Z"]}
