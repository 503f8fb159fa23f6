"""An objective as optimisers want it: value and gradient at a vector, at once, by replay.

The first evaluations go the long way (`optimize.proof`): the function is recorded, and run plainly beside, to see whether the
recording stands for it.  From then on `handle` gives loops and SciPy's methods the compiled way to the tape used last, by its
kernel when it has one; where a guard sees something else, or a kernel is to be made, `record` goes the long way again.
What the function depends on besides its arguments is looked at when an optimisation begins, and after user code has run
(`suspect`); in between nothing but our own code runs.
"""

import math
import time

import numpy as np

from ..autograd.anomaly import first_anomaly
from ..common.errors import NonFiniteError, StructureError
from ..transforms.keep import kept as kept_with
from ..transforms.replay.answers import sort_arguments
from ..transforms.transformed import Transformed, options_of
from .layout import Layout
from .proof import UNKNOWN, Proof, own_options


class Objective:
    """`function(x, *args)` with its gradient, for vectors like that of `x0`.

    Parameters
    ----------
    function : callable
        Takes the containers of `x0`, returns one number.  What `tg.value_and_grad` or `tg.jit` returned is taken
        as the function it is of, together with what it has recorded and when it becomes a kernel.
    x0 : float, array_like, or containers of them
    args : tuple
        Further arguments.

    Attributes
    ----------
    layout : Layout
    proof : Proof
    counts : dict of str to int
        Of value and gradient together: ``evaluations``, and ``replays`` (answered without the user's function), ``records`` and
        ``runs`` (times that it ran, to be recorded and plainly).
    seconds : float
        In evaluations that were not answered by compiled code.
    """

    def __init__(self, function, x0, args=()):
        self.args = args if isinstance(args, tuple) else (args,)
        self.layout = Layout(x0)
        #: What says how to record: the function as it was given.
        self.like, options, recorded = function, options_of(function), None
        if isinstance(function, Transformed):
            asked = function._replayed
            if asked.argnums not in ((), (0,)) or asked.has_aux or not asked.scalar:
                raise StructureError("the function must be differentiated with respect to its first argument, without has_aux")
            function = function.__wrapped__
            if asked.jit is not None and asked.argnums:
                recorded = asked
        if not callable(function):
            raise StructureError(f"expected a function to minimise, got {type(function).__name__}")
        from ..transforms.replay.function import Replayed  # it loads what replays

        options = options or own_options()
        self.function = function
        self.replayed = recorded or kept_with(function, ("value_and_grad", options), lambda function: Replayed(function, (0,), jit=options))
        self.proof = Proof(self.replayed, self.layout, self.args)
        self.counts, self.seconds = dict.fromkeys(("evaluations", "records", "runs", "replays"), 0), 0.0
        self._before = self.replayed.stats.records, self.replayed.stats.runs
        self._handles, self._current, self._suspect = {}, None, True

    def asked(self, bounds):
        """What a `Result` has to know of it; `bounds` are two vectors, or None."""
        return {"function": self.function, "args": self.args, "bounds": bounds}

    # -- compiled -------------------------------------------------------------------
    def suspect(self):
        """User code has run: look at what the function reads before the next evaluation."""
        self._suspect = True

    def handle(self):
        """The address of the current handle (`program.handle`), or 0 if the next evaluation has to go the long way."""
        current = self._current
        if current is None or self.proof.due:
            return 0
        if self._suspect:
            self._suspect = False
            if self.replayed.plain or not self.replayed.environment.same():
                self._current = None
                return 0
        return current.ready()

    def until_kernel(self):
        """How many evaluations compiled code may do by sweep; the next one, the long way, makes the kernel (inf: there is none to make)."""
        current = self._current
        return math.inf if current is None else max(1, current.kept.kernels.left(True) - 1)

    def evaluate(self, x, g):
        """The value at vector `x`; the gradient goes into `g`."""
        value = self._answer(x, g)
        if value is None:
            return self.record(x, g)
        self.note(1)
        return value

    def _answer(self, x, g):
        """`evaluate` by compiled code, or None."""
        return self._current.answer(x, g) if self.handle() else None

    def note(self, count):
        """Note evaluations by compiled code."""
        self.counts["evaluations"] += count
        self.counts["replays"] += count
        self._replayed(count)

    def _replayed(self, count):
        current, stats = self._current, self.replayed.stats
        if current is not None and current.kernel is not None:
            stats.kernel_calls += count
        else:
            stats.sweeps += count
            if current is not None:
                current.kept.kernels.visits[True] += count

    # -- the long way -----------------------------------------------------------------
    def record(self, x, g):
        """`evaluate` by the replayed function, which records where it has to."""
        start, replays = time.perf_counter(), self.replayed.stats.replays
        outcome = self.proof.evaluate(x)
        self._adopt(x, None if self.proof.differs else outcome.tape)
        value = np.asarray(outcome.values[0], float).item()
        for part, a, b in zip(outcome.gradients, self.layout.offsets, self.layout.offsets[1:]):
            g[a:b] = np.reshape(part, -1)
        self.counts["evaluations"] += 1
        self.counts["replays"] += self.replayed.stats.replays > replays
        self._count(start)
        return value

    def stands(self, x):
        """Whether the function itself gives at the solution `x` what was recorded; if not, it is run plainly from now on."""
        start, g, outcome = time.perf_counter(), np.empty(self.layout.size), None
        value = self._answer(np.ascontiguousarray(x, np.float64), g)
        if value is not None:
            from ..transforms.replay.running import Outcome

            self._replayed(1)
            outcome = Outcome([value], None, self.layout.leaves(g), self._current.kept.tape)
        stands = self.proof.stands(x, True, outcome)
        if not stands:
            self._current = None
        self._count(start)
        return stands

    def _count(self, start):
        stats, (records, runs) = self.replayed.stats, self._before
        self.counts.update(records=stats.records - records, runs=stats.runs - runs)
        self.seconds += time.perf_counter() - start

    def _adopt(self, x, tape):
        """Go on with the tape that answered at `x`, if compiled code can."""
        self._current = self._handles.get(tape)
        if self._current is not None or tape is None or self.proof.due:
            return
        inputs, key, _ = sort_arguments((self.layout.container(x), *self.args), {}, self.replayed.argnums)
        kind = self.replayed.kinds.get(key)
        kept = kind.recent if kind is not None else None
        if kept is None or kept.tape is not tape:
            # Another thread has gone on to another path.
            return
        self._current = self._handles[tape] = _CompiledTape(kept, inputs, self.layout)

    # -- numbers that are none -----------------------------------------------------------
    def refuse(self, x, value, g, hint=""):
        """Raise `NonFiniteError` that names the operation from which the value or gradient is not finite at `x`."""
        raise NonFiniteError(f"{self.fault(x, value, g, self.counts['evaluations'])}{hint}")

    def fault(self, x, value, g, evaluation):
        """What is not finite at `x`, and from which operation."""
        if not np.isfinite(value):
            what = f"the value is {value}"
        else:
            k = int(np.flatnonzero(~np.isfinite(g))[0])
            what = f"the derivative by {self.layout.name_of(k).replace('x0', 'x', 1)} is {g[k]}"
        culprit = first_anomaly(self.function, (self.layout.container(x.copy()), *self.args)) or UNKNOWN
        return f"{what} at x = {self._point(x)} (evaluation {evaluation}): {culprit}"

    def _point(self, x):
        with np.printoptions(precision=6, threshold=8, edgeitems=3):
            return str(self.layout.container(x)) if self.layout.structure.kind is not None else str(x)


