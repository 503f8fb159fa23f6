"""`checkpoint`: what the function reads on the way back is what it read at the call, or an error names what has changed."""

import functools
import random
import re
import sys
import types
from dataclasses import dataclass, field

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.common.errors import GradientError, ModifiedInPlaceError

scale = 2.0
options = {"a": 1.0, "b": 3.0}
weights = np.array([1.0, 2.0])
settings = types.SimpleNamespace(rate=2.0)


def leaf(value=0.5):
    return tg.tensor(value, requires_grad=True)


def through(function, change, at=0.5):
    """The derivative of a call at `at`, after `change` between the call and the way back."""
    x = leaf(at)
    y = np.sum(function(x))
    change()
    y.backward()
    return x.grad.numpy()


# ---- bound to what it was --------------------------------------------------------------


def test_the_variable_of_a_loop():
    factors = [1.0, 2.0, 3.0]

    @tg.checkpoint
    def step(x):
        return np.sin(x) * factors[k]

    x = leaf()
    y = x
    for k in range(3):  # noqa: B007
        y = step(y)
    y.backward()
    plain = lambda v: 3.0 * np.sin(2.0 * np.sin(np.sin(v)))  # noqa: E731
    assert x.grad.item() == pytest.approx((plain(0.5 + 1e-6) - plain(0.5 - 1e-6)) / 2e-6, rel=1e-8)


def test_two_calls_before_one_backward():
    factor = 2.0
    kept = tg.checkpoint(lambda x: x * factor)
    x = leaf()
    y = kept(x)
    factor = 5.0
    z = kept(x)
    factor = 11.0
    (y + 100.0 * z).backward()
    assert x.grad.item() == 502.0


def test_an_array_a_function_and_an_object_in_a_variable():
    def run(first, second):
        value = first
        kept = tg.checkpoint(lambda x: np.sum(x * value) if not callable(value) else value(x))
        x = leaf()
        y = kept(x)
        value = second
        z = kept(x)
        (y + 100.0 * z).backward()
        return x.grad.item()

    assert run(np.ones(3), np.ones(2)) == 203.0
    assert run(lambda x: 3.0 * x, lambda x: 2.0 * x) == 203.0


def set_global(name, value):
    globals()[name] = value


@pytest.mark.parametrize("read", [lambda x: x * scale, lambda x: x * doubled(1.0)], ids=["itself", "by another function"])
def test_a_global_number(read):
    try:
        assert through(tg.checkpoint(read), lambda: set_global("scale", 7.0)) == 2.0
        assert scale == 7.0
    finally:
        set_global("scale", 2.0)


def doubled(x):
    return x * scale


def test_a_default():
    def step(x, factor=2.0, *, other=1.0):
        return x * factor * other

    def change():
        step.__defaults__ = (7.0,)
        step.__kwdefaults__ = {"other": 5.0}

    assert through(tg.checkpoint(step), change) == 2.0
    assert step(1.0) == 35.0


def test_items_of_a_list_and_the_order_of_a_dict():
    factors = [2.0, [3.0]]
    assert through(tg.checkpoint(lambda x: x * factors[0] * factors[1][0]), lambda: factors[1].__setitem__(0, 7.0)) == 6.0
    assert factors == [2.0, [7.0]]
    ordered = {"a": 2.0, "b": 3.0}

    def change():
        ordered["a"] = ordered.pop("a")

    assert through(tg.checkpoint(lambda x: x ** next(iter(ordered.values()))), change) == 1.0
    assert list(ordered) == ["b", "a"]


def test_a_counter_of_the_function_itself():
    count = 0

    @tg.checkpoint
    def step(x):
        nonlocal count
        count += 1
        return x * count

    x = leaf()
    y = step(x) + 100.0 * step(x)
    y.backward()
    assert x.grad.item() == 201.0 and count == 2


