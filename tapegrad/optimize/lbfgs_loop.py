"""L-BFGS in a compiled loop.

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

from __future__ import annotations

from ..codegen.compile import compiled
from ..codegen.memory import double_at, int_at, set_double_at, set_int_at
from . import loop as P
from .line_search import BROKEN, FOUND, GO_ON, L_FX, L_SLOPE, L_STEP, L_VALUE, L_X, LARGEST, STUCK, advance, begin
from .point import accept_step, evaluated
from .vectors import add_scaled, along, copy, dot, project, scale, slope_norm

#: Halvings of a projected step.
HALVINGS = 50
#: Sufficient decrease along the projected path.
DECREASE = 1e-4
#: A decrease relative to the value that may be lost in rounding.
ROUNDING = 1e-12
#: Curvature along a pair, relative to its squared change of gradient, that could be rounding (2**-52): it is not kept.
EPSILON = 2.2e-16
#: How near to its bound a variable counts as at it, at most.
NEAR = 1e-6


@compiled("void(int64, int64, int64, int64, int64)")
def remember(v, pairs, n, m, i):
    """Keep the pair of the trial point and the current one, if the curvature along it is positive."""
    head = int_at(i, P.I_HEAD)
    s, y = pairs + 16 * n * head, pairs + 16 * n * head + 8 * n
    for k in range(n):
        set_double_at(s, k, double_at(v + 8 * n * P.XT, k) - double_at(v + 8 * n * P.X, k))
        set_double_at(y, k, double_at(v + 8 * n * P.GT, k) - double_at(v + 8 * n * P.G, k))
    curvature = dot(s, y, n)
    if curvature > EPSILON * dot(y, y, n):
        set_double_at(pairs + 16 * n * m + 8 * m, head, curvature)
        set_int_at(i, P.I_HEAD, (head + 1) % m)
        set_int_at(i, P.I_PAIRS, min(m, int_at(i, P.I_PAIRS) + 1))


@compiled("int64(int64, int64, int64)")
def at_bounds(v, n, i):
    """Mark in `SCRATCH` the variables held by a bound; how many are free."""
    free = n
    norm = 0.0
    scratch, x, g = v + 8 * n * P.SCRATCH, v + 8 * n * P.X, v + 8 * n * P.G
    lower, upper = v + 8 * n * P.LOWER, v + 8 * n * P.UPPER
    if int_at(i, P.I_BOUNDED) != 0:
        norm = slope_norm(x, g, lower, upper, n, 1)
    near = min(norm, NEAR)
    for k in range(n):
        held = 0.0
        if int_at(i, P.I_BOUNDED) != 0:
            slope, at = double_at(g, k), double_at(x, k)
            if slope > 0.0 and at <= double_at(lower, k) + near or slope < 0.0 and at >= double_at(upper, k) - near:
                held = 1.0
                free -= 1
        set_double_at(scratch, k, held)
    return free


@compiled("void(int64, int64)")
def freeze(v, n):
    """Zero the components of the direction that belong to held variables."""
    for k in range(n):
        if double_at(v + 8 * n * P.SCRATCH, k) != 0.0:
            set_double_at(v + 8 * n * P.D, k, 0.0)


@compiled("float64(int64, int64, int64, int64, int64)")
def two_loop(v, pairs, n, m, i):
    """Choose the direction; returns the slope along it (for held variables before projection)."""
    g, d = v + 8 * n * P.G, v + 8 * n * P.D
    at_bounds(v, n, i)
    copy(d, g, n)
    freeze(v, n)
    count, head = int_at(i, P.I_PAIRS), int_at(i, P.I_HEAD)
    alphas, curvatures = pairs + 16 * n * m, pairs + 16 * n * m + 8 * m
    for k in range(count):
        j = (head - 1 - k) % m
        s, y = pairs + 16 * n * j, pairs + 16 * n * j + 8 * n
        alpha = dot(s, d, n) / double_at(curvatures, j)
        set_double_at(alphas, j, alpha)
        add_scaled(d, -alpha, y, n)
    if count > 0:
        j = (head - 1) % m
        y = pairs + 16 * n * j + 8 * n
        scale(d, double_at(curvatures, j) / dot(y, y, n), n)
    for k in range(count - 1, -1, -1):
        j = (head - 1 - k) % m
        s, y = pairs + 16 * n * j, pairs + 16 * n * j + 8 * n
        beta = dot(y, d, n) / double_at(curvatures, j)
        add_scaled(d, double_at(alphas, j) - beta, s, n)
    scale(d, -1.0, n)
    for k in range(n):
        if double_at(v + 8 * n * P.SCRATCH, k) != 0.0:
            set_double_at(d, k, -double_at(g, k))
    return dot(g, d, n)


@compiled("void(int64, int64, int64, int64)")
def trial(v, n, r, i):
    """The trial point at the current step."""
    xt = v + 8 * n * P.XT
    step = double_at(r, P.R_SEARCH + L_STEP) if int_at(i, P.I_BOUNDED) == 0 else double_at(r, P.R_STEP)
    along(xt, v + 8 * n * P.X, step, v + 8 * n * P.D, n)
    if int_at(i, P.I_BOUNDED) != 0:
        project(xt, v + 8 * n * P.LOWER, v + 8 * n * P.UPPER, n)
    set_int_at(i, P.I_PHASE, P.EVALUATE)


@compiled("int64(int64, int64, int64, int64, int64)")
def begin_step(v, pairs, r, i, n):
    """Choose a direction and the first step along it; whether there is a way down."""
    m = int_at(i, P.I_MEMORY)
    slope = two_loop(v, pairs, n, m, i)
    if not slope < 0.0:
        set_int_at(i, P.I_PAIRS, 0)
        slope = two_loop(v, pairs, n, m, i)
        if not slope < 0.0:
            return 0
    step = 1.0
    if int_at(i, P.I_PAIRS) == 0:
        step = min(1.0, 1.0 / dot(v + 8 * n * P.G, v + 8 * n * P.G, n) ** 0.5)
    begin(r + 8 * P.R_SEARCH, double_at(r, P.R_VALUE), slope, step)
    set_double_at(r, P.R_STEP, step)
    set_double_at(r, P.R_FIRST, step)
    set_int_at(i, P.I_FINAL, 0)
    trial(v, n, r, i)
    return 1


@compiled("int64(int64, int64, int64, int64)")
def projected(v, n, r, i):
    """Judge the trial point of a projected search: `FOUND`, `GO_ON` with half the step, or `STUCK`."""
    down = 0.0
    for k in range(n):
        down += double_at(v + 8 * n * P.G, k) * (double_at(v + 8 * n * P.XT, k) - double_at(v + 8 * n * P.X, k))
    value = double_at(r, P.R_TRIAL)
    norm = slope_norm(v + 8 * n * P.XT, v + 8 * n * P.GT, v, v, n, 0)
    finite = value - value == 0.0 and norm - norm == 0.0
    if finite and value <= double_at(r, P.R_VALUE) + DECREASE * down and down < 0.0:
        return FOUND
    set_int_at(i, P.I_FINAL, int_at(i, P.I_FINAL) + 1)
    if int_at(i, P.I_FINAL) > HALVINGS:
        return STUCK if finite else BROKEN
    set_double_at(r, P.R_STEP, double_at(r, P.R_STEP) / (2.0 if finite else 4.0))
    return GO_ON


@compiled("int64(int64, int64, int64, int64)")
def test_step(v, n, r, i):
    """Judge the trial point of a search without bounds."""
    if int_at(i, P.I_FINAL) != 0:
        return FOUND
    search = r + 8 * P.R_SEARCH
    outcome = advance(search, double_at(r, P.R_TRIAL), dot(v + 8 * n * P.GT, v + 8 * n * P.D, n))
    if outcome == STUCK and double_at(search, L_X) > 0.0 and double_at(search, L_FX) < double_at(search, L_VALUE):
        # The best point is lower than where we began: go there.
        if double_at(search, L_X) == double_at(search, L_STEP):
            return FOUND
        set_double_at(search, L_STEP, double_at(search, L_X))
        set_int_at(i, P.I_FINAL, 1)
        return GO_ON
    return outcome


@compiled("int64(int64)")
def stuck(r):
    """Why no step lowers the value: none could by more than rounding (which is a solution), or something is wrong."""
    value = double_at(r, P.R_VALUE)
    promised = -double_at(r, P.R_SEARCH + L_SLOPE) * double_at(r, P.R_FIRST)
    return P.CHANGE if promised <= ROUNDING * max(abs(value), 1.0) else P.STUCK


@compiled("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def lbfgs(handle, v, pairs, r, i, history, room, budget):
    """Go on; returns why it came back (`optimize.loop`).

    Parameters are addresses: of the objective's handle (0: Python evaluates), the state's
    vectors, its pairs, reals and integers, and `room` rows for the history.
    """
    n, m = int_at(i, P.I_SIZE), int_at(i, P.I_MEMORY)
    while True:
        phase = int_at(i, P.I_PHASE)
        if phase == P.EVALUATE:
            if budget <= 0:
                return P.BUDGET
            if evaluated(handle, v, n, r, i) == 0:
                return P.PYTHON
            budget -= 1
        elif phase == P.EVALUATED:
            if int_at(i, P.I_ROWS) >= room:
                return P.FULL
            if int_at(i, P.I_STARTED) == 0:
                outcome = FOUND
            elif int_at(i, P.I_BOUNDED) != 0:
                outcome = projected(v, n, r, i)
            else:
                outcome = test_step(v, n, r, i)
            if outcome == FOUND:
                if int_at(i, P.I_STARTED) != 0:
                    remember(v, pairs, n, m, i)
                accept_step(v, n, r, i, history)
            elif outcome == GO_ON:
                trial(v, n, r, i)
            elif outcome == BROKEN:
                return P.BROKEN
            elif int_at(i, P.I_PAIRS) > 0:
                # What the pairs say does not help here: once more, straight down.
                set_int_at(i, P.I_PAIRS, 0)
                if begin_step(v, pairs, r, i, n) == 0:
                    set_int_at(i, P.I_PHASE, P.NEXT)
                    return P.STUCK
            else:
                set_int_at(i, P.I_PHASE, P.NEXT)
                return stuck(r)
        else:
            value, norm = double_at(r, P.R_VALUE), double_at(r, P.R_NORM)
            if value - value != 0.0 or norm - norm != 0.0:
                return P.BROKEN
            if norm <= double_at(r, P.R_GTOL):
                return P.GRADIENT
            if int_at(i, P.I_ITERATIONS) > 0 and double_at(r, P.R_SEARCH + L_STEP) >= LARGEST:
                return P.ENDLESS
            change = double_at(r, P.R_CHANGE)
            if int_at(i, P.I_ITERATIONS) > 0 and change <= double_at(r, P.R_FTOL) * max(abs(value), abs(value + change), 1.0):
                return P.CHANGE
            if int_at(i, P.I_ITERATIONS) >= int_at(i, P.I_LIMIT):
                return P.LIMIT
            if begin_step(v, pairs, r, i, n) == 0:
                return P.STUCK
