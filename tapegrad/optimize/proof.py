"""Whether a recording still stands for its function.

An optimiser records its objective, although the user has not written `jit`.  That would freeze a random minibatch, a counter or a
file.  So its first evaluations and the solution are run plainly, too, and compared: a function that differs is run plainly
to the end, and the result says so.

========================================== ========================================================
what is compared                           how
========================================== ========================================================
the first `FIRST` evaluations              values
the solution                               value and gradient: where both are right, it is one; of several
                                           numbers the Jacobian, if the method asks for a dense one
the solution of a later optimisation with  values; what the function reads was looked at when that
a recording that has been compared so      optimisation began
========================================== ========================================================

Values are compared on plain arrays, in a small part of the time of a run on tensors.
"""

import weakref
from traceback import walk_tb

import numpy as np

from ..array.tensor import Tensor
from ..array.trees import leaves
from ..transforms.keep import kept
from ..transforms.replay.kernels import JitOptions, agree, checked_policy
from ..transforms.transformed import options_of, under_jit

#: Evaluations after which what an optimiser records by itself becomes machine code.  To make that takes as long as 200 evaluations
#: by sweep of a long tape, and 1500 of a short one; most optimisations are done by then.
EVALUATIONS = 200
#: Evaluations at the start of an optimisation that are run plainly, too.
FIRST = 3

#: What the message of a result says of a function that differs.
DIFFERS = (
    "the function gives something else when it is run than when it was recorded, so it was run at each evaluation from then on "
    "(data that change belong in args=, random minibatches in a loop with tg.optim)"
)

#: What an error says of numbers that are not finite where no operation is to blame.
UNKNOWN = "each operation by itself gives finite numbers; start elsewhere, or give bounds"

#: Finished tapes that were compared at the first evaluations and at a solution.
_PROVED: weakref.WeakSet = weakref.WeakSet()


def own_options():
    """How an optimiser records a function that is not under `jit`."""
    return JitOptions(checked_policy(None), visits=EVALUATIONS)


def recorded(function, name, transformation, like=None):
    """`transformation(function)`, kept with the function, and recorded as the user says who has put `like` under `jit`."""
    options = options_of(function if like is None else like) or own_options()
    return kept(function, (name, options), lambda function: under_jit(transformation(function), options))


class Proof:
    """The answers of a recorded function in one optimisation, of which some are compared with plain runs.

    Parameters
    ----------
    replayed : Replayed
    layout : Layout
        Of the vectors at which it is asked.
    args : tuple
        Further arguments.

    Attributes
    ----------
    due : int
        Evaluations that are still to be compared before the solution.
    differs : bool
        Whether the function has given something else than its recording, and is run plainly.
    """

    def __init__(self, replayed, layout, args):
        self.replayed, self.layout, self.args = replayed, layout, args
        self.due, self.differs = FIRST, False
        self._on_tensors, self._compared = False, set()

    def evaluate(self, x, backward=True):
        """An `Outcome` at vector `x`; `backward` as of `Replayed.call`."""
        if self.differs:
            return self._run(x, backward)
        outcome = self._called(x, backward)
        if outcome.tape in _PROVED:
            self.due = 0
        if self.due and outcome.tape is not None:
            self.due -= 1
            return self._judged(x, outcome, backward, False)
        return outcome

    def stands(self, x, backward=True, outcome=None):
        """Whether the function itself gives at the solution `x` what was recorded, the `Outcome` where that is known; if not, it is
        run plainly from now on."""
        if self.differs or self.replayed.plain:
            return True
        outcome = outcome or self._called(x, backward)
        if outcome.tape is not None:
            self._judged(x, outcome, backward, outcome.tape not in _PROVED)
            if not self.differs:
                _PROVED.update(self._compared)
        return not self.differs

    def _called(self, x, backward):
        outcome = self.replayed.call(self._at(x), {}, backward)
        if outcome.values is None:
            # Kernels of directional derivatives give no values.
            outcome.values = self.replayed.call(self._at(x), {}, False).values
        return outcome

    def _at(self, x):
        # A copy: the function may keep what it is given.
        return self.layout.container(np.array(x, np.float64)), *self.args

    def _judged(self, x, outcome, backward, derivatives):
        """`outcome`, of a replay at `x`, if the function itself gives the same; else what that gives."""
        plainly = None if derivatives and backward else self._values(x)
        if plainly is None or not same(plainly, outcome, False):
            plainly = self._run(x, backward)
            if not same(plainly, outcome, bool(backward)) and not same(plainly, outcome, bool(backward), self._run(self.layout.vector, backward)):
                self.differs = True
                _PROVED.discard(outcome.tape)
                return plainly
        self._compared.add(outcome.tape)
        self.replayed.as_left()
        return outcome

    def _run(self, x, backward):
        # What takes only tensors gets them where something is read off its tape, be it nothing.
        return self.replayed.run(self._at(x), {}, backward or self._on_tensors and (lambda recording: None))

    def _values(self, x):
        """The `Outcome` of a run on plain arrays, without gradients; None of a function that takes only tensors."""
        if self._on_tensors:
            return None
        try:
            # Numbers are NumPy's, with which 1 / 0 is infinite as it is with tensors.
            return self.replayed.run((self.layout.traced(np.array(x)), *self.args), {}, False)
        except Exception as error:
            self._on_tensors = wants_tensors(error)
            if not self._on_tensors:
                raise
            return None


def proved(solve, start, stands):
    """What ``solve(start)`` ends with; where that is no solution of the function itself, what it ends with from there on."""
    solution = solve(start)
    return solution if stands(solution.x) else solve(np.array(solution.x))


def wants_tensors(error):
    """Whether an error of a function on plain arrays says that it takes only tensors: it has asked an array for an attribute of
    tensors, or given it to a function of this library that refuses it."""
    if isinstance(error, AttributeError) and isinstance(error.obj, (np.ndarray, np.generic, float)):
        return hasattr(Tensor, error.name)
    *_, (frame, _) = walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").startswith(f"{__package__.partition('.')[0]}.")


def same(plainly, replayed, derivatives, start=None):
    """Whether two `Outcome` have the same values, and with `derivatives` the same gradients, but for rounding.

    Constraints and gradients vanish at a solution, where all that is left of them is rounding: that is small beside what they were at
    the `start`, if that is given.
    """
    one, other, began = ([*each.values, *(leaves(each.gradients) if derivatives else ())] for each in (plainly, replayed, start or replayed))
    return len(one) == len(other) == len(began) and all(map(_near, one, other, began))


def _near(plainly, replayed, began):
    plainly, shape = np.asarray(getattr(plainly, "_v", plainly)), np.shape(getattr(replayed, "_v", replayed))
    plainly = plainly if plainly.dtype.char == "f" else plainly.astype(np.float64)
    # An array of one element is differentiated as that number.
    return (plainly.shape == shape or plainly.size == np.prod(shape) == 1) and agree(plainly.reshape(shape), replayed, beside=began)
