"""Second derivatives as arrays: `hessian`, `hessian_diag`, `laplacian`.

A Hessian is the Jacobian of a recorded gradient, several columns a sweep; or, where the
gradient works on long arrays, products with all unit vectors in one replay
(`products`).  Called inside of another derivative it is recorded there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ..array.record import normalise
from ..array.typing import Argnums, Mode, OfFirst
from ..autograd import nested
from ..autograd.nested import Evaluation
from ..common.errors import OptionError, StructureError
from ..common.tree import Structure, flatten, unflatten
from ..program.ports import prepared
from .functional import Transformed, chosen
from .jacobians import JacobianFunction
from .products import Products, among_duals, hvp_body, hvp_by_duals, second_products
from .replay.gathered import of_directions

if TYPE_CHECKING:
    from .jacobians import Jacobian

X = TypeVar("X", bound=Any)


class _Gradient:
    """The gradient of a function as a function: a tuple by argument, in the order of the arguments."""

    def __init__(self, function, argnums, has_aux=False):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums, self.has_aux = function, tuple(sorted(set(argnums))), has_aux

    def __call__(self, *args, **kwargs):
        gradients = nested.value_and_gradients(self.function, args, self.argnums, kwargs, self.has_aux)[1]
        return tuple(gradients[k] for k in self.argnums)


class _Derived:
    """How the tape of a gradient is made: of the tape of the function, whose adjoint is a tape itself."""

    def __init__(self, function, argnums):
        self.function, self.argnums = function, argnums

    def of(self, tape, structure):
        """As of `Replayed.derived`."""
        from ..kernel.adjoint import gradient  # loads compiled code, which `import tapegrad` does without

        made = gradient(tape)
        arguments = structure.parts[0].parts
        made.structure = Structure(tuple, (None,) * len(self.argnums), tuple(arguments[k] for k in self.argnums))
        return made


# ---- dense Hessians ----------------------------------------------------------------------


class OfGradient(JacobianFunction):
    """The Jacobian of a recorded gradient, and what is read off it."""

    def __init__(self, function, argnums, mode="auto", explain=False):
        numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
        super().__init__(function, argnums, mode, explain)
        if self._asked is not None:
            raise StructureError(f"argnums={argnums!r}: count the arguments from the front, from 0")
        self._gradient = _Gradient(function, numbers)
        self._replayed.function = self._gradient
        self._replayed.derived = _Derived(function, self._gradient.argnums)

    def _of(self, args, kwargs, read):
        """What `read` makes of a `Recording` of the gradient at these arguments."""
        self._replayed.check_positions(args)
        return self._replayed.call(args, kwargs, read).gradients

    def _structures(self, args):
        return [flatten(args[k])[1] for k in self._argnums_in_order]

    def _by_argument(self, args, leaves):
        """Leaves, in the order of the arguments, in their containers."""
        return self._contained(self._structures(args), leaves)


#: Elements that an instruction of a gradient has on average, and elements of the arguments, from which on
#: directions are carried as an axis of arrays (one replay for many) instead of by passes of their own.
WIDE, ENOUGH = 48, 32
#: Numbers that such a replay may hold.
HELD = 1 << 24


def _directions_at_once(recording):
    """How many directions an array replay of a recorded gradient may carry; 0 if sweeps are the better way."""
    tape, total = getattr(recording, "_tape", None), sum(p.size for p in recording.inputs)
    if tape is None or recording.primitive or total < ENOUGH:
        return 0
    # What does not depend on the arguments (the transpose of a constant) is there once.
    sizes = [m.size for m, active in zip(tape.metas, tape.active) if m is not None and active]
    if sum(sizes) < WIDE * max(len(sizes), 1):
        return 0
    return max(16, min(total, HELD // sum(sizes)))


def unit_directions(shapes):
    """All unit vectors of arrays of these shapes: for each array one with a leading axis for the elements of all."""
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    total, at, directions = sum(sizes), 0, []
    for size, shape in zip(sizes, shapes):
        units = np.zeros((total, size))
        units[at + np.arange(size), np.arange(size)] = 1.0
        directions.append(units.reshape((total, *shape)))
        at += size
    return directions, total


class _Rows:
    """The rows of a Hessian as a function of the arguments, for a replay: the directions are constants of its tape."""

    def __init__(self, function, argnums):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums = function, argnums

    def __call__(self, *args, **kwargs):
        with Evaluation(self.function, args, self.argnums, kwargs) as e:
            e.run()
            e.check_number(len(e.results))
            units, total = unit_directions([np.shape(b) for b in e.bases])
            units = [normalise(u.astype(b.dtype)) for u, b in zip(units, e.bases)]
            return tuple(e.out(second_products(e, units, total)))


class _Hessian(OfGradient):
    def __init__(self, function, argnums, mode="auto", explain=False):
        super().__init__(function, argnums, mode, explain)
        numbers = self._gradient.argnums
        self._products = Products(function, numbers, False, hvp_body, hvp_by_duals)
        #: Shapes of arguments -> how many directions at once `_by_arrays` takes for them.
        self._counts = {}

    @functools.cached_property
    def _rows(self):
        """All rows in one replay."""
        from .replay.function import Replayed

        options = dataclasses.replace(self._replayed.jit, symmetric=True)
        numbers = self._gradient.argnums
        rows = _Rows(self.__wrapped__, numbers)
        return Replayed(rows, numbers, scalar=False, adjoints=False, jit=options)

    def _read(self, recording, structure):
        blocks = self._blocks(recording)
        if isinstance(blocks, int):
            # It is not read off this recording: that is no answer.
            return blocks
        structures = [structure.parts[0].parts[k] for k in self._argnums_in_order]
        return self._contained(structures, [self._contained(structures, row) for row in _symmetric(blocks)])

    def _ordinary(self, args, kwargs):
        self._replayed.check_positions(args)
        points = [np.asarray(leaf) for k in self._gradient.argnums for leaf in flatten(args[k])[0]]
        kind = tuple((p.shape, p.dtype.char) for p in points)
        count = self._counts.get(kind)
        if count is None:
            blocks = self._of(args, kwargs, self._blocks)
            if isinstance(blocks, int):
                count = self._counts[kind] = blocks
        if count is not None:
            blocks = self._by_arrays(args, kwargs, points, count)
        blocks = _symmetric(blocks)
        return self._by_argument(args, [self._by_argument(args, row) for row in blocks])

    def _blocks(self, recording):
        """The blocks; or how many directions at once `_by_arrays` may take to find them."""
        compressed = recording.compressed()
        if self._mode != "reverse" and compressed is None:
            count = _directions_at_once(recording)
            if count:
                if self._explain:
                    print(f"forward mode, {count} directions in one replay: the gradient works on arrays")
                return count
        return super()._blocks(recording)

    def _by_arrays(self, args, kwargs, points, count):
        """Blocks ``[i][j]`` from products with unit vectors, `count` at once."""
        points = [p if p.dtype.kind == "f" else p.astype(float) for p in points]
        total = sum(p.size for p in points)
        if total <= count:
            products = self._rows.call(args, kwargs, backward=False).values
        else:
            products = self._in_chunks(args, kwargs, points, count)
        blocks, at = [], 0
        # Rows of the Hessian are its columns.
        for point in points:
            rows = [np.asarray(f)[at : at + point.size] for f in products]
            blocks.append([r.reshape(point.shape + other.shape) for r, other in zip(rows, points)])
            at += point.size
        return blocks

    def _in_chunks(self, args, kwargs, points, count):
        structures = self._structures(args)
        units, total = unit_directions([p.shape for p in points])
        results = [np.empty((total, *p.shape), p.dtype) for p in points]
        for start in range(0, total, count):
            part = slice(start, start + count)
            seeds = iter([u[part].astype(p.dtype) for u, p in zip(units, points)])
            direction = tuple(unflatten(s, [next(seeds) for _ in range(s.count)]) for s in structures)
            for whole, products in zip(results, flatten(self._products(*args, direction, **kwargs))[0]):
                whole[part] = products
        return results

    def _inside(self, args, kwargs):
        self._replayed.check_positions(args)
        rows, _ = nested.jacobian(self._gradient, args, self._gradient.argnums, kwargs)
        blocks = [row[self._argnums[0]] if self._one else tuple(row[k] for k in self._argnums) for row in rows]
        return self._by_argument(args, blocks)


def _symmetric(blocks):
    """Blocks ``[i][j]``, of which ``[j][i]`` is the transpose to the last bit."""
    result = [list(row) for row in blocks]
    for i, row in enumerate(blocks):
        for j in range(i + 1):
            one, other = np.asarray(row[j]), np.asarray(blocks[j][i])
            # Both are given as the shape of the row's argument followed by that of the column's.
            split = _axes_of_row(blocks, i)
            turned = np.moveaxis(other, range(other.ndim - split), range(-(other.ndim - split), 0)) if other.ndim else other
            mean = 0.5 * (one + turned)
            result[i][j] = _as_was(mean, row[j])
            if i != j:
                back = np.moveaxis(mean, range(split), range(-split, 0)) if split else mean
                result[j][i] = _as_was(np.array(back, order="C"), blocks[j][i])
    return result


def _axes_of_row(blocks, i):
    """The number of axes of argument `i`."""
    return np.ndim(blocks[i][i]) // 2


def _as_was(value, like):
    value = value.astype(np.asarray(like).dtype, copy=False)
    if value.ndim:
        return value
    return float(value) if value.dtype.char == "d" else value[()]


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
        number), symmetric to the last bit: the mean of what was computed and its transpose.
        A tuple of tuples if `argnums` is a tuple, and containers of containers for
        containers.  Its ``stats()`` says how often `f` was run, recorded and replayed.

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
    compressed = None if recording.primitive else recording.compressed()
    if compressed is not None and compressed[0] is not None:
        colours = compressed[0]
        rows = recording.many(True, colours.seeds)
        for k, begin in enumerate(ends[:-1]):
            at = np.arange(ports[k].size)
            diagonals[k][:] = rows[k][colours.colour[begin + at], at]
        return diagonals
    # The matrix is symmetric: its rows are its columns.
    for k, port in enumerate(ports):
        for start in range(0, port.size, CHUNK):
            count = min(CHUNK, port.size - start)
            seeds = [[normalise(np.zeros(p.shape, p.char)) for p in ports] for _ in range(count)]
            for j in range(count):
                unit = np.zeros(port.size, port.char)
                unit[start + j] = 1.0
                seeds[j][k] = normalise(unit.reshape(port.shape))
            rows = recording.many(False, [prepared(recording.outputs, s) for s in seeds])[k]
            diagonals[k][start : start + count] = rows[np.arange(count), start + np.arange(count)]
    return diagonals


class _Diagonal(OfGradient):
    def _answered(self, args, kwargs):
        return self._by_argument(args, super()._answered(args, kwargs))

    def _ordinary(self, args, kwargs):
        """The diagonal for each leaf of the arguments."""
        shapes = [np.shape(leaf) for k in self._argnums_in_order for leaf in flatten(args[k])[0]]
        diagonals = self._of(args, kwargs, _diagonals)
        return [normalise(np.asarray(d).reshape(shape)) for d, shape in zip(diagonals, shapes)]

    def _inside(self, args, kwargs):
        """Recorded: one tangent per element, in one walk; rows of the Hessian where dual numbers are around."""
        if among_duals((args, kwargs)):
            rows, _ = nested.jacobian(self._gradient, args, self._gradient.argnums, kwargs)
            diagonals = []
            for k, row in enumerate(rows):
                block = flatten([row[a] for a in self._gradient.argnums])[0][k]
                shape = np.shape(block)[: np.ndim(block) // 2]
                size = int(np.prod(shape, dtype=np.int64))
                diagonals.append(np.reshape(np.diagonal(np.reshape(block, (size, size))), shape))
            return diagonals
        with Evaluation(self.__wrapped__, args, self._argnums_in_order, kwargs) as e:
            e.run()
            e.check_number(len(e.results))
            shapes = [np.shape(b) for b in e.bases]
            sizes = [int(np.prod(s, dtype=np.int64)) for s in shapes]
            rows, total = unit_directions(shapes)
            columns = second_products(e, rows, total)
            diagonals, at = [], 0
            for column, size, shape in zip(columns, sizes, shapes):
                block = np.reshape(column, (total, size))[at : at + size]
                diagonals.append(np.reshape(np.diagonal(block), shape))
                at += size
            return e.out(diagonals)

    def _read(self, recording, structure):
        diagonals = [normalise(np.asarray(d).reshape(p.shape)) for d, p in zip(_diagonals(recording), recording.inputs)]
        return self._contained([structure.parts[0].parts[k] for k in self._argnums_in_order], diagonals)


class _Laplacian(_Diagonal):
    def _planned(self, kept, structure):
        return of_directions(kept, lambda recording: self._read(recording, structure), then=lambda diagonal: _as_number(np.sum(diagonal)))

    def _by_argument(self, args, diagonals):
        total = 0.0
        for diagonal in diagonals:
            total = total + np.sum(diagonal)
        return _as_number(total)


def _as_number(total):
    return float(total) if isinstance(total, np.floating) and total.dtype.char == "d" else total


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
