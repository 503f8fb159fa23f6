"""What two instructions must share to share a backward program, and the numbers of these programs, given out once each and taken back.

A signature is a row, its attributes, descriptions of the operands, and which of them need an adjoint.  Building one traces the row's rule
(`interpreter.plan`) and so also finds out which values the rule reads: only those are kept on the tape.  The loop kernels that a
program calls are compiled when a backward pass first needs them (`Signature.ready`), not while recording.

A record of a tape says by a number which signature its instruction has, and the compiled walks find the program in
row `number` of `TABLE`.  The owner of such records holds their signatures, too (`TapeStore.signatures`,
`Workspace`): a number means the same as long as some record has it.  The registry itself holds signatures only so
that they need not be built again, and none that has an object of a user's function (`rules.table.lasts`).  When there are more
than `MOST`, it lets go of all; those that a tape or replay holds come back at once, and the numbers of the others are used again.
"""

from __future__ import annotations

import threading
from functools import partial
from weakref import WeakValueDictionary, finalize, ref

import numpy as np

from ..common import config
from ..common.uninterrupted import remade
from ..rules.table import lasts
from ..tape.layout import ARRAY_LEAF, FIRST_ARRAY, SCALAR, laid_out
from ..tape.store import OBJECT_BYTES
from . import program as P
from .plan import Steps

#: Signatures that are kept although no tape holds them, at most.
MOST = 512
#: Saved values of at least this many bytes are let go during the sweep.
LARGE = 1 << 18
#: One that has an object of the user's, which may hold any data, counts as so many on a tape.
PASSING = 64


