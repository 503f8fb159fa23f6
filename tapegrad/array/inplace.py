"""Changes in place: ``+=`` and friends, ``zero_()``, assignment to `.data`.

On the tape a change in place is a new instruction: the same tensor object
points to it from then on.  Outside the tape (constants, or anything under
``no_grad``) the memory itself changes; then the tensor gets a new key, by which
a backward pass that needs the old value notices, and remembers the line.
"""

import numpy as np

from ..common.errors import DtypeError, GradientError
from ..common.registry import attach, registry
from ..common.tree import flatten, is_table
from ..interpreter.fields import share
from ..rules import BY_NAME
from .assigning import assign_value, before_change, check_distinct, note_change, write
from .differentiable import Differentiable
from .functions import astype, reshape
from .operators import power
from .record import apply, as_operand, normalise, recorded, tracked
from .views import root_of, source_of, steps_of, views_of

#: What cannot be changed.
_FIXED = frozenset((float, int, bool, str, type(None)))
_ARRAYS = {np.ndarray}


def is_argument(x):
    """Whether `x` is an argument, as it was given, of a function that is being recorded or differentiated."""
    store = x._t
    if store is None:
        return False
    # (A number that an operation gave has no key.)
    return store.leaves.get(getattr(x, "_k", None)) == x._i if store.trace is None else store.trace.is_argument(x)


def unshared(call, args, kwargs, argnums):
    """``call(args, kwargs, kept)``, where `kept` are the arrays that are not differentiated, each with a copy: for what runs a function again.

    Raises if the call changes an argument of `argnums` by another one that shares its memory, or records what a constant tensor is.
    """
    others = [a for k, a in enumerate(args) if a.__class__ not in _FIXED and k not in argnums]
    if kwargs:
        others += kwargs.values()
    if not others:
        return call(args, kwargs)
    own = [args[k] for k in argnums if k < len(args) and args[k].__class__ is np.ndarray]
    leaves = others if {*map(type, others)} == _ARRAYS else flatten(others)[0]
    tensors = [a for a in leaves if a.__class__ is registry.Tensor and not tracked(a)]
    arrays = [a for a in (*leaves, *(t._v for t in tensors)) if isinstance(a, np.ndarray) and a.flags.writeable]
    before = [(a, a.tobytes()) for a in own for b in arrays if np.may_share_memory(a, b)]
    answer = call(args, kwargs, [(a, a.copy()) for a in arrays])
    if before and any([a.tobytes() != contents for a, contents in before]) or tensors and any(map(tracked, tensors)):
        raise argument_changed()
    return answer


def restore(kept):
    """Let arrays hold again what their copies do."""
    for array, copy in kept:
        array[...] = copy


def argument_changed():
    """The error for an argument of a function under a transformation that is changed in place."""
    return GradientError(
        "an argument of a function that is differentiated is changed in place: in NumPy this would change the caller's array, of "
        "which derivatives here need what it holds. Work on a copy of your own, y = x.copy()"
    )


def assign_elements(x, key, value):
    """``x[key] = value`` outside the tape."""
    before_change(x)
    if type(x._v) is float:
        assign_value(x, value)
        return
    x._v[key] = value
    note_change(x)


def fill_(self, value):
    """Set every element to `value` in place; returns self."""
    root = root_of(self)[0]
    # What `.data` gives is written to without a derivative, as in PyTorch.
    if recorded(self, value) and source_of(root) is root:
        self[...] = value
        return self
    assign_elements(self, Ellipsis, value._v if isinstance(value, Differentiable) else value)
    return self


def zero_(self):
    """Set every element to 0 in place; returns self."""
    return fill_(self, 0.0)


def copy_(self, other):
    """Set the elements to those of `other` in place; returns self."""
    return fill_(self, other)


