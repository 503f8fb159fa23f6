"""`RecordedLoop`: the program of the rows ``loop`` and ``loop_pull``: a body of one or several paths, and what runs its iterations.

A path is a tape with, for each of its arguments and outputs, where in which vector it lies (`program.iterations`).  The loop of tangents has
the tangents of the paths, and vectors of twice the length; the way back calls the adjoints of the paths.  Both are made when they are
first asked for, and may be asked for again: any order of derivative is a loop.

The result is one vector: carry and results; then how many iterations there were, the stride of what is kept, the *generation* (whether
the iterations ran by the interpreter or by kernels, for what is computed again must be computed in the same way); then a byte an iteration that
says which path it took, if all carries are kept; then the carries.
"""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from functools import cache

import numpy as np

from ...codegen.compile import plain_address
from ...codegen.memory import spread_address
from ...common import config
from ...common.errors import GradientError, GuardError, require
from ...common.uninterrupted import cached_property, remade, uninterrupted
from ...kernel.reasons import NotLowered, faults_are_reasons
from ...program.trace import GUARD, ROW
from ...rules import loops as V

#: Instructions after which the paths become kernels: about as long as it takes to compile one.
WORK = 1_000_000


@cache
def _compiled():
    """What runs iterations: compiled code, which the loop of a file that is merely loaded does without."""
    from ...codegen.python_api import data_address
    from ...program import iterations, stretch

    return iterations, stretch, data_address


