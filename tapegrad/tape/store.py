"""Where instructions are written: flat records, saved values.

A `TapeStore` is one generation of a tape.  It knows no rule and no NumPy function.

records     32-byte records in one growing buffer (`tape.layout`); slot = index.  `length` is the number of slots.
objects     the values that backward programs read, in order of recording; `savers` are the slots of the instructions that have some.
signatures  of the array instructions, by key (`interpreter.signature.Signature.noted`): while a store refers to one, its number (which the records have) is
            no other store's (`interpreter.signature`).  With more than `most_signatures` it is time to forget what is unreachable;
            those that hold objects of the user's, `passing` of them, count more, and go to no other generation.  `pending`
            are those that a sweep has to compile first.
leaves      leaf key -> slot; a leaf gets a new key each time it changes in
            place, so a changed leaf is a new leaf to the store.  The leaves
            themselves are referred to weakly.

in_python   slots of instructions whose rules run in Python (the keys; values are True).
cleared     number of instructions whose values a backward pass has released;
            `clearings` are the places of those passes.
live_rows   of a retired store: the rows of the tensors that still point to it.
pinned      how many sweeps are running over the store (a hook may record, and
            even start another): it does not move meanwhile.  `resting` of them are none: of the store of a call it is 1.
before      buffers that it has grown out of while sweeps are running, which may hold addresses of them
began       the thread's own time when room was made for the first time, or 0.0: a recording that takes long says how far it is, and time in
            which nothing runs, as at a prompt, is no part of that.
due         number of slots from which on it is to forget what is unreachable: the capacity that it has, or had before it
            grew because it was pinned.
trace       of a functional recording (`tapegrad.transforms.replay`): what a replay needs
            beyond the records; None in define-by-run.
others      number of records that are neither leaves nor instructions
            (continuations, and stand-ins for tensors of retired stores).

A store is written by one thread only: `ident` is that thread's identity while
recording is allowed and -1 otherwise, so one comparison covers
"another thread", "recording is off", "results are looked at", "moved" and "cleared".  A store that a
backward pass has used up is *retired*; tensors that still point to it raise.

What is read and written with each operation on numbers are words, at the address `words`: there compiled code finds them
(`interpreter.numbers`).  They stand in the object itself, so that they are there as long as it is, also while the collector takes a circle
apart in which a store and its tensors are:

ident       see above
length      number of slots that are written
limit       number of slots at which room is to be made
address     of the records
running     identity of the code that the last instruction came from; 0: whatever comes next says where it was called
outside     identity of a code among `codes` that is not the package's; or 0
runs_at, codes_at   addresses of the lists `runs` and `codes`: slots, and the code that instructions come from there on.  0: `note_code` is
            to be told of a change
generation  a number that no other store has, and the same store not again after `renew`
nbytes      of the saved values; above `byte_limit` those that no live tensor can reach are let go
offset      in the code that is running, of the instruction whose rule is run (`standing`); -1: none is
last, first the list of the tensors on the store (`interpreter.numbers`): a tensor that is on none has no place here
"""

import ctypes
import itertools
import threading
import time
import weakref
from _thread import get_ident
from bisect import bisect_left, bisect_right

import numpy as np

from ..common.native_types import INTEGER, made
from ..common.registry import registry
from ..common.waiting import say
from .layout import ARRAY_LEAF, ARRAY_RECORD, CONTINUATION, CONTINUES, FIRST_ARRAY, RECORD, SCALAR_LEAF
from .places import Place
from .watch import Exposure, Watched

#: Records a new store has room for; a full store first tries to reclaim.
FIRST_CAPACITY = 4096
#: Where a store is retired that was recorded for one call of a function.
CALL_ENDED = "the end of the call that it was computed in"
#: Bytes of saved values after which a reclaim is tried.
FIRST_BYTES = 2 << 20
#: A buffer of at most this many records goes on to the next generation.
LARGEST_REUSED = 1 << 17
#: So do at most this many signatures.
SIGNATURES_REUSED = 256
#: Instructions after which it is looked how long a recording takes.
LOOKED_AFTER = 1 << 15
#: By how much a buffer grows: at most half of the records is room, which no memory stands behind before it is written.
GROWTH = 1.5
#: Room kept for the records that one operation may write at once.
MARGIN = 64
#: Bytes of a small saved array besides its data.
OBJECT_BYTES = 160


