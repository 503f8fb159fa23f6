"""The text of a function with its derivatives as a NumPy program.

What is printed is the loop program of the kernel (`kernel.ir`), by the printer that shows kernels (`kernel.listing`), in Python's notation.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..common.errors import UnsupportedFunctionError
from ..common.version import __version__
from ..kernel import ir
from ..kernel.arrays_hosts import strides
from ..kernel.listing import Listing
from ..rules import lang as L
from .files import asked
from .module import meanings

#: Column of the comments that name lines.
_MARGIN = 72
#: How functions of the rules' language are called.
_CALLS = {
    **{name: f"np.{name}({{}})" for name in L.UNARY}, **{name: f"np.{name}({{}}, {{}})" for name in L.BINARY},
    **{name: f"special.{name}({{}})" for name in (*L.SCIPY_UNARY, "erf", "digamma")}, **{name: f"special.{name}({{}}, {{}})" for name in L.SCIPY_BINARY},
    **{name: f"special.{name}({{}}, {{}}, {{}})" for name in L.SCIPY_TERNARY}, "lgamma": "special.gammaln({})", "sigmoid": "special.expit({})",
    "pow": "np.power({}, {})", "polygamma": "special.polygamma(int({}), {})", "softplus": "np.logaddexp(0.0, {})", "select": "np.where({}, {}, {})",
    "mul0": "np.where(({0} == 0.0) | ({1} == 0.0), 0.0, {0} * {1})", **dict.fromkeys(L.COMPILED),
}  # fmt: skip
#: The conversion to a dtype.
_TYPES = {"d": "np.float64", "f": "np.float32", "?": "bool"}


def text_of(g, arguments):
    """The text that `to_python` returns."""
    kernel, arguments, results = asked(g, arguments)
    inputs, outputs = kernel.program.inputs, kernel.program.outputs
    names = {b: a.name + "_" * (a.name in ("np", "special", "inf", "nan")) for b, a in zip((*inputs, *outputs), (*arguments, *results))}
    text = _Text(kernel.program, names, kernel.whole.place, meanings(kernel))
    given = [f"{names[buffer]}[0]" if result.shape == () else f"{names[buffer]}.reshape({result.shape})" for buffer, result in zip(outputs, results)]
    given = [one if result.constant is None else _array(np.asarray(result.constant, result.char)) for one, result in zip(given, results)]
    said = f'"""{", ".join(result.what for result in results)}; made by tapegrad {__version__} from {getattr(g, "__name__", "a function")}."""'
    body = [f"def derivative({', '.join(names[buffer] for buffer in inputs)}):", f"    {said}", *text.heads, '    with np.errstate(all="ignore"):']
    body = "\n".join([*body, *text.lines, f"    return {', '.join(given)}", "", "", *text.data]).rstrip() + "\n"
    heads = ["import numpy as np", "from scipy import special" * ("special." in body), "from numpy import inf, nan" * ("inf" in body or "nan" in body)]
    return "\n".join([*filter(None, heads), "", "", body])


def _array(data):
    return f"np.array({data.tolist()!r}, np.dtype({data.dtype.char!r}))"


def _matrix(place, buffer, shape, steps):
    """A window of a buffer, from a place on, as a matrix."""
    m, n = shape
    if steps == (n, 1):
        return f"{place}[:{m * n}].reshape({m}, {n})"
    if steps == (1, m):
        return f"{place}[:{m * n}].reshape({n}, {m}).T"
    itemsize = np.dtype(buffer.char).itemsize
    return f"np.lib.stride_tricks.as_strided({place}, {shape}, {tuple(itemsize * step for step in steps)})"


class _Text(Listing):
    """A loop program in Python: `lines` of a function, `heads` before them, and `data` behind it."""

    def __init__(self, program, names, place, meanings):
        self.data, self.place, self.meanings = [], place, meanings
        self.late, self.said, self.inlined = _used_late(program.body), 0, False
        self.uses = Counter(value for statement in ir.walk(program.body) for value in _uses(statement))
        super().__init__(program, names)

    def declare(self, name, buffer):
        if buffer.data is not None:
            self.data.append(f"{name} = {_array(np.ravel(buffer.data))}")
        elif buffer.role == ir.INPUT:
            self.heads.append(f"    {name} = np.ravel(np.asarray({name}, np.dtype({buffer.char!r})))")
        else:
            self.heads.append(f"    {name} = np.empty({buffer.size}, np.dtype({buffer.char!r}))")

    def declare_table(self, name, table):
        self.data.append(f"{name} = {_array(table)}")

    def body(self, body, depth):
        last = {value: statement for statement in body if not isinstance(statement, ir.Loop) for value in _uses(statement)}
        for statement in body:
            first, place, user = len(self.lines), self._place(statement), last.get(statement)
            self.inlined = user is not None and self.uses[statement] == 1 and self._place(user).line == place.line
            super().body([statement], depth)
            if len(self.lines) > first and place.line and not isinstance(statement, ir.Loop):
                text = f": {place.text}" if place.line != self.said else ""
                self.lines[first], self.said = f"{self.lines[first]:<{_MARGIN}}  # {place.line}{text}", place.line

    def _place(self, statement):
        # What a pass has made belongs where what it is made of does.
        return self.place(statement.slot or max((value.slot for value in ir.operands(statement)), default=0))

    def line(self, depth, text):
        super().line(depth + 2, text)

    def Let(self, let, depth):
        kind = None if let.expr.is_bool and let.char == "?" else _TYPES.get(let.char, "np.int64")
        if kind == "np.float64" and not let.expr.is_const and all(value.char == "d" for value in let.expr.leaves()):
            kind = None
        cast = {"df": "np.float64({})", "fd": "np.float32({})"}
        text = L.written(let.expr, lambda value: cast.get(let.char + value.char, "{}").format(self.value(value)), self._called)
        text = text if kind is None else f"{kind}({text})"
        if self.inlined:
            self.names[let] = f"({text})" if kind is None and let.expr.op not in _CALLS else text
        else:
            self.line(depth, f"{self.value(let)} = {text}")

    def Load(self, load, depth):
        if load.buffer.role in (ir.INPUT, ir.CONSTANT) and self.inlined:
            self.names[load] = f"{self.buffer(load.buffer)}[{self.index(load.index)}]"
        else:
            super().Load(load, depth)

    def _called(self, op):
        form = _CALLS.get(op, "")
        if form is None:
            raise UnsupportedFunctionError(f"{op} is computed by compiled code of tapegrad, which NumPy and SciPy have not: it cannot be printed")
        return form or None

    def Guard(self, guard, depth):
        number, table = (guard.number, None) if isinstance(guard.number, int) else (guard.number.base, guard.number.table)
        self.line(depth, f"if {'not ' * guard.seen}{self.value(guard.value)}:")
        self.line(depth + 1, f"raise ValueError({self.meanings[number if table is None else table[number]]!r})")

    def Run(self, run, depth):
        if run.product is None:
            raise UnsupportedFunctionError(f"{run.name} is computed by compiled code of NumPy's or SciPy's: it cannot be printed")
        m, k, n = run.product
        ai, ap, bp, bj, ci, cj = strides(run)
        shaped = ((m, n), (ci, cj)), ((m, k), (ai, ap)), ((k, n), (bp, bj))
        c, a, b = (_matrix(f"{self.buffer(buffer)}[{self.index(index)}:]", buffer, *form) for (_, buffer, index), form in zip(run.operands, shaped))
        self.line(depth, f"{c}[...] = {a} @ {b}")

    def Loop(self, loop, depth):
        counter = self.counter(loop, depth)
        for carry in loop.carries:
            self.line(depth, f"{self.value(carry)} = {self.value(carry.init)}")
        if loop.ragged:
            self.names[loop] = counter = self._new("n")
            self.line(depth, f"for _ in range({self.table(loop.extent)}[{self.index(loop.which)}]):")
            self.line(depth + 1, f"{counter} += 1")
            self.heads.append(f"    {counter} = -1")
        else:
            self.line(depth, f"for {counter} in range({loop.extent}):")
        self.body(loop.body, depth + 1)
        names, nexts = [], []
        for carry in loop.carries:
            names += [f"last_{self.value(carry)}"] * (carry in self.late) + [self.value(carry)]
            nexts += [self.value(carry)] * (carry in self.late) + [self.value(carry.next)]
        if names:
            self.line(depth + 1, f"{', '.join(names)} = {', '.join(nexts)}")
        for carry in self.late.intersection(loop.carries):
            # What is behind the loop reads what the last iteration began with.
            self.names[carry] = f"last_{self.names[carry]}"


def _uses(statement):
    """The values that a statement uses, as often as it does."""
    if not isinstance(statement, ir.Let) or statement.expr.op == "arg":
        return ir.operands(statement)
    inner = [node for node in L.nodes(statement.expr) if node.op not in ("arg", "const")]
    return [operand.args[0] for node in inner for operand in node.args if operand.op == "arg"]


def _used_late(body):
    """What loops carry and is read behind them."""
    late, stack = set(), [(statement, frozenset()) for statement in body]
    while stack:
        statement, open_ = stack.pop()
        own = open_.union(statement.carries) if isinstance(statement, ir.Loop) else open_
        late.update(value for value in ir.operands(statement) if isinstance(value, ir.Carry) and value not in own)
        if isinstance(statement, ir.Loop):
            stack += [(inner, own) for inner in statement.body]
    return late
