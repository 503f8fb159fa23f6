"""The short way of a call that is like the last one.

Positional arguments of the same types and shapes, static ones that are the same objects
as the last time, one float as result: then one compiled call (`program.walk.quick`)
reads the arguments' C structs, replays, and nothing is flattened or hashed.
Anything else, and any guard that sees something else, takes the long way
(`transforms.replay.function`), which has all the checks and answers the call from the start.

`Replayed.short` holds a `Quick` (the tape is swept) or a `QuickKernel` (it has become a kernel), made after each call that
went the long way by replay.  What a call may be is a *spec*, a list of words (`spec_of`) that compiled code compares.
"""

from __future__ import annotations

import time

import numpy as np

from ...interpreter import native
from ...kernel.entry.walk import Way, enter_value
from ...program import walk as W
from ...program.stream import RAISING
from ...program.trace import ROW
from ...tape.layout import VALUE
from ...tape.meta import SCALAR

#: Static arguments that are as they were if they are the same object.
_IMMUTABLE = (int, bool, str, bytes, type(None), complex, type, frozenset)
_DOUBLE = np.dtype("d")
#: The word of a record that holds its value.
_VALUE = VALUE // 8
_empty = np.empty


class Quick:
    """What the next call is compared with.

    Parameters
    ----------
    kind
        The kind of arguments (`transforms.replay.function`).
    surroundings : Surroundings
        What the function depended on when the call began that this is made from.
    kept : Kept
        The tape that answered it.

    Attributes
    ----------
    copied : list of int
        The arguments that are arrays in another order than C: they are copied at each call.
    """

    __slots__ = ("copied", "kind", "surroundings", "kept", "pool", "spec", "address", "held", "output", "one", "picks")

    def __init__(self, kind, surroundings, kept, args, spec, picks):
        self.kind, self.surroundings, self.kept = kind, surroundings, kept
        self.pool = kept.pool
        self.held = args
        self.spec = np.array(spec, np.int64)
        self.address = native.data_address(self.spec)
        self.picks = picks
        self.one = picks[0] if len(picks) == 1 else None
        self.output = kept.tape.outputs[0][0]

    @staticmethod
    def by_numpy(tape):
        """Whether a replay has to look whether NumPy would raise (a singular matrix), which only the long way does."""
        return any(item.entry.function in RAISING for item in tape.items if item.entry.kind == ROW)

    def serves(self, kept, kernel, surroundings):
        """Whether this is for replays of `kept` by sweep, and nothing has changed since."""
        return kernel is None and type(self) is Quick and self.kept is kept and self.surroundings is surroundings

    @classmethod
    def of(cls, kind, surroundings, kept, args, wanted):
        """For calls like the one with `args`, or None if there is no short way.

        Parameters
        ----------
        wanted : tuple of int
            The arguments that are differentiated.
        """
        tape = kept.tape
        if cls.by_numpy(tape):
            return None
        result = tape.outputs[0] if len(tape.outputs) == 1 else (0, None)
        if tape.structure.kind is not None or result[1] is not SCALAR or not result[0]:
            return None
        if tuple(sorted(set(wanted))) != wanted:
            return None
        found = spec_of(args, wanted)
        if found is None:
            return None
        spec, held, picks = found
        quick = cls(kind, surroundings, kept, held, spec, picks)
        quick.copied = [k for k, a in enumerate(args) if type(a) is np.ndarray and not a.flags.c_contiguous]
        return quick

    def call(self, args, stats):
        """``(value, gradients)``, or None: the long way has to be gone."""
        if self.copied:
            args = _ordered(args, self.copied)
        kind = self.kind
        calls = kind.calls + 1
        kernels = self.kept.kernels
        if (
            calls == kind.check_at or kind.given_up or kernels.calls[True] + 1 >= kernels.due[True]
            or self.surroundings.changed() is not None
        ):
            return None
        start = time.perf_counter()
        try:
            workspace = self.pool.pop()
        except IndexError:
            workspace = self.kept.take()
        workspace.refresh()
        done = W.quick(workspace.pointer, self.address, id(args)) == W.DONE
        if done:
            value = workspace.words.item(self.output, _VALUE)
            if self.one is not None:
                k, number = self.one
                found = workspace.gradients[k]
                gradients = found.item() if number else found.copy()
            else:
                gradients = tuple(
                    workspace.gradients[k].item() if number else workspace.gradients[k].copy() for k, number in self.picks
                )
        self.pool.append(workspace)
        if not done:
            return None
        kind.calls = calls
        if kind.recent:
            kind.note(False)
        stats.sweeps += 1
        kernels.calls[True] += 1
        stats.seconds["replay"] += time.perf_counter() - start
        return value, gradients


