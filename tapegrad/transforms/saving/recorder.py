"""A tape from a file, recorded again from descriptions of what its instructions give.

Compiled programs believe what they are told: that operands come earlier, that a window lies in its array, that positions are in range.
In a recording that is so because NumPy has done it all once.  Here each entry is recorded behind what there is: its operands are
looked up, its row says what it gives and refuses what it cannot take.  What no row knows is looked
at by hand: types of the header (`HEADER`), where arguments are, flat positions, the memory that functions without derivative take.

The row says shape and dtype of its result, and refuses operands that do not fit (`Row.shape`).  Its rules are planned besides
(`interpreter.plan`), as they are for a replay and for the sweep, and the steps are dropped: the planner refuses
whatever would lie outside of its array (`interpreter.planner`), and sees how much memory they take.
"""

import math
from itertools import zip_longest

import numpy as np

from ...common.errors import REPORT, TapeFileError, said_by
from ...common.host_functions import HostFunction
from ...common.tree import LEAF, Structure, parts_of
from ...common.uninterrupted import from_handler
from ...interpreter.plan import Steps
from ...interpreter.planner import ITEMSIZE, Atom
from ...program.finish import Item, ReplayGuard, continuations
from ...program.trace import FAILS, GUARD, HOST, ROW, SHAPE, Entry, HostCall, HostOperand, ResultOf
from ...rules import BY_NAME
from ...rules.shapes import of_scipy
from ...tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, SCALAR, SCALAR_LEAF, TRACED, Meta, c_array, c_strides, meta_of
from ...tape.places import Place
from ...tape.store import RECORD_DTYPE
from .archive import AXES, CHARS, CODES, KINDS, LARGEST, Checked, LoadedTape, decoded, decoded_function, need, typed, unpacked
from .programs import Reader

#: The types in a header.
HEADER = {
    "format": str, "version": int, "rows": [str], "files": [str], "runs": [(int, int, int)], "inputs": [object], "wanted": [bool],
    "arguments": [(int, int, int)], "constants": [object], "entries": [(object, object, [int], bool, int, object)], "loops": [object],
    "outputs": [object], "structure": object,
}  # fmt: skip
_RESHAPE = BY_NAME["reshape"]
#: A float64 without axes that promotes as one of NumPy.
_STRONG = Meta((), (), "d", 8)