class LoopPath:
    """A tape, and where its arguments and outputs lie.

    Attributes
    ----------
    tape : FinishedTape
    inputs, outputs : list of (int, int)
        Base (`program.iterations`) and offset in bytes, of each, in the first row.
    constants : list of (int, int, ndarray)
        Outputs that are always the same.
    stops : bool
        Whether the loop ends after an iteration on it.
    sums : tuple of (int, int, int)
        Of an adjoint: where the adjoints of captured values of one iteration lie, where their sums are, and how many there are.
    """

    sums: tuple[tuple[int, int, int], ...] = ()

    def __init__(self, tape, inputs, outputs, constants, stops):
        self.tape, self.inputs, self.outputs, self.constants, self.stops = tape, inputs, outputs, constants, stops
        #: What is laid out of it: executables by generation, paths of tangents by widths, the path of adjoints (`running.path_of`).
        self.layouts = {}
        #: All that it computes, if that can be said (`running.path_of`).
        self.key = None

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
        """The words of this path by the interpreter (0) or by a kernel (1), and what they refer to, to be kept."""
        from ...program.stretch import iterations

        executable = self._laid_out(self._executable, generation)
        constants, address = self.constants, executable.iterations if generation else plain_address(iterations)
        inputs, outputs, fixed = self._places()
        fixed = [(*place, array.ctypes.data if array.size else 0) for place, (*_, array) in zip(fixed, constants)]
        words = [executable.pointer, address, self.stops]
        for part in (inputs, outputs, fixed, self.sums):
            words += [len(part), *sum(part, ())]
        return np.array(words, np.int64), executable, constants

    def _laid_out(self, make, *arguments):
        """What `make`, a method, gives of arguments: made once."""
        key = make.__name__, *arguments
        layout = self.layouts.get(key)
        if layout is None:
            layout = self.layouts[key] = make(*arguments)
        return layout

    def _places(self):
        """As `kernel.emit.IterationLayout` has those of inputs, outputs and constants."""

        def place(base, offset, what):
            return base, offset, 8 * what.size if base in V.IN_ROWS else 0

        inputs = tuple(place(*where, meta) for where, meta in zip(self.inputs, self.tape.inputs))
        outputs = tuple(place(*where, meta) for where, (_, meta) in zip(self.outputs, self.tape.outputs))
        return inputs, outputs, tuple((*place(*constant), constant[2].nbytes) for constant in self.constants)

    def _executable(self, generation):
        from ...program.replayed import Replay

        if generation:
            with uninterrupted:
                from ...kernel.emit import CompileOptions, IterationLayout
                from ...kernel.kernel import TapeKernel
            iterations = IterationLayout(*self._places(), self.sums)
            with faults_are_reasons():
                return TapeKernel(replace(self.tape, of_iteration=True), False, CompileOptions(iterations=iterations))
        # Only values: the way back is the path of the adjoints.
        executable = Replay(replace(self.tape, forward_only=True, of_iteration=True), False)
        if not executable.pointer:
            raise NotLowered(executable.why)
        return executable

    def tangent(self, widths):
        """The path of the tangents: values first in each vector."""
        return self._laid_out(self._tangent, tuple(widths.items()))

    def _tangent(self, widths):
        from ...kernel.adjoint import tangents

        whole, widths = tangents(self.tape, 1, True), dict(widths)
        inputs, outputs = ([self._twice(place, widths, which) for which in (0, 1) for place in places] for places in (self.inputs, self.outputs))
        shapes = [meta.shape for _, meta in self.tape.outputs]
        path = LoopPath.of(replace(whole, wanted=(True,) * len(whole.inputs)), inputs, outputs, shapes + shapes, self.stops)
        for base, offset, array in self.constants:
            at = self._twice((base, offset), widths, 0)[1]
            path.constants += [(base, at, array), (base, at + 8 * widths[base], np.zeros_like(array))]
        return path

    @cached_property
    def instructions(self):
        """How long an iteration on it is, about, with the iterations of loops in it."""
        inner = [program for item in self.tape.items if (program := _program_run_by(item)) is not None]
        return 20 + len(self.tape) + sum((p.rows if p.bounded else p.iterations) * p.instructions() for p in inner)

    @staticmethod
    def _twice(place, widths, which):
        """A place among values, or the same among tangents."""
        base, offset = place
        return base, offset + which * 8 * widths[base]

    def adjoint(self):
        """The path of the adjoints."""
        return self._laid_out(self._pulled)

    def _pulled(self):
        from ...kernel.adjoint import adjoint

        tape, marks = self.tape, self.tape.active
        whole = adjoint(tape, 1, True)
        seeded = [place for (slot, _), place in zip(tape.outputs, self.outputs) if marks[slot]]
        inputs = [*self.inputs, *((V.BARS[base], offset) for base, offset in seeded)]
        outputs, sums, at = [], [], 0
        for (base, offset), meta in zip(self.inputs, tape.inputs):
            outputs.append((V.BARS[base], offset if base != V.CAPTURED else at))
            if base == V.CAPTURED:
                # What has been captured twice has two adjoints.
                sums.append((at, offset, math.prod(meta.shape)))
                at += 8 * sums[-1][2]
        whole = replace(whole, guards=[], items=[item for item in whole.items if item.entry.kind != GUARD])
        path = LoopPath.of(whole, inputs, outputs, [meta.shape for meta in tape.inputs], False)
        # (What has no elements is where the next one begins.)
        nothing = {offset for base, offset, array in path.constants if base == V.CAPTURED_BAR and array.size and not array.any()}
        path.constants = [constant for constant in path.constants if constant[0] != V.CAPTURED_BAR or constant[1] not in nothing]
        path.sums = tuple(part for part in sums if part[0] not in nothing and part[2])
        return path


