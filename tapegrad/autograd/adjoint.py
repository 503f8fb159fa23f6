"""The sweeps with tensors, down and up: what they compute is recorded on the tape that is walked.

What the compiled sweep does with numbers is done here with the rules' language on
tensors (`tapegrad.interpreter.rule_array`), so each contribution to an adjoint is an instruction of
its own, with derivatives of its own.  The walk is a loop over slots, not a recursion,
and visits what lies between the roots and the wanted slots only.

An adjoint that is zero *as a number* is walked on: its derivative need not be zero
(the Hessian of ``(x - 1) ** 2`` at 1 is 2).  Only where nothing depends on the root at
all is there nothing to do.

Run over a stretch that holds a recorded gradient, the tangent sweep gives products with
the Hessian: forward mode over reverse mode.  Several directions are one walk, with a
leading axis (*lanes*) that the rules do not see.
"""

from contextlib import nullcontext

import numpy as np

from ..array.record import normalise
from ..array.recorded import Recorded, as_rule_takes, tangent_on_arrays
from ..common.errors import GradientError, HigherOrderError, ModifiedInPlaceError, NonFiniteError, TapegradError, noted, reason
from ..interpreter import rule_array
from ..interpreter.signature import Signature
from ..interpreter.walks import walks
from ..rules import BY_NAME, by_opcode
from ..tape.layout import ARRAY_RECORD, FIRST_ARRAY, SCALAR
from .reading import Instruction, Region, like

_SELECT = BY_NAME["select"]
#: In arrays of at most so many elements those that are read one by one are treated as any window.
FEW = 4


def between(stretch, roots, bottoms):
    """Slots on the way from `bottoms` up to `roots`, ascending.

    Parameters
    ----------
    stretch : Region
    roots, bottoms : collection of int

    Returns
    -------
    list of int
        What else lies on the tape, dead or alive, is not looked at.
    """
    if not bottoms:
        return []
    low, below = min(bottoms), {}
    waiting = [slot for slot in roots if slot >= low]
    while waiting:
        slot = waiting.pop()
        if slot not in below:
            below[slot] = operands = [o for o in stretch.operands(slot) if o >= low]
            waiting += operands
    reached = set(bottoms)
    for slot in sorted(below):
        if not reached.isdisjoint(below[slot]):
            reached.add(slot)
    return sorted(reached.intersection(below))


def pull(stretch, order, adjoints, lanes=None, visit=None, through=None):
    """Walk down, recording the adjoint.

    Parameters
    ----------
    stretch : Region
    order : list of int
        The slots to visit, ascending; adjoints of others are not computed.
    adjoints : dict of int to (float, ndarray, Tensor or Dual)
        The seeds by slot; at the end the adjoints of what was not passed through.
    lanes : int, optional
        The adjoints have one leading axis of this extent: several seeds at once.
    visit : callable, optional
        ``visit(slot, adjoint)`` sees each complete adjoint, and returns the one to go on with.
    through : dict of int to callable, optional
        ``through[slot](row, gradients, adjoint)`` sees what an instruction hands to its operands (None: constants), and
        returns what is handed on.
    """
    through = through or {}
    wanted, reads = set(order), {}
    with np.errstate(all="ignore"):
        for slot in reversed(order):
            g = adjoints.get(slot)
            if slot in reads:
                g = adjoints[slot] = elements_at(*reads.pop(slot), g, lanes)
            if g is None:
                continue
            if visit is not None:
                g = adjoints[slot] = visit(slot, g)
                if g is None:
                    del adjoints[slot]
                    continue
            read = stretch.read(slot)
            if read is None:
                continue
            del adjoints[slot]
            if slot not in through and read.row is _SELECT and read.slots and read.slots[0][1] in wanted and read.metas[0].size > FEW:
                reads.setdefault(read.slots[0][1], (read.metas[0], []))[1].append((read.integer, g))
                continue
            slots = dict(read.slots)
            with passing(stretch, slot, read):
                if slot in through:
                    parts = _seen(through[slot], stretch, slot, read, g, lanes)
                else:
                    parts = contributions(stretch, slot, read, g, lanes, [k for k, o in read.slots if o in wanted])
                for k, part in parts:
                    if slots[k] in wanted:
                        adjoints[slots[k]] = accumulated(adjoints.get(slots[k]), part, read.metas[k], lanes)


