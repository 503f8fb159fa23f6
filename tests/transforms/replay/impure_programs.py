"""Small programs whose function depends on more than its arguments, each with what its derivatives should be.

    python -m tests.transforms.replay.impure_programs --seed 0 --count 2000 [--kinds WORD ...] [--jit | --no-jit] [--sources 1]

Only public names are used, so another state of the package may be looked at: ``PYTHONPATH=OTHER:. python -P -m ...``.

`programs` makes them by a seed, `run` says what one comes to:

=========  ========================================================================
"right"    every call gave the derivative of the function as it was at that call
"unseen"   one did not, under `jit`, and that this is not noticed is said (`UNNOTICED` in benchmarks/plain_and_jit.py)
"wrong"    one did not
"slow"     all were right, but the function was recorded at nearly every call, and not given up
"refused"  an exception of this library, instead of a number
"crash"    another exception
=========  ========================================================================

The derivative is that by central differences of the function in plain NumPy.  Whatever a function keeps moves when it runs, so each
point of the differences has an instance of the program of its own, made by the same text and taken through the same calls.
"""

import argparse
import collections
import contextlib
import itertools
import os
import random
import re
import warnings
from dataclasses import dataclass, field

import numpy as np

import tapegrad as tg
from tests.transforms.replay import impure_arrays as memory
from tests.transforms.replay import impure_captures as captures
from tests.transforms.replay import impure_operations as operations
from tests.transforms.replay.impure_kinds import HEADER, NAMED, OPTIMISERS, SECOND, VALUES, indented

KINDS = {
    kind.name: kind
    for group in (
        captures.places,
        captures.beside,
        captures.equal_values,
        captures.orders,
        memory.arrays,
        captures.outside,
        operations.alternating,
        operations.exceptions,
        operations.on_the_way_back,
        operations.storms,
    )
    for kind in group()
}

#: Steps of the differences, and what they may be off by.
STEP, STEP2 = 1e-5, 1e-3
TOLERANCE = {"gradient": 1e-5, "hessian": 1e-3, "minimum": 5e-2}
#: From this many calls of a transformation on, and in this part of them, recording is "slow".
MANY, NEARLY_ALL = 30, 0.8

#: The last line of a function of k and x: where x is a float, an array, or what an optimiser starts from.
SCALAR = (
    "k * x",
    "k * np.sin(x) + x",
    "x * x * k - np.cos(x)",
    "np.exp(0.1 * k * x)",
    "x * x / (1.0 + k * k)",
    "np.sin(x) * np.sqrt(k * k + 1.0)",
)
ARRAY = (
    "np.sum(k * x)",
    "k * np.prod(x)",
    "np.dot(x, x) * k",
    "np.sum(x[1:] * x[:-1]) * k",
    "np.sum(np.exp(0.1 * k * x))",
    "np.sum((x - k) ** 2)",
    "k * x[0] + np.max(x)",
)
CURVED = {
    False: ("k * x ** 3", "k * np.sin(x)", "np.exp(0.1 * k * x)", "x * x * (k + 1.0)"),
    True: (
        "k * np.sum(x ** 3)",
        "k * np.sum(np.sin(x))",
        "np.dot(x, x) * k",
        "np.sum(x[1:] * x[:-1]) * k",
        "np.sum(np.exp(0.1 * k * x))",
    ),
}
VECTOR = ("k * np.sin(x)", "np.cumsum(x) * k", "np.outer(x, x)[0] * k", "x[1:] * x[:-1] * k", "np.stack([k * x[0], x[1] * x[2]])")
CONVEX = ("np.sum((x - k) ** 2)", "np.sum((x - 0.5 * k) ** 2) + 0.2 * np.dot(x, x)")
#: Operations beside, on an argument that is a float or an array.
BESIDE = (
    "b = np.cos({}) * 0.3",
    "b = 0.2 * {0} * {0} - 0.1",
    "b = np.tanh({}) + 0.5",
    "b = np.sqrt({0} * {0} + 1.0)",
    "b = np.where({0} > 50.0, 0.0, {0})",
)
NAMES = ("scale", "rate", "gain", "order", "level")


