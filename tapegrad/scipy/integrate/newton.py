"""The matrices of Newton's method in a step: dense, or sparse where the pattern of the Jacobian is known.

All of them have blocks ``c * C[j, k] * I - d * D[j, k] * J[k]``, with constant matrices C and D, numbers c and d, and Jacobians J of
the slope, whose numbers a loop carries.

A pattern is `jac_sparsity`, or that of the recorded slope.  A recording that decides on values is no evidence for other values: then
the matrices are dense.
"""

from dataclasses import replace

import numpy as np

from ...autograd.custom import stop_gradient
from ...autograd.nested import current_trace
from ...common.uninterrupted import Lazily, uninterrupted
from ...program.evaluation import applied
from ...transforms.jacobians import jacfwd
from ...transforms.loops.body import LeafLayout, Unrecordable, recorded, value_of
from ..mirrors import array
from ..sparse.values import Pattern, solution

_sparse = Lazily("scipy.sparse")

#: Of fewer unknowns no pattern is looked for, nor in plain calls: dense matrices take little time, and what is compiled for them is kept between plain calls.
LEAST = 200
#: The relative error of a product of the Jacobian that is still rounding.
ROUNDING = 1e-5


class DenseMatrices:
    """Jacobians as matrices."""

    #: Where the numbers that are kept stand.
    places = ...

    def derivative(self, slope, y):
        """The numbers of the Jacobian of a slope, by its derivative."""
        return jacfwd(slope)(y)

    def given(self, jac):
        """The numbers of a Jacobian that was given."""
        return (jac.toarray() if hasattr(jac, "toarray") else array(jac))[self.places]

    def solver(self, C, c, D, d, jacobians):
        """A function of vectors: the solution of the system with these blocks, which are factored once."""
        rows = [np.concatenate([D[j, k] * J for k, J in enumerate(jacobians)], axis=1) for j in range(len(D))]
        inverse = np.linalg.inv(c * np.kron(C, np.eye(len(jacobians[0]))) - d * np.concatenate(rows))
        return lambda b: inverse @ b


class SparseMatrices(DenseMatrices):
    """Jacobians as their values in the places of a pattern, from a direction for each colour of its columns.

    Parameters
    ----------
    structure : csr_array of bool
    """

    def __init__(self, structure):
        with uninterrupted:
            from ...program.sparsity.compressed import column_colours, coordinates  # it imports SciPy
        self.size, self.places, colour = structure.shape[0], coordinates(structure), column_colours(structure)
        self.seeds = (colour == np.arange(colour.max(initial=-1) + 1)[:, None]).astype(float)
        self.positions = colour[self.places[1]] * self.size + self.places[0]

    def derivative(self, slope, y):
        return np.reshape(applied(lambda e: e.push([self.seeds], len(self.seeds))[0], slope, (y,), (0,), {}), (-1,))[self.positions]

    def lacks(self, slope, y):
        """Whether the Jacobian of a slope has more entries at `y` than the pattern has places: its product with a vector is another one."""
        tangents = np.vstack([self.seeds, np.random.default_rng(0).normal(size=self.size)])
        *columns, product = value_of(applied(lambda e: e.push([tangents], len(tangents))[0], slope, (y,), (0,), {}))
        J = _sparse.csr_array((np.reshape(columns, -1)[self.positions], self.places), (self.size, self.size))
        return np.any(np.abs(J @ tangents[-1] - product) > ROUNDING * (abs(J) @ np.abs(tangents[-1]) + np.abs(product)))

    def solver(self, C, c, D, d, jacobians):
        ones, steps = np.ones(self.size), (np.arange(self.size),) * 2
        blocks = [(j, k, steps, c * C[j, k] * ones) for j, k in np.argwhere(C).tolist()]
        blocks += [(j, k, self.places, -d * D[j, k] * jacobians[k]) for j, k in np.argwhere(D).tolist()]
        coords = tuple(np.concatenate([block[i] * self.size + block[2][i] for block in blocks]) for i in range(2))
        data, pattern = np.concatenate([block[3] for block in blocks]), Pattern(coords, (len(C) * self.size,) * 2)
        return lambda b: solution(data, b, pattern=pattern, trans="N")


def of_problem(problem, y, sparsity, jac):
    """How the Jacobians of a problem are kept, from the state `y` at its start; `sparsity` and `jac` are what the user says of them, or None."""
    if hasattr(jac, "toarray"):
        return SparseMatrices(_sparse.csr_array(jac) != 0)
    if sparsity is None or jac is not None:
        structure = _recorded_pattern(problem, y) if y.size >= LEAST and current_trace() is not None else None
        return DenseMatrices() if structure is None else SparseMatrices(structure)
    structure = _sparse.csr_array(sparsity) != 0
    if structure.shape != (y.size, y.size):
        raise ValueError(f"`jac_sparsity` is expected to have shape {(y.size, y.size)}, but actually has {structure.shape}")
    found = SparseMatrices(structure)
    if found.lacks(lambda y: problem.slope(problem.start, y), stop_gradient(y)):
        raise ValueError("`jac_sparsity` has no place for some entry that the Jacobian of `fun` has at the start")
    return found


def _recorded_pattern(problem, y):
    """The pattern of the slope, wherever it is evaluated; None if it is not known, or saves too little."""
    at = value_of(y), np.reshape(value_of(problem.start), (1,))
    try:
        tape, *_ = recorded(lambda y, t: (problem.slope(t[0], y), None, False), *map(LeafLayout.of, at), at, [], "the right-hand side")
    except Unrecordable:
        return None
    known = replace(tape, wanted=tuple(k == 0 for k in range(len(tape.inputs)))).compressions
    return known.structure if not tape.guards and known.worth and known.worth[0] else None
