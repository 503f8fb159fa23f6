"""`Loop`: the program of the rows ``loop`` and ``loop_pull``: a body of one or several paths, and what runs its turns.

A path is a tape with, for each of its arguments and outputs, where in which vector it lies (`program.turns`).  The loop of tangents has
the tangents of the paths, and vectors of twice the length; the way back calls the adjoints of the paths.  Both are made when they are
first asked for, and may be asked for again: any order of derivative is a loop.

The result is one vector: carry and results; then how many turns there were, the stride of what is kept, the *generation* (whether
the turns ran by the interpreter or by kernels, for what is computed again must be computed in the same way); then a byte a turn that
says which path it took, if all carries are kept; then the carries.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import numpy as np

from ...common import config
from ...common.errors import GuardError, require
from ...common.uninterrupted import cached_property, remade, uninterrupted
from ...interpreter.native import data_address
from ...kernel.reasons import NotLowered, faults_are_reasons
from ...program.trace import GUARD

#: Words at the head of what is kept: turns, stride, generation.
HEAD = 3
#: Turns that run before Python looks whether there was an interruption: as many as take about this many seconds.
PATIENCE = 0.05
#: Instructions after which the paths become kernels: about as long as it takes to compile one.
WORK = 1_000_000


class Path:
    """A tape, and where its arguments and outputs lie.

    Attributes
    ----------
    tape : FinishedTape
    inputs, outputs : list of (int, int)
        Base (`program.turns`) and offset in bytes, of each.
    constants : list of (int, int, ndarray)
        Outputs that are always the same.
    stops : bool
        Whether the loop ends after a turn on it.
    """

    def __init__(self, tape, inputs, outputs, constants, stops):
        self.tape, self.inputs, self.outputs, self.constants, self.stops = tape, inputs, outputs, constants, stops
        self.words = {}
        self._lock = remade(threading.Lock())

    @classmethod
    def of(cls, tape, inputs, outputs, constants, stops):
        """A path of outputs of which some are no slots: these are constants, zero if nothing is said."""
        kept = [(output, place) for output, place in zip(tape.outputs, outputs) if output[0]]
        fixed = [
            (*place, np.resize(np.asarray(what, np.float64), math.prod(shape)))
            for (slot, what), place, shape in zip(tape.outputs, outputs, constants) if not slot
        ]  # fmt: skip
        return cls(replace(tape, outputs=[output for output, _ in kept]), inputs, [place for _, place in kept], fixed, stops)

    def running(self, generation):
        """The words of this path by the interpreter (0) or by a kernel (1)."""
        if generation not in self.words:
            with self._lock:
                if generation not in self.words:
                    self.words[generation] = self._words(generation)
        return self.words[generation]

    def _words(self, generation):
        from ...program.replayed import Replay
        from ...program.turns import words_of

        if generation:
            with uninterrupted:
                from ...kernel.of_tape import TapeKernel
            with faults_are_reasons():
                executable = TapeKernel(self.tape, False)
        else:
            executable = Replay(self.tape, False)
            if not executable.pointer:
                raise NotLowered(executable.why)
        return words_of(executable, self.stops, self.inputs, self.outputs, self.constants)

    def tangent(self, widths):
        """The path of the tangents: values first in each vector."""
        from ...kernel.tangents import tangents

        whole = tangents(self.tape, 1, True)
        inputs = [self._twice(place, widths, 0) for place in self.inputs] + [self._twice(place, widths, 1) for place in self.inputs]
        outputs = [self._twice(place, widths, 0) for place in self.outputs] + [self._twice(place, widths, 1) for place in self.outputs]
        shapes = [meta.shape for _, meta in self.tape.outputs]
        path = Path.of(replace(whole, wanted=(True,) * len(whole.inputs)), inputs, outputs, shapes + shapes, self.stops)
        for base, offset, array in self.constants:
            at = self._twice((base, offset), widths, 0)[1]
            path.constants += [(base, at, array), (base, at + 8 * widths[base], np.zeros_like(array))]
        return path

    @staticmethod
    def _twice(place, widths, which):
        """A place among values, or the same among tangents."""
        base, offset = place
        return base, offset + which * 8 * widths[base]

    def adjoint(self, bars):
        """The path of the adjoints; `bars` says which base has the adjoints of each."""
        from ...kernel.adjoint import adjoint

        tape, marks = self.tape, self.tape.active
        whole = adjoint(tape, 1, True)
        seeded = [place for (slot, _), place in zip(tape.outputs, self.outputs) if marks[slot]]
        inputs = [*self.inputs, *((bars[base], offset) for base, offset in seeded)]
        outputs = [(bars[base], offset) for base, offset in self.inputs]
        whole = replace(whole, guards=[], items=[item for item in whole.items if item.entry.kind != GUARD])
        return Path.of(whole, inputs, outputs, [meta.shape for meta in tape.inputs], False)


class Loop:
    """A loop whose body is recorded.

    Parameters
    ----------
    carry, captured, element, result : int
        Lengths of the vectors.
    rows : int
        Number of turns; 0 if a path ends the loop.
    bounded : bool
        Whether the number of turns is known.
    reverse : bool
        Whether it goes along arrays from the end.
    capacity, room : int
        Carries that are kept for the way back, and of those that are computed again at a time.
    name : str
        Of the body, in messages.

    Attributes
    ----------
    paths : list of Path
    size : int
        Of the result.
    """

    def __init__(self, carry, captured, element, result, rows, bounded, reverse, capacity, room, name):
        self.carry, self.captured, self.element, self.result, self.rows = carry, captured, element, result, rows
        self.bounded, self.reverse, self.capacity, self.room, self.name = bounded, reverse, capacity, room, name
        self.paths, self.work, self.generation = [], 0, 0
        self.outputs = carry + rows * result
        self.size = self.outputs + HEAD + -(-capacity // 8) + capacity * carry

    def __repr__(self):
        turns = f"{self.rows} turns" if self.bounded else "turns until a condition"
        lengths = ", ".join(str(len(path.tape)) for path in self.paths)
        return f"<loop of {self.name}: {turns}, {len(self.paths)} paths of {lengths} instructions, carries {self.carry} numbers>"

    # -- derivatives ------------------------------------------------------------------
    @cached_property
    def tangent(self):
        """The loop of the body's tangents."""
        return _Tangent(self)

    def all_paths(self):
        """The paths there are."""
        return self.paths

    @cached_property
    def _adjoints(self):
        return []

    def adjoints(self):
        """The adjoints of the paths."""
        from ...program import turns as T

        bars = {T.NEXT: T.NEXT_BAR, T.RESULT: T.RESULT_BAR, T.CARRY: T.CARRY_BAR, T.ELEMENT: T.ELEMENT_BAR, T.CAPTURED: T.CAPTURED_BAR}
        paths = self.all_paths()
        while len(self._adjoints) < len(paths):
            self._adjoints.append(paths[len(self._adjoints)].adjoint(bars))
        return self._adjoints

    # -- running ----------------------------------------------------------------------
    def run(self, carry, captured, xs, meet=None):
        """The result.

        Parameters
        ----------
        carry, captured, xs : ndarray
            Vectors, and a row for each turn.
        meet : callable, optional
            ``meet(carry, turn)`` is called where no path's guards hold, and adds one; returns the captured values.

        Raises
        ------
        GuardError
            No path's guards hold.
        """
        from ...program import turns as T

        z = np.zeros(self.size)
        while True:
            generation = self._generation(self.rows * self.instructions())
            run = _Run(self, generation, carry, captured, xs, z)
            begun = self.work
            while True:
                why = run.advance(self.rows if self.bounded else None)
                if why == T.NO_PATH:
                    if meet is None:
                        raise GuardError(f"{self.name} takes a path in turn {run.turn} that was not recorded")
                    run.add(meet(run.carry(), run.turn))
                    continue
                require(why != T.UNKNOWN, "a turn of a loop has failed")
                if why == T.STOPPED or self.bounded and run.turn == self.rows:
                    self.work = begun + run.turn * self.instructions()
                    return run.finished()
                self.work = begun + run.turn * self.instructions()
                if self._generation(0) != generation:
                    # Once more, and faster.
                    break

    def instructions(self):
        """How long a turn is, about."""
        return 20 + max((len(path.tape) for path in self.all_paths()), default=0)

    def _generation(self, work):
        """Whether kernels run the turns, of so many instructions more."""
        if not self.generation and self.all_paths():
            try:
                for path in self.all_paths():
                    path.running(0)
                wanted = self.work + work > WORK and config.kernel != "never"
            except NotLowered:
                # Something that the interpreter would leave to Python.
                wanted = True
            if wanted:
                for path in self.all_paths():
                    path.running(1)
                self.generation = 1
        return self.generation

    def pull(self, seeds, carry, captured, xs, z):
        """The adjoints of carry, captured values and elements, in one vector."""
        return _Pull(self, seeds, carry, captured, xs, z).run()


