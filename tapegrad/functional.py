"""Transformations of functions: `grad`, `value_and_grad`.

Each takes a function and returns a function, which records it at its first call
and replays it after (`tapegrad.replay`).  NumPy in, NumPy out.
"""

from __future__ import annotations

import functools

import numpy as np

from .tree import flatten, unflatten


class Transformed:
    """What a transformation returns: a function, with its statistics.

    Attributes
    ----------
    __wrapped__ : callable
        The user's function.
    """

    def __init__(self, function, argnums, has_aux):
        if not callable(function):
            raise TypeError(f"expected a function to differentiate, got {type(function).__name__}")
        functools.update_wrapper(self, function, updated=())
        self._one = isinstance(argnums, (int, np.integer))
        self._argnums = (int(argnums),) if self._one else tuple(int(a) for a in argnums)
        if any(a < 0 for a in self._argnums):
            raise ValueError(f"argnums must not be negative, got {self._argnums}")
        from .replay.function import Replayed

        self._replayed = Replayed(function, self._argnums, has_aux)
        self._has_aux = has_aux

    def stats(self):
        """What has been recorded and replayed so far: a `Stats`, readable with ``print``."""
        return self._replayed.stats

    def tape(self, *args, **kwargs):
        """The finished tape that answers a call with these arguments: ``print(g.tape(x))`` lists it.

        Examples
        --------
        >>> import tapegrad as tg
        >>> g = tg.grad(lambda x, y: x * y + 1.0)
        >>> len(g.tape(2.0, 3.0))
        2
        """
        return self._replayed.tape(args, kwargs)

    def _gradients(self, outcome, args):
        """Gradients of the wanted arguments, in their containers."""
        found = iter([g for g in outcome.gradients if g is not None])
        results = []
        for k in self._argnums_in_order:
            leaves, structure = flatten(args[k])
            results.append(unflatten(structure, [_number(next(found)) for _ in leaves]))
        by_position = dict(zip(self._argnums_in_order, results))
        results = tuple(by_position[k] for k in self._argnums)
        return results[0] if self._one else results

    @property
    def _argnums_in_order(self):
        return sorted(set(self._argnums))

    def _value(self, outcome):
        values = [v.copy() if isinstance(v, np.ndarray) else v for v in outcome.values]
        return unflatten(outcome.structure, values)


def _number(gradient):
    return float(gradient) if gradient.ndim == 0 and gradient.dtype.char == "d" else gradient


class _ValueAndGrad(Transformed):
    def __call__(self, *args, **kwargs):
        outcome = self._replayed.call(args, kwargs)
        return self._value(outcome), self._gradients(outcome, args)


class _Grad(Transformed):
    def __call__(self, *args, **kwargs):
        outcome = self._replayed.call(args, kwargs)
        gradient = self._gradients(outcome, args)
        return (gradient, self._value(outcome)[1]) if self._has_aux else gradient


def value_and_grad(fun, argnums=0, has_aux=False):
    """The value of a scalar function together with its gradient.

    Parameters
    ----------
    fun : callable
        Returns a float (or a pair of a float and anything else, with `has_aux`).
    argnums : int or sequence of int
        Positions of the arguments to differentiate; they may be containers.
    has_aux : bool
        Whether `fun` returns a pair of which only the first part is differentiated.

    Returns
    -------
    callable
        ``(value, gradient)`` of the same arguments; ``((value, aux), gradient)`` with `has_aux`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> g = tg.value_and_grad(lambda x: np.sum(x ** 2))
    >>> g(np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    """
    return _ValueAndGrad(fun, argnums, has_aux)


def grad(fun, argnums=0, has_aux=False):
    """The gradient of a scalar function.

    Parameters
    ----------
    fun, argnums, has_aux
        As of `value_and_grad`.

    Returns
    -------
    callable
        The gradient at the same arguments, in the shape of the argument; ``(gradient, aux)`` with `has_aux`.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.grad(lambda x: x ** 3)(2.0)
    12.0
    """
    return _Grad(fun, argnums, has_aux)
