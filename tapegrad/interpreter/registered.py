"""Numbers for programs, given out once each and taken back: what `plan.Signature` is besides a program.

A record of a tape says by a number which signature its instruction has, and the compiled walks find the program in
row `number` of `TABLE`.  The owner of such records holds their signatures, too (`TapeStore.signatures`,
`Workspace`): a number means the same as long as some record has it.  The registry itself holds signatures only so
that they need not be built again, and none that has an object of a user's function (`rules.table.lasts`).  When there are more
than `MOST`, it lets go of all; those that a tape or replay holds come back at once, and the numbers of the others are used again.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary, finalize, ref

import numpy as np

from ..common.uninterrupted import remade
from ..rules.table import lasts
from ..tape.layout import FIRST_ARRAY
from ..tape.meta import SCALAR
from ..tape.store import OBJECT_BYTES
from . import program as P

#: Signatures that are kept although no tape holds them, at most.
MOST = 512
#: One that has an object of the user's, which may hold any data, counts as so many on a tape.
PASSING = 64


class Registered:
    """An object with a number, and a row of `TABLE`.  A subclass is made from a key, and has `words`, `kernels` and the fields of the row."""

    #: By number; only what is alive.
    ALL: WeakValueDictionary = WeakValueDictionary()
    BY_KEY: dict[tuple, Registered] = {}
    LOCK = remade(threading.RLock())
    #: A row of words for each number, which the compiled walks read: see `interpreter.program`.
    TABLE = np.zeros((64, P.ROW_WORDS), np.int64)
    #: The number ever made.
    made = 0
    _OUTGROWN: list[np.ndarray] = []
    _FREE: list[int] = []
    #: Whether the words lack addresses of loop kernels: `ready`.
    pending = True
    _next, _limit = 0, MOST

    @classmethod
    def find(cls, key):
        """The signature of a key (see `interpreter.plan.Signature`); made if new."""
        with cls.LOCK:
            signature = cls.BY_KEY.get(key)
            if signature is None:
                signature = cls(key)
                if len(cls.BY_KEY) >= cls._limit:
                    cls._give_back()
                signature.number = cls._number()
                signature.opcode, signature.charge = FIRST_ARRAY + signature.number, signature.saved_bytes + OBJECT_BYTES
                cls.TABLE[signature.number] = [
                    signature.words.ctypes.data, len(signature.saves), len(signature.slots), signature.out is SCALAR,
                    signature.large, signature.charge,
                ]
                cls.made += 1
                signature.pending = bool(signature.kernels)
                cls.ALL[signature.number] = signature
                signature.lasting = lasts(*key[:2])
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
