"""The fields of tensors and dual numbers: of a native type (`interpreter.numbers`), or of a class of Python.

They are native where that is wanted (`config.native`), possible, and at hand: an import compiles nothing, unless it is told to.  The code
comes with a wheel; from a source tree the first process that differentiates compiles it (`make`), and those after it have it.

`Fields`          the class that tensors and dual numbers derive from.
`native`          decorator: a class of Python, derived from `Fields` and without fields of its own, as a native type, with the operators of
                  numbers.
`constant`        ``constant(kind, value)``, a new object of a class of tensors with a value, which lies on no store.
`place`           ``place(t, store, slot)`` lets a tensor lie in a slot of a store, or (None) on none, whatever it was before.
`live`            ``live(store)``, the tensors that lie on a store.
`record_element`  ``record_element(opcode, vector, position, number)``, the short way of a function of ours that has read an element of
                  a vector, by the opcode of a signature; None where it has to be the general way.
`record_row`      ``record_row(row, attrs, a, b, value, integer)``, the short way of a row of one operand (`b` None) or two; `value` is the
                  result of arrays where that is known, or None; None where it has to be the general way.
`record_choice`   ``record_choice(row, condition, a, b, value)``, that of a choice, between arrays by an array of truth values, or between numbers,
                  whose `value` is a float, by a truth value.
`array_ufunc`     the ``__array_ufunc__`` of a class of tensors that has the short ways of numbers and arrays; or None.
`share`           tells the native type what it has to know: ``share("tensor", cls)`` and ``share("parameter", cls)``, the classes whose
                  instances take the short way (results are of the first); ``share("describe", function)``
                  and ``share("copy", function)``, what describes a constant array (None: the general way has to), and what copies one
                  that is not large; ``share("apart", function)``, what copies a small part of an array; ``share("ufunc", function)``, the
                  general way of ufuncs, and ``share("of one", table)`` and ``share("of two", table)``, by the ufunc its row and a
                  function of floats (None: of a power); and ``share(name, function, row)``, the general way and the row of an operator;
                  ``share("update add", function)``, its general way in place, and ``share("changed", function)``, which lets a tensor of an
                  array be the result of one.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from ..common import config
from ..common.uninterrupted import imported, uninterrupted

#: Whether a native type can be.
_POSSIBLE = config.native != "never" and not config.portable and object.__basicsize__ == 16


@uninterrupted
def _compiled() -> Any:
    """The module of the native type, or None."""
    if not _POSSIBLE:
        return None
    try:
        imported("llvmlite")
    except ImportError:
        # Nothing that is compiled works without it, and nothing compiled is asked for yet.
        return None
    if config.native != "always":
        from ..codegen.code import at_hand
        from ..codegen.compile import key_of

        package = __name__.partition(".")[0]
        # What it imports is compiled before it.
        pieces = (
            ("interpreter.numbers", "numbers", ""), ("codegen.python_api", "data_address", "object(object)"),
            ("codegen.memory", "digest", "int64(int64, int64)"),
        )  # fmt: skip
        if not all(at_hand(key_of(f"{package}.{module}", *names)) for module, *names in pieces):
            return None
    from . import numbers

    return numbers


numbers = _compiled()
if numbers is not None and not TYPE_CHECKING:
    Fields, native, place, constant, share = numbers.Fields, numbers.native, numbers.place, numbers.constant, numbers.share
    record_element, record_row, record_choice = numbers.record_element, numbers.record_row, numbers.record_choice
    array_ufunc = numbers.array_ufunc
    from ..codegen.python_api import data_address

    def live(store):
        """The tensors that lie on a store."""
        return numbers.live_on(store.words)

else:

    class Fields:
        """The fields of tensors and dual numbers."""

        __slots__ = (
            "_v", "_t", "_i", "_m", "_r", "_k", "_x", "_d", "_lanes", "_level", "_known_on", "_known_key", "_known_slot", "__weakref__",
        )  # fmt: skip
        _d: Any
        _lanes: Any
        _level: Any

    def place(t, store, slot):
        """Let a tensor lie in a slot of a store, or (None) on none, whatever it was before."""
        t._t, t._i = store, slot
        if store is not None:
            store.seen.append(weakref.ref(t))

    def constant(kind, value):
        """A new object of a class of tensors with a value, which lies on no store."""
        t = object.__new__(kind)
        t._v = value
        t._t = t._m = t._k = t._x = None
        t._i, t._r = 0, False
        return t

    def live(store):
        """The tensors that lie on a store."""
        alive = [t for t in [reference() for reference in store.seen] if t is not None and t._t is store]
        # Each once; equality of tensors is another thing.
        alive = list(dict(zip(map(id, alive), alive)).values())
        store.seen = list(map(weakref.ref, alive))
        return alive

    def native(cls, operators=True):
        """Decorator: where there are no native types a class stays what it is."""
        return cls

    def _nothing(*_):
        """All go the general way: there is nothing to do."""

    def data_address(array):
        """The address of the first element of an array."""
        return array.__array_interface__["data"][0]

    record_element = record_row = record_choice = array_ufunc = share = _nothing


@uninterrupted
def make():
    """Compile what the next process has at hand."""
    if numbers is None and _POSSIBLE:
        from . import numbers as _  # noqa: F401