class RecordedLoop:
    """A loop whose body is recorded.

    Parameters
    ----------
    carry, captured, element, result : int
        Lengths of the vectors.
    rows : int
        Number of iterations; 0 if a path ends the loop.
    bounded : bool
        Whether the number of iterations is known.
    reverse : bool
        Whether it goes along arrays from the end.
    capacity, dense, room : int
        Carries that are kept for the way back, the iteration from which on all are kept, and of those that are computed again at a time.
    name : str
        Of the body, in messages.

    Attributes
    ----------
    paths : list of LoopPath
    size : int
        Of the result.
    of : RecordedLoop or None
        Whose tangents it is of.
    """

    of = None
    #: How many there were when Python ran it last.
    iterations = 0

    def __init__(self, carry, captured, element, result, rows, bounded, reverse, capacity, dense, room, name):
        self.carry, self.captured, self.element, self.result, self.rows = carry, captured, element, result, rows
        self.bounded, self.reverse, self.capacity, self.dense, self.room, self.name = bounded, reverse, capacity, dense, room, name
        self.paths, self._adjoints, self.lock = [], [], remade(threading.RLock())
        #: Tables that compiled code has been told, which may still be in use.
        self._kept = []
        #: Whether there was a way back: a caller by address finds it prepared.
        self.backward = False
        #: What records a path that is met in a replay (`run`).
        self.later = self._refuse
        #: Whether iterations are for themselves (`program.iterations`).
        self.independent = bool(bounded and not carry and not dense)
        self.outputs = carry + rows * result
        self.size = self.outputs + V.HEAD + -(-(rows - dense if bounded else capacity) // 8) + capacity * carry

    def __repr__(self):
        iterations = f"{self.rows} iterations" if self.bounded else "iterations until a condition"
        lengths = ", ".join(str(len(path.tape)) for path in self.paths)
        return f"<loop of {self.name}: {iterations}, {len(self.paths)} paths of {lengths} instructions, carries {self.carry} numbers>"

    def _refuse(self, carry, iteration, captured, xs):
        raise GuardError(f"{self.name} takes a path in iteration {iteration} that was not recorded; record the function at this point")

    # -- derivatives ------------------------------------------------------------------
    @cached_property
    def tangent(self):
        """The loop of the body's tangents."""
        return _Tangent(self)

    def all_paths(self):
        """The paths there are."""
        return self.paths

    def adjoints(self):
        """The adjoints of the paths."""
        paths = self.all_paths()
        with self.lock:
            while len(self._adjoints) < len(paths):
                self._adjoints.append(paths[len(self._adjoints)].adjoint())
        return self._adjoints

    # -- running ----------------------------------------------------------------------
    @cached_property
    def words(self):
        """The words of this loop, for compiled code."""
        T = _compiled()[0]
        words = np.zeros(T.LOOP_WORDS, np.int64)
        words[: T.S_GENERATION] = (
            self.carry, self.captured, self.element, self.result, self.rows, self.bounded, self.reverse, self.capacity, self.dense,
            max(2, self.room),
        )  # fmt: skip
        words[T.S_INTERRUPT], words[T.S_BETWEEN] = id(KeyboardInterrupt), plain_address(T.back_between)
        if self.independent:
            words[T.S_CHUNK], words[T.S_CHUNKS] = plain_address(T.chunk), T.chunks_of(self.rows, self.captured)
        return words

    def prepared(self, work=0, always=False, back=False):
        """The address of the words, for a run of so many instructions: with kernels, if there is enough to do, or `always`.

        Raises
        ------
        NotLowered
            Neither the interpreter nor a kernel can run the body.
        """
        T = _compiled()[0]
        with self.lock:
            paths, words = self.all_paths(), self.words
            words[T.S_CAPTURED] = self.captured
            if paths and not words[T.S_GENERATION]:
                enough = always or work + int(words[T.S_ITERATIONS]) * self.instructions() > WORK
                if not (enough and config.kernel != "never"):
                    try:
                        self._table(0, False, paths)
                    except NotLowered:
                        # Something that the interpreter would leave to Python.
                        enough = True
                if enough:
                    self._table(1, False, paths)
                    words[T.S_GENERATION] = 1
            self._table(int(words[T.S_GENERATION]), False, paths)
            self.backward = self.backward or back
            if self.backward:
                for generation in (0, 1):
                    if words[T.S_TABLES + 2 * T.TABLE * generation]:
                        self._table(generation, True, self.adjoints())
            # (Workspaces of the interpreter are for one thread.)
            if self.independent and words[T.S_GENERATION] and not words[T.S_SHARE] and self.rows * self.numbers() > T.WORK:
                words[T.S_SHARE] = spread_address()
            # A caller that has the address of a loop of tangents does not ask again for paths that were added since.
            tangent = self.__dict__.get("tangent")
            if tangent is not None and "words" in tangent.__dict__:
                tangent.prepared()
        return words.ctypes.data

    def resume(self, z):
        """Prepare the way back over what was kept in another process, if kernels ran the iterations there."""
        if z[self.outputs + 2] == 1.0:
            self.prepared(always=True, back=True)

    def call(self, name, compiled):
        """What calls a row of this loop from machine code, and whether that is a kernel's."""
        return LoopCall(name, self, compiled)

    def _table(self, generation, back, paths):
        """Let compiled code find these paths."""
        from ...program import iterations as T

        at = T.S_TABLES + T.TABLE * (2 * generation + back)
        if self.words[at] == len(paths):
            return
        parts = [_running(path, generation, back) for path in paths]
        table = np.array([words.ctypes.data for words, *_ in parts], np.int64)
        self._kept.append((parts, table))
        # Who runs meanwhile sees the old paths: the new table begins with them.
        self.words[at + 1] = table.ctypes.data if len(table) else 0
        # As many words as a path has are enough for its tables; and the adjoints of captured values have to find room.
        sizes = [len(words) for words, *_ in parts] + [begin // 8 + length for path in paths for begin, _, length in path.sums]
        self.words[at + 2] = max(sizes, default=1) + 2
        self.words[at] = len(paths)

    def instructions(self):
        """How long an iteration is, about."""
        return max((path.instructions for path in self.all_paths()), default=20)

    def numbers(self):
        """How many numbers an iteration computes, about; loops in it take a thousand iterations if it is not known how many."""
        return max((sum(_numbers(item, path.tape) for item in path.tape.items) + len(path.tape) for path in self.all_paths()), default=0)

    def run(self, carry, captured, xs, meet=None):
        """The result.

        Parameters
        ----------
        carry, captured, xs : ndarray
            Vectors, and a row for each iteration.
        meet : callable, optional
            ``meet(carry, iteration, captured, xs)`` is called where no path's guards hold, and adds one; returns the captured values.
            Without, `later` is asked.

        Raises
        ------
        GuardError
            No path's guards hold.
        """
        T, R, data_address = _compiled()
        z, (carry, captured, xs) = np.zeros(self.size), map(_float64, (carry, captured, xs))
        if self.independent:
            return self._run_lanes(captured, xs, z, meet or self.later)
        iteration, why, work = 0, R.MORE, self.rows * self.instructions()
        # Of a run that has met a path that it did not know.
        block, before, generation = None, None, -1
        while why != R.STOPPED and (not self.bounded or iteration < self.rows):
            if block is None:
                # Another thread may meet a path at any time; a block has room for those that there were.
                with self.lock:
                    words = self.prepared(work)
                    if self.words[T.S_GENERATION] != generation:
                        # From the beginning: what is computed again must come out the same.
                        generation, iteration, before = int(self.words[T.S_GENERATION]), 0, None
                    block = np.zeros(T.room(words, generation), np.int64)
                    p = data_address(block)
                    T.begin(p, words, generation, *map(data_address, (carry, captured, xs, z)))
                if before is not None:
                    rows = slice(R.RUN_WORDS, R.RUN_WORDS + 2 * self.carry)
                    block[rows] = before[rows]
                    block[[R.T_ITERATION, R.T_KEPT, R.T_STRIDE]] = before[[R.T_ITERATION, R.T_KEPT, R.T_STRIDE]]
                    block[R.T_RECENT] = block[R.T_PATHS] - 1
            block[R.T_LIMIT] = min(self.rows, iteration + T.CHUNK) if self.bounded else iteration + T.CHUNK
            why = R.advance(p)
            iteration = int(block[R.T_ITERATION])
            if why == R.NO_PATH:
                at = R.RUN_WORDS + (iteration & 1) * self.carry
                captured = _float64((meet or self.later)(block[at : at + self.carry].view(np.float64), iteration, captured, xs))
                block, before = None, block
            elif why == R.UNKNOWN:
                raise GradientError(f"{self.name} has failed in iteration {iteration}")
            elif generation == 0 and not self.bounded and iteration * self.instructions() > WORK and config.kernel != "never":
                block, work = None, iteration * self.instructions()
        if block is None:
            block = before
        T.end(data_address(block), words, generation, data_address(z))
        self.iterations = iteration
        # A tape keeps it as it is.
        z.flags.writeable = False
        return z

    def _run_lanes(self, captured, xs, z, meet):
        T, R, data_address = _compiled()
        generation, job, why = -1, None, R.NO_PATH
        while why in (R.NO_PATH, R.INTERRUPTED):
            words = self.prepared(self.rows * self.instructions())
            if self.words[T.S_GENERATION] != generation:
                generation = int(self.words[T.S_GENERATION])
                job = np.zeros(T.J_STATES + T.STATE * int(self.words[T.S_CHUNKS]), np.int64)
                job[T.J_LOOP], job[T.J_GENERATION] = words, generation
                T.begin_job(data_address(job))
            job[[T.J_CAPTURED, T.J_XS, T.J_Z]] = [*map(data_address, (captured, xs, z))]
            why = T.run(data_address(job)) if self.paths else R.NO_PATH
            if why == R.NO_PATH:
                # The first iteration of all whose path is not known.
                states = job[T.J_STATES :].reshape(-1, T.STATE)
                iteration = int(states[np.argmax(states[:, 1] == R.NO_PATH), 0])
                captured = _float64(meet(np.zeros(0), iteration, captured, xs))
        if why == R.NO_MEMORY:
            raise MemoryError(f"there is no memory for the iterations of {self.name}")
        if why != R.MORE:
            failed = min(int(iteration) for iteration, ended in job[T.J_STATES :].reshape(-1, T.STATE) if ended == why)
            raise GradientError(f"{self.name} has failed in iteration {failed}")
        T.end_job(data_address(job), data_address(z))
        z.flags.writeable = False
        return z

    def pull(self, seeds, carry, captured, xs, z):
        """The adjoints of carry, captured values and elements, in one vector."""
        T, R, data_address = _compiled()
        result = np.zeros(self.carry + self.captured + self.rows * self.element)
        operands = [_float64(x) for x in (seeds, carry, captured, xs, z)]
        why = T.back(self.prepared(back=True), *map(data_address, operands), data_address(result))
        if why == R.NO_MEMORY:
            raise MemoryError(f"the way back of {self.name} computes carries again, and there is not enough memory for them; give memory=, in bytes")
        require(why == R.MORE, "the way back of a loop has failed")
        return result


class LoopCall:
    """A row that runs a loop, for the planners: the loop of a ufunc in machine code."""

    def __init__(self, name, program, compiled):
        self.name, self.program, self.compiled = name, program, compiled

    def address(self):
        """The address of the machine code; in a kernel the paths are kernels, too."""
        T = _compiled()[0]
        self.program.prepared(always=self.compiled, back=self.name == "loop_pull")
        return plain_address(T.back_call if self.name == "loop_pull" else T.forward_call)

    def data(self):
        """The address of what it is told."""
        return self.program.words.ctypes.data


def _running(path, generation, back):
    """The words of a path.  An adjoint that the interpreter would leave to Python is a kernel: nothing is computed again by it."""
    try:
        return path.running(generation)
    except NotLowered:
        if generation or not back:
            raise
        return path.running(1)


def _program_run_by(item):
    """The loop that an entry runs, or None."""
    if item.entry.kind != ROW or item.entry.name not in V.DRIVEN:
        return None
    program = dict(item.entry.attrs).get("program")
    return program if isinstance(program, RecordedLoop) else None


def _numbers(item, tape):
    program = _program_run_by(item)
    if program is None:
        return math.prod(tape.metas[item.slot].shape) if item.entry.kind == ROW else 0
    return (program.rows if program.bounded else 1000) * program.numbers()


def _float64(x):
    return np.ascontiguousarray(x, np.float64)


class _Tangent(RecordedLoop):
    """The loop of the tangents of another one, whose paths come and go with those."""

    def __init__(self, of):
        super().__init__(
            2 * of.carry, 2 * of.captured, 2 * of.element, 2 * of.result, of.rows, of.bounded, of.reverse, of.capacity, of.dense, of.room,
            of.name,
        )
        self.of = of

    def all_paths(self):

        of, paths = self.of, self.of.all_paths()
        self.captured = 2 * of.captured
        widths = {V.CARRY: of.carry, V.NEXT: of.carry, V.ELEMENT: of.rows * of.element, V.CAPTURED: of.captured, V.RESULT: of.rows * of.result}
        with self.lock:
            while len(self.paths) < len(paths):
                self.paths.append(paths[len(self.paths)].tangent(widths))
        return self.paths
