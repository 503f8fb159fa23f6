"""Every example of every row, saved and loaded: what the validation says of shapes and dtypes is what NumPy does."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.record import apply, normalise
from tapegrad.rules import ROWS
from tapegrad.transforms.saving.save import from_bytes, to_bytes
from tests.rules.examples_of_rows import all_examples


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_row(name):
    tried = 0
    for example in all_examples():
        row = example.row
        operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
        slots = row.slots(len(operands))
        if row.name != name or any(np.asarray(operands[k]).dtype.kind != "f" for k in slots):
            continue

        def function(*args):
            given = iter(args)
            live = [next(given) if k in slots else o for k, o in enumerate(operands)]
            value = None
            if row.dynamic:
                plain = [np.asarray(o._v if isinstance(o, tg.Tensor) else o) for o in live]
                value = normalise(row.value(*plain, **example.keywords))
            return tg.sum(apply(row, live, example.attrs, value=value, integer=example.integer or 0))

        args = [operands[k] for k in slots]
        tape = tg.value_and_grad(function, tuple(range(len(args)))).tape(*args)
        loaded = from_bytes(to_bytes(tape))
        for program in (dict(item.entry.attrs).get("program") for item in (*tape.items, *loaded.items) if item.entry.name == "loop"):
            # What a loop keeps says whether kernels ran it, which earlier tests may have decided.
            if program is not None:
                program.prepared(always=True)
        for a, b in zip(_flat(tape.value_and_grad(*args)), _flat(loaded.value_and_grad(*args)), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        tried += 1
    assert tried


def _flat(found):
    value, gradients = found
    return [value, *(gradients if isinstance(gradients, tuple) else (gradients,))]
