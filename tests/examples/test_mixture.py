"""The example of a mixture: scikit-learn's result, the density, the derivatives."""

import numpy as np
import pytest

import tapegrad as tg

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def example(load):
    return load("mixture")


def test_equal_to_scikit_learn(example, picture):
    found = example.main(picture, every=3)
    assert abs(found["apart"][0]) < 1e-8 and found["apart"][1] < 1e-3
    assert found["result"].success


def test_another_result_is_an_error(example, monkeypatch):
    monkeypatch.setattr(example, "TOLERANCE", 1e-30)
    with pytest.raises(AssertionError, match="parameters differ"):
        example.main(every=5)


def test_the_likelihood_is_that_of_scipy(example):
    from scipy.stats import multivariate_normal

    points, labels = example.load()
    start = example.first_guess(points, labels)
    start["below"][:] = 0.3, -0.2, 0.1
    density = sum(
        multivariate_normal(mean, np.linalg.inv(f @ f.T)).pdf(points) / 3 for mean, f in zip(start["means"], example.factors(start))
    )
    assert example.negative_log_likelihood(start, points) == pytest.approx(-np.mean(np.log(density)), rel=1e-12)


def test_derivatives(example):
    points, labels = example.load()
    start = example.first_guess(points, labels)
    tg.check(lambda a, b, c, d: example.negative_log_likelihood({"logits": a, "means": b, "log_diagonal": c, "below": d}, points[::10]),
             *start.values())  # fmt: skip