class QuickKernel(Quick):
    """The same for a tape that has become a kernel; names are compared by compiled code (`transforms.replay.watched`)."""

    __slots__ = ("way", "pointer", "shape", "shapes", "numbers", "watched", "kernel")

    def __init__(self, kind, surroundings, kept, args, spec, picks):
        super().__init__(kind, surroundings, kept, args, spec, picks)
        self.kernel = kept.kernels.get(True)
        self.watched = surroundings.words()
        self.way = Way(self.kernel, len(kept.tape.inputs), 1 + len(picks), spec, self.watched or ())
        self.pointer = self.way.pointer
        self.shapes = [kept.tape.inputs[k].shape for k, _ in picks]
        self.numbers = [number for _, number in picks]
        self.shape = self.shapes[0] if len(picks) == 1 and not self.numbers[0] else None

    @staticmethod
    def by_numpy(tape):
        """A kernel looks itself."""
        return False

    def serves(self, kept, kernel, surroundings):
        """Whether this is for calls of `kernel`, and nothing has changed since."""
        return kernel is self.kernel and self.surroundings is surroundings and (self.watched is None or self.watched is surroundings.words())

    def call(self, args, stats):
        """``(value, gradients)``, or None: the long way has to be gone."""
        if self.copied:
            args = _ordered(args, self.copied)
        kind = self.kind
        if (
            kind.calls + 1 == kind.check_at or kind.given_up
            or self.watched is None and self.surroundings.changed() is not None
        ):
            return None
        shape = self.shape
        if shape is not None:
            gradients = _empty(shape)
            results = (gradients,)
            value = enter_value(self.pointer, id(args), id(results))
            if value != value:
                return None
        else:
            results = tuple([_empty(shape) for shape in self.shapes])
            value = enter_value(self.pointer, id(args), id(results))
            if value != value:
                return None
            gradients = tuple([r.item() if number else r for r, number in zip(results, self.numbers)])
            if self.one is not None:
                gradients = gradients[0]
        kind.calls += 1
        if kind.recent:
            kind.note(False)
        stats.kernel_calls += 1
        return value, gradients


def _ordered(args, positions):
    """`args` with the arrays at `positions` copied in the order of C; () if one is no array, or is so already: another kind."""
    found = list(args)
    for k in positions:
        a = found[k] if k < len(found) else None
        if type(a) is not np.ndarray or a.flags.c_contiguous:
            return ()
        found[k] = np.ascontiguousarray(a)
    return tuple(found)


def spec_of(args, wanted):
    """What the arguments have to be (`program.walk.read_arguments`), which are held, which inputs are differentiated; or None."""
    spec, held, picks, inputs = [len(args)], [], [], 0
    for k, a in enumerate(args):
        kind_of = type(a)
        if kind_of is float:
            spec += [W.FLOAT, id(float)]
        elif kind_of is np.ndarray and (a.dtype is _DOUBLE or a.dtype.kind in "biu" and k not in wanted):
            if a.dtype is not np.dtype(a.dtype.char):
                return None
            spec += [W.ARRAY, id(np.ndarray), id(a.dtype), a.ndim, *a.shape]
        elif kind_of in _IMMUTABLE and k not in wanted:
            spec += [W.SAME, id(a)]
            held.append(a)
            continue
        else:
            return None
        if k in wanted:
            picks.append((inputs, kind_of is float))
        inputs += 1
    return spec, held, picks
