"""Functions around the gamma function that SciPy does not publish to compiled code.

`gammainc_da` is the derivative of the regularised incomplete gamma function P(a, x) in its
order a.  Up to x = a + 1 the series of P (DLMF 8.7.1) is differentiated term by term:
``t[n] = x**(a+n) exp(-x) / gamma(a+n+1)`` has the derivative
``t[n] (log x - digamma(a+n+1))``.  Beyond, the continued fraction of
``Q = 1 - P`` (DLMF 8.9.2) is, each step of Lentz's algorithm together with its
derivative.  In both all large terms have one sign, so that nothing cancels.
`betainc_da` and `betainc_db` are the derivatives of the regularised incomplete beta function I(a, b, x) in a and b, by its
continued fraction (DLMF 8.17.22), of I below its mean and of ``1 - I`` beyond; `stdtr_ddf` that of Student's distribution
function, which is made of it, in the degrees of freedom.
`zeta` is the Hurwitz zeta function: Euler and Maclaurin's formula (DLMF 25.11.5) from the tenth term on.
Plain Python, compiled by Numba when a sweep first needs it.
"""

import math

from .compile import helper


@helper
def _digamma(x):
    """By recurrence to where the asymptotic series (DLMF 5.11.2) is exact."""
    total, up = 0.0, x
    while up < 12.0:
        total -= 1.0 / up
        up += 1.0
    t = 1.0 / (up * up)
    return total + math.log(up) - 0.5 / up - t * (
        1.0 / 12.0 - t * (1.0 / 120.0 - t * (1.0 / 252.0 - t * (1.0 / 240.0 - t * (1.0 / 132.0 - t * 691.0 / 32760.0))))
    )


def gammainc_da(a, x):
    """Derivative of ``gammainc(a, x)`` in `a`; that of ``gammaincc`` is its negative.

    The factor before both expansions; the series, which returns; the continued fraction.
    """
    if not (a > 0.0 and x >= 0.0) or math.isinf(a):
        return math.nan
    if x == 0.0 or math.isinf(x):
        return 0.0
    log_x = math.log(x)
    digamma = _digamma(a)
    # x**a exp(-x) / gamma(a + 1), near a large a in a form whose exponents do not cancel.
    off = (x - a) / a
    if a > 20.0 and abs(off) < 0.7:
        t = 1.0 / (a * a)
        rest = (1.0 / 12.0 - t * (1.0 / 360.0 - t * (1.0 / 1260.0 - t * (1.0 / 1680.0 - t / 1188.0)))) / a
        front = math.exp(a * (math.log1p(off) - off) - rest) / math.sqrt(2.0 * math.pi * a)
    else:
        front = math.exp(a * log_x - x - math.lgamma(a + 1.0))
    if front == 0.0:
        return 0.0
    if x <= a + 1.0:
        term, slope, total, n = front, digamma + 1.0 / a, 0.0, 0.0
        while n < 1e7:
            part = term * (log_x - slope)
            total += part
            if abs(part) <= 1e-17 * abs(total) and n > x - a:
                break
            n += 1.0
            term *= x / (a + n)
            slope += 1.0 / (a + n)
        return total
    b = x + 1.0 - a
    c, dc = 1e300, 0.0
    d = 1.0 / b
    dd = d * d
    h, dlog = d, d
    i = 0.0
    while i < 1e7:
        i += 1.0
        an = -i * (i - a)
        b += 2.0
        dc = -1.0 + i / c - an * dc / c / c
        c = b + an / c
        denominator = an * d + b
        if c == 0.0:
            c = 1e-300
        if denominator == 0.0:
            denominator = 1e-300
        new = 1.0 / denominator
        dd = -new * new * (i * d + an * dd - 1.0)
        d = new
        factor = c * d
        h *= factor
        step = dc / c + dd / d
        dlog += step
        if abs(factor - 1.0) < 1e-16 and abs(step) <= 1e-16 * abs(dlog):
            break
    return -front * a * h * (log_x - digamma + dlog)


