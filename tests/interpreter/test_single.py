"""The tangents of one operation on dual numbers: those of the partial derivatives that a sweep back computes, wherever the point is."""

import numpy as np

import tapegrad as tg
from tapegrad.array.dual import made
from tapegrad.array.record import apply
from tapegrad.autograd.tape import Tape
from tapegrad.rules import BY_NAME, ROWS
from tests.near import near
from tests.rules.checker import generator, wrap
from tests.rules.examples_of_rows import ANY, DOMAINS, POSITIVE

POINTS, NUMBERS, LANES = 4_000, 20, 4
#: What the examples draw from, and farther out.
FARTHER = {ANY: (-6.0, 6.0), POSITIVE: (0.01, 30.0)}
#: Partial derivatives that are differences of logarithms, which Python, NumPy and the machine code round each in its way.
ULPS = {"betainc_da": 4000, "betainc_db": 4000, "stdtr_ddf": 100, "stdtr": 40, "stdtrit": 40}


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


def points(name, dtypes="df"):
    """(operands, tangents with four lanes by position), over both domains and precisions, each operand alone and all."""
    row, rng = BY_NAME[name], generator(11)
    for dtype in dtypes:
        for far in (False, True):
            operands = list(drawn(row, dtype, far, rng))
            slots = [k for k in row.slots(row.arity) if operands[k].dtype.kind == "f"]
            for chosen in {*((k,) for k in slots), tuple(slots)}:
                yield row, operands, {k: rng.standard_normal((LANES, len(operands[0]))).astype(dtype) for k in chosen}


def terms(row, numbers, ways, lane):
    """What the operands add to the tangent, each alone."""
    return [on_duals(row, numbers, {k: float(w[lane])}, None) for k, w in ways.items()]


def on_duals(row, operands, ways, lanes):
    return apply(row, [made(o, ways[k], lanes, 1) if k in ways else o for k, o in enumerate(operands)]).tangent


def partials_of(results, leaves):
    """The partial derivatives of element-wise results by each leaf, by sweeps back."""
    grads = tg.autograd.grad(results, leaves, [np.ones(r.shape, r.dtype) for r in results], allow_unused=True)
    return [np.zeros(leaf.shape, leaf.dtype) if g is None else np.asarray(g._v) for g, leaf in zip(grads, leaves)]


def along(partial, tangent):
    """Zero times anything is zero."""
    return np.where(np.equal(partial, 0.0) | np.equal(tangent, 0.0), partial.dtype.type(0.0), partial * tangent)


def arrays_against_partials(name):
    for row, operands, ways in points(name):
        leaves = [wrap(o) if k in ways else o for k, o in enumerate(operands)]
        with Tape(), np.errstate(all="ignore"):
            result = apply(row, leaves)
            together = on_duals(row, operands, ways, LANES)
            partials = partials_of([result], [leaves[k] for k in ways])
            for lane in range(LANES):
                parts = [along(p, w[lane]) for p, w in zip(partials, ways.values())]
                near(together[lane], sum(parts), *parts)
                near(on_duals(row, operands, {k: w[lane] for k, w in ways.items()}, None), sum(parts), *parts)


def numbers_against_partials(name):
    """Of scalar instructions; dual numbers of floats compute theirs in plain Python where Python has the functions."""
    for row, operands, ways in points(name, "d"):
        if row.name == "ldexp":
            continue
        given, leaves, results = [], [], []
        with Tape(), np.errstate(all="ignore"):
            for j in range(NUMBERS):
                numbers = [o[j].item() for o in operands]
                tensors = [tg.tensor(x, requires_grad=True) if k in ways else x for k, x in enumerate(numbers)]
                leaves += [tensors[k] for k in ways]
                results.append(apply(row, tensors))
                given.append((numbers, {k: w[:, j].copy() for k, w in ways.items()}))
            partials = iter(partials_of(results, leaves))
            for numbers, at in given:
                slopes, together = [next(partials) for _ in at], on_duals(row, numbers, at, LANES)
                for lane in range(2):
                    one = [float(w[lane]) for w in at.values()]
                    swept, alone = sum(map(along, slopes, one)), on_duals(row, numbers, dict(zip(at, one)), None)
                    parts = terms(row, numbers, at, lane) if len(at) > 1 else [alone]
                    near(alone, swept, parts, ulps=ULPS.get(name, 4))
                    near(together[lane], swept, parts, ulps=ULPS.get(name, 4))


def test_rows_of_many_shapes():
    for n in range(2, 12):
        x = np.linspace(0.1, 0.9, n)
        np.testing.assert_array_equal(np.square(tg.Dual(x, np.ones(n))).tangent, 2.0 * x)


def test_a_tangent_that_passes_unchanged():
    t = np.arange(5.0)
    np.testing.assert_array_equal((tg.Dual(t, t) + 1.0).tangent, t)


def test_empty_results_and_zero_derivatives():
    empty = np.sin(tg.Dual(np.zeros((0, 3)), np.zeros((2, 0, 3)), lanes=2))
    assert empty.tangent.shape == (2, 0, 3)
    np.testing.assert_array_equal(np.floor(tg.Dual(np.ones(3), np.ones(3))).tangent, np.zeros(3))


def test_every_element_wise_row_is_drawn_from():
    assert {row.name for row in ROWS if row.elementwise} == set(DOMAINS)
