"""The state of the compiled loop (`optimize.run`): what it knows between two steps, why it comes back, what an optimisation is resumed from.

The loop is a machine that is always in one of three phases: it wants value and gradient
at its trial point (`EVALUATE`), has them (`EVALUATED`), or has accepted a point and
will choose the next direction (`NEXT`).  All it knows lies in arrays of the state, so it may come
back to Python anywhere and go on later, to the same bits: for its budget of
evaluations is used up (so that Ctrl-C, the callback and the progress line get their
iteration), because its rows for the history are full, or because the compiled objective
could not answer: then Python evaluates at the trial point (recording a new path, for
instance), writes value and gradient where the loop expects them, and sends it on.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from ..array.typing import Array
from .layout import Layout

# Vectors of a state (rows of a matrix).
X, G, XT, GT, D, LOWER, UPPER, SCRATCH = range(8)
VECTORS = 8

# Integers of a state.  I_FINAL: without bounds 1 while the trial point is the one to be taken, with bounds how often the step was halved.
(
    I_PHASE, I_ITERATIONS, I_EVALUATIONS, I_LIMIT, I_BOUNDED, I_KIND, I_PAIRS, I_HEAD, I_STARTED, I_FINAL, I_ROWS,
) = range(11)  # fmt: skip
INTEGERS = 16

# Reals of a state.  R_FIRST: the first step of a search; what it promised tells a search that ended in rounding from one that is stuck.
(
    R_VALUE, R_TRIAL, R_NORM, R_CHANGE, R_GTOL, R_FTOL, R_RATE, R_MOMENTUM, R_BETA1, R_BETA2, R_EPSILON, R_POWER1, R_POWER2,
    R_FIRST, R_ROUNDING,
) = range(15)  # fmt: skip
#: The line search's state comes after these (`optimize.line_search`).
R_SEARCH = 16
REALS = R_SEARCH + 24

# Kinds of steps.
HEAVY_BALL, NESTEROV, ADAM, LBFGS = range(4)

# Phases.
EVALUATE, EVALUATED, NEXT = range(3)

# Why a loop comes back: not finished ...
BUDGET, PYTHON, FULL = 1, 2, 3
# ... or finished.
GRADIENT, CHANGE, LIMIT, STUCK, BROKEN, ENDLESS = 11, 12, 13, 14, 15, 16
FINISHED = 10

# Columns of the history.
H_VALUE, H_NORM = range(2)
COLUMNS = 2


class State:
    """The state of an optimisation by a compiled loop.

    Passed to the same optimiser in place of `x0`, it continues the run, to the same bits as if it had never stopped.  It can be copied and
    pickled.

    Attributes
    ----------
    method : str
    iterations, evaluations : int

    Parameters
    ----------
    method : str
    layout : Layout
        How the numbers lie in the container of `x0`.
    memory : int
        Number of pairs that L-BFGS keeps.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> part = tg.optimize.lbfgs(lambda x: np.sum((x - 1.0) ** 4), np.zeros(3), max_iter=2)
    >>> part.state.iterations
    2
    """

    def __init__(self, method: str, layout: Layout, memory: int = 0) -> None:
        n = layout.size
        self.method, self.layout = method, layout
        self.vectors = np.zeros((VECTORS, n))
        # Changes of the point and of its gradient in turn; for each pair a coefficient of the direction, and the product of its parts.
        self.pairs, self.products = np.zeros((2 * memory, n)), np.zeros((2, memory))
        self.reals, self.integers = np.zeros(REALS), np.zeros(INTEGERS, np.int64)
        self.vectors[XT] = layout.vector
        self.vectors[LOWER], self.vectors[UPPER] = -np.inf, np.inf
        self.reals[R_POWER1] = self.reals[R_POWER2] = 1.0
        # A decrease relative to the value that may be lost in rounding.
        self.reals[R_ROUNDING] = 1e-12 if layout.double else 1e-6
        self._history = [np.zeros((0, COLUMNS))]

    @property
    def iterations(self) -> int:
        return int(self.integers[I_ITERATIONS])

    @property
    def evaluations(self) -> int:
        return int(self.integers[I_EVALUATIONS])

    @property
    def history(self) -> Array:
        """Value and gradient norm at the start and after every iteration: an array of two columns."""
        if len(self._history) > 1:
            self._history = [np.concatenate(self._history)]
        return self._history[0]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the compiled loops are given."""
        return self.vectors, self.pairs, self.products, self.reals, self.integers

    def remember(self, rows: Array) -> None:
        """Take rows of the history that the loop has written."""
        self._history.append(rows.copy())

    def begin_again(self) -> None:
        """Go on from the current point with nothing remembered but the counts and the history."""
        self.vectors[XT] = self.vectors[X]
        self.vectors[D] = self.vectors[SCRATCH] = 0.0
        self.reals[R_POWER1] = self.reals[R_POWER2] = 1.0
        self.reals[R_SEARCH :] = 0.0
        self.integers[[I_PHASE, I_PAIRS, I_HEAD, I_STARTED]] = 0

    def copy(self) -> State:
        """The same, sharing nothing that changes."""
        return deepcopy(self)

    def __repr__(self):
        return f"State({self.method}, iterations={self.iterations}, evaluations={self.evaluations}, value={self.reals[R_VALUE]:.6g})"
