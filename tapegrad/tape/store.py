"""Where instructions are written: flat records, tokens, saved values.

A `TapeStore` is one generation of a tape.  It knows no rule and no NumPy function.

records     32-byte records in one growing buffer (`tape.layout`); slot = index.
nbytes      of the saved values; above `byte_limit` those that no live tensor
            can reach are let go.
staging     the newest instructions, not packed into records yet, in four lists
            (an append costs a tenth of a packed write): opcode, left and right
            operand (an int is a slot, a float a constant; left may also be the
            tuple (slot, slot, float) of both operands and the last field of
            the record), and bytecode offset.  `flush` packs them, natively if there are many.
tokens      one object per record that belongs to the tensors that look at the
            instruction, and is given to nobody else: of a scalar a float of its own,
            from which the record takes the value, of an array a bare object.
            If only this list refers to a token, no tensor looks at
            the instruction any more.  That is how a loop that records and never
            calls ``backward`` runs in bounded memory (`interpreter.walks`).
objects     the values that backward programs read, in order of recording; `savers` are the slots of the instructions that have some.
signatures  of the array instructions, by key (`interpreter.registered.Registered.noted`): while a store refers to one, its number (which the records have) is
            nobody else's (`interpreter.registered`).  With more than `most_signatures` it is time to forget what is unreachable;
            those that hold objects of the user's, `passing` of them, count more, and go to no other generation.
leaves      leaf key -> slot; a leaf gets a new key each time it changes in
            place, so a changed leaf is a new leaf to the store.  The leaves
            themselves are referred to weakly.

in_python   slots of instructions whose rules run in Python (the keys; values are True).
cleared     number of instructions whose values a backward pass has released;
            `clearings` are the places of those passes.
live_rows   of a retired store: the rows of the tensors that still point to it.
pinned      how many sweeps are running over the store (a hook may record, and
            even start another): it does not move meanwhile.
began       the thread's own time when room was made for the first time, or 0.0: a recording that takes long says how far it is, and time in
            which nothing runs, as at a prompt, is no part of that.
due         number of slots from which on it is to forget what is unreachable: the capacity that it has, or had before it
            grew because it was pinned.
trace       of a functional recording (`tapegrad.transforms.replay`): what a replay needs
            beyond the records; None in define-by-run.
others      number of records that are neither leaves nor instructions
            (continuations, and stand-ins for tensors of retired stores).

A store is written by one thread only: `ident` is that thread's identity while
recording is allowed and -1 otherwise, so one comparison on the hot path covers
"another thread", "recording is off", "results are looked at", "moved" and "cleared".  A store that a
backward pass has used up is *retired*; tensors that still point to it raise.
"""

import threading
import time
import weakref
from _thread import get_ident
from bisect import bisect_left, bisect_right

import numpy as np

from ..common.registry import registry
from ..common.waiting import say
from .layout import ARRAY_LEAF, ARRAY_RECORD, CONTINUATION, CONTINUES, FIRST_ARRAY, RECORD, SCALAR_LEAF
from .places import PACKAGE, Place
from .watch import Exposure, Watched

#: Records a new store has room for; a full store first tries to reclaim.
FIRST_CAPACITY = 4096
#: Bytes of saved values after which a reclaim is tried.
FIRST_BYTES = 2 << 20
#: A buffer of at most this many records goes on to the next generation.
LARGEST_REUSED = 1 << 16
#: So do at most this many signatures.
SIGNATURES_REUSED = 256
#: Instructions staged before they are packed into records.
STAGED = 1 << 15
#: Up to so many instructions plain Python is quicker than loading the compiled code.
SHORT = 2000
#: Room kept for the records that one operation may write at once.
MARGIN = 64
#: Bytes of a small saved array besides its data.
OBJECT_BYTES = 160


