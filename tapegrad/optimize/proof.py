"""Whether a recording still stands for its function.

An optimiser records its objective, although nobody has written `jit`.  That would freeze a random minibatch, a counter or a
file.  So its first evaluations and the solution are run plainly, too, and compared: a function that differs is run plainly
to the end, and the result says so.
"""

from __future__ import annotations

from ..transforms.replay.kernels import agree

#: Evaluations at the start of an optimisation that are run plainly, too.
FIRST = 3

#: What the message of a result says of a function that differs.
DIFFERS = (
    "the function gives something else when it is run than when it was recorded, so it was run at each evaluation from then on "
    "(data that change belong in args=, random minibatches in a loop with tg.optim)"
)


def same(one, other):
    """Whether two `Outcome` have the same values and gradients, but for rounding."""
    pairs = [(one.values, other.values), (_flat(one.gradients), _flat(other.gradients))]
    return all(len(a) == len(b) and all(map(agree, a, b)) for a, b in pairs)


def _flat(gradients):
    """Gradients, or blocks of a Jacobian, in one list."""
    if isinstance(gradients, (list, tuple)):
        return [g for part in gradients for g in _flat(part)]
    return [] if gradients is None else [gradients]
