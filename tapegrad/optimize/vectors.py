"""Vectors in compiled loops: by address, in a fixed order of operations.

Sums go into eight partial sums, so that they take a cycle an element and still
are the same bits every time.
"""

from __future__ import annotations

from ..codegen.compile import compiled
from ..codegen.memory import double_at, set_double_at


@compiled("float64(int64, int64, int64)")
def dot(a, b, n):
    """The inner product of two vectors."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    k = 0
    while k + 8 <= n:
        s0 += double_at(a, k) * double_at(b, k)
        s1 += double_at(a, k + 1) * double_at(b, k + 1)
        s2 += double_at(a, k + 2) * double_at(b, k + 2)
        s3 += double_at(a, k + 3) * double_at(b, k + 3)
        s4 += double_at(a, k + 4) * double_at(b, k + 4)
        s5 += double_at(a, k + 5) * double_at(b, k + 5)
        s6 += double_at(a, k + 6) * double_at(b, k + 6)
        s7 += double_at(a, k + 7) * double_at(b, k + 7)
        k += 8
    while k < n:
        s0 += double_at(a, k) * double_at(b, k)
        k += 1
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@compiled("void(int64, int64, int64)")
def copy(target, source, n):
    """``target = source``."""
    for k in range(n):
        set_double_at(target, k, double_at(source, k))


@compiled("void(int64, float64, int64, int64)")
def add_scaled(target, factor, source, n):
    """``target += factor * source``."""
    for k in range(n):
        set_double_at(target, k, double_at(target, k) + factor * double_at(source, k))


@compiled("void(int64, int64, float64, int64, int64)")
def along(target, x, step, d, n):
    """``target = x + step * d``."""
    for k in range(n):
        set_double_at(target, k, double_at(x, k) + step * double_at(d, k))


@compiled("void(int64, float64, int64)")
def scale(target, factor, n):
    """``target *= factor``."""
    for k in range(n):
        set_double_at(target, k, factor * double_at(target, k))


@compiled("void(int64, int64, int64, int64)")
def project(x, lower, upper, n):
    """Bring `x` into its box."""
    for k in range(n):
        low, high = double_at(lower, k), double_at(upper, k)
        if double_at(x, k) < low:
            set_double_at(x, k, low)
        if double_at(x, k) > high:
            set_double_at(x, k, high)


@compiled("float64(int64, int64, int64, int64, int64, int64)")
def slope_norm(x, g, lower, upper, n, bounded):
    """The largest component of the gradient; with bounds of ``x - P(x - g)``, which is zero at a solution.

    Not a number if a component is none, infinite if one is.
    """
    largest = 0.0
    for k in range(n):
        size = double_at(g, k)
        if size - size != 0.0:
            return abs(size)
        if bounded != 0:
            at = double_at(x, k)
            size = at - min(max(at - size, double_at(lower, k)), double_at(upper, k))
        largest = max(largest, abs(size))
    return largest
