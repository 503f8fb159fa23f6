"""The shape and dtype that the result of every row must have, told independently of the code that computes it.

`result(row, metas, attrs, integer, given)` raises `Misfit` unless the row can take
operands of these descriptions with these attributes; else it returns the shape of
the result and the dtypes it may have.  A file is believed only after this
(`transforms.saving.validate`): compiled programs look at no bounds.
"""

from __future__ import annotations

import math

import numpy as np

from ...rules import BY_NAME
from ...tape.meta import SCALAR
from .archive import AXES, LARGEST


class Misfit(Exception):
    """An entry of a file does not fit."""


def require(condition, message):
    """Raise `Misfit` unless the condition holds."""
    if not condition:
        raise Misfit(message)


def is_shape(thing):
    """Whether this is a tuple of extents."""
    return type(thing) is tuple and len(thing) <= AXES and all(type(n) is int and 0 <= n < LARGEST for n in thing)


def _shape(attrs):
    shape = attrs["shape"]
    require(is_shape(shape), f"the shape {shape!r}")
    return shape


def _axes(axis, ndim, several=True):
    """Non-negative axes."""
    if axis is None and several:
        return tuple(range(ndim))
    axes = axis if type(axis) is tuple and several else (axis,)
    require(all(type(a) is int and -ndim <= a < ndim for a in axes), f"the axis {axis!r} of {ndim} axes")
    found = tuple(a % ndim for a in axes)
    require(len(set(found)) == len(found), f"the axes {axis!r}")
    return found


def _flag(thing):
    require(type(thing) is bool, f"{thing!r} instead of a bool")
    return thing


def check_window(size, shape, strides, offset):
    """A window of these extents, strides and offset must lie in `size` elements."""
    require(type(strides) is tuple and len(strides) == len(shape), f"the strides {strides!r}")
    require(all(type(s) is int and abs(s) < LARGEST for s in strides) and type(offset) is int, f"the strides {strides!r}")
    require(0 <= offset <= size, f"the offset {offset} in {size} elements")
    if 0 in shape:
        return
    low = offset + sum(min(0, s * (n - 1)) for s, n in zip(strides, shape))
    high = offset + sum(max(0, s * (n - 1)) for s, n in zip(strides, shape))
    require(0 <= low and high < size, f"a window from {low} to {high} in {size} elements")


def _broadcast(*shapes):
    try:
        found = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise Misfit(str(error)) from None
    return found


def _view(x, attrs, offset):
    shape = _shape(attrs)
    check_window(x.size, shape, attrs["strides"], offset)
    return shape


def _reshape(x, attrs):
    shape = _shape(attrs)
    require(math.prod(shape) == x.size, f"{x.shape} reshaped to {shape}")
    return shape


def _transpose(x, attrs):
    axes = attrs["axes"]
    require(type(axes) is tuple and all(type(a) is int for a in axes), f"the axes {axes!r}")
    require(sorted(axes) == list(range(len(x.shape))), f"the axes {axes!r}")
    return tuple(x.shape[a] for a in axes)


def _flip(x, attrs):
    _axes(attrs["axes"], len(x.shape))
    return x.shape


def _gather(x, index, attrs):
    shape = _shape(attrs)
    require(math.prod(shape) == index.size, f"{index.size} positions for the shape {shape}")
    require(x.size or not index.size, "positions in an empty array")
    return shape


def _concatenate(*parts, attrs):
    first = parts[0].shape
    (axis,) = _axes(attrs["axis"], len(first), False)
    require(all(len(p.shape) == len(first) for p in parts), "parts of several numbers of axes")
    for k, n in enumerate(first):
        require(k == axis or all(p.shape[k] == n for p in parts), "parts of several shapes")
    return (*first[:axis], sum(p.shape[axis] for p in parts), *first[axis + 1 :])


def _stack(*parts, attrs):
    first = parts[0].shape
    (axis,) = _axes(attrs["axis"], len(first) + 1, False)
    require(all(p.shape == first for p in parts), "parts of several shapes")
    return (*first[:axis], len(parts), *first[axis:])


