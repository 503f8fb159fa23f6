"""Loops in files: plain numbers, and the tape of each path as the bytes of a file of its own.

A header has the loops of a tape one after the other, and attributes are their numbers, so that the instructions that shared one share
it again.  A loop of tangents is the number of the one that it is of: its paths are made again.

Compiled code believes what a loop says (`program.iterations`): that what a path reads and writes lies within the vectors, and that iterations
end.  Here that is shown.
"""

import math
from dataclasses import replace

import numpy as np

from ...common.errors import TapeFileError
from ...common.tree import LEAF, Structure
from ...rules.loops import CAPTURED, CARRY, ELEMENT, IN_ROWS, NEXT, RESULT
from ...tape.layout import SCALAR
from .archive import MAX_BYTES, need, typed

#: Loops inside of loops, and tangents of tangents, in a file; paths, whose numbers are one byte.
DEPTH, TIMES, PATHS = 16, 8, 128
#: The types of a path: its file, places of arguments and results, constants with their places, whether it stops.
_PATH = int, [(int, int)], [(int, int)], [(int, int, int)], bool


class LoopWriter:
    """The loops of a tape that is written, as JSON, in `written`."""

    def __init__(self, arrays, depth, to_bytes):
        self.arrays, self.depth, self.to_bytes = arrays, depth, to_bytes
        self.written, self._numbers = [], {}

    def number(self, loop):
        """The number of a loop, which is written if it is not yet."""
        if loop not in self._numbers:
            if self.depth == DEPTH:
                raise TapeFileError(f"files have no more than {DEPTH} loops inside of each other")
            # What it is of comes first.
            what = self._loop(loop) if loop.of is None else self.number(loop.of)
            self._numbers[loop] = len(self.written)
            self.written.append(what)
        return self._numbers[loop]

    def _loop(self, loop):
        # As who reads it with the usual limit has it.
        room = min(loop.room, MAX_BYTES // (8 * loop.carry + 1))
        lengths = [loop.carry, loop.captured, loop.element, loop.result, loop.rows, loop.capacity, loop.dense, room]
        return [list(map(int, lengths)), bool(loop.bounded), bool(loop.reverse), loop.name, [self._path(path) for path in tuple(loop.paths)]]

    def _path(self, path):
        count = len(path.tape.outputs)
        tape = replace(path.tape, structure=Structure(list, tuple(range(count)), (LEAF,) * count))
        constants = [[base, offset, self._array(array)] for base, offset, array in path.constants]
        data = np.frombuffer(self.to_bytes(tape, self.depth + 1), np.uint8)
        return [self._array(data), list(map(list, path.inputs)), list(map(list, path.outputs)), constants, path.stops]

    def _array(self, array):
        self.arrays.append(array)
        return len(self.arrays) - 1


class Reader:
    """The loops of a tape that is read.

    Attributes
    ----------
    nbytes : int
        Bytes that their tapes take.
    """

    def __init__(self, written, arrays, limit, depth, from_bytes):
        need(not written or depth < DEPTH, f"more than {DEPTH} loops inside of each other")
        self.arrays, self.limit, self.depth, self.from_bytes = arrays, limit, depth, from_bytes
        self.nbytes, self._taken, self._loops, self._costs = 0, set(), [], []
        for what in written:
            self._add(what)

    def loop(self, number):
        """The loop of a number."""
        need(type(number) is int and 0 <= number < len(self._loops), f"the loop {number!r}")
        return self._loops[number]

    def _add(self, what):
        if type(what) is int:
            loop, (cost, times) = self.loop(what).tangent, self._costs[what]
            # Each time there is up to three times as much to do.
            cost, times = 3 * cost, times + 1
            need(times <= TIMES, "tangents of that many tangents")
        else:
            before = self.nbytes
            loop = self._loop(what)
            cost, times = self.nbytes - before, 0
        need(cost <= self.limit, f"the paths of a loop take {cost} bytes; the limit, max_bytes, is {self.limit}")
        self._loops.append(loop)
        self._costs.append((cost, times))

    def _loop(self, what):
        from ..loops.loop import RecordedLoop

        lengths, bounded, reverse, name, paths = typed(what, ((int,) * 8, bool, bool, str, [_PATH]))
        need(min(lengths) >= 0 and 0 < len(paths) <= PATHS, "the paths of a loop")
        carry, captured, element, result, rows, capacity, dense, room = lengths
        need(bounded or not (element or result or rows or dense or reverse), "a loop of no known number of iterations that goes along arrays")
        need(rows <= self.limit, f"a loop of {rows} iterations; the limit, max_bytes, is {self.limit}")
        # All carries from the iteration `dense` on are kept.
        need(dense <= rows and rows - dense <= capacity or not bounded, "carries that are kept")
        # Of what is computed again at a time.
        room = min(room, self.limit // (8 * carry + 1))
        loop = RecordedLoop(carry, captured, element, result, rows, bounded, reverse, capacity, dense, room, name)
        widths = {CARRY: carry, ELEMENT: element, CAPTURED: captured}, {NEXT: carry, RESULT: result}
        loop.paths += [self._path(path, *widths, rows) for path in paths]
        need(any(path.stops for path in loop.paths) != bounded, "a loop that does not end as it says")
        return loop

    def _path(self, what, read, written, rows):
        from ..loops.loop import LoopPath

        data, inputs, outputs, constants, stops = what
        tape = self.from_bytes(self._array(data, "B").tobytes(), self.limit - self.nbytes, self.depth + 1)
        self.nbytes += tape.nbytes_of_values
        need(all(tape.wanted) and all(slot for slot, _ in tape.outputs), "the tape of a path")
        need(len(inputs) == len(tape.inputs) and len(outputs) == len(tape.outputs), "arguments and results of a path")
        inputs = [self._place(place, meta, read, rows) for place, meta in zip(inputs, tape.inputs)]
        width = read[ELEMENT]
        need(not width or ((ELEMENT, 0), width) in [(place, meta.size) for place, meta in zip(inputs, tape.inputs)], "a path that leaves elements out")
        ends = [(*self._place(place, meta, written, rows), meta.size) for place, (_, meta) in zip(outputs, tape.outputs)]
        fixed = []
        for base, offset, number in constants:
            array = self._array(number, "d")
            fixed.append((*self._place([base, offset], array, written, rows), array))
            ends.append((base, offset, array.size))
        # What a path gives is all of both vectors, side by side.
        for base, width in written.items():
            at = 0
            for _, offset, size in sorted(end for end in ends if end[0] == base and end[2]):
                need(offset == 8 * at * (rows if base in IN_ROWS else 1), "a path that leaves part of its results out, or writes it twice")
                at += size
            need(at == width, "a path that leaves part of its results out")
        return LoopPath(tape, inputs, [end[:2] for end in ends[: len(outputs)]], fixed, stops)

    def _array(self, number, char):
        """An array of bytes or numbers that is shared with nothing."""
        need(0 <= number < len(self.arrays) and number not in self._taken, f"the array {number!r}")
        self._taken.add(number)
        array = self.arrays[number]
        need(array.dtype.char == char and array.flags.c_contiguous, f"an array of {array.dtype} in a path")
        return array

    @staticmethod
    def _place(place, what, widths, rows):
        """Where an argument or a result (a description or an array) lies: within its vector, in each row."""
        base, offset = place
        need(what is SCALAR or what.dtype == np.float64, "a part of a vector that is not of float64")
        size, times = math.prod(what.shape), rows if base in IN_ROWS else 1
        need(base in widths and offset >= 0 and offset % 8 == 0 and offset + 8 * size * times <= 8 * widths[base] * times, f"the place {place} in a vector")
        return base, offset
