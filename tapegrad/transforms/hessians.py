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

from ..array.record import normalise
from ..array.typing import Argnums, Mode, OfFirst
from ..common.errors import OptionError
from ..common.keywords import answers
from ..common.tree import Structure, flatten
from ..common.uninterrupted import cached_property
from ..program.evaluation import Evaluation, applied
from ..program.ports import units
from .argnums import check_given
from .bodies import BodyProgram, OfDirections
from .functional import chosen
from .jacobians import JacobianFunction
from .replay.gathered import of_directions
from .transformed import Transformed

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
        return applied(lambda e: e.contained(e.gradients()), self.function, args, self.argnums, kwargs)

    def of(self, tape, structure):
        """As of `Replayed.derived`."""
        from ..kernel.adjoint import gradient  # loads compiled code, which `import tapegrad` does without

        made = gradient(tape)
        arguments = structure.parts[0].parts
        made.structure = Structure(tuple, (None,) * len(self.argnums), tuple(arguments[k] for k in self.argnums))
        return made


def of_gradient(replayed, function):
    """`replayed`, which records the gradient of `function` now."""
    replayed.function = replayed.derived = _Gradient(function, replayed.argnums)
    return replayed


# ---- dense Hessians ----------------------------------------------------------------------

#: Elements that an instruction of a gradient has on average, and elements of the arguments, from which on
#: directions are carried as an axis of arrays (one replay for many) instead of by passes of their own.
WIDE, ENOUGH = 48, 32
#: Numbers that such a replay may hold.
HELD = 1 << 24


def _all_at_once(e):
    """Whether all directions are better carried by one array replay of a recorded gradient than by sweeps."""
    tape, total = e.walk.tape, sum(p.size for p in e.inputs)
    if tape is None or total < ENOUGH:
        return False
    # What does not depend on the arguments (the transpose of a constant) is there once.
    sizes = [m.size for m, active in zip(tape.metas, tape.active) if m is not None and active]
    return WIDE * len(sizes) <= sum(sizes) <= HELD // total


def _products_with_units(e):
    """The tangents of the gradient along all unit vectors: of each input its rows, in one array."""
    total = sum(p.size for p in e.inputs)
    return tuple(e.gradient().push(units(e.inputs, 0, total, total), total))


class _Hessian(JacobianFunction):
    """The Jacobian of a recorded gradient."""

    def __init__(self, function, argnums, mode, explain):
        super().__init__(function, argnums, mode, explain)
        #: Shapes and dtypes of arguments for which all rows come from one replay.
        self._wide = set()

    def _made_replayed(self):
        return of_gradient(super()._made_replayed(), self.__wrapped__)

    @cached_property
    def _rows(self):
        """All rows in one replay."""
        from .replay.function import Replayed

        numbers = tuple(sorted({*self._argnums}))
        options = dataclasses.replace(self._jit, symmetric=True)
        program = BodyProgram(self.__wrapped__, numbers, False, _products_with_units)
        return Replayed(program, numbers, scalar=False, adjoints=False, jit=options)

    def body(self, e):
        if e.walk.recorded:
            return _blockwise(e, e.jacobian(symmetric=True))
        if self._mode != "reverse" and e.walk.compressed() is None and _all_at_once(e):
            if self._explain:
                print("forward mode, all directions in one replay: the gradient works on arrays")
            return None
        return _blockwise(e, _symmetric(e.jacobian(self._mode, self._explain)))

    def _ordinary(self, args, kwargs):
        check_given(self._argnums, args)
        points = [np.asarray(leaf) for k in sorted({*self._argnums}) for leaf in flatten(args[k])[0]]
        kind = tuple((p.shape, p.dtype.char) for p in points)
        if kind not in self._wide:
            answer = super()._ordinary(args, kwargs)
            if answer is not None:
                return answer
            self._wide.add(kind)
        outcome = self._rows.call(args, kwargs, backward=False)
        # Rows of the Hessian are its columns.
        ends = np.cumsum([p.size for p in points])
        blocks = [
            [np.asarray(f)[end - p.size : end].reshape(p.shape + other.shape) for f, other in zip(outcome.values, points)]
            for p, end in zip(points, ends)
        ]
        return _blockwise(self._evaluation(None, flatten((args, kwargs))[1]), _symmetric(blocks))