def _diag(x, attrs):
    k, shape = attrs["k"], _shape(attrs)
    require(type(k) is int and len(x.shape) == 1, "a diagonal")
    require(shape == (x.size + abs(k),) * 2, f"a diagonal of {x.size} elements in {shape}")
    return shape


def _setitem(x, v, attrs, offset):
    require(x is not SCALAR, "an assignment to a scalar")
    shape = _view(x, attrs, offset)
    require(_broadcast(v.shape, shape) == shape, f"{v.shape} assigned to {shape}")
    return x.shape


def _put(x, v, index, attrs):
    require(x is not SCALAR, "an assignment to a scalar")
    shape = _gather(x, index, attrs)
    require(_broadcast(v.shape, shape) == shape, f"{v.shape} assigned to {shape}")
    return x.shape


def _place(x, attrs, offset):
    shape = _shape(attrs)
    check_window(math.prod(shape), x.shape, attrs["strides"], offset)
    return shape


def _scatter(x, index, attrs):
    require(index.size == x.size, f"{index.size} positions for {x.size} elements")
    require(math.prod(_shape(attrs)) or not x.size, "positions in an empty array")
    return attrs["shape"]


def _add_at(x, v, index, attrs):
    require(x is not SCALAR, "an addition into a scalar")
    require(index.size == v.size, f"{index.size} positions for {v.size} elements")
    return x.shape


def _reduction(x, attrs):
    axes = _axes(attrs["axis"], len(x.shape))
    if "ddof" in attrs:
        require(type(attrs["ddof"]) in (int, float) and abs(attrs["ddof"]) < 1e9, "ddof")
    if _flag(attrs["keepdims"]):
        return tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    return tuple(n for k, n in enumerate(x.shape) if k not in axes)


def _extremum(x, attrs):
    axes = _axes(attrs["axis"], len(x.shape))
    require(all(x.shape[k] for k in axes), "an extremum of nothing")
    return _reduction(x, attrs)


def _scan(x, attrs):
    if attrs["axis"] is None:
        return (x.size,)
    _axes(attrs["axis"], len(x.shape), False)
    return x.shape


def _along(x, attrs):
    _axes(attrs["axis"], len(x.shape), False)
    return x.shape


def _softmax(x, attrs):
    (axis,) = _axes(attrs["axis"], len(x.shape), False)
    require(x.shape[axis] or not x.size, "a softmax of nothing")
    return x.shape


def _recurrence(b, f, attrs):
    shape = _broadcast(b.shape, f.shape)
    _axes(attrs["axis"], len(shape), False)
    _flag(attrs["reverse"]), _flag(attrs["lag"])
    return shape


def _reduced(attrs, shape):
    require(attrs["reduction"] in ("mean", "sum", "none"), f"reduction={attrs['reduction']!r}")
    return shape if attrs["reduction"] == "none" else ()


def _bce(x, y, attrs):
    return _reduced(attrs, _broadcast(x.shape, y.shape))


def _cross_entropy(x, index, attrs):
    require(x.shape and x.shape[-1] and index.size == math.prod(x.shape[:-1]), "scores and classes")
    return _reduced(attrs, x.shape[:-1])


def _matmul(a, b, attrs):
    require(a.shape and b.shape, "a matrix product with a scalar")
    left, right = a.shape, b.shape
    require(left[-1] == (right[-2] if len(right) > 1 else right[0]), f"a matrix product of {left} and {right}")
    front = _broadcast(left[:-2], right[:-2])
    return (*front, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))


def _square(a):
    require(len(a.shape) >= 2 and a.shape[-1] == a.shape[-2] and a.shape[-1], f"a square matrix of shape {a.shape}")
    return a.shape[-1]


