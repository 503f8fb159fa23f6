"""A run of a function as data for a page: instructions and decisions, values, tangents, and what reverse mode adds to each adjoint.

All numbers come from the tape, by the functions that the rest of the package uses: values as recorded, contributions by the rules on
plain numbers.  The page adds them up, as the sweep does.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...array.record import tracked
from ...array.tensor import Tensor
from ...autograd import inspect as listing
from ...autograd.backward import slot_on
from ...autograd.reading import Region
from ...common.errors import NonScalarOutputError, OptionError, SeedShapeError, StructureError
from ...common.tree import flatten
from ...program.choosing import work
from ...tape.places import PACKAGE, caller_place, function_name
from ..arguments import WatchedRun, differentiable

#: Instructions that a page can show; numbers of an array that it has one by one; rows from which on numbers have six digits.
MOST, WRITTEN_OUT, SHORTENED = 100_000, 12, 5_000


class Shown(WatchedRun):
    """A function that has run once on a tape.

    Attributes
    ----------
    decisions : list of (int, str, Place)
        Before which slot each decision was made, what it said, and where.
    """

    def __init__(self, f, args):
        self.decisions = []

        def seen(how, operands, kwargs):
            self._limit(f)
            self.decisions.append((self.store.length, _decided(self.store, how, operands), caller_place(3)))

        super().__init__("tg.show", f, [np.array(a, float)[()] if differentiable(a) else a for a in args], seen)
        self._limit(f)
        if not self.tracked():
            raise StructureError(f"tg.show: no result of {function_name(f)} depends on an argument; tg.explain_zero says why")

    def _limit(self, f):
        if len(self.store) > MOST:
            raise OptionError(f"tg.show: {function_name(f)} records more than {MOST:,} instructions; call it with fewer iterations or data")


def _decided(store, how, operands):
    """A decision in words: ``%3 < 2 is True``."""
    names = [f"%{slot_on(store, t)}" if isinstance(t, Tensor) and tracked(t) else str(_six(t)) for t in operands[:2]]
    signs = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
    name = how.removeprefix("comparison (").rstrip(")")
    if name not in signs:
        return f"{names[0]} leaves the tape: {how}"
    outcome = getattr(np, name)(*(np.asarray(t._v if isinstance(t, Tensor) else t) for t in operands))
    return f"{names[0]} {signs[name]} {names[1]} is {outcome if outcome.ndim == 0 else f'true in {int(outcome.sum())} of {outcome.size}'}"


def program(f: Callable[..., Any], args: Sequence[Any], output: Any = None, direction: Any = None, replay: Sequence[Any] | None = None) -> dict[str, Any]:
    """The data of a page; arguments as of `tg.show`."""
    run = Shown(f, args)
    result, m = _result(f, run, output)
    store, entries = run.store, listing.entries_of(run.store)
    values, texts = listing.values(store), {row[0]: row for row in listing.rows(store)}
    digits = _exact if len(entries) <= SHORTENED else _six
    tangents = _tangents(run, entries, direction)
    rows, places, at, names = [], [], {}, _names(f, run)
    # What was decided before an instruction stands before it.
    steps = [*((*decision, None) for decision in run.decisions), *((e.slot, "", None, e) for e in entries)]
    for _, said, where, e in sorted(steps, key=lambda step: (step[0], step[3] is not None)):
        if e is None:
            rows.append(_decision(said))
            places.append(where)
            continue
        at[e.slot] = len(rows)
        name, operation, operands, shape = texts[f"%{e.slot}"][:4]
        value = values[e.slot]
        title = names.get(e.slot, operation)
        slots = [o for o in e.operands if o in at] if e.row is not None else []
        rows.append({
            "name": name, "title": title, "operation": title if e.row is None else f"{operation} {operands}".strip(), "operands": [at[o] for o in slots],
            "guard": False, "shape": shape, "work": work(np.array([e.op])).operations if slots else 0,
            "value": digits(value), "tangent": digits(tangents.get(e.slot)),
        })  # fmt: skip
        places.append(store.place(e.slot) if e.row is not None else None)
    sources = _sources(places, rows)
    return {
        "title": f"{function_name(f)} at {', '.join(str(_exact(a)) for a in args)}", "n": int(sum(leaf.size for leaf in run.leaves)), "m": m,
        "leaves": [at[slot] for slot in names if slot in at], "sources": sources, "rows": rows, "result": at[result],
        "reverse": _reverse(store, entries, at, result, digits), "replay": _replayed(f, replay, rows),
    }  # fmt: skip


def _decision(said):
    return {"name": "", "title": "", "operation": said, "operands": [], "guard": True, "shape": "", "work": 0, "value": None, "tangent": None}


def _names(f, run):
    """Names of leaves: those of the parameters."""
    try:
        parameters = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        parameters = []
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
    parts = [np.zeros(leaf.shape) for leaf in run.leaves]
    if direction is None:
        parts[0].reshape(-1)[:1] = 1.0
    else:
        given = flatten(direction)[0] if len(parts) > 1 else [direction]
        if [np.shape(d) for d in given] != [part.shape for part in parts]:
            shapes = ", ".join(str(part.shape) for part in parts)
            raise SeedShapeError(f"direction= has the shapes {', '.join(str(np.shape(d)) for d in given)}; give one for each argument, of the shapes {shapes}")
        parts = [np.asarray(d, float) for d in given]
    return listing.tangents_of(entries, run.store.leaf_at(), dict(zip(run.leaves, parts)))


def _reverse(store, entries, at, result, digits):
    """For each instruction that an adjoint reaches, last first: its row, and for each operand its row, what is added, and the partial."""
    adjoints, found, stretch, few = {result: np.array(1.0)}, [], Region(store, plain=True), len(entries) <= SHORTENED
    with np.errstate(all="ignore"):
        for e in reversed(entries):
            if e.slot not in adjoints or e.row is None:
                continue
            g, said = adjoints.pop(e.slot), []
            parts = listing.handed(stretch, e.slot, g)
            partials = listing.handed(stretch, e.slot, np.array(1.0)) if few and np.ndim(g) == 0 else [(slot, None) for slot, _ in parts]
            for (slot, added), (_, partial) in zip(parts, partials):
                adjoints[slot] = adjoints[slot] + added if slot in adjoints else added
                said.append([at[slot], digits(added), *([digits(partial)] if partial is not None and partial.ndim == 0 else [])])
            found.append([at[e.slot], said])
    return found


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


def _sources(places, rows):
    """The source of each function that recorded something; rows are told their source and line."""
    sources, numbers = [], {}
    for row, place in zip(rows, places):
        row["line"] = None
        if place is None or place.f_code is None or place.filename.startswith(PACKAGE):
            continue
        if place.f_code not in numbers:
            numbers[place.f_code] = len(sources)
            try:
                whole = place.f_code.co_name == "<module>"
                lines, first = (linecache.getlines(place.filename), 1) if whole else inspect.getsourcelines(place.f_code)
            except (OSError, TypeError):
                lines, first = [linecache.getline(place.filename, place.line)], place.line
            sources.append({"name": re.split(":|, line", place.short)[0], "lines": [[max(first, 1) + k, line.rstrip()] for k, line in enumerate(lines)]})
        row["line"] = [numbers[place.f_code], place.line]
    return sources


def _exact(value, short=lambda x: x):
    """A number, the numbers of a short array, or a description, as JSON has them."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        return str(value)
    if not array.ndim:
        number = short(float(array))
        return number if np.isfinite(number) else str(number)
    if array.size > WRITTEN_OUT or not np.isfinite(array).all():
        return listing.summary(array)
    return [short(float(x)) for x in array.reshape(-1)]


def _six(value):
    return _exact(value, lambda x: float(f"{x:.6g}"))


def packed(data: dict[str, Any]) -> dict[str, Any]:
    """The data with rows as short lists, and texts by their numbers: what ``unpacked`` of `walk.js` reads."""
    words: dict[str, int] = {}
    word = lambda text: words.setdefault(text, len(words))  # noqa: E731
    rows = []
    for row in data["rows"]:
        text = row["operation"]
        if not row["guard"]:
            text = text.partition(" ")[2]
            for place, operand in enumerate(row["operands"]):
                text = re.sub(rf"{re.escape(data['rows'][operand]['name'])}\b", f"${place};", text)
        short = [int(row["name"][1:] or 0), word(row["title"]), word(text), row["operands"], row["value"], row["tangent"], *(row["line"] or (-1, -1))]
        more = [word(row["shape"]), row["work"]]
        rows.append(short if more == [word("scalar"), int(bool(row["operands"]))] else short + more)
    return {**data, "rows": rows, "words": list(words)}
