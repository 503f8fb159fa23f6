"""`tg.primitive`: values, both rules and the one made by transposition, both modes, every misuse."""

import gc
import importlib.util
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import ClearedTapeError, DtypeError, LeaveTapeError, MissingRuleError, ModifiedInPlaceError, RuleError
from tapegrad.interpreter.walks import walks
from tapegrad.tape.store import thread_state
from tests.rules.checker import leaf
from tests.threads import in_threads

X, Y = np.array([0.5, 1.5, -2.0]), np.array([2.0, 0.3, 1.1])
forward_mode = pytest.mark.skipif(importlib.util.find_spec("tapegrad.transforms.forward") is None, reason="no forward mode yet")


def value(x, y, power=2):
    return x**power * np.sin(y)


def vjp(g, result, x, y, power=2):
    return g * power * x ** (power - 1) * np.sin(y), g * x**power * np.cos(y)


def jvp(tangents, result, x, y, power=2):
    return power * x ** (power - 1) * np.sin(y) * tangents[0] + x**power * np.cos(y) * tangents[1]


def made(**rules):
    f = tg.primitive(lambda x, y, power=2: value(x, y, power))
    for name, rule in rules.items():
        getattr(f, f"def{name}")(rule)
    return f


KINDS = {"vjp": {"vjp": vjp}, "jvp": {"jvp": jvp}, "both": {"vjp": vjp, "jvp": jvp}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "args", [(X, Y), (0.7, 1.3), (X.astype("f"), Y.astype("f"))], ids=["arrays", "floats", "float32"]
)
def test_value_and_derivatives_of_every_available_mode(kind, args):
    f = made(**KINDS[kind])
    tg.check(f, *args, reference=value)
    tg.check(lambda x, y: np.sum(f(np.exp(x) * 0.1, y, power=3) * x), *args, reference=lambda x, y: np.sum(
        value(np.exp(x) * 0.1, y, 3) * x
    ))  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_one_operand_is_a_constant(kind):
    f = made(**KINDS[kind])
    tg.check(lambda x: f(x, Y), X, reference=lambda x: value(x, Y))
    tg.check(lambda y: f(X, y), Y, reference=lambda y: value(X, y))


@forward_mode
@pytest.mark.parametrize("kind", KINDS)
def test_forward_mode_runs_the_rule_or_the_transpose(kind):
    f = made(**KINDS[kind])
    found, tangent = tg.jvp(f, (X, Y), (Y, X))
    np.testing.assert_array_equal(found, value(X, Y))
    np.testing.assert_allclose(tangent, jvp((Y, X), None, X, Y), rtol=1e-12)
    jacobian = tg.jacfwd(lambda x: f(x, Y))(X)
    np.testing.assert_allclose(jacobian, np.diag(2 * X * np.sin(Y)), rtol=1e-12)


@forward_mode
def test_a_second_derivative_by_duals_of_duals_needs_a_jvp_rule():
    second = tg.derivative(tg.derivative(lambda x: made(jvp=jvp)(x, 1.3)))
    assert second(0.7) == pytest.approx(2 * np.sin(1.3))
    with pytest.raises(tg.errors.HigherOrderError, match="custom_jvp"):
        tg.derivative(tg.derivative(lambda x: made(vjp=vjp)(x, 1.3)))(0.7)


def test_the_rule_sees_the_values_of_the_call_it_belongs_to():
    seen = []

    def watching(g, result, x):
        seen.append((float(x), float(result)))
        return 2 * x * g

    f = tg.custom_vjp(lambda x: x * x, watching)
    a, b = leaf(3.0), leaf(5.0)
    first, second = f(a), f(b)
    second.backward()
    first.backward()
    assert seen == [(5.0, 25.0), (3.0, 9.0)]
    assert (a.grad.item(), b.grad.item()) == (6.0, 10.0)


def several(x, y):
    return x * y, int(np.argmax(x)), np.sum(x), np.outer(x, y).astype(np.float32)


def several_vjp(g, result, x, y):
    first, none, total, outer = g
    assert none is None
    assert [np.shape(r) for r in result] == [(3,), (), (), (3, 3)]
    return first * y + total + outer @ y, first * x + outer.T @ x


