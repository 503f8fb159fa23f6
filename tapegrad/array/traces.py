"""The functional recording that an operation is part of, and what it is told of errors."""

from ..common.errors import TapeMismatchError
from ..common.registry import registry
from ..tape.store import thread_state
from .differentiable import below


def of_another_thread(t):
    """The error for `t`, of the tape of another thread."""
    return TapeMismatchError(
        f"this tensor of shape {tuple(t.shape)} was computed in another thread, on that thread's tape; "
        "pass leaves (or .detach()ed values) between threads and compute in the thread that differentiates"
    )


def trace_of(operands):
    """The trace of a functional recording that one of the operands belongs to, of the innermost one if there are several, or None."""
    chosen = None
    for o in operands:
        o = below(o)
        if isinstance(o, registry.Tensor) and o._t is not None:
            trace = o._t.trace
            if trace is not None and (chosen is None or trace.depth > chosen.depth or chosen.store.retired):
                chosen = trace
    # While a body is recorded, what it does to tensors of a recording around it is done in each iteration.
    return chosen and (current_body() or (None if chosen.store.retired else chosen))


def current_body():
    """The trace of the body of a loop that this thread is recording, or None."""
    trace = thread_state().store.trace
    return trace if trace is not None and trace.depth else None


def failed(error, row, operands, values=(), attrs=(), integer=0):
    """NumPy has raised `error` where it computed a row (None: something else): a functional recording notes it."""
    trace = trace_of(operands)
    if trace is not None:
        trace.failed(error, row, list(map(below, operands)), values, attrs, integer)


def computed(function, values, operands):
    """``function(*values)``, the values of `operands`."""
    try:
        return function(*values)
    except Exception as error:
        failed(error, None, operands)
        raise