class Recorder:
    """A tape with values of at most `limit` bytes, as it is recorded.

    Attributes
    ----------
    metas : list of Meta
        Of each slot; None if nothing that is recorded so far gives a value there.
    nbytes : int
        Of records and values.
    """

    def __init__(self, data, limit, depth, from_bytes):
        self.header, self.arrays, members = unpacked(data, limit)
        header, table, numbers = typed(self.header, HEADER), members.pop("records"), members.pop("numbers")
        need(not members, "a member of an unknown kind")
        self.loops = Reader(header["loops"], self.arrays, limit, depth, from_bytes)
        self.limit, self.nbytes = limit - self.loops.nbytes, 0
        self.constants = [c if type(c) is float else decoded(c, self.arrays, 0) for c in header["constants"]]
        need(all(isinstance(c, (float, np.ndarray)) for c in self.constants), "a constant")
        self.records = self._records(table, numbers)
        self._take(self.records.nbytes)
        self.ops = self.records["op"].tolist()
        self.metas = [SCALAR if 0 < op < FIRST_ARRAY else None for op in self.ops]
        self.items, self.item_of, self.guards, self.known = [], {}, [], set()

    def tape(self):
        """The tape."""
        header, ops = self.header, self.ops
        inputs, leaves, elements = self._arguments()
        sources = {(file, line): _SourceLine(header["files"][file], line) for _, file, line in header["runs"]}
        slots = [slot for slot, op in enumerate(ops) if op == TRACED]
        need(len(slots) == len(header["entries"]), "entries that are not in the records")
        for slot, entry in zip(slots, header["entries"]):
            try:
                self._entry(slot, *entry)
            except Exception as error:
                if from_handler(error):
                    raise
                what = said_by(error).removesuffix(REPORT)
                name = entry[0].get("numpy", entry[0].get("tapegrad", "function")) if type(entry[0]) is dict else entry[0]
                raise TapeFileError(f"the entry {name} in slot {slot}: {what}") from error
        need(sum(continuations(i.entry, i.operands) for i in self.items) == ops.count(CONTINUES), "records of further operands")
        scalar = self.records["op"] < FIRST_ARRAY
        numbers = np.array([slot == 0 or meta is SCALAR for slot, meta in enumerate(self.metas)])
        need(all(numbers[self.records[name][scalar]].all() for name in "ab"), "a scalar instruction on an array")
        outputs = [self._output(found) for found in header["outputs"]]
        structure = None if header["structure"] is None and len(outputs) != 1 else _structure(header["structure"])
        need(structure is not None and structure.count == len(outputs), "the structure of its results")
        return LoadedTape(
            records=self.records, inputs=inputs, leaves=leaves, elements=elements, items=self.items, constants=self.constants,
            guards=self.guards, outputs=outputs, metas=self.metas, origins=list(range(len(ops))),
            code_runs=[(slot, sources[file, line]) for slot, file, line in header["runs"]],
            special=any(BY_NAME[name].calls_scipy for name in header["rows"]), wanted=tuple(header["wanted"]), structure=structure,
            nbytes_of_values=self.nbytes + self.loops.nbytes,
        )

    def _take(self, nbytes):
        self.nbytes += nbytes
        need(self.nbytes <= self.limit, f"its values take {self.nbytes} bytes; the limit, max_bytes, is {self.limit}")

    def _records(self, table, numbers):
        """Records with the opcodes of this table of rows: those of scalar instructions are whole."""
        count, rows = len(table), [BY_NAME[name] for name in self.header["rows"]]
        need(table.dtype.char == "l" and table.shape == (count, 3) and count and numbers.dtype.char == "d" and numbers.shape == (count,), "its records")
        need(all(row.scalar_instruction for row in rows), "a record of a row that is no scalar one")
        records, operands = np.zeros(count, RECORD_DTYPE), table[:, 1:]
        records["op"] = np.array([*(row.opcode for row in rows), *reversed(CODES)])[table[:, 0]]
        need((operands >= 0).all() and (operands < np.arange(count)[:, None].clip(1)).all(), "an operand that comes later")
        need(table[0, 0] == -1 and (table[1:, 0] != -1).all() and not operands[table[:, 0] < 0].any(), "a record")
        records["a"], records["b"] = operands.T
        leaf = records["op"] == SCALAR_LEAF
        records["value"][leaf], records["constant"][~leaf] = numbers[leaf], numbers[~leaf]
        return records

    def _arguments(self):
        """Descriptions of the arguments, slots of those that are read whole, and elements that are read by themselves."""
        inputs = [_meta(m) for m in self.header["inputs"]]
        leaves, elements, slots = [0] * len(inputs), [], [slot for _, _, slot in self.header["arguments"]]
        need(all(m is SCALAR or m.strides == c_strides(m.shape, m.itemsize) for m in inputs), "an argument that is not in C order")
        wanted = self.header["wanted"]
        need(len(wanted) == len(inputs) and all(m.char in "df" for m, one in zip(inputs, wanted) if one), "an argument that is no float is differentiated")
        need(len(set(slots)) == len(slots) and min(slots, default=1) > 0, "its arguments")
        for meta in inputs:
            self._take(meta.nbytes)
        for k, position, slot in self.header["arguments"]:
            need(0 <= k < len(inputs) and -1 <= position < inputs[k].size, f"element {position} of an argument")
            if position >= 0:
                need(self.ops[slot] == SCALAR_LEAF and inputs[k].char == "d", "an element that is no leaf")
                elements.append((k, position, slot))
            else:
                need(self.ops[slot] == ARRAY_LEAF and inputs[k] is not SCALAR and not leaves[k], "an array argument")
                leaves[k], self.metas[slot] = slot, inputs[k]
        need(self.ops.count(ARRAY_LEAF) == len(slots) - len(elements), "array arguments")
        return inputs, leaves, elements

    def _output(self, found):
        if type(found) is not int:
            return 0, decoded(found["constant"], self.arrays, math.inf)
        need(0 < found < len(self.metas) and self.metas[found] is not None, f"the output {found}")
        return found, self.metas[found]

    # -- entries ------------------------------------------------------------------------
    def _entry(self, slot, what, data, operands, differentiable, integer, result):
        """Record one behind those before it."""
        need(all(o and -len(self.constants) <= o < slot for o in operands), f"the operands {operands}")
        metas = [self.metas[o] if o > 0 else meta_of(self.constants[-1 - o]) for o in operands]
        need(None not in metas, f"the operands {operands}")
        operands, meta = tuple(operands), _meta(result)
        if type(what) is list:
            entry = self._guard(what, data, operands, *metas)
        elif type(what) is dict:
            need(not differentiable and not integer, "a derivative of a function that has none")
            entry = Entry(HOST, self._host(what, data, metas, meta), (), (), False, 0, meta)
        else:
            need(meta is SCALAR or meta.shape != () or meta.char != "d", "a scalar")
            entry = Entry(ROW, *self._row(what, data), (), differentiable, integer, meta)
            key = what, tuple(metas), entry.attrs, tuple(map(str, entry.attrs)), integer, meta, differentiable
            if key not in self.known:
                planned(entry.function, metas, dict(entry.attrs), integer, meta, self.limit, differentiable)
                self.known.add(key)
            if entry.function.index is not None:
                self._positions(entry.function, operands, metas, meta)
            if what == "loop_pull" and operands[4] < 0:
                # It goes back by kernels over what kernels have kept.
                dict(entry.attrs)["program"].resume(self.constants[-1 - operands[4]])
        need(all(op == CONTINUES for op in self.ops[slot - continuations(entry, operands) : slot]), "records of further operands")
        self.items.append(Item(slot, entry, operands, len(self.guards) - 1 if entry.kind == GUARD else -1))
        self.item_of[slot] = self.items[-1]
        if entry.kind != GUARD:
            self.metas[slot] = meta
            self._take(meta.nbytes)

    def _guard(self, what, data, operands, meta):
        (how, seen), (file, line) = typed(what, (str, str)), typed(data, (int, int))
        seen = bytes.fromhex(seen)
        need(operands[0] > 0, "a guard on a constant")
        if how in (SHAPE, FAILS):
            need(seen == (np.array(meta.shape, np.int64).tobytes() if how == SHAPE else b"\0"), "another shape was seen, or a failure")
        elif how == "bool":
            need(meta.size == 1 and seen in (b"\0", b"\1"), "the truth of an array")
        else:
            need(len(seen) == meta.nbytes, f"{len(seen)} bytes were seen")
        self.guards.append(ReplayGuard(operands[0], how, seen, Place(_SourceLine(self.header["files"][file], line), 0)))
        return Entry(GUARD, how, (), (), False, 0, None, seen)

    def _row(self, name, data):
        need(type(name) is str and name in BY_NAME, f"the row {name!r}, which is not known here")
        attrs = decoded(data, self.arrays, LARGEST)
        need(type(attrs) is dict and all(map(_is_attribute, attrs.values())), "attributes")
        if "program" in attrs:
            attrs["program"] = self.loops.loop(attrs["program"])
        return BY_NAME[name], tuple(attrs.items())

    def _host(self, what, data, metas, out):
        """A function without derivative: a replay compares what NumPy gives, but for plain calls of ufuncs, which it compiles."""
        layout, function = decoded(data, self.arrays, self.limit), decoded_function(what, self.arrays, self.limit)
        need(type(layout) is tuple and len(layout) == 2 and type(layout[0]) is tuple and type(layout[1]) is dict, "arguments")
        need(all(o < len(metas) for o in parts_of(layout, HostOperand)), "an operand of a function")
        host = HostCall(function, layout)
        if host.ufunc is not None:
            shape = np.broadcast_shapes(*(metas[k].shape for k in layout[0]))
            need(shape == out.shape, f"its shape is {shape}, not {out.shape}")
        else:
            host = HostCall(Checked.of(function), layout)
        while isinstance(function, ResultOf):
            function = function.function
        shapes = [part.shape if isinstance(part, np.ndarray) else metas[part].shape for part in parts_of(layout, (HostOperand, np.ndarray))]
        cells = max(_cells(function, layout, shapes), sum(map(math.prod, shapes)))
        # In between there may be a few arrays of eight bytes an element.
        need(32 * cells <= self.limit, f"it may make arrays of {cells} elements; raise max_bytes")
        return host

    def _positions(self, row, operands, metas, out):
        """Flat positions must be in range; those that are computed are looked at when they are."""
        # Of what is added or written they are in the result, else in the operand.
        limit = out.size if row.adds or row.effect == "write" else metas[0].size
        index, once = operands[row.index], row.effect == "write" and not row.adds
        if index < 0:
            positions = self.constants[-1 - index]
            need(positions.flags.c_contiguous, "positions")
            need(not positions.size or positions.min() >= 0 and positions.max() < limit, f"positions outside {limit} elements")
            need(not once or len(np.unique(positions)) == positions.size, "an element assigned to twice")
            return
        item = self.item_of.get(index)
        while item is not None and item.entry.function is _RESHAPE:
            item = self.item_of.get(item.operands[0])
        need(item is not None and item.entry.kind == HOST and isinstance(item.entry.function.function, Checked), "positions of no known origin")
        item.entry.function.function.keep_below(limit, once)


