"""A function under `jit`: which tape answers a call, by what it is run, and when the function is recorded.

Three questions are answered here, for each call of ``g = tg.jit(tg.value_and_grad(f))``:

1. *What kind of call is it?*  Numbers and arrays are inputs of a tape, everything else is static; the containers, the shapes
   and dtypes of the inputs, and what is static are the key of a `Specialization` (`transforms.replay.answers`).
2. *Which path does it take?*  A kind has a tape for each path that was met.  They form a tree: two tapes that saw the same at
   their first guards have the same instructions up to there, so where a replay stops at a guard, what that saw leads to the
   tapes that went on from it.
3. *Who runs the tape?*  The interpreter, or a kernel, when there is one.  `Kernels` says when that is:

   ========== =====================================================================================
   policy     a tape becomes a kernel
   ========== =====================================================================================
   "auto"     the first path of a function at its first call; by another thread, if that is predicted to
              take more than `kernels.SECONDS` (`kernel.reasons`); later paths by that thread, when their
              sweeps have lasted so long that it pays (`kernels.BEGIN`)
   "always"   every path at its first call
   "never"    never: the interpreter answers
   ========== =====================================================================================

So calls of ``f = lambda x: x if x > 9 else x * x if x > 0 else -x``::

    g(2.0)       a new kind: recorded.  Tape A saw "x > 9 was False" and "x > 0 was True"; it becomes a kernel
    g(3.0)       the kernel of A answers: nothing of the lambda runs
    g(-1.0)      A stops at its second guard; no tape goes on from there: recorded as B
    g(-2.0)      B, which was used last, is tried first, and answers by interpreter, till a kernel pays
    g(10.0)      B stops at its first guard: recorded as C.  The tree is now

                 x > 9 ?  --False-->  x > 0 ?  --True-->   A
                          --True--->  C        --False-->  B

    g(4.0)       C stops at its first guard, which saw False: on to B, recorded after A; its second guard leads to A, which answers
    g(np.float32(4.0))   another kind, with a tree of its own

A call goes the short way first (`Replayed.quick`): each of the kinds met last has, for each tape, a *call site*, which is the whole
of 1. and 3. as one Python function written for it (`transforms.replay.site`).  What no site answers goes the long way
(`Replayed.call`), which looks at what the function reads besides (`transforms.environment`), walks through the tree, first
with kernels and then without, and then records (`transforms.replay.running`).  Of a guard at which a kernel stops the interpreter has
the last word.  Nothing is recorded to be compared; a kernel is compared with the interpreter once, at its first use.  A function
that has to be recorded at nearly every call is recorded no more: what no tape answers is run; so it is where a kind has `LIMIT` tapes, which
then have to answer `EARNED` calls in a row before another takes a place.  Where the tapes answer calls again (paths that
were met in a row), recording goes on; where they do not, the function is run plainly for good, and one message says what changed.
"""

import itertools
from time import perf_counter

from ...autograd import nested
from ...autograd.nested import running
from ...common import config
from ...common.errors import GradientError, NestingError, UnsupportedFunctionError
from ...common.uninterrupted import uninterrupted
from ...kernel.reasons import NotLowered
from ...program.ports import OTHER
from ...tape.modes import no_grad
from ...tape.places import placed_name
from ...tape.store import thread_state
from ..argnums import check_given
from ..environment import Environment
from .answers import MISS, Miss, sort_arguments
from .directions import ReplayWalk
from .kernels import CachedTape, JitOptions, Kernels
from .running import LOG, Running

#: Tapes kept for one kind of calls, and kinds kept.
LIMIT, KINDS = 64, 256
#: After so many recordings in a row that changed the same thing which they read, nothing is recorded any more.
OWN = 3
#: Seconds of calls without `jit` that are noted together.
NOTED = 0.01
#: Kinds that are answered the short way.
RECENT = 4
#: Counts uses of tapes and kinds: what has not been used for longest goes first.
_CLOCK = itertools.count(1)


