"""Finished tapes in files, and parameters and other plain data: plain arrays in an uncompressed ``.npz``, and nothing that could be executed.

======================  ==========================================================================
member                  what
======================  ==========================================================================
``checksum``            SHA-256 of all others
``header``              JSON as bytes (`_header`; `transforms.saving.recorder.HEADER` has the types)
``records``             row (its number in the header, or `archive.CODES`) and operands of every record
``numbers``             the inline constant of every scalar instruction, the value of every leaf that is a constant
``array_0`` ...         constants; the bytes of files of tapes that loops hold
======================  ==========================================================================

Rows are named, so a table with other rows, or in another order, is no danger.  Source places are kept as text.

A file is *recorded*: what is read goes through the rules as in any recording, instruction by instruction, and each row says what it
gives or refuses its operands (`transforms.saving.recorder`).  It is recorded from descriptions of the operands, without values.  To run the function at
the recorded point instead would need the data of that point in the file; it would take the time and memory that a file asks for,
loops that never end included; and the recording's own passes are compiled code, which nothing that is merely loaded should wait for.
What runs afterwards is an ordinary tape.  Transformations apply its instructions once more (`program.applied`), and record values then.
"""

from __future__ import annotations

import math
import os
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from ...array.differentiable import Differentiable
from ...array.tensor import Parameter, Tensor, rebuilt
from ...common.errors import TapeFileError, reason, said_by
from ...common.registry import registry
from ...common.tree import flatten, unflatten
from ...program.finish import FinishedTape
from ...program.trace import GUARD, ROW
from ...rules import BY_NAME, ROWS
from ...rules.table import FIRST_ROW
from ...tape.layout import SCALAR, SCALAR_LEAF, axes_in_memory
from .archive import CODES, KINDS, MAX_BYTES, decoded, encoded, encoded_function, need, packed, unpacked
from .programs import LoopWriter

# ---- writing ---------------------------------------------------------------------------


def to_bytes(tape, depth=0):
    """`tape` as the bytes of a file; `depth`, of how many loops it is inside.

    Raises
    ------
    TapeFileError
        If something on the tape cannot be written; names the instruction and its line.
    """
    arrays, names, codes = [], {}, {op: -1 - k for k, op in enumerate(CODES)}
    header = _header(tape, arrays, LoopWriter(arrays, depth, to_bytes))
    ops = tape.records["op"]
    records = np.zeros((len(ops), 3), np.int64)
    records[:, 0] = [codes[op] if op in codes else names.setdefault(ROWS[op - FIRST_ROW].name, len(names)) for op in ops.tolist()]
    scalar, fixed = records[:, 0] >= 0, ops == SCALAR_LEAF
    fixed[[slot for _, _, slot in tape.elements]] = False
    records[scalar, 1], records[scalar, 2] = tape.records["a"][scalar], tape.records["b"][scalar]
    numbers = np.where(scalar, tape.records["constant"], np.where(fixed, tape.records["value"], 0.0))
    return packed(header | {"rows": list(names)}, arrays, records=records, numbers=numbers)


def write(data, path):
    """Make a file of bytes, as a whole or not at all; or write them to one that is open."""
    if hasattr(path, "write"):
        path.write(data)
        return
    beside = f"{os.fspath(path)}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        with open(beside, "wb") as file:
            file.write(data)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def _header(tape, arrays, loops):
    files, entries, outputs = {}, [], []
    runs = _places(tape, files)
    for item in tape.items:
        try:
            entries.append(_encoded_item(tape, item, arrays, loops, files))
        except TapeFileError as error:
            raise TapeFileError(
                f"the tape cannot be saved: {item.entry.name} in slot {item.slot}, recorded at "
                f"{tape.place(item.slot)}: {said_by(error)}"
            ) from None
    constants = [encoded(c, arrays) for c in tape.constants]
    for slot, found in tape.outputs:
        try:
            outputs.append(slot if slot else {"constant": encoded(found, arrays)})
        except TapeFileError as error:
            raise TapeFileError(f"the tape cannot be saved: the function returns something constant: {said_by(error)}") from None
    return {
        "entries": entries, "loops": loops.written, "constants": constants, "outputs": outputs,
        "structure": None if tape.structure is None else _encoded_structure(tape.structure),
        "inputs": [_encoded_meta(m) for m in tape.inputs], "wanted": list(map(bool, tape.wanted)),
        "arguments": [[k, -1, slot] for k, slot in enumerate(tape.leaves) if slot] + [list(map(int, e)) for e in tape.elements],
        "files": list(files), "runs": runs,
    }


def _encoded_item(tape, item, arrays, loops, files):
    """What is done, with what, on which operands; whether a derivative passes, the dynamic attribute, the result."""
    entry = item.entry
    if entry.kind == GUARD:
        place = tape.guards[item.number].place
        what, data = [entry.function, entry.seen.hex()], [files.setdefault(place.filename, len(files)), place.line]
    elif entry.kind == ROW:
        if BY_NAME.get(entry.function.name) is not entry.function:
            raise TapeFileError(
                "the derivative is by the rule of a custom primitive, which is not written to files; save the tape of the value, "
                "tg.jit(f).tape(...)"
            )
        attrs = _plain(dict(entry.attrs))
        if "program" in attrs:
            attrs["program"] = loops.number(attrs["program"])
        what, data = entry.function.name, encoded(attrs, arrays)
    else:
        what, data = encoded_function(entry.function.function, arrays), encoded(entry.function.layout, arrays)
    return [what, data, list(item.operands), bool(entry.differentiable), int(entry.integer), entry.meta and _encoded_meta(entry.meta)]


