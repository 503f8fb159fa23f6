"""A control problem of 2 000 variables by IPOPT: our sparse derivatives beside CasADi's, which is written in its own language."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

import tapegrad as tg

from .fresh import run
from .registry import Missing, Row, benchmark, check_agreement, peer, ratio
from .timing import measure

#: The first solution in a process, whose cache an earlier one has filled: the seconds from before `import tapegrad` to its end.
FIRST = """
import json, time
start = time.perf_counter()
from benchmarks.constrained import Control
Control({count}).ours(0)
print(json.dumps(time.perf_counter() - start))
"""


class Control:
    """A pendulum on a cart, swung up in two seconds by the least force, at `count` times, by collocation."""

    def __init__(self, count):
        self.count, self.step = count, 2.0 / (count - 1)
        line, rest = np.linspace(0.0, 1.0, count), np.zeros(count)
        self.start = np.concatenate([line, np.pi * line, rest, rest, rest])
        self.upper = np.concatenate([np.full(count, 2.0), np.full(3 * count, np.inf), np.full(count, 20.0)])

    def begin(self, k):
        """One of several starts."""
        return self.start + 0.01 * k * np.sin(np.arange(5 * self.count))

    def cost(self, z):
        return self.step * np.sum(z[4 * self.count :] ** 2)

    def defects(self, z):
        x, u = z[: 4 * self.count].reshape(4, self.count), z[4 * self.count :]
        slope = np.stack(motion(np, x, u))
        moved = x[:, 1:] - x[:, :-1] - 0.5 * self.step * (slope[:, 1:] + slope[:, :-1])
        return np.concatenate([moved.ravel(), x[:, 0], x[:, -1] - np.array([1.0, np.pi, 0.0, 0.0])])

    def ours(self, k):
        return tg.optimize.nlp(self.cost, self.begin(k), [(self.defects, 0.0, 0.0)], (-self.upper, self.upper), method="ipopt")

    def theirs(self, casadi):
        """CasADi's solver: a function of the number of a start."""
        z, n = casadi.SX.sym("z", 5 * self.count), self.count
        x, u = [z[k * n : (k + 1) * n] for k in range(4)], z[4 * n :]
        slope = motion(casadi, x, u)
        moved = [a[1:] - a[:-1] - 0.5 * self.step * (s[1:] + s[:-1]) for a, s in zip(x, slope)]
        ends = [a[0] for a in x] + [a[-1] - e for a, e in zip(x, (1.0, np.pi, 0.0, 0.0))]
        quiet = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes"}}
        solver = casadi.nlpsol("s", "ipopt", {"x": z, "f": self.step * casadi.sumsqr(u), "g": casadi.vertcat(*moved, *ends)}, quiet)
        return solver, lambda k: solver(x0=self.begin(k), lbg=0.0, ubg=0.0, lbx=-self.upper, ubx=self.upper)


def motion(namespace, x, u):
    """The derivatives by time of place, angle and their speeds."""
    _, angle, speed, turning = x
    s, c = namespace.sin(angle), namespace.cos(angle)
    mass = 1.0 + 0.3 * s**2
    pushed = (u + 0.3 * s * (0.5 * turning**2 + 9.81 * c)) / mass
    return [speed, turning, pushed, -(u * c + 0.15 * turning**2 * c * s + 1.3 * 9.81 * s) / (0.5 * mass)]


@benchmark(name="constrained")
def constrained(quick: bool) -> Iterator[Row]:
    """A control problem by collocation, solved by IPOPT: beside CasADi's own derivatives, and from a cold start."""
    count = 60 if quick else 400
    beside = f"optimal control by IPOPT, {5 * count} variables, beside CasADi's derivatives"
    first = f"optimal control by IPOPT, {5 * count} variables: from import to the first solution"
    try:
        casadi = peer("casadi")
    except Missing as reason:
        yield Row(beside, "at most 1.5 times", limit=1.5, skip=str(reason))
        yield Row(first, "at most 1.5 s", limit=1.5, unit="s", skip=str(reason))
        return
    problem = Control(count)
    solver, theirs = problem.theirs(casadi)
    own = problem.ours(0)
    check_agreement(beside, {"tapegrad": own.fun, "CasADi": float(theirs(0)["f"])}, rtol=1e-7)
    iterations = {"tapegrad": own.nit, "CasADi": solver.stats()["iter_count"]}
    starts = {name: iter(range(1, 10**6)) for name in ("tapegrad", "CasADi")}
    calls = {"tapegrad": lambda: problem.ours(next(starts["tapegrad"]) % 7), "CasADi": lambda: theirs(next(starts["CasADi"]) % 7)}
    times = measure(calls, budget=1.0 if quick else 6.0, at_least=7)
    yield ratio(beside, "at most 1.5 times", 1.5, times, "CasADi", iterations=iterations)
    with tempfile.TemporaryDirectory() as cache:
        run(FIRST.format(count=count), cache)
        seconds = min(run(FIRST.format(count=count), cache) for _ in range(1 if quick else 3))
    yield Row(first, "at most 1.5 s", seconds, 1.5, "s")
