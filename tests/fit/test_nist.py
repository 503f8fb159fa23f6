"""NIST's certified fits: values, standard errors, and that what does not converge says so."""

import warnings

import numpy as np

import tapegrad as tg
from tests.fit.nist import MODELS, Problem, digits

#: The residuals are 7e-14 of numbers of 2.5 with twelve digits: of their sum of squares doubles know two digits.
ERRORS = {"Lanczos1": 2.5}


def test_certified_values_and_errors_from_both_starts():
    near, far = [], []
    for name in MODELS:
        problem = Problem(name)
        for start, found in zip(problem.starts, (far, near)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = tg.fit(problem.model, start, problem.x, observed=problem.y)
            right = digits(fit.x, problem.values) >= 6.0 and digits(fit.errors, problem.errors) >= ERRORS.get(name, 4.0)
            found.append((name, right, fit.success, fit.message))
            # A fit that is no minimum shows no errors.
            assert fit.success or np.isnan(fit.errors).all() and "NOT CONVERGED" in str(fit)
    assert all(right and success for _, right, success, _ in near), near
    assert sum(right for _, right, *_ in far) >= 24, far
    assert [name for name, right, success, _ in far if success and not right] == []