def _totals(stretch, slot, read, g, lanes=None):
    """What the adjoint `g` of an instruction adds to each of its operands; None for constants, and where the rule of a primitive gives nothing."""
    gradients, slots, front = {}, dict(read.slots), () if lanes is None else (lanes,)
    for k, part in contributions(stretch, slot, read, g, lanes, list(slots)):
        gradients[k] = accumulated(gradients.get(k), part, read.metas[k], lanes)
    if read.row.primitive is None:
        for k in slots.keys() - gradients.keys():
            gradients[k] = normalise(np.zeros((*front, *read.metas[k].shape), read.metas[k].char))
    return tuple([gradients.get(k) for k in read.row.slots(len(read.operands))])


def _seen(see, stretch, slot, read, g, lanes):
    """`contributions` to all operands, as `see` lets them pass."""
    handed = zip(read.row.slots(len(read.operands)), see(read.row, _totals(stretch, slot, read, g, lanes), g))
    return [(k, Recorded(value, lanes)) for k, value in handed if k in dict(read.slots) and value is not None]


def elements_at(meta, parts, adjoint, lanes=None):
    """The adjoint of an array, with the `adjoint` that it has already (or None), from what comes back to elements: pairs of a flat position and an adjoint.

    It is added all at once when a walk arrives at the array: a loop over n elements takes n instructions, not n additions of n elements.
    """
    positions, parts = zip(*parts)
    if len(parts) == 1:
        return accumulated(adjoint, Recorded(parts[0], lanes).place(meta.shape, (), positions[0]), meta, lanes)
    elements = Recorded(np.stack(parts if lanes is None else [np.broadcast_to(part, (lanes,)) for part in parts], axis=-1), lanes)
    return accumulated(adjoint, elements.scatter(Recorded(np.array(positions)), meta.shape), meta, lanes)


def contributions(stretch, slot, read, g, lanes, positions):
    """What the adjoint `g` of an instruction adds to the operands at `positions`: pairs of a position and a contribution; while `passing` it."""
    row = read.row
    if not positions:
        return []
    if row.primitive is not None:
        return (_of_primitive if stretch.plain else _of_primitive_recorded)(stretch, slot, read, g, lanes, positions)
    operands, result = operands_of(read)
    values = row.contributions(Recorded(g, lanes), operands, result, positions, read.attrs)
    parts = []
    for k, c in zip(row.slots(len(operands)), values):
        if c is not None and k in positions:
            parts += [(k, part) for part in (c if c.__class__ is tuple else (c,)) if part is not None]
    return parts


def pulled(store, slot, g):
    """What the adjoint `g` of an instruction, an array, adds to each of its operands, as arrays; None for constants."""
    stretch = Region(store, plain=True)
    read = stretch.read(slot)
    with np.errstate(all="ignore"), passing(stretch, slot, read):
        return [None if total is None else np.array(total, order="C") for total in _totals(stretch, slot, read, g)]


def accumulated(adjoint, part, meta, lanes):
    """The adjoint of an operand, which so far is `adjoint` (None: zero), with one contribution more."""
    return rule_array.accumulated(None if adjoint is None else Recorded(adjoint, lanes), part, meta, lanes).value


class naming:
    """While adjoints pass an instruction, what is recorded stands where its row was called.

    An error that says that it cannot be differentiated again names the row, and where that was called.
    """

    __slots__ = ("row", "stretch", "slot")

    def __init__(self, row, stretch, slot):
        self.row, self.stretch, self.slot = row, stretch, slot

    def __enter__(self):
        store = self.stretch.store
        place = store.place(self.slot)
        if self.row.primitive is None and place.f_code is not None:
            store.stand(place)

    def __exit__(self, kind, error, traceback):
        store = self.stretch.store
        store.stand(None)
        if isinstance(error, HigherOrderError):
            raise HigherOrderError(f"{self.row.name}, called at {store.place(self.slot)}: {error.message}") from error
        if isinstance(error, NonFiniteError):
            place = store.place(self.slot)
            raise NonFiniteError(f"the derivative of {self.row.name} at {place} (`{place.text}`) is not finite: in it {error.message}") from error


