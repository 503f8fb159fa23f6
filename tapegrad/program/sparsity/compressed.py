"""Jacobians from a few compressed directions: which columns, rows, or vertices share one, the seeds by colour, and the places of the entries.

What is known of the pattern of a finished tape, and the colourings made of it, is
kept with the tape (`FinishedTape.compressions`): a tape is one path of the function, and its
guards hold wherever it is replayed, so the pattern does, too.

Colourings of a pattern:

`column_colours`  columns of one colour share no row: one product of the Jacobian with the sum of
                  their unit vectors gives the entries of all of them.
`star_colours`    of a symmetric pattern: of the entries (i, j) and (j, i) one is enough, so columns may
                  meet where the other one of the two stands alone.

Greedy, once in the order given and once by falling degree, and the better one is kept:
a minimal colouring is NP-hard.

A. R. Curtis, M. J. D. Powell and J. K. Reid, "On the estimation of sparse Jacobian matrices", 1974.
T. F. Coleman and J. J. Moré, "Estimation of sparse Jacobian matrices and graph coloring problems", 1983,
and "Estimation of sparse Hessian matrices and graph coloring problems", 1984.
A. H. Gebremedhin, F. Manne and A. Pothen, "What color is your Jacobian?", SIAM Review 47 (2005) 629-705.
"""

import numpy as np

from ...common.errors import require
from ...common.uninterrupted import cached_property
from ..ports import inputs_of, outputs_of
from .pattern import TooLarge, pattern
from .walk import colour_columns, colour_star

#: Elements and edges of a tape above which a pattern is looked for only on request.
MOST = 4_000_000
#: Where it was not asked for, compression has to save at least this factor.
WORTH = 4


def _best(walk, degrees, arrays):
    """The colouring with fewer colours, of the given order and that of falling degree."""
    count, best = len(degrees), None
    arrays = [np.ascontiguousarray(a, np.int64) for a in arrays]
    for order in (np.arange(count), np.argsort(-degrees, kind="stable")):
        colour, taken = np.full(count, -1, np.int64), np.full(count + 1, -1, np.int64)
        walk(order, *arrays, colour, taken)
        if best is None or colour.max(initial=-1) < best.max(initial=-1):
            best = colour
    return best


def column_colours(structure):
    """Colours of the columns of a CSR array, such that columns of one colour share no row."""
    by_column = structure.tocsc()
    arrays = by_column.indptr, by_column.indices, structure.indptr, structure.indices
    return _best(colour_columns, np.diff(by_column.indptr), arrays)


def star_colours(structure):
    """Star colours of the vertices of the graph of a symmetric CSR array (the diagonal counts for nothing)."""
    return _best(colour_star, np.diff(structure.indptr), (structure.indptr, structure.indices))


def alone(structure, colour):
    """For each entry (i, j) of a CSR array: whether `j` is the only column of its colour in row `i`."""
    rows = np.repeat(np.arange(structure.shape[0]), np.diff(structure.indptr))
    keys = rows * (int(colour.max(initial=0)) + 1) + colour[structure.indices]
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which] == 1


class Compressed:
    """The seeds of one direction of compression, and where the entries are in what comes back.

    Parameters
    ----------
    structure : csr_array
        Rows are the elements that are collected, columns those that are seeded.
    colour : ndarray
        Of the columns.
    sources, targets : list of Port
        Seeded and collected.
    forward : bool
        Whether the sources are the arguments.
    """

    def __init__(self, structure, colour, sources, targets, forward=True):
        self.structure, self.colour, self.sources, self.targets = structure, colour, sources, targets
        self.forward = forward
        self.count = int(colour.max(initial=-1)) + 1

    @cached_property
    def seeds(self):
        """One direction for each colour, as `NumberWalk.columns` takes them."""
        ends = np.cumsum([p.size for p in self.sources])
        parts = np.split(self.colour == np.arange(self.count)[:, None], ends[:-1], axis=1)
        return [part.reshape(self.count, *p.shape).astype(p.char) for part, p in zip(parts, self.sources)]

    @property
    def coordinates(self):
        """The element that is collected and the one that is seeded, of each entry."""
        return coordinates(self.structure)


