"""Recording: one operation on tensors becomes a value and, if needed, an instruction.

`apply` is the way of every operation but the scalar operators, which have a
fast path of their own in `tapegrad.tensor`.  It computes the value at once with
the row's NumPy function, and writes an instruction if some operand is tracked
and recording is on.
"""

from __future__ import annotations

from _thread import get_ident

import numpy as np

from .errors import DtypeError, LeaveTapeError, TapeMismatchError
from .rules import BY_NAME
from .sweep.plan import Signature
from .tape.layout import ARRAY_RECORD, CLEARED, RECORD
from .tape.meta import SCALAR, meta_of
from .tape.places import caller_frame
from .tape.store import OBJECT_BYTES, thread_state

_new = object.__new__


class _Types:
    """The tensor classes, set by tapegrad.tensor when it is imported."""

    Tensor = None


def plain(value):
    """A tensor that is not on any tape, around `value` (normalised already)."""
    t = _new(_Types.Tensor)
    t._v = value
    t._t = None
    t._i = 0
    t._m = meta_of(value) if type(value) is float or isinstance(value, np.ndarray) else None
    t._r = False
    t._k = None
    t._x = None
    return t


def normalise(value):
    """What a tensor holds: a Python float for float64 scalars, else an ndarray."""
    kind = type(value)
    if kind is float:
        return value
    if kind is np.ndarray:
        if value.ndim == 0 and value.dtype.char == "d":
            return float(value)
        return value
    if kind is np.float64 or kind is int:
        return float(value)
    return normalise(np.asarray(value))


def as_operand(thing, row_name="operation"):
    """An operand that is not a tensor as something NumPy computes with.

    Python ints become floats; arrays are checked for dtypes without derivative.
    """
    kind = type(thing)
    if kind is float:
        return thing
    if kind is int or kind is bool or isinstance(thing, np.float64):
        return float(thing)
    if isinstance(thing, (np.ndarray, np.generic)):
        array = np.asarray(thing)
        check_dtype(array, row_name)
        return float(array) if array.ndim == 0 and array.dtype.char == "d" else array
    if isinstance(thing, (list, tuple)):
        return as_operand(_array_of(thing), row_name)
    if isinstance(thing, complex):
        check_dtype(np.asarray(thing), row_name)
    raise TypeError(f"{row_name}() does not know what to do with an operand of type {kind.__name__}")


def _array_of(sequence):
    def has_tensor(items):
        return any(isinstance(i, _Types.Tensor) or isinstance(i, (list, tuple)) and has_tensor(i) for i in items)

    if has_tensor(sequence):
        raise LeaveTapeError("a list of tensors is not an array; join them with tg.stack([...]) (np.stack)")
    return np.asarray(sequence)


def check_dtype(array, what):
    """Refuse dtypes that tapegrad cannot differentiate beside."""
    if array.dtype.kind == "c":
        raise DtypeError(
            f"{what}: complex numbers are not supported yet (got {array.dtype} of shape {array.shape}); "
            "split real and imaginary parts into two real arrays"
        )
    if array.dtype.kind == "O":
        raise DtypeError(f"{what}: an array of Python objects cannot be differentiated; give it a float dtype")
    if array.dtype.kind not in "fiub":
        raise DtypeError(f"{what}: dtype {array.dtype} is not numeric")


def settle(t):
    """Bring tensor `t`, an interior one, to a store it can be used on; returns that store.

    Follows stores that have moved, and refuses those of other threads.  A store
    that a backward pass has used up is returned as it is.
    """
    store = t._t
    while store.forward is not None:
        new, kept = store.forward
        slot = int(np.searchsorted(kept, t._i))
        assert slot < len(kept) and kept[slot] == t._i, "a live tensor was not kept"
        t._t = store = new
        t._i = slot
    if store.retired is None and store.thread.ident != get_ident():
        raise TapeMismatchError(
            f"this tensor of shape {tuple(t.shape)} was computed in another thread, on that thread's tape; "
            "pass leaves (or .detach()ed values) between threads and compute in the thread that differentiates"
        )
    return store


def choose_store(operands):
    """The store that an operation on these tracked tensors is recorded on."""
    chosen = None
    for t in operands:
        if t._t is None:
            continue
        store = settle(t)
        if store.retired is not None or store is chosen:
            continue
        if chosen is not None:
            raise TapeMismatchError(
                "the operands were recorded on two different tapes; compute them under the same `with tg.Tape()` "
                "block, or .detach() the one that needs no gradient here"
            )
        chosen = store
    if chosen is None:
        chosen = thread_state().store
    return chosen


def slot_of(store, t):
    """The slot of tensor `t` on `store` (0: a constant)."""
    if t._t is None:
        return store.enter(t) if t._r else 0
    if t._t is store:
        return t._i
    # Its own store is used up: an instruction that says so when it is needed.
    slot = store.write(CLEARED, 0, 0, 0, 0.0, 0.0)
    store.any_cleared = True
    store.names[slot] = t._t.retired
    return slot


