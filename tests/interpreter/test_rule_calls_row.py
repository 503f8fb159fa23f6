"""A rule may call a row that the rules' language has no word for: NumPy computes it, in every executor."""

import subprocess
import sys

PROGRAM = '''
import numpy as np
import scipy.linalg
import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.rules.shapes import floating, square
from tapegrad.rules.table import structural

def vjp(g, x, z):
    # Of the exponential of a matrix: the upper right block of the exponential of [[x, g], [0, x]], all transposed (Mathias, 1996).
    n, x = x.shape[-1], x.swapaxes(-1, -2)
    block = g.assemble((2 * n, 2 * n), [(x, (n, n), (2 * n, 1), 0), (x, (n, n), (2 * n, 1), n * (2 * n + 1)), (g, (n, n), (2 * n, 1), n)])
    return (block.row("expm_row").strided((n, n), (2 * n, 1), n),)

def jvp(t, x, z):
    n = x.shape[-1]
    block = t.assemble((2 * n, 2 * n), [(x, (n, n), (2 * n, 1), 0), (x, (n, n), (2 * n, 1), n * (2 * n + 1)), (t, (n, n), (2 * n, 1), n)])
    return block.row("expm_row").strided((n, n), (2 * n, 1), n)

row = structural("expm_row", 1, scipy.linalg.expm, vjp, jvp=jvp, node="Expm", doc="the exponential of a matrix", shape=lambda x: (square(x), floating(x)), effect="dense")
f = lambda a: np.sum(np.sin(apply(row, (a,))) * np.arange(4.0).reshape(2, 2))

def plain(a):
    return np.sum(np.sin(scipy.linalg.expm(a)) * np.arange(4.0).reshape(2, 2))

def differences(g, a, h=1e-6):
    return np.array([(g(a + h * e) - g(a - h * e)) / (2 * h) for e in np.eye(4).reshape(4, 2, 2)]).reshape(*np.shape(a), *np.shape(g(a)))

a, b = np.array([[0.1, 0.4], [-0.3, 0.2]]), np.array([[0.5, -0.2], [0.3, 0.1]])
for kernel in ("never", "always"):
    gradient = tg.jit(tg.grad(f), kernel=kernel)
    for x in (a, b):
        for got in (tg.grad(f)(x), gradient(x), tg.jacfwd(f)(x)):
            np.testing.assert_allclose(got, differences(plain, x), rtol=1e-7, atol=1e-8)
        hessian = differences(tg.grad(f), x).transpose(2, 3, 0, 1)
        for T in (tg.hessian, lambda f: tg.jacfwd(tg.jacfwd(f)), lambda f: tg.jacrev(tg.grad(f)), lambda f: tg.jit(tg.hessian(f), kernel=kernel)):
            np.testing.assert_allclose(T(f)(x), hessian, rtol=1e-7, atol=1e-8)
np.testing.assert_allclose(tg.vmap(tg.grad(f))(np.stack([a, b])), [tg.grad(f)(a), tg.grad(f)(b)], rtol=1e-13)
print("done")
'''


def test_a_rule_calls_a_row_without_a_word():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr
