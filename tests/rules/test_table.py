"""Every row of the rules table, on scalars and on arrays, against NumPy and differences."""

import numpy as np
import pytest
import scipy.special as special

import tapegrad as tg
from tapegrad.array import record
from tapegrad.array.record import apply
from tapegrad.rules import BY_NAME, ROWS
from tests.rules.checker import check, generator, gradient, leaf, plain, wrap
from tests.rules.examples_of_rows import DIFFERENTIABLE, DOMAINS, ELEMENTWISE, drawn
from tests.rules.structural_cases import CASES, M, S, V, array

VALUES = {
    "power2": np.square,
    "lgamma": special.gammaln,
    "digamma": special.psi,
    "polygamma": special.polygamma,
    "erf": special.erf,
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(0, x),
    "relu": lambda x: np.maximum(x, 0),
    "clip": np.clip,
    "where": np.where,
    "sinc": np.sinc,
    **{row.name: getattr(special, row.name) for row in ROWS if row.calls_scipy and hasattr(special, row.name)},
}


def value_of(row):
    return VALUES.get(row.name) or (row.numpy[0] if row.numpy else row.value)


def runner(row, constants):
    """The row as a function of its differentiable operands; the constants are given."""

    def with_constants(operands, function):
        operands = list(operands)
        return function(*[constants[k] if k in constants else operands.pop(0) for k in range(row.arity)])

    return (
        lambda *xs: with_constants(xs, lambda *all_: apply(row, all_)),
        lambda *xs: with_constants(xs, value_of(row)),
    )


# ---- the table itself ------------------------------------------------------------


