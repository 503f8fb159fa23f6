"""Loop programs made by hand."""

import numpy as np

from tapegrad.kernel import ir
from tapegrad.kernel.arrays import as_seen
from tapegrad.rules import lang as L


class Writer:
    """Writes statements to the end of a body; ``with writer.loop(n) as i:`` opens one.

    Indices are written as ``at(base, (loop, step), ...)``, expressions with Python's operators over
    what `load` and `let` give.
    """

    def __init__(self):
        self.top = []
        self.bodies = [self.top]
        self.inputs, self.outputs, self.guards = [], [], 0

    def input(self, size, char="d"):
        self.inputs.append(ir.Buffer(ir.INPUT, size, char, len(self.inputs)))
        return self.inputs[-1]

    def output(self, size, char="d", **marks):
        self.outputs.append(ir.Buffer(ir.OUTPUT, size, char, len(self.outputs), **marks))
        return self.outputs[-1]

    def add(self, statement):
        self.bodies[-1].append(statement)
        return statement

    def load(self, buffer, base=0, *steps, table=None):
        return self.add(ir.Load(buffer, at(base, *steps, table=table)))

    def let(self, expr, char="d"):
        return self.add(ir.Let(L.Expr.lift(expr), char))

    def store(self, value, buffer, base=0, *steps, table=None):
        return self.add(ir.Store(buffer, at(base, *steps, table=table), value))

    def zero(self, *buffers):
        """Zeros in all elements of buffers."""
        for buffer in buffers:
            with self.loop(buffer.size) as i:
                self.store(self.let(0.0, buffer.char), buffer, 0, (i, 1))

    def guard(self, value, seen=True, early=False):
        """A condition, or a number that is the one in these bytes, or that was loaded."""
        self.guards += 1
        if isinstance(seen, bytes):
            seen = self.add(ir.Load(ir.Buffer(ir.CONSTANT, 1, value.char, data=np.frombuffer(seen, value.char)), ir.Index()))
        if isinstance(seen, ir.Load):
            value, seen = self.let(as_seen(L.arg(value), L.arg(seen), value.char), "?"), True
        elif value.char != "?":
            value = self.let(L.ne(L.arg(value), 0.0), "?")
        return self.add(ir.Guard(self.guards - 1, value, seen, early))

    def loop(self, extent, *inits, reorder=False, which=None):
        """A loop; `inits` begin its carries, which the body gets as ``loop.carries``."""
        loop = ir.Loop(extent, which=which, carries=[ir.Carry(init, reorder=reorder) for init in inits])
        self.add(loop)
        return _Open(self, loop)

    def program(self):
        return ir.LoopProgram(self.inputs, self.outputs, self.top, self.guards)


class _Open:
    def __init__(self, writer, loop):
        self.writer, self.inner = writer, loop

    def __enter__(self):
        self.writer.bodies.append(self.inner.body)
        return self.inner

    def __exit__(self, *error):
        self.writer.bodies.pop()
        if not any(error):
            assert all(c.next is not None for c in self.inner.carries)


def at(base=0, *steps, table=None):
    return ir.Index(base, tuple(steps), None if table is None else np.asarray(table))


def constant(array):
    array = np.asarray(array)
    return ir.Buffer(ir.CONSTANT, array.size, array.dtype.char, data=array)


def temporary(size, char="d"):
    return ir.Buffer(ir.TEMPORARY, size, char)


a = L.arg


def rosenbrock(n):
    """Value and gradient of the sum of ``100 (x[i+1] - x[i]**2)**2 + (1 - x[i])**2``."""
    w = Writer()
    x, value, gradient = w.input(n), w.output(1), w.output(n)
    w.store(w.let(0.0), gradient, n - 1)
    with w.loop(n - 1, w.let(0.0)) as i:
        x0, x1 = w.load(x, 0, (i, 1)), w.load(x, 1, (i, 1))
        t = w.let(a(x1) - a(x0) * a(x0))
        u = w.let(1.0 - a(x0))
        i.carries[0].next = w.let(a(i.carries[0]) + (100.0 * (a(t) * a(t)) + a(u) * a(u)))
    w.store(i.carries[0].next, value)
    with w.loop(n - 1) as j:
        x0, x1 = w.load(x, n - 2, (j, -1)), w.load(x, n - 1, (j, -1))
        g = w.let(200.0 * (a(x1) - a(x0) * a(x0)))
        up = w.load(gradient, n - 1, (j, -1))
        w.store(w.let(a(up) + a(g)), gradient, n - 1, (j, -1))
        w.store(w.let(-2.0 * (1.0 - a(x0)) - 2.0 * (a(x0) * a(g))), gradient, n - 2, (j, -1))
    return w.program()