class _SourceLine:
    """Stands for the code object of one line of a source file."""

    def __init__(self, filename, line):
        self.co_filename, self.co_firstlineno = filename, line

    def co_lines(self):
        """As of a code object."""
        return ()


def _is_attribute(thing):
    """Whether this is what rows have: a number, a text, None, or a tuple of numbers."""
    numbers = type(thing) is tuple and all(type(part) in (int, float) for part in thing)
    return numbers or thing is None or type(thing) in (bool, int, float, str)


def _meta(found):
    if found is None:
        return SCALAR
    char, shape, order = typed(found, (str, [int], [int]))
    need(len(char) == 1 and char in CHARS and len(shape) <= AXES and min(shape, default=0) >= 0, f"the dtype {char!r}")
    need(math.prod(shape) < LARGEST, "an array that large")
    if not order:
        return c_array(shape, char)
    need(sorted(order) == list(range(len(shape))), f"the order of axes {order!r}")
    whole = c_array([shape[k] for k in order], char)
    # A description only: no memory is taken.
    return meta_of(np.lib.stride_tricks.as_strided(np.zeros((), char), whole.shape, whole.strides).transpose(np.argsort(order)))


def _structure(thing):
    if thing is None:
        return LEAF
    kind, keys, parts = typed(thing, (str, [object], [object]))
    need(kind in KINDS and all(type(k) in (str, int, type(None)) for k in keys) and len(keys) == len(parts), "the structure of its results")
    return Structure(KINDS[kind], tuple(keys), tuple(map(_structure, parts)))


