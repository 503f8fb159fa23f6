"""Recording: one operation on tensors becomes a value and, if needed, an instruction.

`apply` is the way of every operation but the scalar operators, which have a
fast path of their own in `tapegrad.array.operators`.  It computes the value at once with
the row's NumPy function, and writes an instruction if some operand is tracked
and recording is on (`_write`).

What has no derivative is computed through `record_nondiff`, `record_aux` or `guard_on`, so that a functional
recording (`tapegrad.transforms.replay`) knows of it: as a result, as a constant of a rule, as what Python decides on.

These functions run for every operation of a user's program.  Where they are long, or say a thing twice,
that is because a call of a Python function costs as much as a tenth of an operation.
"""

import sys
from _thread import get_ident

import numpy as np

from ..common import config
from ..common.dtypes import NUMBERS, check_class, check_classes, check_dtype, readable
from ..common.errors import ClearedTapeError, ComplexOperandError, NestingError, TapeMismatchError
from ..common.observers import LISTENERS, notify
from ..common.registry import registry
from ..interpreter.fields import constant, place, record_row
from ..interpreter.signature import Signature
from ..rules import BY_NAME
from ..tape.layout import CLEARED, SCALAR, TRACED, checked, meta_of
from ..tape.places import PACKAGE
from ..tape.store import OBJECT_BYTES, thread_state
from ..tape.watch import EXPOSED, apart, copy_of, owner_of, stamp
from .differentiable import Differentiable, below
from .views import root_of

_frame = sys._getframe


# ---- the recording an operation is part of -------------------------------------------------------
def of_another_thread(t):
    """The error for `t`, of the tape of another thread."""
    return TapeMismatchError(
        f"this tensor of shape {tuple(t.shape)} was computed in another thread, on that thread's tape; "
        "pass leaves (or .detach()ed values) between threads and compute in the thread that differentiates"
    )


def trace_of(operands):
    """The trace of a functional recording that one of the operands belongs to, of the innermost one if there are several, or None."""
    chosen = None
    for o in operands:
        o = below(o)
        if isinstance(o, registry.Tensor) and o._t is not None:
            trace = o._t.trace
            if trace is not None and (chosen is None or trace.depth > chosen.depth or chosen.store.retired):
                chosen = trace
    # While a body is recorded, what it does to tensors of a recording around it is done in each iteration.
    return chosen and (current_body() or (None if chosen.store.retired else chosen))


def current_body():
    """The trace of the body of a loop that this thread is recording, or None."""
    trace = thread_state().store.trace
    return trace if trace is not None and trace.depth else None


def failed(error, row, operands, values=(), attrs=(), integer=0):
    """NumPy has raised `error` where it computed a row (None: something else): a functional recording notes it."""
    trace = trace_of(operands)
    if trace is not None:
        trace.failed(error, row, list(map(below, operands)), values, attrs, integer)


def computed(function, values, operands):
    """``function(*values)``, the values of `operands`."""
    try:
        return function(*values)
    except Exception as error:
        failed(error, None, operands)
        raise


# ---- operations ----------------------------------------------------------------------------------
def plain(value):
    """A tensor that is not on any tape, around `value` (normalised already)."""
    return constant(registry.Tensor, value)


def live(value):
    """A tensor for `value` (normalised already) that a functional recording puts on its tape."""
    t = plain(value)
    if value.__class__ is not float and value.dtype.kind != "f":
        t.__class__ = registry.IntTensor
    return t


def _described(t):
    """The description of an array tensor, found out when it is first needed."""
    t._m = meta = meta_of(t._v)
    return meta


def normalise(value):
    """The value of a tensor: a Python float for float64 scalars, else an ndarray."""
    kind = type(value)
    if kind is float:
        return value
    if kind is np.ndarray:
        return float(value) if value.ndim == 0 and value.dtype.char == "d" else value
    if kind is np.float64 or kind is int:
        return float(value)
    return normalise(np.asarray(value))


