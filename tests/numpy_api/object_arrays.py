"""Arguments of the tests of arrays of objects, and what compares their results."""

import numpy as np

import tapegrad as tg

P = np.array([0.3, -0.7, 1.2])
V = np.array([0.4, -1.1])
B = np.array([[0.5, -0.2, 0.3], [1.5, 0.1, -0.4]])


def leaf(x):
    return tg.tensor(x, requires_grad=True)


def slopes(f, x, step=1e-6):
    return np.array([(f(x + step * e) - f(x - step * e)) / (2.0 * step) for e in np.eye(len(x))])


def numbers(result):
    return [np.asarray(getattr(r, "_v", r)) for r in (result if isinstance(result, (list, tuple)) else [result])]
