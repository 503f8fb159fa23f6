"""A function recorded once per kind of arguments and path, and replayed.

`Replayed` is what the transformations of `tapegrad.transforms.functional` are made of.  A
call sorts its arguments (`transforms.replay.arguments`): float arrays and Python floats are inputs of
the tape, everything else is static and part of the key.  Then

1. the surroundings of the function are compared (`transforms.replay.purity`);
2. the tape used last is replayed; if a guard sees something else, the tape that
   went on from there (`transforms.replay.cache`), if there is one;
3. else the function is recorded (`transforms.replay.running`), and the tape is kept if its
   replay at its own point passes its own guards.

So three calls of ``g = tg.value_and_grad(lambda x: x * x if x > 0 else -x)``::

    g(2.0)     recorded: a tape of one product, and the guard "x > 0 was True"
    g(3.0)     that tape is replayed: nothing of the lambda runs (*)
    g(-1.0)    the guard sees False; no tape goes on from there: recorded, kept beside the first one

(*) The second call and calls at exponentially growing distances are recorded again
and compared with the kept tape (`_checked`): a function that draws random numbers or reads a
file is found out.  It is then run define-by-run, as is one whose path changes at
nearly every call; both are said once, and in `stats`.

Start reading at `Replayed.call`.  A kept tape is run by sweep (`program.workspace`) or by its kernel
(`transforms.replay.promotion`); calls that are like the last one do not even come here (`transforms.replay.short`).
"""

from __future__ import annotations

import threading
import time
from functools import partial

from ...common.errors import GradientError, NestingError, StructureError, UnsupportedFunctionError
from ...common.uninterrupted import remade
from ...interpreter.walks import walks
from ...kernel.reasons import NotLowered
from ...program.difference import difference
from ...program.plainly import plain_answer
from ...program.status import FINE, OTHER
from ...tape.modes import no_grad
from ...tape.store import thread_state
from .arguments import objects, sort_arguments
from .cache import Kept, Tapes
from .directions import KernelRecording, answered, asked_for, lanes_of
from .miss import MISS
from .purity import Surroundings
from .running import LOG, Outcome, Running, name_of
from .stats import ImpureFunctionWarning, PathWarning, Stats

#: Tapes kept for one kind of arguments.
LIMIT = 64
#: Kinds of arguments kept.
KINDS = 256
#: A kind of arguments is given up when at least so many of its last calls had to be recorded ...
GIVE_UP = 24
#: ... of so many.
WINDOW = 32


class _Kind:
    """What is kept for one kind of arguments.

    Attributes
    ----------
    tapes : Tapes
    surroundings : Surroundings
        Those of the function when these tapes were recorded.
    calls : int
        Of this kind, by whatever way they were answered.
    check_at : int
        The number of the call that is recorded again and compared; doubled each time.
    recent : list of bool
        Of the last calls, whether they had to be recorded; empty as long as only the first one had to.
    given_up : str
        Why the function is run define-by-run for this kind; empty if it is not.
    missed : Guard or None
        The last guard that saw something else.
    used : int
        When it was used last, by the clock of `Replayed`.
    captures : str
        Why it cannot be called but under ``no_grad``: it uses a tensor that requires a gradient, and is no argument.
    """

    def __init__(self, surroundings):
        self.tapes = Tapes(LIMIT)
        self.surroundings = surroundings
        self.calls = 0
        self.check_at = 2
        self.recent = []
        self.given_up = ""
        self.missed = None
        self.used = 0
        self.captures = ""
        #: Whether recordings keep values of array entries (`Trace.keeping`).
        self.keeping = 0

    def note(self, recorded):
        """Remember of the last calls whether they were recorded."""
        self.recent.append(recorded)
        if len(self.recent) > WINDOW:
            del self.recent[0]