@dataclass
class Program:
    """One program.

    Attributes
    ----------
    source : str
        Its text, with what is called in comments.  `checkpoint` is `tg.checkpoint`.
    points : list
        The argument of each call.
    changes : tuple of int
        Before which calls ``change(n)`` is called, from 0.
    transformations : tuple of str
        Taken in turn.
    jit : bool
        Whether they are taken of ``tg.jit(f)``.
    """

    seed: tuple
    kind: object
    source: str
    points: list
    changes: tuple
    transformations: tuple
    jit: bool
    code: object = field(repr=False, default=None)

    @property
    def kernel(self):
        """The option of `tg.jit`: programs of odd seeds are replayed step by step, the others become kernels."""
        return "never" if self.seed[1] % 2 else None

    @property
    def expected(self):
        """The verdicts that are as they should be."""
        if self.jit:
            return ("right", "refused") if self.kind.noticed else ("right", "refused", "unseen")
        # What is written between the way forth and the way back is refused.
        return ("right", "refused") if "change_before_the_way_back" in self.source else ("right",)

    def instance(self, checkpoint=lambda f: f):
        """The names of one run of the text."""
        names = {"checkpoint": checkpoint, "__name__": "program"}
        exec(self.code, names)
        return names


def body(rng, read, transformation, is_array):
    """Lines that compute with what `read` reads."""
    lines, ending = [], ""
    for _ in range(rng.choice((0, 0, 1, 2))):
        term = rng.choice(BESIDE).format("x")
        lines.insert(rng.randrange(len(lines) + 1), term)
        ending = " + 0.1 * np.sum(b)" if is_array else " + 0.1 * b"
    if rng.random() < 0.2:
        lines.append("if np.sum(x) > 100.0:\n    return np.sum(x)")
    lines.insert(rng.randrange(len(lines) + 1), f"k = {read}")
    if transformation in OPTIMISERS:
        ending, last = "", rng.choice(CONVEX)
    elif transformation in ("jacobian", "linearize", "elementwise_grad") and is_array:
        last = rng.choice(VECTOR)
    elif transformation in SECOND:
        last = rng.choice(CURVED[is_array])
    else:
        last = rng.choice(ARRAY if is_array else SCALAR)
    return "\n".join([*lines, f"return {last}{ending}"]).splitlines()


def compatible(transformation):
    """Those that may take turns with it on one function."""
    if transformation in OPTIMISERS:
        return ("grad", *OPTIMISERS)
    return {
        "grad": ("grad", "value_and_grad"),
        "value_and_grad": ("grad", "value_and_grad"),
        "hessian": ("grad", *SECOND),
        "hvp": SECOND,
    }.get(transformation, (transformation,))


