"""Rows in files: what the validation says of shapes and dtypes is what NumPy does."""

import numpy as np

import tapegrad as tg
from tapegrad.transforms.saving.save import from_bytes, to_bytes
from tests.rules.examples_of_rows import examples_of
from tests.transforms.replay.rows import unweighted


def loaded_tapes_against_saved_ones(name):
    """The same bits, of every example: of all in one tape, and of those that are not finite in tapes of their own."""
    alone, together = [], []
    for example in examples_of(name):
        function, args = unweighted(example)
        if function is not None:
            (together if np.all(np.isfinite(example.value)) else alone).append((function, args))
    assert alone or together
    for several in ([together] if together else []) + [[one] for one in alone]:
        try:
            _saved_and_loaded(several)
        except Exception:
            # Which of them it is.
            for one in several:
                _saved_and_loaded([one])
            raise


def _saved_and_loaded(several):
    """Compare a tape of some functions, each with its arguments, with what is loaded of it."""
    args = [a for _, given in several for a in given]

    def total(*args):
        given = iter(args)
        return sum(tg.sum(function(*[next(given) for _ in own])) for function, own in several)

    tape = tg.value_and_grad(total, tuple(range(len(args)))).tape(*args)
    loaded = from_bytes(to_bytes(tape))
    for program in (dict(item.entry.attrs).get("program") for item in (*tape.items, *loaded.items) if item.entry.name == "loop"):
        # What a loop keeps says whether kernels ran it, which earlier tests may have decided.
        if program is not None:
            program.prepared(always=True)
    for a, b in zip(_flat(tape.value_and_grad(*args)), _flat(loaded.value_and_grad(*args)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _flat(found):
    value, gradients = found
    return [value, *(gradients if isinstance(gradients, tuple) else (gradients,))]
