"""Every row under every transformation, plainly and by `jit` that recorded it elsewhere: `tg.check` of one example each, in float64 and float32."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply
from tests.rules.examples_of_rows import DIFFERENTIABLE, examples_of, free_phases

#: Rows that are no function of all elements of their operands, which differences change one by one: a triangle counts, or rounding does.
#: The results of a loop are read off what it has kept; tests/transforms/loops has loops.
LEFT_OUT = {"cholesky", "eigh", "complex_eig", "astype", "loop_results", "loop_pull"}
MOST = 24


def example_of(row):
    """The first small example, with the operands that are differentiated; None if there is none."""
    for example in examples_of(row.name):
        slots = [k for k in row.slots(len(example.operands)) if np.asarray(example.operands[k]).dtype.char in "df"]
        if slots and example.value.size and max(map(np.size, example.operands)) <= MOST and not free_phases(example):
            return example, slots
    return None


def checked(row, char, depth):
    """What `tg.check` has found wrong: "" if nothing."""
    found = example_of(row)
    if found is None or row.name in LEFT_OUT:
        return ""
    example, slots = found
    operands = [o if isinstance(o, float) and char == "d" else np.asarray(o, char if np.asarray(o).dtype.kind == "f" else None) for o in example.operands]

    def called(function):
        def f(*args):
            given = iter(args)
            return function([next(given) if k in slots else o for k, o in enumerate(operands)])

        return f

    try:
        tg.check(
            called(lambda o: apply(row, o, example.attrs, integer=example.integer or 0)), *[operands[k] for k in slots], modes=(), compose=depth,
            reference=called(lambda o: row.value(*map(np.asarray, o), **example.keywords)),
        )  # fmt: skip
    except tg.errors.HigherOrderError:
        # A derivative in a parameter, of which there is no derivative.
        return ""
    except tg.errors.CheckError as error:
        return str(error).splitlines()[0]
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("depth", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("char", "df")
@pytest.mark.parametrize("part", range(8))
def test_rows(part, char, depth):
    wrong = {row.name: what for row in DIFFERENTIABLE[part::8] if (what := checked(row, char, depth))}
    assert not wrong