def made(kind, seed, transformation=None, jit=None):
    """The program of this kind and seed."""
    rng = random.Random(repr((kind.name, seed)))
    transformation = transformation or rng.choice(kind.transformations)
    is_array = kind.arrays or transformation in OPTIMISERS or rng.random() < 0.6
    turns = [transformation]
    if rng.random() < 0.2:
        turns.append(rng.choice([t for t in compatible(transformation) if t in kind.transformations] or turns))
    value = rng.choice(kind.values)
    first, later, number = VALUES[value]
    name = rng.choice(NAMES)
    read = number.format(kind.read) if re.search(r"\bA\b", kind.text) else kind.read
    lines = body(rng, read, transformation, is_array)
    text = indented(kind.text, lines)
    text = re.sub(r"\bA\b", lambda _: first, text).replace("B(n)", later).replace("NAME", name)
    if "Named(" in text:
        text = NAMED + "\n" + text

    # Each transformation has recordings of its own, so each is called as often.
    calls = (kind.calls or 0) * len(set(turns)) or (rng.randint(2, 4) if transformation in OPTIMISERS else rng.randint(6, 13))
    if kind.points:
        start = rng.randint(2, 6)
        points = [kind.points[0 if call < start else rng.randrange(2) if call > start else 1] for call in range(calls)]
    else:
        base = [round(rng.uniform(0.4, 1.6), 2) for _ in range(3)]
        moving = rng.choice((0.0, 0.05))
        # In no order, and far from ties of max.
        start = [base[0], base[0] + 0.3, base[0] - 0.2] if is_array else base[0]
        points = [
            f"np.array({[round(c + moving * call, 3) for c in start]})" if is_array else str(round(start + moving * call, 3))
            for call in range(calls)
        ]
    at = ", ".join(points) if kind.points else points[0] + (f", then {moving} more each time" if moving else "")
    changes = ()
    if "def change" in text:
        if kind.calls:
            changes = tuple(range(1, calls))
        else:
            first_change = rng.randrange(1, max(calls - 2, 2))
            more = [c for c in range(first_change + 1, calls) if rng.random() < 0.2]
            changes = (first_change, *more[:2])
    jit = rng.random() < 0.25 if jit is None else jit
    if set(turns) & {"backward", "vjp", "linearize"}:
        jit = False
    notes = [
        f"# {kind.name}" + (f"; {value}" if kind.values != (value,) and "B(n)" in kind.text else "") + f" (seed {seed})",
        f"# calls of {', '.join(turns)}" + (f" of tg.jit(f{', kernel=never' if seed % 2 else ''})" if jit else "") + f", {calls} times, at {at}",
        *([f"# change(1), change(2), ... before calls {changes}, the first being 0"] if changes else []),
    ]
    source = "\n".join(notes) + "\n" + HEADER + "\n" + text
    arguments = [eval(point, {"np": np}) for point in points]
    return Program(
        (kind.name, seed),
        kind,
        source,
        arguments,
        changes,
        tuple(turns),
        jit,
        compile(source, f"<{kind.name}, seed {seed}>", "exec"),
    )


