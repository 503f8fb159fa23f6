"""The example of hares and lynxes: published parameters, both modes, the picture."""

import numpy as np
import pytest

from tapegrad.tools.demo import PUBLISHED


@pytest.fixture(scope="module")
def example(load):
    return load("lynx_hare")


def test_fit_compare_and_draw(example, picture, capsys):
    found = example.main(picture, draws=8)
    for value, error, (mean, deviation) in zip(np.exp(found["result"].x), found["errors"], PUBLISHED.values()):
        assert abs(value - mean) <= deviation
        assert error == pytest.approx(deviation, rel=0.4)
    assert found["comparison"].recommended == "reverse"
    assert all(row.disagreement < 1e-10 for row in found["comparison"].rows[1:])
    assert "published 0.55 +- 0.07" in capsys.readouterr().out


def test_bands_enclose_the_fit(example):
    years, *pelts = example.read_pelts()
    result, covariance = example.fit(*pelts)
    low, high = example.bands(result, covariance, years, 50)
    fitted = example.curves(result.x, years)
    assert np.all(low < fitted) and np.all(fitted < high)
    # Pelts scatter by a fifth around the curves, so most are within a third of them.
    assert np.mean(np.abs(np.log(np.array(pelts) / fitted[:, :: example.STEPS_PER_YEAR])) < 0.33) > 0.8
