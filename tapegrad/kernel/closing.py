"""From what a `Writer` holds to a `FinishedTape`: shared, folded, without dead entries, numbered anew.

The instructions of the forward tape all stay, for its outputs and guards need them; where its outputs are not asked for
(`Writer.again`), those that the guards need.  Of what was written behind them
``1.0 * a`` is `a`, ``2.0 * 3.0`` is the constant 6.0, and the same operation on the same operands is made once.

The last step of `kernel.adjoint` and `kernel.tangents`.
"""

import numpy as np

from ..program.finish import FinishedTape, Item, ReplayGuard
from ..program.trace import GUARD
from ..rules import BY_NAME, ROWS
from ..tape.layout import ARRAY_LEAF, CONTINUES, FIRST_ARRAY, SCALAR_LEAF
from ..tape.meta import SCALAR
from ..tape.store import RECORD_DTYPE
from . import expand as T

_ARITHMETIC = np.array([BY_NAME[name].opcode for name in ("add", "subtract", "multiply", "negative", "absolute_product")])


def close(writer, results):
    """Finish what was written.

    Parameters
    ----------
    writer : Writer
    results : list of (int, object)
        Slot and description of each result beyond the tape's own, or 0 and the constant itself.

    Returns
    -------
    FinishedTape
    """
    return _Closing(writer, results).run()


