"""Every public function of NumPy, recorded at one point and replayed at others.

The other points have other orders, signs, masks and zeros: whatever a function takes
from values (positions, masks, counts, decisions) and keeps as a constant is found here.
"""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import LeaveTapeError, UnsupportedFunctionError
from tapegrad.numpy_api.refused import REFUSED
from tests.numpy_api.test_every_public_function import PUBLIC, calls_of, floats_of, ids, parts, run
from tests.transforms.replay.agreement import Pair, define_by_run


def others(arrays, rng):
    """Points with other values: the same numbers in another order, and numbers of other signs, with ties and zeros."""
    yield [a[::-1].copy() if a.ndim else a for a in arrays]
    yield [np.roll(a.reshape(-1), 1).reshape(a.shape) * 1.01 for a in arrays]
    yield [a * rng.choice([1.0, -1.0], a.shape) for a in arrays]
    yield [np.where(rng.random(a.shape) < 0.3, 0.0, a) for a in arrays]
    yield [np.round(a * 2) / 2 for a in arrays]
    yield [a + 0.01 * rng.standard_normal(a.shape) for a in arrays]


def scalar_of(name, call, rng):
    """A scalar function of the float arrays of a call: all results, weighted."""
    weights = {}

    def function(*values):
        total = 0.0
        for k, part in enumerate(parts(run(name, call, values))):
            if isinstance(part, (str, type, np.dtype)) or part is None:
                continue
            if not isinstance(part, (tg.Tensor, np.ndarray, np.generic, float, int)):
                continue
            shape = (k, np.shape(part))
            if shape not in weights:
                weights[shape] = np.random.default_rng(k).standard_normal(np.shape(part))
            kind = part.dtype.kind if hasattr(part, "dtype") else "f"
            if kind in "fiub":
                total = total + np.sum(weights[shape] * part)
        return total

    return function


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, number", [i for i in ids() if i[0] not in REFUSED and i[0] != "numpy.empty_like"])
def test_function(name, number):
    call = calls_of(name, PUBLIC[name])[number]
    arrays = [np.ascontiguousarray(a) for a in floats_of(call, [])]
    if not arrays:
        return
    rng = np.random.default_rng(1)
    function = scalar_of(name, call, rng)
    # Kernels of what is recorded are tested row by row.
    pair = Pair(function, len(arrays), kernel="never")
    points = [arrays, arrays, *others(arrays, rng), arrays]
    checked = 0
    for point in points:
        try:
            expected = define_by_run(function, point)
        except (UnsupportedFunctionError, LeaveTapeError):
            raise
        except Exception as error:
            # A singular matrix, a value out of the domain: the replay says the same.
            with pytest.raises(type(error)):
                pair.replayed(*point)
            continue
        if not np.isfinite(expected[0]):
            value, _ = pair.replayed(*point)
            np.testing.assert_equal(value, expected[0])
            continue
        pair.check(*point)
        checked += 1
    assert checked >= 3
    assert pair.stats.fallback == ""
