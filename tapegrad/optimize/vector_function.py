"""A function that gives several numbers, as SciPy wants it: values, and the exact Jacobian.

Residuals, equations and constraints are one of these.  Values come from a replay;
the Jacobian from the same replay, forward or reverse by predicted cost
(`tg.jacobian`), or compressed where it is sparse.  The first calls are run plainly, too, and compared (`optimize.proof`).
"""

from functools import partial

import numpy as np

from ..array.trees import joined
from ..autograd.anomaly import first_anomaly
from ..common.errors import NonFiniteError, StructureError
from ..program.evaluation import Evaluation
from ..sparse.api import sparse_hessian, sparse_jacobian
from ..transforms.jacobians import jacobian
from .progress import Progress
from .proof import UNKNOWN, Proof, recorded

_WEIGHTED = partial(sparse_hessian, weights=True)


def _blocks(walk):
    return Evaluation(walk).jacobian()


class VectorFunction:
    """`function(x, *args)` with its Jacobian, for vectors like that of `layout`.

    Parameters
    ----------
    function : callable
        Takes the containers of the start; returns an array, a number, or containers of them, which
        are put one after the other.
    layout : Layout
    args : tuple
    what : str
        How errors name it.

    Attributes
    ----------
    evaluations, jacobians : int
        Asked for at different points.
    shown : Progress
        Where a Jacobian was asked for: half the sum of squares, and the largest component of its gradient.
    proof : Proof
    """

    def __init__(self, function, layout, args=(), what="the function", shown=None):
        if not callable(function):
            raise StructureError(f"{what} must be a function, got {type(function).__name__}")
        self.function, self.layout, self.args, self.what = function, layout, args if isinstance(args, tuple) else (args,), what
        self.derivative = recorded(function, "jacobian", jacobian)
        self.replayed = self.derivative._replayed
        self.before = self.replayed.stats.records
        self.evaluations = self.jacobians = 0
        self.shown = shown or Progress(False)
        self.proof = Proof(self.replayed, layout, self.args)
        self._values = self._rows = (None, None)

    @property
    def records(self):
        """Times that the function ran to be recorded."""
        return self.replayed.stats.records - self.before

    def values(self, x):
        """All numbers at vector `x`, as a vector."""
        key = x.tobytes()
        if self._values[0] != key:
            self._values = key, self._joined(self.proof.evaluate(x, False))
            self.evaluations += 1
        return self._values[1].copy()

    def jacobian(self, x):
        """The Jacobian at vector `x`: one row for each number."""
        key = x.tobytes()
        if self._rows[0] != key:
            outcome = self.proof.evaluate(x, _blocks)
            rows = []
            for blocks, value in zip(outcome.gradients, outcome.values):
                # One block for each leaf, of shape value.shape + leaf.shape.
                rows.append(np.concatenate([np.reshape(block, (np.size(value), -1)) for block in blocks], axis=1))
            self._rows = key, np.concatenate(rows, dtype=np.float64)
            self._values = key, self._joined(outcome)
            self.jacobians += 1
            self._note(self._values[1], self._rows[1])
        return self._rows[1].copy()

    def finite_jacobian(self, x):
        """The Jacobian, which has to be finite."""
        rows = self.jacobian(x)
        if not np.isfinite(rows).all():
            self.refuse(x)
        return rows

    def sparse_jacobian(self, x):
        """The Jacobian at vector `x` as a SciPy array, with an entry for each place of its pattern."""
        return self._sparse(recorded(self.function, "sparse_jacobian", sparse_jacobian), x)

    def sparse_hessian(self, x, *weights):
        """The Hessian in the same form: of the one number, or of the sum of all, times `weights` in the containers of the result."""
        return self._sparse(recorded(self.function, f"sparse_hessian {len(weights)}", _WEIGHTED if weights else sparse_hessian), x, *weights)

    def _sparse(self, derivative, x, *more):
        found = derivative(self.layout.container(np.array(x)), *self.args, *more)
        if derivative.stats().fallback:
            # It has no pattern, only what is not zero here.
            rows, columns = found.shape
            places = np.tile(np.arange(columns), rows), np.arange(rows + 1) * columns
            return type(found)((found.toarray().reshape(-1), *places), shape=found.shape)
        return found

    def _note(self, values, rows):
        with np.errstate(all="ignore"):
            self.shown.note(0.5 * float(values @ values), float(np.max(np.abs(values @ rows), initial=0.0)))

    def stands(self, x):
        """Whether the function itself gives at the solution `x` what was recorded; if not, it is run plainly from now on."""
        self._values = self._rows = (None, None)
        # A Jacobian that was not asked for may be too large to be made: a sparse one, or that of a method that needs none.
        return self.proof.stands(x, _blocks if self.jacobians else False)

    @staticmethod
    def _joined(outcome):
        return np.concatenate([np.reshape(np.asarray(v, np.float64), -1) for v in outcome.values]) if outcome.values else np.zeros(0)

    def refuse(self, x, derivative=True):
        """Raise `NonFiniteError` if values (or with `derivative` the Jacobian) at `x` are not finite; it names the operation."""
        values = self.values(x)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            what = f"number {bad[0]} of {self.what} is {values[bad[0]]}"
        elif not derivative:
            return
        else:
            bad = np.argwhere(~np.isfinite(self.jacobian(x)))
            if not len(bad):
                return
            name = self.layout.name_of(int(bad[0][1])).replace("x0", "x", 1)
            what = f"the derivative of number {bad[0][0]} of {self.what} by {name} is not finite"
        raise NonFiniteError(f"{what}: {first_anomaly(self._summed, (self.layout.container(x.copy()),)) or UNKNOWN}")

    def _summed(self, x):
        """One number with a derivative from every one of the function's."""
        return np.sum(joined(self.function(x, *self.args)))
