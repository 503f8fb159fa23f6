"""Comparison of values that are no inputs of a recording: by type and value where that is exact, else by identity.

``1``, ``1.0`` and ``True`` are equal keys of a dict, as ``0.0`` and ``-0.0`` are, and a NaN is not even equal to itself;
a function can tell all of them apart.
"""

import dataclasses
import enum
import pickle

import numpy as np


class Identity:
    """A mark that is equal to that of the same object only, which it keeps alive."""

    __slots__ = ("thing",)

    def __init__(self, thing):
        self.thing = thing

    def __eq__(self, other):
        return isinstance(other, Identity) and self.thing is other.thing

    def __hash__(self):
        return id(self.thing)

    def __repr__(self):
        return repr(self.thing)


#: Types whose equal values are the same to any function.
_EXACT = {int, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented)}


def exact(value):
    """A mark, ``(type, what is compared)``: equal to that of another value only if no function can tell the two apart.

    Objects that are compared by identity are kept alive by their mark.
    """
    kind = type(value)
    if kind in _EXACT:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, (value.real.hex(), value.imag.hex())
    if kind is tuple or kind is frozenset:
        # Equal sets may be in another order, which a function sees.
        return kind, tuple([exact(part) for part in value])
    if kind is slice or kind is range:
        return kind, tuple([exact(part) for part in (value.start, value.stop, value.step)])
    if kind is np.ndarray and value.dtype == object:
        return kind, (value.shape, tuple([exact(part) for part in value.ravel().tolist()]))
    if isinstance(value, np.generic) and kind.__module__ == "numpy" and not value.dtype.hasobject:
        # The text of a dtype does not name fields.
        return kind, (value.dtype, value.tobytes())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        # Of a class of its own also what that has besides, as a mask.
        own = tuple([(name, exact(part)) for name, part in getattr(value, "__dict__", {}).items()])
        return kind, (value.shape, value.strides, value.dtype, np.asarray(value).tobytes(), own)
    if is_labelled(kind):
        # Labels, names, dtypes and numbers; no attribute of theirs has all of them.
        return kind, pickle.dumps(value)
    if _is_frozen(value):
        return kind, tuple([exact(getattr(value, field.name)) for field in dataclasses.fields(value)])
    return kind, Identity(value)


def is_labelled(kind):
    """Whether it is a class of tables or labelled arrays: these are no arrays, cannot be hashed, and consist of their contents."""
    return kind.__module__.partition(".")[0] in ("pandas", "xarray") and kind.__hash__ is None


def _is_frozen(value):
    """Whether it is a frozen dataclass that is nothing but its fields."""
    if isinstance(value, (type, enum.Enum)) or not dataclasses.is_dataclass(value) or not type(value).__dataclass_params__.frozen:
        return False
    names = {field.name for field in dataclasses.fields(value)}
    return getattr(value, "__dict__", {}).keys() <= names and all(hasattr(value, name) for name in names)
