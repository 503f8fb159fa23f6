"""A loop program as text: what a reader of a kernel sees.

One statement a line, values ``a0, a1, ...`` in the order of the program, loop
counters ``i, j, k, ...`` by depth, buffers ``x`` (inputs), ``y`` (outputs), ``t``
(temporaries) and ``c`` (constants)::

    x0: float64[3]
    y0: float64[1]

    a0 = 0.0
    for i in range(3) with a1 from a0:
        a2 = x0[i]
        a3 = a1 + a2 * a2
        next a1 = a3
    y0[0] = a3
"""

import itertools

import numpy as np

from ..rules.lang import written

_LETTERS = {"input": "x", "output": "y", "temporary": "t", "constant": "c"}
_COUNTERS = "ijklmnopqrs"


class Listing:
    """The printer of loop programs; what another language spells in another way, a class of its own says (`exporting.python`).

    Parameters
    ----------
    program : LoopProgram
    given : dict, optional
        Buffer -> its name, of those that have one.
    """

    def __init__(self, program, given=()):
        self.names, self.lines, self.heads = {}, [], []
        self.given, self.numbers = dict(given), {letter: itertools.count() for letter in "acxyt"}
        for buffer in (*program.inputs, *program.outputs):
            self.buffer(buffer)
        self.body(program.body, 0)

    def __str__(self):
        return "\n".join([*self.heads, "", *self.lines])

    def _new(self, letter):
        names = (f"{letter}{number}" for number in self.numbers[letter])
        return next(name for name in names if name not in self.given.values())

    def buffer(self, buffer):
        if buffer not in self.names:
            name = self.names[buffer] = self.given.get(buffer) or self._new(_LETTERS[buffer.role])
            self.declare(name, f"{np.dtype(buffer.char)}[{buffer.size}]{', finite' if buffer.finite else ''}", buffer.data, buffer)
        return self.names[buffer]

    def declare(self, name, kind, data, buffer=None):
        self.heads.append(f"{name}: {kind}{'' if data is None else f' = {_numbers(data)}'}")

    def value(self, value):
        if value not in self.names:
            self.names[value] = self._new("a")
        return self.names[value]

    def index(self, index):
        terms = [{1: "", -1: "-"}.get(step, f"{step}*") + self.names[loop] for loop, step in index.steps]
        text = " + ".join(terms + [str(index.base)] * bool(index.base)).replace("+ -", "- ") or "0"
        if index.table is not None:
            text = f"{self.table(index.table)}[{text}]"
        return text if index.plus is None else f"{self.value(index.plus)} + {text}".removesuffix(" + 0")

    def table(self, table):
        """The name of a table of positions; the index that has it lives as long as the program."""
        if id(table) not in self.names:
            name = self.names[id(table)] = self._new("c")
            self.declare(name, f"table[{len(table)}]", table)
        return self.names[id(table)]

    def body(self, body, depth):
        for statement in body:
            getattr(self, type(statement).__name__)(statement, depth)

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def Load(self, load, depth):
        self.line(depth, f"{self.value(load)} = {self.buffer(load.buffer)}[{self.index(load.index)}]")

    def Let(self, let, depth):
        kind = "" if let.char == "d" else f": {np.dtype(let.char)}"
        self.line(depth, f"{self.value(let)}{kind} = {written(let.expr, self.value)}")

    def Store(self, store, depth):
        self.line(depth, f"{self.buffer(store.buffer)}[{self.index(store.index)}] = {self.value(store.value)}")

    def Guard(self, guard, depth):
        number = guard.number if isinstance(guard.number, int) else self.index(guard.number)
        self.line(depth, f"guard {number}: {self.value(guard.value)} is {guard.seen}{' (early)' if guard.early else ''}")

    def Run(self, run, depth):
        places = [f"{self.buffer(buffer)}[{self.index(index)}]" for _, buffer, index in run.operands]
        self.line(depth, f"{places[0]}... = {run.name or 'run'}({', '.join(places[1:])})")

    def Loop(self, loop, depth):
        counter = self.counter(loop, depth)
        times = f"range({loop.extent})"
        if loop.ragged:
            times = f"the next of {loop.total}, {_numbers(loop.extent)}[{self.index(loop.which)}] at a time"
        carried = ", ".join(f"{self.value(c)} from {self.value(c.init)}" for c in loop.carries)
        self.line(depth, f"for {counter} in {times}{' with ' + carried if carried else ''}:")
        self.body(loop.body, depth + 1)
        for carry in loop.carries:
            self.line(depth + 1, f"next {self.value(carry)} = {self.value(carry.next)}")

    def counter(self, loop, depth):
        """The name of the counter of a loop, from now on."""
        name = _COUNTERS[depth] if depth < len(_COUNTERS) else f"i{depth}"
        self.names[loop] = name if name not in self.given.values() else f"{name}_"
        return self.names[loop]


def _numbers(data):
    numbers = [repr(v) for v in np.ravel(data)[:4].tolist()]
    return f"[{', '.join(numbers)}{', ...' if np.size(data) > 4 else ''}]"