class Replayed(Running):
    """`function`, recorded and replayed.

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
    policy : str
        When tapes become kernels (`transforms.replay.promotion`).
    options : kernel.emit.Options, optional
    """

    def __init__(
        self, function, argnums, has_aux=False, scalar=True, captures=True, adjoints=True, policy="never", options=None
    ):
        self.policy, self.options = policy, options
        self.function, self.argnums, self.has_aux, self.scalar = function, argnums, has_aux, scalar
        self.captures, self.adjoints = captures, adjoints
        self.kinds = {}
        self.clock = 0
        self.lock = remade(threading.RLock())
        self.turn = remade(threading.RLock())
        self.stats = Stats()
        self.short = None
        #: How calls like the last one are answered (`transforms.replay.short`), or None.
        self.planned = None

    def quick(self, args, kwargs):
        """The answer of a call like the last one (`transforms.replay.short`), or MISS: then `call` has to answer."""
        short = self.short
        return MISS if short is None else short.call(args, kwargs, self.stats)

    # -- calls --------------------------------------------------------------------
    def call(self, args, kwargs, backward=True):
        """Answer a call: an `Outcome`.

        `backward` may also be a function that is given a `Recording` of the call
        (`program.swept`); what it returns stands for the gradients.  If it has a method
        ``by_kernel(kept, inputs)``, what that returns does, unless it is None.
        """
        self.check_positions(args)
        inputs, key, leaves = sort_arguments(args, kwargs, self.argnums)
        kind = self.kinds.get(key)
        if kind is None:
            kind = self._new_kind(key, leaves)
        if kind.given_up:
            return self._define_by_run(inputs, key, leaves, backward)
        surroundings = kind.surroundings
        changed = surroundings.changed()
        if changed is not None:
            with self.lock:
                LOG.info("%s: %s has changed; recording again", name_of(self.function), changed)
                kind.tapes = Tapes(LIMIT)
                kind.surroundings = Surroundings(self.function, objects(leaves))
                kind.captures = ""
        if kind.captures and thread_state().enabled:
            raise NestingError(kind.captures)
        self.clock += 1
        kind.used = self.clock
        kind.calls += 1
        if kind.calls == kind.check_at and kind.tapes.first() is not None:
            kind.check_at *= 2
            return self._checked(kind, inputs, key, leaves, backward)
        outcome = self.replay(kind, inputs, backward)
        # The short way would not ask whether it is still under no_grad.
        if outcome is not None and not kind.captures:
            self._prepare(kind, surroundings, key)
        return outcome if outcome is not None else self._record(kind, inputs, key, leaves, backward)

    def check_positions(self, args):
        """Raise if one of the arguments to differentiate is missing."""
        if self.argnums and max(self.argnums) >= len(args):
            raise StructureError(
                f"argnums={self.argnums} asks for argument {max(self.argnums)}, but the function was called with "
                f"{len(args)} positional arguments"
            )

    def _new_kind(self, key, leaves):
        with self.lock:
            kind = self.kinds.get(key)
            if kind is None:
                if len(self.kinds) >= KINDS:
                    # The longest unused quarter goes.
                    for old, _ in sorted(self.kinds.items(), key=lambda pair: pair[1].used)[: KINDS // 4]:
                        del self.kinds[old]
                kind = self.kinds[key] = _Kind(Surroundings(self.function, objects(leaves)))
                kind.used = self.clock
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
            raise UnsupportedFunctionError(f"{name_of(self.function)} has no kernel: {why}") from (why if why.__cause__ else None)

    def _kept(self, args, kwargs, backward):
        with no_grad():
            self.call(args, kwargs, bool(self.argnums) if backward is None else backward)
        inputs, key, _ = sort_arguments(args, kwargs, self.argnums)
        kind = self.kinds[key]
        if kind.given_up:
            raise GradientError(f"{name_of(self.function)} has no tape: it is run define-by-run, because {kind.given_up}")
        return kind.tapes.first(), inputs

    def _prepare(self, kind, surroundings, key):
        """Let the next call go the short way, if it is like this one."""
        kept, made = kind.tapes.first(), self.stats.kernels
        if kept is None or self.planned is None:
            return
        if kept.short is None or not kept.short.serves(kept, surroundings, made):
            from .short import Short  # loads compiled code, which a first call may do without

            kept.short = Short(kind, kept, surroundings, key, self.planned, made)
        self.short = kept.short

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
        if count:
            self._note(kind, False)
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
        """Count a replay by sweep, and make a kernel of the tape if it is time."""
        kernels, name = kept.kernels, name_of(self.function)
        if not callable(backward):
            kernels.note(backward, inputs, outcome.values, outcome.gradients, self.stats, name)
            return
        if hasattr(backward, "by_kernel"):
            return
        recording = workspace.recording
        asked, recording.asked = recording.asked, []
        for forward, directions, count, results in asked:
            key = (forward, lanes_of(kept.tape, count))
            if kernels.count(key, count) and not recording.primitive:
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

    def _record(self, kind, inputs, key, leaves, backward):
        with self._turn():
            replayed = self.replay(kind, inputs, backward, count=False) if kind.tapes.first() is not None else None
            if replayed is not None:
                return replayed
            # If the surroundings change meanwhile, these are not the kind's tapes any more.
            tapes = kind.tapes
            tape = self._recorded(kind, inputs, key, leaves, backward)
            self._note(kind, True)
            if kind.given_up:
                return self._define_by_run(inputs, key, leaves, backward)
            kept, outcome = self._tried(kind, tape, inputs, backward)
            if kept is None:
                return self._define_by_run(inputs, key, leaves, backward)
            LOG.info(
                "%s: recorded for %s: %d instructions, %d guards", name_of(self.function),
                f"a new path ({kind.missed})" if tapes.all else "a new kind of arguments", len(tape), len(tape.guards),
            )  # fmt: skip
            with self.lock:
                tapes.add(kept)
                self._count()
            return outcome

    def _tried(self, kind, tape, inputs, backward):
        """The tape replayed at the point at which it was recorded: what is kept of it, and the answer; or None twice."""
        kept = Kept(tape, self.policy, self.options)
        if backward is True and walks.pack is None:
            # Nobody waits for compiled code that a few instructions can do without.
            answer = plain_answer(tape)
            if answer is not None:
                return kept, Outcome(answer[0], tape.structure, answer[1])
        workspace = kept.take()
        if workspace.run(inputs, backward is True) >= 0:
            self._give_up(kind, "its replay at the recorded point does not pass its own guards", PathWarning)
            return None, None
        outcome = self._outcome(tape, workspace, backward)
        kept.give(workspace)
        return kept, outcome

    def _checked(self, kind, inputs, key, leaves, backward):
        """Record although there may be a tape, and compare."""
        with self._turn():
            tapes = kind.tapes
            tape = self._recorded(kind, inputs, key, leaves, backward)
            if kind.given_up:
                return self._define_by_run(inputs, key, leaves, backward)
            answer = self.replay(kind, inputs, backward, count=False)
            kept, outcome = self._tried(kind, tape, inputs, backward)
            if kept is None:
                return self._define_by_run(inputs, key, leaves, backward)
            LOG.info(
                "%s: recorded at call %d to be compared%s", name_of(self.function), kind.calls,
                "" if answer is not None else f": a new path ({kind.missed})",
            )  # fmt: skip
            if answer is None:
                with self.lock:
                    tapes.add(kept)
                    self._count()
            elif tapes is kind.tapes:
                different = difference(answer.tape, tape)
                if different:
                    self._give_up(
                        kind, f"{different}: it depends on something that is not an argument (a random number, a file, a "
                        "counter); make it an argument", ImpureFunctionWarning,
                    )
            return outcome

    # -- bookkeeping --------------------------------------------------------------
    def _note(self, kind, recorded):
        recent = kind.recent
        if recorded or recent:
            kind.note(recorded)
            if recorded and sum(recent) >= GIVE_UP and len(recent) == WINDOW:
                self._give_up(kind, "its path changes at nearly every call", PathWarning)

    def _count(self):
        kept = [k for one in self.kinds.values() for k in one.tapes.all]
        self.stats.promotions, tapes = [k.kernels for k in kept], [k.tape for k in kept]
        self.stats.tapes = len(tapes)
        self.stats.instructions = sum(len(t) for t in tapes)
        self.stats.bytes = sum(t.nbytes for t in tapes)
