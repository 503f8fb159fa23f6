"""The state of the compiled loop (`optimize.run`), and why it comes back to Python.

The loop is a machine that is always in one of three phases: it wants value and gradient
at its trial point (`EVALUATE`), has them (`EVALUATED`), or has accepted a point and
will choose the next direction (`NEXT`).  All it knows lies in arrays of the state, so it may come
back to Python anywhere and go on later, to the same bits: for its budget of
evaluations is used up (so that Ctrl-C, the callback and the progress line get their
iteration), because its rows for the history are full, or because the compiled objective
could not answer: then Python evaluates at the trial point (recording a new path, for
instance), writes value and gradient where the loop expects them, and sends it on.
"""

from __future__ import annotations

# Vectors of a state (rows of a matrix).
X, G, XT, GT, D, LOWER, UPPER, SCRATCH = range(8)
VECTORS = 8

# Integers of a state.  I_FINAL: without bounds 1 while the trial point is the one to be taken, with bounds how often the step was halved.
(
    I_PHASE, I_ITERATIONS, I_EVALUATIONS, I_LIMIT, I_BOUNDED, I_KIND, I_PAIRS, I_HEAD, I_STARTED, I_FINAL, I_ROWS,
) = range(11)  # fmt: skip
INTEGERS = 16

# Reals of a state.  R_FIRST: the first step of a search; what it promised tells a search that ended in rounding from one that is stuck.
(
    R_VALUE, R_TRIAL, R_NORM, R_CHANGE, R_GTOL, R_FTOL, R_RATE, R_MOMENTUM, R_BETA1, R_BETA2, R_EPSILON, R_POWER1, R_POWER2,
    R_FIRST, R_ROUNDING,
) = range(15)  # fmt: skip
#: The line search's state comes after these (`optimize.line_search`).
R_SEARCH = 16
REALS = R_SEARCH + 24

# Kinds of steps.
HEAVY_BALL, NESTEROV, ADAM, LBFGS = range(4)

# Phases.
EVALUATE, EVALUATED, NEXT = range(3)

# Why a loop comes back: not finished ...
BUDGET, PYTHON, FULL = 1, 2, 3
# ... or finished.
GRADIENT, CHANGE, LIMIT, STUCK, BROKEN, ENDLESS = 11, 12, 13, 14, 15, 16
FINISHED = 10

# Columns of the history.
H_VALUE, H_NORM = range(2)
COLUMNS = 2
