"""A recorded tape in use: run by the interpreter or by its kernels, with whatever is asked of it."""

import time

from ...common.memory import TRIMMED, trim
from ...common.uninterrupted import cached_property
from ...common.waiting import say
from ...program.status import FINE, OTHER
from .answers import Outcome
from .directions import KernelWalk, ReplayWalk, Stopped, key_of

#: Bytes of a sweep of which it is said that there is another way.
HELD = 1 << 29


class CachedTape:
    """A tape in use, with its kernels.

    Parameters
    ----------
    tape : FinishedTape
    kernels : Kernels
    name : str
        Of the function, for the log.

    Attributes
    ----------
    seen : tuple of bytes
        What its guards saw.
    site : callable or None
        Answers calls that are like an earlier one (`CallSite.call`).
    swept : bool
        Whether it runs the interpreter.
    made_for : tuple
        For which environment, and how many kernels, the site was made.
    links : dict of int to (CachedTape or None)
        Which tape the guard at which it stopped, by its number, leads to, as far as that was asked for.
    """

    def __init__(self, tape, kernels, name):
        self.tape, self.kernels, self.name, self.used = tape, kernels, name, 0
        self.site, self.swept, self.made_for = None, False, None
        self.links, self.seen = {}, tuple(guard.seen for guard in tape.guards)

    @cached_property
    def replay(self):
        """Its replay, as an executable."""
        from ...program.replayed import Replay  # loads compiled code

        return Replay(self.tape)

    def executable(self):
        """What gives values and gradients now: a kernel, or the interpreter."""
        kernel = self.kernels.made.get(True)
        self.swept = kernel is None
        return kernel or self.replay

    def otherwise(self, status):
        """What the guard has seen at which a run stopped, if the status tells; else None."""
        guards = self.tape.guards
        return bytes([not guards[status].seen[0]]) if 0 <= status < len(guards) and guards[status].how == "bool" else None

    def by_kernel(self, inputs, backward):
        """The answer of a kernel, or None, and its status; `backward` as of `Replayed.call`."""
        if callable(backward):
            if self.kernels.walk is None:
                return None, OTHER
            walk = KernelWalk(self.kernels.walk, inputs, self.kernels.directional)
            try:
                result = backward(walk)
            except Stopped as stopped:
                return None, stopped.status
            # If nothing was asked, no kernel has looked at the guards.
            return (Outcome(None, self.tape.structure, result, self.tape), FINE) if walk.asked else (None, OTHER)
        kernel = self.kernels.made.get(backward)
        status, results = (OTHER, None) if kernel is None else kernel.answer(inputs)
        if results is None:
            return None, status
        values, gradients = kernel.results(results)
        return Outcome(values, self.tape.structure, gradients, self.tape), status

    def by_interpreter(self, inputs, backward, stats, count):
        """The answer by sweeps; or None, the number of the guard that saw something else, and what that saw (None: no guard)."""
        start, tape, workspace = time.perf_counter(), self.tape, self.tape.kept.take()
        at = workspace.run(inputs, backward is True)
        if at >= 0:
            seen = workspace.seen_at(at) if at < len(tape.guards) else None
            tape.kept.give(workspace)
            return None, at, seen
        if workspace.nbytes > HELD:
            text = f"a call of {self.name} holds {workspace.nbytes / 1e9:.1f} GB of arrays. If it sums over rows of data, tg.sum_over or "
            say("memory", text + "tg.mean_over of the sum over some of them gives the same numbers, and holds as much as some rows need")
        values, gradients = [workspace.output(k) for k in range(len(tape.outputs))], None
        if callable(backward):
            walk = ReplayWalk.of(workspace, inputs)
            walk.asked = []
            gradients = backward(walk)
        elif backward:
            gradients = [g.copy() for g in workspace.gradients]
        outcome = Outcome(values, tape.structure, gradients, tape)
        stats.sweeps += count
        stats.seconds["replay"] += time.perf_counter() - start
        if not callable(backward) and not self.kernels.pays and self.kernels.left(backward) <= 1:
            # A kernel is made now, and has memory of its own.
            large = workspace.nbytes > TRIMMED
            workspace = None
            if large:
                trim()
        self._promote(inputs, backward, outcome, workspace, stats)
        if workspace is not None and (callable(backward) or backward not in self.kernels.made):
            tape.kept.give(workspace)
        return outcome, FINE, None

    def as_recorded(self, inputs, values, stats):
        """The answer to the call that was recorded, for which nothing has to be computed again: nor planned, before there is a second call."""
        outcome = Outcome(values, self.tape.structure, None, self.tape)
        self._promote(inputs, False, outcome, None, stats)
        return outcome

    def _promote(self, inputs, backward, outcome, workspace, stats):
        """Note an answer of the interpreter, and make a kernel of the tape if it is time."""
        kernels = self.kernels
        if not callable(backward):
            if kernels.visited(backward):
                expected = [*outcome.values, *(outcome.gradients or ())]
                kernels.promote(backward, lambda kernel: kernel.answer(inputs), expected, stats, self.name)
        else:
            walk = kernels.walk = kernels.walk or workspace.walk
            asked, workspace.walk.asked = workspace.walk.asked, None
            for forward, directions, count, results in asked:
                key = key_of(self.tape, forward, count)
                if kernels.visited(key):

                    def answer(kernel, forward=forward, directions=directions):
                        return KernelWalk(walk, inputs, lambda *_: (kernel, kernel.lanes)).answer(forward, directions)

                    kernels.promote(key, answer, results, stats, self.name)
