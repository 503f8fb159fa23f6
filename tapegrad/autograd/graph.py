"""Instructions read back from the records, and the backward graph as PyTorch shows it.

`Instruction` is what everything in Python that looks at a tape starts from: backward passes where they
stop (`tapegrad.autograd.backward`), listings (`tapegrad.autograd.inspect`), recorded passes (`tapegrad.higher`).  It is made
of a slot when somebody looks, and computes what the compiled sweep does, on arrays, in `Instruction.pull`.

A `Node` is a view of one instruction (its store and slot), with the names and methods
of PyTorch's nodes.  Nodes hold no values and no gradient functions; hooks set on
them are kept by the store.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..array.eager import Eager, unbroadcast
from ..array.record import normalise, plain, settle
from ..common.errors import ClearedTapeError, noted
from ..interpreter.plan import Signature
from ..rules import by_opcode
from ..tape.layout import ARRAY_LEAF, ARRAY_RECORD, CLEARED, CONTINUATION, CONTINUES, FIRST_ARRAY, SCALAR_LEAF


class RemovableHandle:
    """What registering a hook returns; `remove` takes the hook away again."""

    _numbers = itertools.count()

    def __init__(self, table, hook):
        self._table = table
        self._number = next(self._numbers)
        table[self._number] = hook

    def remove(self) -> None:
        """Remove the hook; doing it twice does no harm."""
        self._table.pop(self._number, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


class AccumulateGrad:
    """The node at which the gradient of a leaf is added to its ``.grad``.

    Attributes
    ----------
    variable : Tensor or None
        The leaf; None if it is no longer alive.
    """

    def __init__(self, variable):
        self.variable = variable

    def name(self):
        """The class name, as PyTorch prints it."""
        return "AccumulateGrad"

    @property
    def next_functions(self):
        return ()

    def __call__(self, grad):
        from .gradients import accumulate

        accumulate(self.variable, normalise(np.asarray(grad._v) + 0.0))

    def __eq__(self, other):
        return type(other) is AccumulateGrad and other.variable is self.variable

    def __hash__(self):
        return hash(id(self.variable))

    def __repr__(self):
        return f"<AccumulateGrad object at {hex(id(self.variable))}>"


class Instruction:
    """One instruction read back from a store.

    Attributes
    ----------
    slot : int
    op : int
        The opcode without the cleared bit.
    cleared : bool
    operands : tuple of int
        Slots; 0 stands for a constant.
    constant : float
        The inline constant of a scalar instruction.
    integer : int
        Position of saved values, or the dynamic attribute, of an array instruction.
    row : Row or None
        None for leaves and continuations.
    signature : Signature or None
    """

    def __init__(self, store, slot):
        op, a, b, _, self.value, self.constant = store.read(slot)
        self.store = store
        self.slot = slot
        self.cleared = op >= CLEARED
        self.op = op & ~CLEARED
        self.integer = store.read(slot, ARRAY_RECORD)[-1]
        self.signature = None
        self.row = None
        self.operands = (a, b)
        if self.op == 0 or self.op in (SCALAR_LEAF, ARRAY_LEAF, CONTINUES):
            self.operands = ()
        elif self.op < FIRST_ARRAY:
            self.row = by_opcode(self.op)
            # The condition of `where` is the inline constant and no side; other constants are sides.
            sides = self.row.slots(self.row.arity) if self.row.arity <= 2 else (0, 1)
            self.operands = tuple((a, b)[k] for k in sides)
        else:
            self.signature = Signature.ALL[self.op - FIRST_ARRAY]
            self.row = self.signature.row
            count = len(self.signature.slots)
            rest = []
            for k in range(0, max(0, count - 2), 4):
                _, c, d, _, e, f = store.read(slot - 1 - k // 4, CONTINUATION)
                rest += [c, d, e, f]
            self.operands = (a, b, *rest)[:count]

    @property
    def is_leaf(self):
        return self.op in (SCALAR_LEAF, ARRAY_LEAF)

    def operand_values(self):
        """Values of all operands and of the result; None where the tape did not keep them.

        Returns
        -------
        list, object
        """
        if self.signature is None:
            found = []
            for slot in self.operands:
                found.append(self.constant if slot == 0 else Instruction(self.store, slot).value)
            for k in self.row.constants:
                found.insert(k, self.constant if self.row.arity == 2 else bool(self.constant))
            return found, self.value
        found = [None] * len(self.signature.metas)
        result = self.value if self.signature.out.shape == () else None
        for j, k in enumerate(self.signature.saves):
            saved = self.store.objects[self.integer + j]
            if k < 0:
                result = saved
            else:
                found[k] = saved
        return found, result

    def attributes(self):
        """The row's attributes, the dynamic one included."""
        attrs = dict(self.signature.attrs) if self.signature is not None else {}
        if self.row.dynamic and self.signature is not None:
            attrs[self.row.dynamic] = self.integer
        return attrs

    def pull(self, g):
        """What adjoint `g` of the result contributes to each operand (ndarrays; None: nothing)."""
        values, result = self.operand_values()
        if self.row.primitive is not None:
            return self._pull_in_python(g, values, result)
        metas = self.signature.metas if self.signature is not None else None
        shaped = []
        for k, v in enumerate(values):
            # A value that was not kept is not read by the rule, but its shape may be.
            shaped.append(Eager(np.broadcast_to(np.nan, metas[k].shape) if v is None else v))
        if result is None:
            result = np.broadcast_to(np.nan, self.signature.out.shape)
        slots = self.row.slots(len(values))
        wanted = [s for s, slot in zip(slots, self.operands) if slot != 0]
        found = self.row.contributions(Eager(g), shaped, Eager(result), wanted, self.attributes())
        arrays = []
        for s, c in zip(slots, found):
            shape = metas[s].shape if metas is not None else ()
            if s not in wanted:
                arrays.append(None)
            elif c is None:
                arrays.append(np.zeros(shape))
            else:
                char = metas[s].char if metas is not None else "d"
                parts = [np.broadcast_to(unbroadcast(p.a, shape), shape) for p in (c if isinstance(c, tuple) else (c,))]
                arrays.append(np.array(sum(parts[1:], parts[0]), np.dtype(char), order="C"))
        return arrays

    def _pull_in_python(self, g, values, result):
        """`pull` by a rule of the user's."""
        wanted = [s for s, slot in zip(self.signature.slots, self.operands) if slot]
        if not np.any(g):
            # Zero is absolute: a rule may multiply by what is not finite.
            return [None] * len(self.operands)
        g = np.array(g, np.dtype(self.signature.out.char), order="C")
        with noted(f"in the backward pass through {self.row.name}, called at {self.store.place(self.slot)}"):
            return self.row.primitive.pull(normalise(g), values, result, wanted, self.signature.metas)


