"""Layouts of bodies that are recorded again: what was laid out of a path, by all that its tape computes.

A plain call of a loop records its body each time.  If what comes out computes what came out before, to the last operand, attribute and
constant, the workspaces and kernels that were made then are taken, and the paths of its derivatives.
Blocks of memory come with them, which a run of a loop holds for its paths, all at once: what is shared is taken by one loop at a time only.
So neither of two paths of one loop nor a loop in the body of another one, which runs while that holds its own, shares any.
Nothing of the call itself is kept: neither arguments nor results, neither the function nor what it captures (but the constants on
the tape, of which there are few, in copies).  Where an instruction stands in the source, the new path says.
"""

import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np

from ...common.host_functions import HostFunction
from ...program.trace import GUARD, ROW
from ...tape.layout import SCALAR, SCALAR_LEAF
from .body import records_for_jit
from .loop import LoopPath

#: Paths of which a thread keeps the layouts; numbers that one may hold in its arrays, and bytes of its constants.
PATHS, NUMBERS, BYTES = 32, 1 << 16, 1 << 16


_PLAIN = {type(None), bool, int, float, str, bytes}


#: Layouts of a thread, `by_key`: by what a path says, the one used last at the end.
_LAYOUTS = threading.local()


def path_of(tape, inputs, outputs, shapes, stops, others):
    """As `LoopPath.of`, with the `layouts` that there are of the same path; of a loop that has the paths `others`."""
    runs_loops = any([hasattr(value, "paths") for item in tape.items if item.entry.kind == ROW for _, value in item.entry.attrs])
    described = None if records_for_jit() or runs_loops else _described(tape)
    key = described and (tuple(inputs), tuple(outputs), tuple(shapes), stops, *described)
    if key is None or any(other.key == key for other in others):
        return LoopPath.of(tape, inputs, outputs, shapes, stops)
    # (Also of a path that there was: what is laid out of it later is kept, too.)
    constants = [c.copy() if isinstance(c, np.ndarray) else c for c in tape.constants]
    path = LoopPath.of(replace(tape, constants=constants), inputs, outputs, shapes, stops)
    layouts = vars(_LAYOUTS).setdefault("by_key", OrderedDict())
    path.layouts = layouts.setdefault(key, path.layouts)
    if len(layouts) > PATHS:
        layouts.popitem(last=False)
    layouts.move_to_end(key)
    path.key = key
    return path


def _described(tape):
    """All that a tape computes, hashable; None if it holds objects, or too much."""
    numbers = sum([meta.size for meta in tape.metas if meta is not SCALAR and meta is not None])
    if numbers > NUMBERS or sum([c.nbytes for c in tape.constants if isinstance(c, np.ndarray)]) > BYTES:
        return None
    items = []
    for item in tape.items:
        entry = item.entry
        function = entry.function
        if entry.kind == ROW:
            attrs = [(name, repr(value) if _is_plain(value) else None) for name, value in entry.attrs]
            if function.primitive is not None or any([value is None for _, value in attrs]):
                return None
        elif entry.kind != GUARD:
            function, attrs = function.ufunc or _host(function), ()
            if function is None or entry.attrs:
                return None
        else:
            attrs = ()
        items.append((item.slot, entry.kind, function, tuple(attrs), item.operands, entry.differentiable, entry.integer, item.number))
    constants = tuple(map(_value, tape.constants))
    outputs = tuple([(slot, what if slot else _value(what)) for slot, what in tape.outputs])
    if None in constants or any(what is None for _, what in outputs):
        return None
    records = tape.records
    leaves = records["op"] == SCALAR_LEAF
    # Those of arguments are written by who runs it.
    leaves[[slot for *_, slot in tape.elements]] = False
    words = b"".join([np.ascontiguousarray(records[name]).tobytes() for name in ("op", "a", "b", "integer")])
    guards = tuple([(g.slot, g.how, g.seen) for g in tape.guards])
    return (
        words, records["value"][leaves].tobytes(), tuple(items), constants, outputs, guards, tuple(tape.inputs), tuple(tape.leaves),
        tuple(tape.elements), tuple(tape.metas), tape.special, tape.wanted, tape.forward_only, tape.of_iteration,
    )  # fmt: skip


def _host(call):
    """A function of our own, called on its operands only, by its name; else None."""
    function = call.function
    return (function.name, repr(function.data)) if call.plain and isinstance(function, HostFunction) and _is_plain(function.data) else None


def _is_plain(value):
    """Whether an attribute is data, which is equal to what says the same."""
    return type(value) in _PLAIN or type(value) is tuple and (_PLAIN.issuperset(map(type, value)) or all(map(_is_plain, value)))


def _value(what):
    """A constant, to the last bit; None for one that is neither number nor array."""
    what = getattr(what, "_v", what)
    if what is None or isinstance(what, (str, bytes)):
        return None
    array = np.asarray(what)
    return None if array.dtype.hasobject else (type(what) is float, array.shape, array.strides, array.dtype.str, array.tobytes())