def test_several_results_are_one_instruction():
    f = tg.custom_vjp(several, several_vjp)
    x, y = leaf(X), leaf(Y)
    with tg.Tape() as tape:
        product, index, total, outer = f(x, y)
    assert [i.row.name for i in tape.instructions].count("several") == 1
    assert index.item() == 1 and not index.requires_grad
    assert outer.dtype == np.float32 and total.shape == ()
    tg.check(lambda x, y: (lambda r: [r[0], (r[2], r[3])])(f(x, y)), X, Y, rtol=1e-2, atol=1e-6)


def test_several_results_from_a_jvp_rule():
    f = tg.custom_jvp(lambda x, y: [x * y, np.sum(x)], lambda t, r, x, y: (t[0] * y + x * t[1], np.sum(t[0])))
    assert isinstance(f(leaf(X), Y), list)
    tg.check(f, X, Y)


def test_a_result_that_is_not_used_has_no_say():
    f = tg.custom_vjp(lambda x: (x * 2, x * 3), lambda g, r, x: g[0] * 2 + g[1] * 3)
    x = leaf(X)
    f(x)[1].sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3.0] * 3)


def test_it_is_a_node_like_any_other():
    my_product = tg.custom_vjp(value, vjp)
    x, y = leaf(X), leaf(Y)
    with tg.Tape() as tape:
        z = my_product(x, y)
        loss = np.sum(z * z)
    assert repr(z.grad_fn).startswith("<ValueBackward0")
    assert [node.variable for node, _ in z.grad_fn.next_functions] == [x, y]
    assert "value" in str(tape) and "%1, %2" in str(tape)
    for given, wanted in zip(z.grad_fn(np.ones(3)), vjp(np.ones(3), None, X, Y)):
        np.testing.assert_array_equal(given.numpy(), wanted)
    seen = []
    z.register_hook(lambda g: seen.append(g.numpy().copy()))
    z.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
    loss.backward(retain_graph=True)
    np.testing.assert_array_equal(seen[0], 2 * value(X, Y))
    assert seen[1] == (2, 1)
    once = x.grad.numpy().copy()
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once)
    with pytest.raises(ClearedTapeError):
        loss.backward()


def test_saved_values_are_released_by_the_pass_and_by_the_last_reference():
    class Token:
        pass

    f = tg.primitive(lambda x, token=None: x * 2)
    f.defvjp(lambda g, result, x, token=None: 2 * g)
    for ending in ("backward", "del"):
        token = Token()
        alive = weakref.ref(token)
        x = leaf(X)
        loss = np.sum(f(x, token=token))
        del token
        gc.collect()
        assert alive() is not None
        if ending == "backward":
            loss.backward()
        else:
            del loss
            walks.let_go(thread_state().store)
        gc.collect()
        assert alive() is None, ending


def test_reclaiming_moves_its_instructions():
    f = tg.custom_vjp(lambda x: x * 2, lambda g, r, x: 2 * g)
    x = leaf(X)
    kept = f(x)
    for _ in range(6000):
        f(x)
    np.sum(kept).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0] * 3)


def test_a_change_in_place_is_found():
    f = made(vjp=vjp)
    x, constant = leaf(X), Y.copy()
    z = np.sum(f(x, constant))
    constant[0] = 9.0
    z.backward()
    np.testing.assert_array_equal(x.grad, tg.grad(lambda x: np.sum(f(x, Y)))(X))
    z = np.sum(f(x, Y))
    with tg.no_grad():
        x += 1.0
    with pytest.raises(ModifiedInPlaceError):
        z.backward()


def test_no_rule_gets_at_what_the_tape_keeps():
    def spoiling(g, result, x):
        x[0] = 7.0
        return g

    f = tg.custom_vjp(lambda x: x * 2, spoiling)
    x = leaf(X)
    with pytest.raises(ValueError, match="read-only"):
        np.sum(f(x)).backward()
    assert x.grad is None
    shared = np.ones(3)
    g = tg.custom_vjp(lambda x: shared, lambda g, result, x: g)
    result = g(x)
    shared[:] = 5.0
    np.testing.assert_array_equal(result.detach().numpy(), np.ones(3))


def test_numba_functions_with_explicit_signatures():
    numba = pytest.importorskip("numba")

    @numba.njit("f8[:](f8[:], f8)")
    def scaled(x, k):
        out = np.empty_like(x)
        for i in range(x.size):
            out[i] = k * x[i] ** 2
        return out

    @numba.njit
    def rule(g, result, x, k):
        return 2.0 * k * x * g, np.sum(g * x**2)

    f = tg.custom_vjp(scaled, rule)
    tg.check(f, X, 1.7, modes=["value", "reverse"])


