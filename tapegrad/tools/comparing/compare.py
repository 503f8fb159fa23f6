"""`tg.compare`: what each mode costs and gives, on a function of the user's own.

Every way to the Jacobian that the library has is an entry of `WAYS`; a new one
(`Way`) is one entry more.  All of them are run, must give the same numbers, and
are timed in turns.  The recommendation does not rest on these times but on
counts (`tapegrad.program.choosing`), so that two runs recommend the same.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ...array.tensor import Tensor
from ...common.errors import CheckError, OptionError, PerformanceWarning
from ...common.printing import Printed, bytes_text, count_text, plural, seconds_text, table
from ...common.tree import flatten
from ...nopython.api import njit_grad, njit_jacobian
from ...program.choosing import described, last_readers, predict
from ...program.sweeps import StoreWalk
from ...tape.layout import FIRST_ARRAY, SCALAR
from ...tape.places import function_name
from ...transforms.argnums import check_given, resolved
from ...transforms.forward import MOST_LANES
from ...transforms.functional import jit
from ...transforms.jacobians import JacobianFunction, jacfwd, jacobian, jacrev
from ...transforms.replay.directions import MOST as MOST_AT_ONCE
from ..check import apart
from .plots import plot_comparison

#: Disagreement that is still rounding, relative to the largest entry of the Jacobian.
TOLERANCE = {"d": 1e-8, "f": 1e-3}
#: Seconds of a function below which what is timed is mostly the call.
SHORT = 5e-5
#: Repeats of each way, at least and at most.
FEWEST, MOST = 3, 200


# ---- the ways -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """One way to the Jacobian.

    Attributes
    ----------
    name : str
    mode : {"forward", "reverse", "product"}
    call : str
        How a user asks for it.
    make : callable
        ``make(f, argnums)``: the function that gives the Jacobian.
    counted : callable
        ``counted(recording, prediction)``: passes, scalar operations, and bytes of
        buffers that Python does not see.
    kernel : bool
        Whether it is machine code, made at the second call; the line is left out where there is none.  (That of a product is where no
        cut is narrower than inputs and outputs.)
    """

    name: str
    mode: str
    call: str
    make: Callable
    counted: Callable
    kernel: bool = False


def _workspaces(derivative, args):
    """Bytes of the workspaces of all kernels of a derivative, or of the stack of what Numba has compiled."""
    if hasattr(derivative, "modes"):
        return derivative.modes(*args)["peak of the stack, bytes"]
    kinds = derivative._replayed.kinds.values() if hasattr(derivative, "_replayed") else ()
    return sum(kernel.nbytes for kind in kinds for kept in kind.tapes for kernel in kept.kernels.made.values())


def _inside_numba(outputs):
    """The way that ``via="numba"`` adds: the gradient of one number, or the Jacobian of a vector."""
    make, call = (njit_grad, "tg.njit_grad(f)") if outputs[0].shape == () else (njit_jacobian, 'tg.njit_jacobian(f, mode="reverse")')
    return Way("reverse, inside Numba", "reverse", call, partial(make, mode="reverse"), lambda _, p: (p.reverse.seeds, p.reverse.operations, 0))


#: The evaluation alone, which stands beside the ways.
VALUE = Way("value", "", "f", lambda f, argnums: f, lambda recording, prediction: (0, float("nan"), 0))
#: The way that the others are compared with.
REFERENCE = "reverse, sweep"
WAYS = [
    Way(
        "forward, dual numbers", "forward", "tg.jacfwd(f)", jacfwd,
        lambda recording, p: (sum(-(-port.size // MOST_LANES) for port in recording.inputs), p.forward.operations, 0),
    ),
    Way(
        "forward, tangent sweep", "forward", 'tg.jacobian(f, mode="forward")', partial(jacobian, mode="forward"),
        lambda _, p: (p.forward.seeds, p.forward.operations, 0),
    ),
    Way(REFERENCE, "reverse", "tg.jacrev(f)", jacrev, lambda recording, p: (p.reverse.seeds, p.reverse.operations, footprint(recording))),
    Way(
        "reverse, kernel", "reverse", 'tg.jit(tg.jacrev(f), kernel="always")', lambda f, argnums: jit(jacrev(f, argnums), kernel="always"),
        lambda _, p: (-(-p.reverse.seeds // MOST_AT_ONCE), p.reverse.operations, 0), True,
    ),
    Way(
        "product at a cut", "product", "tg.jacobian(f)", lambda f, argnums: JacobianFunction(f, argnums, "product", False),
        lambda recording, p: (2 * p.product.seeds, p.product.operations, footprint(recording)),
    ),
]  # fmt: skip


# ---- the result ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One line of a comparison: a way, or the evaluation alone.

    Attributes
    ----------
    name, mode, call : str
        Of the `Way`; the evaluation is called "value" and has no mode.
    passes : int
        Times the program is walked through (dual numbers: run).
    operations : float
        On tangents or adjoints, one for each element of an instruction (of a matrix product, each multiplication) and each seed,
        if every seed reaches everything; nan for the evaluation.
    instructions : int
        Instructions between inputs and outputs, of which each pass visits those
        its seeds reach.
    seconds : float
        The least of several calls: recording, if the way needs one, and sweeps.
    relative : float
        `seconds` in evaluations of the function.
    first : float
        Seconds of the first call, which may have had to compile; of a kernel, until it was there.
    peak : int
        Bytes: the peak that ``tracemalloc`` sees of one call (Python's objects and
        NumPy's arrays, the tape among them), plus the buffers of the sweep, which
        it does not see and which are counted from the tape, an upper bound.
    disagreement : float
        Largest difference to the Jacobian by reverse sweep, relative to its largest entry.
    """

    name: str
    mode: str
    call: str
    passes: int
    operations: float
    instructions: int
    seconds: float
    relative: float
    first: float
    peak: int
    disagreement: float


