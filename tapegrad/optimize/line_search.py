"""A line search for the strong Wolfe conditions, as a state that is handed values.

J. J. Moré and D. J. Thuente, "Line search algorithms with guaranteed sufficient
decrease", ACM Transactions on Mathematical Software 20 (1994), 286-307.

With phi(t) the objective along the direction, a step is sought with

    phi(t) <= phi(0) + DECREASE * t * phi'(0)    and    |phi'(t)| <= CURVATURE * |phi'(0)|.

The search keeps an interval with end points `x` (the best so far) and `y`, which,
once it is a bracket, contains such a step.  In stage 1 it works on
psi(t) = phi(t) - DECREASE * t * phi'(0) where that is still above zero.

The state is a row of float64 (`L_*`).  `begin` gives the first step, `advance` takes
value and slope there and gives the next one, or says that the search has ended.
"""

import math

from ..codegen.array_functions import compiled_on_arrays
from ..codegen.compile import helper

(
    L_STEP, L_VALUE, L_SLOPE, L_X, L_FX, L_GX, L_Y, L_FY, L_GY, L_BRACKET, L_STAGE, L_WIDTH, L_WIDTH_BEFORE,
    L_LOW, L_HIGH, L_LARGEST, L_TRIED, L_BROKEN,
) = range(18)  # fmt: skip
WORDS = 18

DECREASE, CURVATURE = 1e-4, 0.9
#: A bracket narrower than this, relative to its upper end, is not searched further.
NARROW = 1e-10
SMALLEST, LARGEST = 1e-20, 1e20
#: The interval has to become this much shorter in two steps; a step in a bracket goes this far to its other end, at most.
SHORTER = 0.66
#: Without a bracket the next step is this much longer than the last one's way from the best, at least and at most; and the first
#: one's limit, relative to it.
NEARER, FARTHER, FIRST = 1.1, 4.0, 5.0
#: Values asked for in one search; steps in a row to points where the objective is no number.
MOST, MOST_BROKEN = 40, 60

#: What `advance` returns.
GO_ON, FOUND, STUCK, BROKEN = 0, 1, 2, 3


@compiled_on_arrays("void(float64[::1], float64, float64, float64)")
def begin(s, value, slope, step):
    """Begin a search at phi(0) = `value`, phi'(0) = `slope`, with first step `step`."""
    s[L_STEP], s[L_HIGH], s[L_LOW], s[L_LARGEST] = step, FIRST * step, 0.0, LARGEST
    s[L_VALUE] = s[L_FX] = s[L_FY] = value
    s[L_SLOPE] = s[L_GX] = s[L_GY] = slope
    s[L_X] = s[L_Y] = s[L_BRACKET] = s[L_TRIED] = s[L_BROKEN] = 0.0
    s[L_STAGE], s[L_WIDTH], s[L_WIDTH_BEFORE] = 1.0, LARGEST, 2.0 * LARGEST


@helper
def cubic(a, fa, ga, b, fb, gb):
    """The local minimum of the cubic through two points with slopes, as a fraction of the way from `b` to `a`.

    The closed form of the paper's section 4, scaled against overflow.
    """
    theta = 3.0 * (fa - fb) / (b - a) + ga + gb
    size = max(max(abs(theta), abs(ga)), abs(gb))
    theta_size = theta / size
    gamma = size * math.sqrt(max(0.0, theta_size * theta_size - ga / size * (gb / size)))
    if b > a:
        gamma = -gamma
    below = (gamma - gb) + gamma + ga
    # A cubic without a minimum on this side: as far as it goes.
    return (gamma - gb + theta) / below if below != 0.0 else math.inf