def as_operand(thing, row_name="operation"):
    """An operand that is not a tensor as something NumPy computes with.

    Python ints become floats; arrays are checked for dtypes without derivative.  What holds tensors becomes a tensor.
    """
    kind = type(thing)
    if kind is float:
        return thing
    if kind is np.ndarray and thing.ndim and thing.dtype.char in "dfl?" and thing.dtype.isnative and thing.flags.aligned:
        return thing
    if isinstance(thing, (int, float)):
        # (NumPy's float64 is a float, a truth value an integer, and so are members of an ``IntEnum``.)
        return float(thing)
    if isinstance(thing, (np.ndarray, np.generic)):
        check_class(thing, row_name)
        thing = registry.objects.joined(thing, plain_numbers=True)
        if isinstance(thing, Differentiable):
            return thing
        array = readable(np.asarray(thing))
        check_dtype(array, row_name)
        if array.dtype.char == "e":
            # Promotes like half precision with everything that carries a derivative.
            array = array.astype(np.float32)
        return float(array) if array.ndim == 0 and array.dtype.char == "d" else array
    if isinstance(thing, (list, tuple)):
        if not registry.objects.holds_tensors(thing):
            return as_operand(np.asarray(thing), row_name)
        thing = registry.objects.stacked(thing)
        if isinstance(thing, Differentiable):
            return thing
    if isinstance(thing, (complex, registry.objects.Complex)):
        raise ComplexOperandError(f"{row_name}: complex numbers are not taken here; give real and imaginary parts (z.real, z.imag)")
    if kind is registry.Call:
        return thing
    array = registry.objects.operand(thing)
    if array is not thing:
        return array if isinstance(array, Differentiable) else as_operand(array, row_name)
    raise TypeError(f"{row_name}() does not know what to do with an operand of type {kind.__name__}")


def store_of(t):
    """The store of tensor `t`, an interior one; that of another thread is refused.

    A store that a backward pass has used up is returned as it is.
    """
    store = t._t
    if store.retired is None and store.thread.ident != get_ident():
        raise of_another_thread(t)
    return store


def nesting_error(what):
    """The error for a number that another derivative is being taken by."""
    return NestingError(
        f"{what} is itself being differentiated, outside of the function that is differentiated here: derivatives of "
        "derivatives by nesting are not supported here. Pass it as an argument, or its value (.detach()); for a second "
        "derivative put forward mode inside (tg.grad(tg.derivative(f)))"
    )


def kept_error(place):
    """The error for a number that a function has kept from a call that ended at `place`."""
    return ClearedTapeError(
        f"a number is used that the function has kept from an earlier call: it was cleared at {place}, and its derivative is gone. Keep its value, "
        "t.item() or t.detach(), or compute it in this call; make arrays that are filled in the function, too"
    )


def choose_store(operands):
    """The store that an operation on these tracked tensors is recorded on (None: a constant)."""
    chosen, ident = None, get_ident()
    for t in operands:
        if t is None or t._t is None or t._t is chosen:
            continue
        store = t._t if t._t.ident == ident else store_of(t)
        if store.retired is not None:
            continue
        if chosen is not None and (chosen.trace is not None or store.trace is not None):
            # That of a body, which may use tensors of those around it.
            chosen = max(chosen, store, key=lambda s: 0 if s.trace is None else s.trace.depth)
            if chosen.trace is None or not chosen.trace.depth:
                raise nesting_error("an operand of an operation")
            if not chosen.trace.open:
                raise chosen.trace.leaked(next(t for t in operands if t is not None and t._t is chosen))
            continue
        if chosen is not None:
            raise TapeMismatchError(
                "the operands were recorded on two different tapes; compute them under the same `with tg.Tape()` "
                "block, or .detach() the one that needs no gradient here"
            )
        chosen = store
    if chosen is None:
        chosen = thread_state().store
    elif chosen.trace is not None and (body := current_body()):
        chosen = body.store
    return chosen


def slot_of(store, t):
    """The slot on `store` of tensor `t`, which is on another one; None if it was recorded there without derivative."""
    if store.trace is not None and store.trace.depth:
        return store.trace.captured_slot(t)
    if not t.requires_grad:
        return None
    if store.trace is not None:
        raise kept_error(t._t.retired)
    # Its own store is used up: an instruction that says so when it is needed.
    slot = store.write(CLEARED, len(store.clearings))
    store.clearings.append(t._t.retired)
    return slot


def tracked(t):
    """Whether `t` is a tensor that requires a gradient, or a dual number."""
    return isinstance(t, Differentiable) and (t._t is not None or t._r or t.__class__ is registry.Dual)


def recorded(*operands):
    """Whether a change in place, of the first by the others, is an instruction: one is tracked, and not switched off by ``no_grad``."""
    body, store = current_body(), operands[0]._t
    if body is not None and store is None and not body.is_outside(operands[0]):
        body.about_to_change(operands[0])
    elif body is not None and store is not body.store and (store is None or store.trace is not None):
        # Before anything has been changed: each iteration of a Python loop changes it.
        raise body.refused("it changes in place what was computed outside of the body of a loop")
    if thread_state().enabled:
        return any(map(tracked, operands))
    trace, changed = trace_of(operands), operands[0]
    if trace is not None and changed._t is None:
        raise trace.refused("it writes what depends on an argument into a tensor under no_grad, which no replay would do")
    # (What a recording computes under no_grad is a constant in a plain run.)
    return registry.Dual in map(type, operands) or trace is not None and not changed.requires_grad