def test_plain_arguments_stay_plain():
    f = made(vjp=vjp)
    assert type(f(X, Y)) is np.ndarray
    with tg.no_grad():
        assert not f(leaf(X), Y).requires_grad
    assert not f(tg.tensor(X), Y).requires_grad


def test_threads_have_their_own_calls():
    f = made(vjp=vjp)
    found = {}

    def work(k):
        x = leaf(X * (k + 1))
        for _ in range(50):
            loss = np.sum(f(x, Y))
            x.grad = None
            loss.backward()
        found[k] = x.grad.numpy()

    in_threads(work, 4)
    for k in range(4):
        np.testing.assert_allclose(found[k], 2 * X * (k + 1) * np.sin(Y), rtol=1e-14)


def test_a_zero_adjoint_does_not_meet_what_is_not_finite():
    f = tg.custom_vjp(np.log, lambda g, result, x: g * (1 / np.float64(x)))
    x = leaf(0.0)
    with np.errstate(all="ignore"):
        np.where(False, f(x), x * 3).backward()
    assert x.grad.item() == 3.0


# ---- misuse ---------------------------------------------------------------------------


def test_a_missing_rule_is_named():
    f = tg.primitive(value)
    with pytest.raises(MissingRuleError, match="'value' has no derivative rule.*custom_vjp"):
        np.sum(f(leaf(X), Y)).backward()


@pytest.mark.parametrize(
    "returned, message",
    [
        (lambda g, x, y: (g,), "1 cotangents for 2"),
        (lambda g, x, y: (g, g, g), "3 cotangents for 2"),
        (lambda g, x, y: (np.sum(g), g), r"argument 0 \('x'\), an array of shape \(\).*\(3,\)"),
        (lambda g, x, y: (g, np.ones((3, 1))), r"argument 1 \('y'\), an array of shape \(3, 1\)"),
        (lambda g, x, y: (g, "no"), "argument 1"),
        (lambda g, x, y: (g, 1j * g), "complex128"),
    ],
)
def test_wrong_cotangents(returned, message):
    f = tg.custom_vjp(value, lambda g, result, x, y: returned(g, x, y))
    x, y = leaf(X), leaf(Y)
    with pytest.raises(RuleError, match=message):
        np.sum(f(x, y)).backward()
    assert x.grad is None and y.grad is None


def test_a_rule_that_closes_over_a_recorded_value_is_refused():
    x = leaf(X)
    with pytest.raises(RuleError, match="closes over"):
        np.sum(tg.custom_vjp(lambda a: a * 2, lambda g, result, a: g * x)(x)).backward()
    with pytest.raises(RuleError, match="closes over"):
        tg.custom_vjp(lambda a: a * x, lambda g, result, a: g)(leaf(Y))
    with pytest.raises(RuleError, match="closes over"):
        tg.custom_vjp(lambda a: a * x, lambda g, result, a: g)(Y)


class Unregistered:
    def __init__(self, value):
        self.value = value


def test_a_tensor_inside_of_an_object_does_not_go_past_the_rule():
    with_vjp = tg.custom_vjp(lambda box: 2.0 * box.value, lambda g, result, box: (None,))
    with_jvp = tg.custom_jvp(lambda box: 2.0 * box.value, lambda tangents, result, box: 0.0)
    assert with_vjp(Unregistered(3.0)) == 6.0
    for f in (with_vjp, with_jvp):
        for slope in (tg.grad(lambda x: f(Unregistered(x))), tg.jit(tg.grad(lambda x: f(Unregistered(x)))), tg.jacfwd(lambda x: f(Unregistered(x)))):
            with pytest.raises(RuleError, match="an object whose class is not registered"):
                slope(3.0)


def test_an_exception_in_a_rule_says_where():
    def broken(g, result, x):
        return 1 // 0

    x = leaf(X)
    with pytest.raises(ZeroDivisionError) as caught:
        np.sum(tg.custom_vjp(lambda a: a * 2, broken)(x)).backward()
    assert x.grad is None
    if hasattr(caught.value, "__notes__"):
        assert "the VJP rule of '<lambda>'" in caught.value.__notes__[0]
        assert "test_primitive.py" in caught.value.__notes__[1]


def test_a_rule_that_is_not_linear_cannot_be_transposed():
    x = leaf(X)
    for rule in (lambda t, r, a: t[0] ** 2, lambda t, r, a: t[0] + 1.0, lambda t, r, a: np.ones(3)):
        with pytest.raises(RuleError, match="not linear"):
            np.sum(tg.custom_jvp(lambda a: a * 2, rule)(x)).backward()


