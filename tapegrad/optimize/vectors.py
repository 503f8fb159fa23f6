"""Vectors in compiled loops, in a fixed order of operations.

Sums go into eight partial sums, so that they take a cycle an element and still
are the same bits every time.
"""

from ..codegen.compile import helper


@helper
def dot(a, b):
    """The inner product of two vectors."""
    n = len(a)
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for block in range(n // 8):
        k = 8 * block
        s0 += a[k] * b[k]
        s1 += a[k + 1] * b[k + 1]
        s2 += a[k + 2] * b[k + 2]
        s3 += a[k + 3] * b[k + 3]
        s4 += a[k + 4] * b[k + 4]
        s5 += a[k + 5] * b[k + 5]
        s6 += a[k + 6] * b[k + 6]
        s7 += a[k + 7] * b[k + 7]
    for k in range(n - n % 8, n):
        s0 += a[k] * b[k]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@helper
def add_scaled(target, factor, source):
    """``target += factor * source``."""
    for k in range(len(target)):
        target[k] += factor * source[k]


@helper
def project(x, lower, upper):
    """Bring `x` into its box."""
    for k in range(len(x)):
        if x[k] < lower[k]:
            x[k] = lower[k]
        if x[k] > upper[k]:
            x[k] = upper[k]


@helper
def slope_norm(x, g, lower, upper, bounded):
    """The largest component of the gradient; with bounds of ``x - P(x - g)``, which is zero at a solution.

    Not a number if a component is none, infinite if one is.
    """
    largest = 0.0
    for k in range(len(x)):
        size = g[k]
        if size - size != 0.0:
            return abs(size)
        if bounded:
            size = x[k] - min(max(x[k] - size, lower[k]), upper[k])
        largest = max(largest, abs(size))
    return largest
