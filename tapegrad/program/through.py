"""What a recording knows of one call of a user's primitive: its rules as tapes of their own.

The value of such a call is recorded through (`program.trace.Trace.through`): instructions like any other, through which no
derivative passes, for the derivative is that of the rules.  These are functions, too: of the adjoint of the result (or of tangents of
the operands), the operands and the result.  A `Rules` runs one on live tensors when a derivative is first written as a tape
(`kernel.adjoint`), at the values of the recorded call, and keeps what that gives, a finished tape, which
is written in where the derivative is wanted; its guards become guards there.

A rule of which that cannot be said in instructions is called: as machine code if it is that (`program.machine`), else in Python, and says so
(`Rules.in_python`).
"""

import numpy as np

from ..array.record import normalise
from ..array.tensor import Tensor
from ..autograd.custom.calls import Fixed, packed
from ..autograd.recording import refuse_outer
from ..autograd.tape import Tape
from ..common.errors import reason, require
from ..common.exact import exact
from ..tape.layout import meta_of
from ..tape.modes import enable_grad
from .finish import finish
from .machine import MachineCall, is_machine_code
from .trace import ROW, Trace, not_in_instructions


class Rules:
    """The rules of one call, as functions of arrays and as tapes.

    Parameters
    ----------
    primitive : Primitive
    call : Call
    values : list
        Of the operands and the result, where it was recorded.
    captured, shared : dict
        As of `Trace`.
    """

    @classmethod
    def of(cls, entry):
        """Those of the call that an entry of a tape is, made once."""
        call = dict(entry.attrs)["call"]
        if call.rules is None:
            call.rules = cls(entry.function.primitive, call, *call.recorded)
        return call.rules

    def __init__(self, primitive, call, values, captured, shared):
        self.primitive, self.call, self.values, self.captured, self.shared = primitive, call, values, captured, shared
        self.metas = [None, *map(meta_of, values)]
        self._tapes, self._machines = {}, {}

    def tape(self, forward, slots):
        """The finished tape of a rule, or why there is none; made once.

        Of the VJP a tape of ``(g, *operands, result)`` that gives what is added to the adjoints of the operands `slots`; of the JVP
        (`forward`) one of ``(*tangents, *operands, result)``, for tangents of these operands, that gives the tangent of the result.
        """
        if (forward, slots) not in self._tapes:
            call, tape = self.call, None
            if call.context is None:
                static = exact((tuple(t.value if type(t) is Fixed else Ellipsis for t in call.template), *call.static.items()))
                key = self.primitive, forward, slots, tuple(self.metas), call.form, static
                tape = self.shared.get(key)
            tape = self._recorded(forward, slots) if tape is None else tape
            if call.context is None and not isinstance(tape, str) and not tape.guards:
                # Without decisions it is the same at other points.
                self.shared[key] = tape
            self._tapes[forward, slots] = tape
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

        rule.__name__, rule.machine = f"{self.named(forward)} in Python", lambda: self._machine(forward, slots)
        return rule, metas

    @classmethod
    def attach(cls, tape):
        """Make the rules of all calls in a tape, for walks over it; returns them, each with the slot."""
        return [(cls.of(i.entry), i.slot) for i in tape.items if i.entry.kind == ROW and i.entry.function.primitive is not None]

    @classmethod
    def in_python(cls, tape):
        """What of the calls in a tape Python is called for, and why; as far as it was asked for: a line each."""
        lines = []
        for rules, slot in cls.attach(tape):
            reasons = {(None, ()): rules.call.why, **rules._tapes}
            reasons = [(key[0], why) for key, why in reasons.items() if isinstance(why, str) and why and not rules._machines.get(key)]
            lines += [f"{rules.named(forward)} at {tape.place(slot)}: {why}" for forward, why in reasons]
        return lines

    @classmethod
    def closed(cls, tape, seen=()):
        """Whether the rules of all calls in a tape are tapes without decisions, and so on for what is called there."""
        attached = cls.attach(tape)
        if any(rules.primitive.closed for rules, _ in attached):
            # To record rules of rules is to find that out late, or never: those of sums over data make passes, with sums inside of these, and
            # that of a linear system without a matrix solves another one.
            return False
        for rules, _ in attached:
            slots = tuple(k for k, m in enumerate(rules.metas) if 0 < k <= rules.call.count and m.char in "df")
            parts = [rules.tape(forward, slots) for forward in (False, True) if rules.primitive not in seen]
            if any(isinstance(part, str) or part.guards or not cls.closed(part, (*seen, rules.primitive)) for part in parts):
                return False
        return True

    def named(self, forward):
        """The rule in words; None is the function."""
        return self.primitive.name if forward is None else self.primitive.rule_name("jvp" if forward else "vjp")

    def computed(self):
        """The function in Python that gives the value, of operands."""

        def value(*operands):
            return self.primitive.again(self.call, operands, [True] * len(operands))[0]

        value.__name__, value.machine = self.primitive.name, lambda: self._machine(None, ())
        return value

    def _machine(self, forward, slots):
        """The call of a rule (of the function: None) from machine code, or None: it is not machine code itself, or Numba cannot call it so."""
        call, primitive, metas = self.call, self.primitive, self.metas
        function = primitive.function if forward is None else primitive.rules.get("jvp" if forward else "vjp")
        if call.several or call.form or not is_machine_code(function):
            return None
        seeds = [] if forward is None else [metas[k] for k in slots] if forward else [metas[-1]]
        operands, scope = [*seeds, *metas[1:]], {f"c{j}": t.value for j, t in enumerate(call.template) if type(t) is Fixed}
        arguments = [f"c{j}" if type(t) is Fixed else f"{{{len(seeds) - 1 + t}}}" for j, t in enumerate(call.template)]
        texts, dtype, ways = [f"{{{len(operands) - 1}}}", *arguments], np.dtype(float), [[("r", metas[-1])]]
        if forward is None:
            texts, operands, dtype = arguments, operands[:-1], metas[-1].dtype
        elif forward:
            along = [f"{{{slots.index(t)}}}" if t in slots else f"0.0 * {a}" if _is_float(metas, t) else "None" for t, a in zip(call.template, arguments)]
            texts.insert(0, f"({', '.join(along)},)")
        else:
            given = self._run(False, slots, call, self._sample(False, slots), False)
            zeros = [f"np.zeros({metas[k].shape})" if metas[k].shape else "0.0" for k in slots]
            each = [zero if part is None else f"r[{call.template.index(k)}]" for k, part, zero in zip(slots, given, zeros)]
            texts.insert(0, "{0}")
            ways = [list(zip(names, map(metas.__getitem__, slots))) for names in (each, *[["r"]] * (len(call.template) == 1))]
        scope.update((f"k_{key}", value) for key, value in call.static.items())
        if not all(value is None or isinstance(value, (int, float, str)) for value in scope.values()):
            # What may change would be a constant of the machine code.
            return None
        texts += [f"{key}=k_{key}" for key in call.static]
        made = (MachineCall(function, self.named(forward), operands, ", ".join(texts), parts, dtype, scope) for parts in ways)
        made = self._machines[forward, slots] = next((one for one in made if one.loop is not None), None)
        return made

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

    def _sample(self, forward, slots):
        """Values of seeds, operands and result at the recorded call."""
        rng, seeds = np.random.default_rng(0), [self.metas[k] for k in slots] if forward else [self.metas[-1]]
        return [*(normalise(np.array(rng.standard_normal(m.shape), m.char)) for m in seeds), *self.values]

    def _recorded(self, forward, slots):
        call, values = self.call, self._sample(forward, slots)
        try:
            expected = self._run(forward, slots, call, values, False)
        except Exception as error:
            return Uncallable(reason(error))
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
            # It is differentiated where it is written in.
            return finish(trace, [r if r is None or isinstance(r, Tensor) else normalise(np.array(r)) for r in results], [True] * len(values))
        except Exception as error:
            return reason(error)


def _is_float(metas, slot):
    return type(slot) is not Fixed and metas[slot].char in "df"


class Uncallable(str):
    """Why there is no rule at all: it is missing, or raises."""
