"""Run a program by tapegrad and by the reference, and compare."""

import importlib
import re
import warnings
from contextlib import contextmanager
from itertools import count

import numpy as np

from . import reference

#: The largest difference that counts as none, relative to the largest entry of the same result.
TOLERANCE = 1e-9
#: What is smaller is zero.
SMALL = 1e-12
#: Two sides of a decision that are nearer than this: the point is moved.
CLOSE = 1e-5


def arguments(point, floats=float):
    x, w, k, dtype = point
    return (np.array(x, floats) if isinstance(x, list) else x), np.array(w, floats), np.array(k, dtype)


def compiled(program, np_, tg_):
    names = {"np": np_, "tg": tg_, "__name__": "composition"}
    exec(compile(program if isinstance(program, str) else str(program), "<composition>", "exec"), names)
    return names["top"]


def plain(result):
    """A result as a list of plain arrays."""
    return [np.asarray(leaf.detach().numpy() if hasattr(leaf, "detach") else leaf) for leaf in reference.leaves(result)]


def expected(program, point):
    """What the reference says: ``(results or an exception, how near the nearest decision was)``."""
    reference.Decisions.margin, reference.Leaf.LAST[:] = float("inf"), []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = compiled(program, reference.numpy, reference.tg)(*arguments(point, object))
            results = [np.array(reference.numbers(leaf)).reshape(np.shape(leaf)) for leaf in reference.leaves(results)]
            if any(r.dtype.kind not in "fciub" for r in results):
                raise TypeError("a result is no number")
        except Exception as error:
            results = error
    return results, reference.Decisions.margin


def moved(point, step):
    number = count()

    def by(a):
        return [by(b) for b in a] if isinstance(a, list) else round(a + 0.0137 * step * (1 + next(number) % 3), 4)

    x, w, k, dtype = point
    return by(x), by(w), k, dtype


def settled(program, point):
    """The point, moved until no decision is close, with what the reference says there; None if there is no such point."""
    for step in range(6):
        there = moved(point, step) if step else point
        results, margin = expected(program, there)
        if isinstance(results, OverflowError):
            # Numbers of Python raise where NumPy's are infinite.
            continue
        if isinstance(results, Exception):
            return there, results
        finite = all(np.all(np.abs(r) < 1e8) for r in results if r.dtype.kind in "fc")
        if margin > CLOSE and finite:
            return there, results
    return None


def rounded_away(program, point, ours, theirs):
    """Whether the reference comes out as far from `theirs` as `ours` does, at points that are one or two roundings away.

    A calculation makes some roundings more: each number may be off by ten times as much.
    """

    def moved(a, steps):
        return [moved(b, steps) for b in a] if isinstance(a, list) else float(a + steps * np.spacing(a))

    x, w, k, dtype = point
    beside = [expected(program, (moved(x, i), moved(w, j), k, dtype))[0] for i in range(-2, 3) for j in range(-2, 3) if i or j]
    if any(isinstance(results, Exception) or [r.shape for r in results] != [r.shape for r in theirs] for results in beside):
        return False
    return all(
        a.shape == b.shape and np.all(np.abs(a - b) <= 10 * np.max([np.abs(each[j] - b) for each in beside], axis=0)) or difference([a], [b]) is None
        for j, (a, b) in enumerate(zip(ours, theirs))
    )


