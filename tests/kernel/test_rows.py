"""Every row of the table as a kernel: values and gradients are those of the sweep."""

import numpy as np
import pytest

import tapegrad as tg
from tests.rules.examples_of_rows import numbered
from tests.transforms.replay.rows import result_of


def first_of_each():
    """One example for each row."""
    found = {}
    for example in numbered():
        row = example.values[0].row
        found.setdefault(row.name, example)
    return list(found.values())


def checked(example):
    """`tg.check` of the operation by kernel; None if it has nothing to differentiate."""
    row = example.row
    operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
    slots = row.slots(len(operands))
    if any(np.asarray(operands[k]).dtype.kind != "f" for k in slots):
        return None

    def function(*args):
        given = iter(args)
        return result_of(example, [next(given) if k in slots else o for k, o in enumerate(operands)])

    (only,) = tg.check(function, *[operands[k] for k in slots], modes="kernel").checks
    return only


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", first_of_each())
def test_row(example):
    found = checked(example)
    # A remark would say that there is no kernel: there is none for no row.
    assert found is None or found.passed and not found.remark, found


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", numbered())
def test_every_example(example):
    test_row(example)