def _plain(thing):
    """An attribute, or a dict of them, with Python's numbers instead of NumPy's."""
    if isinstance(thing, dict):
        return {name: _plain(value) for name, value in thing.items()}
    if isinstance(thing, (tuple, list)):
        return tuple(map(_plain, thing))
    return thing.item() if isinstance(thing, np.generic) else thing


def _encoded_meta(meta):
    """Dtype, extents, and the axes from the longest stride on, if they are not in that order in memory."""
    if meta is SCALAR:
        return None
    order = axes_in_memory(meta)
    return [meta.char, list(meta.shape), order if order != sorted(order) else []]


def _encoded_structure(structure):
    if structure.kind is None:
        return None
    if structure.kind not in KINDS.values() or not all(type(k) in (str, int, type(None)) for k in structure.keys):
        raise TapeFileError(
            f"the tape cannot be saved: the function returns {structure}, whose class is not written to files; return "
            "dicts, lists or tuples"
        )
    return [structure.kind.__name__, list(structure.keys), [_encoded_structure(p) for p in structure.parts]]


def _places(tape, files):
    """Where the place changes: [slot, number of the file in `files`, line]."""
    runs, known = [], {}
    for slot in range(1, len(tape.records)):
        place = tape.place(slot)
        where = known.get((place.f_code, place.f_lasti))
        if where is None:
            where = known[place.f_code, place.f_lasti] = [files.setdefault(place.filename, len(files)), place.line]
        if not runs or runs[-1][1:] != where:
            runs.append([slot, *where])
    return runs


# ---- reading ---------------------------------------------------------------------------


def load_tape(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> FinishedTape:
    """Load a tape that `FinishedTape.save` has written.

    The tape is recorded again from the file's description of each instruction, without values.  Nothing in the file is executed, and
    nothing is compiled.

    Parameters
    ----------
    path : str or path-like
    max_bytes : int
        Limit, in bytes, on the size of the file, on the values of its tape, and on what an operation takes besides
        its result.

    Returns
    -------
    FinishedTape
        Call it, or its `value_and_grad`, with arrays like those it was recorded with; or give it to any transformation.

    Raises
    ------
    TapeFileError
        If the file is not a tape, is damaged, or is larger.

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
    >>> tg.hessian(tape)(np.array([3.0, 4.0]))
    array([[2., 0.],
           [0., 2.]])
    """
    return from_bytes(read(path, max_bytes, "this is not a tape that can be loaded: "), max_bytes)


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
    from .recorder import Recorder

    with _refusing("this is not a tape that can be loaded"):
        return Recorder(data, max_bytes, depth, from_bytes).tape()


@contextmanager
def _refusing(prefix):
    try:
        yield
    except Exception as error:
        what = said_by(error) if isinstance(error, TapeFileError) else reason(error)
        raise TapeFileError(f"{prefix}: {what}") from error


registry.files = SimpleNamespace(write=write, to_bytes=to_bytes, from_bytes=from_bytes)


# ---- parameters and other plain data, in the same format -----------------------------------

_DATA, _KINDS = ("tapegrad data", 1), {"Tensor": Tensor, "Parameter": Parameter}


def save(obj: Any, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write numbers, strings, arrays, tensors, and lists, tuples and dicts of them to a file.

    Parameters
    ----------
    obj : object
        For example the `state_dict` of a model, an optimiser or a schedule.
    f : str, path-like or file
        The file at a path is written as a whole or not at all.

    Returns
    -------
    None

    Raises
    ------
    TapeFileError
        For any other object; for a model, save its ``state_dict()``.

    Examples
    --------
    >>> import io, tapegrad as tg
    >>> file = io.BytesIO()
    >>> tg.save({"weight": tg.Parameter([1.0, 2.0]), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> tg.load(file)["epoch"]
    3
    """
    leaves, structure = flatten(obj)
    kinds = [[type(leaf).__name__, leaf.requires_grad] if isinstance(leaf, Differentiable) else isinstance(leaf, np.generic) or None for leaf in leaves]
    arrays: list[Any] = []
    values = [np.asarray(leaf.detach()) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    write(packed({"data": encoded(unflatten(structure, values), arrays), "kinds": kinds}, arrays, _DATA), f)


def load(f: str | os.PathLike[str] | BinaryIO, max_bytes: int = MAX_BYTES) -> Any:
    """Read a file that `save` has written. Nothing in the file is executed.

    Parameters
    ----------
    f : str, path-like or file
    max_bytes : int
        Largest size of the file, in bytes.

    Returns
    -------
    object
        Tensors are leaves, which require a gradient if the saved ones did.

    Raises
    ------
    TapeFileError
        If `save` did not write the file, or it is damaged or larger.

    Examples
    --------
    >>> import os, tempfile, tapegrad as tg
    >>> layer, other = tg.nn.Linear(3, 2), tg.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "layer.npz")
    ...     tg.save(layer.state_dict(), path)
    ...     _ = other.load_state_dict(tg.load(path))
    >>> bool((other.weight == layer.weight).all())
    True
    """
    with _refusing("this file was not written by tg.save"):
        header, arrays, others = unpacked(read(f, max_bytes), form=_DATA)
        leaves, structure = flatten(decoded(header["data"], list(map(np.array, arrays)), math.inf))
        kinds = header["kinds"]
        need(len(kinds) == len(leaves) and not others, "its tensors")
        return unflatten(structure, [_made(leaf, kind) for leaf, kind in zip(leaves, kinds)])


def _made(leaf, kind):
    if kind is None or kind is True:
        return leaf[()] if kind else leaf  # a number of NumPy's, or as it is
    need(isinstance(leaf, np.ndarray) and kind[0] in _KINDS and type(kind[1]) is bool, "a tensor of an unknown kind")
    value = leaf if leaf.shape or leaf.dtype.char != "d" else float(leaf)
    return rebuilt(_KINDS[kind[0]], value, kind[1], None)