def passing(stretch, slot, read):
    """`naming` an instruction that adjoints pass; the rule of a primitive says itself where that was called."""
    return nullcontext() if read.row.primitive is not None else naming(read.row, stretch, slot)


def operands_of(read):
    """The operands and the result of an instruction, as its rule takes them."""
    operands = [as_rule_takes(like(m) if v is None else v, k in read.row.constants) for k, (v, m) in enumerate(zip(read.operands, read.metas))]
    return operands, as_rule_takes(like(read.out) if read.result is None else read.result, False)


def _of_primitive(stretch, slot, read, g, lanes, positions):
    """The rule of the user's, run on plain values."""
    if not np.any(g):
        # Zero is absolute: a rule may multiply by what is not finite.
        return []
    g = normalise(np.array(g, np.dtype(read.out.char), order="C"))
    with noted(f"in the backward pass through {read.row.name}, called at {stretch.store.place(slot)}"):
        gradients = read.row.primitive.pull(g, read.operands, read.result, positions, read.metas)
    return [(k, Recorded(c)) for k, c in gradients.items()]


def _of_primitive_recorded(stretch, slot, read, g, lanes, positions):
    """The rule of the user's, run on tensors."""
    primitive = read.row.primitive
    seeds = [g] if lanes is None else [g[j] for j in range(lanes)]
    by_seed = []
    for seed in seeds:
        try:
            by_seed.append(primitive.pull(seed, read.operands, read.result, positions, read.metas, True))
        except (HigherOrderError, GradientError, ModifiedInPlaceError):
            # Not for want of a rule.
            raise
        except (TapegradError, TypeError, ValueError, AttributeError) as error:
            raise HigherOrderError(
                f"{primitive.rule_name('vjp')}, called at {stretch.store.place(slot)}, is needed for a second derivative, and "
                f"cannot be run on tensors ({reason(error)}). Write it in NumPy functions that tapegrad differentiates"
            ) from error
    together = []
    for k in positions:
        parts = [f.get(k) for f in by_seed]
        if lanes is None and parts[0] is not None:
            together.append((k, Recorded(parts[0])))
        elif any(p is not None for p in parts):
            shape = read.metas[k].shape
            together.append((k, Recorded(np.stack([np.zeros(shape) if p is None else p for p in parts]), lanes)))
    return together


# ---- tangents, upwards ---------------------------------------------------------------------------
def push(stretch, order, tangents, lanes=None):
    """Walk up, recording tangents.

    Parameters
    ----------
    stretch : Region
    order : sequence of int
        The slots to visit, ascending (`adjoint.between`).
    tangents : dict of int to (float, ndarray, Tensor or Dual)
        Those of the lowest slots, with a leading axis of extent `lanes` if given; at the end
        those of all slots that a rule was called for, too.
    lanes : int, optional

    Returns
    -------
    callable
        Gives the tangent of any slot, or None.
    """
    numbers = _NumberTangents(stretch, order, tangents, lanes) if stretch.plain and len(order) and lanes else None
    carried = tangents.get if numbers is None else numbers.carried
    with np.errstate(all="ignore"):
        for slot in order if numbers is None else numbers.others():
            tangent = None if numbers is None else numbers.on_arrays(slot)
            if tangent is None:
                read = None if slot in tangents else stretch.read(slot)
                tangent = None if read is None else passed(stretch, slot, read, carried, lanes)
                if numbers is not None and tangent is not None and read.out is SCALAR:
                    numbers.matrix[slot - numbers.base] = tangent
            if tangent is not None:
                tangents[slot] = tangent
    return carried


def passed(stretch, slot, read, carried, lanes):
    """The tangent of an instruction, from those of its operands, which ``carried(slot)`` gives; None if it is zero."""
    row, of = read.row, dict(read.slots)
    parts = [carried(of.get(k, 0)) for k in row.slots(len(read.operands))]
    if all(part is None for part in parts):
        return None
    with naming(row, stretch, slot):
        tangent = row.tangent([None if part is None else Recorded(part, lanes) for part in parts], *operands_of(read), read.attrs)
    return None if tangent is None else tangent.as_tangent(read.out, lanes).value


