"""The example of ten thousand fits: intervals that cover the truth, and a bootstrap beside the errors."""

import pytest


@pytest.fixture(scope="module")
def example(load):
    return load("dose_response")


def test_intervals_cover_what_was_simulated(example, picture):
    found = example.main(picture, wells=2000)
    assert 0.93 < found["covered"] < 0.97
    assert found["spread"] == pytest.approx(found["error"], rel=0.25)
    assert found["fits"].success.mean() > 0.98