def tracked(t):
    """Whether `t` is a tensor that requires a gradient."""
    return isinstance(t, _Types.Tensor) and (t._t is not None or t._r)


def stamp(array):
    """A digest of the contents of an array: changes when they do.

    Small arrays are their own digest; large ones are summed in 127 interleaved
    lanes, so that moving rows or elements about is noticed too.
    """
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    if data.size <= 4096:
        return data.tobytes()
    words = data[: data.size // 8 * 8].view(np.uint64)
    lanes = words[: words.size // 127 * 127].reshape(-1, 127).sum(axis=0, dtype=np.uint64)
    return lanes.tobytes() + words[words.size // 127 * 127 :].tobytes() + data[data.size // 8 * 8 :].tobytes()


def apply(row, operands, attrs=(), value=None, integer=0):
    """Compute a row and record it.

    Parameters
    ----------
    row : Row or str
    operands : sequence
        Tensors, arrays, numbers.
    attrs : tuple of (str, hashable)
        Attributes of the row.
    value : optional
        The result, where the caller has it already.
    integer : int
        The dynamic attribute.

    Returns
    -------
    Tensor
    """
    if type(row) is str:
        row = BY_NAME[row]
    Tensor = _Types.Tensor
    operands = [o if isinstance(o, Tensor) else as_operand(o, row.name) for o in operands]
    values = [o._v if isinstance(o, Tensor) else o for o in operands]
    if value is None:
        value = compute(row, values, attrs)
    return record(row, operands, values, attrs, value, integer)


def compute(row, values, attrs):
    """The value of a row on plain values, in the form tensors hold."""
    if row.scalar is not None and not attrs and all(type(v) is float for v in values):
        return scalar_value(row, values)
    return normalise(row.value(*values, **dict(attrs)))


def scalar_value(row, values):
    """The value on Python floats, with NumPy's result where Python raises."""
    try:
        result = row.scalar(*values)
        if type(result) is float:
            return result
    except (ZeroDivisionError, OverflowError, ValueError):
        pass
    return normalise(row.value(*[np.float64(v) for v in values]))


def record(row, operands, values, attrs, value, integer=0):
    """Write the instruction of an operation already computed; returns its tensor."""
    Tensor = _Types.Tensor
    slots = row.slots(len(operands))
    on_tape = [isinstance(operands[k], Tensor) and (operands[k]._t is not None or operands[k]._r) for k in slots]
    if True not in on_tape or not thread_state().enabled:
        return plain(value)
    live = [operands[k] for k, on in zip(slots, on_tape) if on]
    store = choose_store(live)
    if store.nbytes > store.byte_limit and not store.explicit:
        store = store.reclaim()
        store = choose_store(live)
    if len(store.tokens) + len(operands) + 4 >= store.capacity:
        store.make_room()
        store = choose_store(live)
    places = [slot_of(store, operands[k]) if on else 0 for k, on in zip(slots, on_tape)]
    frame = caller_frame(2)
    if frame.f_code is not store.code:
        store.note_code(frame.f_code)

    if value.__class__ is float and row.elementwise and _all_scalars(values) and len(slots) <= 2:
        constant = float(values[0]) if row.constants else 0.0
        for k, on in zip(slots, on_tape):
            if not on:
                constant = values[k]
        if row.calls_scipy:
            store.special = True
        token = value
        slot = len(store.tokens)
        RECORD.pack_into(
            store.buffer, slot * RECORD.size, row.opcode, places[0], places[1] if len(places) > 1 else 0,
            frame.f_lasti, value, constant,
        )
    else:
        metas = tuple([meta_of(v) for v in values])
        signature = Signature.find(row, attrs, metas, value, tuple(on_tape))
        if len(places) > 2:
            store.write_operands(places)
        if signature.saves:
            integer = len(store.objects)
            slot = len(store.tokens)
            for k in signature.saves:
                if k < 0:
                    store.objects.append(value)
                    continue
                saved = values[k]
                if saved.__class__ is not float and not (k in slots and on_tape[slots.index(k)]):
                    owner = operands[k]
                    key = owner._k if isinstance(owner, Tensor) else None
                    store.constants.append((slot, owner, key, stamp(saved), saved))
                store.objects.append(saved)
            store.nbytes += signature.saved_bytes + OBJECT_BYTES
        slot = len(store.tokens)
        token = value if value.__class__ is float else object()
        ARRAY_RECORD.pack_into(
            store.buffer, slot * RECORD.size, signature.opcode, places[0], places[1] if len(places) > 1 else 0,
            frame.f_lasti, value if value.__class__ is float else 0.0, integer,
        )
    store.tokens.append(token)
    t = _new(Tensor)
    t._v = value
    t._t = store
    t._i = slot
    t._m = SCALAR if value.__class__ is float else meta_of(value)
    t._k = token
    t._x = None
    return t


def _all_scalars(values):
    for v in values:
        if v.__class__ is not float and not (isinstance(v, np.ndarray) and v.ndim == 0 and v.dtype == bool):
            return False
    return True

