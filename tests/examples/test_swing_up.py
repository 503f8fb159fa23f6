"""The example of optimal control: an independent simulation, and a multiplier beside differences."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def example(load):
    return load("swing_up")


def test_the_path_holds_and_its_multipliers_are_slopes(example, picture):
    found = example.main(picture, count=40)
    assert found["found"].success and found["found"].constr_violation < 1e-8
    assert found["multiplier"] == pytest.approx(found["slope"], rel=1e-4)


def test_finer_paths_end_nearer(example):
    off = [np.abs(example.simulated(example.swing_up(count).x["force"]) - [1.0, np.pi, 0.0, 0.0]).max() for count in (80, 160)]
    # The trapezoidal rule is of second order.
    assert off[1] < off[0] / 3.0 and off[1] < 0.2


def test_a_nearer_end_takes_less(example):
    assert example.swing_up(40, 0.5).fun != pytest.approx(example.swing_up(40, 1.0).fun, rel=1e-2)
