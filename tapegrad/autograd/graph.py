"""The backward graph as PyTorch shows it.

A `Node` is a view of one instruction (its store and slot), with the names and methods
of PyTorch's nodes.  Nodes hold no values and no gradient functions; hooks set on
them are kept by the store.
"""

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import normalise, plain
from ..common.errors import ClearedTapeError
from ..common.observers import RemovableHandle
from .adjoint import pulled
from .backward import Pass, accumulate, called_back
from .reading import Instruction, second_backward_error


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
        accumulate(self.variable, normalise(np.asarray(grad._v) + 0.0))

    def __eq__(self, other):
        return type(other) is AccumulateGrad and other.variable is self.variable

    def __hash__(self):
        return hash(id(self.variable))

    def __repr__(self):
        return f"<AccumulateGrad object at {hex(id(self.variable))}>"


class Node:
    """The node of one instruction in the backward graph.

    Call it with the gradient of its result to get those of its operands; see
    `next_functions` for where they go.
    """

    def __init__(self, store, slot, name):
        self._store, self._slot, self._name = store, slot, name

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
            instruction = Instruction(store, slot)
            if not instruction.cleared:
                return instruction
        raise second_backward_error(store, slot)

    @property
    def next_functions(self):
        """Pairs (node, 0) of the operands; ``(None, 0)`` for a constant."""
        instruction = self._instruction()
        nodes = [(node_at(self._store, slot) if slot else None, 0) for slot in instruction.operands]
        if instruction.signature is None and len(instruction.operands) == 1 and instruction.row.arity == 2:
            nodes.append((None, 0))
        return tuple(nodes)

    @property
    def metadata(self):
        """Where the instruction was recorded."""
        return {"place": str(self._settled()[0].place(self._slot))}

    def __call__(self, *grads):
        """Gradients of the operands, given that of the result."""
        (grad,) = grads
        grad = grad._let_out("a seed") if isinstance(grad, Differentiable) else grad
        self._instruction()
        Pass(self._store, [(self._slot, None)], None).check_at(self._slot)
        arrays = pulled(self._store, self._slot, np.asarray(grad))
        gradients = tuple(None if a is None else plain(normalise(a)) for a in arrays)
        return gradients[0] if len(gradients) == 1 else gradients

    def register_hook(self, hook):
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run in a backward pass."""
        self._instruction()
        return RemovableHandle(called_back(self._store).node_hooks.setdefault(self._slot, {}), hook)

    def register_prehook(self, hook):
        """Call ``hook(grad_outputs)`` before this node runs in a backward pass."""
        self._instruction()
        return RemovableHandle(called_back(self._store).pre_hooks.setdefault(self._slot, {}), hook)

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


def changes_in_jumps(t):
    """Whether no derivative passes to a tensor or dual number, as to ``np.floor(x)`` and what is made of such alone."""
    if t._is_dual:
        return t._d is None and (not isinstance(t.value, Differentiable) or changes_in_jumps(t.value))
    store = t._t
    if store is None or store.retired is not None:
        return not t.requires_grad
    entries = {} if store.trace is None else store.trace.entries
    waiting, seen = [t._i], set()
    while waiting:
        slot = waiting.pop()
        if slot > 0 and slot not in seen:
            seen.add(slot)
            entry, instruction = entries.get(slot), Instruction(store, slot)
            row, operands = (instruction.row, instruction.operands) if entry is None else (entry.function, entry.operands)
            if row is None:
                return False
            waiting += () if entry is not None and not entry.differentiable or row.steps else operands
    return True


def node_of(tensor):
    """The node of an interior tensor."""
    store = tensor._t
    if store.retired is not None:
        row = store.live_rows.get(tensor._i)
        return Node(store, tensor._i, "ClearedBackward0" if row is None else row.node_name)
    return node_at(store, tensor._i)
