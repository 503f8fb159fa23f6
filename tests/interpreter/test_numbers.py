"""Numbers under recording: memory is sound whatever happens to them, and both ways of an operation give the same.

What is here runs under a debug build of Python, too (CONTRIBUTING.md), where CPython watches what is done to objects.
"""

import copy
import gc
import operator
import os
import pickle
import random
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import record
from tapegrad.array.record import apply
from tapegrad.interpreter.fields import Fields, numbers, place
from tapegrad.tape.layout import FIRST_ARRAY
from tapegrad.tape.store import TapeStore, thread_state
from tests.counting import calls_of
from tests.rules.checker import leaf

pytestmark = pytest.mark.usefixtures("fresh_store")
native = pytest.mark.skipif(numbers is None, reason="numbers are a class of Python here")


# -- the type ------------------------------------------------------------------------------------
def test_the_class_is_what_it_was():
    t = tg.tensor(1.0)
    assert type(t) is tg.Tensor and isinstance(t, tg.Tensor) and not hasattr(t, "__dict__")
    assert tg.Tensor.__module__ == "tapegrad.array.tensor" and tg.Tensor.__qualname__ == tg.Tensor.__name__ == "Tensor"
    assert tg.Tensor.__doc__.startswith("A float array (or scalar) whose operations are recorded on a tape.")
    assert pickle.loads(pickle.dumps(tg.Tensor)) is tg.Tensor
    assert issubclass(tg.Parameter, tg.Tensor) and tg.Tensor.backward.__doc__
    with pytest.raises(AttributeError):
        t.anything = 1


@native
def test_operators_are_native_and_no_function_of_python_stands_on_them():
    for name in "add sub mul truediv pow radd rsub rmul rtruediv rpow neg abs".split():
        method = getattr(tg.Tensor, f"__{name}__")
        assert type(method) is type(float.__add__) and getattr(tg.Parameter, f"__{name}__") is method
    assert (2.0).__add__(leaf(1.0) * 1.0) is NotImplemented
    assert tg.Tensor.__radd__(leaf(1.0) * 1.0, 2.0).item() == tg.Tensor.__add__(leaf(1.0) * 1.0, 2.0).item() == 3.0
    with pytest.raises(TypeError):
        tg.Tensor.__add__(1.0, 2.0)
    with pytest.raises(TypeError, match="unsupported"):
        pow(leaf(2.0) * 1.0, 2, 3)
    with pytest.raises(TypeError, match="unsupported"):
        (leaf(2.0) * 1.0) + "text"


class Scaled(tg.Tensor):
    """A user's class, with attributes and an operator of its own."""

    def __rmul__(self, other):
        return "mine"


def test_classes_of_the_users():
    t = object.__new__(Scaled)
    t._v, t._r, t._m, t._k, t._x = 2.0, False, None, None, None
    place(t, None, 0)
    t.note = [t]
    x = leaf(3.0)
    assert (x * 1.0) * t == "mine" and (t * (x * 1.0)).item() == 6.0
    t *= x * x
    (t * 1.0).backward()
    assert x.grad.item() == 12.0
    gone = weakref.ref(t)
    del t
    gc.collect()
    assert gone() is None


def test_copies_and_pickles():
    x = tg.tensor(2.0, requires_grad=True)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is tg.Tensor and other.item() == 2.0 and other.requires_grad
    y = copy.copy(x * x)
    y.backward()
    assert y.item() == 4.0 and x.grad.item() == 4.0 and not pickle.loads(pickle.dumps(x * x)).requires_grad


def test_conversions_refuse():
    y = leaf(2.0) * 3.0
    for convert in (float, int, complex, lambda t: np.asarray(t, float), lambda t: [1, 2][t], hash):
        with pytest.raises((tg.errors.LeaveTapeError, TypeError, ValueError)):
            convert(y)


@native
def test_weak_references_of_results():
    y = leaf(2.0) * 3.0
    seen = []
    gone = weakref.ref(y, lambda _: seen.append("gone"))
    z = y * 2.0
    assert gone() is y
    del y
    assert gone() is None and seen == ["gone"]
    y = z * 2.0
    assert weakref.getweakrefcount(y) == 0


