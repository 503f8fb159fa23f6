"""Values that are computed again instead of stored."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.kernel.passes import run_passes
from tapegrad.rules import lang as L
from tests.kernel.passes.generated import unchanged
from tests.kernel.programs import Writer, a


def two_parts(seed, extent=9):
    """A loop over elements and a carried state that stores all it computes, peeled iterations, and a loop back."""
    random = np.random.default_rng(seed)
    pick = lambda values: values[int(random.integers(len(values)))]
    w = Writer()
    x, p, y, z = w.input(extent + 2), w.input(2), w.output(extent), w.output(1)
    p0 = w.load(p, 1)
    program = []
    for _ in range(int(random.integers(2, 9))):
        program.append((int(random.integers(0, 6)), random.random(), random.random()))

    def step(element, state, at):
        values = [element, state]
        for kind, one, two in program:
            u, v = a(values[int(one * len(values))]), a(values[int(two * len(values))])
            made = [0.5 * u + v, u * v, u - 0.25 * v, L.sin(u), a(p0) * u, L.select(u < v, u, 0.5 * v)][kind]
            values.append(w.let(made))
        for value, buffer in zip(values[2:], buffers):
            w.store(value, buffer, *at)
        return values

    front, before = int(random.integers(0, 3)), int(random.random() < 0.5)
    buffers = [ir.Buffer(ir.TEMPORARY, extent) for _ in program]
    states = ir.Buffer(ir.TEMPORARY, extent + 1)
    state = w.let(0.3)
    w.store(state, states, 0)
    for k in range(front):
        state = step(w.load(x, k), state, (k,))[-1]
        w.store(state, states, k + 1)
    with w.loop(extent - front, state) as i:
        values = step(w.load(x, front, (i, 1)), i.carries[0], (front, (i, 1)))
        i.carries[0].next = values[-1]
        w.store(values[-1], states, front + 1, (i, 1))
    w.store(i.carries[0].next, z)
    reads = [pick(buffers) for _ in range(int(random.integers(1, 5)))]
    total = w.let(0.0)
    if before:
        for buffer in reads:
            total = w.let(a(total) + a(w.load(buffer, extent - 1)))
    with w.loop(extent, total) as j:
        new = j.carries[0]
        for buffer in reads:
            new = w.let(0.5 * a(new) + a(w.load(buffer, extent - 1, (j, -1))))
        state = w.load(states, extent - 1, (j, -1))
        w.store(w.let(a(new) + a(state)), y, extent - 1, (j, -1))
        j.carries[0].next = new
    return w.program()


def temporaries(program):
    return {s.buffer for s in ir.walk(program.body) if isinstance(s, ir.Store) and s.buffer.role == ir.TEMPORARY}


def test_random_pairs_of_loops():
    before = after = 0
    for seed in range(150):
        program = two_parts(seed)
        before += len(temporaries(program))
        after += len(temporaries(unchanged(program, run_passes)))
    assert after < 0.6 * before


def pair(make, extent=10):
    """``t[i] = make(w, i)`` in one loop, ``y[extent - 1 - j] = t[extent - 1 - j] + 1`` in a second, serial one."""
    w = Writer()
    x, y = w.input(extent), w.output(extent)
    t = ir.Buffer(ir.TEMPORARY, extent)
    with w.loop(extent) as i:
        w.store(make(w, x, i), t, 0, (i, 1))
    with w.loop(extent, w.let(0.0)) as j:
        new = w.let(a(j.carries[0]) + a(w.load(t, extent - 1, (j, -1))))
        w.store(new, y, extent - 1, (j, -1))
        j.carries[0].next = new
    return w.program()


def test_what_is_cheap_is_computed_again():
    def square(w, x, i):
        u = w.load(x, 0, (i, 1))
        return w.let(a(u) * a(u))

    program = unchanged(pair(square), run_passes)
    assert not temporaries(program)
    assert sum(isinstance(statement, ir.Loop) for statement in program.body) == 1


def test_what_is_dear_stays():
    def sine(w, x, i):
        return w.let(L.sin(a(w.load(x, 0, (i, 1)))))

    assert len(temporaries(unchanged(pair(sine), run_passes))) == 1


def test_only_the_state_of_an_integrator_is_stored():
    """All of a step's intermediate results are computed again from the state before it."""
    w = Writer()
    n = 12
    x, y = w.input(2), w.output(n)
    state, slopes, middle = (ir.Buffer(ir.TEMPORARY, size) for size in (n + 1, n, n))
    begin, rate = w.load(x, 0), w.load(x, 1)
    w.store(begin, state, 0)
    with w.loop(n, begin) as i:
        now = i.carries[0]
        slope = w.let(a(rate) * a(now) * (1.0 - a(now)))
        half = w.let(a(now) + 0.05 * a(slope))
        w.store(slope, slopes, 0, (i, 1))
        w.store(half, middle, 0, (i, 1))
        i.carries[0].next = w.let(a(now) + 0.1 * (a(half) - 1.0))
        w.store(i.carries[0].next, state, 1, (i, 1))
    with w.loop(n, w.let(1.0)) as j:
        one, two, three = (w.load(b, n - 1, (j, -1)) for b in (slopes, middle, state))
        j.carries[0].next = w.let(a(j.carries[0]) * (a(one) + a(two)) + a(three))
        w.store(j.carries[0].next, y, 0, (j, 1))
    program = unchanged(w.program(), run_passes)
    assert temporaries(program) == {s.buffer for s in ir.walk(program.body) if isinstance(s, ir.Store) and s.buffer.size == n + 1}