_GENERATIONS = itertools.count(1)
_NAMES = ("ident", "length", "limit", "address", "running", "outside", "runs_at", "codes_at", "generation", "nbytes", "byte_limit", "offset", "last", "first")
#: Where a word lies, from the first one on, in bytes.
WORDS = {name: 8 * position for position, name in enumerate(_NAMES)}
_HEAD = object.__basicsize__
_Words = made(
    f"{__name__}._Words", object, _HEAD + 8 * len(WORDS), {}, members=[(name, INTEGER, _HEAD + offset, False) for name, offset in WORDS.items()],
)  # fmt: skip


class TapeStore(_Words):
    """One generation of a tape; see the module's text."""

    __slots__ = (
        "words", "buffer", "view", "capacity", "objects", "savers",
        "leaves", "leaf_list", "watched", "signatures", "pending", "passing", "most_signatures", "began", "due",
        "runs", "codes", "in_python", "hooks", "node_hooks", "pre_hooks", "retained", "thread", "explicit", "forward",
        "retired", "live_rows", "special", "others", "pinned", "resting", "before", "cleared", "clearings", "trace", "calling", "seen",
        "__weakref__",
    )  # fmt: skip

    def __init__(self, thread, explicit=False, parts=None):
        self.words = id(self) + _HEAD
        # An empty list of tensors: its ends are this very place.
        self.last = self.first = self.words + WORDS["last"]
        self.thread, self.explicit = thread, explicit
        self.forward = self.retired = self.trace = None
        #: Whether some argument was not in C order: what is recorded sees a copy that is.
        # A place or the user's frame, while a rule of ours is run on tensors: each of its operations stands there.
        self.calling = None
        self.length, self.generation, self.seen = 1, next(_GENERATIONS), []
        self.objects, self.savers = [], []
        self.signatures, self.passing, self.pending, self.most_signatures = {}, 0, [], 2 * SIGNATURES_REUSED
        self.leaves, self.leaf_list, self.live_rows, self.watched = {}, [], {}, Watched()
        self.running = self.outside = 0
        self.runs, self.codes = [], []
        self.runs_at, self.codes_at = id(self.runs), id(self.codes)
        self.in_python, self.hooks, self.node_hooks, self.pre_hooks, self.retained = {}, {}, {}, {}, {}
        self.others, self.cleared, self.clearings = 0, 0, []
        # (An explicit tape lets go of nothing: no limit sends it the general way.)
        self.nbytes, self.byte_limit = 0, 1 << 62 if explicit else FIRST_BYTES
        self.pinned, self.resting, self.before = 0, 0, []
        self.special, self.began, self.offset, self.ident = False, 0.0, -1, thread.quick_ident
        if parts is not None and len(parts[4]) <= SIGNATURES_REUSED:
            self.signatures = parts[4]
            self.pending = [signature for signature in parts[4].values() if signature.pending]
        if parts is not None and parts[3] <= LARGEST_REUSED:
            self.buffer, self.view, self.address, self.capacity = parts[:4]
            self.due = self.capacity
            self._set_limit()
        else:
            self.due, self.view = FIRST_CAPACITY, None
            self.resize(FIRST_CAPACITY)

    def __del__(self):
        # The collector runs this before it takes a circle apart: no word then speaks of what is not there any more.
        self.ident, self.running, self.outside, self.runs_at = -1, 0, 0, 0

    def resize(self, capacity):
        """Take a buffer for `capacity` records, keeping what is there."""
        buffer = bytearray(capacity * RECORD.size)
        view = np.frombuffer(buffer, np.uint8)
        if self.view is not None:
            view[: len(self.view)] = self.view
            if self.pinned > self.resting:
                # A walk may hold addresses of it; what it reads there does not change.
                self.before.append(self.view)
        self.buffer, self.view, self.capacity = buffer, view, capacity
        self.address = view.ctypes.data
        self._set_limit()

    def _set_limit(self):
        """Set the number of slots at which `make_room` is to be called."""
        room, looked = self.capacity - MARGIN, self.length + LOOKED_AFTER
        self.limit = room if room < looked else looked

    def unpin(self):
        """A sweep over the store has ended; if room was to be made meanwhile, that is done with the next instruction."""
        self.pinned -= 1
        if self.before and self.pinned == self.resting:
            self.before.clear()
        if not self.pinned and self.length + 2 * MARGIN >= self.due:
            self.limit = 0

    def __len__(self):
        """Number of instructions."""
        return 0 if self.view is None else self.length - 1 - len(self.leaf_list) - self.others

    # -- recording ----------------------------------------------------------
    def make_room(self):
        """Called at the limit: forget what is unreachable, or grow.

        Returns the store to go on with; another one if this one has moved.
        """
        store = self
        if self.length + 2 * MARGIN >= self.due:
            if not (self.explicit or self.pinned):
                store = registry.walks.reclaim(self)
            if store.length * 2 >= store.capacity:
                store.resize(int(store.capacity * GROWTH))
            if not store.pinned:
                store.due = store.capacity
        store._set_limit()
        store._tell(time.thread_time())
        return store

    def _tell(self, now):
        """Say how long the recording is, after two seconds of the thread's time, after four, and so on."""
        self.began = self.began or now
        iteration = int(now - self.began).bit_length()
        if iteration > 1:
            advice = "; a long loop over numbers is compiled by tg.njit_grad" if iteration == 2 else ""
            say(("recording", iteration), f"recording, {len(self):,} instructions after {now - self.began:.0f} s{advice}")

    def enter(self, leaf):
        """The slot of a leaf, recorded if the store does not know it yet."""
        slot = self.leaves.get(leaf._k)
        if slot is None:
            slot = self.leaf(leaf)
        leaf._known_on, leaf._known_key, leaf._known_slot = self.generation, id(leaf._k), slot
        return slot

    def leaf(self, leaf):
        """The slot of a leaf that the store does not know yet."""
        value, key = leaf._v, leaf._k
        if self.length >= self.limit:
            self._prepare()
        if type(value) is float:
            slot = self.append(SCALAR_LEAF, 0, 0, 0, value, 0.0)
        else:
            slot = self.append(ARRAY_LEAF, 0, 0, 0, 0.0, value.nbytes)
        self.leaves[key] = slot
        self.leaf_list.append((slot, weakref.ref(leaf), key))
        if self.trace is not None:
            self.trace.leaves.append(leaf)
        return slot

    def append(self, op, a, b, offset, value, last):
        """Write the next record, for which there is room; returns its slot."""
        # The place is taken first: whatever runs in between, as a finalizer, writes behind it.
        slot = self.length
        self.length = slot + 1
        (ARRAY_RECORD if op >= FIRST_ARRAY else RECORD).pack_into(self.buffer, slot * RECORD.size, op, a, b, offset, value, last)
        return slot

    def _prepare(self):
        """Make the next record writable."""
        if self.length >= self.capacity - 1:
            self.resize(int(self.capacity * GROWTH))
        self._set_limit()
        if not self.due and not self.pinned:
            # Room is to be made with the next instruction.
            self.limit = 0

    def write(self, op, integer):
        """Append a record that is neither a leaf nor an instruction; returns its slot."""
        self.others += 1
        self._prepare()
        return self.append(op, 0, 0, 0, 0.0, integer)

    def write_operands(self, slots):
        """Append continuations that hold the operands after the second."""
        rest = list(slots[2:])
        groups = [rest[k : k + 4] for k in range(0, len(rest), 4)]
        # The instruction finds group k at its own index minus one minus k.
        for group in reversed(groups):
            group += [0] * (4 - len(group))
            self.others += 1
            self._prepare()
            CONTINUATION.pack_into(self.buffer, self.length * RECORD.size, CONTINUES, *group[:2], 0, *group[2:])
            self.length += 1

    def note_code(self, frame):
        """Remember that instructions from here on come from the code of `frame`."""
        code, trace = frame.f_code, self.trace
        if trace is not None:
            # A functional recording looks at each of them: `running` stays 0.  The next operation of a call is as the last.
            if code is not trace.plain or (caller := frame.f_back) is not trace.caller or caller.f_lasti != trace.offset:
                trace.notice(frame)
            return
        self.running = id(code)
        # (Where there was no memory for both of a pair.)
        del self.codes[len(self.runs) :]
        self.codes.append(code)
        self.runs.append(self.length)
        self.runs_at = id(self.runs)

    def stand(self, place):
        """Let what is recorded stand at the place of an instruction whose rule is run; from now on at that of its own, if `place` is None."""
        self.calling, self.offset = place, -1
        if place is not None:
            if id(place.f_code) != self.running:
                self.note_code(place)
            self.offset = place.f_lasti

    # -- reading --------------------------------------------------------------
    def records(self):
        """The records as a structured array (a view; `integer` overlays `constant`)."""
        return self.view.view(RECORD_DTYPE)[: self.length]

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
        return layout.unpack_from(self.buffer, slot * RECORD.size)

    def place(self, slot):
        """Where instruction `slot` was recorded."""
        run = bisect_right(self.runs, slot) - 1
        offset = self.read(slot)[3]
        return Place(self.codes[run], offset) if run >= 0 else Place(None, 0)

    def memory(self):
        """Bytes held: records, saved values (each array once)."""
        saved = {id(v): v.nbytes for v in self.objects if hasattr(v, "nbytes")}
        return {"records": len(self.buffer), "saved": sum(saved.values())}

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
        self.length, self.generation, self.special, self.due = 1, next(_GENERATIONS), False, self.capacity
        self.leaves.clear()
        self.leaf_list.clear()
        if self.codes:
            self.running = self.outside = 0
            self.runs.clear()
            self.codes.clear()
        if self.seen:
            self.seen.clear()
        if self.savers:
            self.nbytes, self.watched = 0, Watched()
            self.objects.clear()
            self.savers.clear()
        else:
            self.watched.born = Exposure.count
        if self.passing:
            self.signatures, self.passing, self.pending = {}, 0, []
        self.others = self.cleared = 0
        self.began = 0.0
        if self.clearings:
            self.clearings.clear()
        if self.in_python or self.hooks or self.node_hooks or self.pre_hooks or self.retained:
            for by_slot in (self.in_python, self.hooks, self.node_hooks, self.pre_hooks, self.retained):
                by_slot.clear()
        self._set_limit()

    def forget(self):
        """Drop the contents; nothing is written to this store again."""
        self.buffer, self.view, self.address, self.capacity, self.limit, self.length = b"", None, 0, 0, 0, 0
        self.running = self.outside = self.runs_at = 0
        self.objects = self.savers = self.leaf_list = self.watched = self.runs = self.codes = self.pending = ()
        self.signatures = self.leaves = self.in_python = self.hooks = self.node_hooks = self.pre_hooks = self.retained = {}