# -- both ways ------------------------------------------------------------------------------------
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow]
OPERANDS = [0.0, -0.0, 1.0, 2.0, -2.0, 0.5, -0.5, 3, 2, 0, -1, True, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan, 10**400,
            np.float64(2.0), np.float32(1.5), np.int64(3), "text", None, 1j]  # fmt: skip


def outcome(function):
    """What a function gives, and writes: a value, or the class of an error."""
    with np.errstate(all="ignore"):
        try:
            t = function()
        except Exception as error:
            return type(error)
    if not isinstance(t, tg.Tensor) or type(t._v) is not float:
        return repr(t)
    op, a, b, _, value, constant = t._t.read(t._i)
    return repr((t._v, op, a, b, value, constant if op < FIRST_ARRAY else 0.0))


def generally(function):
    """The same by the general way: while results are looked at, there is no other."""
    state = thread_state()
    idents = state.store.ident
    state.store.ident = -1
    try:
        return outcome(function)
    finally:
        state.store.ident = idents


@pytest.mark.parametrize("operation", OPERATORS + IN_PLACE)
@pytest.mark.parametrize("kind", ["number", "tensor", "leaf", "constant"])
@pytest.mark.parametrize("reflected", [False, True])
def test_both_ways_give_and_write_the_same(operation, kind, reflected):
    for own in (0.0, -0.0, 2.0, -3.0, 1e300, np.inf, np.nan):
        for other in OPERANDS:
            if kind != "number":
                if type(other) not in (float, int) or other > 1e308:
                    continue
                other = {"tensor": lambda v: leaf(v) * 1.0, "leaf": leaf, "constant": tg.tensor}[kind](float(other))
                if kind == "leaf":
                    other * 1.0
            x = leaf(own) * 1.0
            pair = (other, x) if reflected else (x, other)
            assert outcome(lambda pair=pair: operation(*pair)) == generally(lambda pair=pair: operation(*pair)), (own, other)


@pytest.mark.parametrize("function", [operator.neg, abs, np.sin, np.exp, np.log, np.sqrt, np.tanh, lambda t: np.hypot(t, 2.0), lambda t: np.power(2, t),
    tg.sigmoid, tg.relu, lambda t: tg.power(t, 0.5), lambda t: tg.copysign(t, -1.0), lambda t: apply("complex_log_size", (t, 0.5)),
    lambda t: np.where(t > 0.0, t, 2.0), lambda t: np.where(True, 0.5, t), lambda t: tg.where(False, t, 1.5),
    lambda t: apply("complex_sqrt_imag", (-2.0, t)), lambda t: apply("complex_scaled_real", (t, t)),
])  # fmt: skip
def test_both_ways_of_functions(function):
    for own in (0.0, -0.0, 2.0, -3.0, 1e300, np.inf, np.nan):
        x = leaf(own) * 1.0
        assert outcome(lambda x=x: function(x)) == generally(lambda x=x: function(x)), own


def known(value):
    """A leaf that the store knows."""
    x = leaf(value)
    assert (x * 1.0)._t.leaves
    return x


@pytest.mark.parametrize("operation", OPERATORS)
@pytest.mark.parametrize("reflected", [False, True])
def test_both_ways_of_leaves_alone(operation, reflected):
    for own in (0.0, -0.0, 2.0, -3.0, np.inf, np.nan):
        for other in (*OPERANDS, known(1.5), leaf(1.5), tg.tensor(1.5)):
            x = known(own)
            pair = (other, x) if reflected else (x, other)
            assert outcome(lambda pair=pair: operation(*pair)) == generally(lambda pair=pair: operation(*pair)), (own, other)


@native
def test_operators_and_those_in_place_take_the_short_way():
    x, y = leaf(2.0) * 1.0, leaf(3.0) * 1.0
    for operation in OPERATORS:
        assert calls_of(record.apply, lambda operation=operation: (operation(x, y), operation(x, 1.5), operation(2.5, y))) == 0
    for operation in IN_PLACE:
        assert calls_of(record.apply, lambda operation=operation: (operation(x, y), operation(x, 1.5), operation(x, 2))) == 0
    assert x.item() == 2.0


