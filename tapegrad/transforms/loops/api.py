"""`scan`, `fori_loop`, `while_loop`, `cond`, `switch`, `map`, `associative_scan`: with the names and arguments of `jax.lax`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...array.differentiable import Differentiable
from ...autograd.custom import stop_gradient
from ...common.errors import StructureError, reason
from ...common.tree import flatten, flatten_result, parts_of, unflatten
from ..contents import is_plain
from . import plain
from .body import restoring, state_of


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    memory: int | None = None,
) -> tuple[Any, Any]:
    """Carry a state along the first axis of arrays: ``for x in xs: carry, y = f(carry, x)``.

    Parameters
    ----------
    f : callable
        ``f(carry, x) -> (carry, y)``; the carry keeps its container, its shapes and dtypes.
    init : number, array, or container of them
        The first carry.
    xs : array or container of arrays, optional
        ``f`` gets one element along the first axis of each array; without `xs` it gets None.
    length : int, optional
        Number of iterations, if there are no `xs`.
    reverse : bool
        Whether to go from the last element to the first.
    memory : int, optional
        Bytes that reverse mode may keep; what does not fit is computed again.

    Returns
    -------
    carry, ys
        The last carry, and the results, each with a first axis for the iterations (None where `f` returns None). With no iterations, the carry
        is `init`; to learn the shapes of the results, `f` is called once with elements of zeros, and what it changes is put back.

    Raises
    ------
    StructureError
        The carry that `f` returns does not fit the one it was given; arrays of `xs` have first axes of different lengths; there are
        no iterations and `f` raises, so the shapes of its results are unknown.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> total, sums = tg.scan(lambda s, x: (s + x, s + x), 0.0, np.array([1.0, 2.0, 3.0]))
    >>> print(total, sums)
    6.0 [1. 3. 6.]
    """
    return _along(f, init, xs, length, reverse, memory, "the scan")


def _along(f, init, xs, length=None, reverse=False, memory=None, name=""):
    """`scan` under the `name` that messages give it."""
    leaves, structure, iterations = plain.turns_of(xs, length, name)
    if not iterations:
        return init, _of_no_iterations(f, init, leaves, structure, name)
    parts, body = None if structure is None else (leaves, structure), f"the body of {name}"

    def iteration(carry, x):
        return *plain.pair(f(carry, x)), False

    def in_python(watch):
        return plain.scan(f, init, leaves, structure, iterations, reverse, watch, body)

    return _looped(iteration, [f], init, parts, iterations, reverse, memory, body, in_python)


def _of_no_iterations(f, init, leaves, structure, name):
    """The results of no iterations: those of one, at zeros, or at some other numbers if it raises there, without rows."""
    state, shapes, body = state_of([f]), [(1, *np.shape(leaf)[1:]) for leaf in leaves], f"the body of {name}"
    for numbers in (np.zeros, lambda shape: 1.0 + np.random.default_rng(0).random(shape)):
        rows = [numbers(shape).astype(leaf.dtype) for shape, leaf in zip(shapes, leaves)]
        try:
            with np.errstate(all="ignore"):
                results, container = flatten_result(plain.scan(f, init, rows, structure, 1, False, False, body)[1])
        except Exception as error:
            cause, why = error, reason(error)
        else:
            # There is nothing that could have a derivative.
            return unflatten(container, [x[:0] if isinstance(x, np.ndarray) else stop_gradient(x[:0]) for x in results])
        finally:
            state.put_back(body)
    raise StructureError(
        f"{name} has no iterations, and its body, run at zeros and at numbers from 1 to 2 to learn the shapes of its results, raises "
        f"{why}. Leave {name} out where there are no elements"
    ) from cause


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, memory: int | None = None) -> Any:
    """Carry a state while a condition holds: ``while cond(value): value = body(value)``.

    The loop is differentiable in both modes, without a bound on the number of iterations.

    Parameters
    ----------
    cond : callable
        ``cond(value)``, true or false.
    body : callable
        ``body(value) -> value``, which keeps its container, its shapes and dtypes.
    init : number, array, or container of them
    memory : int, optional
        Bytes that reverse mode may keep; what does not fit is computed again.

    Returns
    -------
    value
        The first one for which the condition does not hold.

    Examples
    --------
    >>> import tapegrad as tg
    >>> root = lambda a: tg.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a)
    >>> print(f"{tg.grad(root)(2.0):.6f} {0.5 / 2**0.5:.6f}")
    0.353553 0.353553
    """


    def iteration(carry, _):
        return (body(carry), None, False) if cond(carry) else (carry, None, True)

    def in_python(watch):
        return plain.while_loop(cond, body, init, watch), None

    return _looped(iteration, [body, cond], init, None, None, False, memory, "the body of the while loop", in_python)[0]


def _looped(iteration, functions, init, xs, iterations, reverse, memory, name, in_python):
    """A loop as one instruction, if there is something to differentiate; else in Python."""
    state = None
    if not any(isinstance(part, Differentiable) for part in parts_of((init, xs and xs[0]), Differentiable)):
        # If a tensor comes out of it all the same, it is the Python loop on tensors.
        state = None if all([is_plain(function) for function in functions]) else state_of(functions)
        try:
            # What an iterator has given cannot be put back.
            return in_python(state is not None and not state.iterates)
        except plain.NeedsRecording:
            pass
    from .running import loop

    return restoring(functions, name, lambda: loop(iteration, init, xs, iterations, reverse, memory, name), lambda: in_python(False), state)


def fori_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Carry a state through ``for i in range(lower, upper): value = body(i, value)``.

    Parameters
    ----------
    lower, upper : int
    body : callable
        ``body(i, value) -> value``, which keeps its container, its shapes and dtypes.
    init : number, array, or container of them

    Returns
    -------
    value

    Examples
    --------
    >>> import tapegrad as tg
    >>> power = lambda x: tg.fori_loop(0, 3, lambda i, p: p * x, 1.0)
    >>> tg.grad(power)(2.0)
    12.0
    """
    try:
        lower, upper = (n if isinstance(n, Differentiable) and n.dtype.kind in "iu" else operator.index(n) for n in (lower, upper))
    except TypeError:
        raise StructureError(f"fori_loop goes from lower={lower!r} to upper={upper!r}, which have to be integers") from None
    if isinstance(lower, Differentiable) or isinstance(upper, Differentiable):
        # How many iterations there are may change from call to call.
        return while_loop(lambda pair: pair[0] < upper, lambda pair: (pair[0] + 1, body(*pair)), (lower, init))[1]

    def iteration(value, i):
        return body(i if isinstance(i, Differentiable) else int(i), value), None

    return _along(iteration, init, np.arange(lower, upper), name="the fori_loop")[0] if lower < upper else init


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Compute ``true_fun(*operands) if pred else false_fun(*operands)`` as one instruction that holds both.

    Parameters
    ----------
    pred : bool, number or tensor
    true_fun, false_fun : callable
        Return containers of the same kind, with arrays of the same shapes and dtypes.
    *operands : number, array, or container of them

    Returns
    -------
    number, array, or container of them

    Examples
    --------
    >>> import tapegrad as tg
    >>> relu = lambda x: tg.cond(x > 0, lambda x: x, lambda x: 0.0 * x, x)
    >>> tg.grad(relu)(3.0), tg.grad(relu)(-3.0)
    (1.0, 0.0)
    """
    if not isinstance(pred, Differentiable):
        return true_fun(*operands) if pred else false_fun(*operands)
    return _chosen(pred != 0, [false_fun, true_fun], operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call the branch at position `index` with the operands; an index out of range selects the nearest branch.

    Parameters
    ----------
    index : int, or tensor without derivative
    branches : sequence of callable
        Return containers of the same kind, with arrays of the same shapes and dtypes.
    *operands : number, array, or container of them

    Returns
    -------
    number, array, or container of them

    Examples
    --------
    >>> import tapegrad as tg
    >>> f = lambda x: tg.switch(2, [lambda x: x, lambda x: x * x, lambda x: x * x * x], x)
    >>> tg.grad(f)(2.0)
    12.0
    """
    if not branches:
        raise StructureError("switch needs at least one branch")
    if not isinstance(index, Differentiable):
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)
    return _chosen(np.minimum(np.maximum(index, 0), len(branches) - 1), branches, operands)


