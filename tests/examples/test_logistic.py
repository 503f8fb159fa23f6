"""The example of a logistic regression: scikit-learn's coefficients, and standard errors by hand."""

import numpy as np
import pytest

import tapegrad as tg

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def example(load):
    return load("logistic")


def test_equal_to_scikit_learn(example, picture):
    found = example.main(picture, features=5)
    assert found["apart"] < 1e-4 and found["result"].success


def test_another_result_is_an_error(example, monkeypatch):
    monkeypatch.setattr(example, "by_scikit_learn", lambda points, sides: (np.zeros(points.shape[1]), 0.0))
    with pytest.raises(AssertionError, match="differ from scikit-learn"):
        example.main(features=3)


def test_standard_errors_are_those_of_the_formula(example):
    points, sides, _ = example.load(4)
    p = {"weights": np.array([-1.0, 0.3, -0.5, 0.2]), "bias": 0.4}
    likely = 1.0 / (1.0 + np.exp(-(points @ p["weights"] + p["bias"])))
    design = np.column_stack([points, np.ones(len(points))])
    hessian = design.T @ (design * (likely * (1.0 - likely))[:, None]) + example.PENALTY * np.diag([1.0] * 4 + [0.0])
    expected = np.sqrt(np.diag(np.linalg.inv(hessian)))[:4]
    np.testing.assert_allclose(example.standard_errors(p, points, sides), expected, rtol=1e-10)


def test_derivatives(example):
    points, sides, _ = example.load(4)
    tg.check(lambda w, b: example.loss({"weights": w, "bias": b}, points[:40], sides[:40]), np.full(4, 0.1), 0.2)
