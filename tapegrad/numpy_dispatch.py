"""NumPy's functions on tensors: ``np.sin(t)``, ``np.sum(t, axis=1)``, ``A @ t``.

``__array_ufunc__`` finds the row of a ufunc (SciPy's by name), and
``__array_function__`` the function of this library that stands for NumPy's.
What has neither raises `UnsupportedFunctionError`; nothing falls through to
plain arrays, where the derivative would be lost.
"""

from __future__ import annotations

import numpy as np

from . import functions as F
from .errors import LeaveTapeError, UnsupportedFunctionError
from .record import apply, apply_one, apply_two, plain
from .rules import BY_FUNCTION, BY_NAME
from .rules.special import SCIPY_UFUNCS
from .tensor import Tensor

#: ufuncs whose results carry no derivative; they give plain values.
VALUES = {
    np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal, np.logical_and, np.logical_or,
    np.logical_not, np.logical_xor, np.isnan, np.isfinite, np.isinf, np.signbit,
}  # fmt: skip
_DIRECT = {np.power: F.power, np.positive: F.clone}


def _value(thing):
    return thing._v if isinstance(thing, Tensor) else thing


def refuse(function, why=""):
    """The error for a NumPy function without a rule."""
    name = getattr(function, "__name__", str(function))
    module = (getattr(function, "__module__", None) or "numpy").replace("scipy.special._ufuncs", "scipy.special")
    return UnsupportedFunctionError(
        f"{module}.{name} has no derivative rule in tapegrad{why}. Use supported functions (tapegrad.rules.ROWS lists "
        "them), or leave the tape on purpose with .detach().numpy()"
    )


def ufunc_on_tensors(self, ufunc, method, *inputs, **kwargs):
    """``Tensor.__array_ufunc__``."""
    if not kwargs and method == "__call__":
        row = BY_FUNCTION.get(ufunc)
        if row is not None and ufunc not in _DIRECT:
            return apply_one(row, *inputs) if len(inputs) == 1 else apply_two(row, *inputs)
    out = kwargs.pop("out", None)
    if out is not None:
        return _into(ufunc, method, inputs, kwargs, out)
    if method == "reduce" and ufunc in _REDUCE:
        return _reduce(ufunc, inputs, kwargs)
    if method == "accumulate" and ufunc is np.add:
        return F.cumsum(inputs[0], axis=inputs[1] if len(inputs) > 1 else kwargs.get("axis", 0))
    if method == "outer" and ufunc is np.multiply:
        return F.outer(*inputs)
    if method != "__call__":
        raise refuse(ufunc, f" for its method .{method}()")
    if kwargs.get("dtype") is None:
        kwargs.pop("dtype", None)
    if kwargs:
        raise refuse(ufunc, f" with the argument {', '.join(f'{k}=' for k in kwargs)}")
    if ufunc in VALUES:
        return plain(np.asarray(ufunc(*[_value(x) for x in inputs])))
    direct = _DIRECT.get(ufunc)
    if direct is not None:
        return direct(*inputs)
    row = BY_FUNCTION.get(ufunc) or BY_NAME.get(SCIPY_UFUNCS.get(ufunc.__name__, ""))
    if row is None:
        raise refuse(ufunc)
    return apply(row, inputs)


_REDUCE = {np.add: F.sum, np.multiply: F.prod, np.maximum: F.max, np.minimum: F.min}


def _reduce(ufunc, inputs, kwargs):
    # ufunc.reduce reduces axis 0 unless told otherwise.
    axis = inputs[1] if len(inputs) > 1 else kwargs.get("axis", 0)
    left = {k: v for k, v in kwargs.items() if k not in ("axis", "keepdims") and v is not None and v is not np._NoValue}
    if left:
        raise refuse(ufunc, f".reduce with {', '.join(left)}")
    return _REDUCE[ufunc](inputs[0], axis=axis, keepdims=kwargs.get("keepdims", False))


def _into(ufunc, method, inputs, kwargs, out):
    """``np.add(a, b, out=t)`` and ``array += t``: the first is refused, so is the second unless t is a constant."""
    if any(isinstance(x, Tensor) and x.requires_grad for x in (*inputs, *out)):
        raise LeaveTapeError(
            f"np.{ufunc.__name__} with out= (or `array += tensor`) would write a tracked value into plain memory and "
            "cut its derivative; write `result = a + t`, or make the array with tg.zeros"
        )
    values = [np.asarray(_value(x)) if isinstance(x, Tensor) else x for x in inputs]
    targets = tuple(np.asarray(_value(x)) for x in out)
    getattr(ufunc, method)(*values, **kwargs, out=targets)
    return out[0]


