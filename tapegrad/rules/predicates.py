"""Comparisons and choices as numbers: what scalar instructions use where a rule says `select`.

A scalar instruction has two operands and a number as its result, so a condition is
1.0 or 0.0 there, and ``select(c, a, b)`` is ``if_true(c, a) + if_false(c, b)``: the
branch not taken adds an exact zero, whatever its value is.  A user never calls these
rows; they are rows so that a derivative made of them can be differentiated again.
"""

from __future__ import annotations

import numpy as np

from . import lang as L
from .table import elementwise, zero


def _number(condition):
    return L.select(condition, 1.0, 0.0)


def _numbers(comparison):
    def value(*operands):
        truths = comparison(*operands)
        # Numbers of Python have no dtype that counts beside that of arrays; alone they are float64.
        least = np.float32 if any(isinstance(o, (np.ndarray, np.generic)) for o in operands) else np.float64
        return np.asarray(truths).astype(np.result_type(*operands, least))

    return value


for _name, _comparison, _of, _doc in (
    ("is_less", np.less, lambda x, y: x < y, "1 where x < y, else 0; derivative 0"),
    ("is_less_equal", np.less_equal, lambda x, y: x <= y, "1 where x <= y, else 0; derivative 0"),
    ("is_equal", np.equal, L.eq, "1 where x equals y, else 0; derivative 0"),
):
    elementwise(
        _name, _numbers(_comparison), lambda x, y, of=_of: _number(of(x, y)), (zero, zero),
        node=_name.title().replace("_", ""), doc=_doc,
    )
elementwise(
    "is_nan", _numbers(np.isnan), lambda x: _number(L.isnan(x)), (zero,), node="IsNan", doc="1 where x is NaN, else 0; derivative 0",
)


def _chosen(c, x):
    return np.where(np.not_equal(c, 0), x, np.zeros((), np.result_type(x)))


def _left_out(c, x):
    return np.where(np.not_equal(c, 0), np.zeros((), np.result_type(x)), x)


elementwise(
    "if_true", _chosen, lambda c, x: L.select(L.ne(c, 0.0), x, 0.0), (zero, lambda c, x, z: _number(L.ne(c, 0.0))),
    node="IfTrue", doc="x where c is not 0, else exactly 0; derivative 0 in c",
)
elementwise(
    "if_false", _left_out, lambda c, x: L.select(L.ne(c, 0.0), 0.0, x), (zero, lambda c, x, z: _number(L.eq(c, 0.0))),
    node="IfFalse", doc="x where c is 0, else exactly 0; derivative 0 in c",
)
