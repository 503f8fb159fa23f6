"""Paths that replays meet and the recording did not, in derivatives of any order: beside the same loops in Python."""

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GradientError
from tapegrad.transforms.loops.loop import RecordedLoop
from tests.transforms.loops import plainly

DATA, ROWS, V = np.array([0.7, -0.4, 0.9]), np.array([[0.3, -0.2], [0.8, 0.5]]), np.array([0.3, -1.0, 0.5])
#: On one path at the first point, on the other one at the second, on both at the others.
POINTS = np.array([[3.0, 1.4, 1.2], [0.2, 0.1, 0.3], [0.9, -0.7, 0.4], [-2.0, 0.3, 0.8], [3.0, 1.4, 1.2]])


def piece(z, q):
    return z * z * q if abs(z) < 1.0 else 2.0 * np.log(abs(z)) * q + np.sin(z)


def vmap(ops, f, rows):
    return tg.vmap(f)(rows) if ops is tg else np.stack([f(row) for row in rows])


def with_results(ops, x):
    c, ys = ops.scan(lambda c, v: (c * 0.9 + v * x[1], piece(c * x[0], x[2] + v)), x[0], DATA)
    return c * np.sum(ys * ys)


def nested(ops, x):
    def inner(c, v):
        return ops.scan(lambda e, w: (piece(e * w + v, x[2]), None), c, DATA[:2])[0]

    return ops.scan(lambda c, v: (inner(c, v) * x[1], None), x[0], DATA)[0]


FORMS = {
    "scan": lambda ops, x: ops.scan(lambda c, v: (piece(c * v + x[1], x[2] + c), None), x[0], DATA)[0],
    "with_results": with_results,
    "map": lambda ops, x: np.sum(ops.map(lambda v: piece(v * x[0], x[1]) * x[2], DATA)),
    "fori": lambda ops, x: ops.fori_loop(0, 3, lambda i, c: piece(c + 0.1 * i, x[1]) + x[2] * c, x[0]),
    "while": lambda ops, x: (
        x[0] * ops.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 1.0, piece(s[1], x[1]) + x[2] * s[1]), (0.0, x[0]))[1]
    ),
    "vmap": lambda ops, x: np.sum(vmap(ops, lambda r: piece(np.sum(r * x[0]) + x[1], x[2]) * np.sum(r * r), ROWS)),
    "cond": lambda ops, x: x[1] * ops.cond(x[0] > 0.3, lambda z: piece(z, x[1]), lambda z: piece(z * 0.5, x[2]), x[0]),
    "nested": nested,
    "in_a_choice": lambda ops, x: ops.cond(
        x[1] > -5.0, lambda z: FORMS["with_results"](ops, np.stack([z, x[1], x[2]])), lambda z: z * x[1], x[0]
    ),
}
DERIVATIVES = {
    "hessian": tg.hessian,
    "jacrev of grad": lambda f: tg.jacrev(tg.grad(f)),
    "jacfwd of grad": lambda f: tg.jacfwd(tg.grad(f)),
    "jacrev of jacrev": lambda f: tg.jacrev(tg.jacrev(lambda x: np.stack([f(x), f(x) ** 2]))),
    "third": lambda f: tg.jacrev(tg.jacrev(tg.grad(f))),
    "third forward": lambda f: tg.jacfwd(tg.hessian(f)),
    "diagonal": tg.hessian_diag,
    "laplacian": tg.laplacian,
    "hvp": lambda f: lambda x: tg.hvp(f)(x, V),
    "penalty": lambda f: tg.grad(lambda x: np.sum(tg.grad(f)(x) ** 2)),
    "vjp of grad": lambda f: lambda x: tg.vjp(tg.grad(f), x)[1](V),
    "vmap of hessian": lambda f: lambda x: tg.vmap(tg.hessian(f))(np.stack([x, 0.5 * x])),
}
QUICK = {("scan", "hessian"), ("map", "penalty"), ("vmap", "laplacian"), ("while", "jacrev of grad")}


def compare(form, name, kernel):
    derivative = DERIVATIVES[name]
    replayed = tg.jit(derivative(lambda x: FORMS[form](tg, x)), kernel=kernel)
    for point in POINTS:
        want = derivative(lambda x: FORMS[form](plainly, x))(point)
        np.testing.assert_allclose(
            replayed(point), want, rtol=1e-9, atol=1e-9 * np.abs(want).max(), err_msg=str((form, name, point))
        )


def test_a_path_met_in_a_replay():
    for form, name in sorted(QUICK):
        compare(form, name, "never" if form in ("scan", "vmap") else "auto")


@pytest.mark.long
@pytest.mark.parametrize("kernel", ["auto", "never", "always"])
@pytest.mark.parametrize("form", FORMS)
def test_paths_met_in_replays_of_every_derivative(form, kernel):
    for name in DERIVATIVES:
        compare(form, name, kernel)


@pytest.mark.parametrize("chunk", [3, 17])
def test_sums_over_data(chunk):
    rows = np.random.default_rng(2).normal(size=(17, 2)) * 2

    def total(ops):
        return lambda t, rows: np.sum(vmap(ops, lambda r: piece(r[0] * t[0] + r[1] * t[1], t[1]), rows))

    summed = tg.sum_over(total(tg), rows, chunk=chunk)
    for point in np.array([[500.0, 300.0], [0.1, 0.2], [1.5, -0.3]]):
        np.testing.assert_allclose(tg.hessian(summed)(point), tg.hessian(lambda t: total(plainly)(t, rows))(point), rtol=1e-9)


