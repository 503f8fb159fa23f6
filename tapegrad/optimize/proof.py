"""Whether a replay still stands for its function, found out for less than a recording.

A replayed function is recorded again at its second, fourth, eighth ... call and
compared (`transforms.replay.function`).  An optimisation is short and its calls are many, so here
the value of the replay is compared with what the Python function itself gives
for plain arrays, which takes a small part of the time.
"""

from __future__ import annotations

import numpy as np

from ..common.tree import flatten
from ..transforms.replay.arguments import sort_arguments

#: How near the two have to be, relative to the largest number (their exponentials differ in the last bits).
AGREEMENT = 1e-9


def spare_a_recording(replayed, function, args):
    """If the next call of `replayed` would record only to compare: compare here, and if all is well let it replay."""
    inputs, key, _ = sort_arguments(args, {}, replayed.argnums)
    kind = replayed.kinds.get(key)
    if kind is None or kind.given_up or kind.calls + 1 != kind.check_at or kind.tapes.first() is None:
        return
    # With gradients, where there are any: if that makes a kernel, it is the one that is wanted.
    outcome = replayed.replay(kind, inputs, replayed.adjoints and replayed.scalar, count=False)
    if outcome is not None and stands_for(function, args, outcome.values):
        kind.check_at *= 2


def stands_for(function, args, values):
    """Whether `values` are what `function` itself gives for plain arrays."""
    try:
        with np.errstate(all="ignore"):
            plain = [np.asarray(leaf, np.float64) for leaf in flatten(function(*args))[0]]
    except Exception:
        # It may take tensors only: a recording says more.
        return False
    return len(plain) == len(values) and all(map(_near, plain, values))


def _near(a, b):
    # An array of one element is differentiated as that number.
    return (a.shape == np.shape(b) or a.size == np.size(b) == 1) and np.allclose(
        a, b, rtol=AGREEMENT, atol=AGREEMENT * max(1.0, float(np.max(np.abs(b), initial=0.0))), equal_nan=True
    )