# ---- functions ------------------------------------------------------------------

_NO_VALUE = np._NoValue


def _plain_function(function):
    """A NumPy function that looks only at shapes or gives values without derivative."""

    def call(*args, **kwargs):
        return _wrap(function(*_values(args), **{k: _values(v) for k, v in kwargs.items()}))

    return call


def _values(thing):
    if isinstance(thing, Tensor):
        return np.asarray(thing._v)
    if isinstance(thing, (list, tuple)):
        return type(thing)(_values(x) for x in thing)
    return thing


def _wrap(thing):
    return plain(thing) if isinstance(thing, np.ndarray) else thing


def _shape_of(x):
    return tuple(x.shape) if isinstance(x, Tensor) else np.shape(x)


def _reduction(function):
    def call(a, axis=None, dtype=None, out=None, keepdims=False, initial=_NO_VALUE, where=_NO_VALUE):
        _only_defaults(function, dtype=dtype, out=out)
        if initial is not _NO_VALUE or where is not _NO_VALUE:
            raise refuse(function, " with initial= or where=")
        return function(a, axis=axis, keepdims=keepdims is not _NO_VALUE and bool(keepdims))

    return call


def _extremum(function):
    def call(a, axis=None, out=None, keepdims=False, initial=_NO_VALUE, where=_NO_VALUE):
        return _reduction(function)(a, axis, None, out, keepdims, initial, where)

    return call


def _moment(function):
    def call(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=_NO_VALUE, correction=_NO_VALUE):
        _only_defaults(function, dtype=dtype, out=out)
        if where is not _NO_VALUE:
            raise refuse(function, " with where=")
        ddof = ddof if correction is _NO_VALUE else correction
        return function(a, axis=axis, ddof=ddof, keepdims=keepdims is not _NO_VALUE and bool(keepdims))

    return call


def _only_defaults(function, **given):
    named = [k for k, v in given.items() if v is not None]
    if named:
        raise refuse(function, f" with the argument {', '.join(named)}=")


def _clip(a, a_min=_NO_VALUE, a_max=_NO_VALUE, out=None, *, min=_NO_VALUE, max=_NO_VALUE):
    _only_defaults(np.clip, out=out)
    low = a_min if a_min is not _NO_VALUE else min
    high = a_max if a_max is not _NO_VALUE else max
    return F.clip(a, None if low is _NO_VALUE else low, None if high is _NO_VALUE else high)


def _where(condition, *branches):
    if not branches:
        return np.nonzero(np.asarray(_value(condition)))
    return F.where(condition, *branches)


def _like(function):
    def call(a, *args, dtype=None, shape=None, **kwargs):
        shape = _shape_of(a) if shape is None else shape
        dtype = dtype or (a.dtype if isinstance(a, Tensor) else np.asarray(a).dtype)
        kept = {k: v for k, v in kwargs.items() if k in ("order",) and v not in (None, "K")}
        array = function(shape, *args, dtype=dtype, **kept)
        return _constant(array)

    return call


def _constant(array):
    return plain(float(array) if array.ndim == 0 and array.dtype.char == "d" else array)


def _full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, **_):
    base = np.zeros(_shape_of(a) if shape is None else shape, dtype or (a.dtype if isinstance(a, Tensor) else None))
    return F.broadcast_to(F.lift(fill_value), base.shape) if isinstance(fill_value, Tensor) else _constant(base + fill_value)


def _norm(x, ord=None, axis=None, keepdims=False):
    # The 2-norm of a matrix is its largest singular value.
    vector = x.ndim == 1 if axis is None else np.ndim(axis) == 0 or len(axis) == 1
    if not (ord is None or ord == 2 and vector or ord == "fro" and not vector):
        raise refuse(np.linalg.norm, f" with ord={ord!r}")
    return F.norm(x, axis=axis, keepdims=keepdims)


def _transpose(a, axes=None):
    return F.transpose(a, axes)


def _ravel(a, order="C"):
    return F.ravel(a) if order == "C" else F.ravel(F.transpose(a))


def _reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    if order != "C":
        raise refuse(np.reshape, f" with order={order!r}")
    shape = newshape if shape is None else shape
    return F.reshape(a, shape if isinstance(shape, (tuple, list)) else (shape,))


def _stack(arrays, axis=0, out=None, **kwargs):
    _only_defaults(np.stack, out=out, **{k: v for k, v in kwargs.items() if k != "casting"})
    return F.stack(arrays, axis)