@helper
def _betainc_slope(in_a, a, b, x, y):
    """The derivative of I(a, b, x) in a, or else in b; y is ``1 - x``."""
    if not (a > 0.0 and b > 0.0 and x > 0.0 and y > 0.0) or math.isinf(a + b):
        return 0.0 if x == 0.0 or y == 0.0 else math.nan
    log_x = math.log(x) if x < 0.5 else math.log1p(-y)
    log_y = math.log(y) if y < 0.5 else math.log1p(-x)
    sign = 1.0
    if x * (a + b + 2.0) > a + 1.0:
        # 1 - I is I(b, a, y).
        a, b, x, log_x, log_y, in_a, sign = b, a, y, log_y, log_x, not in_a, -1.0
    front = math.exp(a * log_x + b * log_y + math.lgamma(a + b) - math.lgamma(a + 1.0) - math.lgamma(b))
    if front == 0.0:
        return 0.0
    slope = (log_x - _digamma(a + 1.0) if in_a else log_y - _digamma(b)) + _digamma(a + b)
    # Lentz's algorithm for 1 + d1 / (1 + d2 / (1 + ...)), each step with its derivative.
    c, dc, d, dd, fraction, k = 1.0, 0.0, 0.0, 0.0, 1.0, 1
    while k < 200_000:
        m, even = float(k // 2), k % 2 == 0
        at = a + 2.0 * m
        if even:
            factor = m * x / ((at - 1.0) * at)
            term, rise = factor * (b - m), factor
            if in_a:
                rise = -term * (1.0 / (at - 1.0) + 1.0 / at)
        else:
            factor = -(a + m) * x / (at * (at + 1.0))
            term, rise = factor * (a + b + m), factor
            if in_a:
                rise = term * (1.0 / (a + m) + 1.0 / (a + b + m) - 1.0 / at - 1.0 / (at + 1.0))
        d, dd = 1.0 / (1.0 + term * d), rise * d + term * dd
        dd *= -d * d
        c, dc = 1.0 + term / c, (rise - term * dc / c) / c
        fraction *= c * d
        step = dc / c + dd / d
        slope -= step
        k += 1
        if not (even or abs(c * d - 1.0) > 1e-16 or abs(step) > 1e-16 * abs(slope)):
            break
    return sign * front / fraction * slope


def betainc_da(a, b, x):
    """Derivative of ``betainc(a, b, x)`` in `a`."""
    return _betainc_slope(True, a, b, x, 1.0 - x)


def betainc_db(a, b, x):
    """Derivative of ``betainc(a, b, x)`` in `b`."""
    return _betainc_slope(False, a, b, x, 1.0 - x)


def stdtr_ddf(df, t):
    """Derivative of ``stdtr(df, t)`` in `df`."""
    square = t * t
    if not df > 0.0 or math.isinf(square):
        return 0.0 if df > 0.0 else math.nan
    if df > 2e3 * (1.0 + square * square):
        # Beside the normal distribution: the series in 1 / df, of which the two parts below are nearly opposite.
        density, u = math.exp(-0.5 * square) / math.sqrt(2.0 * math.pi), 1.0 / df
        first, second = (square + 1.0) * 0.25, (((3.0 * square - 5.0) * square - 7.0) * square - 3.0) / 96.0
        third = (((((square - 11.0) * square + 14.0) * square + 6.0) * square - 3.0) * square - 15.0) / 384.0
        return density * t * u * u * (first + u * (2.0 * second + 3.0 * third * u))
    half, whole = 0.5 * df, df + square
    density = math.exp(math.lgamma(half + 0.5) - math.lgamma(half) - (half + 0.5) * math.log1p(square / df)) / math.sqrt(math.pi * df)
    part = 0.25 * _betainc_slope(True, half, 0.5, df / whole, square / whole)
    return (-part if t > 0.0 else part) - density * t / (2.0 * df)


#: From here on a float is a whole number; compiled, `math.floor` is an int64.
_WHOLE = 2.0**52


def zeta(s, q):
    """The sum of ``(q + k) ** -s`` over k = 0, 1, ..., for s > 1."""
    if not s > 1.0:
        return math.inf if s == 1.0 else math.nan
    if not q <= 0.0:
        return _zeta(s, q)
    if q <= -_WHOLE or q == math.floor(q):
        return math.inf
    if s < _WHOLE and s != math.floor(s):
        return math.nan
    # The terms below 0 are those of two sums over what is above.  (Both distances to the pole next to 0 are differences without rounding.)
    whole = float(math.floor(q))
    below = _zeta(s, whole + 1.0 - q) - _zeta(s, 1.0 - q)
    return _zeta(s, q - whole) + (below if s % 2.0 == 0.0 else -below)


@helper
def _zeta(s, q):
    """`zeta` for q > 0."""
    if q > 1e8:
        return (1.0 / (s - 1.0) + 0.5 / q) * q ** (1.0 - s)
    total, at, n = q**-s, q, 0
    term = total
    while n < 9 or at <= 9.0:
        n += 1
        at += 1.0
        term = at**-s
        total += term
        if abs(term) < 1e-16 * abs(total):
            return total
    total += term * at / (s - 1.0) - 0.5 * term
    # B(2k) / (2k)! for k = 1, 2, ..., as reciprocals.
    factor, k = 1.0, 0.0
    for reciprocal in (
        12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183792, 74724249600.0, -2950130727918.1642, 116467828143500.67,
        -4597978722407472.6, 181521054019435480.0, -7166165256175667000.0,
    ):
        factor *= s + k
        term /= at
        part = factor * term / reciprocal
        total += part
        if abs(part) < 1e-16 * abs(total):
            break
        factor *= s + k + 1.0
        term /= at
        k += 2.0
    return total
