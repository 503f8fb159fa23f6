"""Every operation of dual numbers in nopython code beside the tape's, kinks included."""

import math

import numpy as np
import pytest

import tapegrad as tg

pytest.importorskip("numba")

#: Points of the domains; 0 and ties are among them.
ANYWHERE = (-1.7, -0.5, 0.0, 0.3, 2.0)
DOMAINS = {
    **dict.fromkeys("log log2 log10 reciprocal".split(), (0.2, 1.0, 3.0)), "sqrt": (0.0, 0.2, 4.0),
    "log1p": (-0.5, 0.0, 2.0), **dict.fromkeys("arcsin arccos arctanh".split(), (-0.7, 0.0, 0.4)),
    "arccosh": (1.2, 3.0), "lgamma": (-0.6, 0.4, 3.0), "gamma": (-0.6, 0.4, 3.0), "cbrt": (-1.0, 0.5, 8.0),
}  # fmt: skip
PAIRS = ((0.7, 1.3), (1.3, 1.3), (-2.0, 0.5), (2.5, -1.5))
TWO_DOMAINS = {"power": ((0.7, 1.3), (2.0, -1.5), (0.0, 2.0)), "pow": ((0.7, 1.3), (2.0, -1.5), (0.0, 2.0))}


def by_tape(function, *at):
    """Value and partial derivatives by the tape."""
    xs = [tg.tensor(a, requires_grad=True) for a in at]
    with np.errstate(all="ignore"):
        z = function(*xs)
        z.backward()
    return z.item(), [0.0 if x.grad is None else x.grad.item() for x in xs]


def tables():
    """Functions by name of one and of two arguments: `(nopython function, function for tensors)`."""
    import tapegrad.nopython.scalars as scalars
    from tapegrad.rules.table import BY_NAME

    one, two = {}, {}
    for function, name in {**scalars.FUNCTIONS, **scalars.UFUNCS}.items():
        row = BY_NAME[name]
        served = tensor_function(row)
        if row.arity <= 2:
            module = "math" if function in scalars.FUNCTIONS else "np"
            (one if row.arity == 1 else two)[f"{module}.{function.__name__}"] = (function, served, name)
    return one, two


def tensor_function(row):
    if row.numpy:
        return row.numpy[0]
    import scipy.special

    return {"lgamma": scipy.special.gammaln}.get(row.name) or getattr(scipy.special, row.name)


def together(functions, parameters):
    """One nopython function that returns the tuple of all results."""
    names = {f"f{k}": f for k, f in enumerate(functions)}
    calls = ", ".join(f"{name}({parameters})" for name in names)
    exec(f"def all_of_them({parameters}):\n    return ({calls},)\n", names)
    return names["all_of_them"]


def check(found, expected, name, at):
    value, tangent = found
    z, partials = expected
    assert value == pytest.approx(z, rel=1e-15, abs=1e-300, nan_ok=True), (name, at)
    assert tangent == pytest.approx(partials, rel=4e-15, abs=1e-300, nan_ok=True), (name, at)


@pytest.mark.parametrize("arity", [1, 2])
def test_functions_agree_with_the_tape(arity):
    table = tables()[arity - 1]
    assert len(table) >= (55, 15)[arity - 1], sorted(table)
    function = together([f for f, _, _ in table.values()], "x, y"[: 3 * arity - 2])
    jvp = tg.njit_jvp(function, argnums=tuple(range(arity)))
    anywhere, domains = PAIRS, TWO_DOMAINS
    if arity == 1:
        anywhere = [(a,) for a in ANYWHERE]
        domains = {name: [(a,) for a in points] for name, points in DOMAINS.items()}
    cases = {*anywhere, *(at for points in domains.values() for at in points)}
    checked = set()
    for at in sorted(cases):
        columns = []
        for k in range(arity):
            values, column = jvp(*at, *[float(k == i) for i in range(arity)])
            columns.append(column)
        for i, (key, (_, served, name)) in enumerate(table.items()):
            if at in domains.get(name, anywhere):
                check((values[i], [c[i] for c in columns]), by_tape(served, *at), key, at)
                checked.add(key)
    assert checked == set(table)


