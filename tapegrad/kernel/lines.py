"""What the rule of an instruction on arrays does, as calls of rows, for derivatives that are recorded behind a tape (`kernel.behind`).

A rule is Python that asks for shapes and axes before it calls rows; for operands of the same descriptions it always calls the same ones.  So
it is run once for a signature, on terms (`kernel.terms`), which only write down what is called, and that is called again on the tensors that are there.
"""

import numpy as np

from ..array.record import record_aux
from ..array.recorded import Recorded, called, of_row, undifferentiated
from ..interpreter.rule_array import Scattered, Windowed
from ..program.trace import Constants
from ..rules import BY_NAME
from ..rules.table import Row, described
from ..tape.layout import SCALAR, laid_out, meta_of
from .reasons import NotLowered
from .terms import Term

_NEGATIVE = BY_NAME["negative"]
#: An instruction with so many offsets into an array is passed by its rule.
MOST_LINES = 64


class Lines:
    """What the rule of a signature does: a writer for its terms.

    A reference is the number of a value: operands from 1 on, the result, then seeds (the adjoint, or tangents), then what each call gives; those
    below 0 are constants.

    Parameters
    ----------
    signature : Signature
    wanted : tuple of int
        The operands whose adjoints are asked for, or that have tangents.
    forward : bool
    integer : int
        The dynamic attribute.

    Attributes
    ----------
    calls : list of tuple
        Number, row, or function without derivative, references, attributes, the integer attribute.
    parts : list of (int, int, bool, object)
        What is added: to which operand (of a tangent: -1), reference, whether it is taken off, and where it is a part, what makes that.
    read : set of int
        References to operands and result that are read.
    """

    again = absolute = True

    def __init__(self, signature, wanted, forward, integer):
        row, metas, out = signature.row, signature.metas, signature.out
        self.values, self.placed, self.calls, self.parts, self.known, self.positions = Constants(), {}, [], [], {}, set()
        self.metas = [None, *metas, out]
        if row.primitive is not None or any(m.char != "d" for k, m in enumerate((*metas, out)) if k not in row.constants):
            raise NotLowered("Python, or another dtype")
        attrs = row.keywords(signature.attrs, integer)
        operands, slots = [self._leaf(k, m) for k, m in enumerate(metas, 1)], signature.slots
        result = self._leaf(len(metas) + 1, out)
        seeds = [self._seed(metas[k]) if k in wanted else None for k in slots] if forward else self._seed(out)
        given = len(self.metas)
        if forward:
            tangent = row.tangent(seeds, operands, result, attrs)
            if tangent is not None:
                self._add(-1, tangent.as_tangent(out))
        else:
            for k, several in zip(slots, row.contributions(seeds, operands, result, wanted, attrs)):
                for part in several if isinstance(several, tuple) else (several,):
                    if k in wanted and part is not None:
                        self._add(k, part if isinstance(part, (Windowed, Scattered)) else part.as_adjoint(metas[k]))
        read = {k for _, k, *_ in self.parts} | self.positions
        for number, _, references, _, _ in self.calls[::-1]:
            read |= {*references} if number in read else set()
        self.calls = [call for call in self.calls if call[0] in read]
        self.read = {k for k in read if 0 < k <= len(metas) + 1}
        # What calls have not given yet, and the constants, from the end on.
        self.rest = [None] * (len(self.metas) - given) + self.values[::-1]
        del self.known, self.placed, self.positions

    def _leaf(self, number, meta):
        return Term(self, number, meta.shape, meta.char)

    def _seed(self, meta):
        self.metas.append(meta)
        return self._leaf(len(self.metas) - 1, meta)

    def _add(self, operand, part):
        whole = isinstance(part, Term)
        reference, less = (part if whole else part.source).reference(), False
        for number, row, references, _, _ in self.calls if whole and operand >= 0 else ():
            if number == reference and row is _NEGATIVE:
                reference, less = references[0], True
        self.parts.append((operand, reference, less, None if whole else self._made(part)))

    def _made(self, part):
        """What makes such a part of its source and of the values, with no terms, which hold their writer."""
        if isinstance(part, Windowed):
            window = part.shape, part.strides, part.offset
            return lambda source, values: Windowed(source, *window)
        shape, index = part.shape, part.index.reference()
        self.positions.add(index)
        return lambda source, values: Scattered(source, Recorded(values[index]), shape)

    # -- what a writer does for terms ---------------------------------------------
    def meta(self, reference):
        return meta_of(self.values[-1 - reference]) if reference < 0 else self.metas[reference]

    def fixed(self, number):
        return self.values.add(number)

    def scalar(self, row, left, right=0, constant=0.0):
        return self._call(row, tuple([k or self.values.add(constant) for k in (left, right)[: row.arity]]), (), 0, SCALAR)

    def entry(self, row, operands, attrs=(), integer=0, result=None):
        if row.raises:
            raise NotLowered(f"{row.name} raises")
        return self._call(row, operands, attrs, integer, laid_out(*(result or described(row, attrs, tuple(map(self.meta, operands)), integer))))

    def host(self, function, operands, shape, char):
        return self._call(function, operands, (), 0, laid_out(shape, char))

    def _call(self, *call):
        number = self.known.get(call)
        if number is None:
            number = self.known[call] = len(self.metas)
            self.calls.append((number, *call[:4]))
            self.metas.append(call[4])
        return number

    # -- called -------------------------------------------------------------------
    def __call__(self, values, of):
        """Call the rows on operands, result and seeds.

        Returns for each contribution: what is added to (a slot, `of` the operand), a description of that, a value or a part, whether it is taken off.
        """
        values += self.rest
        for number, row, references, attrs, integer in self.calls:
            operands = []
            for k in references:
                operands.append(values[k])
            if row.__class__ is not Row:
                values[number] = record_aux(row, *map(undifferentiated, operands))
            elif row.elementwise:
                values[number] = of_row(row, operands)
            else:
                values[number] = called(row, [np.asarray(v) if v.__class__ is float else v for v in operands], attrs, integer)
        parts = []
        for operand, reference, less, made in self.parts:
            value = values[reference]
            if made is not None:
                value = made(Recorded(value), values)
            parts.append((of.get(operand), self.metas[operand + 1], value, less))
        return parts


def lines_of(signature, *how):
    """The `Lines` of a signature, which keeps them; None if it has none, or others than the `MOST_LINES` that are kept."""
    known = signature.derived
    if how not in known:
        if len(known) == MOST_LINES:
            return None
        try:
            known[how] = Lines(signature, *how)
        except NotLowered:
            known[how] = None
    return known[how]
