"""Rules that know which arguments are differentiated; in JAX's form: of residuals that a forward function returns, and of primals with their tangents."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...common.errors import RuleError
from .primitives import Primitive, R


def together(tangents, result):
    """The sum of what the arguments contribute to the tangent of a `result`; None for nothing."""
    parts = [part for part in tangents if part is not None]
    return sum(parts[1:], parts[0]) if parts else 0.0 * result


class ByPosition(Primitive[R]):
    """A primitive whose rules are given the positions of the arguments that are differentiated."""

    #: Positions of arguments that are not differentiated.
    fixed: tuple[int, ...] = ()

    def split(self, args):
        """What a rule is given of the arguments of a call: arguments, and the positions of those that are differentiated."""
        return args, [k for k in range(len(args)) if k not in self.fixed]

    def set_vjp(self, rule):
        """Set ``rule(positions, result, args, kwargs)``, which gives a function of the adjoint that gives those of the arguments there."""

        def adjoints(g, result, *args, **static):
            given, positions = self.split(args)
            found = rule(positions, result, given, static)(g)
            if not isinstance(found, (tuple, list)) or len(found) != len(positions):
                each = "an adjoint for each argument that is differentiated"
                raise RuleError(f"the backward rule of {self.name} has to return a tuple of {len(positions)}, {each}")
            by_position = dict(zip(positions, found))
            return tuple(by_position.get(k) for k in range(len(args)))

        super().defvjp(adjoints)

    def set_jvp(self, rule):
        """Set ``rule(positions, tangents, result, args, kwargs)``, which gives the tangent of the result."""

        def tangent(tangents, result, *args, **static):
            given, positions = self.split(args)
            return rule(positions, tuple(tangents[k] for k in positions), result, given, static)

        super().defjvp(tangent)


class PairedPrimitive(ByPosition[R]):
    """What ``@tg.custom_vjp`` and ``@tg.custom_jvp`` make of a function without a rule: `defvjp`, `defjvp` and `defjvps` are JAX's."""

    def __init__(self, function: Callable[..., R], fixed: tuple[int, ...] = ()) -> None:
        super().__init__(function)
        self.fixed, self._signature = tuple(fixed), inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) < len(self._signature.parameters):
            # The rules get all arguments, by position.
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return super().__call__(*args, **kwargs)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:  # type: ignore[override]
        """Set ``fwd(*args) -> (result, residuals)`` and ``bwd(residuals, g) -> adjoints``, a tuple of one for each argument that is differentiated.

        `bwd` is given the arguments `nondiff_argnums` before these.  `fwd` is run in the reverse sweep, when the derivative is asked for.
        """
        self.set_vjp(lambda _, result, args, static: lambda g: bwd(*(args[k] for k in self.fixed), fwd(*args, **static)[1], g))

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        """Set ``jvp(primals, tangents) -> (result, tangent)``, two tuples of what is differentiated, behind the arguments `nondiff_argnums`."""
        self.set_jvp(lambda moved, tangents, _, args, static: jvp(*(args[k] for k in self.fixed), tuple(args[k] for k in moved), tangents)[1])
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule ``jvp(tangent, result, *args)`` for each argument that is differentiated; None for one that has no derivative."""

        def rule(_, tangents, result, args, static):
            return together([None if jvp is None or t is None else jvp(t, result, *args) for jvp, t in zip(jvps, tangents, strict=True)], result)

        self.set_jvp(rule)
