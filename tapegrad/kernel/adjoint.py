"""Derivatives of a tape as a tape: values first, then gradients, or tangents.

Of an adjoint the forward instructions stay as they are.  From the last to the first, each whose
result has an adjoint gives instructions that add to the adjoints of its operands:

* a run of scalar instructions by templates, in compiled code (`kernel.templates`): nothing here takes Python time for each of them;
* an entry by its row's rule, on symbolic values (`kernel.terms`).

An adjoint that nothing contributes to is never made.  What is added to one element or
window of an array's adjoint is an instruction of its own (`add_window`, `add_at`), for which
a replay needs no copy, so that a loop over elements costs as much as it has elements.

For tangents, each instruction is followed by its tangents.  What does not depend on a tangent (a partial derivative) is computed once for
all lanes.  Tangents that are always zero are never made.

`Derivation` is what both have in common: runs of scalar instructions, calls of rules, rows of lanes.

`product` writes the Jacobian of a tape as a tape: the product of the derivatives of both sides of a cut (`program.choosing`).  The
adjoints of the cut go down from it, the tangents up, both with a lane for each of its numbers.
"""

import math

import numpy as np

from ..array.functions.shapes import JOIN
from ..common.waiting import give_way
from ..interpreter.rule_array import accumulated
from ..program.ports import inputs_of, outputs_of
from ..program.through import Rules, Uncallable
from ..rules import BY_NAME
from ..tape.layout import SCALAR, c_strides, laid_out
from .reasons import NotLowered
from .templates import TemplatePlan, derive
from .terms import Term
from .writing import CONCATENATE, STACK, Writer, close, with_flat_stacks

_SUMS = [BY_NAME[name].opcode for name in ("add", "subtract", "negative")]


def adjoint(tape, lanes=None, again=False, absolute=False):
    """The tape of the outputs of `tape` and of its gradients.

    Parameters
    ----------
    tape : FinishedTape
    lanes : int, optional
        How many adjoints at a time.  Those of the outputs are further arguments then, *seeds*, one for each output that
        depends differentiably on a wanted argument; seeds and gradients have a first axis for the lanes, and what does
        not depend on the seeds is computed once.  Without, all seeds are one.
    again : bool
        Whether the result will be differentiated again: then zero is absolute in its products, and the gradients are its only outputs.
    absolute : bool
        Whether zero is absolute in its products in any case.

    Returns
    -------
    FinishedTape
        Arguments as `tape`, then the seeds.  Outputs as `tape`, then the gradient of each
        wanted argument, in order; one that is always zero is a constant.

    Raises
    ------
    NotLowered
        If a derivative is computed by Python (custom primitives), or has no row.
    """
    tape = with_flat_stacks(tape)
    return Adjoint(tape, lanes, Writer(tape, again=again, absolute=absolute)).run()


def gradient(tape):
    """The gradient of a tape as a tape that is differentiated again.

    Parameters
    ----------
    tape : FinishedTape

    Returns
    -------
    FinishedTape
        With the arguments and guards of `tape`.  Outputs are the gradients of the wanted arguments, in order, which are
        wanted here, too.

    Raises
    ------
    NotLowered
        As of `adjoint`.
    """
    return Adjoint(tape, None, Writer(tape, again=True)).run()


def tangents(tape, lanes=1, again=False, absolute=False):
    """The tape of the outputs of `tape` and of their tangents.

    Parameters
    ----------
    tape : FinishedTape
    lanes : int
        How many tangents at a time.
    again : bool
        Whether the result will be differentiated again: then zero is absolute in its products.
    absolute : bool
        Whether it is in any case.

    Returns
    -------
    FinishedTape
        Arguments as `tape`, then for each wanted argument its tangents, with the lanes as
        first axis.  Outputs as `tape`, then for each of them its tangents, with the lanes as
        first axis; those that are always zero are a constant.

    Raises
    ------
    NotLowered
        If a derivative is computed by Python (custom primitives), or has no row.
    """
    tape = with_flat_stacks(tape)
    return Tangents(tape, lanes, Writer(tape, interleaved=True, again=again, absolute=absolute)).run()