def test_what_the_function_changes_itself_is_what_it_was_at_the_call():
    """Attributes, those of a class and in slots, items of containers, elements of arrays, global variables of a method."""

    @dataclass(frozen=True, slots=True)
    class Fixed:
        n: int = 0

    class Model:
        made = 0

        def __init__(self):
            self.n, self.seen, self.table, self.buffer, self.fixed = 0, [], {"k": 2.0}, np.zeros(2), Fixed()

        def __setattr__(self, name, value):
            assert name not in vars(self) or sys._getframe(1).f_code.co_name == "step", "nobody else sets it"
            vars(self)[name] = value

        def step(self, x):
            global scale
            self.n, scale = self.n + 1, scale + 1.0
            Model.made += 1
            self.seen.append(self.n)
            self.table[self.n] = self.n
            self.buffer[0] += 1.0
            object.__setattr__(self.fixed, "n", self.fixed.n + 1)
            return x * self.table["k"] * self.n * len(self.seen) * Model.made * self.buffer[0] * len(self.table) * self.fixed.n * scale

    def state(model):
        return model.n, Model.made, model.seen, model.table, model.buffer.tolist(), model.fixed.n, scale

    try:
        for graph in (False, True):
            plainly, model = Model(), Model()
            set_global("scale", 2.0)
            expected = plainly.step(1.0) + 100.0 * plainly.step(1.0)
            before = state(plainly)
            Model.made, x, kept = 0, leaf(1.0), tg.checkpoint(model.step)
            set_global("scale", 2.0)
            y = kept(x) + 100.0 * kept(x)
            (slope,) = tg.autograd.grad(y, x, create_graph=graph)
            assert slope.item() == y.item() == expected and state(model) == before
            y = kept(x)
            model.table["k"], vars(model)["n"] = 7.0, 20
            (slope,) = tg.autograd.grad(y, x, create_graph=graph)
            assert slope.item() == y.item() and model.table["k"] == 7.0 and model.n == 20
            Model.made = 0
    finally:
        set_global("scale", 2.0)


def test_partial_and_decorated():
    factor = 2.0

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) * 10.0

        return wrapper

    @decorator
    def step(y, x):
        return x * y * factor

    def change():
        nonlocal factor
        factor = 7.0

    assert through(tg.checkpoint(functools.partial(step, 3.0)), change) == 60.0


# ---- an error ----------------------------------------------------------------------------


class Layer:
    rate = 2.0

    def __init__(self):
        self.t, self.w, self.log = 0, np.ones(2), []

    def counted(self, x):
        self.t += 1
        return x * self.t

    def step(self, x):
        return self.inner(x)

    def inner(self, x):
        return np.sum(x * self.w) * self.rate


def refused(name, function, change):
    with pytest.raises(ModifiedInPlaceError, match=f"^{re.escape(repr(name))}, which .* has changed .* between the call .* as an argument"):
        through(function, change)


def test_a_floating_point_error_that_it_catches():
    def careful(x):
        try:
            return np.sum(np.log(x))
        except FloatingPointError:
            return np.sum(x**2)

    with np.errstate(all="raise"):
        for transformation in (tg.grad, tg.hessian, tg.jacfwd):
            for x in (np.array([0.5, 2.0]), np.array([-1.0, 2.0])):
                np.testing.assert_array_equal(transformation(tg.checkpoint(careful))(x), transformation(careful)(x))


def test_attributes():
    layer = Layer()
    refused("self.w", tg.checkpoint(layer.step), lambda: layer.w.__setitem__(0, 5.0))
    refused("self.w", tg.checkpoint(layer.step), lambda: setattr(layer, "w", np.zeros(2)))
    refused("settings.rate", tg.checkpoint(lambda x: x * settings.rate), lambda: setattr(settings, "rate", settings.rate + 1.0))
    refused("Layer.rate", tg.checkpoint(layer.step), lambda: setattr(Layer, "rate", Layer.rate + 1.0))
    # What the function does not name may change.
    assert through(tg.checkpoint(layer.step), lambda: layer.log.append(1.0)) == layer.w.sum() * Layer.rate


def test_an_array_written_in_place():
    for size in (2, 100_000):
        array = np.ones(size)
        refused("array", tg.checkpoint(lambda x, array=array: np.sum(x * array)), lambda array=array: array.__setitem__(-1, 5.0))
    refused("weights", tg.checkpoint(lambda x: np.sum(x * weights)), lambda: weights.__setitem__(0, weights[0] + 1.0))
    arrays = [np.ones(2)]
    refused("arrays[0]", tg.checkpoint(lambda x: np.sum(x * arrays[0])), lambda: arrays[0].__setitem__(0, 5.0))
    constant = tg.tensor(np.ones(2))
    refused("constant", tg.checkpoint(lambda x: np.sum(x * constant)), lambda: constant.__setitem__(0, 5.0))


