"""The text of a function with its derivatives as a NumPy program.

What is printed is the loop program of the kernel (`kernel.ir`), by the printer that shows kernels (`kernel.listing`), in Python's notation.
"""

from collections import Counter
from textwrap import indent

import numpy as np

from ..common.errors import UnsupportedFunctionError
from ..common.version import __version__
from ..kernel import ir
from ..kernel.arrays_planner import strides
from ..kernel.listing import Listing
from ..rules import lang as L
from .files import asked
from .module import STATUSES, meanings

#: Column of the comments that name lines.
_MARGIN = 64
#: How functions of the rules' language are called.
_CALLS = {
    **{name: f"np.{name}" for name in (*L.UNARY, *L.BINARY)}, "pow": "np.power", "select": "np.where", "softplus": "np.logaddexp(0.0, {})",
    **{name: f"special.{name}" for name in (*L.SCIPY_UNARY, *L.SCIPY_BINARY, *L.SCIPY_TERNARY, "erf", "digamma")},
    "lgamma": "special.gammaln", "polygamma": "special.polygamma(int({}), {})", "sigmoid": "special.expit",
    "maximum": "np.maximum", "minimum": "np.minimum", "mul0": "np.where(({0} == 0.0) | ({1} == 0.0), 0.0, {0} * {1})",
}  # fmt: skip
#: The conversion to a dtype.
_TYPES = {"d": "np.float64", "f": "np.float32", "?": "bool", "L": "np.uint64", "Q": "np.uint64"}


def text_of(g, arguments):
    """The text that `to_python` returns."""
    kernel, arguments, results = asked(g, arguments)
    text = _Text(kernel.program, (*arguments, *results), kernel.whole.place, meanings(kernel))
    given = [f"{result.name}[0]" if result.shape == () else f"{result.name}.reshape({result.shape})" for result in results]
    given = [one if result.constant is None else _array(np.asarray(result.constant, result.char)) for one, result in zip(given, results)]
    finite = [result.name for buffer, result in zip(kernel.program.outputs, results) if buffer.finite]
    if finite:
        text.lines += [f"if not all(np.isfinite(g).all() for g in ({', '.join(finite)},)):", f"    raise ValueError({STATUSES['NOT_FINITE'][1]!r})"]
    body = "\n".join([
        f"def derivative({', '.join(argument.name for argument in arguments)}):",
        f'    """{", ".join(result.what for result in results)}; made by tapegrad {__version__} from {getattr(g, "__name__", "a function")}."""',
        *text.heads, '    with np.errstate(all="ignore"):', indent("\n".join(text.lines or ["pass"]), " " * 8),
        f"    return {', '.join(given)}", "", "", *text.data,
    ]).rstrip()  # fmt: skip
    further = "from scipy import special\n" * ("special." in body) + "from numpy import inf, nan\n" * ("inf" in body or "nan" in body)
    return f"import numpy as np\n{further}\n\n{body}\n"