def apply(row, operands, attrs=(), value=None, integer=0, depth=3, short=True):
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
    depth : int
        How many calls the user's code is away from `_write`: asking for each frame in between costs more than writing the instruction.
    short : bool
        Whether the native short way is asked; an operator of the native type has asked it.
    """
    if row.__class__ is str:
        row = BY_NAME[row]
    if short and len(operands) < 3:
        t = record_row(row, attrs, operands[0], operands[1] if len(operands) == 2 else None, value, integer)
        if t is not None:
            return t
    Tensor = registry.Tensor
    operands, values, metas, flags = list(operands), [], [], []
    numbers, arrays = [], False
    for k, o in enumerate(operands):
        if not isinstance(o, Differentiable) and o.__class__ is not float:
            given = o
            try:
                o = operands[k] = float(given) if row.elementwise and given.__class__ in NUMBERS else as_operand(given, row.name)
            except ComplexOperandError:
                return registry.objects.at_door(row, operands, attrs, integer)
            if o.__class__ is float:
                numbers.append((k, given))
        if o.__class__ is registry.Dual:
            for at, given in numbers:
                operands[at] = given
            return o._apply_row(row, operands, attrs, value, integer)
        tensor = isinstance(o, Tensor)
        v = o._v if tensor else o
        values.append(v)
        flags.append(tensor and (o._t is not None or o._r))
        if v.__class__ is float:
            metas.append(SCALAR)
        else:
            metas.append((o._m or _described(o)) if tensor else meta_of(v))
            arrays = True
    if arrays and row.elementwise and SCALAR in metas:
        _promote(row, numbers, operands, values, metas)
    if value is None:
        try:
            if attrs:
                value = normalise(row.value(*values, **row.keywords(attrs, integer)))
            elif not arrays and row.scalar is not None:
                value = scalar_value(row, values)
            else:
                value = row.value(*values)
                if value.__class__ is not np.ndarray or value.ndim == 0:
                    value = normalise(value)
        except Exception as error:
            failed(error, row, operands, values, attrs, integer)
            raise
        if row.raises:
            # A rule gives the value of such a row, which is NaN where this raises: only here has it succeeded.
            result, trace = apply(row, operands, attrs, value, integer, depth + 1), trace_of(operands)
            if trace is not None:
                trace.succeeded(result)
            return result
    if True not in flags:
        return plain(value)
    enabled = thread_state().enabled
    if row.constants:
        refused = [k for k in row.refused if flags[k] and enabled and operands[k].__class__ is not registry.IntTensor]
        for k in refused:
            if trace_of((operands[k],)) is None:
                row.refuse(k)
        trace = trace_of(operands)
        if trace is not None and trace.depth:
            # Positions that a body has computed choose from what stands outside: that is read inside.
            if not trace.open:
                raise trace.leaked(next(o for o in operands if isinstance(o, Tensor) and o._t is trace.store))
            operands = [trace.here(o) if on and o._t is not trace.store else o for o, on in zip(operands, flags)]
        flags = [flags[k] for k in row.slots(len(operands))]
        if refused:
            # Whether the derivative that is missing will be asked for is not known while a function is recorded.
            on_tape = _write(row, operands, values, tuple(metas), tuple(flags), attrs, value, integer, depth) if True in flags else None
            result = without_derivative(row, operands, values, attrs, value, integer) if on_tape is None else on_tape
            for k in refused:
                result = apply("underived", (result, operands[k]), (("of", row.name), ("position", k)))
            return result
        if True not in flags:
            return without_derivative(row, operands, values, attrs, value, integer)
    if not enabled:
        if LISTENERS:
            notify("no_grad", *operands)
        return without_derivative(row, operands, values, attrs, value, integer)
    return _write(row, operands, values, tuple(metas), tuple(flags), attrs, value, integer, depth)


def _promote(row, numbers, operands, values, metas):
    """Let constant numbers promote as in NumPy beside an array that is not float64.

    A Python float, and a tracked one, is weak, as is a float32 number beside a tracked one; a NumPy scalar has its own dtype, a number of a class
    derived from Python's that which NumPy gives it; a Python int beside integers stays one, and a truth value is one.

    Parameters
    ----------
    numbers : list of (int, object)
        Positions of operands that have become floats, and what they were.
    operands, values, metas : list
        Of all operands: changed in place.
    """
    for k, wide in enumerate(widened(operands)):
        if wide is not operands[k]:
            operands[k], values[k], metas[k] = wide, getattr(wide, "_v", wide), SCALAR
    for k, number in numbers:
        char = next((m.char for j, m in enumerate(metas) if m is not SCALAR and m.char != "d" and j not in row.constants), "d")
        if char == "d" or k in row.constants:
            continue
        if isinstance(number, (int, float, np.generic, np.ndarray)) and number.__class__ not in (bool, int, float):
            strong = np.asarray(number)
        elif number.__class__ is bool and char not in "df":
            strong = np.asarray(number)
        elif number.__class__ is int and char not in "df":
            strong = np.asarray(number, "l" if char == "?" else char)
        else:
            continue
        operands[k], values[k], metas[k] = strong, strong, meta_of(strong)


def widened(operands):
    """Operands of an element-wise row with constant float32 numbers as float64 beside a float64 number that is a tensor or dual number."""
    if not any([isinstance(o, Differentiable) and o._v.__class__ is float for o in operands]):
        return operands
    return [_wide(o) if isinstance(o, (np.ndarray, np.generic, registry.Tensor)) and o.dtype.char in "fe" and not o.ndim else o for o in operands]


def _wide(number):
    """A number as float64; a tensor only if it is one that a recording computes without derivative."""
    if not isinstance(number, Differentiable):
        return float(number)
    return number if number._t is None or number.requires_grad else number.astype(np.float64)


def without_derivative(row, operands, values, attrs, value, integer=0):
    """The result of an operation that passes no derivative: a constant, except in a functional recording."""
    trace = trace_of(operands)
    return plain(value) if trace is None else trace.record(row, attrs, operands, values, integer, value)


def record_nondiff(function, operands, value):
    """The result `value` of a NumPy function without derivative: a constant, except in a functional recording."""
    check_classes(function, operands)
    trace = trace_of(operands)
    return plain(np.asarray(value)) if trace is None else trace.host(function, list(map(below, operands)), {}, np.asarray(value))


def record_aux(function, *operands):
    """``function(*values)``, an array that a rule takes as a constant: computed again at each replay.

    Parameters
    ----------
    function : callable
        Takes and gives plain arrays; looks at nothing else.
    *operands : Tensor, ndarray or number

    Returns
    -------
    ndarray, or Tensor
        A live tensor in a functional recording.
    """
    check_classes(function, operands)
    values = [o._v if isinstance(o, Differentiable) else o for o in operands]
    value = computed(function, [np.asarray(v) for v in values], operands)
    trace = trace_of(operands)
    return value if trace is None else trace.host(function, list(map(below, operands)), {}, np.asarray(value))


def guard_on(function, *operands):
    """``function(*values)``, on which Python code is about to decide: a functional recording guards the outcome."""
    outcome = record_aux(function, *operands)
    return outcome._let_out("a decision") if isinstance(outcome, Differentiable) else outcome


def scalar_value(row, values):
    """The value on Python floats, with NumPy's result where Python raises."""
    try:
        result = row.scalar(*values)
        if type(result) is float:
            return result
    except (ZeroDivisionError, OverflowError, ValueError):
        pass
    return normalise(row.value(*[np.float64(v) for v in values]))