def test_every_status_but_a_good_one_is_raised(monkeypatch):
    """Where compiled code of a derivative finds no path, or fails otherwise, nothing is computed from what it has left."""

    def loss(x):
        return tg.scan(lambda c, v: (piece(c * v + x[1], x[2] + c), None), x[0], DATA)[0]

    hessian = tg.jit(tg.hessian(loss), kernel="never")
    hessian(POINTS[0])
    prepared = RecordedLoop.prepared
    # As if a table were stale: the loops of tangents are not told of the new path.
    monkeypatch.setattr(RecordedLoop, "prepared", lambda self, *how, **more: prepared(self, *how, **more) if self.of is None else None)
    with pytest.raises(GradientError, match="takes a path there that was not recorded"):
        hessian(POINTS[1])


class Holder:
    """What a body may read besides variables."""

    def step(self, z, q):
        return piece(z, q) * self.k


def _by_variable(loop, x):
    total = 0.0
    for k in (1.0, 2.0, 3.0):
        total = total + loop(x, lambda z, q: piece(z, q) * k)
    return total


def _by_list_and_array(loop, x):
    total, number, short = 0.0, [0.0], np.zeros(1)
    for k in (1.0, 2.0, 3.0):
        number[0] = short[0] = k
        total = total + loop(x, lambda z, q: piece(z, q) * number[0]) + loop(x, lambda z, q: piece(z, q) * short[0])
    return total


def _by_attribute(loop, x):
    total, holder = 0.0, Holder()
    for holder.k in (1.0, 2.0, 3.0):
        total = total + loop(x, holder.step)
    return total


@pytest.mark.parametrize("form", ["scan", "fori", "while", "map", "vmap"])
@pytest.mark.parametrize("function", [_by_variable, _by_list_and_array, _by_attribute])
def test_a_body_reads_what_it_read_at_its_call(function, form):
    """A body that is recorded in a replay sees the variables of its call, not what a loop of Python has left in them."""
    loops = {
        "scan": lambda ops, x, f: ops.scan(lambda c, v: (f(c, v), None), x, DATA)[0],
        "fori": lambda ops, x, f: ops.fori_loop(0, 3, lambda i, c: f(c, 0.5), x),
        "while": lambda ops, x, f: ops.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] + 1.0, f(s[1], 0.5)), (0.0, x))[1],
        "map": lambda ops, x, f: np.sum(ops.map(lambda v: f(v * x, v), DATA)),
        "vmap": lambda ops, x, f: np.sum(vmap(ops, lambda r: f(r[0] * x, r[1]), ROWS)),
    }
    values = {ops: tg.value_and_grad(lambda x, ops=ops: function(lambda x, f: loops[form](ops, x, f), x)) for ops in (tg, plainly)}
    replayed = tg.jit(values[tg], kernel="never")
    for x in (3.0, 0.2, -0.7, 1.4):
        np.testing.assert_allclose(replayed(x), values[plainly](x), rtol=1e-12)


def test_a_body_that_decides_by_what_stands_outside_is_recorded_once_for_a_path(monkeypatch):
    """It sees the values of the replay, not those of the recording, at which it would take the same path again and again."""
    met = []
    monkeypatch.setattr(RecordedLoop, "prepared", lambda self, *how, _own=RecordedLoop.prepared, **more: met.append(len(self.paths)) or _own(self, *how, **more))
    for form in (lambda ops, x: np.sum(vmap(ops, lambda r: piece(r[0] * x, r[1]), ROWS)), lambda ops, x: np.sum(ops.map(lambda v: piece(v * x * x, v), DATA))):
        replayed = tg.jit(tg.value_and_grad(lambda x, form=form: form(tg, x)), kernel="never")
        for x in (3.0, 0.2, -0.7, 1.4, 30.0):
            np.testing.assert_allclose(replayed(x), tg.value_and_grad(lambda x, form=form: form(plainly, x))(x), rtol=1e-12)
    assert max(met) == 2


MIXED = {
    "a number of Python": lambda x: tg.map(lambda v: v * v if v > 1.0 else 0, x), "a truth value": lambda x: tg.scan(lambda c, v: (c + v, v * v if v > 1.0 else c > 0.6), 0.5, x)[1],
    "lanes": lambda x: tg.vmap(lambda v: (v * v, 1) if v > 1.0 else (0, v))(x)[0], "a choice": lambda x: tg.cond(x[0] > 1.0, lambda x: x[0] ** 2, lambda x: 0, x) * np.ones(3),
    "single and double": lambda x: tg.map(lambda v: v.astype(np.float32) if v > 1.0 else v, x) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_results_of_paths_have_the_dtype_of_what_is_stacked(name):
    f = MIXED[name]
    values, slopes = tg.jit(f), tg.jit(tg.jacobian(lambda x: f(x) * 1.0))
    for x in (np.array([0.25, 0.5, 0.75]), np.array([0.5, 2.0, 3.0]), np.array([2.0, 0.25, 0.5]), np.array([4.0, 2.0, 1.5])):
        np.testing.assert_allclose(values(x), f(x))
        # (Differences of squares are exact.)
        numbers = [(np.asarray(f(x + 0.05 * e), float) - np.asarray(f(x - 0.05 * e), float)) / 0.1 for e in np.eye(3)]
        for jacobian in (slopes(x), tg.jacobian(lambda x: f(x) * 1.0)(x), tg.jacfwd(lambda x: f(x) * 1.0)(x)):
            np.testing.assert_allclose(jacobian, np.transpose(numbers), rtol=1e-5, atol=1e-6)
