"""Numbers that two ways of computing must agree on, but for rounding."""

import numpy as np


def near(found, expected, *terms, ulps=4, where=""):
    """Fail unless `found` is `expected` within some units in the last place of the largest number, of `terms` as well.

    `terms` are what the result was added up from, where that may cancel; with no `terms` it is the result alone that counts.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype, where
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite], where)
    sizes = [np.max(np.abs(a), initial=0.0, where=np.isfinite(a)) for a in (expected, *map(np.asarray, terms))]
    limit = ulps * np.finfo(found.dtype).eps * float(max(sizes))
    apart = np.abs(found - expected)[finite]
    assert np.all(apart <= limit), f"{where}: {apart.max()} apart, where {limit} is allowed"
