"""A function under `jit`: recorded once for each signature of arguments and path, and replayed.

`Replayed` is what the transformations of `tapegrad.transforms` are made of.  Without `jit` it
runs the function at every call (`transforms.plain`).  With `jit` a call sorts its arguments
(`transforms.replay.arguments`): numbers and arrays are inputs of the tape, everything else is static and part of the key.  Then

1. what the function reads besides is looked at (`transforms.replay.surroundings`);
2. the tape used last is replayed; if a guard sees something else, the tape that
   went on from there (`transforms.replay.cache`), if there is one;
3. else the function is recorded (`transforms.replay.running`), and the tape is kept.

So three calls of ``g = tg.jit(tg.value_and_grad(lambda x: x * x if x > 0 else -x))``::

    g(2.0)     recorded: a tape of one product, and the guard "x > 0 was True"
    g(3.0)     that tape is replayed: nothing of the lambda runs
    g(-1.0)    the guard sees False; no tape goes on from there: recorded, kept beside the first one

Nothing is recorded to be compared.  A function that has to be recorded at nearly every call is run plainly from then on, and
one message says what changed: an argument, a variable or a line.

Start reading at `Replayed.call`.  A kept tape is run by its kernel (`transforms.replay.kernels`) or by sweep
(`program.workspace`); calls that are like an earlier one are answered before they come here (`transforms.replay.short`).
"""

from __future__ import annotations

import threading
import time
from functools import partial

from ...autograd import nested
from ...common.errors import GradientError, NestingError, StructureError, UnsupportedFunctionError
from ...common.uninterrupted import remade
from ...kernel.reasons import NotLowered
from ...program.status import FINE, OTHER
from ...tape.modes import no_grad
from ...tape.places import placed_name
from ...tape.store import thread_state
from .arguments import argument_name, is_input, sort_arguments
from .cache import Kept, Tapes
from .directions import KernelRecording, answered, asked_for, lanes_of
from .kernels import Options
from .miss import MISS
from .running import LOG, Outcome, Running
from .stats import Spending, Stats
from .surroundings import Surroundings

#: Tapes kept for one kind of arguments.
LIMIT = 64
#: Kinds of arguments kept.
KINDS = 256
#: Signatures and paths that are answered the short way.
SHORTS = 4
#: A function is run plainly when at least so many of its last calls had to be recorded ...
GIVE_UP = 24
#: ... of so many.
WINDOW = 32


class _Kind:
    """What is kept for one kind of arguments.

    Attributes
    ----------
    tapes : Tapes
    missed : Guard or None
        The last guard that saw something else.
    used : int
        When it was used last, by the clock of `Replayed`.
    captures : str
        Why it cannot be called but under ``no_grad``: it uses a tensor that requires a gradient, and is no argument.
    """

    def __init__(self):
        self.tapes = Tapes(LIMIT)
        self.missed = None
        self.used = 0
        self.captures = ""
        #: Whether recordings keep values of array entries (`Trace.keeping`).
        self.keeping = 0