def _chosen(index, branches, operands):
    """The result of the branch of this number, as one instruction that has all branches."""
    from .running import once

    def iteration(number, _):
        return number, branches[int(number)](*operands), False

    index = index.astype(np.int64) if isinstance(index, Differentiable) else np.asarray(index, np.int64)
    ways = [[k] for k in range(len(branches))]
    return restoring(branches, "a choice", lambda: once(iteration, index, "a choice", ways), lambda: branches[int(index)](*operands))


def map(f: Callable[[Any], Any], xs: Any) -> Any:  # noqa: A001  (its name in jax.lax)
    """Apply `f` to each element along the first axis of `xs`; the results are stacked along a first axis.

    Parameters
    ----------
    f : callable
    xs : array or container of arrays

    Returns
    -------
    array or container of arrays

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.map(lambda x: x * x, np.array([1.0, 2.0, 3.0]))
    array([1., 4., 9.])
    """
    return _along(lambda carry, x: (carry, f(x)), (), xs, name="the map")[1]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Compute all partial results of an associative operation along an axis, in about twice log2(n) calls of `fn` on arrays.

    Parameters
    ----------
    fn : callable
        ``fn(a, b)`` takes containers like `elems` and works element by element along `axis`; it must be associative.
    elems : array or container of arrays
        All of one length along `axis`.
    reverse : bool
        Whether to begin at the end.
    axis : int

    Returns
    -------
    container like `elems`
        ``elems[0]``, ``fn(elems[0], elems[1])``, ...

    References
    ----------
    G. E. Blelloch: Prefix sums and their applications. Carnegie Mellon University, CMU-CS-90-190 (1990).

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.associative_scan(lambda a, b: a * b, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    """
    leaves, structure = flatten(elems)
    leaves = [np.moveaxis(leaf, axis, 0) for leaf in leaves]
    if len({len(leaf) for leaf in leaves}) != 1:
        raise StructureError(f"associative_scan goes along one axis of arrays of one length, not of {sorted({len(x) for x in leaves})}")

    def combined(a, b):
        moved = [unflatten(structure, [np.moveaxis(x, 0, axis) for x in side]) for side in (a, b)]
        return [np.moveaxis(x, axis, 0) for x in plain.fitting(flatten(moved[0]), fn(*moved), "fn")]

    backwards = slice(None, None, -1)
    leaves = [leaf[backwards] for leaf in leaves] if reverse else leaves
    leaves = _prefixes(combined, leaves)
    leaves = [leaf[backwards] for leaf in leaves] if reverse else leaves
    return unflatten(structure, [np.moveaxis(leaf, 0, axis) for leaf in leaves])


def _prefixes(combined, leaves):
    count = len(leaves[0])
    if count < 2:
        return leaves
    pairs = combined([x[: count - 1 : 2] for x in leaves], [x[1::2] for x in leaves])
    odd = _prefixes(combined, pairs)
    rest = [x[2::2] for x in leaves]
    if len(rest[0]):
        rest = combined([x[: len(rest[0])] for x in odd], rest)
    # The first, and the rest, in turns with those at odd positions.
    order = np.argsort([*range(0, count, 2), *range(1, count, 2)])
    return [np.concatenate([x[:1], y, z])[order] for x, y, z in zip(leaves, rest, odd)]