class _CompiledTape:
    """A tape as compiled code calls it (`program.handle`): its replay, and its kernel if it has one."""

    def __init__(self, kept, inputs, layout):
        # Compiled code is loaded once there is something to run.
        from ..interpreter.native import data_address
        from ..program.handle import DONE, Handle, evaluate

        self.kept, self.kernel, self._handle = kept, None, None
        self._evaluate, self._done, self._address, self._value = evaluate, DONE, data_address, np.empty(1)
        # Else an instruction needs the interpreter, or the value or an argument is no float64.
        if not kept.replay.why and kept.replay.outputs[0] == ((), "d") and layout.double:
            count = len(layout.shapes)
            self._handle = Handle(kept.replay, [8 * a for a in layout.offsets[:count]], inputs[count:])

    def answer(self, x, g):
        """The value at `x`, or None; the gradient goes into `g`."""
        address, handle = self._address, self._handle.pointer
        done = self._evaluate(handle, address(x), address(g), address(self._value)) == self._done
        return float(self._value[0]) if done else None

    def ready(self):
        """The handle's address; 0 if compiled code cannot call it, or if it is time to make the kernel."""
        kernels = self.kept.kernels
        if self._handle is None or self.kernel is None and kernels.left(True) <= 1:
            return 0
        if self.kernel is None:
            self.kernel = kernels.made.get(True)
            if self.kernel is not None:
                self._handle.prefer(self.kernel)
        return self._handle.pointer
