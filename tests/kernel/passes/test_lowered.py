"""Programs of real functions and their gradients: interpreted and compiled after all passes, against replays."""

import numpy as np
import pytest

from tapegrad.kernel import ir
from tapegrad.kernel.adjoint import adjoint
from tapegrad.kernel.kernel import lower
from tapegrad.kernel.passes import run_passes
from tests.kernel.lowered import agrees, loops, tape_of


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total = total + 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


def rosenbrock_vectorised(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def predator_prey(p):
    x, y, a, b, c, d = p

    def slope(x, y):
        return a * x - b * x * y, d * x * y - c * y

    h = 0.01
    for _ in range(60):
        k1 = slope(x, y)
        k2 = slope(x + h / 2 * k1[0], y + h / 2 * k1[1])
        k3 = slope(x + h / 2 * k2[0], y + h / 2 * k2[1])
        k4 = slope(x + h * k3[0], y + h * k3[1])
        x = x + h / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        y = y + h / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return x * y


def logistic(w):
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(30, 8)), (random.random(30) < 0.5) * 1.0
    z = features @ w
    return np.log1p(np.exp(-np.abs(z))).sum() + np.maximum(z, 0).sum() - (labels * z).sum()


def triangle(x):
    total = 0.0
    for i in range(1, len(x)):
        for j in range(i):
            total = total + np.sin(x[i] - x[j]) / (1.0 + x[i] * x[j])
    return total


def layers(x):
    w = np.linspace(-1, 1, 36).reshape(6, 6)
    for _ in range(5):
        x = np.tanh(w @ x + 0.1)
    return (x * x).sum()


def products(x):
    state = [x[0], x[1], x[2]]
    for k in range(40):
        state = [state[1] * x[k % 6] + 0.3, state[2] * state[0] - x[(k + 1) % 6], np.exp(-state[0] * state[0])]
    return state[0] + state[1] * state[2]


def window(x):
    y = np.zeros(20) + x[:20]
    z = y[3:] * x[3:20] + y[:-3]
    return (z * z).sum() + (x[::2] * x[1::2]).mean()


CASES = {
    rosenbrock: 30, rosenbrock_vectorised: 30, predator_prey: 6, logistic: 8, triangle: 9, layers: 6, products: 6, window: 20,
}  # fmt: skip


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("differentiated", [False, True])
def test_same_as_replays(function, differentiated):
    n = CASES[function]
    points = [(np.linspace(0.5, 1.1, n),), (np.linspace(0.7, 0.9, n) ** 2,)]
    tape = tape_of(function, *points[0])
    if differentiated:
        tape = adjoint(tape)
    agrees(run_passes(lower(tape)), tape, *points, rtol=1e-12)


def gradient(function):
    return run_passes(lower(adjoint(tape_of(function, np.linspace(0.5, 1.1, CASES[function])))))


def stored(program):
    """Sizes of the temporaries that loops write."""
    inside = [s for top in program.body if isinstance(top, ir.Loop) for s in ir.walk([top])]
    return sorted(b.size for b in {s.buffer for s in inside if isinstance(s, ir.Store)} if b.role == ir.TEMPORARY)


def test_rosenbrock_needs_two_loops_and_no_memory():
    program = gradient(rosenbrock)
    assert loops(program) == [28, 28] and stored(program) == []


def test_an_integrator_stores_its_state():
    program = gradient(predator_prey)
    assert loops(program) == [60, 59] and stored(program) == [61, 61]


def test_a_chain_of_array_operations_is_one_loop():
    def chain(x):
        return (np.exp(-x * x) * np.sin(x) + 0.5 * np.log(1.0 + x * x)).sum()

    program = run_passes(lower(adjoint(tape_of(chain, np.linspace(0.1, 2.0, 50)))))
    assert loops(program) == [50] and stored(program) == []