class Derivation:
    """A walk over `tape` that writes derivative instructions.

    Parameters
    ----------
    tape : FinishedTape
    forward : bool
        Whether tangents are written, not adjoints.
    lanes : int or None
        How many at a time.
    writer : Writer
        Which it may share with another walk.

    Attributes
    ----------
    word : ndarray
        Slots of the adjoints or tangents (a row for each lane) of scalars, 0 where there is none.
    """

    def __init__(self, tape, forward, lanes, writer):
        self.tape, self.forward, self.lanes, self.writer = tape, forward, lanes, writer
        self.word = np.zeros((lanes, len(tape.records)) if forward else len(tape.records), np.int64)
        self.plan = TemplatePlan(tape, forward, self.writer.absolute)

    def scalars(self, low, high):
        """The derivatives of the instructions from `low` to `high`, all of them scalar ones or leaves."""
        give_way()
        if low > high:
            return
        w, plan = self.writer, self.plan
        w.reserve(int(plan.room[high + 1] - plan.room[low]) * (self.lanes if self.forward else 1))
        w.count = derive(
            int(self.forward), low, high, *w.columns[:2], w.count, np.atleast_2d(self.word),
            plan.template, plan.pools, plan.pool, *plan.columns, *_SUMS,
        )

    def entered(self, port):
        """A further argument, with a value of a port for each lane: lane, slot, description and term of each piece of that."""
        writer, meta, shape = self.writer, port.meta, (self.lanes, *port.shape)
        whole = Term(writer, writer.argument(laid_out(shape, meta.char), any(m is not SCALAR for *_, m in port.pieces)), shape, meta.char)
        for lane in range(self.lanes):
            for position, _, slot, of_piece in port.pieces:
                at = lane * meta.size + position
                single = of_piece is SCALAR
                yield lane, slot, of_piece, Term(writer, writer.element(at), (), "d") if single else whole.strided(meta.shape, c_strides(meta.shape, 1), at)

    def term(self, word):
        """The term of a scalar's slot, None of 0."""
        return Term(self.writer, int(word), (), "d", self.writer.number_of(int(word))) if word else None

    def slot(self, term):
        """The slot of a scalar's term."""
        return self.writer.fixed(term.number) if term.number is not None and term.slot <= 0 else term.slot

    def walk(self, low, high):
        """The derivatives of all instructions from `low` to `high`: of runs of scalar ones, and by the rules of entries between them."""
        tape, writer, forward = self.tape, self.writer, self.forward
        for item in tape.items[:: 1 if forward else -1]:
            slot = item.slot
            if low <= slot <= high:
                self.scalars(*((low, slot - 1) if forward else (slot + 1, high)))
                low, high = (slot + 1, high) if forward else (low, slot - 1)
                if tape.active[slot]:
                    writer.origin = slot
                    try:
                        self.entry(item)
                    except NotLowered as reason:
                        raise NotLowered(f"{item.entry.function.name}: {reason.what}", tape.place(slot)) from None
        self.scalars(low, high)
        writer.origin = len(tape.records) - 1 if forward else 0

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