class Compressions:
    """Pattern and colourings of one tape.

    Parameters
    ----------
    tape : FinishedTape
    """

    def __init__(self, tape):
        self._tape, self._jacobians = tape, {}
        self.inputs, self.outputs = inputs_of(tape), outputs_of(tape)

    @cached_property
    def structure(self):
        """The pattern of the Jacobian, as a SciPy CSR array of bool."""
        return pattern(self._tape)

    @cached_property
    def columns(self):
        """For forward mode."""
        return Compressed(self.structure, column_colours(self.structure), self.inputs, self.outputs)

    @cached_property
    def rows(self):
        """For reverse mode."""
        turned = self.structure.T.tocsr()
        return Compressed(turned, column_colours(turned), self.outputs, self.inputs, False)

    @property
    def _least(self):
        """The fewest colours that either can have: as many as the fullest row, or column, has entries."""
        structure = self.structure
        return {"columns": np.diff(structure.indptr).max(initial=0), "rows": np.bincount(structure.indices).max(initial=0)}

    @cached_property
    def better(self):
        """Columns or rows, whichever take fewer directions."""
        least = self._least
        first, other = sorted(least, key=least.get)
        compressed = getattr(self, first)
        if least[other] < compressed.count and getattr(self, other).count < compressed.count:
            return getattr(self, other)
        return compressed

    @cached_property
    def symmetric(self):
        """Of the tape of a gradient: the compression of the Hessian."""
        return Symmetric(self)

    def jacobian(self, mode):
        """A sparse array of the pattern, the `Compressed` for a mode, and where in what comes back the entries are."""
        if mode not in self._jacobians:
            way = getattr(self, {"auto": "better", "forward": "columns", "reverse": "rows"}[mode])
            rows, columns = coordinates(self.structure)
            if way.forward:
                positions = way.colour[columns] * self.structure.shape[0] + rows
            else:
                positions = way.colour[rows] * self.structure.shape[1] + columns
            self._jacobians[mode] = template(self.structure), way, positions
        return self._jacobians[mode]

    @cached_property
    def small(self):
        """Whether the pattern may be looked for unasked; if so, it was."""
        try:
            # Not by the property, which looks for it in a tape of any size.
            self.__dict__["structure"] = self.structure if "structure" in self.__dict__ else pattern(self._tape, MOST)
        except TooLarge:
            return False
        return True

    @cached_property
    def worth(self):
        """``(columns, rows)``, each a `Compressed` or None where it saves too little to look for it unasked; or None."""
        if not self.small or 0 in self.structure.shape:
            return None
        structure = self.structure
        compressed, least = [], self._least
        for name, size in zip(("columns", "rows"), structure.shape[::-1]):
            made = getattr(self, name) if least[name] * WORTH <= size else None
            compressed.append(made if made is not None and made.count * WORTH <= size else None)
        return None if compressed == [None, None] else tuple(compressed)


class Symmetric:
    """The compression of a Hessian, which is the Jacobian of a recorded gradient.

    Parameters
    ----------
    compressions : Compressions
        Of the tape of the gradient.

    Attributes
    ----------
    structure : csr_array of bool
        Symmetric.
    template : csr_array of float
    way : Compressed
        By columns, with star colours.
    places : ndarray
        Where in what comes back the entries are.
    """

    def __init__(self, compressions):
        inputs, outputs = compressions.inputs, compressions.outputs
        one = compressions.structure
        self.structure = structure = (one + one.T).tocsr()
        structure.sort_indices()
        colour = star_colours(structure)
        self.way = Compressed(structure, colour, inputs, outputs)
        rows, columns = coordinates(structure)
        straight = alone(structure, colour)
        # The k-th entry by columns is (i, j) where the k-th by rows is (j, i).
        mirror = np.empty(len(rows), np.int64)
        mirror[np.lexsort((rows, columns))] = np.arange(len(rows))
        turned = straight[mirror]
        require((straight | turned).all(), "a star colouring leaves an entry without a direction of its own")
        size = len(colour)
        self.template = template(structure)
        positions = np.where(straight, colour[columns] * size + rows, colour[rows] * size + columns)
        # Both of a pair are the same number.
        self.places = np.where(rows <= columns, positions, positions[mirror])


def template(structure):
    """A float array of a pattern."""
    array = structure.astype(float)
    require(array.has_canonical_format, "the pattern of a sparse matrix is not in canonical format")
    return array


def coordinates(structure):
    """Row and column of each entry of a CSR array, in its order."""
    return np.repeat(np.arange(structure.shape[0]), np.diff(structure.indptr)), structure.indices.astype(np.int64)