class _Closing:
    def __init__(self, writer, results):
        self.writer, self.tape, self.results = writer, writer.tape, results
        self.leaves = [slot for whole, _, parts in writer.inputs for slot in ([whole] if whole else []) + [s for _, s in parts]]
        self.count = count = writer.count
        self.ops, self.lefts, self.rights, self.constants = (
            np.ascontiguousarray(c[:count]) for c in (writer.ops, writer.lefts, writer.rights, writer.constants)
        )
        self.items, self.guards = [*self.tape.items, *writer.entries], [*self.tape.guards, *writer.guards]

    def run(self):
        self._number_values()
        self.results = [self._resolved(slot, what) for slot, what in self.results]
        needed = self._needed()
        return self._build(*self._number(needed))

    def _number_values(self):
        """Fold constants, share what is the same; ``alias[i]`` stands for slot i."""
        tape, first = self.tape, self.writer.first
        self.fixed = fixed = (self.ops == SCALAR_LEAF).astype(np.int8)
        # Leaves that are arguments are no constants.
        fixed[[slot for _, _, slot in tape.elements]] = 0
        fixed[self.leaves] = 0
        constant = np.flatnonzero(fixed[:first])
        self.constants[constant] = tape.records["value"][constant]
        self.alias = np.zeros(self.count, np.int32)
        origins = self.writer.origins[: self.count]
        latest = origins if self.writer.interleaved else np.full_like(origins, first)
        bits = self.constants.view(np.int64)
        T.number_values(
            first, self.count, self.ops, self.lefts, self.rights, self.constants, bits, fixed, self.alias, _ARITHMETIC, latest,
            np.zeros(1 << (2 * self.count).bit_length(), np.int32),
        )

    def _resolved(self, slot, what):
        """A result by the slot that stands for it, or as the constant it has turned out to be."""
        slot = int(self.alias[slot]) if slot else 0
        return (0, float(self.constants[slot])) if slot and self.fixed[slot] else (slot, what)

    def _needed(self):
        first, count = self.writer.first, self.count
        tape, again = self.tape, self.writer.again
        needed = np.zeros(count, np.int8)
        needed[:first] = not again
        needed[self.leaves + tape.leaves + [slot for _, _, slot in tape.elements]] = 1
        needed[[slot for item in self.items if item.entry.kind == GUARD for slot in (item.slot, *item.operands) if slot > 0]] = 1
        needed[[guard.slot for guard in self.guards]] = 1
        needed[[slot for slot, _ in self.results]] = 1
        starts, operands, item_of = columns_of(self.items, count)
        operands = _slots_by(self.alias, operands)
        self.starts, self.operands = starts, operands
        T.sweep_needed(1 if again else first, count, self.ops, self.lefts, self.rights, starts, operands, item_of, needed)
        for slot in np.flatnonzero(self.ops == CONTINUES)[::-1].tolist():
            needed[slot] = needed[slot + 1]
        return needed

    def _number(self, needed):
        """Old slots in the new order, and the new number of each."""
        kept = np.flatnonzero(needed)
        rank = np.where(kept == 0, 0, np.where(self.ops[kept] == SCALAR_LEAF, 1, np.where(self.ops[kept] == ARRAY_LEAF, 2, 3)))
        order = kept[np.lexsort((self.writer.origins[kept], rank)) if self.writer.interleaved else np.argsort(rank, kind="stable")]
        new = np.zeros(self.count, np.int32)
        new[order] = np.arange(len(order))
        return order, new

    def _build(self, order, new):
        writer, tape, first = self.writer, self.tape, self.writer.first
        source = writer.origins[: self.count][order]
        records = np.zeros(len(order), RECORD_DTYPE)
        records["op"], records["constant"] = self.ops[order], self.constants[order]
        scalar = (records["op"] > SCALAR_LEAF) & (records["op"] < FIRST_ARRAY)
        records["a"], records["b"] = new[self.lefts[order]] * scalar, new[self.rights[order]] * scalar
        records["offset"] = tape.records["offset"][source]
        made = order >= first
        records["value"][~made] = tape.records["value"][order[~made]]
        fixed = self.fixed[order] == 1
        records["value"][fixed] = self.constants[order][fixed]
        records["constant"][fixed] = 0.0
        special = {row.opcode for row in ROWS if row.calls_scipy}
        present = np.flatnonzero(np.bincount(records["op"][scalar])).tolist()

        def number(slot):
            return int(new[slot])

        metas = [SCALAR] * len(order)
        metas[0] = None
        arrays = np.flatnonzero((self.ops >= FIRST_ARRAY) & (new > 0))
        for slot, at in zip(arrays.tolist(), new[arrays].tolist()):
            metas[at] = writer.meta(slot)
        operands = _slots_by(new, self.operands).tolist()
        starts = self.starts.tolist()
        items = [
            Item(number(item.slot), item.entry, tuple(operands[low:high]), item.number)
            for item, low, high in zip(self.items, starts, starts[1:]) if new[item.slot]
        ]
        items.sort(key=lambda item: item.slot)
        asked = self.results if writer.again else (*tape.outputs, *self.results)
        outputs = [(number(slot), what) if slot else (0, what) for slot, what in asked]
        leaves = [number(slot) if slot else 0 for slot in tape.leaves]
        elements = list(tape.elements)
        for k, (whole, _, parts) in enumerate(writer.inputs, len(tape.inputs)):
            leaves.append(number(whole))
            elements += [(k, position, slot) for position, slot in parts]
        at = new[[slot for _, _, slot in elements]].tolist() if elements else ()
        elements = [(k, position, slot) for (k, position, _), slot in zip(elements, at)]
        origins = np.asarray(tape.origins)[source]
        return FinishedTape(
            records=records, inputs=[*tape.inputs, *(meta for _, meta, _ in writer.inputs)], leaves=leaves, elements=elements,
            items=items, constants=writer.values,
            guards=[ReplayGuard(number(self.alias[g.slot]), g.how, g.seen, g.place) for g in self.guards],
            outputs=outputs, metas=metas, origins=origins, code_runs=list(tape.code_runs),
            special=tape.special or not special.isdisjoint(present), wanted=(*tape.wanted, *[False] * len(writer.inputs)),
            structure=tape.structure, forward_only=not writer.again,
        )


def _slots_by(table, operands):
    """Operands that are slots by a table of new ones; those below 0 are constants, of which there may be more than slots."""
    return np.where(operands > 0, table[np.maximum(operands, 0)], operands)


def columns_of(items, count):
    """Operands of items in columns: where those of each start, they, and the number of the item of each slot."""
    starts = np.zeros(len(items) + 1, np.int64)
    starts[1:] = np.cumsum([len(item.operands) for item in items])
    operands = np.fromiter((o for item in items for o in item.operands), np.int32, int(starts[-1]))
    item_of = np.full(count, -1, np.int32)
    item_of[[item.slot for item in items]] = np.arange(len(items))
    return starts, operands, item_of
