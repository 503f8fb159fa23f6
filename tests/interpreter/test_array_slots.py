"""The short way of arrays: it gives, keeps and differentiates what the general way does, and is taken where it is promised."""

import operator

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import indexing, record
from tapegrad.common.errors import ModifiedInPlaceError
from tapegrad.interpreter.fields import numbers
from tapegrad.rules import ROWS
from tapegrad.tape.store import TapeStore, thread_state
from tests.counting import calls_of
from tests.every import every
from tests.rules.checker import leaf

native = pytest.mark.skipif(numbers is None, reason="tensors are a class of Python here")

LINE = np.linspace(0.5, 1.9, 6)
OPERANDS = {
    "computed": lambda: leaf(LINE) * 1.0, "leaf": lambda: leaf(LINE), "constant tensor": lambda: tg.tensor(LINE), "array": lambda: LINE - 0.2,
    "large": lambda: np.full(20_000, 0.75), "computed, large": lambda: leaf(np.linspace(0.5, 2.0, 20_000)) * 1.0, "one row": lambda: LINE[None, :3],
    "computed, two rows": lambda: leaf(LINE.reshape(2, 3)) * 1.0, "columns": lambda: np.asfortranarray(LINE.reshape(2, 3)),
    "computed square": lambda: leaf(np.outer(LINE[:3], LINE[3:])) * 1.0, "column": lambda: LINE[:2, None],
    "computed columns": lambda: leaf(np.asfortranarray(LINE.reshape(3, 2).T)) * 1.0, "every other": lambda: np.linspace(0.3, 1.2, 12)[::2],
    "other bytes": lambda: LINE.astype(">f8"), "single": lambda: np.ones(6, "f"), "computed single": lambda: leaf(np.ones(6, "f")) * np.float32(0.5),
    "integers": lambda: np.arange(1, 7), "truth": lambda: np.arange(6) > 2, "no axes": lambda: np.array(0.5), "nothing": lambda: np.zeros(0),
    "number": lambda: leaf(1.5) * 1.0, "number leaf": lambda: leaf(1.5), "float": lambda: 2.5, "int": lambda: 3, "two": lambda: 2, "true": lambda: True,
    "two.": lambda: 2.0, "float64": lambda: np.float64(2.0), "float32": lambda: np.float32(2.0), "int64": lambda: np.int64(2), "uint8": lambda: np.uint8(3),
    "bool": lambda: np.True_, "long": lambda: 10**400, "text": lambda: "text",
    "list": lambda: [0.5] * 6, "zeros": lambda: np.zeros(6), "whole": lambda: tg.tensor(np.arange(6)), "none": lambda: None,
}  # fmt: skip


def put(array, key, value):
    array[key] = value
    return array


FUNCTIONS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, np.add, np.multiply, np.divide, np.power, np.hypot, np.maximum,
    np.arctan2, operator.matmul, np.matmul, lambda a, b: np.linalg.norm(a * b), lambda a, b: np.concatenate([a, b]), lambda a, b: a.item(0) * b[-1],
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow,
    lambda a, b: put(a, 0, b), lambda a, b: put(a, (-1, 1), b), lambda a, b: put(a, slice(1, None), b), lambda a, b: put(a, ..., b),
    lambda a, b: np.where(LINE > 0.5, a, b), lambda a, b: np.where(a > 1.0, a, b), lambda a, b: tg.where([[True], [False]], b, a),
    lambda a, b: np.where(np.True_, a, b), lambda a, b: np.where(LINE.reshape(2, 3) - 0.5, a, b),
]  # fmt: skip
OF_ONE = [
    lambda a: abs(-a), np.exp, np.sin, np.sum, lambda a: np.mean(a, axis=0), lambda a: a[1:], lambda a: a[..., ::-2].T, tg.logsumexp,
    lambda a: np.max(a, axis=-1, keepdims=True), np.cumsum, lambda a: np.reshape(a, -1), np.linalg.det, np.prod,
]  # fmt: skip
#: Operands of which one is recorded; with each of them all others meet.
COMPUTED = [name for name in OPERANDS if name.startswith("computed")] + ["number"]


def recorded(function, names, general):
    """What an operation gives, and keeps for the way back, when it is met again; or the class of an error."""
    state = thread_state()
    state.store = state.anonymous = TapeStore(state)
    operands = [OPERANDS[name]() for name in names]
    with np.errstate(all="ignore"):
        try:
            function(*operands)
            state.store.ident = -1 if general else state.ident
            try:
                t = function(*operands)
            finally:
                state.store.ident = state.ident
            if not isinstance(t, tg.Tensor) or t._t is None:
                return repr(t)
            store = t._t
            operation, left, right, _, number, _ = store.read(t._i)
            signature = {s.opcode: s for s in store.signatures.values()}.get(operation)
            kept = store.objects[-len(signature.saves) :] if signature is not None and signature.saves else []
            values = [(type(value), np.shape(value), np.asarray(value).tobytes()) for value in (t._v, *kept)]
            owned = [all(value is not each for each in operands) for value in kept if isinstance(value, np.ndarray)]
            described = left, right, number, str(signature), str(t._m) if np.ndim(t._v) else None, store.nbytes, len(store.objects), store.savers, store.watched.slots
            t.sum().backward()
            return described, owned, values, [x.grad.numpy().tobytes() for x in operands if isinstance(x, tg.Tensor) and x.is_leaf and x.grad is not None]
        except Exception as error:
            return type(error)