class TapeStore:
    """One generation of a tape; see the module's text."""

    __slots__ = (
        "ident", "buffer", "view", "address", "capacity", "limit", "ops", "lefts", "rights", "offsets", "tokens", "objects", "savers",
        "leaves", "leaf_list", "watched", "signatures", "passing", "most_signatures", "began", "due", "code", "code_is_ours",
        "code_runs", "in_python", "hooks", "node_hooks", "pre_hooks", "retained", "nbytes", "byte_limit", "thread", "explicit", "forward",
        "retired", "live_rows", "special", "others", "pinned", "cleared", "clearings", "trace", "calling", "__weakref__",
    )  # fmt: skip

    def __init__(self, thread, explicit=False, parts=None):
        self.thread = thread  # a ThreadState
        self.explicit = explicit
        self.forward = None
        self.retired = None
        self.trace = None
        # The user's frame, while a rule of ours is run on tensors: each of its operations stands there.
        self.calling = None
        self._empty()
        if parts is not None and len(parts[4]) <= SIGNATURES_REUSED:
            self.signatures = parts[4]
        if parts is not None and parts[3] <= LARGEST_REUSED:
            self.buffer, self.view, self.address, self.capacity = parts[:4]
            self.due = self.capacity
            self._stage(1)
        else:
            self.due, self.view = FIRST_CAPACITY, None
            self.resize(FIRST_CAPACITY)

    def _empty(self):
        self.tokens = [None]
        self.ops, self.lefts, self.rights, self.offsets = [], [], [], []
        self.objects, self.savers = [], []
        self.signatures, self.passing = {}, 0
        self.most_signatures = 2 * SIGNATURES_REUSED
        self.leaves = {}
        self.leaf_list = []
        self.watched = Watched()
        self.code = None
        self.code_is_ours = False
        self.code_runs = []
        self.in_python = {}
        self.hooks = {}
        self.node_hooks = {}
        self.pre_hooks = {}
        self.retained = {}
        self.live_rows = {}
        self.cleared = 0
        self.clearings = []
        self.nbytes = 0
        self.byte_limit = FIRST_BYTES
        self.special = False
        self.others = 0
        self.pinned = 0
        self.began = 0.0
        self.ident = self.thread.quick_ident

    def resize(self, capacity):
        """Take a buffer for `capacity` records, keeping what is there."""
        buffer = bytearray(capacity * RECORD.size)
        view = np.frombuffer(buffer, np.uint8)
        if self.view is not None:
            view[: len(self.view)] = self.view
        self.buffer, self.view, self.capacity = buffer, view, capacity
        self.address = view.ctypes.data
        self._stage(len(self.tokens))

    def _stage(self, length):
        """Set the number of slots up to which instructions are staged."""
        self.limit = min(self.capacity - MARGIN, length + STAGED)

    def unpin(self):
        """A sweep over the store has ended; if room was to be made meanwhile, that is done with the next instruction."""
        self.pinned -= 1
        if len(self.tokens) + 2 * MARGIN >= self.due and not self.pinned:
            self.limit = 0

    def __len__(self):
        """Number of instructions."""
        if self.view is None:
            return 0
        return len(self.tokens) - 1 - len(self.leaf_list) - self.others

    # -- recording ----------------------------------------------------------
    def make_room(self):
        """Called at the limit: pack what is staged, then forget what is unreachable, or grow.

        Returns the store to go on with; another one if this one has moved.
        """
        self.flush()
        store = self
        if len(self.tokens) + 2 * MARGIN >= self.due:
            if not (self.explicit or self.pinned):
                store = self.reclaim()
            if len(store.tokens) * 2 >= store.capacity:
                store.resize(store.capacity * 2)
            if not store.pinned:
                store.due = store.capacity
        store._stage(len(store.tokens))
        store._tell(time.thread_time())
        return store

    def _tell(self, now):
        """Say how long the recording is, after two seconds of the thread's time, after four, and so on."""
        self.began = self.began or now
        iteration = int(now - self.began).bit_length()
        if iteration > 1:
            advice = "; a long loop over numbers is compiled by tg.njit_grad" if iteration == 2 else ""
            say(("recording", iteration), f"recording, {len(self):,} instructions after {now - self.began:.0f} s{advice}")

    def let_go(self):
        """Drop saved values that no tensor can reach."""
        registry.walks.let_go(self)

    def reclaim(self):
        """Forget what no tensor can reach; returns the store to go on with."""
        return registry.walks.reclaim(self)

    def enter(self, leaf):
        """The slot of a leaf, recorded if the store does not know it yet."""
        key = leaf._k
        slot = self.leaves.get(key)
        if slot is None:
            value = leaf._v
            if len(self.tokens) >= self.limit:
                self._prepare(len(self.tokens))
            slot = len(self.tokens)
            scalar = type(value) is float
            self.ops.append(SCALAR_LEAF if scalar else ARRAY_LEAF)
            self.lefts.append(0 if scalar else (0, 0, float(value.nbytes)))
            self.rights.append(0)
            self.offsets.append(0)
            self.tokens.append(value if scalar else None)
            self.leaves[key] = slot
            self.leaf_list.append((slot, weakref.ref(leaf), key))
            if self.trace is not None:
                self.trace.leaves.append(leaf)
        return slot

    def flush(self):
        """Pack the staged instructions into records; returns the address of the records."""
        count = len(self.ops)
        if not count:
            return self.address
        base = len(self.tokens) - count
        walks = registry.walks
        if walks.pack is None and count > SHORT:
            walks.load()
        if walks.pack is not None:
            walks.pack(self, base, count)
        else:
            for k in range(count):
                op, a, b, offset = self.ops[k], self.lefts[k], self.rights[k], self.offsets[k]
                value = self.tokens[base + k]
                value = value if type(value) is float else 0.0
                where = (base + k) * RECORD.size
                if type(a) is tuple:
                    a, b, third = a
                    layout, third = (ARRAY_RECORD, int(third)) if op >= FIRST_ARRAY else (RECORD, third)
                    layout.pack_into(self.buffer, where, op, a, b, offset, value, third)
                else:
                    constant = a if type(a) is float else b if type(b) is float else 0.0
                    a, b = (0 if type(o) is float else o for o in (a, b))
                    RECORD.pack_into(self.buffer, where, op, a, b, offset, value, constant)
        self.ops.clear()
        self.lefts.clear()
        self.rights.clear()
        self.offsets.clear()
        return self.address

    def _prepare(self, slot):
        """Make the record of `slot` writable."""
        self.flush()
        if slot >= self.capacity - 1:
            self.resize(self.capacity * 2)
        self._stage(slot)
        if not self.due and not self.pinned:
            # Room is to be made with the next instruction.
            self.limit = 0

    def write(self, op, integer):
        """Append a record that is neither a leaf nor an instruction; returns its slot."""
        slot = len(self.tokens)
        self.others += 1
        self._prepare(slot)
        ARRAY_RECORD.pack_into(self.buffer, slot * RECORD.size, op, 0, 0, 0, 0.0, integer)
        self.tokens.append(None)
        return slot

    def write_operands(self, slots):
        """Append continuations that hold the operands after the second."""
        rest = list(slots[2:])
        groups = [rest[k : k + 4] for k in range(0, len(rest), 4)]
        # The instruction finds group k at its own index minus one minus k.
        for group in reversed(groups):
            group += [0] * (4 - len(group))
            slot = len(self.tokens)
            self.others += 1
            self._prepare(slot)
            CONTINUATION.pack_into(self.buffer, slot * RECORD.size, CONTINUES, *group[:2], 0, *group[2:])
            self.tokens.append(None)

    def note_code(self, frame):
        """Remember that instructions from here on come from the code of `frame`."""
        code, trace = frame.f_code, self.trace
        if trace is not None:
            # A functional recording looks at each of them: `self.code` stays None.  The next operation of a call is as the last.
            if code is not trace.plain or (caller := frame.f_back) is not trace.caller or caller.f_lasti != trace.offset:
                trace.notice(frame)
            return
        self.code = code
        self.code_is_ours = code.co_filename.startswith(PACKAGE)
        self.code_runs.append((len(self.tokens), code))

    # -- reading --------------------------------------------------------------
    def records(self):
        """The records as a structured array (a view; `integer` overlays `constant`)."""
        self.flush()
        return self.view.view(RECORD_DTYPE)[: len(self.tokens)]

    def leaves_from(self, low, high):
        """The part of `leaf_list`, which is in the order of slots, from slot `low` to slot `high`."""
        leaves = self.leaf_list
        return leaves[bisect_left(leaves, (low,)) : bisect_left(leaves, (high + 1,))]

    def leaf_at(self):
        """The leaves that are still alive, as a dict from slot to tensor."""
        pairs = ((slot, reference()) for slot, reference, _ in self.leaf_list)
        return {slot: leaf for slot, leaf in pairs if leaf is not None}

    def records_into(self, records):
        """Overwrite the first records with `records`."""
        self.view.view(RECORD_DTYPE)[: len(records)] = records

    def read(self, slot, layout=RECORD):
        """The fields of one record."""
        if self.ops:
            self.flush()
        return layout.unpack_from(self.buffer, slot * RECORD.size)

    def place(self, slot):
        """Where instruction `slot` was recorded."""
        run = bisect_right(self.code_runs, slot, key=lambda run: run[0]) - 1
        offset = self.read(slot)[3]
        return Place(self.code_runs[run][1], offset) if run >= 0 else Place(None, 0)

    def memory(self):
        """Bytes held: records, tokens, saved values (each array once)."""
        saved = {id(v): v.nbytes for v in self.objects if hasattr(v, "nbytes")}
        return {
            "records": len(self.buffer),
            "tokens": self.tokens.__sizeof__() + 24 * len(self.tokens),
            "saved": sum(saved.values()),
        }

    # -- ending -----------------------------------------------------------------
    def retire(self, place):
        """Drop everything; tensors that point here raise from now on.

        Returns the parts of the buffer and the signatures, for the next generation.
        """
        self.ident = -1
        self.retired = place
        parts = (self.buffer, self.view, self.address, self.capacity, {} if self.passing else self.signatures)
        self.forget()
        return parts

    def renew(self):
        """Forget what is recorded and start again in the same memory: of a store that no tensor points to."""
        self.tokens, self.code, self.special, self.due = [None], None, False, self.capacity
        self.leaves.clear()
        self.leaf_list.clear()
        self.code_runs.clear()
        if self.ops:
            for staged in (self.ops, self.lefts, self.rights, self.offsets):
                staged.clear()
        if self.savers:
            self.nbytes, self.watched = 0, Watched()
            self.objects.clear()
            self.savers.clear()
        else:
            self.watched.born = Exposure.count
        if self.passing:
            self.signatures, self.passing = {}, 0
        self.others = self.cleared = 0
        self.began = 0.0
        if self.clearings:
            self.clearings.clear()
        if self.in_python or self.hooks or self.node_hooks or self.pre_hooks or self.retained:
            for by_slot in (self.in_python, self.hooks, self.node_hooks, self.pre_hooks, self.retained):
                by_slot.clear()
        self._stage(1)

    def forget(self):
        """Drop the contents; nothing is written to this store again."""
        self.buffer, self.view, self.address, self.capacity, self.limit = b"", None, 0, 0, 0
        self.tokens = self.objects = self.savers = self.leaf_list = self.watched = self.code_runs = ()
        self.ops = self.lefts = self.rights = self.offsets = ()
        self.signatures = self.leaves = self.in_python = self.hooks = self.node_hooks = self.pre_hooks = self.retained = {}
        self.code = None