def test_modules_and_classes(monkeypatch):
    module = types.ModuleType("rates_of_mine")
    module.rate = 2.0
    monkeypatch.setitem(sys.modules, "rates_of_mine", module)

    def imports(x):
        from rates_of_mine import rate

        return x * rate

    refused("rates_of_mine.rate", tg.checkpoint(imports), lambda: setattr(module, "rate", 7.0))
    refused("module.rate", tg.checkpoint(lambda x: x * module.rate), lambda: setattr(module, "rate", 9.0))
    # In a namespace without a name.
    space = {}
    exec("class Model:\n    rate = 2.0\ndef step(x):\n    return x * Model.rate", space)
    refused("Model.rate", tg.checkpoint(space["step"]), lambda: setattr(space["Model"], "rate", 7.0))


def test_an_attribute_that_comes():
    class Model:
        rate = 2.0

        def step(self, x):
            return x * self.rate

    model = Model()
    refused("self.rate", tg.checkpoint(model.step), lambda: setattr(model, "rate", 7.0))


def test_inside_of_tg_jit():
    factor = 2.0
    kept = tg.checkpoint(tg.jit(lambda x: x * factor))
    assert through(kept, lambda: None) == 2.0

    def change():
        nonlocal factor
        factor = 7.0

    refused("factor", kept, change)


def test_an_object_that_is_an_argument():
    @dataclass(eq=False)
    class Inside:
        rate: float = 2.0

    class Holder:
        def __init__(self):
            self.inside = Inside()

    holder = Holder()
    kept = tg.checkpoint(lambda x, holder: x * holder.inside.rate)
    refused(
        "holder.inside.rate", lambda x: kept(x, holder), lambda: setattr(holder.inside, "rate", 7.0)
    )


def test_under_create_graph():
    factors = [2.0]
    kept = tg.checkpoint(lambda x: np.sin(x) * factors[0])
    x = leaf()
    y = kept(x)
    factors[0] = 7.0
    (g,) = tg.autograd.grad(y, x, create_graph=True)
    (h,) = tg.autograd.grad(g, x)
    assert g.item() == pytest.approx(2.0 * np.cos(0.5)) and h.item() == pytest.approx(-2.0 * np.sin(0.5))
    layer = Layer()
    y = tg.checkpoint(layer.step)(x)
    layer.w[0] = 5.0
    with pytest.raises(ModifiedInPlaceError, match="self.w"):
        tg.autograd.grad(y, x, create_graph=True)


def test_what_nothing_sees_is_found_by_the_value(tmp_path):
    path = tmp_path / "factor"
    path.write_text("2.0")
    for graph in (False, True):
        x = leaf()
        y = tg.checkpoint(lambda x: x * float(path.read_text()))(x)
        path.write_text("7.0")
        with pytest.raises(GradientError, match="computed something else than at its call"):
            tg.autograd.grad(y, x, create_graph=graph)
        path.write_text("2.0")


def test_a_result_that_is_not_a_number_is_itself_again():
    kept = tg.checkpoint(lambda x: np.array([np.nan, np.inf, -np.inf, 1.0]) * x)
    x = leaf(1.0)
    kept(x)[3].backward()
    assert x.grad.item() == 1.0


# ---- random numbers ------------------------------------------------------------------------


class Noisy:
    def __init__(self):
        self.rng = np.random.default_rng(1)

    def step(self, x):
        return x * self.rng.normal(size=4)


@dataclass
class Holding:
    rngs: list = field(default_factory=lambda: [np.random.default_rng(5)])


local = random.Random(3)


