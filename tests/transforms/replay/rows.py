"""Examples of the rows as scalar functions, to be recorded at one point and replayed at another."""

import numpy as np

import tapegrad as tg
from tapegrad.array.record import apply, normalise


def result_of(example, operands):
    """The operation of an example on tensors or arrays."""
    row = example.row
    value = None
    if row.dynamic:
        value = normalise(row.value(*[np.asarray(o._v if isinstance(o, tg.Tensor) else o) for o in operands], **example.keywords))
    return apply(row, operands, example.attrs, value=value, integer=example.integer or 0)


def weighted(example):
    """The sum of an example's result, each element times a weight, as a function of the operands with a derivative; and these.

    None and no operands if one of them is not of floats.
    """
    operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
    slots = example.row.slots(len(operands))
    if any(np.asarray(operands[k]).dtype.kind != "f" for k in slots):
        return None, ()
    weights = np.random.default_rng(0).standard_normal(np.shape(example.value)).astype(example.value.dtype)

    def function(*args):
        given = iter(args)
        return tg.sum(result_of(example, [next(given) if k in slots else o for k, o in enumerate(operands)]) * weights)

    return function, [operands[k] for k in slots]


def moved(args):
    """A point near `args`."""
    rng = np.random.default_rng(1)
    found = [a + 0.01 * rng.standard_normal(np.shape(a)).astype(np.asarray(a).dtype) for a in args]
    return [float(m) if isinstance(a, float) else np.asarray(m) for a, m in zip(args, found)]