RECORD_DTYPE = np.dtype(
    {
        "names": ["op", "a", "b", "offset", "value", "constant", "integer"],
        "formats": ["i4", "i4", "i4", "i4", "f8", "f8", "i8"],
        "offsets": [0, 4, 8, 12, 16, 24, 24],
        "itemsize": RECORD.size,
    }
)


class ThreadState:
    """Per-thread state: the current store, and whether the thread records.

    Attributes
    ----------
    ident : int
        The thread's identity.
    enabled : bool
        False inside ``no_grad``.
    checking : object or None
        The `tapegrad.autograd.anomaly.detect_anomaly` that looks at every result.
    store : TapeStore
        Where operations on leaves are recorded now.
    anonymous : TapeStore
        The default store.
    tapes : list
        What has been entered, innermost last: explicit tapes, and calls of transformations. Each has its current `store`.
    spare : TapeStore or None
        What the last call of a transformation was recorded on, empty, for the next one.
    variables : tuple of Tensor
        The leaves with respect to which functions are being differentiated, define-by-run.
    """

    __slots__ = ("ident", "enabled", "checking", "store", "anonymous", "tapes", "spare", "variables", "__weakref__")

    def __init__(self):
        self.ident = get_ident()
        self.enabled = True
        self.checking = None
        self.tapes = []
        self.spare = None
        self.variables = ()
        self.store = self.anonymous = TapeStore(self)

    def set_enabled(self, enabled):
        """Switch recording on or off for this thread."""
        self.enabled = enabled
        self._own()

    def set_checking(self, checking):
        """Let every result be looked at, or (None) none."""
        self.checking = checking
        self._own()

    @property
    def quick_ident(self):
        """The `ident` of a store of this thread: while results are looked at, no operation takes the fast path."""
        return self.ident if self.enabled and self.checking is None else -1

    def _own(self):
        ident = self.quick_ident
        self.anonymous.ident = ident
        for tape in self.tapes:
            tape.store.ident = ident

    def replace(self, old, new):
        """`new` goes on where `old` was current."""
        if self.store is old:
            self.store = new
        if self.anonymous is old:
            self.anonymous = new
        for tape in self.tapes:
            if tape.store is old:
                tape.store = new


_LOCAL = threading.local()


def thread_state():
    """The calling thread's `ThreadState`."""
    try:
        return _LOCAL.state
    except AttributeError:
        _LOCAL.state = ThreadState()
        return _LOCAL.state
