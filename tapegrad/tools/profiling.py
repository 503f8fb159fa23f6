"""`profile`: where the time of a function goes, line by line.

The recording of the function is replayed piece by piece: what one line has recorded in a row, or numbers between two arrays.  The time of
a piece is the least of several replays, minus what it costs to time nothing; all are scaled to add up to a replay that is timed as a whole.
The time of numbers of several lines is divided among their instructions by what each operation costs alone.  What is left are the
arguments, which are copied in, and the gradients, which are copied out.
"""

from __future__ import annotations

import linecache
from collections import Counter
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
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, RECORD, TRACED
from ..transforms.functional import ValueAndGrad, jit
from ..transforms.replay.arguments import sort_arguments
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

    @property
    def seconds(self):
        return self.forward + self.backward


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
        rows = [
            [
                line.where, f"{line.seconds / self.seconds:.1%}",
                *(f"{1e6 * seconds:.4g}" for seconds in (line.seconds, line.forward, line.backward)), str(line.instructions), str(line.nbytes),
                f"{line.in_kernel:.1%}", str(line.missed), line.text,
            ]
            for line in self.lines
        ]  # fmt: skip
        loops = [f"kernel: {share:.1%} in {what}" for share, what in self.loops]
        return "\n".join([self._head(), "", table(head, rows), *loops])

    def _repr_html_(self):
        known = {(line.file, line.number): line for line in self.lines if line.number}
        parts = [f"<p>{escape(self._head())}</p>"]
        for file in dict.fromkeys(file for file, _ in known):
            numbers = [number for name, number in known if name == file]
            rows = []
            for number in range(min(numbers), max(numbers) + 1):
                line = known.get((file, number))
                share = line.seconds / self.seconds if line else 0.0
                said = f"{share:6.1%} {1e6 * line.seconds:9.4g} us" if line else " " * 19
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
    pieces = _Pieces(Workspace(tape), inputs, any(tape.wanted) and not tape.forward_only)
    lines: dict[tuple[str, int], ProfiledLine] = {("", 0): ProfiledLine("", "", 0, "arguments and gradients, in and out")}
    misses = g.stats().misses

    def line_of(place):
        key = (place.filename, place.line) if place.line else ("", 0)
        if key not in lines:
            lines[key] = ProfiledLine(place.short, *key, place.text, missed=misses[str(place)])
        return lines[key]

    for (slots, name), seconds in pieces.seconds.items():
        for slot, share in pieces.divided(slots):
            line = line_of(tape.place(slot))
            setattr(line, name, getattr(line, name) + share * seconds)
            line.instructions += slot > 0 and name == "forward"
    for slot, nbytes in pieces.kept():
        line_of(tape.place(slot)).nbytes += nbytes
    report = TimeProfile(getattr(g, "__name__", "the function"), [], pieces.call, max(1, g.stats().records))
    _of_kernel(report, whole, args, kwargs, inputs, line_of)
    report.lines = sorted(lines.values(), key=lambda line: -line.seconds)
    return report


