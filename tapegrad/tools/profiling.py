"""`profile`: where the time of a function goes, line by line.

The recording of the function is replayed piece by piece: what one line has recorded in a row, or numbers between two arrays.  The time of
a piece is the least of several replays, minus what it costs to time nothing; all are scaled to add up to a replay that is timed as a whole.
The time of numbers of several lines is divided among their instructions by what each operation costs alone.  What is left are the
arguments, which are copied in, and the gradients, which are copied out.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from ..common.errors import UnsupportedFunctionError
from ..common.printing import Printed, table
from ..common.registry import attach
from ..common.uninterrupted import uninterrupted
from ..rules.lang import nodes
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, RECORD, SCALAR_LEAF
from ..transforms.functional import ValueAndGrad, jit
from ..transforms.replay.answers import sort_arguments
from ..transforms.transformed import OfValues, Transformed
from .comparing.compare import least

#: Seconds that a measurement takes; copies of an instruction on numbers that are timed together.
_PATIENCE, _COPIES = 0.5, 64


@dataclass
class ProfiledLine:
    """What one line of the source takes in a call.

    Attributes
    ----------
    where, file, number, text : str, str, int, str
        The line, shortly and exactly; number 0 for what stands in no line: arguments copied in and gradients copied out.
    instructions : int
        Of the tape.
    forward, backward : float
        Seconds by the interpreter.
    nbytes : int
        Values that are kept for the way back.
    in_kernel : float
        Share of the operations of the kernel.
    missed : int
        How often a guard of this line saw something else.
    """

    where: str
    file: str
    number: int
    text: str
    instructions: int = 0
    forward: float = 0.0
    backward: float = 0.0
    nbytes: int = 0
    in_kernel: float = 0.0
    missed: int = 0

    seconds = property(lambda self: self.forward + self.backward)


@dataclass(repr=False)
class TimeProfile(Printed):
    """The report of ``g.profile(x)``: a table of lines, the heaviest first; in a notebook, the source with its share of the time.

    Attributes
    ----------
    name : str
    lines : list of ProfiledLine
    seconds : float
        Of a call by the interpreter.
    kernel : float or None
        Seconds of a call of the kernel; None if there is none, for the reason `no_kernel`.
    loops : list of (float, str)
        Of the kernel: shares of its operations above one per cent, and iterations and lines.
    records : int
        Recordings that the function has needed so far.
    """

    name: str
    lines: list[ProfiledLine]
    seconds: float
    records: int
    kernel: float | None = None
    no_kernel: str = ""
    loops: list[tuple[float, str]] = field(default_factory=list)

    def _head(self):
        kernel = f"{1e6 * self.kernel:.4g} us by its kernel" if self.kernel is not None else f"no kernel: {self.no_kernel}"
        return f"{self.name}: {1e6 * self.seconds:.4g} us by the interpreter, {kernel}; recorded {self.records} times"

    def __str__(self):
        head = ["line", "time", "us", "forward", "back", "instructions", "kept", "kernel", "missed", ""]
        rows = []
        for line in self.lines:
            times = [f"{1e6 * seconds:.4g}" for seconds in (line.seconds, line.forward, line.backward)]
            counts = [str(line.instructions), str(line.nbytes), f"{line.in_kernel:.1%}", str(line.missed)]
            rows.append([line.where, f"{line.seconds / self.seconds:.1%}", *times, *counts, line.text])
        loops = [f"kernel: {share:.1%} in {what}" for share, what in self.loops]
        return "\n".join([self._head(), "", table(head, rows), *loops])

    def _repr_html_(self):
        parts, lines = [f"<p>{escape(self._head())}</p>"], [line for line in self.lines if line.number]
        for file in dict.fromkeys(line.file for line in lines):
            known, rows = {line.number: line for line in lines if line.file == file}, []
            for number in range(min(known), max(known) + 1):
                share, said = 0.0, " " * 19
                if number in known:
                    share = known[number].seconds / self.seconds
                    said = f"{share:6.1%} {1e6 * known[number].seconds:9.4g} us"
                text = escape(f"{said}  {number:4}  {linecache.getline(file, number).rstrip()}")
                rows.append(f'<span style="background: rgba(255, 120, 0, {share:.3f})">{text}</span>')
            parts.append(f"<p>{escape(file)}</p><pre>{chr(10).join(rows)}</pre>")
        return "".join(parts)


def profile(g: Transformed[Any], *args: Any, **kwargs: Any) -> TimeProfile:
    """Where the time of a call goes, by lines of the source.

    Parameters
    ----------
    *args, **kwargs
        Arguments of the function.

    Returns
    -------
    TimeProfile
        Print it. By line: instructions on the tape, seconds by the interpreter, forward and back, bytes that are kept for the way back, the share of the
        operations of the kernel, and guards that were missed. What has no line of its own are arguments copied in, gradients copied out.

    Notes
    -----
    The function is recorded at these arguments and the recording is replayed for a second or so; of transformations other than `grad`, `value_and_grad` and
    `jit` all that they compute is recorded, and replayed forward. The seconds of the lines add up to those of the call.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> def f(x):
    ...     y = np.exp(x)
    ...     return np.sum(y)
    >>> report = tg.grad(f).profile(np.ones(100_000))
    >>> report.lines[0].text
    'y = np.exp(x)'
    """
    from ..program.workspace import Workspace

    whole: Callable[..., Any] = g if isinstance(g, (OfValues, ValueAndGrad)) else jit(lambda *args, **kwargs: g(*args, **kwargs))
    tape = whole.tape(*args, **kwargs)
    inputs = sort_arguments(args, kwargs, whole._replayed.argnums)[0]
    workspace, backward = Workspace(tape), any(tape.wanted) and not tape.forward_only
    lines: dict[tuple[str, int], ProfiledLine] = {("", 0): ProfiledLine("", "", 0, "arguments and gradients, in and out")}
    stats = g.stats()

    def line_of(place):
        key = (place.filename, place.line) if place.line else ("", 0)
        if key not in lines:
            lines[key] = ProfiledLine(place.short, *key, place.text, missed=stats.misses[str(place)])
        return lines[key]

    call, pieces, costs = _timed(workspace, inputs, backward)
    guard, ops = min(costs.values(), default=1.0), workspace.records["op"].tolist()
    for (slots, way), seconds in pieces.items():
        # What several lines share is divided by what their operations take forward (a guard, which compares, as the least).
        parts = {slot: costs.get(ops[slot], guard) or 1e-9 for slot in slots or (0,)}
        total = sum(parts.values())
        for slot, part in parts.items():
            line = line_of(tape.place(slot))
            setattr(line, way, getattr(line, way) + seconds * part / total)
            line.instructions += slot > 0 and way == "forward"
    if backward:
        arrays, marked = workspace.arrays, np.flatnonzero(workspace.sweep.marks).tolist()
        for slot in {*marked}.difference(arrays) | workspace.kept_roots.intersection(arrays).difference(tape.leaves):
            # (A constant, below 0, is the tape's.)
            if slot > 0:
                line_of(tape.place(slot)).nbytes += arrays[slot].nbytes if slot in arrays else RECORD.size
    report = TimeProfile(getattr(g, "__name__", "the function"), [], call, max(1, stats.records))
    _of_kernel(report, whole, args, kwargs, inputs, line_of)
    report.lines = sorted(lines.values(), key=lambda line: -line.seconds)
    return report


def _timed(workspace, inputs, backward):
    """Seconds of a call; of its pieces, in all as long: (slots, "forward" or "backward") -> seconds; and of each operation on numbers, by opcode.

    Slot 0, or none: what belongs to no line.
    """
    with uninterrupted:
        from ..program import walk as W

    p, ops, stream, sweep = workspace.parameters, workspace.records["op"], workspace.stream.tolist(), workspace.sweep

    def run(at, function, *arguments):
        p[W.P_AT] = at
        function(workspace.pointer, *arguments)

    def rule(item, slot):
        workspace.in_python, of_all = [item], workspace.in_python
        workspace.rules(sweep, slot)
        workspace.in_python = of_all

    workspace.run(inputs, backward)
    calls: dict[Any, Callable[..., Any]] = {"call": partial(workspace.run, inputs, backward), "nothing": partial(run, 0, W.sweep, 0, 1)}
    calls[(), "forward"] = partial(run, 0, W.enter)
    for slots, host, begin, end in _joined(workspace, _steps(workspace, stream, W)):
        calls[slots, "forward"] = partial(run, len(stream), W.forward) if host is None else host.run
        stream += [*stream[begin:end], W.END]
    if backward:
        calls[(), "backward"] = partial(run, 0, W.seed)
        python = {item.slot: item for item in workspace.in_python}
        marked = [slot for slot in range(int(p[W.P_HIGH]), int(p[W.P_LOW]) - 1, -1) if sweep.marks[slot]]
        for slots, item, high, low in _joined(workspace, [((slot,), python.get(slot), slot, slot) for slot in marked]):
            calls[slots, "backward"] = partial(run, 0, W.sweep, high, low) if item is None else partial(rule, item, high)
        calls[(0,), "backward"] = partial(run, 0, W.deliver)
    for op, slot in zip(*np.unique(ops, return_index=True)):
        if SCALAR_LEAF < op < FIRST_ARRAY:
            calls[int(op)] = partial(run, len(stream), W.forward)
            stream += [W.SCALARS, slot, slot] * _COPIES + [W.END]
    # Behind the stream of the replay; the parameters have its address.
    longer = np.array(stream, np.int64)
    p[W.P_STREAM] = longer.ctypes.data
    times = least(calls, _PATIENCE)
    nothing = times.pop("nothing")
    times = {what: max(0.0, seconds - nothing) for what, seconds in times.items()}
    call, costs = times.pop("call"), {what: times.pop(what) for what in list(times) if isinstance(what, int)}
    scale = call / (sum(times.values()) or 1.0)
    return call, {piece: scale * seconds for piece, seconds in times.items()}, costs


def _steps(workspace, stream, W):
    """Of the stream: slots of a step, the one that NumPy does, and where it begins and ends."""
    slot_at, at = {workspace.address_of(item.slot): item.slot for item in workspace.tape.items}, 0
    while (code := stream[at]) != W.END:
        first, host = stream[at + 1], None
        if code == W.SCALARS:
            slots, length = tuple(range(first, stream[at + 2] + 1)), 3
        elif code == W.PROGRAM:
            slots, length = (stream[at + 2],), 4 + 2 * stream[at + 3]
        elif code == W.HOST:
            host = workspace.hosts[first]
            slots, length = (host.slot,), 2
        elif code == W.COLLECT:
            slots, length = (slot_at[first],), 3 + stream[at + 2]
        else:
            slots, length = (workspace.guard_slots[first],), 5 + (code == W.COMPARE)
        yield slots, host, at, at + length
        at += length


def _joined(workspace, steps):
    """What one line has recorded in a row, and numbers in a row: (slots, item, begin, end)."""
    place, ops = workspace.tape.place, workspace.records["op"]

    def key(step):
        (slot, *_), item, *_ = step
        return item, FIRST_ARRAY <= ops[slot] < ARRAY_LEAF and str(place(slot))

    for (item, _), group in groupby(steps, key):
        together = list(group)
        yield tuple(slot for slots, *_ in together for slot in slots), item, together[0][2], together[-1][3]


def _of_kernel(report, function, args, kwargs, inputs, line_of):
    """What the kernel does, if there is one."""
    try:
        kernel = function.kernel(*args, **kwargs)
    except UnsupportedFunctionError as why:
        report.no_kernel = str(why).partition(": ")[2].partition(" [tapegrad")[0]
        return
    report.kernel = least({"": lambda: kernel.answer(inputs)}, _PATIENCE / 4)[""]
    counts = [(statement, list(_operations([statement], 1))) for statement in kernel.program.body]
    total = sum(n for _, slots in counts for _, n in slots) or 1
    for statement, slots in counts:
        places = [(kernel.whole.place(slot), n / total) for slot, n in slots]
        for place, share in places:
            line_of(place).in_kernel += share
        share = sum(share for _, share in places)
        if hasattr(statement, "extent") and share > 0.01:
            numbers = sorted({place.line for place, _ in places} - {0})
            lines = f"line {numbers[0]} says" if len(numbers) == 1 else f"lines {', '.join(map(str, numbers))} say"
            report.loops.append((share, f"{statement.total} iterations of what {lines}"))
    report.loops.sort(reverse=True)


def _operations(body, times):
    """The operations of a loop program, iterations counted: (slot, how many)."""
    from ..kernel import ir

    for statement in body:
        if isinstance(statement, ir.Loop):
            yield from _operations(statement.body, times * statement.total)
        else:
            count = sum(node.op not in ("arg", "const") for node in nodes(statement.expr)) if isinstance(statement, ir.Let) else 1
            yield statement.slot, times * count


attach(Transformed, {"profile": profile})
