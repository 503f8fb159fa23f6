"""A run of a function as data for a page: instructions and decisions, values, tangents, and what reverse mode adds to each adjoint.

All numbers come from the tape, by the functions that the rest of the package uses: values as recorded, contributions by the rules on
plain numbers.  The page adds them up, as the sweep does.
"""

import inspect
import linecache
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...array.record import tracked
from ...array.tensor import Tensor
from ...autograd import tape as listing
from ...autograd.reading import slot_on
from ...common.errors import NonScalarOutputError, OptionError, SeedShapeError, StructureError
from ...common.public import signature_of
from ...common.tree import flatten
from ...program.choosing import work
from ...tape.places import function_name
from ..arguments import WatchedRun

#: Instructions that a page can show; numbers of an array that it has one by one; instructions up to which it has partials.
MOST, WRITTEN_OUT, FEW = 100_000, 12, 5_000
_SIGNS = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}


def watched(f: Callable[..., Any], args: Sequence[Any]) -> WatchedRun:
    """The function, run; of its events the decisions in words."""

    def seen(run, how, operands, _):
        _limit(f, run.store)
        return _decided(run.store, how, operands)

    run = WatchedRun("tg.show", f, args, seen)
    _limit(f, run.store)
    if not run.tracked():
        raise StructureError(f"tg.show: no result of {function_name(f)} depends on an argument; tg.explain_zero says why")
    return run


def _limit(f, store):
    if len(store) > MOST:
        raise OptionError(f"tg.show: {function_name(f)} records more than {MOST:,} instructions; call it with fewer iterations or data")


def _decided(store, how, operands):
    """A decision in words: ``%3 < 2 is True``."""
    names = [f"%{slot_on(store, t)}" if isinstance(t, Tensor) and tracked(t) else listing.summary(getattr(t, "_v", t)) for t in operands[:2]]
    name = how.removeprefix("comparison (").rstrip(")")
    if name not in _SIGNS:
        return f"{names[0]} leaves the tape: {how}"
    outcome = getattr(np, name)(*(np.asarray(getattr(t, "_v", t)) for t in operands))
    return f"{names[0]} {_SIGNS[name]} {names[1]} is {outcome if outcome.ndim == 0 else f'true in {int(outcome.sum())} of {outcome.size}'}"


def program(f: Callable[..., Any], args: Sequence[Any], output: Any = None, direction: Any = None, replay: Sequence[Any] | None = None) -> dict[str, Any]:
    """The data of a page; arguments as of `tg.show`."""
    run = watched(f, args)
    result, m = _result(f, run, output)
    store, entries, names, sources = run.store, listing.entries_of(run.store), _names(f, run), {}
    values, texts, tangents = listing.values(store), {row[0]: row for row in listing.rows(store)}, _tangents(run, entries, direction)
    rows, at = [], {}
    # What was decided before an instruction stands before it.
    for slot, place, what in sorted([*run.events, *((e.slot, None, e) for e in entries)], key=lambda step: (step[0], step[1] is None)):
        if place is not None:
            rows.append(_row(what, guard=True, line=_line(place, sources)))
            continue
        e, at[slot] = what, len(rows)
        name, operation, operands, shape = texts[f"%{slot}"][:4]
        title = names.get(slot, operation)
        row = _row(title, name=name, title=title, shape=shape, value=_exact(values[slot]), tangent=_exact(tangents.get(slot)))
        if e.row is not None:
            reads = [at[o] for o in e.operands if o in at]
            row |= {"operation": f"{operation} {operands}".strip(), "operands": reads, "line": _line(store.place(slot), sources)}
            row["work"] = work(np.array([e.op])).operations if reads else 0
        rows.append(row)
    return {
        "title": f"{function_name(f)} at {', '.join(str(_exact(getattr(a, '_v', a))) for a in args)}", "n": int(sum(leaf.size for leaf in run.leaves)), "m": m,
        "leaves": [at[slot] for slot in names if slot in at], "sources": list(sources.values()), "rows": rows, "result": at[result],
        "reverse": _reverse(store, entries, at, result), "replay": _replayed(f, replay, rows),
    }  # fmt: skip