def _concatenate(arrays, axis=0, out=None, **kwargs):
    _only_defaults(np.concatenate, out=out, **{k: v for k, v in kwargs.items() if k != "casting"})
    return F.concatenate(arrays, axis)


def _trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    _only_defaults(np.trace, dtype=dtype, out=out)
    return F.trace(a, offset, axis1, axis2)


def _product(numpy_function, function):
    def call(a, b, out=None):
        _only_defaults(numpy_function, out=out)
        return function(a, b)

    return call


def _cumsum(a, axis=None, dtype=None, out=None):
    _only_defaults(np.cumsum, dtype=dtype, out=out)
    return F.cumsum(a, axis)


def _take(a, indices, axis=None, out=None, mode="raise"):
    _only_defaults(np.take, out=out)
    if mode != "raise":
        raise refuse(np.take, f" with mode={mode!r}")
    return F.take(a, _value(indices), axis)


def _copyto(dst, src, casting="same_kind", where=True):
    raise LeaveTapeError(
        "writing a tensor into a plain array (np.copyto, np.full_like(array, tensor)) would cut its derivative; make "
        "the array with tg.zeros, or use tg.full_like / np.broadcast_to on the tensor"
    )


FUNCTIONS = {
    np.sum: _reduction(F.sum), np.prod: _reduction(F.prod), np.mean: _reduction(F.mean), np.max: _extremum(F.max),
    np.min: _extremum(F.min), np.amax: _extremum(F.max), np.amin: _extremum(F.min), np.var: _moment(F.var),
    np.std: _moment(F.std), np.clip: _clip, np.where: _where, np.dot: _product(np.dot, F.dot),
    np.outer: _product(np.outer, F.outer), np.reshape: _reshape, np.ravel: _ravel,
    np.transpose: _transpose, np.swapaxes: lambda a, axis1, axis2: F.swapaxes(a, axis1, axis2),
    np.moveaxis: lambda a, source, destination: F.moveaxis(a, source, destination),
    np.squeeze: lambda a, axis=None: F.squeeze(a, axis), np.expand_dims: lambda a, axis: F.expand_dims(a, axis),
    np.broadcast_to: lambda array, shape, subok=False: F.broadcast_to(array, shape), np.concatenate: _concatenate,
    np.stack: _stack, np.split: lambda ary, indices_or_sections, axis=0: F.split(ary, indices_or_sections, axis),
    np.array_split: lambda ary, indices_or_sections, axis=0: F.array_split(ary, indices_or_sections, axis),
    np.repeat: lambda a, repeats, axis=None: F.repeat(a, _values(repeats), axis),
    np.tile: lambda A, reps: F.tile(A, reps), np.flip: lambda m, axis=None: F.flip(m, axis), np.roll: lambda a, shift, axis=None: F.roll(a, shift, axis),
    np.diag: lambda v, k=0: F.diag(v, k), np.diagonal: lambda a, offset=0, axis1=0, axis2=1: F.diagonal(a, offset, axis1, axis2),
    np.trace: _trace, np.take: _take, np.linalg.norm: _norm, np.copyto: _copyto,
    np.cumsum: _cumsum,
    np.zeros_like: _like(np.zeros), np.ones_like: _like(np.ones), np.empty_like: _like(np.empty),
    np.full_like: _full_like, np.copy: lambda a, order="K", subok=False: F.clone(a),
    np.shape: _shape_of, np.ndim: lambda a: len(_shape_of(a)), np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
}  # fmt: skip

for _function in (
    np.argmax, np.argmin, np.argsort, np.nonzero, np.flatnonzero, np.count_nonzero, np.any, np.all, np.allclose,
    np.isclose, np.array_equal, np.searchsorted, np.array_repr, np.array_str, np.array2string, np.result_type,
    np.iscomplexobj, np.isrealobj, np.may_share_memory, np.shares_memory, np.can_cast,
):  # fmt: skip
    FUNCTIONS[_function] = _plain_function(_function)


def implements(*functions):
    """Decorator: the function stands for these functions of NumPy when they are called on tensors."""

    def register(ours):
        for function in functions:
            FUNCTIONS[function] = ours
        return ours

    return register


def named(module, *names):
    """The functions of a module of NumPy with these names, as far as this version has them."""
    return [getattr(module, name) for name in names if hasattr(module, name)]


def function_on_tensors(self, function, types, args, kwargs):
    """``Tensor.__array_function__``."""
    ours = FUNCTIONS.get(function)
    if ours is None:
        raise refuse(function)
    return ours(*args, **kwargs)


Tensor.__array_ufunc__ = ufunc_on_tensors
Tensor.__array_function__ = function_on_tensors
