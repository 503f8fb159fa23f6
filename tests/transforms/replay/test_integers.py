"""Arrays of integers and booleans are inputs of a recording: other contents replay, with other results."""

import itertools

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.array.whole import IntTensor
from tests.every import every, pairs
from tests.transforms.replay import integer_programs as programs

X = np.array([0.7, 1.3, 0.9, 1.1])


def recorded(function, kernel):
    """Value and gradient of `function`, replayed."""
    return tg.jit(tg.value_and_grad(function), kernel=kernel)


def differences(function, x, *others):
    steps = 1e-6 * np.eye(x.size).reshape(x.size, *x.shape)
    return np.array([(function(x + h, *others) - function(x - h, *others)) / 2e-6 for h in steps]).reshape(x.shape)


def agrees(g, function, x, *others):
    value, gradient = g(x, *others)
    np.testing.assert_allclose(value, function(x, *others), rtol=1e-12)
    np.testing.assert_allclose(gradient, differences(function, x, *others), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("function", programs.FUNCTIONS, ids=lambda f: f.__name__)
def test_other_labels_give_other_results(function, kernel):
    g = recorded(function, kernel)
    for labels in programs.CONTENTS:
        l = np.array(labels)
        agrees(g, function, X, l)
        assert l.tolist() == labels
    stats = g.stats()
    assert not stats.fallback
    if function in programs.BY_CONTENT:
        assert stats.tapes == len(programs.CONTENTS)
    elif function in programs.BY_NUMBER:
        assert 1 < stats.tapes < len(programs.CONTENTS)
    else:
        assert stats.tapes == 1
        assert bool(stats.kernel_calls) == (kernel == "always")


@pytest.mark.parametrize("kernel", ["never", "always"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_every_width_of_integers(dtype, kernel):
    def function(x, l):
        return programs.total(x[l]) + programs.total(x * l) + programs.total(np.where(l == 1, x, 0.0)) + programs.total(x - l.astype(float))

    g = recorded(function, kernel)
    for labels in programs.CONTENTS:
        agrees(g, function, X, np.array(labels, dtype))
    assert g.stats().tapes == 1 and bool(g.stats().kernel_calls) == (kernel == "always")


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_masks(kernel):
    def function(x, m):
        y = np.sin(x)
        y[m] = x[0]
        return programs.total(x[m]) + programs.total(np.where(m, x, -x * x)) + np.sum(m * x) + np.mean(x[~m]) + np.sum(m) * x[1] + programs.total(y)

    g = recorded(function, kernel)
    masks = [[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1]]
    for mask in masks:
        agrees(g, function, X, np.array(mask, bool))
    assert g.stats().tapes == 1 and bool(g.stats().kernel_calls) == (kernel == "always")
    agrees(g, function, X, np.array([1, 1, 1, 0], bool))
    assert g.stats().tapes == 2


@every("kernel", ["never", "always"])
@every("bad", [4, -5, 10**12, -(10**15)])
@every(
    "function",
    [
        lambda x, l: np.sum(x[l] ** 2),
        lambda x, l: np.sum(x * np.take(x, l)),
        lambda x, l: np.sum(np.take_along_axis(x, l, 0) * x),
        lambda x, l: np.sum(programs.outer(x)[np.arange(4), l] ** 2),
        lambda x, l: np.sum(x**2) + 0.0 * x[l][0],
        lambda x, l: (x[l], np.sum(x**2))[1],
    ],
)
def test_an_index_out_of_range_raises_as_in_numpy(function, bad, kernel):
    g = recorded(function, kernel)
    for labels in programs.CONTENTS:
        agrees(g, function, X, np.array(labels))
    l = np.array([0, 1, bad, 2])
    with pytest.raises(IndexError, match="is out of bounds for axis"):
        g(X, l)
    agrees(g, function, X, np.array([-1, -4, 0, 3]))
    assert g.stats().tapes == 1


@pytest.mark.parametrize("kernel", ["never", "always"])
def test_of_an_assignment_at_positions_that_coincide_the_last_one_counts_in_a_replay_too(kernel):
    def function(x, l):
        y = np.sin(x)
        y[l] = x
        return programs.total(y)

    g = recorded(function, kernel)
    for labels in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 3, 2], [2, -1, 1, 0], [0, 2, 1, 3], [3, 1, 2, 0]):
        agrees(g, function, X, np.array(labels))
    assert g.stats().tapes == 1
    for labels in ([0, 1, 1, 2], [0, 1, 2, -4], [3, 3, 3, 3], [2, 0, 2, 0]):
        agrees(g, function, X, np.array(labels))
    with pytest.raises(IndexError, match="out of bounds"):
        g(X, np.array([0, 1, 2, 10**9]))
    assert g.stats().tapes == 2 and bool(g.stats().kernel_calls) == (kernel == "always")


def test_an_index_that_fails_in_a_try_is_a_decision():
    def function(x, l):
        try:
            return programs.total(x[l])
        except IndexError:
            return np.sum(x)

    g = recorded(function, "never")
    for labels in ([0, 1], [0, 9], [1, 2], [0, 9], [3, 3], [9, 9]):
        agrees(g, function, X, np.array(labels))


def test_labels_in_containers_and_keywords():
    def function(parameters, batch, *, groups):
        return programs.total(parameters["w"][batch[0]]) + programs.total(parameters["w"] * groups)

    g = recorded(function, "never")
    for k in range(5):
        labels, groups = np.array(programs.CONTENTS[k]), np.array(programs.CONTENTS[k + 1], np.int32)
        value, gradient = g({"w": X}, (labels, 1.5), groups=groups)
        assert value == pytest.approx(function({"w": X}, (labels, 1.5), groups=groups))
        expected = differences(lambda w, a, b: function({"w": w}, (a, 1.5), groups=b), X, labels, groups)
        np.testing.assert_allclose(gradient["w"], expected, atol=1e-6)
    assert g.stats().tapes == 1


def test_arrays_of_any_layout():
    g = recorded(programs.elements, "never")
    for labels in programs.CONTENTS:
        agrees(g, programs.elements, X, np.array([labels, labels]).T[:, 0])
    assert g.stats().tapes == 1


def test_transformations_of_functions_with_labels():
    def function(x, l):
        return np.sin(x[l]) * l

    def hessian_by_differences(x, l):
        one = lambda y: programs.total(np.sin(y[l]) * l)  # noqa: E731
        return np.array([(differences(one, x + h) - differences(one, x - h)) / 2e-3 for h in 1e-3 * np.eye(4)])

    jacobian, hessian = tg.jacobian(function), tg.hessian(lambda x, l: programs.total(function(x, l)))
    for labels in programs.CONTENTS:
        l = np.array(labels)
        expected = np.zeros((4, 4))
        expected[np.arange(4), l] = np.cos(X[l]) * l
        np.testing.assert_allclose(jacobian(X, l), expected, atol=1e-12)
        np.testing.assert_allclose(hessian(X, l), hessian_by_differences(X, l), atol=1e-3)


def test_derivatives_inside():
    def function(x, l):
        return programs.total(tg.grad(lambda y, m: programs.total(np.sin(y[m]) * y))(x, l))

    g = recorded(function, "never")
    for labels in programs.CONTENTS:
        l = np.array(labels)
        inner = tg.grad(lambda y, m: programs.total(np.sin(y[m]) * y))
        expected = differences(lambda x, m: programs.total(inner(x, m)), X, l)
        np.testing.assert_allclose(g(X, l)[1], expected, atol=1e-4)
    assert g.stats().tapes == 1


def test_labels_are_not_changed_for_the_caller():
    def function(x, l):
        l += 1
        return np.sum(x[l])

    l = np.array([0, 1])
    with pytest.raises(tg.errors.GradientError, match="changed in place"):
        recorded(function, "never")(X, l)
    assert l.tolist() == [0, 1]


def test_labels_that_are_not_differentiated_have_no_gradient():
    with pytest.raises(tg.errors.DtypeError, match="no derivative"):
        tg.grad(lambda l: np.sum(l * 1.0))(np.array([1, 2]))


def test_results_of_integers():
    g = tg.value_and_grad(lambda x, l: (np.sum(x[l]), l * 2), has_aux=True)
    for labels in programs.CONTENTS:
        (_, doubled), _ = g(X, np.array(labels))
        assert np.asarray(doubled).tolist() == [2 * v for v in labels]


def test_what_define_by_run_gets_is_a_plain_array():
    def function(x, l):
        assert isinstance(l, np.ndarray) or isinstance(l, IntTensor)
        programs_run.append(type(l))
        try:
            return np.sum(x[l])
        except ArithmeticError:
            return x[0]

    programs_run = []
    g = recorded(function, "never")
    for labels in programs.CONTENTS:
        g(X, np.array(labels))
    assert programs_run[0] is IntTensor and set(programs_run[1:]) == {np.ndarray}


@pytest.mark.parametrize("peer", ["autograd", "jax"])
def test_beside_others(peer):
    library = pytest.importorskip(peer)
    numpy = pytest.importorskip(f"{peer}.numpy")
    if peer == "jax":
        library.config.update("jax_enable_x64", True)

    def loss(xp):
        def function(w, data, l):
            scores = data @ w
            scores = scores - xp.max(scores, axis=1, keepdims=True)
            picked = scores[xp.arange(len(data)), l] - xp.log(xp.sum(xp.exp(scores), axis=1))
            return -xp.mean(picked) + 0.01 * xp.sum(w * w)

        return function

    rng = np.random.default_rng(0)
    g, other = recorded(loss(np), "always"), library.grad(loss(numpy))
    for _ in range(6):
        w, data, l = rng.standard_normal((5, 3)), rng.standard_normal((8, 5)), rng.integers(0, 3, 8)
        np.testing.assert_allclose(g(w, data, l)[1], other(w, data, l), rtol=1e-10, atol=1e-12)
    assert g.stats().tapes == 1 and g.stats().kernel_calls


def some_key(rng, shape):
    """A random key for arrays of `shape`, with functions that draw in the place of integer arrays."""
    joint, key, axes, dots = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist()), [], 0, False
    while axes < len(shape):
        extent = 1 if dots else shape[axes]
        part = [None, Ellipsis, slice(None, None, int(rng.choice([1, -1, 2]))), int(rng.integers(-extent, extent)), "drawn", "drawn", "drawn"][
            rng.integers(7)
        ]
        if part is Ellipsis and dots:
            continue
        if part == "drawn":
            part = lambda e=extent, s=joint[rng.integers(len(joint) + 1) :]: rng.integers(-e, e, s)  # noqa: E731
        axes += 0 if part is None else rng.integers(len(shape) - axes + 1) if part is Ellipsis else 1
        dots = dots or part is Ellipsis
        key.append(part)
    return key


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_every_form(seed):
    rng, tried = np.random.default_rng(seed), 0
    while tried < 30:
        shape = tuple(rng.integers(1, 4, rng.integers(1, 4)).tolist())
        key = some_key(rng, shape)
        x, drawn = rng.standard_normal(shape), [part for part in key if callable(part)]

        def at(integers, key=key):
            remaining = iter(integers)
            return tuple([next(remaining) if callable(part) else part for part in key])

        g = recorded(lambda x, *integers: programs.total(x[at(integers)]), "always" if tried % 6 == 0 else "never")  # noqa: B023
        if not drawn:
            continue
        for _ in range(5):
            integers = [draw() for draw in drawn]
            picked, expected = x[at(integers)], np.zeros(shape)
            np.add.at(expected, at(integers), 2.0 * picked * programs.WEIGHTS[: picked.size].reshape(picked.shape))
            value, gradient = g(x, *integers)
            np.testing.assert_allclose(value, programs.total(picked), rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(gradient, expected, atol=1e-12)
        assert g.stats().tapes == 1 and not g.stats().fallback
        tried += 1


#: What functions without derivative make of a mask or of integers: numbers, which are factors of what is differentiated.
REDUCED = {
    "mean": np.mean, "std": np.std, "median": np.median, "half of the sum": lambda m: np.sum(m) / 2, "norm": lambda m: np.linalg.norm(m * 1),
    "root": lambda m: np.sqrt(np.count_nonzero(m) + 0.5), "average": lambda m: np.average(m * 1, weights=[1, 2, 3]),
    "product with floats": lambda m: (m * 1) @ np.array([0.5, -1.0, 2.0]), "mean of a cumulated sum": lambda m: np.mean(np.cumsum(m)),
    "interpolated": lambda m: np.interp(np.argmax(m), [0, 2], [1.0, 3.0]), "sum": np.sum, "any": np.any, "argmax": np.argmax,
    "largest of sorted": lambda m: np.sort(m)[-1], "times a number that is an array": lambda m: np.mean(m) * np.array(0.7),
}  # fmt: skip
MASKS = [lambda v: (v > -0.2) & (v < 1.0), lambda v: np.floor(2.0 * v).astype(int), lambda v: np.argsort(v)]
DERIVATIVES = {
    "columns": tg.jacfwd, "hessian": tg.hessian, "rows of a gradient": lambda f: tg.jacrev(tg.grad(f)), "columns of a gradient": lambda f: tg.jacfwd(tg.grad(f)),
    "tangents of a gradient": lambda f: lambda x: tg.jvp(tg.grad(f), (x,), (1.3,))[1], "lanes": lambda f: lambda x: tg.vmap(tg.grad(f))(x * np.array([1.0, -0.6])),
    "linearized": lambda f: lambda x: tg.linearize(tg.grad(f), x)[1](1.3),
}  # fmt: skip


@every("name, what, k", pairs(DERIVATIVES, REDUCED, range(len(MASKS))))
def test_numbers_made_of_masks_are_factors_in_every_derivative(name, what, k):
    def f(x):
        return np.cos(1.3 * REDUCED[what](MASKS[k](np.stack([x, 0.5, x * x - 0.4]))) * x) + x**3

    plain, recorded = DERIVATIVES[name](f), tg.jit(DERIVATIVES[name](f), kernel="never")
    for x in (-1.444, 0.3, 0.9):
        np.testing.assert_allclose(recorded(x), plain(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("x", [np.float32(0.5), np.array([0.5, -0.25], "f"), 0.5, np.array([0.5, -0.25])])
def test_a_constant_without_axes_is_a_number_in_every_derivative(x):
    """In float32 the exponent of ``x ** 3`` is such a constant where the gradient is differentiated."""
    for f in (lambda x: np.sum(x**3), lambda x: np.sum(np.power(x, np.array(3.0))), lambda x: np.sum(np.exp(np.array(0.7) * x) / np.array(1.7))):
        for transformation in (tg.hessian, lambda f: tg.jacfwd(tg.grad(f)), lambda f: tg.jacrev(tg.grad(f))):
            plain, recorded = transformation(f), tg.jit(transformation(f), kernel="never")
            for at in (x, x * x):
                np.testing.assert_allclose(recorded(at), plain(at), rtol=1e-6 if np.asarray(x).dtype == np.float32 else 1e-13)
        np.testing.assert_allclose(tg.linearize(tg.grad(f), x)[1](x), tg.jvp(tg.grad(f), (x,), (x,))[1], rtol=1e-6)


DTYPES = "?bHlefd"
#: Numbers that carry no derivative, made of an array of a dtype: without axes or with them, in half, single or double precision.
MADE = {
    "a sine": lambda k: np.sin(k[0] if k.dtype.kind != "b" else k[0] * 1), "sines": np.sin, "the mean": np.mean, "the sum": np.sum,
    "a sine of the sum": lambda k: np.sin(np.sum(k)), "one of the sines": lambda k: np.exp(0.3 * np.sin(k)[0]), "itself": lambda k: k,
    "without axes": lambda k: k[0].reshape(()), "a truth value": lambda k: k[0] > 1, "cast": lambda k: k.astype("f")[0] / 3,
}  # fmt: skip
THIRD = {**DERIVATIVES, "third": lambda f: tg.jacrev(tg.hessian(f)), "third by columns": lambda f: tg.jacfwd(tg.hessian(f))}


def with_numbers(x, number):
    return np.sum(np.cos(1.3 * number * x) + x**3 / (number + 2.5) + np.where(number > 0.5, x * x, number))


def in_a_loop(x, number):
    return tg.fori_loop(0, 2, lambda i, c: np.cos(c * np.max(number) + i) + with_numbers(c, np.min(number)), x)


#: Each way with each number, of integers and of floats, each dtype with each of them.
WITH_NUMBERS = [*pairs(THIRD, [with_numbers], MADE, "?bHl"), *pairs(THIRD, [with_numbers], MADE, "efd")]
IN_A_LOOP = itertools.product(("hessian", "third"), [in_a_loop], ("a sine", "cast"), DTYPES)


@pytest.mark.filterwarnings("ignore::tapegrad.errors.PathWarning", "ignore::tapegrad.errors.PerformanceWarning")
@every("name, of, what, char", [*WITH_NUMBERS, *IN_A_LOOP])
def test_numbers_of_every_dtype_are_what_they_are_without_jit(name, of, what, char):
    k, made = np.array([2, 1, 0]).astype(char), MADE[what]
    plain = THIRD[name](lambda x: of(x, made(k)))
    recorded = [
        tg.jit(THIRD[name](lambda x: of(x, made(k))), kernel="never"),
        tg.jit(lambda x, k: THIRD[name](lambda x: of(x, made(k)))(x), kernel="never"),
    ]
    for x in (0.3, 0.9):
        expected = plain(x)
        # Floats that are arguments promote as what is differentiated.
        for g, more in zip(recorded, ((),) if k.dtype.kind == "f" else ((), (k,))):
            np.testing.assert_allclose(g(x, *more), expected, rtol=1e-6 if char in "ef" or what == "sines" else 1e-12, atol=1e-8)


def test_half_precision_is_not_recorded():
    g = tg.jit(tg.grad(lambda x, k: x * x * np.sin(k[0])))
    with pytest.warns(tg.errors.PathWarning, match="it computes in float16"):
        assert g(0.5, np.array([1, 2], "b")) == np.float64(np.sin(np.int8(1)))
    assert g(0.5, np.array([1, 2], "b")) == np.float64(np.sin(np.int8(1))) and g.stats().fallback


def test_extended_precision_is_refused_where_it_meets_a_derivative():
    for f in (lambda x, k: x * np.sin(k.astype(np.longdouble)[0]), lambda x, k: x * np.mean(k, dtype=np.longdouble)):
        for g in (tg.grad(f), tg.jit(tg.grad(f))):
            with pytest.raises(tg.errors.DtypeError, match="extended precision|not float128|not longdouble"):
                g(0.5, np.array([1, 2]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: np.sum((x * 1j * k).imag),
        lambda x, k: np.sum((x + 1j * k[0]).imag * x),
        lambda x, k: np.sum((x * (k - 2j)).real * (x * (2j / k)).imag),
        lambda x, k: np.sum(((1 + 2j) ** k * x).imag),
        lambda x, k: np.sum((k ** (1 + 2j) * x).imag),
        lambda x, k: np.sum((k * (x * 1j)).imag),
        lambda x, k: np.sum((np.array([1j, 2]) * k * x).imag),
        lambda x, k: np.sum(np.multiply(k, 1j).imag * x),
    ],
)
def test_integers_beside_complex_numbers(function):
    x, compiled = np.array([1.5, 2.0]), tg.jit(tg.value_and_grad(function))
    for k in ([1, 2], [3, -1], [1, 2]):
        k = np.array(k)
        value, slope = compiled(x, k)
        assert np.allclose(value, function(x, k), rtol=1e-14) and np.allclose(slope, tg.grad(function)(x, k), rtol=1e-14)


def _masked(x):
    a = x * 1.0
    a[a > 0.35] = 0.2
    return np.sum(a * x)


def _scaled_where(x):
    a = x * 1.0
    a[a > 0.35] *= x[0]
    return np.sum(a * x)


def _written_constant(x):
    a = tg.ones(2)
    a[x > 0.35] = x[0]
    return np.sum(a * x)


def _through_a_view(x):
    a = tg.ones(2) * 2.0
    b = a[:]
    b[x > 0.35] *= x[1]
    return np.sum(a * x)


def _at_the_largest(x):
    a, k = tg.ones(3), np.argmax(x)
    a[k] = x[0]
    a[np.array([k, 2])] += x
    return np.sum(a * a)


def _added_at(x):
    a = tg.zeros(3)
    np.add.at(a, np.array([0, 1, 2])[np.flatnonzero(x > 0.35)], x[0])
    return np.sum(a * a * x[1])


WRITTEN = {
    "value": lambda f: f,
    "grad": tg.grad,
    "hessian": tg.hessian,
    "vjp": lambda f: lambda x: tg.vjp(f, x)[1](1.0)[0],
    "jvp": lambda f: lambda x: tg.jvp(f, (x,), (np.cos(x),))[1],
    "hessian inside": lambda f: lambda x: tg.hessian(f)(x),
    "hvp inside": lambda f: lambda x: tg.hvp(f)(x, np.cos(x)),
    "linearize": lambda f: lambda x: tg.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_at_computed_places_is_no_part_of_a_constant(name):
    for f in (_masked, _scaled_where, _written_constant, _through_a_view, _at_the_largest, _added_at):
        plain, recorded = WRITTEN[name](f), tg.jit(WRITTEN[name](f), kernel="never")
        for x in ([-0.6, 1.0], [0.7, -1.1], [-0.6, 1.0], [0.7, 0.8]):
            np.testing.assert_allclose(recorded(np.array(x)), plain(np.array(x)), rtol=1e-13, atol=1e-14, err_msg=f.__name__)


class Labelled(np.ndarray):
    """Of a class that calculates as NumPy does."""


def test_arrays_of_other_classes_are_read_at_each_call(tmp_path):
    """As those mapped from a file, or in another order of bytes: not only when they are first met, nor as the same object."""
    mapped = np.memmap(tmp_path / "numbers", np.int32, "w+", shape=2)
    inputs = mapped, np.array([0, 0]).view(Labelled), np.array([False, False]).view(Labelled), np.zeros(2, ">i4")
    masked = np.ma.array([1, 2], mask=[False, True])
    for array in (*inputs, masked):
        jitted = tg.jit(tg.value_and_grad(lambda x, k: x * float(np.asarray(k).sum()) if isinstance(k, np.ndarray) else x * np.sum(k)))
        for number in (1, 0, 1):
            array[...] = number
            assert jitted(2.0, array) == (2.0 * np.asarray(array).sum(), np.asarray(array).sum())
        # One that calculates in its own way arrives as it is.
        assert (jitted.stats().records == 1) is (array is not masked)
    masked.mask = [True, False]
    counted = tg.jit(lambda x, k: x * k.count())
    assert counted(1.0, masked) == 1.0
    masked.mask = False
    assert counted(1.0, masked) == 2.0


@pytest.mark.parametrize("derivative", [tg.grad, tg.jacobian, tg.hessian, tg.elementwise_grad])
def test_constant_tensors_of_integers_have_no_derivative(derivative):
    for t in (tg.tensor([1, 2]), tg.tensor([True, False])):
        for transformed in (derivative(lambda x: np.sum(x * 2.0)), tg.jit(derivative(lambda x: np.sum(x * 2.0)))):
            with pytest.raises(tg.errors.DtypeError, match="which has no derivative"):
                transformed(t)