def _row(operation, **known):
    none = {"name": "", "title": "", "operands": [], "guard": False, "shape": "", "work": 0, "value": None, "tangent": None, "line": None}
    return {**none, "operation": operation, **known}


def _names(f, run):
    """Names of leaves: those of the parameters."""
    parameters = [*signature_of(f).parameters]
    return {slot_on(run.store, leaf): parameters[k] if k < len(parameters) else f"argument {k}" for k, leaf in zip(run.argnums, run.leaves)}


def _result(f, run, output):
    """The slot from which reverse mode starts, and how many numbers there are among the results."""
    numbers = [(r, k) for r in run.tracked() for k in range(int(r.size))]
    count, wanted = len(numbers), 0 if output is None else output
    if count > 1 and output is None:
        raise NonScalarOutputError(f"tg.show: {function_name(f)} returns {count} numbers; say which one reverse mode starts from: output=0 to {count - 1}")
    if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)) or not -count <= wanted < count:
        raise OptionError(f"output={output!r}: {function_name(f)} returns {count} numbers; give 0 to {count - 1}")
    r, k = numbers[wanted]
    with run.tape:
        return slot_on(run.store, r.reshape(-1)[k] if r.shape else r), count


def _tangents(run, entries, direction):
    """Slot -> tangent, for tangents of the arguments: by default one in the first number, and zero in all others."""
    shapes = [leaf.shape for leaf in run.leaves]
    if direction is None:
        parts = [np.zeros(shape) for shape in shapes]
        parts[0].reshape(-1)[:1] = 1.0
    else:
        parts = [np.asarray(d, float) for d in (flatten(direction)[0] if len(shapes) > 1 else [direction])]
    if (got := [part.shape for part in parts]) != shapes:
        raise SeedShapeError(f"direction= has the shapes {', '.join(map(str, got))}; give one for each argument, of the shapes {', '.join(map(str, shapes))}")
    return listing.tangents_of(entries, run.store.leaf_at(), dict(zip(run.leaves, parts)))


def _reverse(store, entries, at, result):
    """For each instruction that an adjoint reaches, last first: its row, and for each operand its row, what is added, and the partial."""
    adjoints = listing.adjoints_of(entries, store.leaf_at(), {result: 1.0})
    return [
        [at[e.slot], [[at[slot], _exact(added), *([] if partial is None else [_exact(partial)])] for slot, added, partial in parts]]
        for e, parts in listing.handed(store, entries, adjoints, len(entries) <= FEW)
    ]


def _replayed(f, args, rows):
    """Values at other arguments, row by row, up to the first decision that comes out otherwise."""
    if args is None:
        return None
    other = program(f, args if isinstance(args, tuple) else (args,), output=0)
    pairs = list(zip(rows, other["rows"]))
    differing = [k for k, (mine, theirs) in enumerate(pairs) if mine["operation"] != theirs["operation"]]
    stop = min(differing, default=len(pairs) - 1)
    values = [theirs["value"] for _, theirs in pairs[: stop + 1]]
    return {"title": other["title"], "values": values, "stop": stop, "failed": bool(differing) and rows[stop]["guard"]}


def _line(place, sources):
    """The number of the source of a place, and its line there; `sources`, by code, has it from now on."""
    if place.f_code is None:
        return None
    if place.f_code not in sources:
        try:
            whole = place.f_code.co_name == "<module>"
            lines, first = (linecache.getlines(place.filename), 1) if whole else inspect.getsourcelines(place.f_code)
        except (OSError, TypeError):
            lines, first = [linecache.getline(place.filename, place.line)], place.line
        text = [[max(first, 1) + k, line.rstrip()] for k, line in enumerate(lines)]
        sources[place.f_code] = {"name": re.split(":|, line", place.short)[0], "lines": text}
    return [list(sources).index(place.f_code), place.line]


def _exact(value):
    """A number, the numbers of a short array, or a description, as JSON has them."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        return None if value is None else str(value)
    if not array.ndim:
        return float(array) if np.isfinite(array) else str(float(array))
    if array.size > WRITTEN_OUT or not np.isfinite(array).all():
        return listing.summary(array)
    return array.reshape(-1).astype(float).tolist()
