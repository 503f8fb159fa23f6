"""What a sweep with many seeds will cost, from the recorded tape, before anything is run.

The cost is a sum of *counts* times *constants*.  The counts follow from the
tape alone (`counts`): chunks of seeds, scalar instructions that a chunk reaches
(`transforms.choosing.reach`), and for each array instruction and each seed that reaches it the
steps of its program: elements through cheap arithmetic, through divisions and
through elementary functions, bytes moved, multiplications of matrix products.
So two runs on one tape always say the same.  The constants (`NANOSECONDS`) were
fitted to sweeps measured on one machine (`tapegrad.tools.comparing.calibration`); nothing is
ever timed behind the user's back.  ``python -m tapegrad calibrate --save`` fits
them to another machine and keeps them beside the compiled code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from ...codegen.host import identity
from ...common.config import cache_dir, package_hash
from ...common.errors import CalibrationError
from ...interpreter import program as P
from ...interpreter.plan import Signature
from ...interpreter.tangent import Programs
from ...rules import by_opcode
from ...rules import lang as L
from ...tape.layout import MARK
from .reach import count, instructions

#: Nanoseconds per unit of each count.
NANOSECONDS = {
    "up": 9000.0,  # a forward sweep as a whole: buffers, marks
    "down": 6150.0,  # a reverse sweep as a whole
    "above": 4160.0,  # a chunk of seeds, forward
    "below": 3070.0,  # ... reverse
    "source": 935.0,  # an input or output that is seeded
    "target": 699.0,  # an input or output that is collected
    "block": 389.0,  # a block of the Jacobian: an output and an input
    "collect": 0.473,  # a lane of a target, collected
    "visit": 0.0291,  # forward: an instruction on the way, per chunk
    "scalar": 3.98,  # a scalar instruction that a chunk reaches
    "lane": 0.0384,  # ... and per lane
    "function": 10.5,  # ... and per elementary function in its partials
    "program": 16.7,  # an array instruction, per seed that reaches it
    "step": 0.654,  # a step of its program
    "loop": 1.13,  # ... that is a loop over elements
    "buffer": 4.92,  # ... that makes a buffer
    "read": 1.72,  # the read of one element, per seed that reaches it
    "part": 1.12,  # a number in a vector made of numbers, per seed that reaches it
    "row": 0.703,  # an innermost loop
    "element": 0.00188,  # an element through an operation of cheap arithmetic
    "divide": 0.0605,  # ... a division or square root
    "call": 0.533,  # ... an elementary function that is vectorised
    "slow": 3.89,  # ... a power, or a function that is not vectorised
    "tail": 0.044,  # an element that does not fill a vector, through any operation
    "tail_call": 8.18,  # ... through an elementary function
    "strided": 0.362,  # an element through a window that is not contiguous
    "byte": 0.00657,  # a byte read or written
    "fresh": 0.38,  # a byte of a large buffer, which comes from the system
    "product": 38.9,  # a step of matrix products
    "batch": 37.2,  # a matrix product in it
    "flop": 0.0735,  # a multiplication in it
    "stream": 5.01e-05,  # a byte of an operand too large for the nearest cache
    "solver": 596.0,  # a call of another matrix routine
    "cubed": 0.701,  # the product of its extents, with the larger one again
    "scan": 1.28,  # an element of a running sum or recurrence
    "gather": 1.96,  # an element gathered
    "scatter": 0.186,  # an element scattered
    "result": 0.048,  # a byte of the Jacobian
    "page": 0.002,  # ... of a large one
}  # fmt: skip

NAMES = tuple(NANOSECONDS)
#: The counts that are scalar operations.
OPERATIONS = ("lane", "element", "divide", "call", "slow", "flop", "cubed", "scan", "gather", "scatter")

_CHEAP = {"add", "sub", "mul", "neg", "select", "abs", "sign", "floor", "ceil", "trunc", "rint", "copysign", "mul0"}
_CHEAP |= {*L.COMPARISONS, *L.LOGIC, "isnan"}
_DIVIDE = {"div", "sqrt"}
#: Functions that C libraries have for vectors.
_CALL = set("exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan arctan2 hypot erf".split())
_CALL |= set("sinh cosh arcsinh arccosh arctanh".split())

#: Elements that a vectorised loop handles at once: of arithmetic, of functions.
WIDTH, CALL_WIDTH = 16, 8
#: Rows of our own loops that one row of NumPy's costs.
ROW_OF_NUMPY = 8
#: Bytes of a matrix that does not stay in the nearest cache.
CACHE = 1 << 15
#: Bytes from which a buffer mostly comes from the system, and goes back there.
FRESH = 1 << 19


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


CLASSES = ("element", "divide", "call", "slow")


def _class(op):
    return "element" if op in _CHEAP else "divide" if op in _DIVIDE else "call" if op in _CALL else "slow"


def _classes(expr):
    """How many operations of each class an expression does per element."""
    tally = dict.fromkeys(CLASSES, 0)
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if node.key() in seen or node.op in ("arg", "const"):
            continue
        seen.add(node.key())
        tally[_class(node.op)] += 1
        stack += node.args
    return tally


@cache
def _scalar_functions(opcode):
    """Elementary functions and divisions in the partials of a scalar row."""
    row = by_opcode(opcode)
    args = [L.arg(name) for name in ("x", "y", "w")[: row.arity]]
    total = 0
    for partial in row.partials:
        if partial is not None:
            tally = _classes(L.Expr.lift(partial(*args, L.arg("z"))))
            total += tally["call"] + tally["slow"] + tally["divide"] / 4
    return total


def program_counts(program):
    """Counts of one run of a program (a `Signature` or a `TangentProgram`)."""
    tally = dict.fromkeys(NAMES, 0.0)
    tally["program"] = 1.0
    specs, words, p = dict(program.kernels), program.words.tolist(), 0
    while words[p] != P.END:
        code, length = words[p], words[p + 1]
        q = words[p + 2 : p + 2 + length]
        tally["step"] += 1
        if code == P.CALL:
            _loop_counts(tally, specs[p + 2], q)
        elif code == P.ALLOC:
            tally["buffer"] += 1
            tally["fresh"] += q[1] if q[1] >= FRESH else 0
            tally["byte"] += q[1] if q[2] else 0
        elif code == P.ADD:
            tally["byte"] += 3 * q[2]
        elif code == P.TARGET:
            tally["byte"] += q[2]
        elif code == P.FILL:
            tally["byte"] += 8 * q[1]
        elif code == P.GATHER:
            tally["gather"] += q[3]
        elif code == P.SCATTER:
            tally["scatter"] += q[3]
        elif code == P.ZERO_AT:
            tally["gather"] += q[2]
        elif code == P.SCAN:
            tally["scan"] += q[6] * _product(q[10::3])
        elif code == P.RECUR:
            tally["scan"] += q[8] * _product(q[13::4])
        elif code == P.REPAIR:
            tally["byte"] += 8 * q[10] * q[12] * _product(q[14::3])
        elif code == P.GUFUNC:
            _numpy_counts(tally, q)
        p += 2 + length
    return tally


def _product(extents):
    return int(np.prod(extents, dtype=np.int64))


def _numpy_counts(tally, q):
    """Add what a step does that calls a loop of NumPy: over matrices, or over elements."""
    arguments = q[2]
    ndims = q[3 + 2 * arguments]
    rest = 4 + 2 * arguments + ndims
    dims = q[rest - ndims : rest]
    rest += 1 + q[rest]
    calls = dims[0] * _product(q[rest + 1 :: arguments + 1])
    if ndims == 1:
        # A loop over elements: a reduction, which reads what it writes and costs its bytes, or a function.
        reduction = q[3] == q[1 + 2 * arguments]
        tally["loop"] += 1
        tally["row"] += ROW_OF_NUMPY * calls // dims[0]
        tally["call"] += 0 if reduction else calls
        tally["byte"] += 8 * calls
        return
    each = _product(dims[1:])
    if ndims == 4:
        tally["product"] += 1
        tally["batch"] += calls
        tally["flop"] += calls * each
        tally["stream"] += calls * sum(8 * a * b for a, b in _pairs(dims[1:]) if 8 * a * b >= CACHE)
    else:
        tally["solver"] += calls
        tally["cubed"] += calls * each * max(dims[1:])


def _loop_counts(tally, spec, q):
    """Add what a loop over elements does."""
    nargs = len(spec.pattern)
    n, rows = q[1 + 2 * nargs], _product(q[3 + 3 * nargs :: nargs + 1])
    elements = n * rows
    tally["loop"] += 1
    tally["row"] += rows
    classes = dict.fromkeys(CLASSES, 0)
    for expr in spec.exprs:
        for name, number in _classes(expr).items():
            classes[name] += number
    for name, number in classes.items():
        tally[name] += number * elements
    tally["tail"] += rows * (n % WIDTH) * (1 + classes["element"] + classes["divide"])
    tally["tail_call"] += rows * (n % CALL_WIDTH) * classes["call"]
    for char, letter in zip(spec.inputs + spec.outputs, spec.pattern):
        if letter == "c":
            tally["byte"] += elements * np.dtype(char).itemsize
        elif letter == "s":
            tally["strided"] += elements


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
    sources = recording.inputs if forward else recording.outputs
    others = recording.outputs if forward else recording.inputs
    seeds = sum(p.size for p in sources)
    lanes = recording.lanes(seeds)
    chunks = -(-seeds // lanes)
    tally = dict.fromkeys(NAMES, 0.0)
    tally["up" if forward else "down"] = 1.0
    tally["above" if forward else "below"] = chunks
    tally["source"], tally["target"] = len(sources), len(others)
    tally["block"] = len(sources) * len(others)
    tally["collect"] = seeds * len(others)
    if forward:
        tally["visit"] = chunks * int(np.count_nonzero(recording.marks == MARK))
    for p in others:
        tally["result"] += seeds * p.meta.nbytes
        tally["page"] += seeds * p.meta.nbytes if seeds * p.meta.nbytes >= FRESH else 0
    _add_instructions(tally, *count(recording, forward, lanes), lanes, forward)
    return tally


def _add_instructions(tally, scalars, arrays, lanes, forward):
    """Add what instructions do that chunks of seeds (scalar ones) or seeds (array ones) reach so often."""
    for opcode, reached in scalars.items():
        tally["scalar"] += reached
        tally["lane"] += reached * lanes
        tally["function"] += reached * _scalar_functions(opcode)
    for number, reached in arrays.items():
        for name, value in _signature_counts(Signature.ALL[number], forward):
            tally[name] += reached * value


#: For up and down, signature -> what `_signature_counts` found.
_COUNTS: tuple = (WeakKeyDictionary(), WeakKeyDictionary())


def _signature_counts(signature, forward):
    """What an instruction of a signature does for one seed, as pairs of name and count."""
    cache = _COUNTS[forward]
    if signature not in cache:
        cache[signature] = _counted(signature, forward)
    return cache[signature]


def _counted(program, forward):
    if program.reads:
        return (("read", 1),)
    if program.joins:
        return ("buffer", 1), ("part", program.joins)
    if forward:
        few = len(program.slots) <= 2
        active = sum(1 << j for j, on in enumerate(program.mask) if on) if few else 3
        program = Programs.planned(program, active)
    return tuple((name, value) for name, value in program_counts(program).items() if value)


def operations_of_duals(recording, lanes):
    """Scalar operations on tangents in one pass of dual numbers, where every tangent goes everywhere."""
    scalars, arrays = instructions(recording)
    tally = dict.fromkeys(NAMES, 0.0)
    arrays = {signature: lanes * number for signature, number in arrays.items()}
    _add_instructions(tally, scalars, arrays, lanes, True)
    return sum(tally[name] for name in OPERATIONS)


def _cost(recording, forward, constants):
    tally = counts(recording, forward)
    seeds = sum(p.size for p in (recording.inputs if forward else recording.outputs))
    lanes = recording.lanes(seeds)
    operations = sum(tally[name] for name in OPERATIONS)
    time = sum(constants[name] * value for name, value in tally.items() if value)
    return Cost(seeds, lanes, -(-seeds // lanes), tally, operations, time)


def predict(recording):
    """Which mode will be cheaper for the Jacobian of a recorded function.

    Parameters
    ----------
    recording : Recording

    Returns
    -------
    Prediction
    """
    constants = nanoseconds()
    forward, reverse = _cost(recording, True, constants), _cost(recording, False, constants)
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


# ---- constants of this machine ---------------------------------------------------------------


@cache
def _version():
    return hashlib.sha256(f"{identity()} {package_hash()} {NAMES}".encode()).hexdigest()[:16]


def constants_file():
    """Where constants fitted on this machine are kept; another version of the sweeps has another file."""
    return cache_dir() / "costs" / f"{_version()}.json"


def nanoseconds():
    """The constants in force: those of `constants_file` where there is one, else `NANOSECONDS`."""
    return _read(constants_file())


@cache
def _read(path):
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return NANOSECONDS
    try:
        constants = {name: float(value) for name, value in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        constants = {}
    if constants.keys() != NANOSECONDS.keys() or not all(0 <= value < float("inf") for value in constants.values()):
        raise CalibrationError(f"{path} is damaged; delete it or run python -m tapegrad calibrate --save again")
    return constants


def save(constants):
    """Keep constants for this machine; returns the `Path`."""
    path = constants_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(constants, indent=1) + "\n", encoding="utf-8")
    _read.cache_clear()
    return path
