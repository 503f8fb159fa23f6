"""`tapegrad.scipy.optimize` against SciPy."""

import numpy as np
import scipy.optimize

import tapegrad as tg
from tapegrad.scipy import optimize
from tests.scipy.mirrored import check_mirror


def test_rosen():
    for x in (np.array([0.5, -1.0, 2.0]), np.random.default_rng(0).normal(size=(4, 3))):
        check_mirror("scipy.optimize", "rosen", lambda module, x: module.rosen(x), (x,))
    x = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(tg.grad(optimize.rosen)(x), scipy.optimize.rosen_der(x))
    np.testing.assert_allclose(tg.hessian(optimize.rosen)(x), scipy.optimize.rosen_hess(x))
    assert optimize.linprog is scipy.optimize.linprog
