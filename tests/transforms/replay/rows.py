"""Examples of the rows as functions, recorded at one point and replayed at another."""

import numpy as np

import tapegrad as tg
from tapegrad.array.record import apply, normalise
from tapegrad.transforms.functional import value_and_grad
from tests.transforms.replay.agreement import define_by_run


def result_of(example, operands):
    """The operation of an example on tensors or arrays."""
    row = example.row
    value = None
    if row.dynamic:
        value = normalise(row.value(*[np.asarray(o._v if isinstance(o, tg.Tensor) else o) for o in operands], **example.keywords))
    return apply(row, operands, example.attrs, value=value, integer=example.integer or 0)


def unweighted(example):
    """An example as a function of the operands with a derivative; and these.

    None and no operands if one of them is not of floats.
    """
    operands = [o if isinstance(o, float) else np.asarray(o) for o in example.operands]
    slots = [k for k in example.row.slots(len(operands)) if k not in example.row.refused]
    if any(np.asarray(operands[k]).dtype.kind != "f" for k in slots):
        return None, ()

    def function(*args):
        given = iter(args)
        return result_of(example, [next(given) if k in slots else o for k, o in enumerate(operands)])

    return function, [operands[k] for k in slots]


def weighted(example):
    """The same, of the sum of the results, each element times a weight."""
    function, args = unweighted(example)
    weights = np.random.default_rng(0).standard_normal(np.shape(example.value)).astype(example.value.dtype)
    return function and (lambda *args: tg.sum(function(*args) * weights)), args


def moved(args):
    """A point near `args`."""
    rng = np.random.default_rng(1)
    found = [a + 0.01 * rng.standard_normal(np.shape(a)).astype(np.asarray(a).dtype) for a in args]
    return [float(m) if isinstance(a, float) else np.asarray(m) for a, m in zip(args, found)]


def replays_against_runs(example):
    """Recorded at one point and replayed at another: values and gradients of define-by-run.

    A plain run has the very bits of define-by-run on copies of its arguments.  (How NumPy adds depends on strides, which a copy may change.)
    A replay adds in an order of its own: it agrees within rounding.
    """
    function, args = weighted(example)
    if function is None:
        return
    single = any(np.asarray(a).dtype.char == "f" for a in args)
    rtol, atol = (1e-3, 1e-4) if single else (1e-10, 1e-10)
    plain = value_and_grad(function, tuple(range(len(args))))
    g = tg.jit(plain, kernel="never")
    here, there = ((point, define_by_run(function, [a if isinstance(a, float) else np.copy(a) for a in point])) for point in (args, moved(args)))
    for point, (expected, wanted) in (here, here, there, here):
        value, gradients = g(*point)
        np.testing.assert_allclose(value, expected, rtol=1e-5 if single else 1e-12, atol=1e-6 if single else 1e-13)
        by_run, slopes = plain(*point)
        np.testing.assert_array_equal(by_run, expected)
        for a, b, c in zip(gradients, wanted, slopes, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
            np.testing.assert_array_equal(c, b)
    assert g.stats().fallback == "" and g.stats().replays >= 2 and g.stats().runs == 0 and plain.stats().runs == 4