HEAD = ("way", "passes", "operations", "instructions", "time", "x value", "first call", "peak memory", "disagreement")


@dataclass(frozen=True, repr=False)
class Comparison(Printed):
    """The report of `tg.compare`; printing it shows the table.

    Attributes
    ----------
    function : str
        Its name.
    inputs, outputs : int
        Numbers that go in and come out.
    rows : list of Measured
        The evaluation first, then the ways.
    recommended : {"forward", "reverse", "product"}
    reason : str
        One sentence.
    forward_cost, reverse_cost : float
        Predicted nanoseconds of the sweeps (`tapegrad.program.choosing`), on which the
        recommendation rests.
    product_cost : float or None
        The same of the product at a cut, if there is a narrow one.
    """

    function: str
    inputs: int
    outputs: int
    rows: list[Measured]
    recommended: str
    reason: str
    forward_cost: float
    reverse_cost: float
    product_cost: float | None

    def row(self, name: str) -> Measured:
        """The line of a way, by its name."""
        return next(row for row in self.rows if row.name == name)

    def __str__(self):
        lines = [
            (
                r.name, str(r.passes) if r.mode else "-", count_text(r.operations) if r.mode else "-", str(r.instructions), seconds_text(r.seconds),
                f"{r.relative:.3g}", seconds_text(r.first), bytes_text(r.peak), f"{r.disagreement:.1e}" if r.mode else "-",
            )
            for r in self.rows
        ]  # fmt: skip
        title = f"{self.function}: {plural(self.inputs, 'input')}, {plural(self.outputs, 'output')}"
        seconds = self.rows[0].seconds
        remark = f"\n{self.function} takes {seconds_text(seconds)}, so times are mostly those of a call: compare operations." if seconds < SHORT else ""
        return f"{title}\n\n{table(HEAD, lines, numbers=True)}\n\n{self.reason}{remark}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        data = asdict(self)
        for row in data["rows"]:
            if row["operations"] != row["operations"]:
                row["operations"] = row["disagreement"] = None
        return data

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """`to_dict` as JSON; also written to a file if `path` is given."""
        return write_json(self.to_dict(), path)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Draw operations and times of the ways.

        Parameters
        ----------
        path : str or path-like, optional
            Where to save the picture; the name's ending says the format.

        Returns
        -------
        matplotlib Figure
            A notebook shows it.

        Raises
        ------
        MissingPackageError
            If matplotlib is not installed (``pip install tapegrad[plot]``).
        """
        return plot_comparison(self, path)


def write_json(data, path):
    """`data` as JSON, also written to `path` unless that is None."""
    text = json.dumps(data, indent=1)
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return text


def told(text, data, to):
    """Print a report as text, or only its data as JSON if these go `to` "-"; any other `to` but None is a file that they are written to."""
    print(write_json(data, None) if to == "-" else text)
    if to not in (None, "-"):
        write_json(data, to)


# ---- measuring ----------------------------------------------------------------------------


def _peak(call):
    """Bytes that Python's allocators and NumPy hold at most during a call, beyond what they held before."""
    gc.collect()
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        if started:
            tracemalloc.stop()


