"""What a sweep with many seeds will cost, from the recorded tape, before anything is run.

The cost is a sum of *counts* times *constants*.  The counts follow from the
tape alone (`counts`): chunks of seeds, scalar instructions that a chunk reaches
(`sweep.reach`), and for each array instruction and each seed that reaches it the
steps of its program: elements through cheap arithmetic, through divisions and
through elementary functions, bytes moved, multiplications of matrix products.
So two runs on one tape always say the same.  The constants (`NANOSECONDS`) were
fitted to measured sweeps; ``python -m tapegrad.costs`` fits them anew on the
machine it runs on and prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .rules import by_opcode
from .rules import lang as L
from .sweep import program as P

#: Nanoseconds per unit of each count.
NANOSECONDS = {
    "up": 10500.0,  # a forward sweep as a whole: buffers, marks
    "down": 4660.0,  # a reverse sweep as a whole
    "chunk": 5490.0,  # a chunk of seeds
    "port": 297.0,  # an input or output
    "visit": 0.085,  # forward: an instruction on the way, per chunk
    "scalar": 3.11,  # a scalar instruction that a chunk reaches
    "lane": 0.1,  # ... and per lane
    "function": 4.92,  # ... and per elementary function in its partials
    "program": 1.2,  # an array instruction, per seed that reaches it
    "step": 3.2,  # a step of its program
    "row": 2.66,  # an innermost loop
    "element": 0.0955,  # an element through an operation of cheap arithmetic
    "divide": 0.02,  # ... a division or square root
    "call": 1.52,  # ... an elementary function
    "strided": 0.513,  # an element through a window that is not contiguous
    "byte": 0.0015,  # a byte read or written
    "fresh": 0.3,  # a byte of a large buffer, which comes from the system
    "product": 135.0,  # a call of the matrix product
    "flop": 0.0208,  # a multiplication in it
    "stream": 0.00844,  # a byte of an operand too large for the cache
    "solver": 502.0,  # a call of another matrix routine
    "cubed": 0.711,  # the product of its extents, with the larger one again
    "scattered": 0.523,  # an element gathered or scattered
    "result": 0.005,  # a byte of the Jacobian
}  # fmt: skip

NAMES = tuple(NANOSECONDS)
#: The counts that are scalar operations.
OPERATIONS = ("lane", "element", "divide", "call", "flop", "cubed", "scattered", "strided")

_CHEAP = {"add", "sub", "mul", "neg", "select", "abs", "sign", "floor", "ceil", "trunc", "rint", "copysign", "mul0"}
_CHEAP |= {*L.COMPARISONS, *L.LOGIC, "isnan"}
_DIVIDE = {"div", "sqrt"}


#: Bytes of a matrix that does not stay in the cache of a core.
CACHE = 1 << 19
#: Bytes from which the C library takes a buffer from the system and gives it back.
FRESH = 1 << 17


def _pairs(extents):
    """Shapes of the operands and the result of a product (m, n) @ (n, p)."""
    m, n, p = extents
    return (m, n), (n, p), (m, p)


@dataclass(frozen=True)
class Cost:
    """What one mode costs.

    Attributes
    ----------
    seeds, lanes, passes : int
        Seeds to carry, seeds carried at once, sweeps over the tape.
    counts : dict of str to float
        See `NANOSECONDS`.
    operations : float
        Scalar operations: instructions that lanes reach, and elements.
    nanoseconds : float
        Predicted.
    """

    seeds: int
    lanes: int
    passes: int
    counts: dict
    operations: float
    nanoseconds: float


@dataclass(frozen=True)
class Prediction:
    """The predicted costs of both modes, the cheaper one, and why in a sentence."""

    forward: Cost
    reverse: Cost
    mode: str
    reason: str


def _classes(expr):
    """How many operations of each class an expression does per element."""
    found = dict.fromkeys(("element", "divide", "call"), 0)
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if node.key() in seen or node.op in ("arg", "const"):
            continue
        seen.add(node.key())
        found["element" if node.op in _CHEAP else "divide" if node.op in _DIVIDE else "call"] += 1
        stack += node.args
    return found


@lru_cache(maxsize=None)
def _scalar_functions(opcode):
    """Elementary functions and divisions in the partials of a scalar row."""
    row = by_opcode(opcode)
    args = [L.arg(name) for name in ("x", "y", "w")[: row.arity]]
    total = 0
    for partial in row.partials:
        if partial is not None:
            found = _classes(L.Expr.lift(partial(*args, L.arg("z"))))
            total += found["call"] + found["divide"] / 4
    return total


def program_counts(program):
    """Counts of one run of a program (a `Signature` or a `TangentProgram`)."""
    found = dict.fromkeys(NAMES, 0.0)
    found["program"] = 1.0
    specs, words, p = dict(program.kernels), program.words.tolist(), 0
    while words[p] != P.END:
        code, length = words[p], words[p + 1]
        q = words[p + 2 : p + 2 + length]
        found["step"] += 1
        if code == P.CALL:
            _loop_counts(found, specs[p + 2], q)
        elif code == P.ALLOC:
            found["fresh"] += q[1] if q[1] >= FRESH else 0
            found["byte"] += q[1] if q[2] else 0
        elif code == P.ADD:
            found["byte"] += 3 * q[2]
        elif code == P.TARGET:
            found["byte"] += q[2]
        elif code == P.FILL:
            found["byte"] += 8 * q[1]
        elif code in (P.SCATTER, P.GATHER):
            found["scattered"] += q[3]
        elif code == P.ZERO_AT:
            found["scattered"] += q[2]
        elif code == P.SCAN:
            found["scattered"] += q[6] * int(np.prod(q[10::3], dtype=np.int64))
        elif code == P.GUFUNC:
            ndims = q[3 + 2 * q[2]]
            dims = q[4 + 2 * q[2] : 4 + 2 * q[2] + ndims]
            rest = 4 + 2 * q[2] + ndims
            rest += 1 + q[rest]
            outer = 1
            for d in range(q[rest]):
                outer *= q[rest + 1 + d * (q[2] + 1)]
            each, calls = int(np.prod(dims[1:], dtype=np.int64)), outer * dims[0]
            if ndims == 4:
                found["product"] += calls
                found["flop"] += calls * each
                found["stream"] += calls * sum(8 * a * b for a, b in _pairs(dims[1:]) if 8 * a * b >= CACHE)
            else:
                found["solver"] += calls
                found["cubed"] += calls * each * max(dims[1:])
        p += 2 + length
    return found


def _loop_counts(found, spec, q):
    nargs = len(spec.pattern)
    n, rows = q[1 + 2 * nargs], 1
    for d in range(q[2 + 3 * nargs]):
        rows *= q[3 + 3 * nargs + d * (nargs + 1)]
    elements = n * rows
    found["row"] += rows
    classes = dict.fromkeys(("element", "divide", "call"), 0)
    for expr in spec.exprs:
        for name, number in _classes(expr).items():
            classes[name] += number
    for name, number in classes.items():
        found[name] += number * elements
    for char, letter in zip(spec.inputs + spec.outputs, spec.pattern):
        if letter == "c":
            found["byte"] += elements * np.dtype(char).itemsize
        elif letter == "s":
            found["strided"] += elements


def counts(recording, forward):
    """The counts of one mode, by name.

    Parameters
    ----------
    recording : Recording
    forward : bool

    Returns
    -------
    dict of str to float
    """
    from .sweep.plan import Signature
    from .sweep.reach import count
    from .sweep.tangent import Programs

    sources = recording.inputs if forward else recording.outputs
    others = recording.outputs if forward else recording.inputs
    seeds = sum(p.size for p in sources)
    lanes = recording.lanes(seeds)
    chunks = -(-seeds // lanes)
    found = dict.fromkeys(NAMES, 0.0)
    found["up" if forward else "down"] = 1.0
    found["chunk"] = chunks
    found["port"] = len(others) + 2 * len(sources)
    if forward:
        found["visit"] = chunks * int(np.count_nonzero(recording.marks == 1))
    found["result"] = float(seeds * sum(p.meta.nbytes for p in others))
    scalars, arrays = count(recording, forward, lanes)
    for opcode, reached in scalars.items():
        found["scalar"] += reached
        found["lane"] += reached * lanes
        found["function"] += reached * _scalar_functions(opcode)
    for number, reached in arrays.items():
        program = Signature.ALL[number]
        if forward:
            few = len(program.slots) <= 2
            active = sum(1 << j for j, on in enumerate(program.mask) if on) if few else 3
            program = Programs.planned(number, active)
        for name, value in program_counts(program).items():
            found[name] += reached * value
    return found


def _cost(recording, forward):
    found = counts(recording, forward)
    seeds = sum(p.size for p in (recording.inputs if forward else recording.outputs))
    lanes = recording.lanes(seeds)
    operations = sum(found[name] for name in OPERATIONS)
    time = sum(NANOSECONDS[name] * value for name, value in found.items())
    return Cost(seeds, lanes, -(-seeds // lanes), found, operations, time)


def predict(recording):
    """Which mode will be cheaper for the Jacobian of a recorded function.

    Parameters
    ----------
    recording : Recording

    Returns
    -------
    Prediction
    """
    forward, reverse = _cost(recording, True), _cost(recording, False)
    mode = "forward" if forward.nanoseconds < reverse.nanoseconds else "reverse"
    texts = {
        name: f"{name} mode needs {_number(c.passes)} pass{'es' if c.passes != 1 else ''} of {c.lanes} for "
        f"{_number(c.seeds)} {what}, about {_number(c.operations)} operations, {_number(c.nanoseconds / 1e3)} µs"
        for name, what, c in (("forward", "inputs", forward), ("reverse", "outputs", reverse))
    }
    other = "reverse" if mode == "forward" else "forward"
    return Prediction(forward, reverse, mode, f"{mode} mode is expected to be cheaper: {texts[mode]}; {texts[other]}")


def _number(value):
    return f"{value:.0f}" if value < 10000 else f"{value:.2g}"


# ---- calibration --------------------------------------------------------------------------


def _samples():
    """Functions and points that exercise each constant: (function, point)."""
    rng = np.random.default_rng(0)

    def chain(steps):
        def f(x):
            y = [x[k] for k in range(len(x))]
            for k in range(steps):
                y[k % len(y)] = y[k % len(y)] * y[(k + 1) % len(y)] + 0.5
            return y

        return f

    def curve(steps):
        def f(x):
            y = x[0]
            for k in range(steps):
                y = np.sin(y) + np.exp(-y) / (1.0 + y * y) * x[k % len(x)]
            return y

        return f

    samples = [(chain(s), rng.uniform(0.1, 0.9, n)) for s, n in ((200, 2), (200, 40), (3000, 5), (3000, 30))]
    samples += [(curve(s), rng.uniform(0.1, 0.9, n)) for s, n in ((100, 3), (1000, 20), (1000, 1))]
    for n in (8, 64, 400):
        matrix = rng.normal(size=(n, n)) / n
        samples += [
            (lambda x: x[1:-1] * x[2:] - x[:-2], rng.uniform(0.1, 0.9, n)),
            (lambda x: np.sin(x) * np.exp(-x) + np.log(x), rng.uniform(0.1, 0.9, n)),
            (lambda x: x / (1.0 + x * x) + np.sqrt(x), rng.uniform(0.1, 0.9, n)),
            (lambda x, a=matrix: np.tanh(a @ x) + x, rng.uniform(0.1, 0.9, n)),
            (lambda x: np.cumsum(x)[::2] * np.sum(x * x), rng.uniform(0.1, 0.9, n)),
            (lambda x, order=rng.permutation(n): x[order] * x, rng.uniform(0.1, 0.9, n)),
            (lambda x, a=matrix: np.sum(a[:8] * np.sin(x), axis=1), rng.uniform(0.1, 0.9, n)),
            (lambda x, a=matrix: np.sum(np.outer(x, a[0]), axis=0), rng.uniform(0.1, 0.9, n)),
        ]
    for n in (2000, 6000):
        grid = np.linspace(0.0, 1.0, n)
        samples += [
            (lambda x, t=grid: x[0] * np.sin(x[1] * t) + x[2] * t, rng.uniform(0.1, 0.9, 3)),
            (lambda x, t=grid: np.stack([np.sum(x * t), np.sum(x * x), np.max(x) / np.sum(np.sqrt(x))]), grid + 0.1),
            (lambda x, t=grid: x[0] / (x[1] + t) * x[2] - t * x[3], rng.uniform(0.1, 0.9, 4)),
        ]
    for n in (4, 12):
        samples += [
            (lambda x: np.linalg.solve(x + 3.0 * np.eye(len(x)), x), rng.uniform(0.1, 0.9, (n, n))),
            (lambda x: x @ x.T, rng.uniform(0.1, 0.9, (n, n))),
            (lambda x: np.sum(x, axis=0) * np.max(x, axis=1), rng.uniform(0.1, 0.9, (n, n))),
        ]
    return samples


def calibrate(repeats=7):
    """Fit the constants to sweeps measured here.

    Returns
    -------
    dict of str to float
        New values for `NANOSECONDS`.
    float
        The median relative error of the fit.
    """
    from time import perf_counter

    from scipy.optimize import lsq_linear

    from .recording import Recording

    rows, times = [], []
    for function, point in _samples():
        recording = Recording(function, (point,), (0,))
        for forward in (True, False):
            found = counts(recording, forward)
            sweep = recording.columns if forward else recording.rows
            best = np.inf
            sweep()
            for _ in range(repeats):
                start = perf_counter()
                sweep()
                best = min(best, perf_counter() - start)
            rows.append([found[name] for name in NAMES])
            times.append(best * 1e9)
    rows, times = np.array(rows), np.array(times)
    prior = np.array([NANOSECONDS[name] for name in NAMES])
    # Relative errors; a constant that the samples say little about stays near its old value.
    scaled = np.concatenate([rows * prior / times[:, None], 0.05 * np.eye(len(prior))])
    aims = np.concatenate([np.ones(len(times)), np.full(len(prior), 0.05)])
    found = lsq_linear(scaled, aims, bounds=(0.1, 10.0)).x * prior
    error = float(np.median(np.abs(rows @ found / times - 1.0)))
    return {name: float(f"{value:.3g}") for name, value in zip(NAMES, found)}, error


if __name__ == "__main__":
    fitted, misfit = calibrate()
    for label, value in fitted.items():
        print(f'    "{label}": {value!r},')
    print(f"# median error of the fit: {100 * misfit:.0f} %")
