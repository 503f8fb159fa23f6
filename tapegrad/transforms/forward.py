"""Forward-mode transformations: `jvp`, `derivative`, `jacfwd`.

Each runs the function once per pass on dual numbers of a fresh level
(`tapegrad.array.dual`) and takes the tangents of that level out of what it returns.
Where a derivative outside is recorded, all three evaluate the function on the tape that is there, and push the
tangents along it (`program.evaluation`): what has to be passed are then records, of which compiled code writes most.
Forward mode costs about as much as the function itself, times the number of
inputs that are varied; see ``docs/forward.md`` for when that is the better way.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..array.differentiable import Differentiable
from ..array.dual import LEVELS_APART, Dual, as_primal, check_tangent, leave, made, running, zeros_of
from ..array.inplace import restore
from ..array.leaving import clarified
from ..array.objects import joined
from ..array.record import normalise, tracked
from ..array.tensor import Tensor
from ..array.typing import Between
from ..autograd.nested import taped
from ..common.dtypes import check_derivative, check_returned
from ..common.errors import StructureError
from ..common.registry import registry
from ..common.tree import REGISTERED, beside, flatten, leaf_names, unflatten
from ..program.evaluation import on_tensors
from ..tape.places import function_name

R = TypeVar("R", bound=Any)
X = TypeVar("X", bound=Any)

_LEVELS = itertools.count(LEVELS_APART, LEVELS_APART)

#: Tangents that share one pass of `jacfwd`: a power of two, no less than are left.
MOST_LANES, FEWEST_LANES = 16, 4


class _Level:
    """A fresh level, higher than that of every dual number there is, while a function runs."""

    def __enter__(self):
        self.before, running.level = running.level, next(_LEVELS)
        running.changed = running.changed | {running.level: {}}
        return running.level

    def __exit__(self, *exc):
        ended, running.level = running.level, self.before
        leave(ended)


# ---- containers of numbers -------------------------------------------------------------


def _partners(structure, thing, what):
    """The parts of `thing` that stand where the leaves of `structure` are."""
    kind, keys = structure.kind, structure.keys
    if kind is None:
        return [joined(thing)]
    if kind is complex:
        return [*(registry.objects.split(thing) or (thing, np.zeros_like(thing)))]
    if kind in REGISTERED and not structure.count:
        return []
    parts = beside(structure, thing)
    if parts is None:
        sizes = f" with the keys {list(keys)}" if kind is dict else f" of {len(keys)}" if issubclass(kind, (tuple, list)) else ""
        raise StructureError(f"{what}: a {kind.__name__}{sizes} has a partner that is {_described(thing)}")
    return [leaf for part, inner in zip(parts, structure.parts) for leaf in _partners(inner, part, what)]


def _described(thing):
    if isinstance(thing, dict):
        return f"a dict with the keys {list(thing)}"
    if isinstance(thing, (tuple, list)):
        return f"a {type(thing).__name__} of {len(thing)}"
    return f"of type {type(thing).__name__}"


# ---- in and out --------------------------------------------------------------------------


def _entered(primal, what):
    """An argument as a dual number can hold it."""
    if isinstance(primal, (dict, tuple, list, str, bytes)) or primal is None or callable(primal):
        raise StructureError(f"{what} is not a number or an array but {_described(primal)}")
    return as_primal(primal, what)


def _parts(result, level, what):
    """Primal and tangent (None: zero) of `level` in a result of a function."""
    if result.__class__ is Dual:
        if result._level == level:
            return result.value, result._d
        if result._level > level:
            # A dual number made by hand around ours: look inside both of its parts.
            primal, tangent = _parts(result.value, level, what)
            if result._d is None:
                return made(primal, None, result._lanes, result._level), tangent
            inner, moved = _parts(result._d, level, what)
            if moved is not None or tangent is not None:
                tangent = zeros_of(primal, None) if tangent is None else tangent
                tangent = made(tangent, moved, result._lanes, result._level)
            return made(primal, inner, result._lanes, result._level), tangent
        return result, None
    if isinstance(result, Differentiable):
        check_derivative(result, what)
        return (result if tracked(result) else result._v), None
    check_returned(result, what)
    return result, None


def _given_out(thing):
    """A result without wrapping: 0-d arrays become scalars of NumPy."""
    return thing[()] if isinstance(thing, np.ndarray) and thing.ndim == 0 else thing


def _pass(function, arguments, level, lanes, what):
    """One pass; values and tangents of the leaves of the result, and its structure."""
    with clarified:
        leaves, structure = flatten(function(*arguments))
    pairs = [_parts(leaf, level, f"{what}{name}") for leaf, name in zip(leaves, leaf_names(structure))]
    values = [_given_out(value) for value, _ in pairs]
    return values, [_given_out(zeros_of(value, lanes) if tangent is None else tangent) for value, tangent in pairs], structure


def on_tape(values, tangents):
    """Whether a derivative outside is recorded, and nothing a dual number."""
    return (taped() or any(isinstance(value, Tensor) for value in values)) and not any(part.__class__ is Dual for part in (*values, *tangents))


def _moved(f, values, along, structure, what):
    """Value and tangent of a function of arguments in a container of `structure`; `what` is the name of its result."""
    if not on_tape(values, along):
        with _Level() as level:
            arguments = [made(value, tangent, None, level) for value, tangent in zip(values, along)]
            values, carried, structure = _pass(f, unflatten(structure, arguments), level, None, what)
            return unflatten(structure, values), unflatten(structure, carried)

    def on_copies(*primals):
        # As a dual number, an argument is the function's to write into.
        return f(*unflatten(structure, [leaf.clone() if leaf.ndim else leaf for leaf in flatten(primals)[0]]))

    primals = unflatten(structure, values)
    with on_tensors(on_copies, primals, range(len(primals)), {}) as e:
        e.check(what=what)
        moved = unflatten(e.structure, e.push(along))
        return e.out(e.value()), moved if any(isinstance(tangent, Tensor) for tangent in along) else e.out(moved)


def jvp(f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[R, R]:
    """The value of a function and its derivative along one direction: the Jacobian-vector product.

    Parameters
    ----------
    f : callable
        Takes numbers, arrays, or nested tuples, lists, dicts and dataclasses of them; returns the same.
    primals : tuple or list
        The arguments of `f`: floats, arrays of float64 or float32, tensors, dual
        numbers.  Python ints count as floats.
    tangents : tuple or list
        The direction, with the structure, shapes and dtypes of `primals`.

    Returns
    -------
    value, tangent
        Both have the structure that `f` returns.  They hold floats and NumPy arrays,
        except where an argument was a tensor that requires a gradient or a dual number.
        A result that does not depend on the arguments has a zero tangent.

    Raises
    ------
    StructureError
        `tangents` does not have the structure of `primals`, or `f` returns something
        that is not a number or array.
    SeedShapeError, DtypeError
        A tangent does not fit its primal; an argument cannot carry a derivative; a result is boolean or integer.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.5))
    (12.0, 5.5)
    >>> tg.jvp(np.cumsum, (np.array([1.0, 2.0, 3.0]),), (np.array([1.0, 0.0, 1.0]),))
    (array([1., 3., 6.]), array([1., 1., 2.]))
    """
    for sequence, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(sequence, (tuple, list)):
            raise StructureError(f"jvp: {what} must be a tuple or list of the arguments, not {_described(sequence)}; write (x,)")

    (leaves, structure), values, along = flatten(tuple(primals)), [], []
    for primal, tangent, where in zip(leaves, _partners(structure, tangents, "primals"), leaf_names(structure)):
        values.append(_entered(primal, f"jvp: primals{where}"))
        if isinstance(tangent, (dict, tuple)) or tangent is None:
            raise StructureError(f"jvp: the tangent of primals{where} is {_described(tangent)}, not a number or an array")
        along.append(check_tangent(tangent, values[-1], np.shape(values[-1])))
    return _moved(f, values, along, structure, f"the result of {function_name(f)}")


def derivative(f: Between[Any, R]) -> Callable[..., R]:
    """The derivative of a function of one number, in forward mode.

    Parameters
    ----------
    f : callable
        ``f(x, *args, **kwargs)`` with a number `x`; returns a number, an array, or
        nested tuples, lists and dicts of them.

    Returns
    -------
    callable
        ``df(x, *args, **kwargs)``, which returns the structure and shapes that `f` returns.

    Raises
    ------
    StructureError
        `x` is not a number (use `jacfwd`), or `f` returns something that is not a
        number or array.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.derivative(lambda x: x ** 3)(2.0)
    12.0
    >>> tg.derivative(tg.derivative(lambda x: x ** 3))(2.0)
    12.0
    >>> tg.derivative(lambda t: {"position": t * np.array([1.0, 2.0])})(3.0)
    {'position': array([1., 2.])}
    """

    @functools.wraps(f)
    def df(x, *args, **kwargs):
        value = _entered(x, f"the argument of derivative({function_name(f)})")
        if np.shape(value):
            raise StructureError(
                f"derivative({function_name(f)}) takes a number, not an array of shape {tuple(np.shape(value))}; "
                "use tg.jacfwd or tg.jvp"
            )
        one = normalise(np.ones((), getattr(value, "dtype", np.float64)))
        return _moved(lambda x: f(x, *args, **kwargs), [value], [one], flatten((value,))[1], f"the result of {function_name(f)}")[1]

    return recorded(df, f, derivative)


def recorded(transformed, f, transformation):
    """`transformed`; where `f` is under ``jit``, what that makes of the transformation."""
    again = getattr(f, "recorded_as", None)
    return transformed if again is None else again(transformation) or transformed


def by_passes(f, k, argnums, args, kwargs, kept=()):
    """The Jacobian in argument `k` of `argnums` by passes of dual numbers, a few columns each: the parts of each leaf of the result, and its structure."""
    values = {j: _entered(args[j], f"argument {j} of {function_name(f)}") for j in argnums}
    value = values[k]
    shape, dtype = tuple(np.shape(value)), getattr(value, "dtype", np.dtype(np.float64))
    size = int(np.prod(shape, dtype=np.int64))
    chunks, start, before = [], 0, None
    while start < size or not chunks:
        if start:
            # The function may have written into an argument: each pass starts from what the caller gave.
            restore(kept)
        lanes = max(FEWEST_LANES, 1 << (min(size - start, MOST_LANES) - 1).bit_length())
        count = min(lanes, size - start)
        with _Level() as level:
            seeds = np.zeros((lanes, size), dtype)
            seeds[np.arange(count), start + np.arange(count)] = 1.0
            seeded = made(value, seeds.reshape((lanes, *shape)), lanes, level)
            # (What is written into the others, on the way, may have a tangent.)
            along = {j: seeded if j == k else made(value, None, lanes, level) for j, value in values.items()}
            arguments = [along.get(j, argument) for j, argument in enumerate(args)]
            _, tangents, structure = _pass(functools.partial(f, **kwargs), arguments, level, lanes, f"the result of {function_name(f)}")
        if before is not None and structure != before:
            raise StructureError(f"the result of {function_name(f)} is {before} at one call and {structure} at the next, with the same arguments")
        chunks.append([t[:count] for t in tangents])
        start, before = start + count, structure
    return [_arranged(parts, shape) for parts in zip(*chunks)], structure


def _arranged(parts, shape):
    """Rows of tangents, joined, with the directions last and in the shape of the argument."""
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=0)
    out = rows.shape[1:]
    jacobian = np.reshape(np.moveaxis(rows, 0, -1), (*out, *shape))
    return jacobian if isinstance(jacobian, Differentiable) else normalise(np.array(jacobian, order="C", copy=None))