@pytest.mark.parametrize("arity", [1, 2])
def test_second_derivatives_of_products_agree_with_the_tape(arity):
    """Of ``x * f(x)``, whose adjoints of `f` are not constants."""
    import tapegrad.nopython.scalars as scalars
    from tapegrad.rules.table import BY_NAME

    scalars.add_rows()
    own = {f"tg.{f.__name__}": (f, f, name) for f, name in scalars.ADDED.items() if BY_NAME[name].arity == arity and f.__module__ != "numpy"}
    # (Derivatives of those of the gamma function need others, which compiled code lacks for dual numbers.)
    table = {key: row for key, row in (tables()[arity - 1] | own).items() if row[2] not in ("gamma", "lgamma")}
    domains = [(TWO_DOMAINS.get(name, PAIRS) if arity == 2 else DOMAINS.get(name, ANYWHERE)) for _, _, name in table.values()]

    def total(functions):
        return lambda x: sum(x[k * arity] * f(*[x[k * arity + i] for i in range(arity)]) for k, f in enumerate(functions))

    names = {f"f{k}": f for k, (f, _, _) in enumerate(table.values())}
    terms = [f"x[{k * arity}] * f{k}({', '.join(f'x[{k * arity + i}]' for i in range(arity))})" for k in range(len(table))]
    exec(f"def compiled(x):\n    return {' + '.join(terms)}\n", names)
    compiled, recorded = tg.njit_hvp(names["compiled"]), tg.hvp(total([served for _, served, _ in table.values()]))
    for j in range(5):
        x = np.ravel([points[j % len(points)] for points in domains])
        for along in np.eye(arity):
            v = np.tile(along, len(table))
            found, expected = compiled(x, v), recorded(x, v)
            wrong = ~np.isclose(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
            assert not wrong.any(), [(list(table)[i // arity], x[i], found[i], expected[i]) for i in np.flatnonzero(wrong)]


def arithmetic(x, y, n):
    return (
        x + y, x - y, x * y, x / y, x // y, x % y, -x, abs(x), x + 1, 2 - x, 3 * x, 1 / y, x / 4, x**2, x**3, x**-2,
        x**0, x**1, (x * x) ** y, 2.5**x, (x * x) ** n, pow(y * y, x), x * 1.0 if x < y else y * 2.0,
    )  # fmt: skip


def comparing(x, y):
    return max(x, y), min(x, y), max(x, 0.5, y), min(2, x), +x, float(x) * y, x + True, x * (y > 0) * (not x == y)


def comparing_tensors(x, y):
    """As `comparing`, with functions that take tensors."""
    return (
        np.maximum(x, y), np.minimum(x, y), np.maximum(np.maximum(x, 0.5), y), np.minimum(2.0, x), x * 1.0, x * y,
        x + 1.0, x * float(y.item() > 0) * float(x.item() != y.item()),
    )  # fmt: skip


@pytest.mark.parametrize(
    "function, for_tensors, more", [(arithmetic, arithmetic, (3,)), (comparing, comparing_tensors, ())]
)
def test_operators_agree_with_the_tape(function, for_tensors, more):
    jvp = tg.njit_jvp(function, argnums=(0, 1))
    for at in PAIRS:
        values, dx = jvp(*at, *more, 1.0, 0.0)
        _, dy = jvp(*at, *more, 0.0, 1.0)
        x, y = (tg.tensor(a, requires_grad=True) for a in at)
        outputs = for_tensors(x, y, *more)
        assert len(outputs) == len(values)
        for i, z in enumerate(outputs):
            grads = tg.autograd.grad(z, [x, y], allow_unused=True, retain_graph=True)
            expected = [0.0 if g is None else g.item() for g in grads]
            check((values[i], [dx[i], dy[i]]), (z.item(), expected), f"output {i}", at)


def of_the_value(x):
    inside = 0 if math.isnan(x) or np.isinf(x) or not math.isfinite(x) else 1
    return (
        float(math.floor(x) + math.ceil(x) + math.trunc(x) + int(x) + round(x)), float(inside), 1.0 if bool(x) else 0.0, np.sign(x), np.floor(x),
        x if x == 2.5 and not x != 2.5 else 0.0,
    )


def test_functions_of_the_value_have_no_derivative():
    values, tangents = tg.njit_jvp(of_the_value)(2.5, 1.0)
    assert values == (2 + 3 + 2 + 2 + 2, 1, 1, 1.0, 2.0, 2.5)
    assert tangents == (0, 0, 0, 0, 0, 1)


def poles(x, y):
    return (
        np.where(x > 0, np.sqrt(x), 0.0), np.where(x > 0, np.log(x), y * 2.0), math.sqrt(x) + y,
        max(np.sqrt(x), y), np.sqrt(x * 0.0 + y), x / y,
    )


def ties(x, y):
    return max((x, y, 0.0)), min([x, y]), max(np.array([x, y])), np.array([x, y]).min(), np.maximum(x, y), max(x, y)


def test_ties_share_evenly():
    _, slopes = tg.njit_jvp(ties)(2.0, 2.0, 1.0)
    assert slopes == (0.5,) * 6


def at_the_origin(x):
    a = np.full(2, x)
    return np.linalg.norm(a), np.std(a), math.hypot(x, x), abs(x)


def test_norms_where_they_are_zero():
    _, slopes = tg.njit_jvp(at_the_origin)(0.0, 1.0)
    assert slopes == (0.0,) * 4


def test_deviations_where_they_are_zero_in_reverse_mode():
    gradient = tg.njit_grad(lambda x: np.std(x) + np.linalg.norm(x - 1.0) + np.prod(x - 1.0), mode="reverse")
    assert np.array_equal(gradient(np.ones(3)), np.zeros(3))


def clipped(x, y):
    return np.clip(np.sqrt(x), 0.5, 2.0), np.clip(y, 1.0, 2.0), np.clip(x, y, 2.0)


def without_nan(x):
    y = np.zeros(4)
    for i in range(4):
        y[i] = x[i] * x[i] * x[i]
    chosen = np.where(np.isnan(x), 0.0, x * x)
    return np.nansum(y) + np.nansum(x * x * x) + np.nanmean(x * x) + np.sum(chosen) + np.sum((x * x)[~np.isnan(x)]) + np.sum((x * x)[2:])


def test_what_is_left_out_as_nan_has_no_derivative():
    x = np.array([0.7, np.nan, -0.4, 2.1])
    expected = 6.0 * x**2 + x * (2.0 / 3.0 + 4.0 + 2.0 * (np.arange(4) >= 2))
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(tg.njit_grad(without_nan, mode=mode)(x), np.where(np.isnan(x), 0.0, expected), rtol=1e-14)
    second = 12.0 * x + 2.0 / 3.0 + 4.0 + 2.0 * (np.arange(4) >= 2)
    np.testing.assert_allclose(tg.njit_hessian(without_nan)(x), np.diag(np.where(np.isnan(x), 0.0, second)), rtol=1e-14)


def test_zero_is_absolute_at_poles():
    import numba

    with np.errstate(all="ignore"):
        _, by_y = tg.njit_jvp(numba.njit(error_model="numpy")(poles), argnums=1)(0.0, 1.0, 1.0)
        assert by_y == (0.0, 2.0, 1.0, 1.0, 0.5, -0.0)
        _, by_x = tg.njit_jvp(poles)(0.0, 1.0, 1.0)
        assert by_x == (0.0, 0.0, math.inf, 0.0, 0.0, 1.0)
        _, slopes = tg.njit_jvp(clipped, argnums=(0, 1))(0.0, 1.0, 1.0, 0.0)
        assert slopes == (0.0, 0.0, 0.0)
        _, slopes = tg.njit_jvp(clipped, argnums=(0, 1))(0.0, 1.0, 0.0, 1.0)
        assert slopes == (0.0, 1.0, 1.0)


def gudermann(x):
    """NumPy's function, if it had one."""
    return 2.0 * np.arctan(np.tanh(x / 2.0))


def tilted(x, y):
    return x * x * y


@pytest.fixture
def toys():
    """Two rows as CONTRIBUTING.md adds one, with ``numpy=``, while a test runs."""
    from tapegrad.rules import lang as L
    from tapegrad.rules import table

    made = [
        table.elementwise(
            "gudermann", gudermann, lambda x: 2.0 * L.arctan(L.tanh(x / 2.0)), (lambda x, z: 1.0 / L.cosh(x),), node="Gudermann",
            doc="integral of 1 / cosh", numpy=(gudermann,),
        ),
        table.elementwise(
            "tilted", tilted, lambda x, y: x * x * y, (lambda x, y, z: 2.0 * x * y, lambda x, y, z: x * x), node="Tilted", doc="x ** 2 y", numpy=(tilted,),
        ),
    ]  # fmt: skip
    yield
    for row in made:
        table.ROWS.remove(row)
        del table.BY_NAME[row.name], table.BY_FUNCTION[row.numpy[0]]


def of_toys(x):
    s = 0.0
    for v in x:
        s += gudermann(v) * tilted(v, 2)
    y, k = np.zeros(3), gudermann(np.ones(3))
    y[:] = gudermann(x)
    k[1] = x[0]  # (an array of constants until here)
    m = tilted(y, x.reshape(3, 1) * 2.0)
    return s + np.sum(m * m) + np.sum(k * k) + np.sum(tg.sigmoid(x) * tg.exp(x)) + tg.softplus(x[1]) + np.sum(np.heaviside(x, 0.5) * x)


def of_toys_in_python(x):
    y, k = gudermann(x), np.array([gudermann(1.0), x[0], gudermann(1.0)])
    m = tilted(y, x.reshape(3, 1) * 2.0)
    s = np.sum(y * tilted(x, 2.0)) + np.sum(m * m) + np.sum(k * k) + np.sum(np.exp(x) / (1.0 + np.exp(-x)))
    return s + np.log1p(np.exp(x[1])) + np.sum(np.heaviside(x, 0.5) * x)


def test_a_new_row_is_known_inside_compiled_functions(toys):
    at, units = np.array([0.3, -1.2, 0.8]), 1e-6 * np.eye(3)
    slopes = [(of_toys_in_python(at + e) - of_toys_in_python(at - e)) / 2e-6 for e in units]
    for mode in ("forward", "reverse"):
        derivative = tg.njit_value_and_grad(of_toys, mode=mode)
        value, gradient = derivative(at)
        assert math.isclose(value, of_toys_in_python(at), rel_tol=1e-13)
        assert np.allclose(gradient, slopes, rtol=1e-7, atol=1e-8)
        assert next(iter(derivative.modes().values()))["mode"] == mode


@pytest.mark.long
def test_a_new_row_has_second_derivatives_inside_compiled_functions(toys):
    at, units, gradient = np.array([0.3, -1.2, 0.8]), 1e-6 * np.eye(3), tg.njit_grad(of_toys, mode="reverse")
    assert np.allclose(tg.njit_hessian(of_toys)(at), [(gradient(at + e) - gradient(at - e)) / 2e-6 for e in units], rtol=1e-6, atol=1e-6)