def test_a_number_that_retains_its_gradient_still_does_after_a_change():
    for operation in IN_PLACE:
        x = leaf(2.0) * 1.0
        x.retain_grad()
        y = operation(x, 1.5)
        (3.0 * y).backward()
        assert y.grad.item() == 3.0


@native
def test_leaves_alone_take_the_short_way():
    x, v, w, new = known(2.0), leaf(np.arange(3.0)), leaf(np.arange(3.0)), leaf(2.0)
    v[0], v * 2.0
    for operation in (
        lambda: x * 2.0, lambda: 1.0 / x, lambda: x + x, lambda: -x, lambda: np.sin(x), lambda: tg.sin(x), lambda: v * 3.0, lambda: v[1],
        lambda: tg.multiply(v, 2.0), lambda: w * 2.0,
    ):  # fmt: skip
        assert calls_of(record.apply, operation) == 0
    # A number that is met for the first time does not.
    assert calls_of(record.apply, lambda: new * 2.0) == 1 and calls_of(record.apply, lambda: new * 2.0) == 0


@native
def test_rows_that_are_no_ufuncs_take_the_short_way():
    x, z = leaf(0.5) * 1.0, tg.tensor(3.0 + 4.0j, requires_grad=True) * 1.0
    for operation in (lambda: tg.sigmoid(x), lambda: tg.relu(x), lambda: tg.power(x, 0.5), lambda: np.sqrt(z), lambda: np.log(z), lambda: z / (z + 1.0)):
        assert calls_of(record.choose_store, operation) == 0


@pytest.mark.parametrize("short", ["short", "general"])
def test_leaves_alone_are_recorded_where_this_thread_records(short):
    x = known(2.0)
    with tg.Tape() as tape:
        x * 3.0
        if short == "short":
            y = x * 3.0
            assert y._t is tape.store and len(tape) == 2
        with tg.Tape() as inner:
            z = x * x
            assert z._t is inner.store
        assert (x + 1.0)._t is tape.store
    assert (x * 2.0)._t is thread_state().anonymous
    with tg.no_grad():
        assert not (x * 2.0).requires_grad
    x.data = 5.0
    assert (x * 2.0).item() == 10.0
    x.requires_grad = False
    assert not (x * 2.0).requires_grad
    # A thread that has recorded nothing, and one that may have the identity of the last.
    for _ in range(3):
        x, seen = known(2.0), []
        thread = threading.Thread(target=lambda x=x, seen=seen: seen.extend([x * 2.0, thread_state().store]))
        thread.start()
        thread.join()
        assert seen[0]._t is seen[1] is not thread_state().store


