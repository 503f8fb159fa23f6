"""`Function`: a primitive as a class with ``forward`` and ``backward``, as in ``torch.autograd``.

The context is made for each call, and is data: arrays that are arguments or the
result are kept by the tape as the operands they are, so that a change in place
is noticed; any others are copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...array.differentiable import Differentiable
from ...array.record import tracked
from ...common.errors import HigherOrderError, MissingRuleError, RuleError, noted
from ...common.tree import flatten
from .calls import Fixed, handed, is_float, parts_of
from .primitives import Primitive


class Context:
    """What ``forward`` leaves for ``backward``: saved arrays, and any attributes you set.

    Attributes
    ----------
    needs_input_grad : tuple of bool
        For each argument of ``apply``.
    """

    def __init__(self, needed: Iterable[bool]) -> None:
        self.needs_input_grad = tuple(needed)
        self._saved: tuple[Any, ...] = ()  # argument numbers, ("result", number), or arrays in a tuple
        self._to_save: tuple[Any, ...] = ()
        self._plain_results: tuple[Any, ...] = ()

    def save_for_backward(self, *arrays: Any) -> None:
        """Keep arrays (or floats) for ``backward``, which finds them in `saved_tensors`."""
        self._to_save = arrays

    save_for_forward = save_for_backward

    def mark_non_differentiable(self, *results: Any) -> None:
        """Say that these results carry no derivative."""
        self._plain_results = results

    def mark_dirty(self, *arrays: Any) -> None:
        """Refused: arguments are read-only."""
        raise RuleError("ctx.mark_dirty: a Function cannot change its arguments in place; return a new array")

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved arrays, read-only."""
        return self._to_save


class _View:
    """A context for one run of a rule: attributes of the call's context, saved arrays from the tape."""

    def __init__(self, context, arguments, results):
        saved = [arguments[item] if kind == "argument" else results[item] if kind == "result" else item for kind, item in context._saved]
        self.__dict__.update({k: v for k, v in vars(context).items() if not k.startswith("_")})
        self.saved_tensors = tuple(handed(saved, None))


class _Within(noted):
    """Notes where something was raised, and what an array is not."""

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        if isinstance(error, AttributeError) and isinstance(error.obj, (np.ndarray, np.generic, float)):
            error.add_note(f"tapegrad: a Function is given plain arrays and floats; write x = tg.as_tensor(x) first for x.{error.name}")


#: The methods that are the rules of a kind.
_METHODS = {"vjp": "backward", "jvp": "jvp"}


class FunctionPrimitive(Primitive[Any]):
    """The primitive behind a `Function` class."""

    of_containers = False

    def __init__(self, cls):
        self.cls = cls
        self.with_setup = cls.setup_context is not Function.setup_context
        super().__init__(cls.forward, cls.__name__)
        self._skipped = 0 if self.with_setup else 1

    def _direct(self, args, static):
        return self._forward(Context([False] * len(args)), args)

    def _forward(self, context, args):
        with _Within(f"raised in {self.name}.forward"):
            if self.with_setup:
                output = self.cls.forward(*args)
                self.cls.setup_context(context, tuple(args), output)
                return output
            return self.cls.forward(context, *args)

    def _compute(self, call, arguments, needed):
        context = Context(needed)
        inputs = handed(arguments, None)
        output = self._forward(context, inputs)
        results = self._note_results(call, output, context._plain_results)
        call.context = _settled(context, inputs, flatten(output)[0], call, arguments)
        return results

    def _output(self, call, arguments):
        return self._forward(Context(call.context.needs_input_grad), arguments)

    def kept(self, call):
        others = [name for name in vars(call.context) if not name.startswith("_") and name != "needs_input_grad"]
        arrays = any(kind == "array" for kind, _ in call.context._saved)
        return f"ctx.{[*others, 'saved_tensors'][0]} holds what forward computed" if others or arrays else ""

    def _keeps(self, call):
        saved = [call.template[item] if kind == "argument" else -1 for kind, item in call.context._saved if kind != "array"]
        return tuple(sorted({0, *[number for number in saved if type(number) is not Fixed]}))

    # -- rules ------------------------------------------------------------------------
    def rule_name(self, kind):
        return f"{self.name}.{_METHODS[kind]}"

    def has_rule(self, kind):
        return getattr(self.cls, _METHODS[kind]) is not getattr(Function, _METHODS[kind])

    def _giving(self, kind):
        return f"a static method {self.rule_name(kind)}(ctx, *{'gradients' if kind == 'vjp' else 'tangents'})"

    def _without_rules(self):
        return f"{self.name} has neither a backward nor a jvp method; write backward(ctx, *gradients)"

    def _numbers(self, call):
        """The names in the context of what may depend on the values of arguments."""
        kept = [name for name, value in vars(call.context).items() if not name.startswith("_") and is_float(value)]
        saved = any(kind == "array" and is_float(item) for kind, item in call.context._saved)
        return [*kept, "saved_tensors"] if saved else kept

    def _cotangents(self, call, arguments, parts, result, likes, recorded=False):
        kept = self._numbers(call)
        if recorded and kept:
            raise HigherOrderError(
                f"{self.rule_name('vjp')} gives first derivatives only: ctx.{kept[0]} holds what forward computed, through which "
                "no second derivative passes. Save arguments and results only, and compute the rest in backward"
            )
        return super()._cotangents(call, arguments, parts, result, likes, recorded)

    def _by_rule(self, kind, call, given, arguments, result):
        context = _View(call.context, arguments, None if result is None else parts_of(result, call))
        with _Within(f"raised in {self.rule_name(kind)}"):
            return getattr(self.cls, _METHODS[kind])(context, *handed(given, None))

    def push(self, call, arguments, tangents, result):
        if self._numbers(call) and any(isinstance(x, Differentiable) and tracked(x) for x in (*arguments, result)):
            self._refuse_second()
        return super().push(call, arguments, tangents, result)