def _cells(function, layout, shapes):
    """Elements of the largest array that a function without derivative makes of arrays of these shapes."""
    name, data = (function.name, function.data) if isinstance(function, HostFunction) else ("", ())
    need(name or not any(type(part) is str for part in layout[0][:2]), "a text in place of an array")
    if name == "taken":
        shape, axis, _ = data
        lines = 1 if axis is None else _size(shape) // max(1, shape[axis])
        return max(_size(shape), lines * math.prod(shapes[0]))
    if name in ("along_axis", "columns"):
        order = shapes[0] if name == "along_axis" else (*shapes[0][:-1], 1, *shapes[0][-1:])
        _size(data[0])
        return math.prod(max(pair) for pair in zip_longest(reversed(data[0]), reversed(order), fillvalue=1))
    if name == "cast":
        need(type(data[0]) is str and len(data[0]) <= 3 and np.dtype(data[0]).char in CHARS, f"the dtype {data[0]!r}")
    if name == "ranked":
        shapes = [(math.prod(shapes[0]) // data[1],), np.shape(data[2])]
    else:
        need(next(parts_of(data, np.ndarray), None) is None, "an array among the data of a function")
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        # It does not broadcast its arguments, or raises.
        return 0


def _size(shape):
    need(type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape), f"the shape {shape!r}")
    return math.prod(shape)


# ---- rows ---------------------------------------------------------------------------------


class AbstractPlanner(Steps):
    """A planner whose programs are not run, and take at most `limit` bytes in between."""

    def __init__(self, metas, out, limit):
        super().__init__(metas, out)
        self.limit = limit

    def temporary(self, shape, char, zero=False):
        atom = super().temporary(shape, char, zero)
        self.limit -= math.prod(shape) * ITEMSIZE[char]
        need(self.limit >= 0, f"it takes an array of shape {tuple(shape)} in between, more than the limit; raise max_bytes")
        return atom

    def register(self):
        # There are as many as it takes.
        self.temporaries += 1
        return self.temporaries - 1

    def call(self, *_):
        """A step that is dropped; what it is told may be compiled first."""

    def values(self):
        """All operands, of which the program of a value reads each."""
        return [self.sym(Atom(self.register(), 0, m.shape, m.strides, m.char)) for m in self.metas]


def planned(row, metas, attrs, integer, out, limit, differentiable):
    """Plan the value and the derivative of a row that gives `out`.

    Parameters
    ----------
    row : Row
    metas : list of Meta
        Of the operands.
    attrs : dict
    integer : int
        The dynamic attribute.
    out : Meta
        What the file says of the result.
    limit : int
        Bytes that either may take in between.
    differentiable : bool

    Raises
    ------
    Exception
        Of any class, if the row cannot take such operands, or gives something else.
    """
    count = row.arity + len([k for k in row.constants if k >= row.arity]) if row.arity >= 0 else None
    need(len(metas) == count if count is not None else len(metas) > 0, f"it has {len(metas)} operands")
    need(row.dynamic or not integer, "an integer attribute")
    attrs = row.keywords(attrs, integer)
    # A number that is an operand may have been one of NumPy's, which is not weak.
    strong = [_STRONG if m is SCALAR else m for m in metas]
    ways = {row.shape(*metas, **attrs), row.shape(*strong, **attrs)}
    if of_scipy(row) and any(m is not SCALAR and np.can_cast(m.char, "f") for m in metas):
        # Some have loops for float32 that not every such operand takes.
        ways |= {(shape, char) for shape, _ in ways for char in "df"}
    need((out.shape, out.char) in ways, f"it gives {' or '.join(f'{char}{list(shape)}' for shape, char in ways)}, not {out}")
    if row.elementwise:
        return
    plan = AbstractPlanner(metas, out, limit)
    row.computed(plan.values(), plan.operand(-1), attrs)
    if differentiable and out.char in "df":
        plan, slots = AbstractPlanner(metas, out, limit), row.slots(len(metas))
        plan.deliver(plan.contributions(row, [k for k in slots if metas[k].char in "df" and k not in row.refused], attrs), [metas[k] for k in slots])
