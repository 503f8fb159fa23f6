"""What a recording knows of one call of a user's primitive: its rules as tapes of their own.

The value of such a call is recorded through (`program.trace.Trace.through`): instructions like any other, through which no
derivative passes, for the derivative is that of the rules.  These are functions, too: of the adjoint of the result (or of tangents of
the operands), the operands and the result.  A `Rules` runs one on live tensors when a derivative is first written as a tape
(`kernel.derivation`), at the values of the recorded call, and keeps what that gives, a finished tape, which
is written in where the derivative is wanted; its guards become guards there.

A rule of which that cannot be said in instructions is Python code that is called, and says so (`Rules.why`).
"""

from __future__ import annotations

import numpy as np

from ..array.record import normalise
from ..array.tensor import Tensor
from ..autograd.custom.calls import Fixed, packed
from ..autograd.recording import refuse_outer
from ..autograd.tape import Tape
from ..common.errors import said_by
from ..tape.meta import meta_of
from ..tape.modes import enable_grad
from .finish import finish
from .trace import Trace, not_in_instructions


class Rules:
    """The rules of one call, as functions of arrays and as tapes.

    Parameters
    ----------
    primitive : Primitive
    call : Call
    values : list
        Of the operands and the result, where it was recorded.
    captured : dict of int to ndarray
        As of `Trace`.
    """

    @classmethod
    def of(cls, entry):
        """Those of the call that an entry of a tape is, made once."""
        call = dict(entry.attrs)["call"]
        if call.rules is None:
            call.rules = cls(entry.function.primitive, call, *call.recorded)
        return call.rules

    def __init__(self, primitive, call, values, captured):
        self.primitive, self.call, self.values, self.captured = primitive, call, values, captured
        self.metas = [None, *map(meta_of, values)]
        self._tapes = {}

    def pulled(self, wanted, recorded=True):
        """The function of ``(g, *operands, result)`` that gives what is added to the adjoints of the operands `wanted`."""

        def vjp(g, *values):
            *operands, result = values
            parts = self.primitive.pull(g, [self.call, *operands], result, wanted, self.metas, recorded)
            return [parts.get(k) for k in wanted]

        return vjp

    def pushed(self, varied):
        """The function of ``(*tangents, *operands, result)`` that gives the tangent of the result, for tangents of the operands `varied`."""

        def jvp(*values):
            call, tangents, (*operands, result) = self.call, dict(zip(varied, values)), values[len(varied) :]
            along = [None if type(t) is Fixed else tangents.get(t) for t in call.template]
            parts = self.primitive.push(call, call.arguments([call, *operands]), along, result)
            parts = [np.zeros(o.shape, o.dtype) if t is None else t for t, o in zip(parts, call.outputs)]
            return [packed(parts) if call.several else parts[0]]

        return jvp

    def tape(self, forward, slots):
        """The finished tape of one of these, or why there is none; made once."""
        # The operand that is the value has no part in it.
        key = forward, tuple(k for k in slots if k <= self.call.count)
        if key not in self._tapes:
            self._tapes[key] = self._recorded(*key)
        return self._tapes[key]

    def called(self, forward, slots):
        """The same as a function in Python that gives one vector of float64 numbers, and the descriptions of its parts."""
        function, metas = (self.pushed(slots), [self.metas[-1]]) if forward else (self.pulled(slots, False), [self.metas[k] for k in slots])

        def rule(*values):
            parts = zip(function(*values), metas)
            return np.concatenate([np.zeros(m.size) if p is None else np.ravel(p) for p, m in parts], dtype=float)

        rule.__name__ = self.primitive._rule_name("jvp" if forward else "vjp")
        return rule, metas

    def value(self, *operands):
        """The value by a call of the function."""
        return self.primitive.again(self.call, operands, [True] * len(operands))[0]

    def _recorded(self, forward, slots):
        rng = np.random.default_rng(0)
        seeds = [self.metas[k] for k in slots] if forward else [self.metas[-1]]
        values = [*(normalise(np.array(rng.standard_normal(m.shape), m.char)) for m in seeds), *self.values]
        live, at_once = (self.pushed(slots),) * 2 if forward else (self.pulled(slots), self.pulled(slots, False))
        try:
            with enable_grad(), Tape() as tape:
                trace = Trace(tape.store, self.captured)
                trace.keeping = 1
                results = live(*map(trace.enter, values))
            refuse_outer(tape.store)
            why = trace.cannot or not_in_instructions(trace.entries.items(), results, at_once(*values))
            if why or trace.captured_leaves():
                return why or "it uses a tensor that requires a gradient, and is no argument"
            return finish(trace, [r if r is None or isinstance(r, Tensor) else normalise(np.array(r)) for r in results], [False] * len(values))
        except Exception as error:
            return f"{type(error).__name__}: {said_by(error)}"
