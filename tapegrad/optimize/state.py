"""All that a compiled loop knows between two steps: what an optimisation is resumed from."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from ..array.typing import Array
from . import loop as P
from .layout import Layout


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
        self.vectors = np.zeros((P.VECTORS, n))
        # Changes of the point and of its gradient in turn; for each pair a coefficient of the direction, and the product of its parts.
        self.pairs, self.products = np.zeros((2 * memory, n)), np.zeros((2, memory))
        self.reals, self.integers = np.zeros(P.REALS), np.zeros(P.INTEGERS, np.int64)
        self.vectors[P.XT] = layout.vector
        self.vectors[P.LOWER], self.vectors[P.UPPER] = -np.inf, np.inf
        self.reals[P.R_POWER1] = self.reals[P.R_POWER2] = 1.0
        # A decrease relative to the value that may be lost in rounding.
        self.reals[P.R_ROUNDING] = 1e-12 if layout.double else 1e-6
        self._history = [np.zeros((0, P.COLUMNS))]

    @property
    def iterations(self) -> int:
        return int(self.integers[P.I_ITERATIONS])

    @property
    def evaluations(self) -> int:
        return int(self.integers[P.I_EVALUATIONS])

    @property
    def history(self) -> Array:
        """Value and gradient norm at the start and after every iteration: an array of two columns."""
        if len(self._history) > 1:
            self._history = [np.concatenate(self._history)]
        return self._history[0]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What the compiled loops are given (`optimize.loop`)."""
        return self.vectors, self.pairs, self.products, self.reals, self.integers

    def remember(self, rows: Array) -> None:
        """Take rows of the history that the loop has written."""
        self._history.append(rows.copy())

    def begin_again(self) -> None:
        """Go on from the current point with nothing remembered but the counts and the history."""
        self.vectors[P.XT] = self.vectors[P.X]
        self.vectors[P.D] = self.vectors[P.SCRATCH] = 0.0
        self.reals[P.R_POWER1] = self.reals[P.R_POWER2] = 1.0
        self.reals[P.R_SEARCH :] = 0.0
        self.integers[[P.I_PHASE, P.I_PAIRS, P.I_HEAD, P.I_STARTED]] = 0

    def copy(self) -> State:
        """The same, sharing nothing that changes."""
        return deepcopy(self)

    def __repr__(self):
        return f"State({self.method}, iterations={self.iterations}, evaluations={self.evaluations}, value={self.reals[P.R_VALUE]:.6g})"