class Adjoint(Derivation):
    """The reverse pass."""

    def __init__(self, tape, lanes, writer):
        super().__init__(tape, False, lanes, writer)
        #: Adjoints of arrays.
        self.terms = {}

    def run(self):
        """The finished tape."""
        tape = self.tape
        roots = [port for port in outputs_of(tape) if port.slot]
        seeds = list(zip(*map(self._seeds, roots))) or [()] * (self.lanes or 1)
        return close(self.writer, self._pulled([(port.slot, port.meta) for port in roots], seeds, len(tape.records) - 1))

    def down(self, cut, seeds):
        """Slots and descriptions (or constants) of the adjoints of the arguments, from those of a cut; `seeds` of each lane, None for zero."""
        return self._pulled(cut.values, seeds, cut.position)

    def _pulled(self, roots, seeds, high):
        """The adjoints of the arguments from the `roots`, with their seeds of each lane, of which none is above `high`."""
        self.writer.reserve(int(self.plan.room[high + 1]) * len(seeds))
        gradients = []
        for of_lane in seeds:
            self.word[:], self.terms = 0, {}
            for (slot, meta), seed in zip(roots, of_lane):
                if seed is not None:
                    self._add(slot, meta, seed)
            self.walk(1, high)
            gradients.append(self._gradients())
        if self.lanes is None:
            return [self._result(*pair) for pair in gradients[0]]
        of_arguments = [([slot for slot, _ in lanes], lanes[0][1]) for lanes in zip(*gradients)]
        return [self.stacked(slots, meta.shape, meta.char) for slots, meta in of_arguments]

    def _seeds(self, port):
        """The seeds of an output, one for each lane."""
        writer, meta = self.writer, port.meta
        if self.lanes is None:
            return [Term(writer, writer.fixed(1.0), (), "d") if meta is SCALAR else Term(writer, 0, meta.shape, meta.char, 1.0)]
        # (Of one without elements there are none.)
        return [term for *_, term in self.entered(port)] or [None] * self.lanes

    # -- entries --------------------------------------------------------------------
    def entry(self, item):
        """Add what the adjoint of the result of an entry contributes to those of its operands."""
        tape, slot, operands = self.tape, item.slot, item.operands
        g = self.term(self.word[slot]) if tape.metas[slot] is SCALAR else self.terms.pop(slot, None)
        if g is None:
            return
        wanted = [k for k in item.entry.function.slots(len(operands)) if operands[k] > 0 and tape.active[operands[k]]]
        for k, contribution in self._contributions(item, g, wanted):
            for part in contribution if isinstance(contribution, tuple) else (contribution,):
                if part is not None:
                    self._add(operands[k], tape.metas[operands[k]], part)

    def _contributions(self, item, g, wanted):
        """Pairs of an operand and what is added to its adjoint."""
        writer, entry, row = self.writer, item.entry, item.entry.function
        if row is STACK and entry.attrs == (("axis", 0),) and len(entry.meta.shape) == 1:
            return [(k, g.strided((), (), k)) for k in wanted]
        if row.primitive is not None:
            return list(zip(wanted, self.custom(item, wanted, [g])))
        operands = [Term.of(writer, o) for o in item.operands]
        attrs = row.keywords(entry.attrs, entry.integer)
        contributions = row.contributions(g, operands, Term.of(writer, item.slot), wanted, attrs)
        return [(k, part) for k, part in zip(row.slots(len(item.operands)), contributions) if k in wanted]

    def _add(self, slot, meta, part):
        """Add a contribution to the adjoint of `slot`."""
        if meta is not SCALAR:
            self.terms[slot] = accumulated(self.terms.get(slot), part, meta)
            return
        term, word = self.slot(part.as_adjoint(meta)), int(self.word[slot])
        self.word[slot] = self.writer.scalar(BY_NAME["add"], word, term) if word else term

    # -- results ------------------------------------------------------------------------
    def _gradients(self):
        """The gradient of each wanted argument: a slot, or the negative number of a constant, or 0; and its description."""
        tape = self.tape
        elements = self._elements()
        gradients = []
        for k, meta in enumerate(tape.inputs):
            if not tape.wanted[k]:
                continue
            if meta is SCALAR:
                gradients.append((int(elements[k][1][0]) if k in elements else 0, SCALAR))
                continue
            whole = self.terms.get(tape.leaves[k]) if tape.leaves[k] else None
            if k in elements:
                single = self._collected(*elements[k], meta)
                whole = single if whole is None else whole + single
            gradients.append((whole.reference() if whole is not None else 0, meta))
        return gradients

    def _result(self, reference, meta):
        """A gradient as an output."""
        if meta is SCALAR:
            return (reference, SCALAR) if reference else (0, 0.0)
        if reference > 0:
            return reference, self.writer.meta(reference)
        return 0, np.array(self.writer.values[-1 - reference]) if reference else np.zeros(meta.shape, meta.char)

    def _elements(self):
        """Positions, ascending, and adjoints of the elements of each argument that have one."""
        elements = np.array(self.tape.elements, np.int64).reshape(-1, 3)
        elements = elements[np.lexsort((elements[:, 1], elements[:, 0]))]
        words = self.word[elements[:, 2]]
        elements, words = elements[words != 0], words[words != 0]
        arguments, starts = np.unique(elements[:, 0], return_index=True)
        parts = zip(np.split(elements[:, 1], starts[1:]), np.split(words, starts[1:]))
        return dict(zip(arguments.tolist(), parts))

    def _collected(self, positions, words, meta):
        """The gradient of an array from those of its elements."""
        writer = self.writer
        gradient = Term.of(writer, self._joined(words.tolist()))
        if len(words) == meta.size:
            return gradient.reshape(meta.shape)
        index = Term(writer, writer.values.add(np.ascontiguousarray(positions)), positions.shape, positions.dtype.char)
        return gradient.scattered(index, meta.shape)

    def _joined(self, slots):
        """The slot of an array of numbers; in a tape that will be swept, made by instructions of a few operands each."""
        row, most = STACK, JOIN if self.writer.again else len(slots)
        while row is STACK or len(slots) > 1:
            slots = [self.writer.entry(row, tuple(slots[k : k + most]), (("axis", 0),)) for k in range(0, len(slots), most)]
            row = CONCATENATE
        return slots[0]