class Specialization:
    """The tapes of one kind of calls, at most `LIMIT`: a tree whose branches are what guards saw.

    Attributes
    ----------
    recent : CachedTape or None
        The tape to try first.
    tapes : list of CachedTape
    missed : ReplayGuard or None
        The last guard that saw something else.
    captures : str
        Why it cannot be called but under ``no_grad``: it uses a tensor that requires a gradient, and is no argument.
    keeping : int
        Whether recordings keep values of array entries (`Trace.keeping`).
    """

    def __init__(self):
        self.tapes, self.recent, self.missed, self.used, self.captures, self.keeping = [], None, None, 0, "", 0

    def add(self, kept):
        """Keep a tape; of too many the one goes that was not used for longest."""
        if len(self.tapes) >= LIMIT:
            if self.recent is not None:
                # It was used last, although a call of its site does not say so.
                self.recent.used = next(_CLOCK)
            self.tapes.remove(min(self.tapes, key=lambda k: k.used))
        self.tapes.append(kept)
        for other in self.tapes:
            other.links = {}
        self.prefer(kept)

    def prefer(self, kept):
        """Note that `kept` was used now, and try it first next time."""
        kept.used, self.recent = next(_CLOCK), kept

    def after(self, kept, guard, seen):
        """A tape that agrees with `kept` before its guard of this number and saw `seen` there, or None."""
        path = (*kept.seen[:guard], seen)
        return next((other for other in reversed(self.tapes) if other.seen[: guard + 1] == path), None)