def _set_shape(x, shape):
    """``x.shape = shape``"""
    if is_argument(x) or root_of(x)[0] is not x or views_of(x) or x._t is None and x._r:
        raise GradientError(
            "the shape is set of an argument, of a leaf, or of a tensor that shares memory with others: write a = a.reshape(shape)"
        )
    x._become(reshape(x, shape))


def _changed(x, result):
    """Let `x`, which is recorded, be `result` from now on; returns `x`."""
    root, window = root_of(x)
    if is_argument(root):
        raise argument_changed()
    if result.shape != x.shape:
        raise ValueError(f"the result of shape {tuple(result.shape)} does not fit in place of {tuple(x.shape)}")
    if result.dtype != x.dtype:
        if x.dtype.kind != "f":
            raise DtypeError(f"a result that requires a gradient does not fit in place of dtype {x.dtype}")
        result = astype(result, x.dtype)
    shared = window is not None or views_of(x)
    if shared and x.dtype.kind == "f" and recorded(root, result):
        steps, start = steps_of(x, window)
        check_distinct(x.shape, steps)
        write(root, result, x.shape, steps, start)
    elif shared:
        x[...] = result
    else:
        x._become(result)
    return x


def _operator(row):
    """``x <op>= other`` for a row: one function each, without a call in between."""

    def update(x, other):
        if not isinstance(other, (Differentiable, float, int, np.ndarray, np.generic, list)):
            # A table counts by position here, as beside an array of NumPy's that is changed in place.
            if not x.shape or not (is_table(other) or hasattr(other, "_places")):
                return NotImplemented
        other = registry.objects.operand(other)
        if not x.shape and root_of(x)[0] is x and (x._t is not None or not x._r) and x.dtype.kind == "f":
            # A number is never changed in Python: the name goes on with another one, and an array of objects may hold the first.
            result = power(x, other) if row.name == "power" else apply(row, (x, other))
            if x._t is not None and x._t.retained and x.retains_grad:
                result.retain_grad()
            return result
        if recorded(x, other):
            root = root_of(x)[0]
            if root._t is None and root._r:
                raise GradientError(
                    "a leaf tensor that requires a gradient (or a view of one) is being used in an in-place operation; "
                    "update weights under tg.no_grad(), or write x = x + ... to go on with a new tensor"
                )
            return _changed(x, power(x, other) if row.name == "power" else apply(row, (x, other)))
        before_change(x)
        other = other._v if isinstance(other, Differentiable) else as_operand(other, row.name) if x.dtype.kind == "f" else other
        if type(x._v) is float:
            assign_value(x, normalise(row.value(x._v, other)))
        else:
            row.value(x._v, other, x._v)
            note_change(x)
        return x

    return update


def _method(name, update):
    def method(self, other):
        result = update(self, other)
        if result is NotImplemented:
            raise TypeError(f"{name}_() does not know an operand of type {type(other).__name__}")
        if result is not self:
            if is_argument(self):
                raise argument_changed()
            if not recorded(self, other):
                before_change(self)
            if result.shape:
                raise ValueError(f"the result of shape {tuple(result.shape)} does not fit in place of a number")
            self._become(result)
        return self

    method.__doc__ = f"`{name}` in place; returns self."
    return method


_UPDATES = {name: _operator(BY_NAME[name]) for name in ("add", "subtract", "multiply", "divide", "power", "remainder")}
_SHORT = {"add_": "add", "sub_": "subtract", "mul_": "multiply", "div_": "divide"}
attach(Differentiable, {f"__i{symbol}__": update for symbol, update in zip(("add", "sub", "mul", "truediv", "pow", "mod"), _UPDATES.values())})
attach(Differentiable, {short: _method(name, _UPDATES[name]) for short, name in _SHORT.items()})
attach(Differentiable, {"zero_": zero_, "fill_": fill_, "copy_": copy_})
for _name in ("add", "subtract", "multiply", "divide", "power"):
    share(f"update {_name}", _UPDATES[_name])
share("changed", _changed)
Differentiable.shape = Differentiable.shape.setter(_set_shape)