def _write(row, operands, values, metas, flags, attrs, value, integer, depth=3):
    """Write the instruction of an operation already computed; returns its tensor.

    Parameters
    ----------
    operands, values, metas : sequence
        Every operand: itself, its value, its description (in a tuple).
    flags : tuple of bool
        For every operand that can carry a derivative: whether it is on the tape.
    """
    slots = row.slots(len(operands)) if row.constants else _RANGES[len(operands)] if len(operands) < 3 else range(len(operands))
    # (Loops: a comprehension is a call before Python 3.12.)
    on_tape, operand_slots = [], []
    for k, on in zip(slots, flags):
        on_tape.append(operands[k] if on else None)
    store = choose_store(on_tape)
    if store.length + len(operands) >= store.limit or store.nbytes > store.byte_limit and not store.pinned:
        store = with_room(store, on_tape, len(operands))
    for t in on_tape:
        operand_slots.append(0 if t is None else t._i if t._t is store else store.enter(t) if t._t is None else slot_of(store, t))
    if None in operand_slots:
        operands = [o if isinstance(o, Differentiable) and o.requires_grad else getattr(o, "_v", o) for o in operands]
        return apply(row, operands, attrs, value, integer, depth + 2)
    scalar = value.__class__ is float
    frame = store.calling
    if frame is None:
        try:
            frame = _frame(depth)
        except ValueError:  # called by tapegrad itself, at the bottom of the stack
            frame = _frame(1)
    if id(frame.f_code) != store.outside:
        while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        store.outside = id(frame.f_code)
    if id(frame.f_code) != store.running:
        store.note_code(frame)
    if store.ident < 0 and store.thread.checking is not None:
        store.thread.checking.result(row.name, values, value, frame)

    trace, number = store.trace, value if scalar else 0.0
    # (Of numbers and single truth values.)
    if scalar and row.scalar_instruction and all([m is SCALAR or m.shape == () and m.char == "?" for m in metas]) and (
        # A choice between a value and a constant has no room for the constant in its record, only in an entry.
        trace is None
        or (len(values) < 3 or 0 not in operand_slots)
        and all(m is SCALAR and k not in row.refused or trace_of((o,)) is None for k, (o, m) in enumerate(zip(operands, metas)))
    ):
        if row.calls_scipy:
            store.special = True
        opcode, left, right = row.opcode, 0, 0
        if len(values) == 3:
            # Only `where` has a third, constant operand: it is the inline constant.
            left, right, last = operand_slots[0], operand_slots[1], float(values[0])
        else:
            last = 0.0
            sides = [0, 0]
            for k, operand_slot, on in zip(slots, operand_slots, flags):
                if on:
                    sides[k] = operand_slot
            for k in range(len(values)):
                if not sides[k]:
                    last = float(values[k])
            left, right = sides
    elif trace is not None:
        meta = trace.note(row, attrs, operands, values, metas, integer, value)
        opcode, left, right, last = TRACED, 0, 0, 0
    else:
        key = (row, attrs, metas, flags)
        signature = store.signatures.get(key)
        # The last result of this key may lie in memory otherwise.  (To compare is quicker than `meta_of`.)
        if signature is None or (
            signature.out is not SCALAR if scalar else
            (out := signature.out).strides != value.strides or out.shape != value.shape or out.dtype is not value.dtype
        ):  # fmt: skip
            signature = Signature.noted(store, key, meta_of(value))
        if len(operand_slots) > 2:
            store.write_operands(operand_slots)
        if signature.saves:
            integer = _keep(store, signature, operands, values, value)
        opcode, left, last = signature.opcode, operand_slots[0], integer
        right = operand_slots[1] if len(operand_slots) > 1 else 0
    t = constant(registry.Tensor if trace is None or scalar or value.dtype.kind == "f" else registry.IntTensor, value)
    place(t, store, store.append(opcode, left, right, frame.f_lasti, number, last))
    if not scalar:
        t._m = meta if trace is not None else signature.out
    return t


