"""`tg.Dual` itself: making one, leaving it, control flow, writing, copying."""

import copy
import math
import pickle

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array import record
from tapegrad.common.errors import DtypeError, LeaveTapeError, SeedShapeError, StructureError, UnsupportedFunctionError
from tests.counting import calls_of


def dual(values, tangents=None):
    values = np.array(values, float)
    return tg.Dual(values, np.ones_like(values) if tangents is None else np.array(tangents, float))


# ---- making ------------------------------------------------------------------------------


def test_parts():
    d = tg.Dual(2, 3)
    assert (d.value, d.tangent, d.lanes, d.level, d.shape, d.dtype) == (2.0, 3.0, None, 1, (), np.float64)
    assert type(d.value) is float and type(d.tangent) is float
    x = tg.Dual([1, 2], [0.5, 0.25])
    np.testing.assert_array_equal(x.value, [1.0, 2.0])
    np.testing.assert_array_equal(x.tangent, [0.5, 0.25])
    k = tg.Dual(np.ones(3, "f"), np.ones((4, 3), "f"), lanes=4)
    assert k.lanes == 4 and k.tangent.shape == (4, 3) and k.tangent.dtype == np.float32 and k.dtype == np.float32
    assert tg.Dual(1.5).tangent == 0.0
    assert tg.Dual(np.ones((2, 3)), lanes=4).tangent.shape == (4, 2, 3)


def test_levels():
    inner = tg.Dual(2.0, 1.0)
    outer = tg.Dual(inner, 1.0)
    assert (inner.level, outer.level, tg.Dual(outer).level) == (1, 2, 3)
    assert tg.Dual(1.0, inner).level == 2
    assert tg.Dual(1.0, level=7).level == 7
    for level in (2, 0, -1, 1.5, 1 << 20):
        with pytest.raises(StructureError, match="level"):
            tg.Dual(outer, 1.0, level=level) if level == 2 else tg.Dual(1.0, 1.0, level=level)


def test_the_arrays_given_are_copied():
    value, tangent = np.ones(3), np.ones(3)
    d = tg.Dual(value, tangent)
    value[0] = tangent[1] = 9.0
    np.testing.assert_array_equal(d.value, np.ones(3))
    np.testing.assert_array_equal(d.tangent, np.ones(3))


@pytest.mark.parametrize(
    "value, tangent, lanes, error, words",
    [
        (np.ones(3), np.ones(2), None, SeedShapeError, r"\(2,\).*\(3,\)"),
        (np.ones(3), 1.0, None, SeedShapeError, "must have that shape"),
        (2.0, np.ones(2), None, SeedShapeError, r"\(2,\)"),
        (2.0, np.ones(2), 3, SeedShapeError, "lanes=3"),
        (2.0, np.ones(2), 0, SeedShapeError, "positive int"),
        (np.arange(3), np.ones(3), None, DtypeError, "astype"),
        (np.ones(3), np.arange(3), None, DtypeError, "astype"),
        (np.ones(3, "f"), np.ones(3), None, DtypeError, "float64.*float32"),
        (np.ones(3, "e"), np.ones(3, "e"), None, DtypeError, "float16"),
        (2j, 1.0, None, DtypeError, "complex"),
        (2.0, 1j, None, DtypeError, "complex"),
        (np.array([1.0, "a"], object), None, None, DtypeError, "objects"),
        ("a", None, None, DtypeError, "numeric"),
    ],
)
def test_what_is_refused(value, tangent, lanes, error, words):
    with pytest.raises(error, match=words):
        tg.Dual(value, tangent, lanes=lanes)


def test_different_numbers_of_tangents_do_not_meet():
    with pytest.raises(StructureError, match="lanes"):
        tg.Dual(1.0, [1.0, 2.0], lanes=2) * tg.Dual(1.0, 1.0)
    mixed = tg.Dual(1.0, [1.0, 2.0], lanes=2) * tg.Dual(3.0)
    np.testing.assert_array_equal(mixed.tangent, [3.0, 6.0])


# ---- leaving -----------------------------------------------------------------------------


def test_conversions_that_would_drop_the_tangent_are_refused():
    d, plain = tg.Dual(0.5, 1.0), np.zeros(2)
    for leave in (
        lambda: float(d), lambda: int(d), lambda: math.sin(d), lambda: complex(d), lambda: math.trunc(d),
        lambda: np.asarray(tg.Dual([0.5], [1.0])), lambda: tg.tensor(d), lambda: tg.tensor([d, 1.0]),
        lambda: np.add(plain, d, out=plain),
    ):  # fmt: skip
        with pytest.raises(LeaveTapeError):
            leave()
    with pytest.raises(LeaveTapeError, match="'d'.*tangent"):
        float(d)
    for store in (lambda: plain.__setitem__(0, d), lambda: np.array([d], dtype=float), lambda: np.asarray(d, float)):
        with pytest.raises(ValueError) as raised:
            store()
        assert isinstance(raised.value.__cause__, LeaveTapeError)


