"""How many bytes a tape takes, counted before they are taken.

A saved tape *declares* one number: the bytes of its file, of the Python objects that
describe its instructions, and of one replay with its gradient.  Whoever loads it is
asked for no more than a small multiple of that, which is shown step by step:

=======================  =================================================================
`of_file`                the members, before any array is copied
`of_text`                what the header in JSON becomes, from a count of its brackets and
                         commas, before it is parsed
`of_values`              the values of one replay, before any is allocated
`check_host`             what a NumPy function may ask for in between, by the shapes it is given
`of_workspace`           buffers of the programs and of adjoints, known when the tape is planned
=======================  =================================================================

Machine code is not counted: it belongs to the process, is shared by all tapes, and
grows with the kinds of instructions, not with arrays.
"""

from __future__ import annotations

import math

import numpy as np

from ...common.errors import TapeFileError
from ...common.host_functions import HostFunction
from ...interpreter import program as P
from ...program.pool import Pool
from ...program.trace import GUARD, Operand, ResultOf, parts_of
from ...tape.meta import SCALAR
from .archive import CHARS
from .shapes import require

#: More than what a member of the archive takes beside its elements: three headers and its name, twice.
MEMBER = 512
#: How often what is declared a replay may take: programs are planned anew by each version of the package.
SLACK = 4
#: Bytes, rounded up, of the Python objects that a character of JSON stands for: "[" for a list and the tuple made of it, "{"
#: for a dict and the entry made of it, "," and ":" for what comes behind them, any character for a letter of a text.
LIST, DICT, PART, LETTER = 160, 400, 72, 8


def of_file(nbytes, members):
    """Bytes of a file with arrays of `nbytes` in all."""
    return nbytes + MEMBER * members


def of_text(text):
    """The most bytes of the objects that JSON text (as bytes) becomes, and of a tape's entries made of them."""
    parts = text.count(b",") + text.count(b":")
    return LIST * text.count(b"[") + DICT * text.count(b"{") + PART * parts + LETTER * len(text)


def of_values(tape):
    """Bytes of the values of a replay, each result an array of its own, and of the records."""
    metas = [i.entry.meta for i in tape.items if i.entry.kind != GUARD] + list(tape.inputs)
    return 64 * len(tape.records) + sum(m.nbytes for m in metas) + sum(len(g.seen) for g in tape.guards)


def of_workspace(workspace):
    """The most bytes that a replay takes in a workspace, with its gradient."""
    tape = workspace.tape
    active = tape.active.tolist()
    adjoints = sum(m.nbytes for k, m in enumerate(tape.metas) if active[k] and m is not None and m is not SCALAR)
    results = sum(g.nbytes for g in workspace.gradients if g is not None) + sum(s.nbytes for s in workspace.seeds)
    between, kept = 0, 0
    for program in workspace.programs:
        between = max(between, _temporaries(program.words))
        kept += program.words.nbytes + sum(c.nbytes for c in program.constants)
    return of_values(tape) + adjoints + results + between + kept + workspace.stream.nbytes + 16 * len(active)


def _temporaries(words):
    """Bytes that a program allocates (`interpreter.program`)."""
    total, at = 0, 0
    words = words.tolist()
    while words[at] != P.END:
        if words[at] == P.ALLOC:
            total += words[at + 3]
        at += 2 + words[at + 1]
    return total


# ---- functions of NumPy --------------------------------------------------------------------


def check_host(function, layout, metas, declared):
    """Raise `Misfit` if a function without derivative could ask for much more than `declared` bytes.

    Parameters
    ----------
    function : callable
        As of `literals.decoded_function`.
    layout : (tuple, dict)
        Its arguments; operands by number.
    metas : list of Meta
        Of the operands.
    declared : int
    """
    while isinstance(function, ResultOf):
        function = function.function
    shapes = [part.shape if isinstance(part, np.ndarray) else metas[part].shape for part in parts_of(layout, (Operand, np.ndarray))]
    sizes = [math.prod(shape) for shape in shapes]
    try:
        cells = math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        # It does not broadcast its arguments, or raises.
        cells = 0
    if isinstance(function, HostFunction):
        cells = max(cells, _cells(function, shapes))
    else:
        require(not any(type(part) is str for part in layout[0][:2]), "a text in place of an array")
    # In between there may be a few arrays of eight bytes an element.
    require(4 * max(cells, sum(sizes)) <= declared, f"it may make arrays of {max(cells, sum(sizes))} elements, {declared} bytes are declared")


def _cells(function, shapes):
    """Elements of the largest array that one of our own functions makes."""
    name, data = function.name, function.data
    if name == "taken":
        shape, axis, _ = data
        whole = _size(shape)
        if axis is None:
            return max(whole, math.prod(shapes[0]))
        require(type(axis) is int and -len(shape) <= axis < len(shape), "an axis")
        return max(whole, math.prod(shapes[0]) * _size(shape[:axis]) * _size(shape[axis:][1:]))
    if name in ("along_axis", "columns"):
        shape, order = data[0], shapes[0] if name == "along_axis" else (*shapes[0][:-1], 1, *shapes[0][-1:])
        _size(shape)
        require(len(shape) == len(order), "positions along an axis")
        return math.prod(max(pair) for pair in zip(shape, order))
    if name == "cast":
        (char,) = data
        require(type(char) is str and len(char) <= 3 and np.dtype(char).char in CHARS, f"the dtype {char!r}")
    if name == "ranked":
        _, n, position = data
        require(type(n) is int and n > 0 and isinstance(position, (int, np.ndarray)), "positions in lines")
        return math.prod(np.broadcast_shapes((math.prod(shapes[0]) // n,), np.shape(position)))
    require(next(parts_of(data, np.ndarray), None) is None, "an array among the data of a function")
    return 0


def _size(shape):
    require(type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape), f"the shape {shape!r}")
    return math.prod(shape)


# ---- running -------------------------------------------------------------------------------


class LoadedPool(Pool):
    """The workspaces of a loaded tape: a new one is refused if it takes far more than was declared."""

    def take(self):
        """As of `Pool`; raises `TapeFileError`."""
        try:
            workspace = super().take()
        except Exception as error:
            raise TapeFileError(f"this is no tape that can be run: {type(error).__name__}: {error}") from error
        need = of_workspace(workspace)
        if need > SLACK * self.tape.declared:
            raise TapeFileError(f"the tape takes {need} bytes to run, its file declares {self.tape.declared}")
        return workspace
