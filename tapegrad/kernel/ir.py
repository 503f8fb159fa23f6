"""The loop program: what a kernel computes, between the tape and machine code.

A `LoopProgram` is a list of statements.  `Loop` is the only one that holds
others; every other statement does one thing, and those that give a result *are*
that result (single assignment: a statement object is used as an operand
wherever its value is wanted)::

    Load(buffer, index)          one element of a buffer
    Let(expr, char)              an expression of the rules' language over values
    Carry(init)                  at the head of a loop: `init` the first time, then `next`
    Store(buffer, index, value)
    Guard(number, value, seen)   what the recorded path depended on
    Run(program, operands, ...)  an array step that is not a loop: compiled code of the sweeps

Loops run at least once and are tested at their end, so a value computed in the
body of a loop may be used after the loop: it is that of the last iteration.
Otherwise a value may be used where its statement has been executed before:
later in the same body, or in loops inside it.

Memory is a set of `Buffer` objects, each an array of its own that overlaps no
other; views are index arithmetic.  An element is named by an `Index`: a base,
plus a coefficient times the counter of each enclosing loop; where elements do
not advance evenly, that sum is a position in a table of elements.  A value of an
integer type may be added (`plus`): an element whose number is itself computed or loaded.

A loop whose number of iterations differs from one execution to the next is
*ragged*: `extent` is then an array with one number for each execution, chosen by
`which` (an `Index` without table, in the counters of the loops around it), and its counter
does not start again at zero but goes on counting over all executions.

An `ArrayRef` is an array in a buffer; views of it are index arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..common.errors import require
from ..common.waiting import give_way
from ..interpreter.planner import contiguous, within
from ..rules import lang as L
from ..rules.lang import nodes
from ..tape.layout import c_strides
from .listing import Listing

#: Roles of buffers.
INPUT, OUTPUT, CONSTANT, TEMPORARY = "input", "output", "constant", "temporary"


@dataclass(eq=False)
class Buffer:
    """An array of its own.

    Attributes
    ----------
    role : str
        INPUT (given by the caller, only read), OUTPUT (given by the caller, only
        written and read back), CONSTANT (`data`), TEMPORARY (in the workspace).
    size : int
        Elements.
    char : str
        NumPy's dtype character.
    number : int
        Which input or output.
    data : ndarray or None
        Elements of a constant.
    finite : bool
        Whether the kernel reports an output that is not finite in every element.
    within : Loop or None
        The loop every iteration of which has this temporary for itself (`kernel.passes.renaming`).
    """

    role: str
    size: int
    char: str = "d"
    number: int = 0
    data: np.ndarray | None = None
    finite: bool = False
    within: Loop | None = None

    @property
    def nbytes(self):
        return self.size * np.dtype(self.char).itemsize


@dataclass(eq=False)
class Index:
    """Which element: ``base + sum(coefficient * counter)``, or the entry of `table` at that position; then `plus` is added.

    Attributes
    ----------
    base : int
    steps : tuple of (Loop, int)
        Counters of enclosing loops and their coefficients; each loop once, no coefficient 0.
    table : ndarray of int64 or None
    plus : Value or None
        A value of an integer type, in elements; what it is made of is executed before.
    """

    base: int = 0
    steps: tuple = ()
    table: np.ndarray | None = None
    plus: Value | None = None

    def same(self, other):
        """Whether both name the same element in every iteration."""
        same = self.base == other.base and dict(self.steps) == dict(other.steps) and self.plus is other.plus
        # (A table is not equal to None.)
        return same and (self.table is other.table or np.array_equal(self.table, other.table))


class Statement:
    """One thing a kernel does.

    Attributes
    ----------
    slot : int
        Of the tape, what it was made for; 0 if none.
    """

    slot = 0


class Value(Statement):
    """A statement with a result of type `char`: 'd', 'f', '?' or an integer type."""


@dataclass(eq=False)
class Load(Value):
    """One element of `buffer`."""

    buffer: Buffer
    index: Index

    @property
    def char(self):
        return self.buffer.char


@dataclass(eq=False)
class Let(Value):
    """An expression of `rules.lang` whose ``arg`` leaves are values; computed in `char`.

    ``Let(L.arg(value), "f")`` converts.
    """

    expr: L.Expr
    char: str = "d"


@dataclass(eq=False)
class Carry(Value):
    """A value that goes from one iteration to the next; stands in `Loop.carries`.

    Attributes
    ----------
    init : Value
        In the first iteration of each execution of the loop.
    next : Value
        What the next iteration sees; set once it exists.
    reorder : bool
        Whether the additions that lead to `next` may be made in another order
        (sums and products over axes of arrays, whose order NumPy does not promise).
    """

    init: Value
    next: Value | None = None
    reorder: bool = False

    @property
    def char(self):
        return self.init.char


@dataclass(eq=False)
class Store(Statement):
    """Write `value` to an element of `buffer` (converted to its type)."""

    buffer: Buffer
    index: Index
    value: Value


@dataclass(eq=False)
class Guard(Statement):
    """A condition that was met at recording must be met again.

    Attributes
    ----------
    number : int or Index
        An index is evaluated (its table, if it has one, holds the numbers).
    value : Value
        Of type '?'.
    seen : bool
        Its outcome.
    early : bool
        Test before going on (what follows forms addresses from it), else at the end.
    """

    number: object
    value: Value
    seen: bool
    early: bool = False


@dataclass(eq=False)
class Run(Statement):
    """Run a compiled array program (`interpreter.steps.run`) on whole arrays.

    Attributes
    ----------
    program : ndarray of int64
        Its words (see `program.values.ValueProgram`).
    operands : list of (int, Buffer, Index)
        Register, and where its array begins; the first is the result.
    reads, writes : set of Buffer
    keeps : object
        What must live as long as the kernel (constants of the program).
    name : str
        For the listing.
    product : tuple of int or None
        Rows, depth and columns, if this is the product of two matrices and nothing else (`arrays_planner.part`).
    """

    program: np.ndarray
    operands: list
    reads: set = field(default_factory=set)
    writes: set = field(default_factory=set)
    keeps: object = None
    name: str = ""
    product: tuple | None = None


@dataclass(eq=False)
class Loop(Statement):
    """`body`, `extent` times.

    Attributes
    ----------
    extent : int, or ndarray of int64 for a ragged loop
    body : list of Statement
    carries : list of Carry
    which : Index or None
        Position in `extent` of this execution's number (ragged loops).
    """

    extent: object
    body: list = field(default_factory=list)
    carries: list = field(default_factory=list)
    which: Index | None = None

    @property
    def ragged(self):
        return not isinstance(self.extent, int)

    @property
    def total(self):
        """Iterations of one execution, or of all executions of a ragged loop."""
        return int(np.sum(self.extent)) if self.ragged else self.extent


@dataclass(eq=False)
class LoopProgram:
    """What a kernel computes.

    Attributes
    ----------
    inputs, outputs : list of Buffer
        In the order of the caller's arguments and results.
    body : list of Statement
    guards : int
        How many guards the tape has; one of this number says that the kernel does not answer here.
    views : dict
        As of `program.executable.Executable`.
    """

    inputs: list
    outputs: list
    body: list
    guards: int = 0
    views: dict = field(default_factory=dict)

    def __str__(self):
        return str(Listing(self))


def constant(number, char="d"):
    """The value that is always `number`."""
    return Let(L.Expr("const", (float(number),)), char)


#: Operations that integers have; other expressions over integers are computed in double.
_OF_INTEGERS = {"arg", "const", "add", "sub", "mul", "neg", "abs", "sign", "isnan", "select", *L.COMPARISONS, *L.LOGIC}


#: Operations that cost next to nothing, and gain little from being vectorised.
CHEAP = {"arg", "const", "add", "sub", "mul", "neg", "abs", "select", *L.COMPARISONS, *L.LOGIC}


def arithmetic(let):
    """In what a `Let` computes: 'd', 'f' or 'q'.

    Floating results are computed in their own type, to which operands are converted.  A truth
    value or an integer is computed in the widest type of its operands.
    """
    if let.char in "df":
        return let.char
    chars = {leaf.char for leaf in let.expr.leaves()} - {"?"}
    if chars == {"f"}:
        return "f"
    if not chars & {"d", "f"} and (chars or let.char != "?") and all(map(integral, nodes(let.expr))):
        return "q"
    return "d"


def integral(node):
    """Whether integers have the operation of this node."""
    return node.op in _OF_INTEGERS and (node.op != "const" or float(node.args[0]).is_integer())


def indices(statement):
    """The indices by which a statement names elements, a guard, or its extent."""
    if isinstance(statement, (Load, Store)):
        return [statement.index]
    if isinstance(statement, Run):
        return [index for _, _, index in statement.operands]
    if isinstance(statement, Guard):
        return [] if isinstance(statement.number, int) else [statement.number]
    return [statement.which] if isinstance(statement, Loop) and statement.ragged else []


def operands(statement):
    """The values a statement uses, in order, each once; a loop, what its carries begin and go on with."""
    if isinstance(statement, Let):
        return statement.expr.leaves()
    used = [statement.value] if isinstance(statement, (Store, Guard)) else []
    if isinstance(statement, Loop):
        used += [value for carry in statement.carries for value in (carry.init, carry.next)]
    used += [index.plus for index in indices(statement) if index.plus is not None]
    return [*dict.fromkeys(used)]


def touched(statement):
    """What a statement itself reads and writes: triples (buffer, index or None for all of it, whether it is written)."""
    if isinstance(statement, (Load, Store)):
        return [(statement.buffer, statement.index, isinstance(statement, Store))]
    if isinstance(statement, Run):
        return [*((buffer, None, True) for buffer in statement.writes), *((buffer, None, False) for buffer in statement.reads)]
    return []


def walk(body):
    """Every statement of `body` and of the loops in it, in order; a loop comes before its body."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        give_way()
        yield statement
        if isinstance(statement, Loop):
            stack.extend(reversed(statement.body))