_RANGES = (range(0), range(1), range(2))


def with_room(store, operands, count):
    """The store to record on where `store`, chosen for these operands, has no room for as many entries, or holds too many bytes."""
    if store.length + count >= store.limit:
        store.make_room()
    else:
        registry.walks.let_go(store)
    return choose_store(operands)


def _keep(store, signature, operands, values, value):
    """Put the values that the signature's program reads on the store; returns their position."""
    objects = store.objects
    position, slot = len(objects), store.length
    store.savers.append(slot)
    if signature.in_python:
        store.in_python[slot] = True
        store.nbytes += values[0].nbytes
        for array in values[0].shared:
            store.watched.add(slot, array, stamp(array), array)
    for k, is_constant in signature.kept:
        saved = value if k < 0 else values[k]
        if is_constant:
            # A read-only index is a map of our own.
            if saved.__class__ is np.ndarray and (saved.flags.writeable or signature.row.elementwise or k not in signature.row.constants):
                saved = _own(store, slot, saved, operands[k])
        elif EXPOSED and saved.__class__ is np.ndarray and id(owner_of(saved)) in EXPOSED:
            store.watched.add(slot, saved, stamp(saved), saved)
        elif saved.__class__ is np.ndarray and saved.base is not None:
            saved = apart(saved)
        objects.append(saved)
    store.nbytes += signature.saved_bytes + OBJECT_BYTES
    return position


def _own(store, slot, saved, operand):
    """A constant operand as the tape keeps it: a copy, or itself, watched."""
    copy = copy_of(saved)
    if copy is None and isinstance(operand, registry.Tensor):
        extras = root_of(operand)[0]._extras()
        copy = copy_of(saved, np.inf) if extras.changed is not None else None
        extras.kept = copy is None
    if copy is None:
        store.watched.add(slot, saved, stamp(saved), operand)
    return saved if copy is None else copy


if config.strict:
    _write = checked(_write)
