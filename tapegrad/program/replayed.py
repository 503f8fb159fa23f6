"""The replay of a finished tape as an executable.

Its block is what a workspace has: its parameters (`program.walk`), whether gradients are wanted, and lists of what is
copied out, and of what has to be finite.  Compiled code can call it unless the tape has steps that only Python can do (a
host function, the rule of a custom primitive), or a result that does not lie in one piece: then `run`, in Python, is the only way.
"""

import numpy as np

from ..codegen.compile import compiled, helper, plain_address
from ..codegen.memory import copy_bytes, int_at, load_number, set_int_at
from ..interpreter.native import data_address
from ..tape.layout import SCALAR
from . import walk as W
from .executable import Executable, described
from .ports import BROKEN, FINE
from .walk import replay

#: Words of a block: parameters of the workspace, whether gradients are wanted, the number of guards; how many outputs are
#: copied, (output, address, bytes) of each; how many results have to be finite, and of each the words of `program.stream.Delicate`.
R_PARAMETERS, R_BACKWARD, R_GUARDS, R_LISTS = range(4)


@helper
def _has(words, infinities):
    """Whether there is NaN in an array, or one of `infinities`."""
    size, last, lines = int_at(words, 1), words + 8 + 16 * int_at(words, 2), 1
    for axis in range(words + 24, last, 16):
        lines *= int_at(axis, 0)
    for line in range(lines):
        at, rest = int_at(words, 0), line
        for axis in range(words + 24, last, 16):
            at += rest % int_at(axis, 0) * int_at(axis, 1)
            rest //= int_at(axis, 0)
        for _ in range(int_at(last, 0)):
            number = load_number(at, size)
            if number != number or infinities and number - number != 0.0:
                return True
            at += int_at(last, 1)
    return False


@compiled("int64(int64, int64, int64)")
def code(inputs, outputs, block):
    """The machine code of all replays."""
    p = int_at(block, R_PARAMETERS)
    set_int_at(p, W.P_INPUTS, inputs, W.P_BACKWARD, int_at(block, R_BACKWARD))
    why = replay(p)
    if why == W.AT_GUARD:
        return int_at(p, W.P_STOPPED)
    if why == W.FAILED:
        # The function itself has to say what it does there.
        return int_at(block, R_GUARDS)
    if why != W.DONE:
        return BROKEN
    end = block + 8 * (R_LISTS + 1 + 3 * int_at(block, R_LISTS))
    for row in range(block + 8 * (R_LISTS + 1), end, 24):
        copy_bytes(int_at(outputs, int_at(row, 0)), int_at(row, 1), int_at(row, 2))
    at = end + 8
    for _ in range(int_at(end, 0)):
        parts, at = int_at(at, 0), at + 8
        bad = _has(at, parts == 1)
        for k in range(parts):
            if bad and k > 0:
                bad = not _has(at, True)
            at += 24 + 16 * int_at(at, 2)
        if bad:
            # The function itself has to say what NumPy does there.
            return int_at(block, R_GUARDS)
    return FINE


class Replay(Executable):
    """A finished tape replayed by sweeps.

    Parameters
    ----------
    tape : FinishedTape
    gradients : bool
        Whether the gradients of the wanted arguments are computed too.
    count : int
        Workspaces: how many threads can be inside at a time, by compiled code; others wait.

    Attributes
    ----------
    why : str
        Why compiled code cannot call it; empty if it can.
    """

    def __init__(self, tape, gradients=True, count=1):
        self.tape, self.gradients = tape, gradients
        self.values = len(tape.outputs)
        wanted = [m for m, w in zip(tape.inputs, tape.wanted) if w] if gradients else []
        self.inputs = [(m.shape, m.char) for m in tape.inputs]
        self.outputs = [*map(described, tape.outputs), *((m.shape, m.char) for m in wanted)]
        self._constants = {
            k: np.array(getattr(what, "_v", what), self.outputs[k][1], order="C")
            for k, (slot, what) in enumerate(tape.outputs) if not slot and self.outputs[k][0] != (0,)
        }  # fmt: skip
        self._workspaces = [tape.kept.take() for _ in range(count)]
        self.why = self._only_python(self._workspaces[0])
        if self.why:
            tape.kept.extend(self._workspaces)
        else:
            self._blocks = [self._block(workspace) for workspace in self._workspaces]
            self._publish(plain_address(code), [data_address(block) for block in self._blocks])

    def _only_python(self, workspace):
        for step in workspace.hosts:
            return f"{step.name} at {self.tape.place(step.slot)} is computed by NumPy"
        for item in workspace.in_python:
            return f"{item.entry.name} at {self.tape.place(item.slot)} is a primitive with rules in Python"
        for slot, _ in self.tape.outputs:
            if slot in workspace.arrays and not workspace.arrays[slot].flags.c_contiguous:
                return "a result does not lie in one piece"
        if not all(step.target.dtype.char in "df" for step in workspace.delicate):
            return "a result that has to be finite is not of floats"
        return ""

    def _block(self, workspace):
        """The words of a block."""
        copied = [
            (k, workspace.address_of(slot), 8 if meta is SCALAR else workspace.arrays[slot].nbytes)
            for k, (slot, meta) in enumerate(self.tape.outputs) if slot
        ]  # fmt: skip
        copied += [(k, data_address(a), a.nbytes) for k, a in self._constants.items()]
        gradients = workspace.gradients if self.gradients else []
        copied += [(self.values + k, data_address(g), g.nbytes) for k, g in enumerate(gradients)]
        finite = [step.words(self.tape.of_iteration) for step in workspace.delicate]
        words = [workspace.pointer, self.gradients, len(self.tape.guards), len(copied), *sum(copied, ()), len(finite), *sum(finite, [])]
        return np.array(words, np.int64)

    def run(self, inputs, outputs):
        """As of `Executable`."""
        if self.pointer:
            return super().run(inputs, outputs)
        workspace = self.tape.kept.take()
        try:
            status = workspace.run(inputs, self.gradients)
            if status < 0:
                gradients = workspace.gradients if self.gradients else []
                values = [workspace.value_array(slot) if slot else self._constants.get(k) for k, (slot, _) in enumerate(self.tape.outputs)]
                for target, source in zip(outputs, values + gradients):
                    if source is not None:
                        target[...] = source
                status = FINE
        finally:
            self.tape.kept.give(workspace)
        return status