class Signature:
    """A row specialised to operand metadata: backward program and saved operands.

    Parameters
    ----------
    key : tuple
        Row; attributes as a tuple of (name, value) pairs; descriptions of every operand, differentiable or not;
        which differentiable operands are on the tape; description of the result, whose place in memory the others do
        not say (of what is gathered, for one).

    Attributes
    ----------
    row : Row
    number : int
        ``opcode - FIRST_ARRAY`` of the instructions that have this signature.
    out : Meta
        Description of the result.
    saves : tuple of int
        Operands whose values the tape must keep (-1: the result).
    kept : tuple of (int, bool)
        The same, and whether that operand is a constant, which the user may change.
    """

    #: By number; only what is alive.
    ALL: WeakValueDictionary = WeakValueDictionary()
    BY_KEY: dict[tuple, Signature] = {}
    LOCK = remade(threading.RLock())
    #: A row of words for each number, which the compiled walks read: see `interpreter.program`.
    TABLE = np.zeros((64, P.ROW_WORDS), np.int64)
    #: The number ever made.
    made = 0
    _OUTGROWN: list[np.ndarray] = []
    _FREE: list[int] = []
    _next, _limit = 0, MOST

    def __init__(self, key):
        self.key = key
        self.row, self.attrs, self.metas, self.mask, self.out = row, attrs, metas, mask, out = key
        planner = Steps(metas, out)
        slots = row.slots(len(metas))
        self.slots = slots
        self.in_python = row.primitive is not None
        if self.in_python:
            # No program: the sweep stops here, and the rule is called with what was kept.
            planner.saved = list(dict(attrs)["keeps"])
        else:
            self._plan(planner)
        planner.step(P.END)
        self.saves = tuple(planner.saved)
        on_tape = {s for s, on in zip(slots, mask) if on}
        self.kept = tuple((k, k >= 0 and k not in on_tape) for k in self.saves)
        self.words = np.array(planner.words, np.int64)
        self.kernels = planner.kernels
        #: Whether the words lack addresses of loop kernels: `ready`.
        self.pending = bool(self.kernels)
        self.constants = planner.constants
        self.saved_bytes = sum((metas[k] if k >= 0 else out).nbytes for k in self.saves)
        #: What nested derivatives have made of the rule (`kernel.lines`).
        self.derived = {}
        self.charge, self.lasting = self.saved_bytes + OBJECT_BYTES, lasts(row, attrs)
        #: Computes the result of operands alone; None if each instruction has an attribute of its own, or if an error is to be told of.
        self.value = None if row.dynamic or row.raises else partial(row.value, **dict(attrs)) if attrs else row.value
        # Without attributes such a result lies in memory as this one does, which does so row by row.
        known = (row.elementwise and out.ndim or row.name == "matmul") and not attrs and out is laid_out(out.shape, "d")
        self.short = self._short(known and not config.strict)
        #: Whether it is short, and all arrays are of one shape, one behind the other in memory.
        self.alike = self.short >= 0 and known and row.elementwise and all(m is SCALAR or m is out for m in metas)

    def _short(self, known):
        """What the short way keeps (`interpreter.numbers`): the operands, two bits for each, counted from one, and 3 for the result; -1 if it cannot be.

        It is for operations on float64 arrays, and numbers, and choices between such.  `program.LOOKED_AT` is added unless it is known how results
        lie in memory.
        """
        choice = self.row.name == "where" and self.metas[0].char == "?"
        operands = self.metas[choice:]
        if self.row.constants and not choice or self.in_python or len(operands) > 2 or any(m.char != "d" for m in (self.out, *operands)):
            return -1
        return sum((k % 4 + (k >= 0)) << 2 * j for j, k in enumerate(self.saves)) + (0 if known else P.LOOKED_AT)

    def _plan(self, planner):
        """Trace the row's rule into the steps of the program."""
        row, attrs, metas, mask, slots = self.row, self.attrs, self.metas, self.mask, self.slots
        kwargs = dict(attrs)
        if row.dynamic:
            kwargs[row.dynamic] = Steps.DYNAMIC
        contributions = planner.contributions(row, [s for s, m in zip(slots, mask) if m], kwargs)
        active = [c if m else None for c, m in zip(contributions, mask)]
        planner.deliver(active, [metas[s] for s in slots])

    def __str__(self):
        operands = ", ".join(f"{m.char}{list(m.shape)}" for m in self.metas)
        return f"{self.row.name}({operands}) -> {self.out.char}{list(self.out.shape)}, saves {self.saves}"

    @classmethod
    def of(cls, opcode):
        """The signature of an opcode, or None if it is that of no instruction on arrays."""
        return cls.ALL[opcode - FIRST_ARRAY] if FIRST_ARRAY <= opcode < ARRAY_LEAF else None

    @classmethod
    def among(cls, opcodes):
        """The signatures of an array of opcodes, in that order; those that have none are left out."""
        return [cls.ALL[opcode - FIRST_ARRAY] for opcode in opcodes[(opcodes >= FIRST_ARRAY) & (opcodes < ARRAY_LEAF)].tolist()]

    @classmethod
    def find(cls, key):
        """The signature of a key; made if new."""
        with cls.LOCK:
            signature = cls.BY_KEY.get(key)
            if signature is None:
                signature = cls(key)
                if len(cls.BY_KEY) >= cls._limit:
                    cls._give_back()
                signature.number = cls._number()
                signature.opcode = FIRST_ARRAY + signature.number
                cls.TABLE[signature.number] = [
                    signature.words.ctypes.data, len(signature.saves), len(signature.slots), signature.out is SCALAR,
                    signature.saved_bytes >= LARGE, signature.charge,
                ]
                cls.made += 1
                cls.ALL[signature.number] = signature
                if signature.lasting:
                    cls.BY_KEY[key] = signature
                else:
                    # The key has an object of the user's: only what is recorded keeps it alive.
                    finalize(signature, cls._FREE.append, signature.number).atexit = False
        return signature

    @classmethod
    def noted(cls, store, key, out):
        """The signature of a key and a description `out` of the result, which `store` refers to from now on.

        There it is found by the key alone, too, until there is one of another result.
        """
        whole = *key, out
        return cls.held(store, store.signatures.get(whole) or cls.find(whole))

    @classmethod
    def held(cls, store, signature):
        """Let `store` refer to a signature, which is returned."""
        signatures, whole = store.signatures, signature.key
        store.passing += not signature.lasting and whole not in signatures
        if signature.pending:
            store.pending.append(signature)
        signatures[whole[:-1]] = signatures[whole] = signature
        if (size := len(signatures) + PASSING * store.passing) > store.most_signatures:
            store.most_signatures = 2 * size
            store.due = store.limit = 0
        return signature

    @classmethod
    def _number(cls):
        """A number that no record has."""
        if cls._FREE:
            return cls._FREE.pop()
        number = cls._next
        cls._next += 1
        if number >= len(cls.TABLE):
            # A sweep of another thread may still be reading the old table.
            cls._OUTGROWN.append(cls.TABLE)
            cls.TABLE = np.concatenate([cls.TABLE, np.zeros_like(cls.TABLE)])
        return number

    @classmethod
    def _give_back(cls):
        """Let go of all that only the registry holds, and free their numbers."""
        for key in list(cls.BY_KEY):
            held = cls.BY_KEY.pop(key)
            number, held = held.number, ref(held)
            alive = held()
            if alive is None:
                cls._FREE.append(number)
            else:
                cls.BY_KEY[key] = alive
            del alive
        cls._limit = max(MOST, 2 * len(cls.BY_KEY))

    @staticmethod
    def ready(signatures):
        """Compile the loop kernels of signatures on a tape that is to be swept.

        No lock is held meanwhile, and no thread waits: a kernel may be the body of a loop, which another thread lays out, and what is laid
        out has signatures itself.  Two threads that come here with the same one put the same addresses down.
        """
        for signature in signatures:
            if signature.pending:
                for position, spec in signature.kernels:
                    signature.words[position] = spec.address()
                signature.pending = False
