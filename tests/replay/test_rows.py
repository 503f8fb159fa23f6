"""Every row of the table, recorded at one point and replayed at another: values and gradients of define-by-run.

A recording sees a copy of an argument that is not C-contiguous, and how NumPy adds depends on strides: there, and only
there, the last bits may differ from define-by-run.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.functional import value_and_grad
from tapegrad.record import apply, normalise
from tests.replay.agreement import define_by_run, same_bits
from tests.rules.examples_of_rows import numbered


def result_of(example, operands):
    """The operation of an example on tensors or arrays."""
    row = example.row
    value = None
    if row.dynamic:
        value = normalise(row.value(*[np.asarray(o._v if isinstance(o, tg.Tensor) else o) for o in operands], **example.keywords))
    return apply(row, operands, example.attrs, value=value, integer=example.integer or 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", numbered(few=8))
def test_row(example):
    row = example.row
    operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
    slots = row.slots(len(operands))
    if any(np.asarray(operands[k]).dtype.kind != "f" for k in slots):
        return
    args = [operands[k] for k in slots]

    def whole(args):
        given = iter(args)
        return [next(given) if k in slots else o for k, o in enumerate(operands)]

    shape = np.shape(example.value)
    weights = np.random.default_rng(0).standard_normal(shape).astype(example.value.dtype)

    def function(*args):
        return tg.sum(result_of(example, whole(args)) * weights)

    rng = np.random.default_rng(1)
    moved = [a + 0.01 * rng.standard_normal(np.shape(a)).astype(np.asarray(a).dtype) for a in args]
    moved = [float(m) if isinstance(a, float) else np.asarray(m) for a, m in zip(args, moved)]
    single = any(np.asarray(a).dtype.char == "f" for a in args)
    rtol, atol = (1e-3, 1e-4) if single else (1e-10, 1e-10)
    g = value_and_grad(function, tuple(range(len(args))))
    for point in (args, args, moved, args):
        value, gradients = g(*point)
        expected, wanted = define_by_run(function, point)
        np.testing.assert_allclose(value, expected, rtol=1e-5 if single else 1e-12, atol=1e-6 if single else 1e-13)
        if all(np.asarray(a).flags.c_contiguous for a in args):
            assert same_bits(value, expected), f"{row.name}: {value!r} is not {expected!r}"
        for a, b in zip(gradients, wanted):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
    assert g.stats().fallback == "" and g.stats().replays > 0
