"""Ranges and borders: np.linspace and its kin, np.pad in every mode."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import UnsupportedFunctionError
from tests.rules.checker import check, generator, leaf, plain

rng = generator(41)
A = rng.normal(size=(3, 4))
START, STOP = rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 2.0, (2, 3))

MODES = [
    ("maximum", {}), ("minimum", {"stat_length": 2}), ("mean", {}), ("mean", {"stat_length": ((1, 2), (2, 1))}), ("median", {}),
    ("median", {"stat_length": 3}), ("linear_ramp", {}), ("linear_ramp", {"end_values": ((1.0, 2.0), (3.0, 4.0))}), ("linear_ramp", {"end_values": 2.0}),
    ("reflect", {"reflect_type": "odd"}), ("symmetric", {"reflect_type": "odd"}), ("reflect", {}), ("symmetric", {}), ("wrap", {}), ("edge", {}),
    ("constant", {}), ("constant", {"constant_values": 3.0}),
]  # fmt: skip


@pytest.mark.parametrize("mode, arguments", MODES)
def test_pad(mode, arguments):
    for width in (2, ((1, 3), (0, 2)), (5, 7), ((0, 0), (1, 0))):
        check(lambda x: np.pad(x, width, mode, **arguments), A)
    check(lambda x: np.pad(x, 2, mode, **{k: v for k, v in arguments.items() if np.ndim(v) == 0}), A[0].astype("f"))


def test_pad_with_tensors_as_borders():
    check(lambda x, ends: np.pad(x, 2, "linear_ramp", end_values=ends), A, np.array([1.0, 2.0]))
    check(lambda ends: np.pad(leaf(A), 2, "linear_ramp", end_values=ends), np.array([1.0, 2.0]), reference=lambda e: np.pad(A, 2, "linear_ramp", end_values=e))
    check(lambda x, c: np.pad(x, 1, constant_values=c), A, np.array([1.0, 2.0]))


def test_pad_refuses_what_numpy_refuses_and_functions():
    with pytest.raises(UnsupportedFunctionError, match="function as mode"):
        np.pad(leaf(A), 1, lambda *_: None)
    for arguments in (dict(mode="mean", stat_length=-1), dict(mode="maximum", stat_length=0), dict(mode="mean", end_values=1), dict(mode="median", stat_length=-2), dict(mode="linear_ramp", stat_length=1)):
        for x in (A, leaf(A)):
            with pytest.raises(ValueError):
                np.pad(x, 1, **arguments)


@pytest.mark.parametrize("function", [np.linspace, np.logspace, np.geomspace])
@pytest.mark.parametrize("arguments", [{}, {"num": 5}, {"num": 5, "endpoint": False}, {"num": 1}, {"num": 0}])
def test_ranges(function, arguments):
    check(lambda a, b: function(a, b, **arguments), START, STOP)
    check(lambda a, b: function(a, b, axis=-1, **arguments), START, STOP)
    check(lambda a: function(a, 3.0, **arguments), 1.5)
    first = -1.5 if function is np.geomspace else 0.0
    check(lambda b: function(first, -b, **arguments), STOP)


def test_parameters_of_ranges():
    check(lambda b: np.linspace(0, b, 5, retstep=True)[1], 2.0)
    check(lambda a, b, base: np.logspace(a, b, 5, base=base), START, STOP, np.array([2.0, 3.0, 4.0]))
    check(lambda a: np.linspace(a, a, 3), 2.0)
    assert np.linspace(leaf(0.0), 1.0, 3, dtype=np.float32).dtype == np.float32
    for call in (lambda t: np.linspace(t, 1.0, -1), lambda t: np.geomspace(t, -1.0), lambda t: np.geomspace(0.0 * t, 1.0)):
        with pytest.raises(ValueError):
            call(leaf(0.5))


def test_ends_of_ranges_are_exact():
    assert plain(np.linspace(leaf(0.1), 0.7, 7))[-1] == 0.7
    found = plain(np.geomspace(leaf(0.1), tg.tensor(0.7), 7))
    assert found[0] == 0.1 and found[-1] == 0.7
