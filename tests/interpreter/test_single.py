"""The loop of one operation that dual numbers run: the tangents of the tangent sweep, wherever the point is."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.dual import made
from tapegrad.array.record import apply
from tapegrad.autograd.tape import Tape
from tapegrad.interpreter import single
from tapegrad.interpreter.single import TangentLoop
from tapegrad.rules import BY_NAME, ROWS
from tapegrad.tape.meta import meta_of
from tests.near import near
from tests.rules.checker import generator, wrap
from tests.rules.examples_of_rows import ANY, DOMAINS, ELEMENTWISE, POSITIVE

POINTS, NUMBERS, LANES = 20_000, 100, 4
#: What the examples draw from, and farther out.
FARTHER = {ANY: (-6.0, 6.0), POSITIVE: (0.01, 30.0)}


def drawn(row, dtype, far, rng):
    """Operands of `row` at random points, kinks not avoided."""
    for domain in DOMAINS[row.name]:
        if domain is not None:
            low, high = FARTHER.get(domain, domain) if far else domain
            yield rng.uniform(low, high, POINTS).astype(dtype)
        elif row.name == "where":
            yield rng.integers(0, 2, POINTS).astype(bool)
        else:  # orders and exponents
            yield rng.integers(1, 5, POINTS).astype(np.int64 if row.name == "ldexp" else dtype)


def points(name):
    """(operands, tangents with four lanes by position), over both domains and precisions, each operand alone and all."""
    row, rng = BY_NAME[name], generator(11)
    for dtype in "df":
        for far in (False, True):
            operands = list(drawn(row, dtype, far, rng))
            slots = [k for k in row.slots(row.arity) if operands[k].dtype.kind == "f"]
            for chosen in {*((k,) for k in slots), tuple(slots)}:
                yield row, operands, {k: rng.standard_normal((LANES, POINTS)).astype(dtype) for k in chosen}


def terms(row, numbers, ways, lane):
    """What the operands add to the tangent, each alone."""
    return [on_duals(row, numbers, {k: float(w[lane])}, None) for k, w in ways.items()]


def on_duals(row, operands, ways, lanes):
    return apply(row, [made(o, ways[k], lanes, 1) if k in ways else o for k, o in enumerate(operands)]).tangent


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_arrays(name):
    for row, operands, ways in points(name):
        leaves = [wrap(o) if k in ways else o for k, o in enumerate(operands)]
        with Tape(), np.errstate(all="ignore"):
            result = apply(row, leaves)
            together = on_duals(row, operands, ways, LANES)
            for lane in range(LANES):
                (swept,) = tg.autograd.jvp(result, [leaves[k] for k in ways], [w[lane] for w in ways.values()])
                near(together[lane], swept.numpy())
                near(on_duals(row, operands, {k: w[lane] for k, w in ways.items()}, None), swept.numpy())


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_numbers(name):
    """Of scalar instructions; dual numbers of floats compute theirs in plain Python where Python has the functions."""
    for row, operands, ways in points(name):
        if operands[-1].dtype.char == "f" or row.name == "ldexp":
            continue
        given, leaves, results = [], [], []
        with Tape(), np.errstate(all="ignore"):
            for j in range(NUMBERS):
                numbers = [o[j].item() for o in operands]
                tensors = [tg.tensor(x, requires_grad=True) if k in ways else x for k, x in enumerate(numbers)]
                leaves += [tensors[k] for k in ways]
                results.append(apply(row, tensors))
                given.append((numbers, {k: w[:, j].copy() for k, w in ways.items()}))
            for lane in range(2):
                swept = tg.autograd.jvp(results, leaves, [float(w[lane]) for _, at in given for w in at.values()])
                for (numbers, at), found in zip(given, swept, strict=True):
                    one = [float(w[lane]) for w in at.values()]
                    near(on_duals(row, numbers, dict(zip(at, one)), None), found.item(), terms(row, numbers, at, lane))
                    near(on_duals(row, numbers, at, LANES)[lane], found.item(), terms(row, numbers, at, lane))


def test_rows_of_many_shapes_are_planned_anew_from_time_to_time(monkeypatch):
    monkeypatch.setattr(single, "MOST", 3)
    monkeypatch.setattr(TangentLoop, "KNOWN", {})
    for n in range(2, 12):
        x = np.linspace(0.1, 0.9, n)
        np.testing.assert_array_equal(np.square(tg.Dual(x, np.ones(n))).tangent, 2.0 * x)
        assert len(TangentLoop.KNOWN) <= 3


def test_a_tangent_that_passes_unchanged_is_not_copied():
    t = np.ones(5)
    meta = meta_of(t)
    loop = TangentLoop.of(BY_NAME["add"], (meta, meta), meta, (True, False), None)
    assert loop.run([t, t, t + t], {0: t}) is t and not loop.planned


def test_empty_results_and_zero_derivatives():
    empty = np.sin(tg.Dual(np.zeros((0, 3)), np.zeros((2, 0, 3)), lanes=2))
    assert empty.tangent.shape == (2, 0, 3)
    np.testing.assert_array_equal(np.floor(tg.Dual(np.ones(3), np.ones(3))).tangent, np.zeros(3))


def test_every_element_wise_row_is_drawn_from():
    assert {row.name for row in ROWS if row.elementwise} == set(DOMAINS)
