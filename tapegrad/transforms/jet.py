"""`jet`: Taylor coefficients of any order.

The function is run once on tensors; then its tape is walked up, instruction by instruction, with a truncated power series for each
slot (`tapegrad.array.series`).  Inside of another derivative the coefficients are computed on the tape outside, like everything else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..array.differentiable import Differentiable
from ..array.dual import Dual, as_float, check_tangent, running
from ..array.record import nesting_error, tracked
from ..array.recorded import Recorded
from ..array.series import Calls, Series, series_of
from ..autograd import nested
from ..autograd.adjoint import naming, operands_of
from ..autograd.tape import Tape
from ..common.errors import HigherOrderError, StructureError
from ..common.tree import flatten, unflatten
from ..program.evaluation import on_tensors
from ..tape.places import function_name


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
