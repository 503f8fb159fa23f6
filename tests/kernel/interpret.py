"""A slow reference of what a loop program computes: one NumPy scalar at a time.

`interpret` shares nothing with the emission of machine code but `kernel.ir`.
Temporaries begin as NaN (or as odd numbers), so that a read before a write shows.
"""

import numpy as np
import scipy.special

from tapegrad.codegen.library import compiled_function
from tapegrad.interpreter import native
from tapegrad.kernel import ir
from tapegrad.rules import lang as L

#: What `interpret` returns, as kernels do.
FINE, NOT_FINITE = -1, -2

_SPECIAL = {"digamma": "psi", "lgamma": "gammaln"}
_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "abs": np.abs, "neg": np.negative,
}  # fmt: skip


def _mul0(g, p):
    return type(g)(0) if g == 0 or p == 0 else g * p


def _sigmoid(x):
    small = np.exp(-np.abs(x))
    return (1 if x >= 0 else small) / (1 + small)


_OWN = {
    "mul0": _mul0, "sigmoid": _sigmoid, "softplus": lambda x: np.logaddexp(0, x), "sign": np.sign,
    **{name: compiled_function(name) for name in L.COMPILED},
    "polygamma": lambda n, x: scipy.special.polygamma(int(n), x),
}  # fmt: skip


def _function(name):
    if name in _UFUNCS or name in _OWN:
        return _UFUNCS.get(name) or _OWN[name]
    return getattr(np, name, None) or getattr(scipy.special, _SPECIAL.get(name, name))


def evaluate(let, values):
    """The value of a `Let`, given those of its operands by id."""
    kind = np.dtype(ir.arithmetic(let)).type
    found = {}
    for node in ir.nodes(let.expr):
        if node.op == "const":
            result = kind(node.args[0])
        elif node.op == "arg":
            result = values[id(node.args[0])]
            result = result if isinstance(result, np.bool_) else kind(result)
        else:
            args = [found[id(a)] for a in node.args]
            if node.op == "select":
                result = args[1] if args[0] else args[2]
            elif node.op in ("and", "or", "not"):
                truths = [bool(a) for a in args]
                result = np.bool_(not truths[0] if node.op == "not" else any(truths) if node.op == "or" else all(truths))
            else:
                result = _function(node.op)(*[kind(a) if isinstance(a, np.bool_) else a for a in args])
            result = result if isinstance(result, np.bool_) else kind(result)
        found[id(node)] = result
    return np.dtype(let.char).type(found[id(let.expr)])


class Interpreter:
    """One evaluation of `program`; see `interpret`."""

    def __init__(self, program, inputs, outputs):
        self.values, self.counters, self.failed = {}, {}, []
        self.arrays = {}
        for buffers, arrays in ((program.inputs, inputs), (program.outputs, outputs)):
            for buffer, array in zip(buffers, arrays, strict=True):
                array = array.reshape(-1)
                assert array.dtype == np.dtype(buffer.char) and array.size == buffer.size, (buffer, array.dtype, array.size)
                self.arrays[id(buffer)] = array
        self.program = program

    def array(self, buffer):
        found = self.arrays.get(id(buffer))
        if found is None:
            if buffer.role == ir.CONSTANT:
                found = np.ascontiguousarray(buffer.data).reshape(-1)
                assert found.dtype == np.dtype(buffer.char) and found.size == buffer.size, buffer
            else:
                assert buffer.role == ir.TEMPORARY, "an input or output that the program does not list"
                dtype = np.dtype(buffer.char)
                waste = np.nan if dtype.kind == "f" else 1 if dtype.kind == "b" else 77
                found = np.full(buffer.size, waste, dtype)
            self.arrays[id(buffer)] = found
        return found

    def position(self, index):
        found = index.base + sum(step * self.counters[id(loop)] for loop, step in index.steps)
        if index.table is not None:
            assert 0 <= found < len(index.table), (found, len(index.table))
            found = int(index.table[found])
        return found if index.plus is None else found + int(self.values[id(index.plus)])

    def element(self, buffer, index):
        found = self.position(index)
        assert 0 <= found < buffer.size, (buffer, found)
        return found

    def run(self):
        self.body(self.program.body)
        for buffer in self.program.outputs:
            if not self.failed and buffer.finite and not np.isfinite(self.array(buffer)).all():
                return NOT_FINITE
        return min(self.failed, default=FINE)

    def body(self, body):
        for statement in body:
            getattr(self, type(statement).__name__)(statement)

    def Loop(self, loop):
        extent = loop.extent if not loop.ragged else int(loop.extent[self.position(loop.which)])
        assert extent >= 1, extent
        first = self.counters.get(id(loop), -1) + 1 if loop.ragged else 0
        carried = [self.values[id(carry.init)] for carry in loop.carries]
        for count in range(first, first + extent):
            self.counters[id(loop)] = count
            for carry, value in zip(loop.carries, carried):
                self.values[id(carry)] = value
            self.body(loop.body)
            carried = [self.values[id(carry.next)] for carry in loop.carries]

    def Load(self, load):
        self.values[id(load)] = self.array(load.buffer)[self.element(load.buffer, load.index)]

    def Let(self, let):
        self.values[id(let)] = evaluate(let, self.values)

    def Store(self, store):
        array = self.array(store.buffer)
        array[self.element(store.buffer, store.index)] = array.dtype.type(self.values[id(store.value)])

    def Guard(self, guard):
        if bool(self.values[id(guard.value)]) != guard.seen:
            self.failed.append(guard.number if isinstance(guard.number, int) else self.position(guard.number))
            if guard.early:
                raise _Stopped

    def Run(self, run):
        registers, scratch = np.zeros(256, np.int64), np.zeros(4096, np.uint8)
        for register, buffer, index in run.operands:
            array = self.array(buffer)
            registers[register] = array.ctypes.data + array.itemsize * self.position(index)
        words = np.ascontiguousarray(run.program, np.int64)
        steps = native.steps()
        steps.run(words.ctypes.data, registers.ctypes.data, 0, 0, 0, scratch.ctypes.data)


class _Stopped(Exception):
    pass


def interpret(program, inputs, outputs):
    """Evaluate `program` on arrays; outputs are written in place.

    Returns
    -------
    int
        FINE, NOT_FINITE, or the number of the guard that failed: that of an early guard, else the least.
    """
    interpreter = Interpreter(program, inputs, outputs)
    with np.errstate(all="ignore"):
        try:
            return interpreter.run()
        except _Stopped:
            return interpreter.failed[-1]


