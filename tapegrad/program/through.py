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
from ..common.errors import require, said_by
from ..tape.meta import meta_of
from ..tape.modes import enable_grad
from .finish import finish
from .trace import ROW, Trace, not_in_instructions


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

    def tape(self, forward, slots):
        """The finished tape of a rule, or why there is none; made once.

        Of the VJP a tape of ``(g, *operands, result)`` that gives what is added to the adjoints of the operands `slots`; of the JVP
        (`forward`) one of ``(*tangents, *operands, result)``, for tangents of these operands, that gives the tangent of the result.
        """
        if (forward, slots) not in self._tapes:
            self._tapes[forward, slots] = self._recorded(forward, slots)
        return self._tapes[forward, slots]

    def called(self, forward, slots):
        """The rule as a function in Python that gives one vector of float64 numbers; and the descriptions of its parts."""
        metas = [self.metas[-1]] if forward else [self.metas[k] for k in slots]

        def rule(*values):
            call, count = self.call, self.call.count
            if self.primitive.kept(call):
                # What the function leaves behind at these operands.
                value, call = self.primitive.again(call, values[-1 - count : -1], [True] * count)
                require(value.tobytes() == np.asarray(values[-1]).tobytes(), "the function gives another value now")
            parts = zip(self._run(forward, slots, call, values, False), metas)
            return np.concatenate([np.zeros(m.size) if p is None else np.ravel(p) for p, m in parts], dtype=float)

        rule.__name__ = f"{self.named(forward)} in Python"
        return rule, metas

    @classmethod
    def in_python(cls, tape):
        """What of the calls in a tape Python is called for, and why; as far as it was asked for: a line each."""
        lines = []
        for item in tape.items:
            if item.entry.kind == ROW and item.entry.function.primitive is not None:
                rules = cls.of(item.entry)
                reasons = [(rules.primitive.name, rules.call.why)] if rules.call.why else []
                reasons += [(rules.named(forward), why) for (forward, _), why in rules._tapes.items() if isinstance(why, str)]
                lines += [f"{name} at {tape.place(item.slot)}: {why}" for name, why in reasons]
        return lines

    @classmethod
    def closed(cls, tape, seen=()):
        """Whether the rules of all calls in a tape are tapes without decisions, and so on for what is called there."""
        for item in tape.items:
            if item.entry.kind == ROW and item.entry.function.primitive is not None and item.entry.function not in seen:
                rules = cls.of(item.entry)
                slots = tuple(k for k, m in enumerate(rules.metas) if 0 < k <= rules.call.count and m.char in "df")
                for forward in (False, True):
                    part = rules.tape(forward, slots)
                    if isinstance(part, str) or part.guards or not cls.closed(part, (*seen, item.entry.function)):
                        return False
        return True

    def named(self, forward):
        """The rule in words."""
        return self.primitive.rule_name("jvp" if forward else "vjp")

    def computed(self):
        """The function in Python that gives the value, of operands."""

        def value(*operands):
            return self.primitive.again(self.call, operands, [True] * len(operands))[0]

        value.__name__ = self.primitive.name
        return value

    def _run(self, forward, slots, call, values, recorded=True):
        """What the rule gives, in a list."""
        seeds, operands, result = values[: -1 - call.count], [call, *values[-1 - call.count : -1]], values[-1]
        if not forward:
            contributions = self.primitive.pull(*seeds, operands, result, slots, self.metas, recorded)
            return [contributions.get(k) for k in slots]
        tangents = dict(zip(slots, seeds))
        along = [None if type(t) is Fixed else tangents.get(t) for t in call.template]
        parts = self.primitive.push(call, call.arguments(operands), along, result)
        parts = [np.zeros(o.shape, o.dtype) if t is None else t for t, o in zip(parts, call.outputs)]
        return [packed(parts) if call.several else parts[0]]

    def _recorded(self, forward, slots):
        rng, call = np.random.default_rng(0), self.call
        seeds = [self.metas[k] for k in slots] if forward else [self.metas[-1]]
        values = [*(normalise(np.array(rng.standard_normal(m.shape), m.char)) for m in seeds), *self.values]
        try:
            expected = self._run(forward, slots, call, values, False)
        except Exception as error:
            return Uncallable(_said(error))
        if self.primitive.kept(call):
            return self.primitive.kept(call)
        try:
            with enable_grad(), Tape() as tape:
                trace = Trace(tape.store, self.captured)
                trace.keeping = 1
                results = self._run(forward, slots, call, [*map(trace.enter, values)])
            refuse_outer(tape.store)
            why = trace.cannot or not_in_instructions(trace.entries, results, expected)
            if why or trace.captured_leaves():
                return why or "it uses a tensor that requires a gradient, and is no argument"
            return finish(trace, [r if r is None or isinstance(r, Tensor) else normalise(np.array(r)) for r in results], [False] * len(values))
        except Exception as error:
            return _said(error)


class Uncallable(str):
    """Why there is no rule at all: it is missing, or raises."""


def _said(error):
    return f"{type(error).__name__}: {said_by(error)}"
