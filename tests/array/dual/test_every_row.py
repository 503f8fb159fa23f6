"""Derivatives of second order through every row of the table, in each nesting of modes.

With ``F(x) = w . J(x) u`` the change of F along v is computed by a dual number
over a dual number, by a reverse pass over the tangent of a dual number, and by
central differences of first-order tangents.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import dual
from tapegrad.array.dual import made
from tapegrad.array.record import apply, normalise
from tapegrad.rules import BY_NAME
from tapegrad.rules.table import Row
from tests.counting import calls_of
from tests.rules.checker import generator, plain
from tests.rules.examples_of_rows import examples_of, free_phases

#: Rows whose rule needs a function that has no derivative of its own: a second derivative must be refused, not wrong.
REFUSED = {
    **dict.fromkeys("gammainc gammaincc gammaincinv gammainccinv stdtr stdtrit".split(), (0,)),
    **dict.fromkeys("betainc betaincc betaincinv betainccinv".split(), (0, 1)),
}
STEP = 1e-5


def usable(name):
    """Examples in float64, a few of each row, and the positions of the operands that vary."""
    found, kinds = [], set()
    for example in examples_of(name):
        slots = [k for k in example.row.slots(len(example.operands)) if k not in REFUSED.get(name, ()) and k not in example.row.refused]
        values = [np.asarray(example.operands[k]) for k in slots]
        kind = (tuple(np.asarray(o).ndim for o in example.operands), example.attrs[:1], not all(v.size for v in values))
        if any(v.dtype.char != "d" for v in values) or kind in kinds or len(found) > 12:
            continue
        kinds.add(kind)
        found.append((example, slots))
    return found


def has_kink(example):
    """Ties, zeros and phases of complex vectors, where the rule is a convention and differences mean nothing."""
    x = np.asarray(example.operands[0])
    if example.row.name in ("max", "min"):
        return np.unique(x).size < x.size
    return example.row.name in ("norm", "std") and not x.all() or free_phases(example)


def ran(example, slots, given):
    operands = list(example.operands)
    for k, x in zip(slots, given):
        operands[k] = x
    return apply(example.row, operands, example.attrs, integer=example.integer or 0)


def direction(rng, example, slots):
    found = [rng.standard_normal(np.shape(example.operands[k])) for k in slots]
    if example.row.name in ("cholesky", "eigh"):
        found = [x + np.swapaxes(x, -1, -2) for x in found]
    return [float(x) if x.ndim == 0 else x for x in found]


def number(thing):
    return float(plain(thing.detach() if isinstance(thing, tg.Differentiable) else thing))


def second_order_of_dual_numbers(name):
    rng, compared = generator(40), 0
    with np.errstate(all="ignore"):
        for example, slots in usable(name):
            primals = [example.operands[k] for k in slots]
            shape = np.shape(example.value)
            w = rng.standard_normal(shape)
            u, v = direction(rng, example, slots), direction(rng, example, slots)

            def first(*given):
                tangent = tg.jvp(lambda *inner: ran(example, slots, inner), given, tuple(u))[1]
                return np.sum(tangent * w)

            twice = tg.jvp(first, tuple(primals), tuple(v))
            leaves = [tg.tensor(x, requires_grad=True) for x in primals]
            result = first(*leaves)
            assert number(result) == pytest.approx(twice[0], rel=1e-13, abs=1e-13)
            mixed = 0.0
            if isinstance(result, tg.Tensor) and result.requires_grad:
                result.backward()
                mixed = sum(float(np.sum(plain(t.grad) * d)) for t, d in zip(leaves, v) if t.grad is not None)
            scale = 1.0 + abs(mixed)
            assert abs(mixed - twice[1]) <= 1e-9 * scale, (str(example), mixed, twice[1])
            if has_kink(example):
                continue
            sides = [first(*[x + s * STEP * d for x, d in zip(primals, v)]) for s in (1, -1)]
            measured = (number(sides[0]) - number(sides[1])) / (2 * STEP)
            assert abs(measured - twice[1]) <= 2e-5 * scale, (str(example), measured, twice[1])
            compared += 1
    assert compared


def lanes_inside_and_outside(name):
    """Several tangents of several tangents in one pass: each as it is alone."""
    rng, (example, slots) = generator(41), usable(name)[-1]
    primals = [example.operands[k] for k in slots]
    ways = [direction(rng, example, slots) for _ in range(4)]
    inner, outer = [np.stack(parts) for parts in zip(*ways[:2])], [np.stack(parts) for parts in zip(*ways[2:])]
    with np.errstate(all="ignore"):
        both = ran(example, slots, [
            tg.Dual(tg.Dual(x, a, lanes=2, level=1), b, lanes=2, level=2) for x, a, b in zip(primals, inner, outer)
        ])  # fmt: skip
        for j in range(2):
            alone = ran(example, slots, [
                tg.Dual(tg.Dual(x, a, level=1), b, level=2) for x, a, b in zip(primals, ways[j], ways[2])
            ])  # fmt: skip
            cross = both.tangent
            if isinstance(cross, tg.Dual):
                whole = np.asarray(cross.tangent)
                assert whole.shape == (2, 2, *alone.shape)
                moved = alone.tangent.tangent if isinstance(alone.tangent, tg.Dual) else 0.0
                np.testing.assert_allclose(whole[j, 0], moved, rtol=1e-10, atol=1e-10)
            else:
                assert not isinstance(alone.tangent, tg.Dual)
            value = cross.value if isinstance(cross, tg.Dual) else cross
            lone = alone.tangent.value if isinstance(alone.tangent, tg.Dual) else alone.tangent
            np.testing.assert_allclose(np.asarray(value)[0], lone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_differentiated_again_says_so(name):
    operands = (1.5, 0.4)[1 - BY_NAME[name].arity :]
    with pytest.raises(tg.errors.HigherOrderError, match="again"):
        tg.derivative(tg.derivative(lambda a: apply(name, (a, *operands))))(0.75)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.0, 1e-300, 1e300, -3.0])


@pytest.mark.parametrize("lanes", [None, 3])
def test_arrays_at_once_are_what_rules_give(lanes, monkeypatch):
    rng = np.random.default_rng(7)

    def drawn(shape):
        x = rng.choice(SPECIAL, size=shape) if rng.random() < 0.5 else rng.standard_normal(shape)
        return np.abs(x) if rng.random() < 0.3 else x

    def operand():
        shape = [(3,), (2, 3), (2, 3), (2, 1), (0, 3)][rng.integers(5)]
        kind = rng.integers(8)
        if kind < 2:
            return [2.0, float(rng.choice(SPECIAL)), drawn(shape)][rng.integers(3)]
        shape = () if kind == 2 else shape
        value, tangent = drawn(shape), drawn(shape if lanes is None else (lanes, *shape))
        return made(normalise(value), None if kind == 3 else normalise(tangent), lanes, 1)

    def outcome(row, operands):
        try:
            d = apply(row, operands)
        except Exception as error:
            return type(error)
        return d._v, d._d if isinstance(d, tg.Dual) else None, getattr(d, "_lanes", None)

    together, wrong = dual._of_arrays, []
    for row in [row for row in BY_NAME.values() if row.elementwise and not row.constants]:
        for _ in range(12):
            operands = [operand() for _ in range(row.arity)]
            if not any(isinstance(o, tg.Dual) for o in operands):
                continue
            with np.errstate(all="ignore"):
                monkeypatch.setattr(dual, "_of_arrays", together)
                short = outcome(row, operands)
                monkeypatch.setattr(dual, "_of_arrays", lambda *given: None)
                long = outcome(row, operands)
            if short is not long and not all(np.array_equal(a, b, equal_nan=True) if a is not None and b is not None else a is b for a, b in zip(short, long)):
                wrong.append((row.name, operands))
    assert not wrong


def test_arrays_at_once_run_no_rule():
    x, y = tg.Dual(np.ones(3), np.ones(3)), np.full(3, 0.5)
    for operation in (lambda: x * y, lambda: 2.0 / x, lambda: x**2.0, lambda: np.tanh(x), lambda: np.maximum(x, np.float64(0.3)), lambda: -x):
        assert calls_of(Row.tangent, operation) == 0
