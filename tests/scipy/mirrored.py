"""The checks that every mirrored function passes."""

import importlib

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.scipy.mirrors import MIRRORS
from tests.rules.checker import check, leaf


def flat(result):
    """A result of SciPy or of a mirror as arrays."""
    if isinstance(result, (tuple, list)):
        return [flat(part) for part in result if part is not None]
    return result


def compared(result):
    """The results that carry a derivative."""
    found = flat(result)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def check_mirror(module, name, call, arrays, rtol=None, atol=None):
    """Compare ``call(module, *arrays)`` of ours with SciPy's: plain numbers, tensors, and derivatives by differences.

    Each argument alone, the others constants, has the values of SciPy and the derivative that it has together with the others.

    Parameters
    ----------
    module : str
        ``"scipy.linalg"`` and the like.
    name : str
        The mirrored function, one of `MIRRORS`.
    call : callable
        Takes a module (SciPy's or ours) and the arrays.
    """
    assert name in MIRRORS[module]
    theirs, ours = importlib.import_module(module), importlib.import_module(f"tapegrad.{module}")
    for given, expected in zip(_list(call(ours, *arrays)), _list(call(theirs, *arrays)), strict=True):
        assert type(given) is type(expected)
        np.testing.assert_array_equal(given, expected)

    def reference(*values):
        return compared(call(theirs, *values))

    gradients = check(lambda *ts: compared(call(ours, *ts)), *arrays, reference=reference, rtol=rtol, atol=atol)
    if len(arrays) > 1:
        for k, together in enumerate(gradients):

            def alone(target, k=k):
                return lambda t: compared(call(target, *arrays[:k], t, *arrays[k + 1 :]))

            # The weights of the results are the same.
            (found,) = check(alone(ours), arrays[k], reference=alone(theirs), rtol=rtol, atol=atol, modes=("value", "transpose", "lanes"))
            size = 1.0 + np.max(np.abs(together), initial=0.0)
            np.testing.assert_allclose(found, together, rtol=0.0, atol=(rtol or 1e-10) * size, err_msg=f"argument {k}, the others constants")


def check_unmodified(module, name, call, arrays):
    """SciPy's own function called with a tensor raises, and names the mirror."""
    theirs = importlib.import_module(module)
    with pytest.raises(tg.errors.LeaveTapeError, match=rf"tapegrad\.{module}\.{name}\b"):
        call(theirs, *[leaf(a) for a in arrays])


def _list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]
