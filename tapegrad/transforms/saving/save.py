"""Finished tapes in files: plain arrays in an uncompressed ``.npz``, and nothing that could be executed.

======================  ==========================================================================
member                  what
======================  ==========================================================================
``checksum``            SHA-256 of all others
``header``              JSON as bytes: version, names of the rows used, entries, constants, guards, outputs (`_header`)
``records``             the scalar part of every record: row (its number in the header), operands
``numbers``             value and inline constant of every record
``seen``                what guards saw, one after the other
``array_0`` ...         constants; the bytes of files of tapes that loops hold
======================  ==========================================================================

Rows are named, so a table with other rows, or in another order, is no danger.
Source places are kept as text.  Descriptions of results are kept too, and are compared with what the rows
give (`transforms.saving.validate`); what they take together is limited.
"""

from __future__ import annotations

import json
import math
import os
from types import SimpleNamespace

import numpy as np

from ...common.errors import TapeFileError, said_by
from ...common.registry import registry
from ...common.tree import LEAF, Structure
from ...program.finish import FinishedTape, Guard, Item
from ...program.trace import GUARD, HOST, ROW, Entry
from ...rules import BY_NAME, ROWS
from ...rules.table import FIRST_ROW
from ...tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, SCALAR_LEAF, TRACED
from ...tape.meta import SCALAR, axes_in_memory, c_array, c_strides, meta_of
from ...tape.places import Place
from ...tape.store import RECORD_DTYPE
from .archive import AXES, CHARS, LARGEST, MAX_BYTES, need, packed, unpacked
from .literals import decoded, decoded_function, encoded, encoded_function
from .loaded import LoadedHost, LoadedTape
from .programs import Reader, Writer

FORMAT, VERSION = "tapegrad tape", 5
#: Codes of records that are no row.
_CODES = {0: -1, SCALAR_LEAF: -2, ARRAY_LEAF: -3, TRACED: -4, CONTINUES: -5}
_KINDS = {kind.__name__: kind for kind in (dict, list, tuple, np.ndarray, complex)}
#: Lines of a source file, and letters of a text, are fewer.
LINES, LETTERS = 1 << 31, 4096
#: Bytes, at most about, of the Python objects that a byte of JSON stands for.
OBJECTS = 32


# ---- writing ---------------------------------------------------------------------------


def to_bytes(tape, depth=0):
    """`tape` as the bytes of a file; `depth`, of how many loops it is inside.

    Raises
    ------
    TapeFileError
        If something on the tape cannot be written; names the instruction and its line.
    """
    arrays = []
    header = _header(tape, arrays, Writer(arrays, depth, to_bytes))
    records = np.zeros((len(tape.records), 3), np.int64)
    names = {}
    records[:, 0] = [
        _CODES[op] if op in _CODES else names.setdefault(ROWS[op - FIRST_ROW].name, len(names)) for op in tape.records["op"].tolist()
    ]
    records[:, 1], records[:, 2] = tape.records["a"], tape.records["b"]
    header["rows"] = list(names)
    header["files"], header["runs"] = _places(tape)
    numbers = np.stack([tape.records["value"], tape.records["constant"]], axis=1)
    traced = np.isin(records[:, 0], [-4, -5])
    records[traced, 1:3] = 0
    numbers[traced] = 0.0
    members = {
        "header": np.frombuffer(json.dumps(header).encode(), np.uint8), "records": records, "numbers": numbers,
        "seen": np.frombuffer(b"".join(g.seen for g in tape.guards), np.uint8),
    }
    return packed(members | {f"array_{k}": a for k, a in enumerate(arrays)})


def save(tape, path):
    """Write `tape` to a file, as a whole or not at all; see `FinishedTape.save`."""
    write(to_bytes(tape), path)


