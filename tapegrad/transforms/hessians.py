"""Second derivatives: as arrays, `hessian`, `hessian_diag`, `laplacian`; and products with them, `hvp` and `gnvp`.

A Hessian is the Jacobian of a recorded gradient, several columns a sweep; or, where the
gradient works on long arrays, products with all unit vectors in one replay.
For a product the gradient of the function is recorded on a tape of its own, and its tangent behind it
(`tangents`), so that one replay gives it; several directions are an axis of
arrays on that tape.  Called inside of another derivative either is recorded there.
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
from ..autograd.nested import together
from ..common.errors import SeedShapeError, StructureError
from ..common.public import answers
from ..common.tree import Structure, flatten, leaf_names, unflatten
from ..common.uninterrupted import cached_property
from ..program.evaluation import Evaluation, applied, on_tensors
from ..program.ports import units
from .argnums import check_function, check_given
from .functional import chosen
from .jacobians import JacobianFunction, arranged, checked_mode
from .replay.answers import MISS
from .replay.directions import of_directions
from .transformed import BodyProgram, OfDirections, RecordedWhole, Transformed

if TYPE_CHECKING:
    from .jacobians import Jacobian

X = TypeVar("X", bound=Any)


class Gradient:
    """The gradient of a function as a function: a tuple by argument, in the order of the arguments.

    Its tape is made of the tape of the function, whose adjoint is a tape itself (`Replayed.derived`).
    """

    def __init__(self, function, argnums):
        functools.update_wrapper(self, function, updated=())
        self.function, self.argnums = function, tuple(sorted(set(argnums)))

    def __call__(self, *args, **kwargs):
        return applied(lambda e: e.contained(e.gradients()), self.function, args, self.argnums, kwargs)

    def derived_tape(self, tape, structure):
        """As of `Replayed.derived`."""
        from ..kernel.adjoint import gradient  # loads compiled code, which `import tapegrad` does without

        made = gradient(tape)
        arguments = structure.parts[0].parts
        made.structure = Structure(tuple, (None,) * len(self.argnums), tuple(arguments[k] for k in self.argnums))
        return made


#: What transformations evaluate of which second derivatives are asked (`Transformed._function`).
_gradient = cached_property(lambda self: Gradient(self.__wrapped__, self._argnums))


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

    _function = _gradient

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
            # Later calls of this kind do not ask for the recording that said so, which is no sign of a function that changes.
            self._replayed.record_again()
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
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *, argnum: Argnums | None = None
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
    return _Hessian(f, chosen(argnums, argnum, kernel), checked_mode(mode), explain)


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
    _function = _gradient

    def body(self, e):
        return e.contained(_diagonals(e))


class _Laplacian(_Diagonal):
    def body(self, e):
        return _as_number(sum(map(np.sum, _diagonals(e)), 0.0))

    def _planned(self, kept, structure):
        return of_directions(kept, lambda walk: _diagonals(Evaluation(walk)), then=lambda diagonal: _as_number(np.sum(diagonal)))


def _as_number(total):
    return float(total) if isinstance(total, np.floating) and total.dtype.char == "d" else total


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


# ---- products with second derivatives ----------------------------------------------------


def _directions(direction, inputs, structure):
    """Tangents of the variables, and how many directions there are (None: one, without an axis for it)."""
    tangents = arranged(direction, structure, "the direction", "the arguments to differentiate")
    shapes = [(np.shape(v), p.shape) for v, p in zip(tangents, inputs)]
    if all(v == b for v, b in shapes):
        return tangents, None
    count = shapes[0][0][0] if shapes[0][0] else None
    if count is not None and all(v == (count, *b) for v, b in shapes):
        return tangents, count
    name = next(name for name, (v, b) in zip(leaf_names(structure), shapes) if v != b)
    shape, own = next((v, b) for v, b in shapes if v != b)
    raise SeedShapeError(
        f"the direction{name} has the shape {shape}, its argument {own}; it needs that shape, or one more axis in front for "
        "several directions at once"
    )


def _of_floats(direction):
    """A direction whose arrays of integers are floats: unit vectors are often written so."""
    leaves, structure = flatten(direction)
    return unflatten(structure, [v.astype(float) if v.__class__ is np.ndarray and v.dtype.kind in "iub" else v for v in leaves])


class CurvatureProduct(RecordedWhole):
    """What `hvp` and `gnvp` return: the direction is the last argument, and goes ahead of what is recorded."""

    def __init__(self, function, argnums, body):
        super().__init__(function, argnums, body, ahead=1)

    def __call__(self, *args, **kwargs):
        if len(args) < 2:
            raise StructureError("a product takes the arguments of the function and, last, the direction")
        *args, direction = args
        if max(self._argnums) >= len(args):
            check_given(self._argnums, args, ", and a direction")
        answer = (self._replays or self._replayed).quick((direction, *args), kwargs)
        return self._answered((_of_floats(direction), *args), kwargs) if answer is MISS else answer


def _hvp(has_aux, e, direction):
    """The tangent of the gradient."""
    gradient = e.gradient(has_aux)
    products = e.contained(gradient.walk.push(*_directions(direction, e.inputs, gradient.structure), symmetric=True))
    return (products, e.value()[1]) if has_aux else products


@overload
def hvp(f: OfFirst[X], argnums: Literal[0] = 0, has_aux: Literal[False] = False) -> Transformed[X]: ...
@overload
def hvp(f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None) -> Transformed[Any]: ...
def hvp(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, argnum: Argnums | None = None, kernel: None = None
) -> Transformed[Any]:
    """Make a function that returns products of the Hessian of `f` with directions.

    Parameters
    ----------
    f : callable
        Returns one number (or a pair of it and anything else, with `has_aux`).
    argnums : int or sequence of int
        Which arguments to differentiate, by position or name.  Also called `argnum`.
    has_aux : bool
        Whether `f` returns a pair, of which only the first part is differentiated.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        ``product(*args, v)`` takes the arguments of `f` and last the direction, in the shape and
        containers of the differentiated argument (a tuple of them if `argnums` is
        one).  With one more axis in front, `v` holds several directions, which share one pass.
        The product has the shape of `v`; with `has_aux` the result is ``(product, aux)``.

    Raises
    ------
    SeedShapeError, StructureError
        The direction does not fit.
    NonScalarOutputError, DtypeError, HigherOrderError
        `f` returns more than one number, or an argument or a result is not a float; the message names it.

    Notes
    -----
    Forward over reverse: the gradient is recorded, followed by the tangent of the recording
    along `v`; under `jit` a call replays both.  (B. Pearlmutter, "Fast exact multiplication by the
    Hessian", 1994.)  A plain call with one direction pulls `v` back through the recorded gradient instead, which gives the same,
    as a Hessian is symmetric; not through custom primitives with two rules, which may contradict each other.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> product = tg.hvp(lambda x: x[0] ** 2 * x[1])
    >>> product(np.array([1.0, 3.0]), np.array([1.0, 0.0]))
    array([6., 2.])
    >>> product(np.array([1.0, 3.0]), np.eye(2))
    array([[6., 2.],
           [2., 0.]])
    """
    return CurvatureProduct(f, chosen(argnums, argnum, kernel), functools.partial(_hvp, has_aux))


@overload
def gnvp(model: OfFirst[X], loss: Callable[..., Any] | None = None, argnums: Literal[0] = 0) -> Transformed[X]: ...
@overload
def gnvp(
    model: Callable[..., Any], loss: Callable[..., Any] | None = None, argnums: Argnums = 0, *, argnum: Argnums | None = None
) -> Transformed[Any]: ...
def gnvp(
    model: Callable[..., Any], loss: Callable[..., Any] | None = None, argnums: Argnums = 0, *,
    argnum: Argnums | None = None, kernel: None = None,
) -> Transformed[Any]:
    """Make a function that returns products of the Gauss-Newton matrix with directions.

    For ``f(x) = loss(model(x))`` the matrix is ``J.T @ H @ J``, with the Jacobian J of the
    model and the Hessian H of the loss with respect to the model's result.  It is the Hessian
    of `f` without the curvature of the model, and positive semidefinite if the loss is convex.

    Parameters
    ----------
    model : callable
        Returns a number, an array, or containers of them.
    loss : callable, optional
        Takes the model's result; returns one number.  By default half the sum of squares, for
        which H is the identity: the product is ``J.T @ (J @ v)``.
    argnums : int or sequence of int
        Arguments of the model, as for `grad`.  Also called `argnum`.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        ``product(*args, v)``, as for `hvp`.

    Raises
    ------
    SeedShapeError, StructureError, NonScalarOutputError, DtypeError, HigherOrderError
        The direction does not fit, the loss is not one number, or an argument is not a float.

    References
    ----------
    N. Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent",
    Neural Computation 14 (2002) 1723-1738.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> product = tg.gnvp(lambda x: x ** 2)
    >>> product(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    array([ 4., 36.])
    """
    if loss is not None:
        check_function(loss, " as loss")
    return CurvatureProduct(model, chosen(argnums, argnum, kernel), functools.partial(_gnvp, loss))


def _gnvp(loss, e, direction):
    """The tangent of the model, weighted with the Hessian of the loss, pulled back."""
    e.check()
    tangents, lanes = _directions(direction, e.inputs, together(e.structures))
    moved = e.push(tangents, lanes)
    if loss is not None:
        with on_tensors(loss, (e.value(),), (0,), {}) as inner:
            moved = inner.gradient().push(moved, lanes)
    return e.contained(e.pull(moved, lanes))
