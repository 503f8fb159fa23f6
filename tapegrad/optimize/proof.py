"""Whether a recording still stands for its function.

An optimiser records its objective, although nobody has written `jit`.  That would freeze a random minibatch, a counter or a
file.  So its first evaluations and the solution are run plainly, too, and compared: a function that differs is run plainly
to the end, and the result says so.
"""

from __future__ import annotations

import numpy as np

from ..common.tree import flatten
from ..transforms.replay.kernels import Options, agree, checked_policy

#: Evaluations after which what an optimiser records by itself becomes machine code: most optimisations are done by then.
EVALUATIONS = 100
#: Evaluations at the start of an optimisation that are run plainly, too.
FIRST = 3

#: What the message of a result says of a function that differs.
DIFFERS = (
    "the function gives something else when it is run than when it was recorded, so it was run at each evaluation from then on "
    "(data that change belong in args=, random minibatches in a loop with tg.optim)"
)


def own_options():
    """How an optimiser records a function that nobody has put under `jit`."""
    return Options(checked_policy(None), visits=EVALUATIONS)


def stands(replayed, outcome, args, backward):
    """None if the function itself gives what a replay says, an `Outcome`; else the `Outcome` of a plain run.

    Values on plain arrays tell, in a small part of the time of a run on tensors; where the function takes only tensors, or the
    values differ, it is run on them.
    """
    replayed.stats.runs += 1
    try:
        values = [np.asarray(leaf, np.float64) for leaf in flatten(replayed.function(*args))[0]]
        if len(values) == len(outcome.values) and all(map(_near, values, outcome.values)):
            return None
    except Exception:  # noqa: BLE001, S110 - whatever it is, a run on tensors says it
        pass
    plainly = replayed.run(args, {}, backward)
    return None if same(outcome, plainly) else plainly


def _near(value, replayed):
    # An array of one element is differentiated as that number.
    return (value.shape == np.shape(replayed) or value.size == np.size(replayed) == 1) and agree(value.reshape(np.shape(replayed)), replayed)


def same(one, other):
    """Whether two `Outcome` have the same values and gradients, but for rounding."""
    pairs = [(one.values, other.values), (_flat(one.gradients), _flat(other.gradients))]
    return all(len(a) == len(b) and all(map(agree, a, b)) for a, b in pairs)


def _flat(gradients):
    """Gradients, or blocks of a Jacobian, in one list."""
    if isinstance(gradients, (list, tuple)):
        return [g for part in gradients for g in _flat(part)]
    return [] if gradients is None else [gradients]
