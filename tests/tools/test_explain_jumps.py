"""`tg.explain_jumps`: planted jumps are found with their size, kinks are kinks, and of what is harmless nothing is said but that."""

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.scipy.integrate
from tapegrad.tools import explain_jumps

TABLE = np.array([1.0, 2.0, 4.0])
Z = np.random.default_rng(0).standard_normal((1_000, 12))


def digital(spot):
    return spot - 1.0 if spot < 1.3 else 0.0


def barrier(spot):
    paths = spot * np.exp(np.cumsum(0.06 * Z - 0.002, axis=1))
    return np.mean(np.where(np.all(paths < 130.0, axis=1), np.maximum(paths[:, -1] - 100.0, 0.0), 0.0))


def bisection(a):
    low, high = 0.0, 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if middle * middle < a:
            low = middle
        else:
            high = middle
    return middle


def ended_early(x):
    total = 0.0
    for k in range(10):
        if total > 3.0:
            break
        total = total + x + k * 0.1
    return total


def huber(x):
    return np.sum(np.where(np.abs(x) < 1.0, 0.5 * x**2, np.abs(x) - 0.5))


def loop(x):
    return tg.scan(lambda c, k: (np.where(c > 2.0, c + 0.1, c * x), None), 1.0, np.arange(5.0))[0]


def pivoted(x):
    return np.linalg.det(np.stack([np.stack([x[0], x[2]]), np.stack([x[2], x[1]])]))


def decay(k):
    return tapegrad.scipy.integrate.solve_ivp(lambda t, y: -k * y, (0.0, 5.0), np.ones(1), rtol=1e-6).y[0, -1]


def newton(a):
    y = 1.0
    while np.abs(y * y - a) > 1e-10:
        y = 0.5 * (y + a / y)
    return y