def drawing():
    rng, old, draw, holding = np.random.default_rng(0), np.random.RandomState(0), np.random.default_rng(7).normal, Holding()
    noisy = Noisy()
    with_argument = tg.checkpoint(lambda x, rng: x * rng.normal(size=4))
    return {
        "closure": (tg.checkpoint(lambda x: x * rng.normal(size=4)), lambda: rng.random()),
        "default": (tg.checkpoint(lambda x, rng=rng: x * rng.normal(size=4)), lambda: rng.random()),
        "RandomState": (tg.checkpoint(lambda x: x * old.normal(size=4)), lambda: old.rand()),
        "its method": (tg.checkpoint(lambda x: x * draw(size=4)), lambda: draw()),
        "attribute": (tg.checkpoint(noisy.step), lambda: noisy.rng.random()),
        "in a list of an object": (tg.checkpoint(lambda x: x * holding.rngs[0].normal(size=4)), lambda: holding.rngs[0].random()),
        "argument": (lambda x: with_argument(x, rng), lambda: rng.random()),
        "np.random": (tg.checkpoint(lambda x: x * np.random.normal(size=4)), lambda: np.random.rand()),
        "random": (tg.checkpoint(lambda x: x * random.random()), lambda: random.random()),
        "random.Random": (tg.checkpoint(lambda x: x * local.random()), lambda: local.random()),
        "nested": (tg.checkpoint(tg.checkpoint(lambda x: x * rng.normal(size=4))), lambda: rng.random()),
        "nested in a function": (
            tg.checkpoint(lambda x, inner=tg.checkpoint(lambda x: x * rng.normal(size=4)): inner(x) * rng.normal(size=4)),
            lambda: rng.random(),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", drawing())
def test_value_and_gradient_are_of_one_draw(name):
    step, draw = drawing()[name]
    np.random.seed(0)
    random.seed(0)
    local.seed(0)
    for graph in (False, True):
        x, z = leaf(np.ones(4)), leaf(np.ones(4))
        y, other = step(x), step(z)
        draw()
        (g,) = tg.autograd.grad(np.sum(y), x, create_graph=graph)
        (h,) = tg.autograd.grad(np.sum(other), z, create_graph=graph)
        np.testing.assert_array_equal(g.numpy(), y.numpy())
        np.testing.assert_array_equal(h.numpy(), other.numpy())
        assert not np.array_equal(y.numpy(), other.numpy())


@pytest.mark.parametrize("name", drawing())
def test_the_stream_goes_on_as_without_the_way_back(name):
    after = []
    for backward in (False, True):
        step, draw = drawing()[name]
        np.random.seed(0)
        random.seed(0)
        local.seed(0)
        y = np.sum(step(leaf(np.ones(4))))
        first = draw()
        if backward:
            y.backward()
        after.append((first, draw()))
    assert after[0] == after[1]


def test_forward_mode_is_of_one_draw():
    rng = np.random.default_rng(0)
    step = tg.checkpoint(lambda x: x * rng.normal(size=4))
    value, tangent = tg.jvp(step, (np.ones(4),), (np.ones(4),))
    np.testing.assert_array_equal(value, tangent)
    step = tg.checkpoint(lambda x: x * rng.normal(size=4))
    after = rng.bit_generator.state
    rng = np.random.default_rng(0)
    rng.normal(size=4)
    assert rng.bit_generator.state == after


def test_the_generator_of_this_library_is_put_back_too():
    """Dropout draws from it."""
    tg.manual_seed(3)
    x = tg.tensor(np.arange(1.0, 9.0), requires_grad=True)
    y = tg.checkpoint(lambda x: tg.nn.functional.dropout(x * x, 0.5))(x)
    tg.manual_seed(4)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 2.0 * y.numpy() / x.numpy())
    expected = tg.manual_seed(4).random()
    assert tg.manual_seed(4).random() == expected


@pytest.mark.parametrize("transform", ["vjp", "linearize"])
def test_a_function_that_draws_is_run_again_with_the_same_numbers(transform):
    rng = np.random.default_rng(0)
    value, linear = getattr(tg, transform)(lambda x: x * x * rng.normal(), 2.0)
    after = rng.bit_generator.state
    slope = linear(1.0)
    slope = slope[0] if transform == "vjp" else slope
    assert np.isclose(slope, value)

    def pulled(seed):
        pulled = linear(seed)
        return pulled[0] if transform == "vjp" else pulled

    assert np.isclose(tg.grad(pulled)(3.0), value) and np.isclose(tg.grad(pulled)(4.0), value) and rng.bit_generator.state == after


@pytest.mark.parametrize("transform", [tg.vjp, tg.linearize])
def test_a_function_that_is_run_again_reads_attributes_and_counts_as_at_the_call(transform):
    layer, rates = Layer(), types.SimpleNamespace(rate=2.0)
    value, linear = transform(lambda x: layer.counted(x) * x * rates.rate, 3.0)
    slope = tg.grad(lambda seed: sum(linear(seed)) if transform is tg.vjp else linear(seed))
    assert (value, slope(1.0), slope(1.0), layer.t) == (18.0, 12.0, 12.0, 1)
    rates.rate = 5.0
    with pytest.raises(ModifiedInPlaceError, match="rates.rate"):
        slope(1.0)


def test_a_generator_is_where_it_was_after_an_error_too():
    rng, layer = np.random.default_rng(0), Layer()

    y = tg.checkpoint(lambda x: np.sum(x * layer.w) * rng.random())(leaf())
    layer.w[0] = 5.0
    before = rng.bit_generator.state
    with pytest.raises(ModifiedInPlaceError):
        y.backward()
    assert rng.bit_generator.state == before