def difference(ours, theirs):
    """None if two lists of results agree, or a sentence."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for j, (a, b) in enumerate(zip(ours, theirs)):
        if a.shape != b.shape:
            return f"result {j}: shape {a.shape} for {b.shape}"
        if a.dtype == object:
            return f"result {j}: an array of objects {a!r}"
        if not np.array_equal(np.isnan(a), np.isnan(b)) or not np.array_equal(a[np.isinf(a)], b[np.isinf(b)]):
            return f"result {j}: {a.tolist()} for {b.tolist()}"
        finite = np.isfinite(b)
        size = np.max(np.abs(b[finite]), initial=0.0)
        apart = np.max(np.abs(a[finite] - b[finite]), initial=0.0)
        if apart > max(TOLERANCE * size, SMALL):
            return f"result {j}: {a.tolist()} for {b.tolist()}, {apart:.2g} apart"
    return None


@contextmanager
def setting(thing, name):
    """Give an attribute its value back in the end."""
    before = getattr(thing, name)
    try:
        yield
    finally:
        setattr(thing, name, before)


@contextmanager
def noted(kind, texts):
    """Add the text of every error of a kind to a list."""
    with setting(kind, "__init__"):
        before = kind.__init__

        def init(self, *args):
            texts.append(class_of(Exception(*args)))
            before(self, *args)

        kind.__init__ = init
        yield


def class_of(error):
    """The class of a message: its text without what belongs to one program."""
    text = getattr(error, "message", None) or str(error)
    text = re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>", "*", text.splitlines()[0] if text else "")
    text = re.sub(r"\b[a-z]+\d+\b|-?\d+(\.\d+)?(e-?\d+)?", "#", text)
    return f"{type(error).__name__}: {text[:150]}"


def outcome(program, points=None):
    """``{"wrong": [...], "refused": [...], "compared": n, "points": [...]}`` of a program, or of its text with points."""
    import tapegrad as tg

    found = {"wrong": [], "refused": [], "compared": 0, "unsettled": 0}
    text = str(program)
    for module in set(re.findall(r"tg\.(scipy(?:\.[a-z]+)+)\.", text)):
        importlib.import_module(f"tapegrad.{module}")
    places = []
    for point in program.points if points is None else points:
        place = settled(text, point)
        if place is None:
            found["unsettled"] += 1
        else:
            places.append(place)
    if not places:
        return found
    # The program sets this for itself alone.
    leaving = []
    with setting(tg.config, "kernel"), noted(tg.errors.LeaveTapeError, leaving), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        top = compiled(text, np, tg)
        for number, (point, theirs) in enumerate([*places, places[0]] if "tg.jit" in text else places):
            args = arguments(point)
            before = [np.array(a) for a in args]
            try:
                ours = plain(top(*args))
            except tg.errors.InternalError as error:
                found["wrong"].append([number, class_of(error)])
                continue
            except tg.errors.TapegradError as error:
                found["refused"].append(class_of(error))
                continue
            except Exception as error:
                if isinstance(error.__cause__, tg.errors.TapegradError):
                    # NumPy's words for a refusal of ours.
                    found["refused"].append(class_of(error.__cause__))
                    continue
                # (In a lane the reference does not know that a result is constant, which is no tensor.)
                if isinstance(theirs, Exception):
                    found["refused"].append(f"both raise: {type(theirs).__name__}: {theirs}"[:150])
                elif "outputs must be tensors" in str(error) and "tg.vmap" in text:
                    found["refused"].append(class_of(error))
                else:
                    found["wrong"].append([number, "raises " + class_of(error)])
                continue
            # (Of rows and lanes others may depend on the leaf: a constant has no shape there.)
            several = isinstance(theirs, AttributeError) and ("tg.sum_over" in text or "tg.vmap" in text)
            if several or isinstance(theirs, (reference.Independent, AttributeError)) and all(np.all(np.abs(a) < SMALL) for a in ours):
                continue
            if isinstance(theirs, Exception):
                found["wrong"].append([number, f"returns {[r.tolist() for r in ours]}, the reference raises {theirs!r}"])
                continue
            found["compared"] += 1
            wrong = difference(ours, theirs)
            if wrong is None and not all(np.array_equal(a, b) for a, b in zip(args, before)):
                wrong = "an argument has changed"
            if wrong and leaving and "except ValueError" in text:
                # Was it the program's handler that has caught our refusal to put a tensor into its array?
                if difference(plain(compiled(text.replace("np.zeros(", "tg.zeros("), np, tg)(*arguments(point))), theirs) is None:
                    found["refused"].append(f"caught by the program: {leaving[0]}"[:150])
                    continue
            if wrong and rounded_away(text, point, ours, theirs):
                found["unsettled"] += 1
            elif wrong:
                found["wrong"].append([number, wrong])
    return found
