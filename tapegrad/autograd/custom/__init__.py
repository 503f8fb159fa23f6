"""Functions with derivative rules of the user's own: `primitive`, `custom_vjp`, `custom_jvp`; and `stop_gradient`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, overload

from ...array import trees
from ...array.objects import TENSORS, joined
from ...common.tree import REGISTERED, has_fields
from .primitives import PairedPrimitive, Primitive

Rule: TypeAlias = Callable[..., Any]
R = TypeVar("R")
T = TypeVar("T")


def primitive(function: Callable[..., R]) -> Primitive[R]:
    """Make a function a primitive: one instruction, with derivative rules of its own.

    Parameters
    ----------
    function : callable
        Takes plain arrays and floats; written in anything: NumPy, Numba
        (``@njit``), C.  Positional arguments may carry derivatives, keyword
        arguments are static.  Returns a float, an array, or a tuple or list of
        them; arrays of integers and booleans have no derivative.

    Returns
    -------
    Primitive
        Called with tensors (or dual numbers), it runs the function on their values
        and records one instruction; called with plain arrays only, it acts as the
        function itself.

    Raises
    ------
    MissingRuleError
        From ``backward()``: neither rule was given.
    RuleError
        A rule returned something that is not a derivative of its operand.

    See Also
    --------
    custom_vjp, custom_jvp

    Notes
    -----
    If one rule is missing, it is made from the other by transposition, provided the
    other is written in NumPy functions that tapegrad can differentiate.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> @tg.primitive
    ... def cube(x):
    ...     return x ** 3
    >>> @cube.defvjp
    ... def _(g, result, x):
    ...     return 3 * x ** 2 * g
    >>> x = tg.tensor(2.0, requires_grad=True)
    >>> y = cube(x)
    >>> y
    tensor(8., grad_fn=<CubeBackward0>)
    >>> y.backward()
    >>> x.grad
    tensor(12.)
    """
    return function if isinstance(function, Primitive) else Primitive(function)


class GivesRules(Protocol):
    """The types of `custom_vjp` and `custom_jvp`."""

    @overload
    def __call__(self, function: Callable[..., R], rule: Rule) -> Primitive[R]: ...
    @overload
    def __call__(self, function: Primitive[R], rule: None = None) -> Callable[[Rule], Rule]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[..., R], rule: None = None, nondiff_argnums: tuple[int, ...] = ()) -> PairedPrimitive[R]: ...


def _giving(function: GivesRules) -> GivesRules:
    return function


@_giving
def custom_vjp(function: Callable[..., Any], rule: Rule | None = None, nondiff_argnums: tuple[int, ...] = ()) -> Any:
    """Give a function its VJP (reverse-mode) rule.

    Parameters
    ----------
    function : callable or Primitive
        A function that is not yet a primitive becomes one.
    rule : callable, optional
        ``rule(g, result, *operands, **static)``: see `Primitive.defvjp`.
    nondiff_argnums : tuple of int
        Without `rule`: positions of arguments that are passed to the rules but not differentiated.

    Returns
    -------
    Primitive
        Without `rule`: for a primitive, a decorator for the rule; for another function, a primitive with JAX's ``defvjp(fwd, bwd)``.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> scaled = tg.custom_vjp(lambda x, y: x * y, lambda g, result, x, y: (g * y, g * x))
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> scaled(x, 2.0).backward()
    >>> x.grad
    tensor(2.)

    In JAX's form:

    >>> @tg.custom_vjp
    ... def clipped(x, slope):
    ...     return np.exp(x)
    >>> def forward(x, slope):
    ...     return np.exp(x), (np.exp(x), slope)
    >>> def backward(residuals, g):
    ...     value, slope = residuals
    ...     return np.minimum(value, slope) * g, None
    >>> clipped.defvjp(forward, backward)
    >>> tg.grad(clipped)(3.0, 2.0)
    2.0
    """
    return _with_rule(Primitive.defvjp, function, rule, nondiff_argnums)


@_giving
def custom_jvp(function: Callable[..., Any], rule: Rule | None = None, nondiff_argnums: tuple[int, ...] = ()) -> Any:
    """Give a function its JVP (forward-mode) rule.

    Parameters
    ----------
    function : callable or Primitive
    rule : callable, optional
        ``rule(tangents, result, *operands, **static)``: see `Primitive.defjvp`.
    nondiff_argnums : tuple of int
        Without `rule`: positions of arguments that are not differentiated but passed to the rule as they are.

    Returns
    -------
    Primitive
        Without `rule`: for a primitive, a decorator for the rule; for another function, a primitive with JAX's ``defjvp(jvp)`` and
        ``defjvps(*jvps)``.

    Examples
    --------
    >>> import tapegrad as tg
    >>> square = tg.custom_jvp(lambda x: x * x, lambda tangents, result, x: 2 * x * tangents[0])
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> square(x).backward()                  # the VJP is the transpose of the JVP
    >>> x.grad
    tensor(6.)

    In JAX's form:

    >>> @tg.custom_jvp
    ... def cube(x):
    ...     return x**3
    >>> @cube.defjvp
    ... def _(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return cube(x), 3.0 * x**2 * t
    >>> tg.grad(cube)(2.0)
    12.0
    """
    return _with_rule(Primitive.defjvp, function, rule, nondiff_argnums)


def _with_rule(give, function, rule, fixed):
    if rule is None and not isinstance(function, Primitive):
        return PairedPrimitive(function, fixed)
    custom = primitive(function)
    if rule is None:
        return partial(give, custom)
    give(custom, rule)
    return custom


def stop_gradient(thing: T) -> T:
    """Return the same value, with no derivative passing through it.

    Parameters
    ----------
    thing : Tensor, dual number, array, number, or container of them: a tuple, list, dict, dataclass, class of attrs, or registered by `tapegrad.tree.register`
        Anything else inside is returned as it is.

    Returns
    -------
    The same structure, with tensors detached.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> (x * tg.stop_gradient(x)).backward()
    >>> x.grad
    tensor(3.)
    """
    thing = joined(thing)
    if isinstance(thing, TENSORS):
        detached: Any = thing.detach()
        return detached
    if type(thing) in REGISTERED or has_fields(type(thing)) or isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return trees.map(stop_gradient, thing)
    if isinstance(thing, dict):
        return type(thing)((key, stop_gradient(value)) for key, value in thing.items())
    return type(thing)(map(stop_gradient, thing)) if isinstance(thing, (tuple, list)) else thing