class _Tangent(Loop):
    """The loop of the tangents of another one, whose paths come and go with those."""

    def __init__(self, of):
        super().__init__(
            2 * of.carry, 2 * of.captured, 2 * of.element, 2 * of.result, of.rows, of.bounded, of.reverse, of.capacity, of.room, of.name
        )
        self.of = of

    def all_paths(self):
        from ...program import turns as T

        of, paths = self.of, self.of.all_paths()
        widths = {T.CARRY: of.carry, T.NEXT: of.carry, T.ELEMENT: of.element, T.CAPTURED: of.captured, T.RESULT: of.result}
        while len(self.paths) < len(paths):
            self.paths.append(paths[len(self.paths)].tangent(widths))
        return self.paths


class _Turns:
    """The words of a run of compiled code, and the arrays that they point to."""

    def __init__(self, loop, generation, captured, xs):
        from ...program import turns as T

        self.T, self.loop, self.generation = T, loop, generation
        self.words = np.zeros(T.WORDS, np.int64)
        self.address, self.kept = data_address(self.words), {}
        self.set(T.T_WIDTH, 8 * loop.carry)
        self.captured(captured)
        self.along(T.T_XS, T.T_XSTEP, np.ascontiguousarray(xs), loop.element)

    def set(self, word, value):
        self.words[word] = value

    def point(self, word, array):
        """Let a word be the address of an array."""
        self.kept[word] = array
        self.words[word] = data_address(array) if array.size else 0

    def captured(self, values):
        self.point(self.T.T_CAPTURED, np.ascontiguousarray(values))

    def along(self, word, step, array, width):
        """Let a word be the address of the first row to go along, and another one the step."""
        self.point(word, array)
        self.words[step] = -8 * width if self.loop.reverse else 8 * width
        if self.loop.reverse and self.loop.rows:
            self.words[word] += 8 * width * (self.loop.rows - 1)

    def over(self, paths):
        """Run on these paths."""
        parts = [path.running(self.generation) for path in paths]
        table = np.array([data_address(words) for words, *_ in parts], np.int64)
        longest = max((len(words) for words, *_ in parts), default=1)
        self.set(self.T.T_PATHS, len(parts))
        self.point(self.T.T_TABLE, table)
        self.point(self.T.T_SCRATCH, np.zeros(longest + 2, np.int64))
        self.kept["paths"] = parts