def write(data, path):
    """Make a file of bytes, as a whole or not at all; or write them to one that is open."""
    if hasattr(path, "write"):
        path.write(data)
        return
    beside = f"{os.fspath(path)}.{os.getpid()}.part"
    try:
        with open(beside, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def _header(tape, arrays, programs):
    items = []
    for item in tape.items:
        try:
            items.append(_encoded_item(item, arrays, programs))
        except TapeFileError as error:
            raise TapeFileError(
                f"the tape cannot be saved: {item.entry.name} in slot {item.slot}, recorded at "
                f"{tape.place(item.slot)}: {said_by(error)}"
            ) from None
    constants = [c if type(c) is float else encoded(c, arrays) for c in tape.constants]
    outputs = []
    for slot, found in tape.outputs:
        try:
            outputs.append(slot if slot else {"constant": encoded(found, arrays)})
        except TapeFileError as error:
            raise TapeFileError(f"the tape cannot be saved: the function returns something constant: {said_by(error)}") from None
    return {
        "format": FORMAT, "version": VERSION, "items": items, "programs": programs.written, "constants": constants, "outputs": outputs,
        "structure": None if tape.structure is None else _encoded_structure(tape.structure),
        "inputs": [_encoded_meta(m) for m in tape.inputs], "leaves": list(tape.leaves),
        "elements": [list(map(int, e)) for e in tape.elements], "wanted": list(map(bool, tape.wanted)),
        "guards": [[len(g.seen), g.place.filename, g.place.line] for g in tape.guards],
    }


def _encoded_item(item, arrays, programs):
    entry = item.entry
    if entry.kind == GUARD:
        return [item.slot, GUARD, entry.function, list(item.operands)]
    if entry.kind == ROW:
        if BY_NAME.get(entry.function.name) is not entry.function:
            raise TapeFileError(
                "the derivative is by the rule of a custom primitive, which is not written to files; save the tape of the value, "
                "tg.jit(f).tape(...)"
            )
        attrs = dict(_plain(entry.attrs))
        if "program" in attrs:
            attrs["program"] = programs.number(attrs["program"])
        what = [entry.function.name, encoded(attrs, arrays)]
    else:
        args, kwargs = entry.function.layout
        what = [encoded_function(entry.function.function, arrays), encoded((args, kwargs), arrays)]
    return [
        item.slot, entry.kind, *what, list(item.operands), bool(entry.differentiable), int(entry.integer),
        _encoded_meta(entry.meta),
    ]


def _plain(attrs):
    """Attributes with Python's numbers instead of NumPy's."""

    def plain(thing):
        if isinstance(thing, np.generic):
            return thing.item()
        return tuple(plain(part) for part in thing) if isinstance(thing, (tuple, list)) else thing

    return [(name, plain(value)) for name, value in attrs]


def _encoded_meta(meta):
    """Dtype and extents; behind them, if they are not in that order in memory, the axes from the longest stride on."""
    if meta is SCALAR:
        return None
    order = axes_in_memory(meta)
    return [meta.char, *meta.shape, *([order] if order != sorted(order) else [])]


def _encoded_structure(structure):
    if structure.kind is None:
        return None
    if structure.kind not in _KINDS.values() or not all(type(k) in (str, int, type(None)) for k in structure.keys):
        raise TapeFileError(
            f"the tape cannot be saved: the function returns {structure}, whose class is not written to files; return "
            "dicts, lists or tuples"
        )
    return [structure.kind.__name__, list(structure.keys), [_encoded_structure(p) for p in structure.parts]]


def _places(tape):
    """File names, and where the place changes: [slot, file, line]."""
    files, runs, known = {}, [], {}
    for slot in range(1, len(tape.records)):
        place = tape.place(slot)
        where = known.get((place.code, place.offset))
        if where is None:
            where = known[place.code, place.offset] = [files.setdefault(place.filename, len(files)), place.line]
        if not runs or runs[-1][1:] != where:
            runs.append([slot, *where])
    return list(files), runs


# ---- reading ---------------------------------------------------------------------------


def load_tape(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> FinishedTape:
    """Load a tape that `FinishedTape.save` has written.

    Everything in the file is checked before it is used; nothing in it is executed, and nothing is compiled.

    Parameters
    ----------
    path : str or path-like
    max_bytes : int
        The most bytes that the file may have, that the values of its tape may take, and that an operation may take besides
        its result.

    Returns
    -------
    FinishedTape
        Call it, or its `value_and_grad`, with arrays like those it was recorded with.

    Raises
    ------
    TapeFileError
        If the file is no tape, has been damaged, or is larger.

    Examples
    --------
    >>> import os, tempfile, numpy as np, tapegrad as tg
    >>> g = tg.value_and_grad(lambda x: np.sum(x ** 2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "f.npz")
    ...     g.tape(np.array([1.0, 2.0])).save(path)
    ...     tape = tg.load_tape(path)
    >>> tape.value_and_grad(np.array([3.0, 4.0]))
    (25.0, array([6., 8.]))
    """
    return from_bytes(read(path, max_bytes, "this is no tape that can be loaded: "), max_bytes)


def read(file, max_bytes, prefix=""):
    """The bytes of a file, at most so many."""
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            return read(opened, max_bytes, prefix)
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    if size > max_bytes:
        raise TapeFileError(f"{prefix}its file has {size} bytes; the limit, max_bytes, is {max_bytes}")
    file.seek(start)
    return file.read()


def from_bytes(data, max_bytes=MAX_BYTES, depth=0):
    """The tape of the bytes of a file; see `load_tape`, and `to_bytes`."""
    from .validate import Validation

    try:
        tape, programs = _decoded(data, max_bytes, depth)
        Validation(tape, max_bytes - programs.nbytes).run()
        tape.nbytes_of_values += programs.nbytes
        return tape
    except Exception as error:
        what = said_by(error) if isinstance(error, TapeFileError) else f"{type(error).__name__}: {said_by(error)}"
        raise TapeFileError(f"this is no tape that can be loaded: {what}") from error


class _Source:
    """Stands for the code object of one line of a source file."""

    def __init__(self, filename, line):
        self.co_filename, self.co_firstlineno = filename, line

    def co_lines(self):
        """As of a code object."""
        return ()


def _opened(data, max_bytes):
    """Members by name, and the header."""
    members = unpacked(data)
    need("header" in members, "it does not say that it is one")
    text = members["header"].tobytes()
    need(OBJECTS * len(text) <= max_bytes, f"its header has {len(text)} bytes, which become up to {OBJECTS} times as many; raise max_bytes")
    header = json.loads(text.decode())
    need(type(header) is dict and header.get("format") == FORMAT, "it does not say that it is one")
    version = header.get("version", 2)
    need(version == VERSION, f"it is of version {version!r} of the format, this tapegrad reads version {VERSION}; save the tape again")
    return members, header


def _decoded(data, max_bytes, depth):
    """The tape, with every number of the type it must have, and the loops that it has."""
    members, header = _opened(data, max_bytes)
    arrays = []
    while f"array_{len(arrays)}" in members:
        arrays.append(members[f"array_{len(arrays)}"])
    need(set(members) == {"header", "records", "numbers", "seen", *(f"array_{k}" for k in range(len(arrays)))}, "its members")
    table, numbers, seen = members["records"], members["numbers"], members["seen"]
    count = len(table)
    need(table.dtype.char == "l" and table.shape == (count, 3) and count > 0, "its records")
    need(numbers.dtype.char == "d" and numbers.shape == (count, 2) and seen.dtype.char == "B" and seen.ndim == 1, "its records")
    runs = _runs(header, count)
    records = _records(header, table, numbers)
    inputs = [_meta(m) for m in header["inputs"]]
    need(all(list(m.strides) == list(c_strides(m.shape, m.itemsize)) for m in inputs), "an input that is not in C order")
    leaves = [_int(s, count) for s in header["leaves"]]
    metas = [None] * count
    for slot in np.flatnonzero((records["op"] < FIRST_ARRAY) & (records["op"] != 0)).tolist():
        metas[slot] = SCALAR
    need(len(leaves) == len(inputs) == len(header["wanted"]), "its inputs")
    for k, slot in enumerate(leaves):
        if slot:
            metas[slot] = inputs[k]
    programs = Reader(header.get("programs", []), arrays, max_bytes, depth, from_bytes)
    items, guards = _items(header, seen, count, arrays, max_bytes, programs)
    for item in items:
        if item.entry.kind != GUARD:
            metas[item.slot] = item.entry.meta
    outputs = []
    for found in header["outputs"]:
        if type(found) is int:
            outputs.append((_int(found, count), metas[found]))
        else:
            outputs.append((0, decoded(found["constant"], arrays, 1 << 62)))
    tape = LoadedTape(
        records=records, inputs=inputs, leaves=leaves, elements=[tuple(_int(w) for w in e) for e in header["elements"]],
        items=items, constants=[_constant(c, arrays) for c in header["constants"]], guards=guards, outputs=outputs,
        metas=metas, origins=list(range(count)), code_runs=runs,
        special=any(BY_NAME[name].calls_scipy for name in header["rows"]), wanted=tuple(_bool(w) for w in header["wanted"]),
    )
    tape.structure = None if header["structure"] is None and len(outputs) != 1 else _structure(header["structure"])
    return tape, programs


def _place(filename, line):
    """A place in a source file."""
    need(type(line) is int and 0 <= line < LINES, "a line")
    return Place(_Source(_text(filename), line), 0)


def _runs(header, count):
    """The place of each run of slots."""
    files, known, runs = list(map(_text, header["files"])), {}, []
    for slot, file, line in header["runs"]:
        if (file, line) not in known:
            known[file, line] = _place(files[_int(file, len(files))], line).code
        runs.append((_int(slot, count), known[file, line]))
    need(all(a < b for (a, _), (b, _) in zip(runs, runs[1:])), "its places")
    return runs


def _items(header, seen, count, arrays, limit, programs):
    """Entries and guards, in order."""
    items, guards = [], []
    at, sizes = 0, iter(header["guards"])
    for one in header["items"]:
        slot, kind = _int(one[0], count), one[1]
        if kind == GUARD:
            _, _, how, operands = one
            length, filename, line = next(sizes)
            what = seen[at : at + _int(length, len(seen) - at + 1)].tobytes()
            at += length
            entry = Entry(GUARD, _text(how), (), (), False, 0, None, what)
            item = Item(slot, entry, _operands(operands), len(guards))
            guards.append(Guard(item.operands[0], how, what, _place(filename, line)))
        else:
            item = _item(one, slot, arrays, limit, programs)
        items.append(item)
    need(at == len(seen) and next(sizes, None) is None, "its guards")
    return items, guards


def _records(header, table, numbers):
    """Records with the opcodes of this table of rows."""
    records = np.zeros(len(table), RECORD_DTYPE)
    rows = header["rows"]
    need(type(rows) is list and all(type(name) is str and name in BY_NAME for name in rows), "it uses rows that are not known here")
    opcodes = {code: op for op, code in _CODES.items()} | {k: BY_NAME[name].opcode for k, name in enumerate(rows)}
    codes = table[:, 0].tolist()
    need(all(code in opcodes for code in codes), "its rows")
    need((table[:, 1:3] >= 0).all() and (table[:, 1:3] < np.arange(len(table))[:, None].clip(1)).all(), "an operand that comes later")
    records["op"] = [opcodes[code] for code in codes]
    records["a"], records["b"] = table[:, 1], table[:, 2]
    records["value"], records["constant"] = numbers[:, 0], numbers[:, 1]
    return records


def _item(one, slot, arrays, limit, programs):
    """An entry; numbers in the arguments of a function are at most `limit`."""
    _, kind, function, data, operands, differentiable, integer, meta = one
    need(kind in (ROW, HOST), "a kind of entry")
    if kind == ROW:
        need(type(function) is str and function in BY_NAME, f"the row {function!r}, which is not known here")
        function = BY_NAME[function]
        attrs = decoded(data, arrays, LARGEST)
        need(type(attrs) is dict and all(map(_is_attribute, attrs.values())), "attributes")
        if "program" in attrs:
            attrs["program"] = programs.loop(attrs["program"])
        attrs = tuple(attrs.items())
    else:
        layout = decoded(data, arrays, limit)
        need(type(layout) is tuple and len(layout) == 2 and type(layout[0]) is tuple and type(layout[1]) is dict, "arguments")
        function, attrs = LoadedHost(decoded_function(function, arrays, limit), layout), ()
    entry = Entry(kind, function, attrs, (), _bool(differentiable), _int(integer, least=1 - LARGEST), _meta(meta))
    return Item(slot, entry, _operands(operands))


def _is_attribute(thing):
    """Whether this is what rows have: a number, a text, None, or a tuple of numbers."""
    numbers = type(thing) is tuple and all(type(part) in (int, float) for part in thing)
    return numbers or thing is None or type(thing) in (bool, int, float, str)


def _int(thing, stop=LARGEST, least=0):
    need(type(thing) is int and least <= thing < stop, f"the number {thing!r}")
    return thing


def _bool(thing):
    need(type(thing) is bool, f"{thing!r} instead of a bool")
    return thing


def _text(thing):
    need(type(thing) is str and len(thing) < LETTERS, "a text")
    return thing


def _operands(operands):
    need(type(operands) is list, "operands")
    return tuple(_int(o, least=1 - LARGEST) for o in operands)


def _meta(found):
    if found is None:
        return SCALAR
    char, *shape = found
    order = shape.pop() if shape and type(shape[-1]) is list else list(range(len(shape)))
    need(all(type(k) is int for k in order) and sorted(order) == list(range(len(shape))), f"the order of axes {order!r}")
    need(type(char) is str and len(char) == 1 and char in CHARS and len(shape) <= AXES, f"the dtype {char!r}")
    shape = tuple(_int(n) for n in shape)
    need(math.prod(shape) < LARGEST, "an array that large")
    if order == sorted(order):
        return c_array(shape, char)
    # A description only: no memory is taken.
    steps = dict(zip(order, c_strides([shape[k] for k in order], np.dtype(char).itemsize)))
    return meta_of(np.lib.stride_tricks.as_strided(np.zeros((), char), shape, [steps[k] for k in range(len(shape))]))


def _constant(thing, arrays):
    if type(thing) is float:
        return thing
    found = decoded(thing, arrays, 0)
    need(type(found) is np.ndarray, "a constant")
    return found


def _structure(thing):
    if thing is None:
        return LEAF
    kind, keys, parts = thing
    need(type(kind) is str and kind in _KINDS and type(keys) is list and type(parts) is list, "the structure of its results")
    need(all(type(k) in (str, int, type(None)) for k in keys) and len(keys) == len(parts), "the structure of its results")
    return Structure(_KINDS[kind], tuple(keys), tuple(_structure(p) for p in parts))


registry.files = SimpleNamespace(save=save, to_bytes=to_bytes, from_bytes=from_bytes)