def own(body):
    """Every statement of `body` and of the loops in it, and what these loops carry."""
    return with_carries(list(walk(body)))


def with_carries(statements):
    """These statements, and what the loops among them carry."""
    return {*statements, *(carry for loop in statements if isinstance(loop, Loop) for carry in loop.carries)}


# ---- arrays -------------------------------------------------------------------------------


@dataclass(eq=False)
class ArrayRef:
    """An array in a buffer.

    Attributes
    ----------
    buffer : Buffer
    offset : Index
        Of its first element.
    shape, strides : tuple of int
        Strides in elements.
    char : str
        NumPy's dtype character, that of the buffer.
    number : float or None
        The value of every element, if it never changes.
    """

    buffer: Buffer
    offset: Index
    shape: tuple
    strides: tuple
    char: str
    number: float | None = None

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)


def whole(buffer, shape, offset=None):
    """The C-contiguous array in `buffer`, from its beginning on or from an `Index`."""
    return ArrayRef(buffer, Index() if offset is None else offset, tuple(shape), c_strides(shape, 1), buffer.char)


def here(ref, target):
    """Whether two arrays are the same elements."""
    return target is not None and ref.buffer is target.buffer and ref.offset.same(target.offset) and ref.strides == target.strides


def moved(index, base=0, steps=()):
    """`index` (without table) plus `base` and ``sum(coefficient * counter)``."""
    require(index.table is None, "an index by a table is moved")
    total = dict(index.steps)
    for loop, coefficient in steps:
        total[loop] = total.get(loop, 0) + coefficient
    return Index(index.base + base, tuple((loop, c) for loop, c in total.items() if c), None, index.plus)