def _blockwise(e, blocks):
    return e.contained([e.contained(row) for row in blocks])


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
@answers(sparse="call tg.sparse_hessian(f)")
def hessian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None, kernel: None = None,
) -> Transformed[Any]:
    """Make a function that returns the dense Hessian of `f`.

    Parameters
    ----------
    f : callable
        Returns one number.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers, arrays of
        floats, or containers of them.  Also called `argnum`.
    mode : {"auto", "forward", "reverse"}
        How to differentiate the recorded gradient.  Forward over reverse carries a tangent
        per element of the arguments, or all of them as an axis of arrays if the
        gradient works on long arrays; reverse over reverse carries an adjoint.  "auto" predicts the
        cost of both.  If elements interact with few others only, directions that have nothing
        in common are joined (as in `jacobian`).
    explain : bool
        Print the mode taken and the reason.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``x.shape + x.shape`` (a number for a
        number), symmetric to the last bit: the part below the diagonal is the one computed above it.
        If `argnums` is a tuple, it returns a tuple of tuples, and for containers, containers of
        containers.  The callable's ``stats()`` says how often `f` was run, recorded and replayed; `out` is as for `jacobian`.

    Raises
    ------
    NonScalarOutputError
        `f` returns more than one number.
    StructureError, DtypeError
        As for `tapegrad.grad`.
    HigherOrderError
        A rule that `f` uses gives first derivatives only; the message names it.

    See Also
    --------
    hvp : products with the Hessian, without forming it.

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


def _diagonals(e):
    """The diagonal of a Hessian, from the evaluation of the gradient: for each input in its shape."""
    if e.walk.recorded:
        squares = [np.reshape(row[k], (p.size, p.size)) for k, (row, p) in enumerate(zip(e.jacobian(symmetric=True), e.inputs))]
        return [np.reshape(np.diagonal(square), p.shape) for square, p in zip(squares, e.inputs)]
    ports = e.inputs
    ends = np.cumsum([0, *(p.size for p in ports)])
    diagonals = [np.zeros(p.size, p.char) for p in ports]
    compressed = e.walk.compressed()
    if compressed is not None and compressed[0] is not None:
        rows = e.walk.along(compressed[0])
        for k, begin in enumerate(ends[:-1]):
            elements = np.arange(ports[k].size)
            diagonals[k][:] = rows[k][compressed[0].colour[begin + elements], elements]
    else:
        for k, port in enumerate(ports):
            for start in range(0, port.size, CHUNK):
                stop = min(start + CHUNK, port.size)
                # The matrix is symmetric: its rows are its columns.
                directions = units(e.outputs, ends[k] + start, ends[k] + stop, stop - start)
                diagonals[k][start:stop] = np.diagonal(e.walk.rows(directions)[k], start)
    return [normalise(d.reshape(p.shape)) for d, p in zip(diagonals, ports)]


class _Diagonal(OfDirections):
    def _made_replayed(self):
        return of_gradient(super()._made_replayed(), self.__wrapped__)

    def body(self, e):
        return e.contained(_diagonals(e))


class _Laplacian(_Diagonal):
    def body(self, e):
        return _as_number(sum(map(np.sum, _diagonals(e)), 0.0))

    def _planned(self, kept, structure):
        return of_directions(kept, lambda walk: _diagonals(Evaluation(walk)), then=_total)


def _as_number(total):
    return float(total) if isinstance(total, np.floating) and total.dtype.char == "d" else total


def _total(diagonal):
    return _as_number(np.sum(diagonal))


@overload
def hessian_diag(f: OfFirst[X], argnums: Literal[0] = 0) -> Transformed[X]: ...
@overload
def hessian_diag(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None) -> Transformed[Any]: ...
def hessian_diag(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None) -> Transformed[Any]:
    """Make a function that returns the diagonal of the Hessian of `f`: the second derivative with respect to each element.

    Parameters
    ----------
    f : callable
        Returns one number.
    argnums : int, str, or sequence of them
        Which arguments to differentiate, by position or name.  Also called `argnum`.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Returns an array of the shape of the argument, in its containers.  It does not hold
        the Hessian as a whole; if elements interact with few others only, it takes a few
        directions (as `jacobian` does), otherwise one per element.

    Raises
    ------
    NonScalarOutputError, StructureError, DtypeError, HigherOrderError
        `f` returns more than one number, or an argument or a result is not a float; the message names it.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.hessian_diag(lambda x: np.sum(x ** 3))(np.array([1.0, 2.0]))
    array([ 6., 12.])
    """
    return _Diagonal(f, chosen(argnums, argnum, kernel))


def laplacian(f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None) -> Transformed[float]:
    """Make a function that returns the Laplacian of `f`: the sum of the second derivatives with respect to each element.

    Parameters
    ----------
    f : callable
        Returns one number.
    argnums : int, str, or sequence of them
        Which arguments to differentiate, by position or name.  Also called `argnum`.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Returns a number.

    Raises
    ------
    NonScalarOutputError, StructureError, DtypeError, HigherOrderError
        `f` returns more than one number, or an argument or a result is not a float; the message names it.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.laplacian(lambda x: x[0] ** 2 + x[1] ** 3)(np.array([1.0, 2.0]))
    14.0
    """
    return _Laplacian(f, chosen(argnums, argnum, kernel))