RECORD_DTYPE = np.dtype(
    {
        "names": "op a b offset value constant integer".split(), "formats": "i4 i4 i4 i4 f8 f8 i8".split(),
        "offsets": [0, 4, 8, 12, 16, 24, 24], "itemsize": RECORD.size,
    }
)  # fmt: skip


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
    evaluating : int
        How many functions are being evaluated inside of a derivative.
    switched_off : int
        How many times recording has been switched off, which dual numbers do not heed.
    """

    #: Makes `checking` of a thread that begins (`tg.config.debug_nans`).
    looking = staticmethod(lambda: None)

    __slots__ = ("ident", "enabled", "checking", "store", "anonymous", "tapes", "spare", "variables", "evaluating", "switched_off", "__weakref__")

    def __init__(self):
        self.ident, self.enabled, self.checking = get_ident(), True, self.looking()
        self.tapes, self.spare, self.variables, self.evaluating, self.switched_off = [], None, (), 0, 0
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
#: Where compiled code finds the state: under this key in the dict that CPython has for each thread.
STATE_KEY = "tapegrad.ThreadState"
_of_this_thread = ctypes.pythonapi.PyThreadState_GetDict
#: (A `py_object` would be taken for a reference of ours.)
_of_this_thread.restype = ctypes.c_void_p


def thread_state():
    """The calling thread's `ThreadState`."""
    try:
        return _LOCAL.state
    except AttributeError:
        _LOCAL.state = ctypes.cast(_of_this_thread(), ctypes.py_object).value[STATE_KEY] = ThreadState()
        return _LOCAL.state