class Replayed(Running):
    """`function`, run at every call, or under `jit` recorded and replayed; parameters and attributes as of `Running`."""

    # -- the short way --------------------------------------------------------------
    def quick(self, args, kwargs, out=None):
        """The answer of a call like an earlier one, written to `out` if that is an array, or MISS: then `call` has to answer."""
        state = thread_state()
        if state.checking is not None or (running.level or state.tapes) and nested.inside():
            return MISS
        for kind in self.recent:
            kept = kind.recent
            while kept is not None and (site := kept.site) is not None:
                if kept.swept and (kept.kernels.left(True) <= 1 or True in kept.kernels.made):
                    return MISS
                answer = site(args, kwargs, out)
                if type(answer) is not Miss:
                    if kept.swept:
                        self.stats.sweeps += 1
                        kept.kernels.visits[True] += 1
                    else:
                        self.stats.kernel_calls += 1
                    if kept is not kind.recent:
                        kind.prefer(kept)
                    return answer
                links = kept.links
                if answer not in links:
                    seen = kept.otherwise(answer)
                    links[answer] = None if seen is None else kind.after(kept, answer, seen)
                kept = links[answer]
        return MISS

    def _prepare(self, kind, key):
        """Let the next call go the short way, if it is like this one."""
        kept, made_for = kind.recent, (self.environment, self.stats.kernels)
        # A site would not ask whether it is still under no_grad.
        if kept is None or self.planned is None or kind.captures or kept.large:
            return
        if kept.made_for != made_for:
            with uninterrupted:
                from .site import CallSite  # loads compiled code, which `import tapegrad` does without

            kept.made_for, kept.site = made_for, None
            plan = self.planned(kept, key[0])
            if plan is not None and plan[0].pointer:
                executable, runs, answer = plan
                kept.site = CallSite(*key, executable, answer, self.environment.same, runs).call
        if kept.site is not None and kind not in self.recent[:1]:
            self.recent = (kind, *(other for other in self.recent if other is not kind))[:RECENT]

    # -- the long way ---------------------------------------------------------------
    def call(self, args, kwargs, backward=True):
        """Answer a call: an `Outcome`.

        `backward` may also be a function that is given a walk over the call
        (`program.evaluation`); what it returns stands for the gradients.
        """
        if self.jit is None:
            start = perf_counter()
            outcome = self.run(args, kwargs, backward)
            self.spending.unnoted += perf_counter() - start
            if self.spending.unnoted > NOTED:
                self.spending.note()
            return outcome
        if self.plain:
            return self.run(args, kwargs, backward)
        check_given(self.argnums, args)
        inputs, key, leaves = sort_arguments(args, kwargs, self.argnums)
        if self.environment is None or not self.environment.same():
            self._look_again()
        leaf = self.captured and self.captured[0]()
        if leaf is not None and leaf._r and thread_state().enabled:
            # Before it is run: what is found out by a recording has run the function once already.
            raise NestingError(self.captured[1])
        kind = self.kinds.get(key) or self._new_kind(key)
        if kind.captures and thread_state().enabled:
            raise NestingError(kind.captures)
        kind.used = next(_CLOCK)
        outcome = self._replayed(kind, inputs, backward, 1)
        if outcome is None:
            return self._record(kind, inputs, key, leaves, backward, (args, kwargs))
        self._prepare(kind, key)
        return outcome

    def _replayed(self, kind, inputs, backward, count):
        """The answer of the tape of this path, or None; `count` is how many calls it counts as."""
        outcome, by_kernel = self._walked(kind, inputs, backward, count, True)
        if outcome is None and by_kernel:
            # What a kernel says of a guard, the interpreter has to say again before anything is recorded.
            outcome, _ = self._walked(kind, inputs, backward, count, False)
        return outcome

    def _walked(self, kind, inputs, backward, count, kernels):
        """From one tape to the next, as their guards say: the answer or None, and whether kernels have led the way."""
        kept, missed, by_kernel = kind.recent, [], False
        while kept is not None:
            outcome, status = kept.by_kernel(inputs, backward) if kernels else (None, OTHER)
            seen = kept.otherwise(status)
            if outcome is not None:
                self.stats.kernel_calls += count
            elif seen is not None:
                by_kernel = True
            else:
                outcome, status, seen = kept.by_interpreter(inputs, backward, self.stats, count)
            if outcome is not None or seen is None:
                break
            missed.append(kept.tape.guards[status])
            kept = kind.after(kept, status, seen)
        else:
            outcome = None
        if missed and (outcome is not None or not by_kernel):
            kind.missed = missed[-1]
            self.stats.misses.update(str(guard.place) for guard in missed)
        if outcome is not None:
            kind.prefer(kept)
        return outcome, by_kernel

    # -- recording --------------------------------------------------------------------
    def _record(self, kind, inputs, key, leaves, backward, call):
        with self._iteration():
            # Another thread may have recorded this path meanwhile.
            replayed = self._replayed(kind, inputs, backward, 0)
            if replayed is not None:
                return replayed
            first, cause = not self.stats.tapes, self.cause(kind, key, leaves)
            if not self.goes_on(cause, len(kind.tapes) >= LIMIT):
                return self.run(*call, backward)
            try:
                tape, values = self._recorded(kind, inputs, key, leaves, backward)
            finally:
                self._look_at_own()
            if tape is None:
                return self.run(*call, backward)
            self.note(cause)
            LOG.info("%s: recorded: %s: %d instructions, %d guards", placed_name(self.function), cause, len(tape), len(tape.guards))
            kept = CachedTape(tape, Kernels(tape, self.jit, first), placed_name(self.function))
            if self.own[1] == OWN:
                name = self.own[0]
                self.give_up(
                    f"{name} changes, and it is the function that changes it{self.environment.changed_at(name)}: each call reads something else "
                    "than was recorded. Count and collect outside of the function"
                )
            with self.lock:
                # If the environment changes meanwhile, this is not the kind of such calls any more.
                kind.add(kept)
                self._count()
            if backward is False and values is not None and not config.strict:
                return kept.as_recorded(inputs, values, self.stats)
            outcome, _, _ = kept.by_interpreter(inputs, backward, self.stats, 0)
            # If its last bits are on the other side of a guard, the function has to be run at this very point.
            return outcome or self.run(*call, backward)

    def _new_kind(self, key):
        with self.lock:
            if key not in self.kinds:
                if len(self.kinds) >= KINDS:
                    # The longest unused quarter goes.
                    for old, _ in sorted(self.kinds.items(), key=lambda pair: pair[1].used)[: KINDS // 4]:
                        del self.kinds[old]
                self.kinds[key] = Specialization()
            return self.kinds[key]

    def _look_again(self):
        """Something may have changed: if it has, nothing that was recorded stands for the function any more."""
        with self.lock:
            before, self.environment = self.environment, Environment(self.function)
            name = None if before is None else before.difference(self.environment)
            if name is not None:
                LOG.info("%s: %s has changed; recording again", placed_name(self.function), name)
                self.kinds, self.recent, self.changed = {}, (), name
                if name != self.own[0]:
                    # (Where the function changes it itself, as a counter, it goes on using what it has captured.)
                    self.captured = None

    def _look_at_own(self):
        """Note what the function, which ran just now, has changed of what it reads, and how often in a row it did so."""
        name = None if self.environment is None or self.environment.same() else self.environment.difference()
        before, count = self.own
        if name is None:
            self.own = None, 0
        else:
            # The first time it may be new in what it belongs to.
            self.own = name, count + 1 if before is None or name.startswith(before) or before.startswith(name) else 1

    def as_left(self):
        """What the function itself has changed, when it ran just now, is no change."""
        if not self.environment.same():
            self.environment = Environment(self.function)

    def _count(self):
        kept = [k for kind in self.kinds.values() for k in kind.tapes]
        self.stats.kernels_of, tapes = [k.kernels for k in kept], [k.tape for k in kept]
        self.stats.tapes, self.stats.instructions = len(tapes), sum(map(len, tapes))
        self.stats.bytes = sum(t.nbytes for t in tapes)

    def forget(self):
        """Keep nothing: the function is run plainly."""
        self.kinds, self.recent = {}, ()
        self._count()

    # -- looking at it ------------------------------------------------------------------
    def recorded_once(self, given=None):
        """The same for one call that needs a tape, of a function that is not under `jit`; `given` as of `Running`."""
        once = Replayed(self.function, self.argnums, self.has_aux, self.scalar, self.adjoints, JitOptions("never"), self.stats)
        once.derived, once.given = self.derived, given
        return once

    def call_of_tape(self, args, kwargs, backward):
        """As `call`, but there is a tape also without `jit`: a new one then, for which what is not differentiated is as it was given."""
        if self.jit is not None:
            return self.call(args, kwargs, backward)
        own = [a if k in self.argnums else None for k, a in enumerate(args)]
        return self.recorded_once((args, kwargs)).call(own, {}, backward)

    def replayed_once(self, args, kwargs):
        """The `Outcome` of one call that is recorded and replayed, and its `ReplayWalk`, with arrays of its own; None if there
        can be none."""
        walks, once = [], self.recorded_once()
        once.apart = True
        outcome = once.call(args, kwargs, walks.append)
        return outcome, walks[-1] if isinstance(walks[-1], ReplayWalk) else None

    def kept(self, args, kwargs, backward=None):
        """What is kept for a call with these arguments; recorded if there is nothing."""
        if self.jit is None:
            kept = self.recorded_once().kept(args, kwargs, backward)
            # It is the tape of who asks for it.
            self._count()
            return kept
        # Who asks for a tape is given that of this path.
        self.record_again()
        with no_grad():
            self.call(args, kwargs, bool(self.argnums) if backward is None else backward)
        kept = self.kinds[sort_arguments(args, kwargs, self.argnums)[1]].recent if not self.plain else None
        if kept is None:
            raise GradientError(f"{placed_name(self.function)} has no tape: it is run plainly, because {self.plain or 'it cannot be replayed'}")
        return kept

    def anomaly(self, args, kwargs):
        """Which statement of the kernel of such calls is not finite (`TapeKernel.first_anomaly`), or an empty text."""
        kernel = None if self.plain else self.kept(args, kwargs).kernels.made.get(bool(self.argnums))
        return "" if kernel is None else kernel.first_anomaly(sort_arguments(args, kwargs, self.argnums)[0])

    def tape(self, args, kwargs, backward=None):
        """The finished tape that answers a call with these arguments; recorded if there is none."""
        return self.kept(args, kwargs, backward).tape

    def kernel(self, args, kwargs, backward=None):
        """The kernel of `tape`; with a function `backward`, that of the directions it asks for."""
        kernels = self.kept(args, kwargs, backward).kernels
        try:
            return kernels.make(bool(self.argnums) if backward is None else kernels.directions())
        except NotLowered as why:
            raise UnsupportedFunctionError(f"{placed_name(self.function)} has no kernel: {why}") from (why if why.__cause__ else None)