def programs(seed, count, kinds=None, transformation=None, jit=None):
    """`count` programs, in turn of every kind.

    Parameters
    ----------
    seed, count : int
    kinds : iterable of str, optional
        Names in `KINDS`.
    transformation : str, optional
        In place of a random one; kinds that cannot are left out.
    jit : bool, optional
        Whether to take derivatives of ``tg.jit(f)``; of one in four if not given.
    """
    chosen = [KINDS[name] for name in (KINDS if kinds is None else kinds)]
    if transformation is not None:
        chosen = [kind for kind in chosen if transformation in kind.transformations]
    for number, kind in zip(range(count), itertools.cycle(chosen)):
        yield made(kind, seed * 1_000_003 + number // len(chosen), transformation, jit)


# What is called.


def by_backward(f):
    def gradient(x, *args):
        leaf = tg.tensor(x, requires_grad=True)
        f(leaf, *args).backward()
        return leaf.grad.numpy()

    return gradient


def by_pullback(f):
    def gradient(x, *args, before_the_way_back=lambda: None):
        value, pullback = tg.vjp(f, x, *args)
        before_the_way_back()
        return pullback(1.0)[0]

    return gradient


def by_linear_map(f):
    def derivative(x, *args, before_the_way_back=lambda: None):
        value, linear = tg.linearize(f, x, *args)
        before_the_way_back()
        return np.stack([linear(direction) for direction in np.eye(len(x))], axis=-1) if np.ndim(x) else linear(1.0)

    return derivative


def optimised(method, **options):
    return lambda f: lambda x, *args: getattr(tg.optimize, method)(f, x, args, **options).x


def product(f):
    h = tg.hvp(f)
    call = lambda x, *args: h(x, *args, direction_at(x))
    call.stats = getattr(h, "stats", None)
    return call


def direction_at(x):
    return np.cos(np.arange(np.size(x))).reshape(np.shape(x)) if np.ndim(x) else 1.0


CALLED = {
    "grad": tg.grad, "jacobian": tg.jacobian, "elementwise_grad": tg.elementwise_grad, "hessian": tg.hessian, "hvp": product,
    "value_and_grad": tg.value_and_grad, "backward": by_backward, "vjp": by_pullback, "linearize": by_linear_map,
    "lbfgs": optimised("lbfgs"), "minimize": optimised("minimize"),
    "gradient_descent": optimised("gradient_descent", learning_rate=0.2),
    "adam": optimised("adam", learning_rate=0.2, max_iter=2000),
}  # fmt: skip


# What it should be.


def offsets(transformation, x):
    """Shifts of the argument, at which plain NumPy is asked: the first is none."""
    unit = np.eye(np.size(x)).reshape(-1, *np.shape(x))
    if transformation in SECOND:
        shifts = [STEP2 * (a * one + b * other) for one in unit for other in unit for a in (1, -1) for b in (1, -1)]
    else:
        shifts = [STEP * sign * one for one in unit for sign in (1, -1)]
    return [0.0 * unit[0], *shifts]


def by_differences(transformation, x, values):
    """The derivative, from the values at `offsets`."""
    n = np.size(x)
    if transformation in SECOND:
        v = np.array(values[1:]).reshape(n, n, 4)
        matrix = (v[..., 0] - v[..., 1] - v[..., 2] + v[..., 3]) / (4 * STEP2**2)
        if transformation == "hvp":
            matrix = matrix @ np.reshape(direction_at(x), -1)
        return matrix.reshape(np.shape(x) * (1 if transformation == "hvp" else 2))
    v = np.array(values[1:])
    rows = np.stack([(v[2 * j] - v[2 * j + 1]) / (2 * STEP) for j in range(n)], axis=-1)
    if transformation == "elementwise_grad":
        rows = rows.reshape(-1, n).sum(axis=0)
    return rows.reshape((() if transformation == "elementwise_grad" else np.shape(values[0])) + np.shape(x))


def agrees(measured, right, tolerance):
    measured, right = np.asarray(measured, float), np.asarray(right, float)
    if measured.shape != right.shape and measured.size == right.size == 1:
        measured = measured.reshape(right.shape)
    return measured.shape == right.shape and np.allclose(
        measured, right, rtol=tolerance, atol=tolerance * (1.0 + np.max(np.abs(right), initial=0.0))
    )


class Oracle:
    """The function in plain NumPy: an instance of the program for each point of the differences."""

    def __init__(self, program):
        #: How many points any call takes: every instance takes part in every call.
        count = max(len(offsets(t, program.points[0])) for t in program.transformations)
        self.instances = [program.instance() for _ in range(count)]

    def each(self, do):
        for names in self.instances:
            do(names)

    def at(self, transformation, x, call):
        """Value and derivative."""
        shifts = offsets(transformation, x)
        shifts += [shifts[0]] * (len(self.instances) - len(shifts))
        values = [plain(names, x, shift, call) for names, shift in zip(self.instances, shifts)]
        if transformation in OPTIMISERS:
            transformation = "grad"
        return values[0], by_differences(transformation, x, values[: len(offsets(transformation, x))])


def plain(names, x, shift, call):
    point = x + shift
    return names["f"](point if np.ndim(point) else float(point), *arguments_of(names, call))


def arguments_of(names, call):
    return names["arguments"](call) if "arguments" in names else ()


@contextlib.contextmanager
def process_kept():
    """What programs change in the process is as before, afterwards."""
    environment = dict(os.environ)
    try:
        with np.errstate(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)


@dataclass
class Outcome:
    """What `run` found: `verdict`, as listed above, and what it saw, in words."""

    verdict: str
    text: str = ""


def run(program):
    """Call the program's transformations, and compare with the oracle at each call."""
    with process_kept():
        outcome = compared(program)
    if outcome.verdict == "wrong" and program.jit and not program.kind.noticed:
        outcome.verdict = "unseen"
    return outcome


def compared(program):
    names, oracle = program.instance(tg.checkpoint), Oracle(program)
    f = tg.jit(names["f"], kernel=program.kernel) if program.jit else names["f"]
    called = {t: CALLED[t](f) for t in program.transformations}
    changed = 0
    for call, x in enumerate(program.points):
        transformation = program.transformations[call % len(program.transformations)]
        now = lambda n=changed + 1: (names["change"](n), oracle.each(lambda instance: instance["change"](n)))
        later = {}
        if call in program.changes and "change_before_the_way_back" not in names:
            now()
        if transformation not in OPTIMISERS:
            value, right = oracle.at(transformation, x, call)
        if call in program.changes:
            changed += 1
            if "change_before_the_way_back" in names:
                later = {"before_the_way_back": now}
        try:
            answer = called[transformation](x if not np.ndim(x) else x.copy(), *arguments_of(names, call), **later)
        except Exception as error:
            text = f"call {call}, {transformation}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return Outcome("refused" if isinstance(error, tg.errors.TapegradError) else "crash", text)
        if transformation in OPTIMISERS:
            # The gradient where it stopped is zero.
            _, slope = oracle.at(transformation, np.asarray(answer, float), call)
            if not agrees(slope, np.zeros_like(slope), TOLERANCE["minimum"]):
                return Outcome("wrong", f"call {call}, {transformation}: stopped at {answer}, where the gradient is {slope}, not 0")
            continue
        if transformation == "value_and_grad":
            if not agrees(answer[0], value, 1e-9):
                return Outcome("wrong", f"call {call}: the value is {answer[0]}, should be {value}")
            answer = answer[1]
        if not agrees(answer, right, TOLERANCE["hessian" if transformation in SECOND else "gradient"]):
            return Outcome("wrong", f"call {call}, {transformation}: {np.asarray(answer).tolist()}, should be {right.tolist()}")
    for name, transformed in called.items():
        # What has no statistics (backward, vjp, linearize, optimisers) is not called again and again.
        stats = transformed.stats() if program.jit and hasattr(transformed, "stats") else None
        turns = itertools.islice(itertools.cycle(program.transformations), len(program.points))
        calls = sum(turn == name for turn in turns)
        if calls < MANY or stats is None or stats.fallback:
            continue
        if stats.records > NEARLY_ALL * calls or program.kind.replayed and stats.replays < (1.0 - NEARLY_ALL) * calls:
            return Outcome("slow", f"{name}: recorded {stats.records} times and replayed {stats.replays} times in {calls} calls")
    return Outcome("right")


def table(counts):
    """Counts of verdicts, in lines."""
    verdicts = ("right", "unseen", "wrong", "slow", "refused", "crash")
    widest = max(len(str(name)) for name in counts)
    lines = [f"{'':{widest}}  " + "".join(f"{v:>9}" for v in verdicts)]
    for name, found in counts.items():
        lines.append(f"{name!s:{widest}}  " + "".join(f"{found[v] or '':>9}" for v in verdicts))
    return "\n".join(lines)


def main(arguments=None):
    """Make programs, run them, print what they come to."""
    parser = argparse.ArgumentParser(description="Programs whose function depends on more than its arguments.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kinds", nargs="*", help="words of which a kind's name has one, or numbers of faults")
    parser.add_argument("--transformation")
    parser.add_argument("--jit", action="store_true", default=None)
    parser.add_argument("--no-jit", dest="jit", action="store_false")
    parser.add_argument("--sources", type=int, default=1, help="how many wrong programs of each kind are printed")
    options = parser.parse_args(arguments)
    kinds = [
        k for k in KINDS.values() if not options.kinds or any(word in k.name or word == str(k.fault) for word in options.kinds)
    ]
    by_kind, by_fault = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for program in programs(options.seed, options.count, [k.name for k in kinds], options.transformation, options.jit):
        outcome = run(program)
        kind = program.kind
        mark = "" if kind.noticed else " (not noticed)"
        by_kind[f"{kind.name}{mark}"][outcome.verdict] += 1
        by_fault["none" if kind.fault is None else f"fault {kind.fault}"][outcome.verdict] += 1
        if (
            outcome.verdict not in program.expected
            and sum(by_kind[f"{kind.name}{mark}"][v] for v in ("wrong", "slow", "refused", "crash")) <= options.sources
        ):
            print(f"{outcome.verdict}: {outcome.text}\n\n{program.source}\n{'-' * 80}")
    print(table(by_kind))
    print()
    print(table(dict(sorted(by_fault.items()))))


if __name__ == "__main__":
    main()