def agree(function, *names):
    assert recorded(function, names, False) == recorded(function, names, True), (function, names)


@every("first, second", [(COMPUTED[k], second) for k in range(len(COMPUTED)) for second in OPERANDS if second not in COMPUTED[:k]])
def test_both_ways_give_and_keep_the_same(first, second):
    for function in FUNCTIONS:
        agree(function, first, second)
        if first != second:
            agree(function, second, first)


@every("operand", OPERANDS)
def test_both_ways_give_and_keep_the_same_of_one(operand):
    for function in OF_ONE:
        agree(function, operand)


@native
@every("row", [row for row in ROWS if row.elementwise and row.scalar_instruction and row.arity in (1, 2) and row.numpy and not row.constants])
def test_every_elementwise_row_takes_the_short_way(row):
    ufunc = row.numpy[0]
    if not isinstance(ufunc, np.ufunc) or row.calls_scipy or ufunc is np.power or row.scalar is None:
        pytest.skip("it has a way of its own")
    operands = [leaf(np.full(6, 0.6)) * 1.0 + (1.0 if row.name == "arccosh" else 0.0), leaf(np.full(6, 0.7)) * 1.0][: ufunc.nin]
    ufunc(*operands)
    assert calls_of(record._write, lambda: ufunc(*operands)) == 0


@native
def test_operators_take_the_short_way():
    x, leaf_, c, m = leaf(LINE) * 1.0, leaf(LINE), LINE - 0.1, leaf(np.eye(3) + 1.0) * 1.0
    turned, row = m.T, x[:3]
    for operation in (
        lambda: x + x, lambda: x - c, lambda: c * x, lambda: x / 2.0, lambda: 3 - x, lambda: x * leaf_, lambda: leaf_ * x, lambda: -x, lambda: abs(x),
        lambda: x**2, lambda: x**0.5, lambda: 2.0**x, lambda: m @ m, lambda: m @ c[:3], lambda: x @ x, lambda: turned @ np.ones((3, 2)), lambda: np.eye(3) @ m,
        lambda: m + c[:3], lambda: m * c[:3, None], lambda: row - m, lambda: operator.iadd(x * 1.0, c), lambda: operator.imul(x * 1.0, 2.0),
        lambda: operator.ipow(x * 1.0, 2),
    ):  # fmt: skip
        operation()
        assert calls_of(record.apply, operation) == 0


@native
def test_rows_with_attributes_take_the_short_way():
    x, m, buffer, c = leaf(LINE) * 1.0, leaf(np.eye(3) + 0.1) * 1.0, tg.zeros(6) * leaf(1.0), LINE - 0.1
    for k, operation in enumerate((
        lambda: np.sum(x), lambda: np.mean(m, axis=1), lambda: x.max(), lambda: np.prod(m, axis=0, keepdims=True), lambda: np.var(x), lambda: np.linalg.norm(x),
        lambda: tg.logsumexp(m, 0), lambda: m.T, lambda: m.reshape(-1), lambda: x[1:-1], lambda: m[:, 1], lambda: buffer.__setitem__(slice(2, 4), x[:2]),
        lambda: np.concatenate([x, m[0]]), lambda: np.stack([x, x]), lambda: np.cumsum(x), lambda: np.linalg.solve(m, x[:3]), lambda: np.linalg.det(m),
        lambda: np.broadcast_to(x, (2, 6)), lambda: tg.relu(x), lambda: np.diag(x), lambda: m.T * 2.0,
        lambda: np.where(x > 0.5, x, c), lambda: np.where(m > 0.5, m[0], 0.0), lambda: np.where(x[0] > 0.5, x[1], 0.0), lambda: tg.where(c > 0.5, 1, x),
    )):  # fmt: skip
        operation()
        # (Where the result were not as described, it would be computed twice, and written.)
        assert calls_of(record._write, operation) == 0, k


@native
def test_parts_of_an_array_are_assigned_the_short_way():
    cases = [
        ((1, 2), lambda x: x[0]), ((-1, np.int64(0)), lambda x: x[1] * x[2]), (2, lambda x: x), ((slice(None), 1), lambda x: 0.5), (0, lambda x: np.float64(1.5)),
        ((slice(1, 3), slice(None, None, 2)), lambda x: np.ones((2, 2))),
    ]  # fmt: skip

    def shortly(*args):
        assert calls_of(indexing.setitem, lambda: put(*args)) == 0, args[1]

    def assigned(x, assign=operator.setitem):
        y = np.zeros((4, 3)) * x[0]
        for key, value in cases:
            y[key] = value(x)
            assign(y, key, value(x))
        part = y[3]
        part *= 2.0
        assign(y, 3, part)
        # What others look at, or have, is theirs.
        other, kept = y[2], y * y
        y[2] = x[1]
        for key in ((4, 0), (0, -4), 4, (0, 0, 0)):
            with pytest.raises(IndexError):
                y[key] = x[0]
        with pytest.raises(ValueError, match="broadcast"):
            y[1] = np.ones(2)
        return np.sum(y * y, axis=0) + other * kept[2]

    assert tg.check(assigned, np.arange(1.0, 4.0), order=2).passed
    np.testing.assert_array_equal(assigned(leaf(np.arange(1.0, 4.0)), shortly).detach().numpy(), assigned(np.arange(1.0, 4.0)))


