"""Every row of the table, recorded at one point and replayed at another: values and gradients of define-by-run.

A plain run has the very bits of define-by-run.  How NumPy adds depends on strides, and a plain run works on C-contiguous copies of
its arguments, so define-by-run is given such copies as well.  A replay adds in an order of its own: it agrees within rounding.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.transforms.functional import value_and_grad
from tests.rules.examples_of_rows import numbered
from tests.transforms.replay.agreement import define_by_run
from tests.transforms.replay.rows import moved, weighted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("example", numbered(few=8))
def test_row(example):
    function, args = weighted(example)
    if function is None:
        return
    single = any(np.asarray(a).dtype.char == "f" for a in args)
    rtol, atol = (1e-3, 1e-4) if single else (1e-10, 1e-10)
    plain = value_and_grad(function, tuple(range(len(args))))
    g = tg.jit(plain, kernel="never")
    for point in (args, args, moved(args), args):
        value, gradients = g(*point)
        expected, wanted = define_by_run(function, [a if isinstance(a, float) else np.array(a, order="C") for a in point])
        np.testing.assert_allclose(value, expected, rtol=1e-5 if single else 1e-12, atol=1e-6 if single else 1e-13)
        by_run, slopes = plain(*point)
        np.testing.assert_array_equal(by_run, expected)
        for a, b, c in zip(gradients, wanted, slopes, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
            np.testing.assert_array_equal(c, b)
    assert g.stats().fallback == "" and g.stats().replays >= 2 and g.stats().runs == 0 and plain.stats().runs == 4