#: Function, point, kind, size, and the operation that is named.
PLANTED = [
    (digital, 1.29, "value jumps", 0.3, "comparison (less)"),
    (barrier, 100.0, "value jumps", None, "comparison (less)"),
    (bisection, 0.9, "value jumps", None, "comparison (greater)"),
    (lambda x: TABLE[int(np.round(x).item())] * x, 0.48, "value jumps", 0.5, "rint"),
    (lambda x: TABLE[int(x.item())] * x, 0.98, "value jumps", 1.0, ".item()"),
    (lambda x: TABLE[np.argmax(x)] * x[0], np.array([1.0, 1.02, 0.3]), "value jumps", 1.01, "numpy.argmax"),
    (lambda x: np.sum(TABLE[np.argmax(np.stack([x, 2.1 - x]), axis=0)] * x), np.array([1.0, 2.0]), "value jumps", 1.05, "numpy.argmax"),
    (lambda x: np.floor(3.0 * x) * x, 0.98, "value jumps", 1.0, "floor"),
    (lambda x: np.sign(x - 1.0) * x, 0.99, "value jumps", 2.0, "sign"),
    (lambda x: np.sum(np.sign(x - TABLE)), 1.01, "value jumps", 2.0, "sign"),
    (lambda x: np.mean(np.heaviside(x * np.exp(0.2 * Z[:, 0]) - 100.0, 0.0)), 100.0, "value jumps", None, "heaviside"),
    (lambda x: x % 1.0, 1.98, "value jumps", 1.0, "remainder"),
    (lambda x: x[0] // x[1], np.array([3.02, 1.5]), "value jumps", 1.0, "floor_divide"),
    (lambda x: np.sum(x % x[0]), np.array([0.98, 2.9, 3.3]), "value jumps", 0.968, "remainder"),
    (lambda x: np.sum(np.where(x > x[0], x, 0.0)), np.array([0.98, 1.03, 0.9]), "value jumps", 1.005, "comparison (greater)"),
    (ended_early, 0.99, "value jumps", None, "comparison (greater)"),
    (loop, 1.3, "value jumps", 0.42, "comparison (greater)"),
    (huber, np.array([0.98, 3.0]), "slope jumps", 1.0, "comparison (less)"),
    (lambda x: np.abs(x), 0.03, "slope jumps", 2.0, "absolute"),
    (lambda x: np.abs(x), 0.0, "slope jumps", 1.0, "absolute"),
    (lambda x: np.clip(x, 0.0, 1.0), 0.97, "slope jumps", 1.0, "clip"),
    (lambda x: np.max(x), np.array([1.0, 1.01, 0.2]), "slope jumps", 1.0, "max"),
    (lambda x: np.sum(np.min(x, axis=1)), np.array([[1.0, 1.01], [3.0, 2.0]]), "slope jumps", 1.0, "min"),
    (lambda x: np.maximum(x, 0.0) ** 2, 0.01, "slope jumps", 2.0, "maximum"),
    (lambda x: np.sum(np.sort(x) ** 2), np.array([1.0, 1.01, 3.0]), "harmless", None, None),
    (lambda x: np.max(np.stack([x, x + 1e-3])), 1.0, "harmless", None, None),
    (lambda x: np.where(x > 1.0, x * x, x**2.0), 0.99, "harmless", None, None),
    (pivoted, np.array([1.0, 2.0, 1.001]), "harmless", None, None),
    (decay, 1.0, "harmless", None, None),
    (newton, 2.0, "harmless", None, None),
    (lambda x: np.sum(np.sin(x) ** 2), np.ones(3), "harmless", None, None),
]  # fmt: skip


@pytest.mark.parametrize("f, x, kind, size, what", PLANTED, ids=[str(k) for k in range(len(PLANTED))])
def test_planted(f, x, kind, size, what):
    with np.errstate(all="ignore"):
        jumps = tg.explain_jumps(f, x).jumps
    if kind == "harmless":
        assert all(jump.kind == "harmless" for jump in jumps), jumps
        return
    first = jumps[0]
    assert (first.kind, first.what) == (kind, what) and f"{__file__}:" in first.place
    if size is not None:
        assert abs(first.size - size) < 2e-2 * size, first
    assert first.many == (f in (barrier, bisection)) and f"{first.what} at " in str(first)


def test_the_distance_is_that_of_the_nearest_outcome():
    (jump,) = tg.explain_jumps(lambda x: np.where(3.0 * x[0] + 4.0 * x[1] > 7.1, 1.0, 0.0), np.ones(2)).jumps
    assert jump.distance == pytest.approx(0.02, rel=1e-6) and jump.sides == (0.0, 1.0)
    assert not tg.explain_jumps(lambda x: np.where(x > 7.1, 1.0, 0.0), 1.0).jumps
    assert tg.explain_jumps(lambda x: np.where(x > 7.1, 1.0, 0.0), 1.0, near=7.0).jumps


def test_what_differences_miss_is_a_slope():
    (jump,) = [jump for jump in tg.explain_jumps(bisection, 0.9).jumps if jump.many]
    predicted, found = jump.sides
    assert predicted == 0.0 and abs(found) / jump.distance == pytest.approx(0.5 / 0.9**0.5, rel=2e-3)


def test_check_names_the_jump_where_differences_disagree():
    with pytest.raises(tg.errors.CheckError, match=r"floor at .*: value jumps by 1, from 2 to 1"):
        tg.check(lambda x: np.floor(2.0 * x) * x, 1.0, modes=["reverse"])


def test_recorded_functions_and_transformations_are_looked_into():
    for f in (tg.jit(digital), lambda x: tg.vmap(lambda x: np.where(x < 1.3, x, 0.0))(x * np.ones(3)).sum()):
        assert tg.explain_jumps(f, 1.29).jumps[0].kind == "value jumps"


def test_bad_input():
    for call in (lambda: tg.explain_jumps(len, "abc"), lambda: tg.explain_jumps(lambda n: n, 3)):
        with pytest.raises(tg.errors.StructureError, match="no argument is a float or an array of floats"):
            call()
    with pytest.raises(tg.errors.OptionError, match="near=0"):
        tg.explain_jumps(abs, 1.0, near=0.0)
    assert str(tg.explain_jumps(lambda x: x * x, 1.0)) == "no decision of the function is near another outcome"


def test_how_near_other_outcomes_are_is_looked_for_at_the_point_alone(monkeypatch):
    counts = {"run": 0, "sweeps": 0}
    run, sweep = explain_jumps._Moved.run, explain_jumps.adjoints_of

    def counted(name, function):
        def called(*args, **keywords):
            counts[name] += 1
            return function(*args, **keywords)

        return called

    monkeypatch.setattr(explain_jumps._Moved, "run", counted("run", run))
    monkeypatch.setattr(explain_jumps, "adjoints_of", counted("sweeps", sweep))
    assert tg.explain_jumps(barrier, 100.0).jumps
    # Of each run the gradient; of the point's own also the margins of the two nearest elements of each decision.
    assert counts["run"] > 50 and counts["sweeps"] <= counts["run"] + 8