def test_a_rule_that_cannot_be_recorded_cannot_be_transposed():
    f = tg.custom_jvp(lambda a: a * 2, lambda t, r, a: np.array([float(v) for v in t[0]]))
    with pytest.raises(MissingRuleError, match="custom_vjp"):
        np.sum(f(leaf(X))).backward()


def test_tensors_in_keyword_arguments_are_refused():
    f = made(vjp=vjp)
    with pytest.raises(LeaveTapeError, match="'power'"):
        f(X, Y, power=leaf(2.0))


def test_results_that_cannot_carry_a_derivative():
    x = leaf(X)
    assert tg.primitive(np.argmax)(x).item() == 1
    cases = ((lambda a: a * 1j, DtypeError), (lambda a: a.astype("e"), DtypeError), (lambda a: None, RuleError))
    for wrong, error in cases:
        with pytest.raises(error):
            tg.primitive(wrong)(x)


# ---- stop_gradient ------------------------------------------------------------------------


def test_stop_gradient_of_everything():
    x = leaf(X)
    np.sum(x * tg.stop_gradient(x * x)).backward()
    np.testing.assert_array_equal(x.grad.numpy(), X * X)
    found = tg.stop_gradient({"a": [x, 1.0], "b": (X, None)})
    assert not found["a"][0].requires_grad and found["a"][1] == 1.0
    assert found["b"][0] is X and found["b"][1] is None


@dataclass
class State:
    position: object
    name: str = "start"


def test_stop_gradient_of_what_has_fields():
    """Containers that arguments and results may be of: dataclasses and named tuples."""
    pair = namedtuple("Pair", "a b")

    def function(x):
        state = tg.stop_gradient([State(x), pair(x, 1)])
        assert state[0].name == "start" and state[1].b == 1
        return x * state[0].position * state[1].a

    assert tg.grad(function)(3.0) == 9.0 and tg.stop_gradient(State) is State


@forward_mode
class Registered:
    def __init__(self, a):
        self.a = a


def test_stop_gradient_of_registered_classes():
    tg.tree.register(Registered, lambda thing: ((thing.a,), None), lambda held, parts: Registered(*parts))

    def function(x):
        counts = tg.stop_gradient(defaultdict(list, a=x))
        assert counts["other"] == [] and type(tg.stop_gradient(OrderedDict(a=x))) is OrderedDict
        return x * counts["a"] * tg.stop_gradient(Registered(x)).a

    assert tg.grad(function)(3.0) == 9.0 == tg.jit(tg.grad(function))(3.0)


def test_stop_gradient_drops_tangents():
    assert tg.derivative(lambda x: x * tg.stop_gradient(x))(3.0) == 3.0


@pytest.mark.parametrize("size", [3, 3000])
@pytest.mark.parametrize("where", ["keyword", "list", "dict"])
def test_arrays_among_what_is_static_stay_what_they_were(where, size):
    """An array that is filled again before the rules read it: they get a copy, or the change is an error, as for an operand."""
    f = tg.primitive(lambda x, held=None, *, array=None: np.sum(x * (array if held is None else held["a"] if where == "dict" else held[0])))
    of = {
        "keyword": lambda x, a: f(x, array=a), "list": lambda x, a: f(x, [a, "a list"]), "dict": lambda x, a: f(x, {"a": a}),
    }[where]  # fmt: skip
    get = {"keyword": lambda held, array: array, "list": lambda held, array: held[0], "dict": lambda held, array: held["a"]}[where]
    f.defvjp(lambda g, result, x, held=None, array=None: (g * get(held, array), *[None] * (where != "keyword")))
    f.defjvp(lambda tangents, result, x, held=None, array=None: np.sum(tangents[0] * get(held, array)))

    def total(x):
        filled, result = np.zeros(size), 0.0
        for k in (1.0, 2.0, 3.0):
            filled[:] = k
            result = result + of(x, filled)
        return result

    x = np.ones(size)
    np.testing.assert_array_equal(tg.jit(tg.grad(total))(x), 6.0 * x)
    assert tg.derivative(lambda s: total(s * x))(1.0) == 6.0 * size
    if size > 1000:
        with pytest.raises(ModifiedInPlaceError):
            tg.grad(total)(x)
    else:
        np.testing.assert_array_equal(tg.grad(total)(x), 6.0 * x)
        np.testing.assert_array_equal(tg.jacobian(total)(x), 6.0 * x)