def test_leaving_on_purpose():
    d = dual([1.0, 2.0])
    assert d[1].item() == 2.0 and type(d[1].item()) is float
    assert d.tolist() == [1.0, 2.0]
    assert isinstance(d.detach(), tg.Tensor) and not d.detach().requires_grad
    np.testing.assert_array_equal(d.numpy(), [1.0, 2.0])
    assert not d.numpy().flags.writeable and not d.detach().numpy().flags.writeable
    assert tg.derivative(lambda x: x.detach() * x)(3.0) == 3.0
    assert tg.derivative(tg.derivative(lambda x: x.detach() * x * x))(3.0) == 6.0


def test_compiled_functions_are_refused():
    with pytest.raises(UnsupportedFunctionError, match="Numba"):
        _ = tg.Dual(1.0, 1.0)._numba_type_


def test_functions_without_a_rule_are_refused():
    with pytest.raises(UnsupportedFunctionError):
        np.unique(dual([1.0, 2.0]))


def test_no_grad_does_not_concern_dual_numbers():
    with tg.no_grad():
        d = tg.Dual(2.0, 1.0)
        y = d * d
        y += d
        z = tg.zeros(2)
        z[0] = y
    assert y.tangent == 5.0
    np.testing.assert_array_equal(z.tangent, [5.0, 0.0])


# ---- control flow and plain results ------------------------------------------------------


def test_control_flow_uses_the_value():
    d = tg.Dual(2.0, 1.0)
    assert d > 1 and not d < 1 and d == 2.0 and d != 3 and bool(d) and not bool(tg.Dual(0.0, 1.0))
    assert list(range(5))[np.argmax(dual([1.0, 5.0, 2.0]))] == 1
    assert max(tg.Dual(1.0, 1.0), tg.Dual(3.0, 7.0)).tangent == 7.0
    with pytest.raises(ValueError, match="ambiguous"):
        bool(dual([1.0, 2.0]))
    assert [x.tangent for x in dual([1.0, 2.0], [3.0, 4.0])] == [3.0, 4.0]
    assert len(dual([1.0, 2.0])) == 2 and 2.0 in dual([1.0, 2.0])


def test_results_without_derivative_are_plain():
    d = dual([3.0, 1.0, 2.0])
    for found in (np.argsort(d), d > 1.0, np.isnan(d), np.argmin(d), np.any(d > 2), np.zeros_like(d)):
        assert not isinstance(found, tg.Dual)
    assert np.floor(d).tangent.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(DtypeError):
        d.astype(int)


def test_zero_is_absolute():
    with np.errstate(all="ignore"):
        x = dual([-1.0, 0.0, 2.0])
        np.testing.assert_array_equal(np.where(x > 0, np.log(x), 0.0).tangent, [0.0, 0.0, 0.5])
        lanes = tg.Dual(np.array([-1.0, 0.0, 2.0]), np.eye(3), lanes=3)
        np.testing.assert_array_equal(np.where(lanes > 0, np.log(lanes), 0.0).tangent, np.diag([0.0, 0.0, 0.5]))
        s = tg.Dual(0.0, 1.0)
        assert np.where(s > 0, np.log(s), 0.0).tangent == 0.0
        assert np.sqrt(tg.Dual(0.0, 0.0)).tangent == 0.0
        assert np.sqrt(tg.Dual(0.0, 1.0)).tangent == np.inf
        assert (1.0 / tg.Dual(0.0, 1.0)).tangent == -np.inf
        hessian = tg.derivative(tg.derivative(lambda t: (t - 1.0) ** 2))
        assert hessian(1.0) == 2.0
        twice = tg.derivative(tg.derivative(lambda t: np.where(t > 0, np.log(t), 0.0)))
        assert twice(0.0) == 0.0 and twice(2.0) == -0.25


# ---- writing -----------------------------------------------------------------------------


@pytest.mark.parametrize("make", [tg.zeros, lambda n: np.zeros_like(dual(np.ones(n))), lambda n: tg.Dual(np.zeros(n))])
def test_writing_element_by_element(make):
    d = tg.Dual(2.0, 1.0)
    y = make(3)
    y[0] = d
    y[2] = y[0] * d
    y[1] = 7.0
    np.testing.assert_array_equal(y.value, [2.0, 7.0, 4.0])
    np.testing.assert_array_equal(y.tangent, [1.0, 0.0, 4.0])
    y[0] = 5.0
    np.testing.assert_array_equal(y.tangent, [0.0, 0.0, 4.0])