class Replayed(Running):
    """`function`, run at every call, or recorded and replayed.

    Parameters
    ----------
    function : callable
    argnums : tuple of int
        Positions of the arguments that are differentiated.
    has_aux : bool
        Whether the function returns a pair of which only the first part is differentiated.
    scalar : bool
        Whether the gradient is that of one number; else that of the sum of all results.
    captures : bool
        Whether the function may use tensors that require a gradient and are no arguments, as constants.
    adjoints : bool
        Whether gradients will be asked for; else only values.
    jit : Options, optional
        How it is recorded; without, it is not.
    stats : Stats, optional
        Where to count; without, in one of its own.

    Attributes
    ----------
    derived : object or None
        If `function` is a derivative that is made of the tape of another function: that is its ``function``, and
        ``of(tape, structure)`` makes the tape, for arguments of this structure.
    plain : str
        Why the function is not recorded any more although it is under `jit`; empty otherwise.
    """

    def __init__(self, function, argnums, has_aux=False, scalar=True, captures=True, adjoints=True, jit=None, stats=None):
        self.function, self.argnums, self.has_aux, self.scalar = function, argnums, has_aux, scalar
        self.captures, self.adjoints, self.jit = captures, adjoints, jit
        self.kinds = {}
        self.clock = 0
        self.plain, self.derived = "", None
        #: Of the last calls up to the last that had to be recorded, why they had to be, "" if not; and how many came after it.
        self.recent, self.quiet = [], 0
        self.lock = remade(threading.RLock())
        self.turn = remade(threading.RLock())
        #: Whether somebody is to be told that the function is run plainly: not if nobody has put it under `jit`.
        self.silent, self.stats = stats is not None, stats or Stats()
        self.spending = Spending.of(function)
        self.surroundings, self.changed = None, ""
        #: How a transformation's calls are answered (`transforms.replay.planned`), or None; and the ways to do so, the last one first.
        self.planned, self.shorts = None, ()

    def quick(self, args, kwargs):
        """The answer of a call like an earlier one (`transforms.replay.short`), or MISS: then `call` has to answer."""
        if self.shorts and not nested.inside():
            for short in self.shorts:
                answer = short.call(args, kwargs, self.stats)
                if answer is not MISS:
                    self.quiet += 1
                    return answer
        return MISS

    # -- calls --------------------------------------------------------------------
    def call(self, args, kwargs, backward=True):
        """Answer a call: an `Outcome`.

        `backward` may also be a function that is given a `Recording` of the call
        (`program.swept`); what it returns stands for the gradients.  If it has a method
        ``by_kernel(kept, inputs)``, what that returns does, unless it is None.
        """
        if self.jit is None:
            start = time.perf_counter()
            outcome = self.run(args, kwargs, backward)
            self.spending.note(time.perf_counter() - start)
            return outcome
        if self.plain:
            return self.run(args, kwargs, backward)
        self.check_positions(args)
        inputs, key, leaves = sort_arguments(args, kwargs, self.argnums)
        if self.surroundings is None or not self.surroundings.same():
            self._look_again()
        kind = self.kinds.get(key)
        if kind is None:
            kind = self._new_kind(key)
        if kind.captures and thread_state().enabled:
            raise NestingError(kind.captures)
        self.clock += 1
        kind.used = self.clock
        outcome = self.replay(kind, inputs, backward)
        if outcome is None:
            outcome = self._record(kind, inputs, key, leaves, backward, (args, kwargs))
        self._prepare(kind, key)
        return outcome

    def _prepare(self, kind, key):
        """Let the next call go the short way, if it is like this one."""
        kept, made = kind.tapes.first(), self.stats.kernels
        # The short way would not ask whether it is still under no_grad.
        if kept is None or self.planned is None or kind.captures:
            return
        short = kept.short
        if short is None or not short.serves(self.surroundings, made):
            from .short import Short  # loads compiled code, which `import tapegrad` does without

            short = kept.short = Short(kept, self.surroundings, key, self.planned, made)
        if short.site is not None and short not in self.shorts[:1]:
            self.shorts = (short, *[s for s in self.shorts if s.kept is not kept])[:SHORTS]

    def recorded_once(self):
        """The same for one call that needs a tape, of a function that is not under `jit`."""
        once = Replayed(
            self.function, self.argnums, self.has_aux, self.scalar, self.captures, self.adjoints, Options("never"), self.stats
        )
        once.derived = self.derived
        return once

    def check_positions(self, args):
        """Raise if one of the arguments to differentiate is missing."""
        if self.argnums and max(self.argnums) >= len(args):
            raise StructureError(
                f"argnums={self.argnums} asks for argument {max(self.argnums)}, but the function was called with "
                f"{len(args)} positional arguments"
            )

    def as_left(self):
        """What the function itself has changed, when it ran just now, is no change."""
        self.surroundings = Surroundings(self.function)

    def _look_again(self):
        """Something may have changed: if it has, nothing that was recorded stands for the function any more."""
        with self.lock:
            before, self.shorts = self.surroundings, ()
            name, self.surroundings = before.changed() if before is not None else (None, Surroundings(self.function))
            if name is not None:
                LOG.info("%s: %s has changed; recording again", placed_name(self.function), name)
                self.kinds = {}
                self.changed = name

    def _new_kind(self, key):
        with self.lock:
            kind = self.kinds.get(key)
            if kind is None:
                if len(self.kinds) >= KINDS:
                    # The longest unused quarter goes.
                    for old, _ in sorted(self.kinds.items(), key=lambda pair: pair[1].used)[: KINDS // 4]:
                        del self.kinds[old]
                kind = self.kinds[key] = _Kind()
            return kind

    def tape(self, args, kwargs, backward=None):
        """The finished tape that answers a call with these arguments; recorded if there is none."""
        return self._kept(args, kwargs, backward)[0].tape

    def kernel(self, args, kwargs, backward=None):
        """The kernel of `tape`; with a function `backward`, that of the directions it asks for."""
        kept, inputs = self._kept(args, kwargs, backward)
        try:
            return kept.kernels.make(bool(self.argnums) if backward is None else asked_for(kept, inputs, backward))
        except NotLowered as why:
            raise UnsupportedFunctionError(f"{placed_name(self.function)} has no kernel: {why}") from (why if why.__cause__ else None)

    def _kept(self, args, kwargs, backward):
        if self.jit is None:
            kept = self.recorded_once()._kept(args, kwargs, backward)
            # It is the tape of who asks for it.
            self._count()
            return kept
        with no_grad():
            self.call(args, kwargs, bool(self.argnums) if backward is None else backward)
        inputs, key, _ = sort_arguments(args, kwargs, self.argnums)
        kept = self.kinds[key].tapes.first() if not self.plain else None
        if kept is None:
            raise GradientError(f"{placed_name(self.function)} has no tape: it is run plainly, because {self.plain or 'it cannot be replayed'}")
        return kept, inputs

    def replay(self, kind, inputs, backward, count=True):
        outcome, by_kernel = self._walked(kind, inputs, backward, count, True)
        if outcome is None and by_kernel:
            # What a kernel says of a guard, a sweep has to say again before anything is recorded.
            outcome, _ = self._walked(kind, inputs, backward, count, False)
        return outcome

    def _walked(self, kind, inputs, backward, count, kernels):
        """From one kept tape to the next, as their guards say: the answer or None, and whether some were run by kernels."""
        kept, tried, missed, by_kernel = kind.tapes.first(), 0, [], False
        outcome = None
        while kept is not None:
            if kernels:
                outcome, status = self._by_kernel(kept, inputs, backward)
                if outcome is not None:
                    self.stats.kernel_calls += count
                    break
                guard = kept.tape.guards[status] if 0 <= status < len(kept.tape.guards) else None
                if guard is not None and guard.how == "bool":
                    by_kernel, tried = True, tried + 1
                    missed.append(guard)
                    kept = kind.tapes.after(kept, status, bytes([not guard.seen[0]]))
                    continue
            start = time.perf_counter()
            workspace = kept.take()
            at = workspace.run(inputs, backward is True)
            if at < 0:
                outcome = self._outcome(kept.tape, workspace, backward)
                self.stats.seconds["replay"] += time.perf_counter() - start
                self.stats.sweeps += count
                self._promote(kept, inputs, backward, outcome, workspace)
                kept.give(workspace)
                break
            tried += 1
            if at >= len(kept.tape.guards):
                kept.give(workspace)
                break
            guard = kept.tape.guards[at]
            missed.append(guard)
            seen = workspace.seen_at(at)
            kept.give(workspace)
            kept = kind.tapes.after(kept, at, seen)
        if missed and (outcome is not None or not by_kernel):
            kind.missed = missed[-1]
            for guard in missed:
                self.stats.misses[str(guard.place)] += 1
        if outcome is not None:
            outcome.tape = kept.tape
            self._answered(kind, kept, tried, count)
        return outcome, by_kernel

    def _answered(self, kind, kept, tried, count):
        """A replay went through."""
        self.quiet += count
        if tried:
            kind.tapes.prefer(kept)
        else:
            kind.tapes.touch(kept)

    def _by_kernel(self, kept, inputs, backward):
        """The answer of a kernel, or None, and its status: then the sweeps have to say what is right."""
        if hasattr(backward, "by_kernel"):
            result = backward.by_kernel(kept, inputs)
            return (None, OTHER) if result is None else (Outcome(None, kept.tape.structure, result), FINE)
        if callable(backward):
            values, result, status = answered(kept.kernels, inputs, backward)
            return (None if values is None else Outcome(values, kept.tape.structure, result)), status
        kernel = kept.kernels.get(backward)
        if kernel is None:
            return None, OTHER
        status, result = kernel.answer(inputs)
        if result is None:
            return None, status
        values, gradients = kernel.results(result)
        return Outcome(values, kept.tape.structure, gradients), FINE

    def _promote(self, kept, inputs, backward, outcome, workspace):
        """Note a replay by sweep, and make a kernel of the tape if it is time."""
        kernels, name = kept.kernels, placed_name(self.function)
        if not callable(backward):
            kernels.note(backward, inputs, outcome, self.stats, name)
            return
        if hasattr(backward, "by_kernel"):
            return
        recording = workspace.recording
        asked, recording.asked = recording.asked, []
        for forward, directions, count, results in asked:
            key = (forward, lanes_of(kept.tape, count))
            if kernels.visited(key) and not recording.primitive:
                kernels.recording = kernels.recording or recording
                there = KernelRecording(kernels, inputs)
                answer = partial(there.answer, forward=forward, directions=directions)
                kernels.promote(key, answer, results, self.stats, name)

    def _outcome(self, tape, workspace, backward):
        values = [workspace.output(k) for k in range(len(tape.outputs))]
        gradients = None
        if callable(backward):
            from ...program.swept import ReplayedRecording  # loads compiled code

            recording = ReplayedRecording.of(workspace)
            recording.asked = []
            gradients = backward(recording)
        elif backward:
            gradients = [None if g is None else g.copy() for g in workspace.gradients]
        return Outcome(values, tape.structure, gradients, tape)

    def _record(self, kind, inputs, key, leaves, backward, call):
        with self._turn():
            replayed = self.replay(kind, inputs, backward, count=False) if kind.tapes.first() is not None else None
            if replayed is not None:
                return replayed
            # If the surroundings change meanwhile, these are not the kind's tapes any more.
            tapes, first = kind.tapes, not self.stats.tapes
            cause = self._cause(kind, key, leaves)
            tape = self._recorded(kind, inputs, key, leaves, backward)
            if tape is None:
                return self.run(*call, backward)
            self.note(cause)
            kept = Kept(tape, self.jit, first)
            LOG.info(
                "%s: recorded: %s: %d instructions, %d guards",
                placed_name(self.function), cause, len(tape), len(tape.guards),
            )  # fmt: skip
            with self.lock:
                tapes.add(kept)
                self._count()
            workspace = kept.take()
            at = workspace.run(inputs, backward is True)
            if at >= 0:
                # Its last bits are on the other side of a guard: at this very point the function has to be run.
                kept.give(workspace)
                return self.run(*call, backward)
            outcome = self._outcome(tape, workspace, backward)
            self._promote(kept, inputs, backward, outcome, workspace)
            kept.give(workspace)
            return outcome

    # -- bookkeeping --------------------------------------------------------------
    def _cause(self, kind, key, leaves):
        """Why a call has to be recorded, in words."""
        name, self.changed = self.changed, ""
        if name:
            return f"{name} changes; pass it as an argument"
        if kind.tapes.all:
            return f"its path changes at {kind.missed.place}: {kind.missed}" if kind.missed is not None else "its path changes"
        others = [other for other in self.kinds if other is not key and other[0] == key[0]]
        if others:
            k = next((k for k, (a, b) in enumerate(zip(others[-1][1], key[1])) if a != b), None)
            if k is not None and is_input(key[1][k]):
                return f"{argument_name(k, key[0])} has a new shape, dtype or order in memory; let it have the same at each call"
            if k is not None:
                return f"{argument_name(k, key[0])} is static and has a new value ({leaves[k]!r:.40}); pass it as a float or an array"
        return "a new kind of arguments"

    def note(self, cause):
        """Remember why a call had to be recorded; a function of which nearly every call has to be is given up."""
        recent = self.recent
        recent += [""] * min(self.quiet, WINDOW)
        recent.append(cause)
        self.quiet = 0
        del recent[:-WINDOW]
        if len(recent) == WINDOW and sum(map(bool, recent)) >= GIVE_UP:
            causes = [c for c in recent if c]
            self.give_up(f"nearly every call had to be recorded anew ({len(causes)} of {len(recent)}): {causes[-1]}")

    def _count(self):
        kept = [k for one in self.kinds.values() for k in one.tapes.all]
        self.stats.kernels_of, tapes = [k.kernels for k in kept], [k.tape for k in kept]
        self.stats.tapes = len(tapes)
        self.stats.instructions = sum(len(t) for t in tapes)
        self.stats.bytes = sum(t.nbytes for t in tapes)