@helper
def shrink(s, f, g):
    """The paper's trial value selection and interval update, for value `f` and slope `g` at the current step."""
    t, x, fx, gx = s[L_STEP], s[L_X], s[L_FX], s[L_GX]
    y, fy, gy = s[L_Y], s[L_FY], s[L_GY]
    bracket, away = s[L_BRACKET] != 0.0, g * (gx / abs(gx)) < 0.0
    low, high = s[L_LOW], s[L_HIGH]
    if f > fx:
        # Higher: a minimum lies between; the cubic step if it is nearer to x, else halfway to the quadratic one.
        c = t + cubic(x, fx, gx, t, f, g) * (x - t)
        q = x + gx / ((fx - f) / (t - x) + gx) / 2.0 * (t - x)
        new = c if abs(c - x) < abs(q - x) else c + (q - c) / 2.0
        bracket = True
    elif away:
        # Lower, with slopes of opposite sign: a minimum lies between; the step farther from t.
        c = t + cubic(x, fx, gx, t, f, g) * (x - t)
        q = t + g / (g - gx) * (x - t)
        new = c if abs(c - t) > abs(q - t) else q
        bracket = True
    elif abs(g) < abs(gx):
        # Lower, and flatter: the cubic may have its minimum beyond t, or none.
        r = cubic(x, fx, gx, t, f, g)
        c = t + r * (x - t) if r < 0.0 and r > -math.inf else (high if t > x else low)
        q = t + g / (g - gx) * (x - t)
        if bracket:
            new = c if abs(c - t) < abs(q - t) else q
            limit = t + SHORTER * (y - t)
            new = min(limit, new) if t > x else max(limit, new)
        else:
            new = c if abs(c - t) > abs(q - t) else q
            new = min(max(new, low), high)
    elif bracket:
        # Lower, and no flatter.
        new = t + cubic(y, fy, gy, t, f, g) * (y - t)
    else:
        new = high if t > x else low
    if f > fx:
        y, fy, gy = t, f, g
    else:
        if away:
            y, fy, gy = x, fx, gx
        x, fx, gx = t, f, g
    s[L_X], s[L_FX], s[L_GX], s[L_Y], s[L_FY], s[L_GY] = x, fx, gx, y, fy, gy
    s[L_STEP], s[L_BRACKET] = new, 1.0 if bracket else 0.0


@compiled_on_arrays("int64(float64[::1], float64, float64)")
def advance(s, f, g):
    """Take value and slope at the step asked for; the next one is ``s[L_STEP]``.

    Returns `GO_ON`; `FOUND` if both conditions hold at the step; `STUCK` if nothing better
    than ``s[L_X]`` can be told apart from it; `BROKEN` if no step gave numbers.
    """
    t = s[L_STEP]
    if f - f != 0.0 or g - g != 0.0:
        # No number there: nearer, and never so far again.
        s[L_BROKEN] += 1.0
        x = s[L_X]
        t = x + (t - x) / 4.0
        if s[L_BROKEN] > MOST_BROKEN or t == x:
            return BROKEN
        s[L_STEP], s[L_LARGEST] = t, max(t, x)
        return GO_ON
    s[L_TRIED] += 1.0
    decrease = DECREASE * s[L_SLOPE]
    limit = s[L_VALUE] + t * decrease
    if s[L_STAGE] == 1.0 and f <= limit and g >= 0.0:
        s[L_STAGE] = 2.0
    if f <= limit and abs(g) <= CURVATURE * -s[L_SLOPE]:
        return FOUND
    low, high, largest = s[L_LOW], s[L_HIGH], s[L_LARGEST]
    narrow = s[L_BRACKET] != 0.0 and (t <= low or t >= high or high - low <= NARROW * high) or s[L_TRIED] >= MOST
    if narrow or t == largest and f <= limit and g <= decrease or t <= SMALLEST:
        if f < s[L_FX]:
            s[L_X], s[L_FX] = t, f
        return STUCK
    if s[L_STAGE] == 1.0 and f <= s[L_FX] and f > limit:
        # On psi instead of phi.
        for value, step, at in ((L_FX, L_X, L_GX), (L_FY, L_Y, L_GY)):
            s[value] -= s[step] * decrease
            s[at] -= decrease
        shrink(s, f - t * decrease, g - decrease)
        for value, step, at in ((L_FX, L_X, L_GX), (L_FY, L_Y, L_GY)):
            s[value] += s[step] * decrease
            s[at] += decrease
    else:
        shrink(s, f, g)
    x, y, new = s[L_X], s[L_Y], s[L_STEP]
    if new - new != 0.0:
        # Values and slopes so large that their cubic is no number.
        new = x + (t - x) / 2.0 if t != x else x + (y - x) / 2.0
    if s[L_BRACKET] != 0.0:
        if abs(y - x) >= SHORTER * s[L_WIDTH_BEFORE]:
            new = x + (y - x) / 2.0
        s[L_WIDTH_BEFORE], s[L_WIDTH] = s[L_WIDTH], abs(y - x)
        low, high = min(x, y), max(x, y)
    else:
        low, high = new + NEARER * (new - x), new + FARTHER * (new - x)
    new = min(max(new, SMALLEST), largest)
    if s[L_BRACKET] != 0.0 and (new <= low or new >= high or high - low <= NARROW * high):
        new = x
    s[L_LOW], s[L_HIGH], s[L_STEP] = low, high, new
    return GO_ON
