"""The example of posteriors: means and deviations as published."""

import pytest


@pytest.fixture(scope="module")
def arviz():
    """ArviZ.  Not imported at the top, by every worker at once: on a day's first import it renames a file that another one has renamed."""
    pytest.importorskip("nutpie")
    return pytest.importorskip("arviz")


@pytest.fixture(scope="module")
def example(load):
    return load("posterior")


@pytest.mark.filterwarnings("ignore")
def test_means_and_deviations_are_as_published(arviz, example, picture):
    found = example.main(picture)
    posterior = found["pelts"].posterior
    for name, (mean, sd) in example.PUBLISHED.items():
        # What is published has three digits, of draws, too.
        assert abs(float(posterior[name].mean()) - mean) < 4.0 * float(arviz.mcse(posterior)[name]) + 0.1 * sd
        assert float(posterior[name].std()) == pytest.approx(sd, rel=0.2)
    schools = found["schools"].posterior
    for name, mean, sd in (("mu", 4.41, 3.31), ("tau", 3.61, 3.21)):
        assert abs(float(schools[name].mean()) - mean) < 4.0 * float(arviz.mcse(schools)[name]) + 0.05
        assert float(schools[name].std()) == pytest.approx(sd, rel=0.1)
    assert max(float(value) for part in (posterior, schools) for value in arviz.rhat(part).values() for value in value.values.ravel()) < 1.01