def footprint(recording):
    """Bytes of the adjoints of one sweep, at most: as if its seed reached everything.

    They come from the C library, where no memory profiler of Python sees them.  The buffer of an instruction or argument is there from
    its last reader down to itself, of an argument to the end.
    """
    records, between, last = recording.records(), recording.between(), last_readers(recording)
    count = len(last)
    nbytes, first, last = np.zeros(count, np.int64), np.arange(count), np.maximum(last, np.arange(count))
    for slot in between[records["op"][between] >= FIRST_ARRAY].tolist():
        out = described(records, slot)
        nbytes[slot] = 0 if out is SCALAR else out.nbytes
    for p in recording.inputs:
        if p.slot and p.shape:
            nbytes[p.slot], first[p.slot] = p.meta.nbytes, 0
    last[[p.slot for p in recording.outputs]] = recording.high
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first, nbytes)
    np.add.at(change, last + 1, -nbytes)
    return int(np.cumsum(change).max())


def _matrix(derivative, argnums, outputs):
    """A Jacobian as one array (outputs, inputs), whatever containers it came in."""
    leaves = [np.asarray(leaf) for leaf in flatten(derivative)[0]]
    many = len(argnums) if isinstance(argnums, tuple) else 1
    blocks = [leaves[k * many : (k + 1) * many] for k in range(len(outputs))]
    return np.concatenate([np.concatenate([b.reshape(p.size, -1) for b in row], 1) for p, row in zip(outputs, blocks)])


def _disagreement(matrix, expected):
    """The largest difference, relative to the largest entry that is finite; inf where only one is finite."""
    return apart(matrix, expected) / (float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))) or 1.0)


@contextlib.contextmanager
def on_purpose():
    """Plain calls are what is measured: no warning recommends `jit`."""
    with warnings.catch_warnings(action="ignore", category=PerformanceWarning):
        yield


@on_purpose()
def compare(
    f: Callable[..., Any], *args: Any, argnums: int | tuple[int, ...] = 0, budget: float = 0.5, via: Literal["record", "numba"] = "record"
) -> Comparison:
    """Run a function's Jacobian in every mode, side by side.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or a list, tuple or dict of them.
    *args : float or ndarray
        The point at which to compare.
    argnums : int or tuple of int
        The arguments to differentiate with respect to.
    budget : float
        Seconds to measure for, beyond three calls of everything.
    via : {"record", "numba"}
        ``"numba"`` adds a row for reverse mode inside Numba (`njit_grad`, `njit_jacobian`), which compiles `f` first.

    Returns
    -------
    Comparison
        Prints as a table: evaluation, forward mode (dual numbers; tangent sweep
        over the tape), reverse mode (sweep; kernel) and, where few numbers connect
        inputs and outputs, the product of both sides; with passes, operations,
        instructions, time, first call, peak memory and disagreement, and the mode
        to prefer with the reason.  It also has `plot`, `to_dict` and `to_json`.

    Raises
    ------
    CheckError
        If the modes disagree: a rule is wrong, or `f` does not compute the same at every call.
    HigherOrderError, DtypeError
        As in `tg.jacobian`.
    UnsupportedInNumbaError
        With ``via="numba"``, if Numba cannot compile `f`, or `f` cannot be differentiated there.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> found = tg.compare(lambda x: np.sum(np.sin(x) * x), np.linspace(0.0, 1.0, 200))
    >>> found.recommended, found.inputs, found.outputs
    ('reverse', 200, 1)
    >>> [(row.name, row.passes) for row in found.rows[1:]]
    [('forward, dual numbers', 13), ('forward, tangent sweep', 200), ('reverse, sweep', 1), ('reverse, kernel', 1)]
    """
    if via not in ("record", "numba"):
        raise OptionError(f'via={via!r}: it is "record" or "numba"')
    args = tuple(np.array(a._v) if isinstance(a, Tensor) else a for a in args)
    name = function_name(f)
    calls: dict[Way, partial[Any]] = {}
    first: dict[Way, float] = {}
    results: dict[Way, Any] = {}
    _, numbers = resolved(f, argnums)
    check_given(numbers, args)
    recording = StoreWalk(f, args, numbers)
    prediction = predict(recording, True)
    for way in (VALUE, *WAYS, *([_inside_numba(recording.outputs)] if via == "numba" else [])):
        if way.mode == "product" and prediction.product is None:
            continue
        function = way.make(f, argnums)
        start = perf_counter()
        for _ in range(2 if way.kernel else 1):
            result = function(*args)
        seconds = perf_counter() - start
        if not way.kernel or function.stats().kernels:
            calls[way], first[way], results[way] = partial(function, *args), seconds, result

    matrices = {way.name: _matrix(result, argnums, recording.outputs) for way, result in results.items() if way.mode}
    disagreements = {label: _disagreement(matrix, matrices[REFERENCE]) for label, matrix in matrices.items()}
    _check(name, disagreements, recording)
    results.clear()

    times = least(calls, budget)
    rows = []
    for way, call in calls.items():
        passes, operations, buffers = way.counted(recording, prediction)
        peak = _peak(call) + buffers + _workspaces(call.func, call.args)
        rows.append(
            Measured(
                way.name, way.mode, way.call, passes, operations, prediction.work.instructions, times[way], times[way] / times[VALUE],
                first[way], peak, disagreements.get(way.name, float("nan")),
            )
        )
    costs = [cost and cost.nanoseconds for cost in (prediction.forward, prediction.reverse, prediction.product)]
    return Comparison(name, prediction.forward.seeds, prediction.reverse.seeds, rows, prediction.mode, _sentence(prediction), *costs)


