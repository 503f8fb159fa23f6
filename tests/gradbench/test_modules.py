"""The modules against their gradients by hand, finite differences and closed forms."""

import json
import math

import numpy as np
import pytest

import tapegrad as tg
from benchmarks.gradbench import by_hand
from benchmarks.gradbench.modules import ba, gmm, hello, llsq, lse, ode
from benchmarks.gradbench.protocol import evaluate
from benchmarks.gradbench_by_hand import bundle, mixture


def as_json(given):
    return json.loads(json.dumps(given, default=np.ndarray.tolist))


def test_hello():
    assert evaluate("hello", "square", 3)["output"] == 9.0
    assert evaluate("hello", "double", 3)["output"] == 6.0
    assert list(hello.FUNCTIONS) == ["square", "double"]


@pytest.mark.parametrize("seed", range(3))
def test_llsq(seed):
    x = np.random.default_rng(seed).normal(size=6)
    tg.check(lambda v: llsq.objective(v, 11), x)
    np.testing.assert_allclose(llsq.gradient(x, 11), by_hand.llsq(x, 11), rtol=1e-12)
    by_sums = 0.5 * sum(
        (np.sign(t) - sum(c * t**j for j, c in enumerate(x))) ** 2 for t in (-1 + 2 * i / 10 for i in range(11))
    )
    assert evaluate("llsq", "primal", {"x": x.tolist(), "n": 11})["output"] == pytest.approx(by_sums, rel=1e-12)


def test_lse_is_stable():
    x = np.array([1000.0, 1001.0, -1000.0])
    assert evaluate("lse", "primal", {"x": x.tolist()})["output"] == pytest.approx(1001 + math.log1p(math.exp(-1)))
    np.testing.assert_allclose(lse.gradient(x), by_hand.lse(x), rtol=1e-12)
    tg.check(lse.objective, np.array([0.3, -1.0, 2.0]))


@pytest.mark.parametrize(("n", "steps"), [(5, 1), (5, 4), (1, 3), (2, 1)])
def test_ode(n, steps):
    x = np.random.default_rng(2).uniform(0.5, 1.5, size=n)
    tg.check(lambda v: ode.last(v, steps), x)
    np.testing.assert_allclose(ode.gradient(x, steps), by_hand.ode(x, steps), rtol=1e-12, atol=1e-15)
    assert len(evaluate("ode", "primal", {"x": x.tolist(), "s": steps})["output"]) == n


def test_ode_converges_to_the_solution():
    # y_0' = x_0 and y_1' = x_1 y_0: polynomials in t, which the method integrates exactly.
    x = np.array([0.7, 1.3])
    np.testing.assert_allclose(ode.solution(x, 1), [1.4, 1.3 * 0.7 * 2.0], rtol=1e-14)


@pytest.mark.parametrize(("d", "k", "n"), [(2, 3, 7), (4, 1, 5), (1, 2, 6)])
def test_gmm(d, k, n):
    given = mixture(d, k, n) | {"m": 2, "gamma": 1.4}
    arguments = gmm.read(given)
    found = gmm.gradient(*arguments)
    for one, other in zip(found, by_hand.gmm(*arguments)):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    tg.check(lambda a, mu, q, low: gmm.objective(a, mu, q, low, *arguments[4:]), *arguments[:4])
    output = evaluate("gmm", "jacobian", as_json(given))["output"]
    assert [np.shape(output[name]) for name in ("alpha", "mu", "q", "l")] == [(k,), (k, d), (k, d), (k, d * (d - 1) // 2)]


def test_gmm_by_the_formula():
    """The log-posterior summed up entry by entry."""
    d, k, n = 2, 3, 4
    given = mixture(d, k, n) | {"m": 1, "gamma": 0.8}
    alpha, mu, q, low, x, m, gamma = gmm.read(given)
    Q = [np.array([[math.exp(q[j, 0]), 0.0], [low[j, 0], math.exp(q[j, 1])]]) for j in range(k)]
    total = -n * (d / 2 * math.log(2 * math.pi) + math.log(sum(math.exp(a) for a in alpha)))
    for row in x:
        total += math.log(sum(
            math.exp(alpha[j] - 0.5 * np.sum((Q[j] @ (row - mu[j])) ** 2) + q[j].sum()) for j in range(k)
        ))  # fmt: skip
    nu = d + m + 1
    multigamma = 0.5 * math.log(math.pi) + math.lgamma(nu / 2) + math.lgamma(nu / 2 - 0.5)
    total += k * (nu * d * math.log(gamma / math.sqrt(2)) - multigamma)
    total += sum(-(gamma**2) / 2 * np.sum(Q[j] ** 2) + m * q[j].sum() for j in range(k))
    assert gmm.objective(alpha, mu, q, low, x, m, gamma) == pytest.approx(total, rel=1e-12)


def test_gmm_columns_of_the_triangle():
    (found,) = gmm.triangles(np.zeros((1, 3)), np.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(np.asarray(found), [[1, 0, 0], [1, 1, 0], [2, 3, 1]])


def test_ba_by_hand_and_dense():
    rng = np.random.default_rng(5)
    cameras = rng.normal(size=(11, 3)) * 0.2 + np.array([0, 0, 0, 0, 0, -5, 500, 2, 3, 0, 0])[:, None]
    points, weights, features = rng.normal(size=(3, 4)), rng.uniform(0.5, 1.5, 5), rng.normal(size=(2, 5))
    data = cameras, points, weights, features, np.arange(5) % 3, np.arange(5) % 4
    found, expected = ba.jacobian(*data), by_hand.ba(*data)
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)

    def every(c, x, w):
        parts = ba.reprojection(c[:, data[4]], x[:, data[5]], w, features)
        return np.concatenate((np.stack(parts, axis=1).reshape(-1), ba.weight_error(w)))

    pointers, columns, values = found
    dense = np.zeros((15, 33 + 12 + 5))
    for row in range(15):
        for at in range(pointers[row], pointers[row + 1]):
            dense[row, columns[at]] = values[at]
    by_c, by_x, by_w = tg.jacobian(every, (0, 1, 2))(cameras, points, weights)
    blocks = by_c.transpose(0, 2, 1).reshape(15, -1), by_x.transpose(0, 2, 1).reshape(15, -1), by_w
    np.testing.assert_allclose(dense, np.concatenate(blocks, axis=1), rtol=1e-9, atol=1e-9)


def test_ba_without_rotation():
    """At rotation 0 the formula is another one; the derivative is that of x + r x x."""
    r, x = np.zeros(3), np.array([0.3, -0.2, 2.0])
    jacobian = tg.jacobian(lambda r: np.stack(ba.rotate(r, x)))(r)
    np.testing.assert_allclose(jacobian, [[0, x[2], -x[1]], [-x[2], 0, x[0]], [x[1], -x[0], 0]], atol=1e-12)


def test_ba_output():
    given = bundle(3, 5, 40)
    output = evaluate("ba", "objective", given)["output"]
    assert output["reproj_error"]["repeated"] == output["w_err"]["repeated"] == 40
    assert output["w_err"]["element"] == pytest.approx(1 - given["w"] ** 2)
    assert len(output["reproj_error"]["elements"]) == 2
    output = evaluate("ba", "jacobian", given)["output"]
    assert [len(output[name]) for name in ("rows", "cols", "vals")] == [31, 31, 31]
    assert output["rows"][:3] == [0, 15, 30] and output["rows"][-1] == 31 * 40
    assert output["vals"][-1] == pytest.approx(-2 * given["w"])
