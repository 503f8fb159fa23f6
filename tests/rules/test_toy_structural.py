"""A structural row of a program's own is written in one place, and every mode knows it.

It is ``x * x[::-1]`` along an axis: it is not linear, reads its operand in two places and has an attribute.
"""

import subprocess
import sys

PROGRAM = '''
import os
import tempfile

import numpy as np

import tapegrad as tg
from tapegrad.array.record import apply
from tapegrad.rules import lang as L
from tapegrad.rules import shapes
from tapegrad.rules.table import structural


def _reversed(x, axis):
    return np.flip(np.asarray(x), axis)


structural(
    "folded", 1, lambda x, axis=0: np.asarray(x) * _reversed(x, axis),
    lambda g, x, z, axis=0: (L.times(g, x.flip([axis])) + L.times(g.flip([axis]), x.flip([axis])),),
    jvp=lambda t, x, z, axis=0: L.times(t, x.flip([axis])) + L.times(t.flip([axis]), x),
    forward=lambda x, axis=0: x * x.flip([axis]),
    shape=lambda x, axis=0: (shapes.along(x, axis), shapes.floating(x)), effect="dense",
    node="Folded", doc="x times x reversed along an axis",
)


def folded(x, axis=0):
    return apply("folded", (x,), (("axis", axis),))


def plain(x):
    return x * x[::-1]


def f(x):
    return tg.sum(folded(x) * np.arange(1.0, 7.0) * np.sin(x)) + tg.sum(folded(tg.reshape(x, (2, 3)), 1)[0])


def g(x):
    lines = np.reshape(x, (2, 3))
    return tg.sum(plain(x) * np.arange(1.0, 7.0) * np.sin(x)) + tg.sum((lines * lines[:, ::-1])[0])


def same(one, other):
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-12)


X, Y, V = np.linspace(0.2, 0.9, 6), np.linspace(-0.7, 0.5, 6)[::-1].copy(), np.cos(np.arange(6.0))

# define-by-run, its graph and its listing
x, y = tg.tensor(X, requires_grad=True), tg.tensor(X, requires_grad=True)
with tg.Tape() as tape:
    r = folded(x)
assert r.grad_fn.name() == "FoldedBackward0" and "folded" in str(tape)
f(x).backward()
g(y).backward()
same(x.grad, y.grad)

# recorded derivatives, second order, several at once
x, y = tg.tensor(X, requires_grad=True), tg.tensor(X, requires_grad=True)
(of_f,), (of_g,) = tg.autograd.grad(f(x), [x], create_graph=True), tg.autograd.grad(g(y), [y], create_graph=True)
same(tg.autograd.grad(tg.sum(of_f**2), [x])[0], tg.autograd.grad(tg.sum(of_g**2), [y])[0])
same(tg.hessian(f)(X), tg.hessian(g)(X))
same(tg.hvp(f)(X, V), tg.hvp(g)(X, V))

# dual numbers, with and without lanes, inside and outside
same(tg.jvp(f, (X,), (V,))[1], tg.jvp(g, (X,), (V,))[1])
same(tg.jacfwd(folded)(X), tg.jacfwd(plain)(X))
same(tg.jacfwd(tg.grad(f))(X), tg.jacfwd(tg.grad(g))(X))
same(folded(tg.Dual(X, np.eye(6), lanes=6)).tangent, plain(tg.Dual(X, np.eye(6), lanes=6)).tangent)

# replays and kernels: gradient, second derivative, jacobians
for kernel in ("never", "always"):
    gradient = tg.jit(tg.grad(f), kernel=kernel)
    for point in (X, Y, X):
        same(gradient(point), tg.grad(g)(point))
    second = tg.jit(tg.hessian(f), kernel=kernel)
    same(second(X), tg.hessian(g)(X))
    same(second(Y), tg.hessian(g)(Y))
    matrix = tg.jit(tg.jacobian(folded), kernel=kernel)
    for point in (X, Y, X):
        same(matrix(point), tg.jacobian(plain)(point))
assert "x0" in tg.grad(f).kernel(X).source()
same(tg.jacrev(folded)(X), tg.jacfwd(plain)(X))

# patterns: a row that says no more is dense
assert tg.sparsity(folded)(X).toarray().all() and tg.sparsity(folded)(X).shape == (6, 6)
same(tg.sparse_jacobian(folded)(X).toarray(), tg.jacobian(plain)(X))

# files
tape = tg.value_and_grad(f).tape(X)
path = os.path.join(tempfile.mkdtemp(), "tape.npz")
tape.save(path)
loaded = tg.load_tape(path)
same(loaded(Y), g(Y))
same(loaded.value_and_grad(Y)[1], tg.grad(g)(Y))
assert "folded" in str(tape)

# checks
assert tg.check(folded, X, reference=plain, order=2).passed
print("every mode")
'''


def test_a_structural_row_in_one_place():
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True)
    assert run.stdout == "every mode\n", run.stdout + run.stderr