def _check(name, disagreements, recording):
    """Raise unless the ways agree."""
    char = "f" if any(p.char == "f" for p in recording.inputs + recording.outputs) else "d"
    wrong = {label: value for label, value in disagreements.items() if not value <= TOLERANCE[char]}
    if wrong:
        listed = ", ".join(f"{label}: {value:.1e}" for label, value in wrong.items())
        raise CheckError(
            f"the Jacobians of {name} by different modes do not agree (difference to {REFERENCE}, relative to the "
            f"largest entry: {listed}). If the function draws random numbers or keeps state, make it compute the same "
            "at every call; if not, a rule is wrong: run tg.check on it"
        )


def least(calls, budget):
    """Least seconds of each call; they take iterations, so that a slow moment falls on all alike."""
    least = dict.fromkeys(calls, float("inf"))
    end, iterations = perf_counter() + budget, 0
    while iterations < FEWEST or (iterations < MOST and perf_counter() < end):
        for label, call in calls.items():
            start = perf_counter()
            call()
            least[label] = min(least[label], perf_counter() - start)
        iterations += 1
    return least


def _sentence(prediction):
    """The recommendation and its reason: counts first."""
    ways = {
        "forward": (prediction.forward, "forward mode", "tg.jacfwd", "input", "up the tape"),
        "reverse": (prediction.reverse, "reverse mode", "tg.jacrev", "output", "down the tape"),
        "product": (prediction.product, "a product at a cut", "tg.jacobian", "number of the cut", "down from it and up"),
    }
    mine, name, call, what, where = ways.pop(prediction.mode)
    if prediction.mode != "product":
        del ways["product"]
        call += "; tg.jacobian chooses it"
    others = [
        f"{other} needs {plural(theirs.seeds, 'pass')} for {plural(theirs.seeds, their)} with {count_text(theirs.operations)}"
        for theirs, other, _, their, _ in ways.values()
    ]
    text = (
        f"Use {name} ({call}): {plural(mine.seeds, 'pass')} {where} for {plural(mine.seeds, what)} with "
        f"{count_text(mine.operations)} operations, where {' and '.join(others)}"
    )
    theirs = min((cost for cost, *_ in ways.values()), key=lambda cost: cost.operations)
    if mine.operations >= theirs.operations:
        text += (
            f". That is more operations but less time, for each step of a sweep costs more than its operations: predicted "
            f"{seconds_text(mine.nanoseconds * 1e-9)} against {seconds_text(theirs.nanoseconds * 1e-9)}. Under tg.jit the operations decide"
        )
    return text + "."