@pytest.mark.parametrize("lanes", [None, 4])
@pytest.mark.parametrize("key", [1, (1, 2), (0, slice(None, None, -1)), slice(1, None), ..., (..., 0), (None, slice(None), 1), (-1, -1), ()], ids=repr)
def test_what_an_index_looks_at_has_its_tangents_and_records_nothing(key, lanes):
    values = np.arange(6.0).reshape(2, 3)
    tangents = np.sin(np.arange(6.0 * (lanes or 1))).reshape((lanes or 1, 2, 3))
    d = tg.Dual(values, tangents if lanes else tangents[0], lanes=lanes)
    part = d[key]
    assert np.array_equal(part.value, values[key]) and type(part.value) is (float if values[key].ndim == 0 else np.ndarray)
    assert np.array_equal(part.tangent, [t[key] for t in tangents] if lanes else tangents[0][key])
    assert calls_of(record.apply, lambda: d[key]) == 0
    assert tg.Dual(values)[key].tangent.shape == np.shape(values[key]) if values[key].ndim else tg.Dual(values)[key].tangent == 0.0


def test_views_follow_what_they_look_at():
    x = dual([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0])
    y = x * 1.0
    front, rows = y[:2], y.reshape(2, 2)
    y[1] = 5.0
    np.testing.assert_array_equal(front.value, [1.0, 5.0])
    np.testing.assert_array_equal(front.tangent, [1.0, 0.0])
    front *= 2.0
    np.testing.assert_array_equal(y.tangent, [2.0, 0.0, 100.0, 1000.0])
    rows[1, :] = y[0]
    np.testing.assert_array_equal(y.value, [2.0, 10.0, 2.0, 2.0])
    np.testing.assert_array_equal(y.tangent, [2.0, 0.0, 2.0, 2.0])
    np.testing.assert_array_equal(x.tangent, [1.0, 10.0, 100.0, 1000.0])
    y[np.array([0, 3])] = y[1:3] * 3.0
    np.testing.assert_array_equal(y.tangent, [0.0, 0.0, 2.0, 6.0])


def test_changes_in_place():
    d = tg.Dual(3.0, 1.0)
    d *= d
    d -= 1.0
    assert (d.value, d.tangent) == (8.0, 6.0)
    x = dual([1.0, 2.0])
    x **= 2
    x.mul_(tg.Dual(2.0, 1.0))
    np.testing.assert_array_equal(x.tangent, [5.0, 12.0])
    t = tg.tensor([1.0, 2.0])
    t += tg.Dual(1.0, 4.0)
    assert isinstance(t, tg.Dual) and t.tangent.tolist() == [4.0, 4.0]
    assert x.zero_() is x and x.tangent.tolist() == [0.0, 0.0]
    y = same = tg.Dual(1.0, 1.0)
    y += np.ones(3)
    assert y.shape == (3,) and (same.value, same.tangent) == (1.0, 1.0)
    same.add_(2.0)
    assert (same.value, same.tangent) == (3.0, 1.0)
    with pytest.raises(ValueError):
        same.mul_(np.ones(3))
    with pytest.raises(DtypeError):
        np.zeros_like(tg.tensor([1, 2]))[0] = d


def test_the_arguments_of_a_function_are_not_changed():
    x = np.array([1.0, 2.0])

    def f(y):
        y[0] = y[1] * 3.0
        y += 1.0
        return y

    value, tangent = tg.jvp(f, (x,), (np.array([1.0, 1.0]),))
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(value, [7.0, 3.0])
    np.testing.assert_array_equal(tangent, [3.0, 1.0])


def test_assignment_to_a_tracked_tensor_keeps_both_derivatives():
    t = tg.tensor([1.0, 2.0], requires_grad=True)
    y = t * 2.0
    y[0] = tg.Dual(3.0, 1.0) * t[1]
    assert isinstance(y, tg.Dual)
    np.testing.assert_array_equal(np.asarray(y.tangent.detach()), [2.0, 0.0])
    (y.value * y.tangent).sum().backward()
    # value [3 t1, 2 t1], tangent [t1, 0]
    np.testing.assert_array_equal(t.grad.numpy(), [0.0, 12.0])


# ---- text and copies ---------------------------------------------------------------------


def test_text():
    assert repr(tg.Dual(2.0, 1.0)) == "Dual(2.0, tangent=1.0)"
    assert repr(dual([1.0, 2.5])) == "Dual([1. , 2.5], tangent=[1., 1.])"
    assert repr(tg.Dual(1.0, [1.0, 2.0], lanes=2)) == "Dual(1.0, tangent=[1., 2.], lanes=2)"
    assert repr(tg.Dual(tg.Dual(2.0, 1.0), 1.0)) == "Dual(Dual(2.0, tangent=1.0), tangent=1.0)"
    assert f"{tg.Dual(2.0, 1.0):.3f}" == "2.000"
    with pytest.raises(TypeError):
        f"{dual([1.0]):.3f}"


def test_copies():
    for d in (dual([1.0, 2.0]), tg.Dual(tg.Dual(2.0, 1.0), 3.0), tg.Dual(np.float32(2.0), np.float32(1.0))):
        for c in (copy.copy(d), copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
            assert repr(c) == repr(d) and c.level == d.level
    d = dual([1.0, 2.0])
    c = copy.deepcopy(d)
    c[0] = 7.0
    np.testing.assert_array_equal(d.tangent, [1.0, 1.0])
    assert d.value[0] == 1.0
