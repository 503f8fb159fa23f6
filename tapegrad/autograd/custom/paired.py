"""Rules in JAX's form: of residuals that a forward function returns, and of primals with their tangents."""

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


class PairedPrimitive(Primitive[R]):
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

        def rule(g, result, *args, **static):
            found = bwd(*(args[k] for k in self.fixed), fwd(*args, **static)[1], g)
            moved = self._moved(args)
            if not isinstance(found, tuple) or len(found) != len(moved):
                raise RuleError(f"the backward rule of {self.name} has to return a tuple of {len(moved)}, an adjoint for each argument that is differentiated")
            adjoints = dict(zip(moved, found))
            return tuple(adjoints.get(k) for k in range(len(args)))

        super().defvjp(rule)

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        """Set ``jvp(primals, tangents) -> (result, tangent)``, two tuples of what is differentiated, behind the arguments `nondiff_argnums`."""

        def rule(tangents, result, *args, **static):
            moved = self._moved(args)
            return jvp(*(args[k] for k in self.fixed), tuple(args[k] for k in moved), tuple(tangents[k] for k in moved))[1]

        super().defjvp(rule)
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set a rule ``jvp(tangent, result, *args)`` for each argument; None for one that has no derivative."""

        def rule(tangents, result, *args, **static):
            return together([None if jvp is None or t is None else jvp(t, result, *args) for jvp, t in zip(jvps, tangents, strict=True)], result)

        super().defjvp(rule)

    def _moved(self, args):
        return [k for k in range(len(args)) if k not in self.fixed]