class _Run(_Turns):
    """Turns forward."""

    def __init__(self, loop, generation, carry, captured, xs, z, start=0, capacity=None, stride=None):
        super().__init__(loop, generation, captured, xs)
        T, self.z = self.T, z
        capacity = loop.capacity if capacity is None else capacity
        self.rows = np.zeros((2, loop.carry))
        self.rows[start & 1] = carry
        self.point(T.T_ROWS, self.rows)
        self.set(T.T_TURN, start)
        self.set(T.T_START, start)
        self.set(T.T_CAPACITY, capacity)
        self.set(T.T_STRIDE, stride or (max(1, -(-loop.rows // capacity)) if capacity and loop.bounded else 1))
        if z is not None:
            results = z[loop.carry : loop.outputs]
            self.log, self.store = kept_in(loop, z)
            self.along(T.T_YS, T.T_YSTEP, results, loop.result)
        else:
            self.log, self.store = np.zeros(capacity, np.uint8), np.zeros((capacity, loop.carry))
            self.along(T.T_YS, T.T_YSTEP, np.zeros(loop.rows * loop.result), loop.result)
        self.point(T.T_LOG, self.log)
        self.point(T.T_STORE, self.store)
        self.set(T.T_LOGGED, capacity)
        self.over(loop.all_paths())
        self.chunk = 1000

    @property
    def turn(self):
        return int(self.words[self.T.T_TURN])

    def carry(self):
        """The carry before the next turn."""
        return self.rows[self.turn & 1]

    def add(self, captured):
        """There is one more path."""
        self.captured(captured)
        self.over(self.loop.all_paths())
        self.set(self.T.T_RECENT, len(self.loop.all_paths()) - 1)

    def advance(self, limit):
        """Some turns more; returns why these have ended."""
        T, start, began = self.T, self.turn, time.perf_counter()
        if not self.words[T.T_PATHS]:
            return T.NO_PATH if limit is None or start < limit else T.MORE
        self.set(T.T_LIMIT, start + self.chunk if limit is None else min(limit, start + self.chunk))
        why = T.advance(self.address)
        if time.perf_counter() - began < PATIENCE / 2:
            self.chunk *= 2
        return why

    def finished(self):
        """The whole result."""
        loop, z, T = self.loop, self.z, self.T
        z[: loop.carry] = self.carry()
        z[loop.outputs : loop.outputs + HEAD] = self.turn, self.words[T.T_STRIDE], self.generation
        return z


def kept_in(loop, z):
    """What is kept for the way back in a result: paths of turns, and carries."""
    at = loop.outputs + HEAD
    words = -(-loop.capacity // 8)
    return z[at : at + words].view(np.uint8), z[at + words :].reshape(loop.capacity, loop.carry)


class _Pull(_Turns):
    """Turns on the way back."""

    def __init__(self, loop, seeds, carry, captured, xs, z):
        head = z[loop.outputs : loop.outputs + HEAD]
        self.count, self.stride, generation = map(int, head)
        fine = 0 <= self.count and 0 < self.stride and generation in (0, 1) and (not loop.bounded or self.count == loop.rows)
        require(fine and (self.stride > 1 or not loop.capacity or self.count <= loop.capacity), "what a loop has kept was changed")
        super().__init__(loop, generation, captured, xs)
        T = self.T
        self.start, self.xs, self.values, self.z = carry, xs, captured, z
        self.result = np.zeros(loop.carry + loop.captured + loop.rows * loop.element)
        self.sums = self.result[loop.carry : loop.carry + loop.captured]
        self.adjoints = np.zeros((2, loop.carry))
        self.adjoints[self.count & 1] = seeds[: loop.carry]
        self.part = np.zeros(loop.captured)
        self.point(T.T_ADJOINTS, self.adjoints)
        self.point(T.T_SUMS, self.sums)
        self.point(T.T_PART, self.part)
        self.set(T.T_COUNT, loop.captured)
        # The step is that of the elements and of the results.
        self.along(T.T_YBAR, T.T_YSTEP, np.ascontiguousarray(seeds[loop.carry :]), loop.result)
        self.along(T.T_XBAR, T.T_XSTEP, self.result[loop.carry + loop.captured :], loop.element)

    def run(self):
        loop = self.loop
        self.over(loop.adjoints())
        log, store = kept_in(loop, self.z)
        if not loop.capacity:
            self.between(0, self.count, self.start)
        elif self.stride == 1:
            self.back(0, self.count, log, store)
        else:
            for k in reversed(range(-(-self.count // self.stride))):
                self.between(k * self.stride, min(self.count, (k + 1) * self.stride), store[k])
        self.result[: loop.carry] = self.adjoints[0]
        return self.result

    def between(self, low, high, carry):
        """The way back over turns whose carries are computed again, in several stretches if there are many."""
        stride = -(-(high - low) // self.loop.room)
        rows = -(-(high - low) // stride)
        run = _Run(self.loop, self.generation, carry, self.values, self.xs, None, low, rows, stride)
        while run.turn < high:
            why = run.advance(high)
            require(why in (self.T.MORE, self.T.STOPPED), "turns of a loop were computed again, and took another path")
        if stride == 1:
            self.back(low, high, run.log, run.store)
            return
        for k in reversed(range(rows)):
            self.between(low + k * stride, min(high, low + (k + 1) * stride), run.store[k])

    def back(self, low, high, log, store):
        """The way back over turns whose carries are kept."""
        T = self.T
        self.point(T.T_LOG, log)
        self.point(T.T_STORE, store)
        while high > low:
            start = max(low, high - (1 << 16))
            self.set(T.T_TURN, start)
            self.set(T.T_LIMIT, high)
            self.set(T.T_LOG, data_address(log) + start - low)
            self.set(T.T_STORE, data_address(store) + 8 * self.loop.carry * (start - low))
            require(T.pull(self.address) == T.MORE, "the adjoint of a turn of a loop has failed")
            high = start