class Tangents(Derivation):
    """The forward pass."""

    def __init__(self, tape, lanes, writer):
        super().__init__(tape, True, lanes, writer)
        #: Tangents of arrays.
        self.terms = [{} for _ in range(lanes)]

    def run(self):
        """The finished tape."""
        for port in inputs_of(self.tape):
            for piece in self.entered(port):
                self._set(*piece)
        pushed = self._pushed(1)
        return close(self.writer, [*self.tape.outputs, *pushed] if self.writer.again else pushed)

    def up(self, cut, seeds):
        """Slots and descriptions (or constants) of the tangents of the outputs, from those of a cut; `seeds` of each lane, None for zero."""
        for lane, of_lane in enumerate(seeds):
            for (slot, meta), seed in zip(cut.values, of_lane):
                if seed is not None:
                    self._set(lane, slot, meta, seed)
        return self._pushed(cut.position + 1)

    def _pushed(self, low):
        """The tangents of the outputs, by the instructions from `low` on."""
        self.writer.reserve(int(self.plan.room[-1]) * self.lanes)
        self.walk(low, len(self.tape.records) - 1)
        return [self._result(slot, meta) for slot, meta in self.tape.outputs]

    def _of(self, lane, slot):
        """The tangent of a slot, or None."""
        if slot < 0:
            return None
        return self.term(self.word[lane, slot]) if self.tape.metas[slot] is SCALAR else self.terms[lane].get(slot)

    def _set(self, lane, slot, meta, tangent):
        if meta is SCALAR:
            self.word[lane, slot] = self.slot(tangent)
        else:
            self.terms[lane][slot] = tangent

    def entry(self, item):
        """The tangents of the result of an entry."""
        writer, entry, row = self.writer, item.entry, item.entry.function
        slots = row.slots(len(item.operands))
        attrs = row.keywords(entry.attrs, entry.integer)
        flat = row is STACK and all(o < 0 or self.tape.metas[o] is SCALAR for o in item.operands)
        operands = () if flat or row.primitive is not None else [Term.of(writer, o) for o in item.operands]
        for lane in range(self.lanes):
            if flat:
                slot, _ = self.stacked([int(self.word[lane, o]) if o > 0 else 0 for o in item.operands], (), entry.meta.char)
                tangent = Term.of(writer, slot) if slot else None
            elif row.primitive is not None:
                of = {k: t for k in slots if (t := self._of(lane, item.operands[k])) is not None}
                (tangent,) = self.custom(item, list(of), of.values()) if of else (None,)
            else:
                tangents = [self._of(lane, item.operands[k]) for k in slots]
                tangent = row.tangent(tangents, operands, Term.of(writer, item.slot), attrs)
            if tangent is not None:
                self._set(lane, item.slot, entry.meta, tangent.as_tangent(entry.meta))

    def _result(self, slot, meta):
        """The tangents of one output, all lanes."""
        tangents = [self._of(lane, slot) if slot else None for lane in range(self.lanes)]
        shape, char = (meta.shape, meta.char) if slot else (np.shape(meta), "d")
        return self.stacked([0 if t is None else t.reference() for t in tangents], shape, char)


def product(tape, cut):
    """The tape of the outputs of `tape` and of its Jacobian.

    Parameters
    ----------
    tape : FinishedTape
    cut : Cut

    Returns
    -------
    FinishedTape
        Arguments as `tape`.  Outputs as `tape`, then for each wanted argument an array (elements of all outputs, its elements).

    Raises
    ------
    NotLowered
        If a derivative is computed by Python (custom primitives), or has no row.
    """
    writer, units, begin = Writer(tape), [], 0
    for _, meta in cut.values:
        units.append(_units(writer, meta, begin, cut.width))
        begin += meta.size
    units = list(zip(*units))
    rows = Adjoint(tape, cut.width, writer).down(cut, units)
    left = _columns(writer, Tangents(tape, cut.width, writer).up(cut, units), cut.width)
    wanted = [meta for meta, one in zip(tape.inputs, tape.wanted) if one]
    return close(writer, [_block(writer, left, slot, meta, cut.width) for (slot, _), meta in zip(rows, wanted)])


def _units(writer, meta, begin, lanes):
    """The seeds of one value of a cut in each lane, from its first one on: unit vectors, or None."""
    seeds = [None] * lanes
    for k, unit in enumerate(np.eye(meta.size, dtype=meta.char)):
        slot = writer.fixed(1.0) if meta.shape == () and meta.char == "d" else writer.values.add(unit.reshape(meta.shape))
        seeds[begin + k] = Term(writer, slot, meta.shape, meta.char)
    return seeds


def _columns(writer, results, lanes):
    """The tangents of all outputs beside each other, as a `Term` (elements, lanes)."""
    parts = []
    for slot, what in results:
        term = Term.of(writer, slot or writer.values.add(what))
        if term.size:
            parts.append(term.reshape((lanes, term.size // lanes)))
    if len(parts) > 1:
        chars = {part.char for part in parts}
        parts = [part.cast("d" if len(chars) > 1 else part.char) for part in parts]
        parts = [Term.of(writer, writer.entry(CONCATENATE, tuple([part.reference() for part in parts]), (("axis", 1),)))]
    return parts[0].transpose((1, 0))


def _block(writer, left, slot, meta, lanes):
    """Slot and description of the Jacobian by one argument, or a constant."""
    if not slot or not meta.size:
        return 0, np.zeros((left.shape[0], meta.size), meta.char)
    rows = Term.of(writer, slot).reshape((lanes, math.prod(meta.shape)))
    block = (left * rows if lanes == 1 else left @ rows).cast(meta.char)
    return block.reference(), writer.meta(block.reference())