# -- memory -----------------------------------------------------------------------------------------
class Program:
    """A program at random: numbers are made, kept, dropped, changed, differentiated and cleared."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = []
        self.leaves = [leaf(self.random.uniform(0.5, 2.0)) for _ in range(4)]
        self.vector = leaf(np.linspace(0.5, 1.5, 5))
        self.arrays = []

    def array(self):
        if self.arrays and self.random.random() < 0.6:
            return self.random.choice(self.arrays)
        return self.random.choice([self.vector, np.linspace(0.2, 0.9, 5), tg.tensor(np.full(5, 0.7)), self.number()])

    def of_arrays(self):
        """A step on arrays, large ones too, whose sum is a number."""
        r = self.random
        operation = r.choice([operator.add, operator.sub, operator.mul, lambda a, b: np.sin(a) - b, np.hypot, lambda a, b: abs(-a) ** 2 / (b * b + 1.0),
                              lambda a, b: (a * np.ones((5, 5)) - b) @ np.full(5, 0.1), lambda a, b: np.full(5, 0.1) @ (np.full((5, 5), 0.1) + a) * b])
        y = operation(self.array(), self.array())
        if r.random() < 0.05:
            y = leaf(np.full(20_000, 0.5)) * (self.number() + np.full(20_000, 0.25)) * 1e-4
        elif np.ndim(y) and isinstance(y, tg.Tensor) and np.max(np.abs(y._v)) < 1e6:
            self.arrays.append(y)
        if r.random() < 0.1:
            del self.arrays[: r.randrange(len(self.arrays) + 1)]
        return y.sum() if np.ndim(y) else y

    def number(self):
        choice = self.random.randrange(10)
        if choice < 6 and self.numbers:
            return self.random.choice(self.numbers)
        return [self.random.choice(self.leaves), self.random.uniform(0.5, 2.0), self.random.randrange(1, 4), np.float64(1.5)][choice % 4]

    def step(self):
        pick, r = self.random.randrange(125), self.random
        if pick >= 100:
            y = self.of_arrays()
        elif pick < 55:
            y = r.choice([operator.add, operator.sub, operator.mul])(self.number(), self.number())
        elif pick < 62:
            y = self.number() / (abs(self.number()) + 1.0)
        elif pick < 66:
            y = (abs(self.number()) + 0.5) ** r.choice([2, 0.5, -1, 3.0])
        elif pick < 72:
            y = r.choice([np.sin, np.tanh, lambda t: -t, abs])(self.number())
        elif pick < 76:
            y = self.vector[r.randrange(5)] * self.number()
        elif pick < 80:
            y = self.number()
            if isinstance(y, tg.Tensor) and y._t is not None:
                y *= self.number()
        elif pick < 84 and self.numbers:
            y = r.choice(self.numbers)
            if y._t is not None and y._t.retired is None:
                y.register_hook(lambda g, y=y: None)
        elif pick < 86:
            y = np.stack([self.leaves[0] * 1.0, self.leaves[1] * 2.0]).sum()
        elif pick < 88 and self.numbers:
            self.backward(r.choice(self.numbers))
            return
        elif pick < 89:
            with tg.Tape() as tape:
                y = self.leaves[0] * 2.0 + self.leaves[1]
                y = y * y
            if r.random() < 0.5:
                tape.clear()
        elif pick < 90:
            y = tg.grad(lambda x: x * x * self.random.random())(1.5)
        elif pick < 91:
            with tg.no_grad():
                y = self.number() * self.number()
        elif pick < 92:
            self.leaves[r.randrange(4)].data = r.uniform(0.5, 2.0)
            return
        else:
            del self.numbers[: r.randrange(len(self.numbers) + 1)]
            return
        if isinstance(y, tg.Tensor) and abs(y.item()) < 1e6:
            self.numbers.append(y)
            weakref.ref(y)

    def backward(self, y):
        if y.requires_grad:
            y.backward()

    def run(self, steps):
        for _ in range(steps):
            try:
                self.step()
            except (RuntimeError, ArithmeticError):
                self.numbers.clear()
                self.arrays.clear()


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed):
    Program(seed).run(400)


@native
def test_references_are_flat():
    shared = [tg.Tensor, tg.Parameter, float, None, NotImplemented, TapeStore.note_code, Fields]

    def counts():
        gc.collect()
        return [sys.getrefcount(thing) for thing in shared]

    def run():
        x = leaf(1.5)
        for _ in range(50):
            y = x
            for k in range(20):
                y = (y * x + k) / 2 - abs(-y) ** 2 + np.sin(y)
                pow(y, 2)
            z = w = leaf(np.ones(3))
            for k in range(20):
                z = (z * w + k) / 2 - abs(-z) ** 2 + np.sin(z) * np.full(3, 0.1)
            for bad in (lambda: z + "text", lambda: pow(z, 2, 3), lambda: z * 10**400, lambda: z * np.ones(2), lambda: y + "text", lambda: y / 0, lambda: pow(y, 2, 3), lambda: y * 10**400):
                try:
                    with np.errstate(all="ignore"):
                        bad()
                except (TypeError, ValueError, OverflowError, ArithmeticError):
                    pass

    for _ in range(4):
        run()
    before = counts()
    blocks = sys.getallocatedblocks()
    # (The free list is full at every other time.)
    for _ in range(2):
        run()
    after = counts()
    # Each of the tensors in the free list refers to its class.
    assert all(abs(a - b) <= (1100 if thing is tg.Tensor else 60) for thing, a, b in zip(shared, after, before)), (before, after)
    assert sys.getallocatedblocks() - blocks < 500


def test_stores_end_with_their_tensors():
    gone = []
    for _ in range(5):
        with tg.Tape() as tape:
            y = leaf(2.0) * 3.0 + 1.0
        gone.append(weakref.ref(tape.store))
        del tape
        assert gone[-1]() is y._t
        y = None
    gc.collect()
    assert [reference() for reference in gone] == [None] * 5


def test_circles_through_hooks_are_collected():
    class Anchor:
        pass

    anchor = Anchor()
    gone = weakref.ref(anchor)
    with tg.Tape() as tape:
        y = leaf(2.0) * 3.0
        y.register_hook(lambda g, y=y, anchor=anchor: None)
        z = y * 2.0
        z.retain_grad()
    del y, z, anchor, tape
    gc.collect()
    assert gone() is None


def test_a_store_is_cleared_while_numbers_live():
    x = leaf(2.0)
    with tg.Tape() as tape:
        kept = [x * float(k) for k in range(100)]
    tape.clear()
    for y in kept[::10]:
        with pytest.raises(RuntimeError, match="second time"):
            (y * 2.0).backward()
    del tape
    gc.collect()
    assert [y.item() for y in kept] == [2.0 * k for k in range(100)]


def test_finalizers_and_callbacks_that_record():
    """Whatever ends may run code of the user's, and that may record; what is recorded stands where it was."""
    x, seen, lines = leaf(1.5), [], set()
    numbers = [x * 2.0 for _ in range(1200)]  # nothing is left in the free list

    def record(*_):
        y = x
        for _ in range(2):
            y = y * 1.01 + x
        seen.append(y.item())

    class Loud:
        def __init__(self):
            self.me = self

        def __del__(self):
            record()

    gc.set_threshold(1, 2, 2)
    try:
        kept = []
        for k in range(300):
            Loud()
            numbers += [y := x * float(k)]
            lines.add(y._t.place(y._i).line)
            y = y + x
            kept.append(weakref.ref(y, record if k % 10 == 0 else None))
            if k % 50 == 7:
                y.backward()
    finally:
        gc.set_threshold(700, 10, 10)
    gc.collect()
    assert len(seen) > 300 and set(seen) == {seen[0]} and thread_state().store.length > 1000 and len(lines) == 1


