"""Driving the compiled loop: chunks of a tenth of a second, evaluations that need Python, Ctrl-C."""

import time

import numpy as np

from ..common.errors import OptimizationError
from ..common.uninterrupted import uninterrupted
from . import state as P
from .layout import as_bounds, shaped
from .objective import Objective
from .progress import Progress
from .result import Result, finished
from .run import run
from .state import State

#: Seconds between two returns to Python that a loop aims at.
CHUNK = 0.1
#: Rows of history a loop writes before it comes back.
ROOM = 4096

#: Advice when steps of a fixed length end where there are no numbers.
DIVERGED = ". If the values grew before: a smaller learning_rate"

#: Stops that Python decides on.
EVALUATIONS, CALLBACK, INTERRUPTED = 21, 22, 23
MESSAGES = {
    P.GRADIENT: (True, 0, "the gradient is at most gtol"),
    P.CHANGE: (True, 1, "the value changes by at most ftol"),
    P.LIMIT: (False, 2, "max_iter iterations are done; result.state goes on"),
    P.STUCK: (False, 3, "no step lowers the value: the precision of the numbers is reached, or the gradient is not that of the value"),
    P.ENDLESS: (False, 7, "the value falls without end along a line: there is no minimum; give bounds"),
    EVALUATIONS: (False, 4, "max_evaluations are done; result.state goes on"),
    CALLBACK: (False, 5, "the callback asked to stop; result.state goes on"),
    INTERRUPTED: (False, 6, "interrupted; result.state goes on"),
}


def started(function, x0, args, method, memory=0, bounds=None):
    """The objective, and the state to begin with or to go on from (`x0` is then a `State`, and is copied)."""
    if isinstance(x0, State):
        if x0.method != method:
            raise OptimizationError(f"the state is one of {x0.method}, it cannot be resumed by {method}")
        state = x0.copy()
        objective = Objective(function, state.layout.container(state.vectors[P.XT].copy()), args)
        state.layout = objective.layout if objective.layout.structure == state.layout.structure else state.layout
        if bounds is not None:
            raise OptimizationError("bounds cannot change when an optimisation is resumed; begin again from result.x")
        return objective, state
    objective = Objective(function, x0, args)
    state = State(method, objective.layout, memory)
    if bounds is not None:
        lower, upper = as_bounds(bounds, objective.layout)
        state.vectors[P.LOWER], state.vectors[P.UPPER] = lower, upper
        state.vectors[P.XT] = np.clip(state.vectors[P.XT], lower, upper)
        state.integers[P.I_BOUNDED] = 1
    return objective, state


def drive(objective, state, max_iter, max_evaluations=None, callback=None, progress=None):
    """Run the loop to its end.

    Returns
    -------
    Result
    """
    integers, reals = state.integers, state.reals
    integers[P.I_LIMIT] = state.iterations + max_iter
    history = np.empty((ROOM, P.COLUMNS))
    # All iterations of a descent are usually done: then the time remaining is shown.
    endless = integers[P.I_KIND] != P.LBFGS
    shown = Progress(progress, max_iter if endless else None)
    begun, done = state.iterations, state.evaluations
    budget, why, due = 1, None, 0.0
    #: Whether nothing has to be looked at, nor shown, between two chunks.
    quiet = max_evaluations is None and callback is None and not shown.wanted
    try:
        while True:
            if why is not None and why > P.FINISHED:
                if why == P.BROKEN or objective.stands(state.vectors[P.X]):
                    break
                state.begin_again()
                why = None
            if max_evaluations is not None:
                left = max_evaluations - (state.evaluations - done)
                if left <= 0 and integers[P.I_PHASE] == P.EVALUATE:
                    why = EVALUATIONS
                    break
                budget = min(budget, left)
            # The state is whole when Ctrl-C stops the optimisation.
            with uninterrupted:
                on = True
                while on:
                    budget = min(budget, objective.until_kernel())
                    chunk, earlier = time.perf_counter(), state.evaluations
                    why = run(objective.handle(), history, budget, *state.arrays)
                    took, count = time.perf_counter() - chunk, state.evaluations - earlier
                    objective.note(count)
                    rows = int(integers[P.I_ROWS])
                    if rows:
                        state.remember(history[:rows])
                        integers[P.I_ROWS] = 0
                    if count:
                        # From one evaluation on, for it is not known yet how long one takes.
                        budget = max(1, min(16 * budget, int(count * CHUNK / max(took, 1e-6))))
                    on = why in (P.BUDGET, P.FULL) and quiet and not uninterrupted.awaited
            if why == P.PYTHON:
                # A copy: the user's function may keep what it is given.
                value = objective.record(state.vectors[P.XT].copy(), state.vectors[P.GT])
                reals[P.R_TRIAL] = value
                integers[P.I_EVALUATIONS] += 1
                integers[P.I_PHASE] = P.EVALUATED
            shown.update(state.iterations - begun, reals[P.R_VALUE], reals[P.R_NORM])
            if callback is not None and why < P.FINISHED and integers[P.I_STARTED] and time.perf_counter() >= due:
                if _stops(callback, objective, state):
                    why = CALLBACK
                due = time.perf_counter() + CHUNK
    except KeyboardInterrupt:
        # Perhaps in user code, which was being recorded: the state still wants that evaluation.
        why = INTERRUPTED if why is None or why < P.FINISHED else why
    finally:
        shown.close(state.iterations - begun, reals[P.R_VALUE], reals[P.R_NORM])
    if why == P.BROKEN:
        at = P.XT if integers[P.I_PHASE] == P.EVALUATED else P.X
        value, g = (reals[P.R_TRIAL], state.vectors[P.GT]) if at == P.XT else (reals[P.R_VALUE], state.vectors[P.G])
        objective.refuse(state.vectors[at], value, g, DIVERGED if endless and state.iterations else "")
    success, status, message = MESSAGES[why]
    stepped = bool(integers[P.I_STARTED])
    solution = {
        "x": state.vectors[P.X if stepped else P.XT], "fun": float(reals[P.R_VALUE]) if stepped else np.nan, "success": success,
        "status": status, "message": message, "nit": state.iterations, "nfev": state.evaluations, "njev": state.evaluations,
    }  # fmt: skip
    return finished(
        solution, objective.layout, objective.proof.differs, shown, jac=shaped(objective.layout, state.vectors[P.G]),
        gradient_norm=float(reals[P.R_NORM]), counts=objective.counts, seconds={"recording": objective.seconds},
        history=state.history, state=state, asked=objective.asked((state.vectors[P.LOWER].copy(), state.vectors[P.UPPER].copy())),
    )  # fmt: skip


def _stops(callback, objective, state):
    view = Result(
        x=shaped(objective.layout, state.vectors[P.X]), fun=float(state.reals[P.R_VALUE]), nit=state.iterations,
        nfev=state.evaluations, gradient_norm=float(state.reals[P.R_NORM]),
    )  # fmt: skip
    objective.suspect()
    try:
        return bool(callback(view))
    except StopIteration:
        return True