@native
def test_elements_of_matrices_take_the_short_way():
    m = leaf(np.arange(6.0).reshape(2, 3)) * 1.0
    wide = m.T
    m[1, 2], wide[0, 1]
    assert calls_of(record.apply, lambda: (m[0, 0], m[-1, 1], wide[2, -1])) == 0
    line = m.ravel()
    line[0]
    assert calls_of(record.apply, lambda: [line[k] for k in np.arange(6)]) == 0 and [line[k].item() for k in np.arange(-1, 6)] == [5.0, *range(6)]
    assert m[1].shape == (3,) and m[1, True].shape == (1, 3) and m[1,].shape == (3,)
    for key in ((2, 0), (0, -4), 2):
        with pytest.raises(IndexError):
            m[key]
    x = leaf(np.arange(6.0).reshape(2, 3))
    ((x * 1.0)[1, 2] + 2.0 * (x * 1.0)[0, -1] + 4.0 * (x * 1.0).T[0, 1] + 8.0 * x[-1, 1] + 16.0 * x[1, 1]).backward()
    assert x.grad.tolist() == [[0.0, 0.0, 2.0], [4.0, 24.0, 1.0]]


def test_a_constant_that_is_changed_afterwards_stays_what_it_was():
    x, c = leaf(LINE), LINE.copy()
    for _ in range(3):
        y = (x * 1.0) * c
        c *= 2.0
        y.sum().backward()
    assert x.grad.numpy() == pytest.approx(7.0 * LINE)


def test_memory_that_is_shared_is_watched():
    x, leaf_ = leaf(LINE) * 1.0, leaf(LINE)
    x * leaf_
    shared = leaf_.detach().numpy()
    x * x
    assert numbers is None or calls_of(record.apply, lambda: x * x) == 0
    assert calls_of(record.apply, lambda: x * leaf_) == 1
    y = x * leaf_
    shared[0] = 3.0
    with pytest.raises(ModifiedInPlaceError):
        y.sum().backward()


def test_warnings_and_errors_of_numpy_are_of_the_line_and_come_once():
    x = leaf(LINE) * 1.0
    x / 1.0
    with pytest.warns(RuntimeWarning, match="divide by zero") as told:
        x / 0.0
    assert len(told) == 1
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        x / 0.0
    assert (x / 2.0).sum().item() == pytest.approx(LINE.sum() / 2)


def test_a_function_that_numpy_calls_may_record():
    x, seen = leaf(LINE) * 1.0, []
    x / 1.0

    def note(*_):
        seen.append(x * 2.0)

    y = x / 2.0
    with np.errstate(divide="call"):
        before = np.seterrcall(note)
        try:
            z = x / 0.0
        finally:
            np.seterrcall(before)
    assert len(seen) >= 1 and y._i != z._i != seen[0]._i
    assert y._t.place(y._i).line < z._t.place(z._i).line
    seen[0].sum().backward()


@every("error", [KeyboardInterrupt, ValueError])
def test_what_a_function_raises_that_numpy_calls_is_raised_at_once(error):
    x, calls = leaf(LINE) * 1.0, []
    x / 1.0

    def once(*_):
        calls.append(_)
        if len(calls) == 1:
            raise error("a time limit, say")

    before = np.seterrcall(once)
    try:
        with np.errstate(divide="call"), pytest.raises(error):
            x / 0.0
    finally:
        np.seterrcall(before)
    assert len(calls) == 1
    (x / 2.0).sum().backward()


def test_places_are_those_of_the_user():
    with tg.Tape() as tape:
        x = leaf(LINE) * 1.0
        for _ in range(2):
            results = [x + x, np.exp(x), np.add(x, 1.0), np.hypot(x, LINE), -x, x**2]
            results += [np.sum(x), x.sum(), x[1:], np.mean(x), np.concatenate([x, x]), np.linalg.norm(x), x.reshape(2, 3).T, x[2], tg.sin(x[0])]
            x += LINE
            y = np.sum(x)
            y *= 2.0
    assert len(results) == 15
    assert all("test_array_slots.py" in str(tape.store.place(instruction.slot)) for instruction in tape.instructions)


def test_a_warning_comes_once_where_the_store_is_full():
    x = leaf(LINE) * 1.0
    x / 0.5
    for _ in range(2 * x._t.capacity):
        with pytest.warns(RuntimeWarning, match="divide by zero") as told:
            y = x / 0.0
        assert len(told) == 1 and y._t is x._t
