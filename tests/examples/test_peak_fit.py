"""The example of a spectrum: certified values and errors, one width for two peaks, a profile of their distance."""

import pytest


@pytest.fixture(scope="module")
def example(load):
    return load("peak_fit")


def test_values_and_errors_are_those_that_are_certified(example, picture):
    found = example.main(picture)
    assert found["off"].max() < 1e-6
    # Twice the cost is the certified sum of squares.
    assert 2.0 * found["fit"].cost == pytest.approx(1244.4846360, rel=1e-9)
    assert found["shared"].params["second"]["width"] == found["shared"].params["first"]["width"]
    assert found["ratio"] == pytest.approx(25.81, abs=0.02) and found["chance"] < 1e-5


def test_the_profile_of_a_distance_is_near_what_the_covariance_says(example):
    found = example.main()
    fit, (low, high) = found["fit"], found["interval"]
    names = list(fit.names)
    a, b = names.index("first.centre"), names.index("second.centre")
    distance = fit.params["second"]["centre"] - fit.params["first"]["centre"]
    error = (fit.covariance[a, a] + fit.covariance[b, b] - 2.0 * fit.covariance[a, b]) ** 0.5
    assert 0.5 * (low + high) == pytest.approx(distance, abs=0.1 * error)
    assert high - low == pytest.approx(2.0 * 1.97 * error, rel=0.05)