class _NumberTangents:
    """The tangents of the numbers on a tape, in one array, through which compiled code goes by their partial derivatives.

    Attributes
    ----------
    matrix : ndarray
        Row k has those of slot ``base + k``, row 0 zeros for whatever is below.
    """

    def __init__(self, stretch, order, tangents, lanes):
        self.store, self.tangents, self.lanes = stretch.store, tangents, lanes
        # A slot with a tangent of its own keeps it.
        order = np.asarray(order, np.int64)
        self.order = order[np.isin(order, [*tangents], invert=True)]
        self.base = min([int(order[0]), *tangents]) - 1
        self.matrix = np.zeros((max([int(order[-1]), *tangents]) + 1 - self.base, lanes))
        for slot, seed in tangents.items():
            if seed.ndim == 1:
                self.matrix[slot - self.base] = seed

    def carried(self, slot):
        """The tangent of a slot, or None."""
        rows = self.matrix[max(slot - self.base, 0) :]
        return self.tangents.get(slot, rows[0] if len(rows) and rows[0].any() else None)

    def on_arrays(self, slot):
        """The tangent of an element-wise instruction on float64 arrays of one shape, and numbers; None where its rule finds out."""
        op, a, b, _, _, position = self.store.read(slot, ARRAY_RECORD)
        signature = Signature.of(op)
        rule = tangent_on_arrays(signature.row) if signature is not None and signature.alike else None
        if rule is None:
            return None
        saved = dict(zip(signature.saves, self.store.objects[position : position + len(signature.saves)]))
        values, tangents, ones = [], [], [1] * len(signature.out.shape)
        for k, (meta, o) in enumerate(zip(signature.metas, (a, b))):
            number = self.carried(o) if meta is SCALAR else None
            tangents.append(self.tangents.get(o) if number is None else number.reshape(-1, *ones))
            values.append(saved.get(k, self.store.read(o)[4] if meta is SCALAR and o else None))
        tangent, shape = rule(*values, saved.get(-1), *tangents), (self.lanes, *signature.out.shape)
        return tangent if tangent is None or tangent.shape == shape else np.broadcast_to(tangent, shape)

    def others(self):
        """Walk up, and give the slots whose rule has to be called."""
        from ..interpreter.walk import upwards  # compiled code

        address, order, at = walks.native.data_address, self.order, 0
        known, partials = self._partials()
        words = address(known), address(partials), address(self.matrix), self.matrix.shape[1], self.base
        while (at := upwards(self.store.address, address(order), at, len(order), *words)) < len(order):
            slot = int(order[at])
            op, source, *_, offset = self.store.read(slot, ARRAY_RECORD)
            signature, tangent = Signature.of(op), self.carried(source)
            if signature and signature.row.dynamic == "offset" and signature.out is SCALAR and tangent is not None:
                self.matrix[slot - self.base] = tangent.reshape(len(tangent), -1)[:, offset]
            elif signature and signature.row.name == "stack" and set(signature.metas) == {SCALAR}:
                slots = np.array(Instruction(self.store, slot).operands) - self.base
                self.tangents[slot] = self.matrix[np.maximum(slots, 0)].T
            else:
                yield slot
            at += 1

    def _partials(self):
        """Of which instructions compiled code can do with two partial derivatives, and these."""
        records, known, partials = self.store.records(), np.zeros(len(self.order), np.bool_), np.zeros((len(self.order), 2))
        visited = records[self.order]
        for row in map(by_opcode, np.unique(visited["op"][visited["op"] < FIRST_ARRAY]).tolist()):
            if not row.constants:
                of = np.flatnonzero(visited["op"] == row.opcode)
                those, known[of] = visited[of], True
                sides = [np.where(those[side] > 0, records["value"][those[side]], those["constant"]) for side in "ab"[: row.arity]]
                for k in range(row.arity):
                    unit = [Recorded(np.ones(len(those))) if j == k else None for j in range(row.arity)]
                    partial = row.tangent(unit, [Recorded(side) for side in sides], Recorded(those["value"]), {})
                    if partial is not None:
                        partials[of, k] = partial.a
        return known, partials
