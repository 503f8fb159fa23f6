"""Second derivatives as arrays: `hessian`, `hessian_diag`, `laplacian`.

A Hessian is the Jacobian of a recorded gradient, several columns a sweep; or, where the
gradient works on long arrays, products with all unit vectors in one replay
(`products`).  Called inside of another derivative it is recorded there.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ..array.functions import concatenate, frozen, reshape
from ..array.record import apply, normalise
from ..array.typing import Argnums, Mode, OfFirst
from ..autograd import nested
from ..autograd.nested import Evaluation
from ..common.errors import OptionError
from ..common.tree import Structure, flatten
from ..common.uninterrupted import cached_property
from ..program.finish import so_far
from ..program.ports import units
from .functional import Transformed, chosen
from .jacobians import JacobianFunction, OfDirections
from .products import second_products
from .replay.gathered import of_directions

if TYPE_CHECKING:
    from .jacobians import Jacobian

X = TypeVar("X", bound=Any)


class _Gradient:
    """The gradient of a function as a function: a tuple by argument, in the order of the arguments.

    Its tape is made of the tape of the function, whose adjoint is a tape itself (`Replayed.derived`).
    """

    def __init__(self, function, argnums):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums = function, tuple(sorted(set(argnums)))

    def __call__(self, *args, **kwargs):
        gradients = nested.value_and_gradients(self.function, args, self.argnums, kwargs)[1]
        return tuple(gradients[k] for k in self.argnums)

    def of(self, tape, structure):
        """As of `Replayed.derived`."""
        from ..kernel.adjoint import gradient  # loads compiled code, which `import tapegrad` does without

        made = gradient(tape)
        arguments = structure.parts[0].parts
        made.structure = Structure(tuple, (None,) * len(self.argnums), tuple(arguments[k] for k in self.argnums))
        return made


def differentiate_gradient(replayed, function):
    """Let `replayed` record the gradient of `function`."""
    replayed.function = replayed.derived = _Gradient(function, replayed.argnums)


# ---- dense Hessians ----------------------------------------------------------------------

#: Elements that an instruction of a gradient has on average, and elements of the arguments, from which on
#: directions are carried as an axis of arrays (one replay for many) instead of by passes of their own.
WIDE, ENOUGH = 48, 32
#: Of so many elements on directions in which a Hessian is recorded are joined, if so many times fewer remain.
FEW, LESS = 8, 2
#: Of a recording that is so many times longer than that of the gradient, which is its end, it is not looked for: all of it would be gone through.
LONGER = 8
#: Numbers that such a replay may hold.
HELD = 1 << 24


def _all_at_once(recording):
    """Whether all directions are better carried by one array replay of a recorded gradient than by sweeps."""
    tape, total = getattr(recording, "tape", None), sum(p.size for p in recording.inputs)
    if tape is None or total < ENOUGH:
        return False
    # What does not depend on the arguments (the transpose of a constant) is there once.
    sizes = [m.size for m, active in zip(tape.metas, tape.active) if m is not None and active]
    return WIDE * len(sizes) <= sum(sizes) <= HELD // total


class _Rows:
    """The rows of a Hessian as a function of the arguments, for a replay: the directions are constants of its tape."""

    def __init__(self, function, argnums):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums = function, argnums

    def __call__(self, *args, **kwargs):
        with Evaluation(self.function, args, self.argnums, kwargs) as e:
            e.run()
            e.check_number(len(e.results))
            sizes = [int(np.size(b)) for b in e.bases]
            units = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
            units = [normalise(u.reshape(-1, *np.shape(b)).astype(b.dtype)) for u, b in zip(units, e.bases)]
            return tuple(e.out(second_products(e, units, sum(sizes))))


def _coloured(e):
    """The blocks of a Hessian by few directions, of an `Evaluation` of the gradient that is being recorded; None if its pattern is of no help."""
    trace, bases = e.trace, e.bases
    size = sum(b.size for b in bases)
    if trace is None or size < FEW or any(getattr(t, "_t", None) is not trace.store or t.dtype != bases[0].dtype for t in (*bases, *e.results)):
        return None
    length = len(trace.store.tokens)
    if length > LONGER * (length - min(b._i for b in bases)):
        return None
    compressions = so_far(trace, bases, e.results).compressions
    if not compressions.small:
        return None
    way = compressions.symmetric.way
    if LESS * way.count > size:
        return None
    rows = [reshape(r, (way.count, -1)) for r in e.pull(e.results, way.seeds, lanes=way.count)]
    entries = reshape(concatenate(rows, axis=1) if len(rows) > 1 else rows[0], (-1,))[compressions.symmetric.places]
    positions, nothing = frozen(np.ravel_multi_index(way.coordinates, (size, size))), np.zeros(size * size, bases[0].dtype)
    matrix = reshape(apply("put", (nothing, entries, positions), (("shape", entries.shape),)), (size, size))
    ends = np.cumsum([0, *(b.size for b in bases)])
    return [[reshape(matrix[i : i + a.size, j : j + b.size], (*a.shape, *b.shape)) for b, j in zip(bases, ends)] for a, i in zip(bases, ends)]


class _Hessian(JacobianFunction):
    """The Jacobian of a recorded gradient."""

    def __init__(self, function, argnums, mode, explain):
        super().__init__(function, argnums, mode, explain)
        differentiate_gradient(self._replayed, self.__wrapped__)
        #: Shapes and dtypes of arguments for which all rows come from one replay.
        self._wide = set()

    @cached_property
    def _rows(self):
        """All rows in one replay."""
        from .replay.function import Replayed

        numbers = tuple(self._argnums_in_order)
        options = dataclasses.replace(self._replayed.jit, symmetric=True)
        return Replayed(_Rows(self.__wrapped__, numbers), numbers, scalar=False, adjoints=False, jit=options)

    def _read(self, recording, structure):
        blocks = self._blocks(recording)
        return None if blocks is None else self._blockwise(blocks, self._structures(structure))

    def _blockwise(self, blocks, structures):
        return self._contained(structures, [self._contained(structures, row) for row in _symmetric(blocks)])

    def _ordinary(self, args, kwargs):
        self._replayed.check_positions(args)
        points = [np.asarray(leaf) for k in self._argnums_in_order for leaf in flatten(args[k])[0]]
        kind = tuple((p.shape, p.dtype.char) for p in points)
        if kind not in self._wide:
            answer = super()._ordinary(args, kwargs)
            if answer is not None:
                return answer
            self._wide.add(kind)
        products = self._rows.call(args, kwargs, backward=False).values
        # Rows of the Hessian are its columns.
        ends = np.cumsum([p.size for p in points])
        blocks = [
            [np.asarray(f)[end - p.size : end].reshape(p.shape + other.shape) for f, other in zip(products, points)]
            for p, end in zip(points, ends)
        ]
        return self._blockwise(blocks, [flatten(args[k])[1] for k in self._argnums_in_order])

    def _blocks(self, recording):
        """The blocks; None if they are to come from one replay."""
        if self._mode != "reverse" and recording.compressed() is None and _all_at_once(recording):
            if self._explain:
                print("forward mode, all directions in one replay: the gradient works on arrays")
            return None
        return super()._blocks(recording)

    _sooner = staticmethod(_coloured)

    def _inside(self, args, kwargs):
        blocks = super()._inside(args, kwargs)
        return blocks[0] if self._one else tuple(blocks[self._argnums_in_order.index(k)] for k in self._argnums)


#: Rows that are mirrored at once.
STRIP = 64


def _symmetric(blocks):
    """Blocks ``[i][j]``, of which ``[j][i]`` is the transpose to the last bit: what is below the diagonal is what is above it."""
    result = [[b if np.ndim(b) else _as_number(np.asarray(b)[()]) for b in row] for row in blocks]
    for i, row in enumerate(blocks):
        # Each is given as the shape of the row's argument followed by that of the column's.
        if np.ndim(row[i]):
            size = math.isqrt(np.size(row[i]))
            matrix = np.array(row[i]).reshape(size, size)
            for start in range(0, size, STRIP):
                stop = start + STRIP
                square = matrix[start:stop, start:stop]
                square[...] = np.triu(square) + np.triu(square, 1).T
                matrix[stop:, start:stop] = matrix[start:stop, stop:].T
            result[i][i] = matrix.reshape(np.shape(row[i]))
        for j in range(i):
            other, split = blocks[j][i], np.ndim(blocks[j][j]) // 2
            if np.ndim(other):
                result[i][j] = np.array(np.moveaxis(other, range(split), range(-split, 0)), order="C")
    return result


@overload
def hessian(f: OfFirst[X], argnums: Literal[0] = 0, mode: Mode = "auto", explain: bool = False) -> Jacobian[X, X]: ...
@overload
def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None,
) -> Transformed[Any]: ...
def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None, kernel: None = None,
) -> Transformed[Any]:
    """A function that gives the Hessian of `f`, dense.

    Parameters
    ----------
    f : callable
        Returns one number.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers, arrays of
        floats, or containers of them.  Also called `argnum`.
    mode : {"auto", "forward", "reverse"}
        How the recorded gradient is differentiated: forward over reverse carries a tangent
        per element of the arguments, or all as an axis of arrays where the
        gradient works on long arrays; reverse over reverse an adjoint.  "auto" predicts the
        cost of both; where elements interact with few others only, directions that have nothing
        in common are joined (as in `jacobian`).
    explain : bool
        Print the mode taken and the reason.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Gives, for arguments of `f`, an array of shape ``x.shape + x.shape`` (a number for a
        number), symmetric to the last bit: what is below the diagonal is what was computed above it.
        A tuple of tuples if `argnums` is a tuple, and containers of containers for
        containers.  Its ``stats()`` says how often `f` was run, recorded and replayed; `out` is as of `jacobian`.

    Raises
    ------
    NonScalarOutputError
        `f` returns more than one number.
    StructureError, DtypeError
        As `tapegrad.grad`.
    HigherOrderError
        A rule that `f` uses gives first derivatives only; names it.

    See Also
    --------
    hvp : products with the Hessian, which is not formed.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    if mode not in ("auto", "forward", "reverse"):
        raise OptionError(f"mode={mode!r} is not one of auto, forward, reverse")
    return _Hessian(f, chosen(argnums, argnum, kernel), mode, explain)