def _solve(a, b, attrs):
    n = _square(a)
    require(len(b.shape) >= 2 and b.shape[-2] == n, f"a system of {a.shape} and {b.shape}")
    if "trans" in attrs:
        require(attrs["trans"] in (0, 1), "trans")
        _flag(attrs["lower"]), _flag(attrs["unit"])
    return (*_broadcast(a.shape[:-2], b.shape[:-2]), n, b.shape[-1])


def _inv(a, attrs):
    _square(a)
    return a.shape


def _det(a, attrs):
    _square(a)
    return a.shape[:-2]


def _cholesky(a, attrs):
    _flag(attrs["upper"])
    return _inv(a, attrs)


def _eigh(a, attrs):
    require(attrs["UPLO"] in ("L", "U"), "UPLO")
    n = _square(a)
    return (*a.shape[:-2], n + 1, n)


def _matrix(a):
    require(len(a.shape) >= 2 and 0 not in a.shape[-2:], f"a matrix of shape {a.shape}")
    return a.shape[-2:]


def _svd(a, attrs):
    m, n = _matrix(a)
    return (*a.shape[:-2], m + 1 + n, min(m, n))


def _qr(a, attrs):
    m, n = _matrix(a)
    require(m >= n, "a wide matrix")
    return (*a.shape[:-2], m + n, n)


def _pinv(a, attrs):
    m, n = _matrix(a)
    require(type(attrs["rcond"]) is float and (not _flag(attrs["hermitian"]) or m == n), "pinv")
    return (*a.shape[:-2], n, m)


def _stage(y, h, *stages, attrs):
    factors = attrs["factors"]
    require(type(factors) is tuple and all(type(f) is float for f in factors), "factors")
    require(len(factors) == len(stages) and any(factors), "factors")
    require(h.shape == () and all(s.shape == y.shape for s in stages), "stages")
    return y.shape


def _astype(x, attrs):
    require(attrs["dtype"] in ("d", "f"), f"a conversion to {attrs['dtype']!r}")
    return x.shape


_REDUCE = {"axis": None, "keepdims": False}
_MOMENT = {"axis": None, "ddof": 0, "keepdims": False}
_WINDOW = {"shape": (), "strides": ()}
_SHAPE = {"shape": ()}

#: Row -> (its rule, its attributes with their defaults).
STRUCTURAL = {
    **dict.fromkeys(("getitem", "select", "broadcast_to", "diagonal", "as_strided"), (_view, _WINDOW)),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), (_reshape, _SHAPE)),
    **dict.fromkeys(("transpose", "t"), (_transpose, {"axes": ()})),
    **dict.fromkeys(("gather", "roll", "repeat", "tile"), (_gather, _SHAPE)),
    **dict.fromkeys(("sum", "mean", "prod", "norm", "logsumexp"), (_reduction, _REDUCE)),
    **dict.fromkeys(("max", "min"), (_extremum, _REDUCE)),
    **dict.fromkeys(("var", "std"), (_reduction, _MOMENT)),
    **dict.fromkeys(("softmax", "log_softmax"), (_softmax, {"axis": -1})),
    "flip": (_flip, {"axes": ()}),
    "concatenate": (_concatenate, {"axis": 0}),
    "stack": (_stack, {"axis": 0}),
    "diag": (_diag, {"k": 0, "shape": ()}),
    "setitem": (_setitem, _WINDOW),
    "put": (_put, _SHAPE),
    "astype": (_astype, {"dtype": "d"}),
    "place": (_place, _WINDOW),
    "scatter": (_scatter, _SHAPE),
    "add_window": (_setitem, _WINDOW),
    "add_at": (_add_at, {}),
    "cumsum": (_scan, {"axis": None}),
    "cumprod": (_along, {"axis": 0}),
    "recurrence": (_recurrence, {"axis": 0, "reverse": False, "lag": False}),
    "binary_cross_entropy_with_logits": (_bce, {"reduction": "mean"}),
    "cross_entropy": (_cross_entropy, {"reduction": "mean"}),
    **dict.fromkeys(("matmul", "absolute_matmul"), (_matmul, {})),
    "solve": (_solve, {}),
    "solve_triangular": (_solve, {"trans": 0, "lower": False, "unit": False}),
    "inv": (_inv, {}),
    "det": (_det, {}),
    "cofactors": (_inv, {}),
    "logabsdet": (_det, {}),
    "cholesky": (_cholesky, {"upper": False}),
    "eigh": (_eigh, {"UPLO": "L"}),
    "svd": (_svd, {}),
    "qr": (_qr, {}),
    "pinv": (_pinv, {"rcond": 1e-15, "hermitian": False}),
    "runge_kutta_stage": (_stage, {"factors": ()}),
}

