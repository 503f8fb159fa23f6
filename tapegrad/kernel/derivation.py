"""What the adjoint and the tangents of a tape have in common: runs of scalar instructions, calls of rules, rows of lanes."""

import numpy as np

from ..common.waiting import give_way
from ..program.through import Rules, Uncallable
from ..rules import BY_NAME
from ..tape.meta import c_strides
from .expand import derive
from .reasons import NotLowered
from .templates import TemplatePlan
from .terms import Term
from .writing import STACK, Writer

_SUMS = [BY_NAME[name].opcode for name in ("add", "subtract", "negative")]


class Derivation:
    """A walk over `tape` that writes derivative instructions.

    Parameters
    ----------
    tape : FinishedTape
    forward : bool
        Whether tangents are written, not adjoints.
    lanes : int or None
        How many at a time.
    again : bool
        As of `Writer`.
    writer : Writer, optional
        Which it shares with another walk.

    Attributes
    ----------
    word : ndarray
        Slots of the adjoints or tangents (a row for each lane) of scalars, 0 where there is none.
    """

    def __init__(self, tape, forward, lanes, again=False, writer=None):
        self.tape, self.forward, self.lanes = tape, forward, lanes
        self.writer = writer or Writer(tape, interleaved=forward, again=again)
        self.word = np.zeros((lanes, len(tape.records)) if forward else len(tape.records), np.int64)
        self.plan = TemplatePlan(tape, self.writer, forward)

    def scalars(self, low, high):
        """The derivatives of the instructions from `low` to `high`, all of them scalar ones or leaves."""
        give_way()
        if low > high:
            return
        w, plan = self.writer, self.plan
        w.reserve(int(plan.room[high + 1] - plan.room[low]) * (self.lanes if self.forward else 1))
        w.count = derive(
            int(self.forward), low, high, w.ops, w.lefts, w.rights, w.constants, w.origins, w.count, np.atleast_2d(self.word),
            plan.template, plan.pools, plan.pool, plan.starts, plan.instructions, plan.literals, plan.ends, plan.contributions,
            *_SUMS,
        )

    def term(self, word):
        """The term of a scalar's slot, None of 0."""
        return Term(self.writer, int(word), (), "d", self.writer.number_of(int(word))) if word else None

    def slot(self, term):
        """The slot of a scalar's term."""
        return self.writer.fixed(term.number) if term.number is not None and term.slot <= 0 else term.slot

    def call(self, item, rule, *args):
        """Call a rule of the row of `item`, which writes for that."""
        row, place = item.entry.function, self.tape.place(item.slot)
        self.writer.origin = item.slot
        try:
            return rule(*args)
        except NotLowered as reason:
            raise NotLowered(f"{row.name}: {reason.what}", place) from None

    def custom(self, item, slots, seeds):
        """What a rule of a user's primitive gives from `seeds`, the adjoint of its result or tangents of the operands `slots`.

        It is written in where it is a tape.  Else Python is called for it, which gives first derivatives.
        """
        writer, rules, slots = self.writer, Rules.of(item.entry), tuple(slots)
        inputs = [*(seed.reference() for seed in seeds), *item.operands[1 : 1 + rules.call.count], item.slot]
        tape = rules.tape(self.forward, slots)
        if not isinstance(tape, str):
            written = writer.written(tape, inputs)
        elif writer.again or isinstance(tape, Uncallable):
            raise NotLowered(f"{rules.named(self.forward)} runs in Python, and gives first derivatives: {tape}")
        else:
            function, metas = rules.called(self.forward, slots)
            whole = Term.of(writer, writer.host(function, tuple(inputs), (sum(m.size for m in metas),), "d"))
            ends = np.cumsum([m.size for m in metas]).tolist()
            return [whole.strided(m.shape, c_strides(m.shape, 1), end - m.size) for m, end in zip(metas, ends)]
        return [None if reference is None else Term.of(writer, reference) for reference in written]

    def stacked(self, references, shape, char):
        """Slot and description of values of one shape below each other (a reference of 0 is zero), or a constant."""
        if not any(references):
            return 0, np.zeros((self.lanes, *shape), char)
        zero = Term(self.writer, 0, shape, char, 0.0)
        slot = self.writer.entry(STACK, tuple([reference or zero.reference() for reference in references]), (("axis", 0),))
        return slot, self.writer.meta(slot)
