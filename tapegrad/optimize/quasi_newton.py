"""The steps of L-BFGS, for the compiled loop (`optimize.run`).

J. Nocedal, "Updating quasi-Newton matrices with limited storage", Mathematics of
Computation 35 (1980), 773-782: the direction is the product of the inverse Hessian's
approximation, made of the last `m` pairs (change of x, change of gradient), with the
gradient, by two loops over the pairs.

Without bounds the step satisfies the strong Wolfe conditions (`optimize.line_search`).
With bounds it is the projected search of D. P. Bertsekas, "Projected Newton methods for optimization
problems with simple constraints", SIAM Journal on Control and Optimization 20 (1982),
221-246: variables at a bound that the gradient pushes against follow the gradient, the others the
quasi-Newton direction, and the step is halved until the projected point is low enough.
"""

from ..codegen.compile import helper
from . import state as P
from .line_search import BROKEN, FOUND, GO_ON, L_FX, L_STEP, L_VALUE, L_X, STUCK, advance, begin
from .vectors import add_scaled, dot, project, slope_norm

#: Halvings of a projected step.
HALVINGS = 50
#: Sufficient decrease along the projected path.
DECREASE = 1e-4
#: Curvature along a pair, relative to its squared change of gradient, that could be rounding (2**-52): it is not kept.
EPSILON = 2.2e-16
#: How near to its bound a variable counts as at it, at most.
NEAR = 1e-6


@helper
def remember(v, pairs, products, i):
    """Keep the pair of the trial point and the current one, if the curvature along it is positive."""
    head, m = i[P.I_HEAD], len(pairs) // 2
    s, y, x, g, xt, gt = pairs[2 * head], pairs[2 * head + 1], v[P.X], v[P.G], v[P.XT], v[P.GT]
    for k in range(len(x)):
        s[k], y[k] = xt[k] - x[k], gt[k] - g[k]
    curvature = dot(s, y)
    if curvature > EPSILON * dot(y, y):
        products[1, head] = curvature
        i[P.I_HEAD], i[P.I_PAIRS] = (head + 1) % m, min(m, i[P.I_PAIRS] + 1)


@helper
def two_loop(v, pairs, products, i):
    """Choose the direction; returns the slope along it (for held variables before projection).

    Row 0 of `products` is scratch, row 1 holds the curvature of each pair.
    """
    x, g, d, lower, upper = v[P.X], v[P.G], v[P.D], v[P.LOWER], v[P.UPPER]
    # Variables at a bound that the gradient pushes against are held.
    held, alphas, curvatures = v[P.SCRATCH], products[0], products[1]
    bounded = i[P.I_BOUNDED] != 0
    near = min(slope_norm(x, g, lower, upper, 1), NEAR) if bounded else 0.0
    for k in range(len(g)):
        held[k], d[k] = 0.0, g[k]
        if bounded and (g[k] > 0.0 and x[k] <= lower[k] + near or g[k] < 0.0 and x[k] >= upper[k] - near):
            held[k], d[k] = 1.0, 0.0
    count, head, m = i[P.I_PAIRS], i[P.I_HEAD], len(pairs) // 2
    for k in range(count):
        j = (head - 1 - k) % m
        alphas[j] = dot(pairs[2 * j], d) / curvatures[j]
        add_scaled(d, -alphas[j], pairs[2 * j + 1])
    if count > 0:
        j = (head - 1) % m
        factor = curvatures[j] / dot(pairs[2 * j + 1], pairs[2 * j + 1])
        for k in range(len(d)):
            d[k] *= factor
    for k in range(count - 1, -1, -1):
        j = (head - 1 - k) % m
        add_scaled(d, alphas[j] - dot(pairs[2 * j + 1], d) / curvatures[j], pairs[2 * j])
    for k in range(len(d)):
        d[k] = -d[k] if held[k] == 0.0 else -g[k]
    return dot(g, d)


@helper
def trial(v, r, i):
    """The trial point at the current step."""
    x, xt, d = v[P.X], v[P.XT], v[P.D]
    step = r[P.R_SEARCH + L_STEP]
    for k in range(len(x)):
        xt[k] = x[k] + step * d[k]
    if i[P.I_BOUNDED]:
        project(xt, v[P.LOWER], v[P.UPPER])
    i[P.I_PHASE] = P.EVALUATE


@helper
def begin_step(v, pairs, products, r, i):
    """Choose a direction and the first step along it; whether there is a way down."""
    slope = two_loop(v, pairs, products, i)
    if not slope < 0.0:
        i[P.I_PAIRS] = 0
        slope = two_loop(v, pairs, products, i)
        if not slope < 0.0:
            return False
    step = 1.0 if i[P.I_PAIRS] else min(1.0, 1.0 / dot(v[P.G], v[P.G]) ** 0.5)
    begin(r[P.R_SEARCH :], r[P.R_VALUE], slope, step)
    r[P.R_FIRST] = step
    i[P.I_FINAL] = 0
    trial(v, r, i)
    return True


@helper
def projected(v, r, i):
    """Judge the trial point of a projected search: `FOUND`, `GO_ON` with half the step, or `STUCK`."""
    x, g, xt, gt = v[P.X], v[P.G], v[P.XT], v[P.GT]
    down = 0.0
    for k in range(len(x)):
        down += g[k] * (xt[k] - x[k])
    value, norm = r[P.R_TRIAL], slope_norm(xt, gt, x, x, 0)
    finite = value - value == 0.0 and norm - norm == 0.0
    if finite and value <= r[P.R_VALUE] + DECREASE * down and down < 0.0:
        return FOUND
    i[P.I_FINAL] += 1
    if i[P.I_FINAL] > HALVINGS:
        return STUCK if finite else BROKEN
    r[P.R_SEARCH + L_STEP] /= 2.0 if finite else 4.0
    return GO_ON


@helper
def searched(v, r, i):
    """Judge the trial point of a search without bounds."""
    if i[P.I_FINAL]:
        return FOUND
    search = r[P.R_SEARCH :]
    outcome = advance(search, r[P.R_TRIAL], dot(v[P.GT], v[P.D]))
    if outcome == STUCK and search[L_X] > 0.0 and search[L_FX] < search[L_VALUE]:
        # The best point is lower than where we began: go there.
        if search[L_X] == search[L_STEP]:
            return FOUND
        search[L_STEP] = search[L_X]
        i[P.I_FINAL] = 1
        return GO_ON
    return outcome
