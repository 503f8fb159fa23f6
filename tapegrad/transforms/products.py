"""Products with second derivatives: `hvp` and `gnvp`.

The gradient of the function is recorded on a tape of its own, and its tangent behind it
(`tangents`), so that one replay gives the product; several directions are an axis of
arrays on that tape.  Called inside of another derivative the same is recorded there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar, overload

import numpy as np

from ..array.typing import Argnums, OfFirst
from ..autograd.nested import together
from ..common.errors import SeedShapeError, StructureError
from ..common.tree import alike, flatten, leaf_names, unflatten
from ..program.evaluation import on_tensors
from .bodies import RecordedWhole
from .functional import chosen
from .replay.answers import MISS
from .transformed import Transformed

X = TypeVar("X", bound=Any)


def _directions(direction, inputs, structure):
    """Tangents of the variables, and how many directions there are (None: one, without an axis for it)."""
    tangents, own_structure = flatten(direction)
    if len(tangents) != len(inputs) or len(inputs) > 1 and not alike(own_structure, structure):
        raise StructureError(f"the direction is {own_structure}, but the arguments to differentiate are {structure}")
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
    if not any(v.__class__ is np.ndarray and v.dtype.kind in "iub" for v in leaves):
        return direction
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
            raise StructureError(
                f"argnums={self._argnums} asks for argument {max(self._argnums)}, but the function was called with {len(args)} "
                "positional arguments, and a direction"
            )
        answer = (self._replays or self._replayed).quick((direction, *args), kwargs)
        return self._answered((_of_floats(direction), *args), kwargs) if answer is MISS else answer


def _hvp(has_aux, e, direction):
    """The tangent of the gradient."""
    gradient = e.gradient(has_aux)
    products = e.contained(gradient.push(*_directions(direction, e.inputs, gradient.structure)))
    return (products, e.value()[1]) if has_aux else products


@overload
def hvp(f: OfFirst[X], argnums: Literal[0] = 0, has_aux: Literal[False] = False) -> Transformed[X]: ...
@overload
def hvp(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    argnum: Argnums | None = None,
) -> Transformed[Any]: ...
def hvp(
    f: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    argnum: Argnums | None = None, kernel: None = None,
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
    Hessian", 1994.)

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
    return CurvatureProduct(f, chosen(argnums, argnum, kernel), partial(_hvp, has_aux))


@overload
def gnvp(model: OfFirst[X], loss: Callable[..., Any] | None = None, argnums: Literal[0] = 0) -> Transformed[X]: ...
@overload
def gnvp(
    model: Callable[..., Any], loss: Callable[..., Any] | None = None, argnums: Argnums = 0, *,
    argnum: Argnums | None = None,
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
    if loss is not None and not callable(loss):
        raise StructureError(f"expected a function as loss, got {type(loss).__name__}")
    return CurvatureProduct(model, chosen(argnums, argnum, kernel), partial(_gnvp, loss))


def _gnvp(loss, e, direction):
    """The tangent of the model, weighted with the Hessian of the loss, pulled back."""
    e.check()
    tangents, lanes = _directions(direction, e.inputs, together(e.structures))
    moved = e.push(tangents, lanes)
    if loss is not None:
        with on_tensors(loss, (e.value(),), (0,), {}) as inner:
            moved = inner.gradient().push(moved, lanes)
    return e.contained(e.pull(moved, lanes))
