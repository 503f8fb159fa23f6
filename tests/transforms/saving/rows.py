"""Rows in files: what the validation says of shapes and dtypes is what NumPy does."""

import numpy as np

import tapegrad as tg
from tapegrad.transforms.saving.save import from_bytes, to_bytes
from tests.rules.examples_of_rows import examples_of
from tests.transforms.replay.rows import unweighted


def loaded_tapes_against_saved_ones(name):
    """The same bits, of every example."""
    tried = 0
    for example in examples_of(name):
        function, args = unweighted(example)
        if function is None:
            continue
        tape = tg.value_and_grad(lambda *args, f=function: tg.sum(f(*args)), tuple(range(len(args)))).tape(*args)
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