def added(one, other, body):
    """The sum of two indices without tables; `body` receives the addition of what is loaded."""
    plus = one.plus if other.plus is None else other.plus
    if one.plus is not None and other.plus is not None:
        body.append(plus := Let(L.arg(one.plus) + L.arg(other.plus), "l"))
    total = moved(Index(one.base, one.steps), other.base, other.steps)
    return Index(total.base, total.steps, None, plus)


def without_table(index, body):
    """`index` without table: what the table says is loaded by a statement in `body`."""
    if index.table is None:
        return index
    table = np.ascontiguousarray(index.table, np.int64)
    body.append(load := Load(Buffer(CONSTANT, table.size, "l", data=table), Index(index.base, index.steps)))
    return added(Index(plus=load), Index(plus=index.plus), body)


def window(x, shape, strides, offset, body):
    """The window of `x` whose elements have these strides and offset (an `Index`) in C order, or None if it is none."""
    if 0 in shape:
        return ArrayRef(x.buffer, Index(), shape, c_strides(shape, 1), x.char)
    if contiguous(x.shape, x.strides, 1):
        return ArrayRef(x.buffer, added(x.offset, offset, body), shape, tuple(strides), x.char)
    if offset.plus is not None:
        return None
    loops, coefficients = zip(*offset.steps) if offset.steps else ((), ())
    inside = within(x.shape, x.strides, (*shape, *(loop.total for loop in loops)), (*strides, *coefficients), offset.base)
    if inside is None:
        return None
    base, jumps = inside
    ndim = len(shape)
    return ArrayRef(x.buffer, moved(x.offset, base, zip(loops, jumps[ndim:])), shape, tuple(jumps[:ndim]), x.char)