#: Columns of a Hessian that are held at once where only its diagonal is wanted.
CHUNK = 64


def _diagonals(recording):
    """The diagonal of the Jacobian of a recorded gradient, for each input, flat."""
    ports = recording.inputs
    ends = np.cumsum([0, *(p.size for p in ports)])
    diagonals = [np.zeros(p.size, p.char) for p in ports]
    compressed = recording.compressed()
    if compressed is not None and compressed[0] is not None:
        rows = recording.many(True, compressed[0].seeds)
        for k, begin in enumerate(ends[:-1]):
            elements = np.arange(ports[k].size)
            diagonals[k][:] = rows[k][compressed[0].colour[begin + elements], elements]
        return diagonals
    for k, port in enumerate(ports):
        for start in range(0, port.size, CHUNK):
            stop = min(start + CHUNK, port.size)
            # The matrix is symmetric: its rows are its columns.
            directions = units(recording.outputs, ends[k] + start, ends[k] + stop, stop - start)
            diagonals[k][start:stop] = np.diagonal(recording.many(False, directions)[k], start)
    return diagonals


class _Diagonal(OfDirections):
    def __init__(self, function, argnums):
        super().__init__(function, argnums)
        differentiate_gradient(self._replayed, self.__wrapped__)

    def _read(self, recording, structure):
        diagonals = [normalise(d.reshape(p.shape)) for d, p in zip(_diagonals(recording), recording.inputs)]
        return self._whole(diagonals, self._structures(structure))

    def _whole(self, diagonals, structures):
        return self._contained(structures, diagonals)

    def _inside(self, args, kwargs):
        """Of the rows of the Hessian, recorded."""
        replayed = self._replayed
        replayed.check_positions(args)
        rows, _ = nested.jacobian(replayed.function, args, self._argnums, kwargs, _coloured)
        diagonals = []
        for k, row in enumerate(rows):
            block = flatten([row[a] for a in self._argnums_in_order])[0][k]
            shape = np.shape(block)[: np.ndim(block) // 2]
            size = math.prod(shape)
            diagonals.append(np.reshape(np.diagonal(np.reshape(block, (size, size))), shape))
        return self._whole(diagonals, [flatten(args[k])[1] for k in self._argnums_in_order])


class _Laplacian(_Diagonal):
    def _planned(self, kept, structure):
        return of_directions(kept, _diagonals, then=_total)

    def _whole(self, diagonals, structures):
        return _as_number(sum(map(np.sum, diagonals), 0.0))


def _as_number(total):
    return float(total) if isinstance(total, np.floating) and total.dtype.char == "d" else total


def _total(diagonal):
    return _as_number(np.sum(diagonal))


@overload
def hessian_diag(f: OfFirst[X], argnums: Literal[0] = 0) -> Transformed[X]: ...
@overload
def hessian_diag(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None) -> Transformed[Any]: ...
def hessian_diag(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None) -> Transformed[Any]:
    """A function that gives the diagonal of the Hessian of `f`: the second derivative in each element.

    Parameters
    ----------
    f, argnums, argnum, kernel
        As of `hessian`.

    Returns
    -------
    callable
        Gives an array of the shape of the argument, in its containers.  The Hessian is not
        held as a whole; where elements interact with few others only it takes a few
        directions (as `jacobian`), otherwise one per element.

    Raises
    ------
    As `hessian`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.hessian_diag(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    return _Diagonal(f, chosen(argnums, argnum, kernel))


def laplacian(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None) -> Transformed[float]:
    """A function that gives the Laplacian of `f`: the sum of the second derivatives in each element.

    Parameters
    ----------
    f, argnums, argnum, kernel
        As of `hessian`.

    Returns
    -------
    callable
        Gives a number.

    Raises
    ------
    As `hessian`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.laplacian(lambda x: x[0] ** 2 + x[1] ** 3)(np.array([1.0, 2.0]))
    14.0
    """
    return _Laplacian(f, chosen(argnums, argnum, kernel))