class _Pieces:
    """The pieces of a replay, timed.

    Attributes
    ----------
    seconds : dict
        (slots, "forward" or "backward") -> seconds; slot 0, or none, for what belongs to no line. In all as long as the call.
    call : float
        Seconds of the replay as a whole.
    """

    def __init__(self, workspace, inputs, backward):
        with uninterrupted:
            from ..program import walk as W

        self.W, self.workspace, self.backward = W, workspace, backward
        self.parameters, self.pointer = workspace.parameters, workspace.pointer
        workspace.run(inputs, backward)
        calls = {"call": partial(workspace.run, inputs, backward), "nothing": partial(self._run, 0, W.sweep, 0, 1), **self._calls()}
        times = least(calls, _PATIENCE)
        nothing = times.pop("nothing")
        times = {piece: max(0.0, seconds - nothing) for piece, seconds in times.items()}
        self.call = times.pop("call")
        self.costs = {op: times.pop((op, "cost")) for op, what in list(times) if what == "cost"}
        factor = self.call / (sum(times.values()) or 1.0)
        self.seconds = {piece: factor * seconds for piece, seconds in times.items()}

    def _run(self, at, function, *arguments):
        self.parameters[self.W.P_AT] = at
        function(self.pointer, *arguments)

    def _calls(self):
        """What is timed, in the order of a replay; and copies of each operation on numbers, where several lines share a piece: (opcode, "cost")."""
        W, workspace, calls, stream = self.W, self.workspace, {}, self.workspace.stream.tolist()
        calls[(), "forward"] = partial(self._run, 0, W.enter)
        for slots, host, begin, end in self._steps(stream):
            calls[slots, "forward"] = partial(self._run, len(stream), W.forward) if host is None else host.run
            stream += [*stream[begin:end], W.END]
            several = len({str(workspace.tape.place(slot)) for slot in slots}) > 1
            for slot in slots if several else ():
                if (op := int(workspace.records["op"][slot])) != TRACED and (op, "cost") not in calls:
                    calls[op, "cost"] = partial(self._run, len(stream), W.forward)
                    stream += [W.SCALARS, slot, slot] * _COPIES + [W.END]
        if self.backward:
            calls[(), "backward"] = partial(self._run, 0, W.seed)
            for slots, item, high, low in self._ways():
                calls[slots, "backward"] = partial(self._run, 0, W.sweep, high, low) if item is None else partial(self._rule, item, high)
            calls[(0,), "backward"] = partial(self._run, 0, W.deliver)
        # Behind the stream of the replay; the parameters have its address.
        self.stream = np.array(stream, np.int64)
        self.parameters[W.P_STREAM] = self.stream.ctypes.data
        return calls

    def _rule(self, item, high):
        workspace, of_all = self.workspace, self.workspace.in_python
        workspace.in_python = [item]
        workspace.rules(workspace.sweep, high)
        workspace.in_python = of_all

    def _steps(self, stream):
        """Of the stream: slots of a piece, the step that NumPy does, and where it begins and ends."""
        W, workspace = self.W, self.workspace
        slot_at = {workspace.address_of(item.slot): item.slot for item in workspace.tape.items}
        found, at = [], 0
        while (code := stream[at]) != W.END:
            host = workspace.hosts[stream[at + 1]] if code == W.HOST else None
            if code == W.SCALARS:
                slots, length = tuple(range(stream[at + 1], stream[at + 2] + 1)), 3
            elif code == W.PROGRAM:
                slots, length = (stream[at + 2],), 4 + 2 * stream[at + 3]
            elif code == W.HOST:
                slots, length = (host.slot,), 2
            elif code == W.COLLECT:
                slots, length = (slot_at[stream[at + 1]],), 3 + stream[at + 2]
            else:
                slots, length = (workspace.guard_slots[stream[at + 1]],), 5 + (code == W.COMPARE)
            found.append((slots, host, at, at + length))
            at += length
        return self._joined(found)

    def _ways(self):
        """Of the way back: what is swept at a time, from above, and the primitive whose rule is called instead."""
        p, marks = self.parameters, self.workspace.sweep.marks
        python = {item.slot: item for item in self.workspace.in_python}
        slots = range(int(p[self.W.P_HIGH]), int(p[self.W.P_LOW]) - 1, -1)
        return self._joined([((slot,), python.get(slot), slot, slot) for slot in slots if marks[slot]])

    def _joined(self, steps):
        """What one line has recorded in a row, and numbers in a row: (slots, item, begin, end)."""
        place, ops = self.workspace.tape.place, self.workspace.records["op"]

        def key(step):
            (slot, *_), item, *_ = step
            return item, FIRST_ARRAY <= ops[slot] < ARRAY_LEAF and str(place(slot))

        for (item, _), group in groupby(steps, key):
            together = list(group)
            yield tuple(slot for slots, *_ in together for slot in slots), item, together[0][2], together[-1][3]

    def divided(self, slots):
        """How the time of a piece is divided: (slot, share), by what its operations take forward (a guard, which compares, as the least)."""
        guard, ops = min(self.costs.values(), default=1.0), self.workspace.records["op"]
        costs = {slot: self.costs.get(int(ops[slot]), guard) or 1e-9 for slot in slots or (0,)}
        total = sum(costs.values())
        return [(slot, cost / total) for slot, cost in costs.items()]

    def kept(self):
        """What is kept for the way back: slot and bytes."""
        workspace = self.workspace
        if self.backward:
            yield from ((slot, RECORD.size) for slots, *_ in self._ways() for slot in slots if slot not in workspace.arrays)
            leaves = {*workspace.tape.leaves}
            yield from ((slot, workspace.arrays[slot].nbytes) for slot in workspace.kept_roots if slot in workspace.arrays and slot > 0 and slot not in leaves)


def _of_kernel(report, function, args, kwargs, inputs, line_of):
    """What the kernel does, if there is one."""
    from ..kernel import ir

    try:
        kernel = function.kernel(*args, **kwargs)
    except UnsupportedFunctionError as why:
        report.no_kernel = str(why).partition(": ")[2].partition(" [tapegrad")[0]
        return
    report.kernel = least({"": lambda: kernel.answer(inputs)}, _PATIENCE / 4)[""]

    def count(body, times, slots):
        for statement in body:
            if isinstance(statement, ir.Loop):
                count(statement.body, times * statement.total, slots)
            else:
                operations = sum(node.op not in ("arg", "const") for node in nodes(statement.expr)) if isinstance(statement, ir.Let) else 1
                slots[statement.slot] += times * operations
        return slots

    counts = [(statement, count([statement], 1, Counter())) for statement in kernel.program.body]
    total = sum(slots.total() for _, slots in counts) or 1
    for statement, slots in counts:
        for slot, n in slots.items():
            if slot:
                line_of(kernel.whole.place(slot)).in_kernel += n / total
        if isinstance(statement, ir.Loop) and slots.total() > 0.01 * total:
            numbers = sorted({kernel.whole.place(slot).line for slot in slots if slot} - {0})
            lines = f"line {numbers[0]} says" if len(numbers) == 1 else f"lines {', '.join(map(str, numbers))} say"
            report.loops.append((slots.total() / total, f"{statement.total} iterations of what {lines}"))
    report.loops.sort(reverse=True)


attach(Transformed, {"profile": profile})
