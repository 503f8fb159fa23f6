"""Changes in place: ``+=`` and friends, ``zero_()``, assignment to `.data`.

On the tape a change in place is a new instruction: the same tensor object
points to it from then on.  Outside the tape (constants, or anything under
``no_grad``) the memory itself changes; then the tensor gets a new key, by which
a backward pass that needs the old value notices, and remembers the line.
"""

from __future__ import annotations

import numpy as np

from ..common.dtypes import check_class, readable
from ..common.errors import DtypeError, GradientError
from ..rules import BY_NAME
from ..tape.meta import meta_of
from ..tape.places import caller_place
from .differentiable import Traced
from .functions import astype
from .record import apply, as_operand, normalise, recorded
from .views import root_of, sharers, views_of


def _changed(x):
    """Note that the memory of constant or leaf `x`, and of what it shares memory with, has changed here."""
    extras = x._extras()
    x._k = object()
    place = extras.changed = caller_place(4)
    if extras.made is None and extras.source is None and extras.views is None and not extras.leaves:
        return
    for t in sharers(x):
        t._k = object()
        t._extras().changed = place


def _refuse_interior(x):
    if x._t is not None:
        raise GradientError(
            f"a computed tensor of shape {tuple(x.shape)} ({x.grad_fn.name()}) is changed in place while recording is "
            "off; its instruction would keep the old value. Change a copy (x.detach().clone()), or do it with recording on"
        )


def is_argument(x):
    """Whether `x` is an argument of the function that is being recorded."""
    return x._t is not None and x._t.trace is not None and x._t.trace.is_argument(x)


def argument_changed():
    """The error for an argument of a recorded function that is changed in place."""
    return GradientError(
        "an argument of a recorded function is changed in place: NumPy would change the caller's array, which a replay does "
        "not. Work on a copy, y = x.copy()"
    )


def assign_value(x, value):
    """Replace the whole value of `x` (the setter of ``.data``)."""
    check_class(value, ".data")
    value = normalise(readable(np.array(value._v if isinstance(value, Traced) else value)))
    if np.shape(value) != x.shape:
        raise ValueError(f"the new value of shape {np.shape(value)} does not fit a tensor of shape {tuple(x.shape)}")
    _refuse_interior(x)
    x._v = value
    if type(value) is not float:
        x._m = meta_of(value)
    _changed(x)


def assign_elements(x, key, value):
    """``x[key] = value`` outside the tape."""
    _refuse_interior(x)
    if type(x._v) is float:
        if not (key == () or key is Ellipsis):
            raise IndexError("a 0-d tensor takes only the indices () and ...")
        assign_value(x, value)
        return
    x._v[key] = value
    _changed(x)


def _filler(value):
    def method(self):
        _refuse_or_record(self)
        assign_elements(self, Ellipsis, value)
        return self

    method.__doc__ = f"Set every element to {value:g} in place; returns self."
    return method


def _refuse_or_record(x):
    if recorded(x):
        raise GradientError(
            "a tensor that requires a gradient, or a dual number, is filled in place; do it under tg.no_grad(), or write "
            "x[...] = value"
        )


def fill_(self, value):
    """Set every element to `value` in place; returns self."""
    _refuse_or_record(self)
    assign_elements(self, Ellipsis, value)
    return self


def copy_(self, other):
    """Set the elements to those of `other` in place; returns self."""
    _refuse_or_record(self)
    assign_elements(self, Ellipsis, other._v if isinstance(other, Traced) else other)
    return self


def _operator(row):
    """``x <op>= other`` for a row: one function each, without a call in between."""

    def update(x, other):
        if not isinstance(other, (Traced, float, int, np.ndarray, np.generic, list)):
            return NotImplemented
        if recorded(x, other):
            root = root_of(x)[0]
            if root._t is None and root._r:
                raise GradientError(
                    "a leaf tensor that requires a gradient (or a view of one) is being used in an in-place operation; "
                    "update weights under tg.no_grad(), or write x = x + ... to go on with a new tensor"
                )
            if type(x._v) is not float and is_argument(root):
                raise argument_changed()
            result = apply(row, (x, other))
            if result.shape != x.shape:
                raise ValueError(f"the result of shape {tuple(result.shape)} does not fit in place of {tuple(x.shape)}")
            if result.dtype != x.dtype:
                if x.dtype.kind != "f":
                    raise DtypeError(f"a result that requires a gradient does not fit in place of dtype {x.dtype}")
                result = astype(result, x.dtype)
            if type(x._v) is not float and (root is not x or views_of(x)):
                x[...] = result
            else:
                x._become(result)
            return x
        _refuse_interior(x)
        other = other._v if isinstance(other, Traced) else as_operand(other, row.name)
        if type(x._v) is float:
            assign_value(x, normalise(row.value(x._v, other)))
        else:
            row.value(x._v, other, x._v)
            _changed(x)
        return x

    return update


def _method(name, update):
    def method(self, other):
        result = update(self, other)
        if result is NotImplemented:
            raise TypeError(f"{name}_() does not know an operand of type {type(other).__name__}")
        return result

    method.__doc__ = f"`{name}` in place; returns self."
    return method


_UPDATES = {name: _operator(BY_NAME[name]) for name in ("add", "subtract", "multiply", "divide", "power", "remainder")}
for _symbol, _name in zip(("add", "sub", "mul", "truediv", "pow", "mod"), _UPDATES):
    setattr(Traced, f"__i{_symbol}__", _UPDATES[_name])
Traced.zero_ = _filler(0.0)
Traced.fill_ = fill_
Traced.copy_ = copy_
for _short, _name in (("add_", "add"), ("sub_", "subtract"), ("mul_", "multiply"), ("div_", "divide")):
    setattr(Traced, _short, _method(_name, _UPDATES[_name]))
