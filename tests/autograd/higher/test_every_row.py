"""Second derivatives through every row of the table, in all four nestings of forward and reverse mode.

``u . H v`` of the weighted sum of a row's result, by duals of duals (ff), forward over a
recorded gradient (fr), a gradient of a tangent (rf) and a gradient of a gradient (rr); and
by central differences of gradients where the row is smooth.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.common.errors import HigherOrderError
from tapegrad.rules import BY_NAME
from tests.array.dual.test_every_row import REFUSED, direction, has_kink, number, ran, usable
from tests.rules.checker import generator, plain
from tests.rules.examples_of_rows import free_phases

STEP = 1e-5
#: How much the point is moved for a replay; nothing changes its order or sign.
MOVED = 1.0009765625


def total(example, slots, w):
    return lambda *given: np.sum(ran(example, slots, given) * w)


def dot(found, v):
    total = 0.0
    for g, d in zip(found, v):
        total = total + np.sum(g * d)
    return total


def by_duals(f, primals, u, v):
    return number(tg.jvp(lambda *x: tg.jvp(f, x, tuple(u))[1], tuple(primals), tuple(v))[1])


def by_recorded_gradients(f, primals, u, v):
    """Reverse over reverse, define-by-run."""
    leaves = [tg.tensor(x, requires_grad=True) for x in primals]
    y = f(*leaves)
    if not (isinstance(y, tg.Tensor) and y.requires_grad):
        return 0.0
    found = tg.autograd.grad(y, leaves, create_graph=True, allow_unused=True)
    first = dot([g for g in found if g is not None], [d for g, d in zip(found, u) if g is not None])
    if not (isinstance(first, tg.Tensor) and first.requires_grad):
        return 0.0
    second = tg.autograd.grad(first, leaves, allow_unused=True)
    return sum(float(np.sum(plain(g) * d)) for g, d in zip(second, v) if g is not None)


def recorded_gradient(name):
    rng, compared = generator(60), 0
    with np.errstate(all="ignore"):
        for example, slots in usable(name):
            primals = [example.operands[k] for k in slots]
            w = rng.standard_normal(np.shape(example.value))
            u, v = direction(rng, example, slots), direction(rng, example, slots)
            f = total(example, slots, w)
            expected = by_duals(f, primals, u, v)
            found = by_recorded_gradients(f, primals, u, v)
            scale = 1.0 + abs(expected)
            assert abs(found - expected) <= 1e-9 * scale, (str(example), found, expected)
            if has_kink(example):
                continue
            sides = []
            for s in (1, -1):
                leaves = [tg.tensor(x + s * STEP * d, requires_grad=True) for x, d in zip(primals, v)]
                y = f(*leaves)
                live = isinstance(y, tg.Tensor) and y.requires_grad
                grads = tg.autograd.grad(y, leaves, allow_unused=True) if live else [None] * len(leaves)
                sides.append(sum(float(np.sum(plain(g) * d)) for g, d in zip(grads, u) if g is not None))
            measured = (sides[0] - sides[1]) / (2 * STEP)
            assert abs(measured - found) <= 2e-5 * scale, (str(example), measured, found)
            compared += 1
    assert compared


def nestings_and_their_replays(name):
    """The functional transformations, at the recorded point and replayed at another one: one example step by step, one by kernels."""
    rng = generator(61)
    full = [(example, slots) for example, slots in usable(name) if all(map(np.size, [example.value, *example.operands])) and not free_phases(example)]
    with np.errstate(all="ignore"):
        # Where there is one example only, kernels replay it.
        for (example, slots), kernel in {id(pair): (pair, kernel) for pair, kernel in ((full[0], "never"), (full[-1], None))}.values():
            primals = [example.operands[k] for k in slots]
            w = rng.standard_normal(np.shape(example.value))
            u, v = direction(rng, example, slots), direction(rng, example, slots)
            f, numbers = total(example, slots, w), tuple(range(len(slots)))
            gradient = tg.grad(f, numbers)
            tangent = tg.grad(lambda *x: tg.jvp(f, x, tuple(u))[1], numbers)
            product = tg.grad(lambda *x: dot(tg.grad(f, numbers)(*x), u), numbers)
            # One recording, and one kernel, has both.
            recorded = tg.jit(lambda *x: (tangent(*x), product(*x)), kernel=kernel)
            for factor in (1.0, MOVED):
                point = [x * factor for x in primals]
                expected = by_duals(f, point, u, v)
                found = {"rf": dot(tangent(*point), v), "rr": dot(product(*point), v), "fr": dot(tg.jvp(gradient, tuple(point), tuple(v))[1], u)}
                for call in (1, 2):
                    for way, slopes in zip(("rf", "rr"), recorded(*point)):
                        found[f"{way}, call {call} of what is recorded"] = dot(slopes, v)
                for way, value in found.items():
                    assert abs(float(value) - expected) <= 1e-9 * (1.0 + abs(expected)), (str(example), way, factor, float(value), expected)
            assert recorded.stats().replays >= 1, recorded.stats()


def check_of_second_order(name):
    """`tg.check` with ``order=2``, on one example of each row that is smooth where it is."""
    if name in ("cholesky", "eigh"):
        return  # they read one triangle, while differences move both: along symmetric directions above
    full = [pair for pair in usable(name) if np.size(pair[0].value) and not has_kink(pair[0])]
    example, slots = full[0]
    with np.errstate(all="ignore"):
        report = tg.check(
            lambda *given: ran(example, slots, given), *[example.operands[k] for k in slots],
            reference=lambda *given: values_of(ran(example, slots, given)), modes="second", directions=1,
        )  # fmt: skip
    assert [c.name for c in report.checks] == ["second"] and report.passed


def values_of(thing):
    return plain(thing)


@pytest.mark.long
def test_nestings_of_complex_eigenvectors_agree_and_replay():
    nestings_and_their_replays("complex_eig")


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_differentiated_again_says_so(name):
    a = tg.tensor(0.75, requires_grad=True)
    with pytest.raises(HigherOrderError, match=f"{name}.*again|again.*{name}"):
        (g,) = tg.autograd.grad(apply(name, (a, *(1.5, 0.4)[1 - BY_NAME[name].arity :])), a, create_graph=True)
        tg.autograd.grad(g, a)