#: Rows whose result has the dtype of the first operand.
_SAME = frozenset(
    "getitem select broadcast_to diagonal as_strided reshape squeeze expand_dims transpose t flip gather roll repeat "
    "tile setitem put diag place scatter add_window add_at max min".split()
)
#: Rows of which the position of an operand that holds flat positions is known.
INDEX = {"gather": 1, "roll": 1, "repeat": 1, "tile": 1, "scatter": 1, "cross_entropy": 1, "put": 2, "add_at": 2}


def result(row, metas, attrs, integer):
    """The shape of the result of a row, and the dtypes it may have; raises `Misfit`."""
    count = row.arity + len([k for k in row.constants if k >= row.arity]) if row.arity >= 0 else None
    require(len(metas) == count if count is not None else len(metas) > 0, f"{len(metas)} operands")
    require(row.dynamic or not integer, "an integer attribute")
    if row.elementwise:
        require(not attrs, f"the attributes {sorted(attrs)}")
        shape = _broadcast(*(m.shape for m in metas))
        require(len(shape) <= AXES, "too many axes")
        return shape, _elementwise_chars(row, metas)
    require(row.name in STRUCTURAL, "a row that cannot be saved")
    rule, defaults = STRUCTURAL[row.name]
    require(set(attrs) <= set(defaults), f"the attributes {sorted(attrs)}")
    attrs = {**defaults, **attrs}
    at = INDEX.get(row.name)
    if at is not None:
        require(metas[at].char == "l" and len(metas[at].shape) == 1, "positions that are no vector of int64")
    if row.dynamic:
        shape = rule(*metas, attrs, integer)
    elif row.arity < 0:
        shape = rule(*metas, attrs=attrs)
    else:
        shape = rule(*metas, attrs)
    require(len(shape) <= AXES, "too many axes")
    return shape, _chars(row, metas, attrs)


def _elementwise_chars(row, metas):
    if row.calls_scipy or row.name == "erf":
        # To ask SciPy would import it; these have loops for float32 and float64, and some are made of several.
        return {"d", "f"} if any(m is not SCALAR and np.can_cast(m.char, "f") for m in metas) else {"d"}
    tiny = [1.0 if m is SCALAR else np.ones(1, m.char) for m in metas]
    strong = [np.ones(1, m.char) for m in metas]
    found = set()
    with np.errstate(all="ignore"):
        for values in (tiny, strong):
            try:
                found.add(np.asarray(row.value(*values)).dtype.char)
            except TypeError:
                continue
    return found


def _chars(row, metas, attrs):
    first = metas[0].char
    if row.name == "astype":
        return {attrs["dtype"]}
    if row.name in _SAME:
        return {first}
    if row.name in ("sum", "prod", "cumsum", "cumprod", "mean", "var", "std"):
        return {np.asarray(BY_NAME[row.name].value(np.ones((1, 1), first), axis=0)).dtype.char}
    at = INDEX.get(row.name)
    numbers = [m for k, m in enumerate(metas) if k != at]
    strong = np.result_type(*(m.char for m in numbers))
    weak = np.result_type(*(1.0 if m is SCALAR else m.char for m in numbers))
    found = {strong.char, weak.char}
    return found if row.name in ("concatenate", "stack") else {c for c in found if c in "df"} or {"d"}