def test_rows_are_complete():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len({row.opcode for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.doc and row.node and row.node_name.endswith("Backward0")
        assert BY_NAME[row.name] is row
        assert row.elementwise == bool(row.expr) and row.elementwise != bool(row.vjp)
        assert row.name in str(row) and row.doc in str(row)


def test_every_elementwise_row_has_a_domain():
    apart = set(ELEMENTWISE) ^ set(DOMAINS)
    assert not apart, f"give the domain of each operand in DOMAINS (tests/rules/examples_of_rows.py): {apart}"


# ---- element-wise rows --------------------------------------------------------------


def elementwise_scalars(name):
    row, rng = BY_NAME[name], generator(1)
    for _ in range(4):
        drawn_values = [drawn(rng, d, (), name) for d in DOMAINS[name]]
        constants = {
            k: bool(drawn_values[k]) if name == "where" else float(drawn_values[k]) for k in row.constants
        }
        if name == "where":
            constants = {0: np.asarray(constants[0])}
        operands = [float(v) for k, v in enumerate(drawn_values) if k not in constants]
        function, reference = runner(row, constants)
        check(function, *operands, reference=reference, node=True, rtol=1e-5)


def elementwise_arrays(name, char):
    row, rng = BY_NAME[name], generator(2)
    shapes = [() if name != "polygamma" else (1,), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)] if char == "d" else [(5,)]
    for shape in shapes:
        values = [drawn(rng, d, shape, name) for d in DOMAINS[name]]
        constants = {k: values[k].astype(char) if values[k].dtype.kind == "f" else values[k] for k in row.constants}
        if name == "polygamma":
            constants = {0: 2.0}
        operands = [np.asarray(v, char) for k, v in enumerate(values) if k not in constants]
        function, reference = runner(row, constants)
        check(function, *operands, reference=reference, node=True)


def binary_broadcasting(name):
    row, rng = BY_NAME[name], generator(3)
    first, second = DOMAINS[name]
    function, reference = runner(row, {})
    for a, b in [((3, 1), (1, 4)), ((), (4,)), ((2, 3), ()), ((3,), (2, 3)), ((2, 1, 3), (4, 1))]:
        left, right = drawn(rng, first, a), drawn(rng, second, b)
        left, right = (float(v) if v.ndim == 0 else v for v in (left, right))
        check(function, left, right, reference=reference, node=True)


def binary_constants_on_either_side(name):
    row, rng = BY_NAME[name], generator(4)
    first, second = DOMAINS[name]
    x, y = drawn(rng, first, (2, 3)), drawn(rng, second, (2, 3))
    numpy_function = value_of(row)
    ones = np.ones((2, 3), int)
    # What chooses a number gives integers of integers, which have no derivative.
    # A probability is no integer.
    integers = [] if name in ("if_true", "if_false") else [2, ones * 2, ones.astype(bool)] if second[1] >= 1.0 else []
    for c in (drawn(rng, second, (3,)), 0.75, np.float64(0.75), *integers):
        check(lambda t: apply(row, (t, c)), x, reference=lambda t: numpy_function(t, c))
        check(lambda t: apply(row, (t, c)), float(x[0, 0]), reference=lambda t: numpy_function(t, c))
    for c in (drawn(rng, first, (3,)), 0.75, 2, np.float64(0.75), ones * 2, ones.astype(bool)):
        check(lambda t: apply(row, (c, t)), y, reference=lambda t: numpy_function(c, t))
        check(lambda t: apply(row, (c, t)), float(y[0, 0]), reference=lambda t: numpy_function(c, t))


BASE = generator(5).uniform(0.3, 0.8, (4, 6))
LAYOUTS = {
    "transposed": BASE.T,
    "strided": BASE[::2, ::3],
    "reversed": BASE[::-1, ::-2],
    "fortran": np.asfortranarray(BASE),
    "broadcast": np.broadcast_to(BASE[0], (3, 6)).copy()[:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_operands(layout):
    x = LAYOUTS[layout]
    check(np.exp, x)
    check(lambda t: t * t, x)
    check(lambda t: np.tanh(t) @ t.T, x)
    check(lambda t: (t.reshape((-1,)) ** 3), x, reference=lambda a: a.reshape(-1) ** 3)
    check(lambda t: np.sum(t * t, axis=0), x)
    check(lambda t: np.max(t, axis=1), x)
    check(lambda t: np.cumsum(t, axis=1) * t, x)
    check(lambda t: t[1:, ::-1] * 2.0, x)
    check(lambda t: tg.softmax(t, axis=0) if isinstance(t, tg.Differentiable) else special.softmax(t, axis=0), x)
    check(lambda t: np.concatenate([t, t * t], axis=1), x)
    check(lambda t: np.roll(t, 2, axis=1)[:, [0, 1, 1]], x)
    y = np.ascontiguousarray(x)
    same = [gradient(lambda t: np.sin(t) * t, a) for a in (x, y)]
    np.testing.assert_allclose(*same, rtol=1e-14)


# ---- structural rows ----------------------------------------------------------------


def test_every_structural_row_has_a_case():
    assert sorted(CASES) == sorted(row.name for row in DIFFERENTIABLE if not row.elementwise)


def structural_cases(name):
    with pytest.MonkeyPatch.context() as patch:
        met, write = set(), record._write
        patch.setattr(record, "_write", lambda row, *rest: met.add(row.name) or write(row, *rest))
        for number, (function, operands, *reference) in enumerate(CASES[name]):
            try:
                # A conversion rounds tangents and adjoints at different places.
                rounded = 1e-6 if name == "astype" else None
                check(function, *operands, reference=reference[0] if reference else None, forward_rtol=rounded)
            except Exception as error:
                error.add_note(f"case {number} of {name}") if hasattr(error, "add_note") else None
                raise
    assert name in met, f"no case of {name} records that row"


def structural_case_in_float32(name):
    function, operands, *reference = CASES[name][0]
    if name == "astype":
        assert gradient(lambda x: x.astype("d") * 2.0, np.ones(3, "f")).dtype == np.float32
        return
    check(function, *[np.asarray(o, "f") for o in operands], reference=reference[0] if reference else None)


def nodes_against_backward(name):
    compared = 0
    for function, operands, *_ in CASES[name][:60]:
        leaves = [wrap(o) for o in operands]
        result = function(*leaves)
        if isinstance(result, list) or not result.size or result.is_leaf:
            continue
        nodes = [pair[0] for pair in result.grad_fn.next_functions if pair[0] is not None]
        if len(nodes) != len(leaves) or any(getattr(n, "variable", None) is not t for n, t in zip(nodes, leaves)):
            continue
        seed = generator(10).standard_normal(result.shape)
        found = result.grad_fn(seed)
        found = [g for g in (found if isinstance(found, tuple) else (found,)) if g is not None]
        result.backward(seed)
        for g, t in zip(found, leaves):
            np.testing.assert_allclose(plain(g), plain(t.grad), rtol=1e-12, atol=1e-13)
        compared += 1
    assert compared or name in ("cholesky", "eigh", "logabsdet", "svd", "qr", "complex_eig", "astype", "setitem", "put", "as_strided", "t")


def test_nodes_of_assignments_agree_with_backward():
    for key in (slice(1, 3), (1, slice(None, None, -2)), np.array([0, 2]), np.eye(4, dtype=bool)):
        x, v = leaf(S), leaf(array(S[key].shape))
        y = x * 1.0
        y[key] = v
        seed = generator(11).standard_normal(S.shape)
        to_base, to_value = y.grad_fn(seed)
        y.backward(seed)
        np.testing.assert_array_equal(plain(to_base), plain(x.grad))
        np.testing.assert_array_equal(plain(to_value), plain(v.grad))


def test_splitting():
    for cut in (2, 3, [1, 4], [0, 2, 9]):
        check(lambda x, c=cut: np.array_split(x, c), V)
        check(lambda x, c=cut: np.array_split(x, c, axis=-1), M)
    check(lambda x: np.split(x, 2, axis=1), M)
    check(lambda x: np.split(x, [1], axis=-2), M)
    check(lambda x: tg.split(x, [2, 3])[1] if isinstance(x, tg.Differentiable) else np.split(x, [2, 3])[1], V)


def test_axes_out_of_range_are_refused():
    x = leaf(M)
    for f in (
        lambda: np.sum(x, axis=2), lambda: np.concatenate([x, x], axis=2), lambda: np.stack([x, x], axis=3), lambda: np.swapaxes(x, 0, 2),
        lambda: np.transpose(x, (0, 2)), lambda: np.moveaxis(x, 0, 2), lambda: tg.softmax(x, axis=2), lambda: np.cumsum(x, axis=-3),
        lambda: np.split(x, 2, axis=2), lambda: np.flip(x, 2), lambda: np.expand_dims(x, 4), lambda: np.diagonal(x, 0, 0, 2),
    ):  # fmt: skip
        with pytest.raises(np.exceptions.AxisError):
            f()
    for f in (lambda: np.sum(x, axis=(0, 0)), lambda: np.transpose(x, (0, 0)), lambda: np.sum(x, axis=(0, -2))):
        with pytest.raises(ValueError):
            f()
