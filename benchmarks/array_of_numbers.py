"""``np.array`` of numbers that are differentiated: the rotations of a robot arm of 7 joints, beside the same by ``np.stack``.

NumPy makes an array of objects of such numbers, and multiplies it element by element in Python where no tensor stands beside it; stacking makes
one tensor of it, whose product is one instruction.  So the first writes many short instructions, the second a few long ones.
Then a differential equation of two, whose right-hand side is such an array: its Hessian under `tg.jit` with NumPy imported, and with `tapegrad.numpy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import tapegrad as tg
import tapegrad.numpy as tnp

from .registry import Row, benchmark, check_agreement
from .timing import measure

JOINTS = 7
ANGLES = np.linspace(0.1, 0.9, JOINTS)
LINKS = np.stack([np.linspace(0.2, 0.5, JOINTS), np.zeros(JOINTS), np.full(JOINTS, 0.1)], 1)
#: Calls that are timed together, of what takes microseconds.
CALLS = 200


def by_array(c, s):
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def by_stack(c, s):
    return np.stack([np.stack([c, -s, 0.0]), np.stack([s, c, 0.0]), np.array([0.0, 0.0, 1.0])])


def arm(rotation: Callable) -> Callable:
    """The square of the distance of the arm's end, by the angles."""

    def reach(angles):
        turned, place = np.eye(3), np.zeros(3)
        for k in range(JOINTS):
            turned = turned @ rotation(np.cos(angles[k]), np.sin(angles[k]))
            place = place + turned @ LINKS[k]
        return np.sum(place * place)

    return reach


def several(call: Callable) -> Callable:
    def calls():
        for _ in range(CALLS):
            call(ANGLES)

    return calls


def by_runge_kutta(np) -> Callable:
    """Two numbers along 60 steps; `np` is the module that makes arrays."""

    def rate(y, p):
        return np.array([-p[0] * y[0], p[0] * y[0] - p[1] * y[1] - p[2] * y[1] / (p[3] + y[1])])

    def total(q):
        p, y, s, h = np.exp(q), np.array([10.0, 0.0]), 0.0, 0.05
        for _ in range(60):
            k1 = rate(y, p)
            k2 = rate(y + h / 2 * k1, p)
            k3 = rate(y + h / 2 * k2, p)
            k4 = rate(y + h * k3, p)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            s = s + y[1] ** 2
        return s

    return total


def imported() -> Row:
    """What `import tapegrad.numpy as np` costs under jit."""
    q = np.log([1.0, 0.1, 0.5, 1.0])
    modules = {"numpy": np, "tapegrad.numpy": tnp}
    hessians = {name: tg.jit(tg.hessian(by_runge_kutta(module)), kernel="always") for name, module in modules.items()}
    check_agreement("Hessian", {name: [hessian(q) for _ in range(3)][-1] for name, hessian in hessians.items()})
    calls = {name: lambda hessian=hessian: [hessian(q) for _ in range(CALLS)] for name, hessian in hessians.items()}
    times = {name: time.per(CALLS) for name, time in measure(calls, budget=2.0, at_least=3).items()}
    own = times["tapegrad.numpy"].minimum / times["numpy"].minimum
    return Row("the Hessian of a loop, under jit, with np of tapegrad.numpy over np of numpy", "at most 1.2", own, 1.2, times=times)


@benchmark(name="array_of_numbers")
def array_of_numbers(quick: bool) -> Iterator[Row]:
    """Rotations of 7 joints by np.array of sines, and by np.stack: run at each call, and recorded."""
    budget = 1.0 if quick else 5.0
    plain = {"tapegrad": tg.value_and_grad(arm(by_array)), "np.stack": tg.value_and_grad(arm(by_stack))}
    check_agreement("gradient of the arm", {name: call(ANGLES)[1] for name, call in plain.items()})
    times = measure({name: lambda call=call: call(ANGLES) for name, call in plain.items()}, budget=budget)
    yield _row("7 joints by np.array, run at each call, beside np.stack", "at most 1.5 times np.stack", 1.5, times, 1)
    for kernel, how in (("always", "by kernels"), ("never", "by sweeps")):
        jitted = {name: tg.jit(call, kernel=kernel) for name, call in plain.items()}
        check_agreement(how, {name: [call(ANGLES)[1] for _ in range(3)][-1] for name, call in jitted.items()})
        times = measure({name: several(call) for name, call in jitted.items()}, budget=budget)
        yield _row(f"7 joints by np.array, recorded, {how}, beside np.stack", "no slower than np.stack, within 10 %", 1.1, times, CALLS)
    yield imported()


def _row(what, promise, limit, times, calls):
    measured = times["tapegrad"].minimum / times["np.stack"].minimum
    return Row(what, promise, measured, limit, detail={name: str(taken.per(calls)) for name, taken in times.items()})
