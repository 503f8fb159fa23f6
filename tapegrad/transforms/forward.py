"""Forward-mode transformations: `jvp`, `derivative`, `jacfwd`, and `jet`: Taylor coefficients of any order.

Each of the first three runs the function once per pass on dual numbers of a fresh level
(`tapegrad.array.dual`) and takes the tangents of that level out of what it returns.
Where a derivative outside is recorded, they evaluate the function on the tape that is there, and push the
tangents along it (`program.evaluation`): what has to be passed are then records, of which compiled code writes most.
So they do, in a second run, where the function has used ``no_grad``.
Forward mode costs about as much as the function itself, times the number of
inputs that are varied; see ``docs/forward.md`` for when that is the better way.

For `jet` the function is run once on tensors; then its tape is walked up, instruction by instruction, with a truncated power series for
each slot (`tapegrad.array.series`).  Inside of another derivative the coefficients are computed on the tape outside, like everything else.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..array.differentiable import Differentiable, clarified
from ..array.dual import LEVELS_APART, Dual, as_float, as_primal, check_tangent, leave, made, running, zeros_of
from ..array.objects import joined
from ..array.operators import restore, unshared
from ..array.record import nesting_error, normalise, tracked
from ..array.recorded import Recorded
from ..array.series import Calls, Series, series_of
from ..array.tensor import Tensor
from ..array.typing import Between
from ..autograd import nested
from ..autograd.adjoint import naming, operands_of
from ..autograd.nested import taped
from ..autograd.tape import Tape
from ..common.dtypes import check_derivative, check_returned
from ..common.errors import HigherOrderError, StructureError
from ..common.registry import registry
from ..common.tree import REGISTERED, beside, flatten, leaf_names, unflatten
from ..program.evaluation import on_tensors
from ..tape.places import function_name
from ..tape.store import thread_state

R = TypeVar("R", bound=Any)
X = TypeVar("X", bound=Any)

_LEVELS = itertools.count(LEVELS_APART, LEVELS_APART)

#: Tangents that share one pass of `jacfwd`: a power of two, no less than are left.
MOST_LANES, FEWEST_LANES = 16, 4


class _Level:
    """A fresh level, higher than that of every dual number there is, while a function runs.

    Attributes
    ----------
    cut : bool
        Whether the function has switched recording off, which a tape heeds and dual numbers do not.
    """

    def __enter__(self):
        self.before, running.level = running.level, next(_LEVELS)
        running.changed = running.changed | {running.level: {}}
        self.switched_off = thread_state().switched_off
        return running.level

    def __exit__(self, *exc):
        self.cut = thread_state().switched_off > self.switched_off
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


def _moved(f, values, along, structure, what, kept=()):
    """Value and tangent of a function of arguments in a container of `structure`; `what` is the name of its result, `kept` is for a second run."""
    if not on_tape(values, along):
        with (entered := _Level()) as level:
            arguments = [made(value, tangent, None, level) for value, tangent in zip(values, along)]
            found, carried, of_result = _pass(f, unflatten(structure, arguments), level, None, what)
        if not entered.cut:
            return unflatten(of_result, found), unflatten(of_result, carried)
        restore(kept)

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

        def slope(args, kwargs, kept=()):
            return _moved(lambda x: f(x, *args[1:], **kwargs), [value], [one], flatten((value,))[1], f"the result of {function_name(f)}", kept)[1]

        return unshared(slope, (value, *args), kwargs, (0,))

    return recorded(df, f, derivative)


def recorded(transformed, f, transformation):
    """`transformed`; where `f` is under ``jit``, what that makes of the transformation."""
    again = getattr(f, "recorded_as", None)
    return transformed if again is None else again(transformation) or transformed


def by_passes(f, k, argnums, args, kwargs, kept=()):
    """The Jacobian in argument `k` of `argnums` by passes of dual numbers, a few columns each: the parts of each leaf of the result, and its structure.

    None if the function has switched recording off.
    """
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
        with (entered := _Level()) as level:
            seeds = np.zeros((lanes, size), dtype)
            seeds[np.arange(count), start + np.arange(count)] = 1.0
            seeded = made(value, seeds.reshape((lanes, *shape)), lanes, level)
            # (What is written into the others, on the way, may have a tangent.)
            along = {j: seeded if j == k else made(value, None, lanes, level) for j, value in values.items()}
            arguments = [along.get(j, argument) for j, argument in enumerate(args)]
            _, tangents, structure = _pass(functools.partial(f, **kwargs), arguments, level, lanes, f"the result of {function_name(f)}")
        if entered.cut:
            restore(kept)
            return None
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


def jet(fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """The value of a function along a curve, and its derivatives with respect to the curve's parameter, to any order.

    From the derivatives ``x'(0), x''(0), ...`` of curves ``x(t)``, compute those of ``fun(x(t))``, as `jax.experimental.jet.jet`
    does.  The coefficients, both those given and those returned, are *derivatives*, not divided by factorials.

    Parameters
    ----------
    fun : callable
        Takes numbers and arrays; returns a number, an array, or containers of them.
    primals : tuple or list
        The arguments ``x(0)``: floats, arrays of float64 or float32, tensors.
    series : tuple or list
        For each argument, the list of its derivatives of order 1, 2, ..., each of the shape of the argument; all lists have
        the same length.  For plain derivatives with respect to one number `x`, it is ``[[1.0, 0.0, 0.0, ...]]``.

    Returns
    -------
    value
        ``fun(*primals)``.
    coefficients
        In place of each number or array of the value, the list of its derivatives of order 1, 2, ..., as many as given.

    Raises
    ------
    StructureError
        `series` does not fit `primals`, or `fun` returns something that is not a number or array.
    SeedShapeError, DtypeError
        A coefficient does not fit its argument; an argument or result cannot carry a derivative.
    HigherOrderError
        A row of the function has no series (the message names it): a custom primitive, or an operation whose derivative is not
        written in rows.  Or an argument is a dual number: inside forward mode use `tg.grad` or `tg.jacobian` instead.

    Notes
    -----
    Order K takes about K**2 / 2 products for each multiplication, quotient or elementary function; a power with a constant
    exponent, which is differentiated to the power below, K**3 / 6.  (A. Griewank and A. Walther, *Evaluating Derivatives*,
    2008, chapter 13.)  Python's decisions, and kinks, are those at ``t = 0``.  Each call runs `fun`; for many
    calls put `tg.jit` around the function that calls `jet`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jet(np.exp, (0.0,), ([1.0, 0.0, 0.0],))
    (1.0, [1.0, 1.0, 1.0])
    >>> value, derivatives = tg.jet(lambda x: 1.0 / (1.0 - x), (0.0,), ([1.0, 0.0, 0.0, 0.0],))
    >>> derivatives
    [1.0, 2.0, 6.0, 24.0]
    """
    primals, series, order = _checked(fun, primals, series)
    if nested.is_nested((primals, series), {}):
        return _evaluated(fun, primals, series, order)
    return nested.beside(_alone, _evaluated, fun, primals, series, order)


def _checked(fun, primals, series):
    """The arguments, their coefficients as values that fit them, and the order."""
    what = f"jet({function_name(fun)})"
    for sequence, name in ((primals, "primals"), (series, "series")):
        if not isinstance(sequence, (tuple, list)):
            raise StructureError(f"{what}: {name} must be a tuple or list, one entry per argument, not of type {type(sequence).__name__}")
    if len(primals) != len(series) or not all(isinstance(terms, (tuple, list)) for terms in series):
        raise StructureError(f"{what}: series needs one list of coefficients for each of the {len(primals)} arguments, it is {series!r}")
    orders = {len(terms) for terms in series}
    if len(orders) > 1:
        raise StructureError(f"{what}: the lists of coefficients have different lengths ({sorted(orders)}); fill the short ones with zeros")
    if running.level or any(leaf.__class__ is Dual for leaf in flatten((primals, series))[0]):
        raise HigherOrderError(
            f"{what} was called inside forward mode (tg.jvp, tg.derivative, tg.jacfwd, or on dual numbers), where it is not offered; "
            "use tg.grad, tg.vjp or tg.jacrev around it, or one more order of coefficients"
        )
    values = tuple(x if isinstance(x, Differentiable) and tracked(x) else as_float(x, f"argument {k} of {what}") for k, x in enumerate(primals))
    coefficients = [[check_tangent(c, x, np.shape(x)) for c in terms] for x, terms in zip(values, series)]
    return values, coefficients, max(orders, default=0)


def _alone(fun, primals, series, order):
    """`_evaluated` on a tape that is let go."""
    with Tape():
        return _evaluated(fun, primals, series, order)


def _evaluated(fun, primals, series, order):
    with on_tensors(fun, primals, range(len(primals)), {}) as e:
        e.check()
        value, results = e.out(e.value()), e.walk.results
        if Dual in map(type, results):
            raise nesting_error("a dual number that the function uses without having it as an argument")
        depends = any(tracked(c) for terms in series for c in terms)
        factorials = list(itertools.accumulate(range(1, order + 1), lambda f, k: f * k, initial=1.0))[1:]
        seeds = [[c * (1.0 / f) for c, f in zip(terms, factorials)] for terms in series]

        def walk(stretch, slots, known):
            _walk(stretch, slots, known, order, recording=depends or not e.walk.alone)
            return known.get

        with np.errstate(all="ignore"):
            parts = nested.carried(e.walk.bases, results, seeds, walk)
            coefficients = [_derivatives(result, terms, factorials) for result, terms in zip(results, parts)]
        return value, unflatten(e.structure, [terms if depends else e.walk.out(terms) for terms in coefficients])


def _derivatives(result, terms, factorials):
    """The coefficients of a result times factorials; None as a coefficient, or in the place of all, is zero."""
    zero = np.zeros(np.shape(result), getattr(result, "dtype", "d"))[()]
    return [zero if c is None else c * f for c, f in zip(terms or itertools.repeat(None), factorials)]


def _walk(stretch, slots, known, order, recording):
    """Walk up with series.

    Parameters
    ----------
    stretch : Region
    slots : list of int
        Those to visit, ascending.
    known : dict of int to list
        The coefficients from order 1 on (None: zero) of slots that are done; at first those of the variables.
    order : int
    recording : bool
        Whether the coefficients are to be differentiated again; else they are computed on plain numbers.
    """
    for slot in slots:
        read = None if slot in known else stretch.read(slot)
        if read is None or not any(o in known for _, o in read.slots):
            continue
        operands, result = operands_of(read)
        values = [*operands, result] if recording else [Recorded(x.a._v) if isinstance(x.a, Differentiable) else x for x in (*operands, result)]
        of = dict(read.slots)
        with naming(read.row, stretch, slot), Calls() as table:
            if read.row.primitive is not None:
                raise HigherOrderError(
                    "its rules run in Python (it is a custom primitive, or under tg.checkpoint), and make no series; write it in functions of NumPy"
                )
            operands = [Series(x, table, _given(known.get(of.get(k)))) for k, x in enumerate(values[:-1])]
            z = series_of(read.row, operands, values[-1], read.attrs, table)
            try:
                known[slot] = [c if c is None else c.value for c in map(z.coefficient, range(1, order + 1))]
            except RecursionError as error:
                raise HigherOrderError(
                    f"order {order} nests more calls than Python allows; take fewer coefficients, or call sys.setrecursionlimit"
                ) from error


def _given(terms):
    """The coefficients of an operand by order; None for a constant."""
    return terms and (lambda k: None if k > len(terms) or terms[k - 1] is None else Recorded(terms[k - 1]))