@native
@pytest.mark.skipif(hasattr(sys, "gettotalrefcount"), reason="a debug build of 3.11 does not survive that with objects of its own")
def test_no_memory_at_any_allocation():
    testcapi = pytest.importorskip("_testcapi")
    x = leaf(1.5)
    y, v = x * 2.0, leaf(np.ones(3)) * 1.0

    def work():
        z, w = y * 2.0 + y, np.sin(v) * v
        return [z * k for k in (1.0, 2, 3.0)], -z, abs(z), z**2.5, np.exp(z), w * np.full(3, 0.5), w**2

    work()
    for start in range(60):
        kept = [x * float(k) for k in range(1200)] if start % 20 == 0 else []  # nothing is left in the free list
        testcapi.set_nomemory(start, start + 1)
        try:
            work()
        except MemoryError:
            pass
        finally:
            testcapi.remove_mem_hooks()
        del kept
    (work()[0][2] * 1.0).backward()
    assert x.grad.item() == 18.0


def test_threads_have_their_own():
    errors, shared = [], leaf(2.0)
    foreign = shared * 3.0

    def work():
        try:
            for _ in range(200):
                y = shared
                for k in range(50):
                    y = y * 1.01 + shared * float(k)
                y.backward()
            with pytest.raises(tg.errors.TapeMismatchError):
                foreign * 2.0
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    finally:
        sys.setswitchinterval(before)
    assert not errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_goes_on():
    program = (
        "import os, tapegrad as tg\n"
        "x = tg.tensor(2.0, requires_grad=True); y = x * 3.0 + x\n"
        "child = os.fork()\n"
        "for k in range(5000): z = y * float(k)\n"
        "(y * y).backward()\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
        "assert x.grad.item() == 64.0"
    )
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@native
def test_a_recorded_operation_takes_at_most_48_bytes():
    x = leaf(1.0)
    with tg.Tape() as tape:
        y = x
        for _ in range(200_000):
            y = y * 0.999
    assert tape.memory()["total"] <= 48 * len(tape) + 4096