def _settled(context, inputs, results, call, arguments):
    """The context as data: saved arguments and results by number, everything else in copies."""
    known = {id(r): ("result", k) for k, (r, o) in enumerate(zip(results, call.outputs)) if o.value is None}
    known |= {id(a): ("argument", k) for k, a in enumerate(inputs)}
    saved: list[tuple[str, Any]] = []
    for array in context._to_save:
        if tracked(array):
            raise RuleError("ctx.save_for_backward was given a tensor that is on the tape; save arguments, results or arrays")
        saved.append(known.get(id(array)) or ("array", array.copy() if isinstance(array, np.ndarray) else array))
    context._saved = tuple(saved)
    context._to_save = context._plain_results = ()
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    for name, value in list(vars(context).items()):
        if isinstance(value, np.ndarray) and any(np.may_share_memory(value, a) for a in arrays):
            setattr(context, name, value.copy())
    call.nbytes = sum(getattr(item, "nbytes", 0) for item in (*vars(context).values(), *(t for _, t in saved)))
    return context


class Function:
    """Base class for primitives with ``forward`` and ``backward``, like ``torch.autograd.Function``.

    Static methods to define:

    ``forward(ctx, *args)``
        Computes the value from plain arrays and floats; returns several results as a tuple.  Or
        define ``forward(*args)`` together with ``setup_context(ctx, inputs, output)``.
    ``backward(ctx, *gradients)``
        Returns one gradient per argument of ``apply`` (None where there is none), given
        one per result.
    ``jvp(ctx, *tangents)``
        Returns the tangent of the result, given one per argument (None: zero).  Optional: it is made from
        ``backward`` by transposition if that is written in NumPy, and the
        other way round.

    Call it with ``apply(*args)``.

    Raises
    ------
    MissingRuleError, RuleError
        From ``backward()``: see `tapegrad.primitive`.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> class Exp(tg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = np.exp(x)
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (result,) = ctx.saved_tensors
    ...         return g * result
    >>> x = tg.tensor(0.0, requires_grad=True)
    >>> y = Exp.apply(x)
    >>> y.backward()
    >>> x.grad
    tensor(1.)
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        """To be written."""
        raise MissingRuleError("a Function needs a static method forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx: Context, inputs: Any, output: Any) -> None:
        """To be written where ``forward`` takes no context."""

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        """To be written."""

    @staticmethod
    def jvp(ctx: Context, *tangents: Any) -> Any:
        """May be written."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run ``forward`` and record one instruction."""
        primitive = cls.__dict__.get("_primitive")
        if primitive is None:
            primitive = cls._primitive = FunctionPrimitive(cls)  # type: ignore[attr-defined]
        return primitive(*args)