class Node:
    """The node of one instruction in the backward graph.

    Call it with the gradient of its result to get those of its operands; see
    `next_functions` for where they go.
    """

    def __init__(self, store, slot, name):
        self._store = store
        self._slot = slot
        self._name = name

    def name(self):
        """The node's name, as PyTorch prints it."""
        return self._name

    def _settled(self):
        store, slot = self._store, self._slot
        while store.forward is not None:
            new, kept = store.forward
            at = int(np.searchsorted(kept, slot))
            if at == len(kept) or kept[at] != slot:
                raise ClearedTapeError(f"the instruction of {self._name} is gone: no tensor refers to it any more")
            store, slot = new, at
        self._store, self._slot = store, slot
        return store, slot

    def _instruction(self):
        store, slot = self._settled()
        if store.retired is None:
            found = Instruction(store, slot)
            if not found.cleared:
                return found
        from .backward import second_backward_error

        raise second_backward_error(store, slot)

    @property
    def next_functions(self):
        """Pairs (node, 0) of the operands; ``(None, 0)`` for a constant."""
        found = []
        instruction = self._instruction()
        for slot in instruction.operands:
            found.append((node_at(self._store, slot), 0) if slot else (None, 0))
        if instruction.signature is None and len(instruction.operands) == 1 and instruction.row.arity == 2:
            found.append((None, 0))
        return tuple(found)

    @property
    def metadata(self):
        """Where the instruction was recorded."""
        return {"place": str(self._settled()[0].place(self._slot))}

    def __call__(self, *grads):
        """Gradients of the operands, given that of the result."""
        (grad,) = grads
        grad = grad._v if hasattr(grad, "_v") else grad
        arrays = self._instruction().pull(np.asarray(grad))
        found = tuple(None if a is None else plain(normalise(a)) for a in arrays)
        return found[0] if len(found) == 1 else found

    def register_hook(self, hook):
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run in a backward pass."""
        self._instruction()
        return RemovableHandle(self._store.node_hooks.setdefault(self._slot, {}), hook)

    def register_prehook(self, hook):
        """Call ``hook(grad_outputs)`` before this node runs in a backward pass."""
        self._instruction()
        return RemovableHandle(self._store.pre_hooks.setdefault(self._slot, {}), hook)

    def __eq__(self, other):
        return isinstance(other, Node) and self._settled() == other._settled()

    def __hash__(self):
        return hash((id(self._store), self._slot))

    def __repr__(self):
        return f"<{self._name} object at {hex(id(self._store) + 16 * self._slot)}>"


def node_at(store, slot):
    """The node of a slot of a store."""
    instruction = Instruction(store, slot)
    if instruction.is_leaf:
        return AccumulateGrad(next((reference() for _, reference, _ in store.leaves_from(slot, slot)), None))
    name = instruction.row.node_name if instruction.row is not None else "ClearedBackward0"
    return Node(store, slot, name)


def node_of(tensor):
    """The node of an interior tensor."""
    store = tensor._t
    while store.forward is not None:
        store = settle(tensor)
    if store.retired is not None:
        row = store.live_rows.get(tensor._i)
        return Node(store, tensor._i, "ClearedBackward0" if row is None else row.node_name)
    return node_at(store, tensor._i)
