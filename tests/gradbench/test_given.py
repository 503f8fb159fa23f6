"""Inputs as they are read: arrays of the shape asked for, or an error that says what is wrong."""

import numpy as np
import pytest

from benchmarks.gradbench import given


def test_numbers_of_all_kinds_are_floats():
    for value in ([1, 2], [1.0, 2], [1, 2.0]):
        found = given.array({"x": value}, "x", None)
        assert found.dtype == np.float64 and found.tolist() == [1.0, 2.0]
    assert given.array({"x": [10**30, 0.5]}, "x", 2).tolist() == [1e30, 0.5]
    assert np.isnan(given.array({"x": [float("nan")]}, "x", 1)).all()
    assert type(given.number(3)) is float and given.count({"n": 0}, "n", 0) == 0


def test_shapes():
    assert given.array({"x": [[1, 2], [3, 4], [5, 6]]}, "x", 3, 2).shape == (3, 2)
    # A mixture of numbers has triangles without entries, one a component or none at all.
    assert given.array({"l": [[], []]}, "l", 2, 0).shape == given.array({"l": []}, "l", 2, 0).shape == (2, 0)
    for value, shape in (([1.0], (2,)), ([[1.0]], (1,)), ([1.0], (1, 1)), ([[1.0, 2.0]], (2, 1)), ([], (None,)), ([[]], (1, None))):
        with pytest.raises(ValueError, match="it must be"):
            given.array({"x": value}, "x", *shape)


def test_what_is_no_number():
    for value in (True, "1", None, [1.0], {}):
        with pytest.raises(ValueError, match="r is .*: it must be a number"):
            given.number(value, "r")
        with pytest.raises(ValueError, match="n is .*: it must be an integer of at least 1"):
            given.count({"n": value}, "n")
        with pytest.raises(ValueError, match="x is .*: it must be numbers, 1"):
            given.array({"x": [value]}, "x", 1)
    with pytest.raises(ValueError, match="the input has no y"):
        given.entry({"x": 1}, "y")