def _array(data):
    made = f"np.array({data.tolist()!r}," if data.size else f"np.empty({data.shape},"
    return f"{made} np.dtype({data.dtype.char!r}))"


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

    def __init__(self, program, described, place, meanings):
        self.data, self.place, self.meanings, self.uses, self.said = [], place, meanings, _uses(program.body), 0
        super().__init__(program, {buffer: one.name for buffer, one in zip((*program.inputs, *program.outputs), described)})

    def declare(self, name, kind, data, buffer=None):
        if data is not None:
            self.data.append(f"{name} = {_array(np.ravel(data))}")
        elif buffer.role == ir.INPUT:
            self.heads.append(f"    {name} = np.ravel(np.asarray({name}, np.dtype({buffer.char!r})))")
        else:
            self.heads.append(f"    {name} = np.empty({buffer.size}, np.dtype({buffer.char!r}))")

    def body(self, body, depth):
        last = {value: statement for statement in body if not isinstance(statement, ir.Loop) for value in ir.operands(statement)}
        for statement in body:
            first, place, user = len(self.lines), self._place(statement), last.get(statement)
            self.inlined = self.uses[statement] == 1 and user is not None and _times(user, statement) == 1 and self._place(user).line == place.line
            super().body([statement], depth)
            if len(self.lines) > first and place.line and not isinstance(statement, ir.Loop):
                text = f": {place.text}" if place.line != self.said else ""
                self.lines[first], self.said = f"{self.lines[first]:<{_MARGIN}}  # {place.line}{text}", place.line

    def _place(self, statement):
        # What a pass has made belongs where what it is made of does.
        return self.place(statement.slot or max((value.slot for value in ir.operands(statement)), default=0))

    def Let(self, let, depth):
        kind, cast = _TYPES.get(let.char, "np.int64"), {"df": "np.float64({})", "fd": "np.float32({})"}
        text = L.written(let.expr, lambda value: cast.get(let.char + value.char, "{}").format(self.value(value)), self._called)
        # A constant is a float of Python's, which cannot be divided by zero.
        plain = let.expr.is_bool if let.char == "?" else let.char == "d" and {value.char for value in let.expr.leaves()} == {"d"}
        text = text if plain else f"{kind}({text})"
        if self.inlined:
            self.names[let] = f"({text})" if plain and let.expr.op not in _CALLS else text
        else:
            self.line(depth, f"{self.value(let)} = {text}")

    def Load(self, load, depth):
        if load.buffer.role in (ir.INPUT, ir.CONSTANT) and self.inlined:
            self.names[load] = f"{self.buffer(load.buffer)}[{self.index(load.index)}]"
        else:
            super().Load(load, depth)

    def _called(self, op):
        if op in L.COMPILED:
            raise UnsupportedFunctionError(f"{op} is computed by compiled code of tapegrad, which NumPy and SciPy have not: it cannot be printed")
        return _CALLS[op]

    def Guard(self, guard, depth):
        number, table = (guard.number, None) if isinstance(guard.number, int) else (guard.number.base, guard.number.table)
        self.line(depth, f"if {'not ' * guard.seen}{self.value(guard.value)}:")
        self.line(depth + 1, f"raise ValueError({self.meanings[number if table is None else table[number]]!r})")

    def Run(self, run, depth):
        if run.product is None:
            raise UnsupportedFunctionError(f"{run.name} is computed by compiled code of NumPy's or SciPy's: it cannot be printed")
        (m, k, n), (ai, ap, bp, bj, ci, cj) = run.product, strides(run)
        shaped = ((m, n), (ci, cj)), ((m, k), (ai, ap)), ((k, n), (bp, bj))
        c, a, b = (_matrix(f"{self.buffer(buffer)}[{self.index(index)}:]", buffer, *form) for (_, buffer, index), form in zip(run.operands, shaped))
        self.line(depth, f"{c}[...] = {a} @ {b}")

    def Loop(self, loop, depth):
        counter, times = self.counter(loop, depth), loop.extent
        for carry in loop.carries:
            self.line(depth, f"{self.value(carry)} = {self.value(carry.init)}")
        if loop.ragged:
            # The counter goes on from one execution to the next.
            ends, which = self._new("c"), self.index(loop.which)
            self.declare(ends, "", np.cumsum([0, *loop.extent]))
            times = f"{ends}[{which}], {ends}[{which} + 1]"
        self.line(depth, f"for {counter} in range({times}):")
        self.body(loop.body, depth + 1)
        inside = _uses([loop])
        late = [carry for carry in loop.carries if self.uses[carry] > inside[carry]]
        names = [f"last_{self.value(carry)}" for carry in late] + [self.value(carry) for carry in loop.carries]
        nexts = [self.value(carry) for carry in late] + [self.value(carry.next) for carry in loop.carries]
        if names:
            self.line(depth + 1, f"{', '.join(names)} = {', '.join(nexts)}")
        # What is behind the loop reads what the last iteration began with.
        self.names.update(zip(late, names))


def _uses(body):
    """How many statements use each value."""
    return Counter(value for statement in ir.walk(body) for value in ir.operands(statement))


def _times(user, value):
    """How often a value stands in the statement that uses it."""
    return L.written(user.expr, lambda leaf: "@" * (leaf is value)).count("@") if isinstance(user, ir.Let) else 1
