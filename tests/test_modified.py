"""Memory that a derivative reads, written to between forward and backward: refused by name, or the old values count."""

import gc

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy
from tapegrad.common.errors import ModifiedInPlaceError
from tests.every import every


def _leaf_of(base):
    return tg.from_numpy(base).requires_grad_()


def _thaw(array):
    """The array writeable, if NumPy lets one have it so; else a copy."""
    try:
        array.flags.writeable = True
    except ValueError:
        return array.copy()
    return array


#: Ways to a leaf and to an array that shares its memory.
DOORS = {
    "from_numpy": lambda: (lambda b: (_leaf_of(b), b))(np.arange(1.0, 4.0)),
    "from_numpy of a slice": lambda: (lambda b: (_leaf_of(b[1:4]), b[1:4]))(np.arange(0.0, 6.0)),
    "from_numpy with steps": lambda: (lambda b: (_leaf_of(b[::2]), b[::2]))(np.arange(0.0, 6.0)),
    "from_numpy of float32": lambda: (lambda b: (_leaf_of(b), b))(np.arange(1.0, 4.0, dtype="f")),
    "from_numpy of a buffer": lambda: (lambda b: (_leaf_of(b), b))(np.frombuffer(bytearray(np.arange(1.0, 4.0).tobytes()))),
    "detach().numpy()": lambda: (lambda x: (x, x.detach().numpy()))(tg.tensor([1.0, 2.0, 3.0], requires_grad=True)),
    "data.numpy()": lambda: (lambda x: (x, x.data.numpy()))(tg.tensor([1.0, 2.0, 3.0], requires_grad=True)),
    "detach()[...].numpy()": lambda: (lambda x: (x, x.detach()[0:].numpy()))(tg.tensor([1.0, 2.0, 3.0], requires_grad=True)),
    "numpy() before requires_grad_": lambda: (lambda t: (lambda a: (t.requires_grad_(), a))(t.numpy()))(tg.tensor([1.0, 2.0, 3.0])),
    "Parameter of a tensor": lambda: (lambda t: (tg.Parameter(t), t.numpy()))(tg.tensor([1.0, 2.0, 3.0])),
    "numpy() thawed": lambda: (lambda x: (x, _thaw(x.numpy())))(tg.tensor([1.0, 2.0, 3.0], requires_grad=True)),
}
#: Computations of a leaf that read its value on the way back.
USES = {
    "square": lambda x: np.sum(x * x),
    "cube": lambda x: np.sum(x * x * x),
    "slice": lambda x: np.sum(x[1:] * x[:-1]),
    "reshape": lambda x: np.sum(np.reshape(x, (3, 1)) * np.reshape(x, (1, 3))),
    "dot": lambda x: x @ x,
    "exp of a view": lambda x: np.sum(np.sin(x[::-1])),
    "take": lambda x: np.sum(x[[0, 2]] * x[[1, 1]]),
}


def _refused_or(expected, call):
    """`call` gives the expected gradient or raises, naming what was changed."""
    try:
        found = call()
    except ModifiedInPlaceError as error:
        assert "modified by an inplace operation" in str(error)
        return
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def _gradient(f, value):
    return tg.grad(f)(np.array(value))


@every("use", USES)
@every("door", DOORS)
def test_leaf_written_to_behind_the_library(door, use):
    x, array = DOORS[door]()
    expected = _gradient(USES[use], x.detach().numpy().copy())
    y = USES[use](x)
    array[1] = 50.0

    def backward():
        y.backward()
        return x.grad.numpy()

    _refused_or(expected, backward)


@pytest.mark.parametrize("use", USES)
def test_memory_handed_out_after_the_forward_pass(use):
    for hand_out in (lambda x: x.detach().numpy(), lambda x: x.data[1:].numpy(), lambda x: _thaw(x.numpy())):
        x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = USES[use](x)
        hand_out(x)[-1] = 50.0

        def backward(x=x, y=y):
            y.backward()
            return x.grad.numpy()

        _refused_or(_gradient(USES[use], [1.0, 2.0, 3.0]), backward)


@pytest.mark.parametrize("hand_out", [lambda y: y.numpy(), lambda y: y.detach().numpy(), lambda y: y.data.numpy(), lambda y: y[1:].numpy()])
def test_memory_of_results(hand_out):
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2.0
    z = np.sum(y * y)
    array = _thaw(hand_out(y))
    array[-1] = 100.0
    z.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [8.0, 16.0, 24.0])


@every("write", [
    lambda x: x.mul_(10.0), lambda x: x[1:].mul_(10.0), lambda x: x.T.mul_(10.0), lambda x: x.reshape(-1).zero_(),
    lambda x: np.squeeze(x).zero_(), lambda x: x.detach().zero_(), lambda x: x.detach().detach().zero_(), lambda x: x.data.data[1:].zero_(),
    lambda x: x.ravel().fill_(7.0), lambda x: x.detach().T.add_(5.0), lambda x: x.reshape(-1).numpy().fill(0.0),
])  # fmt: skip
@every("use", USES)
def test_leaf_written_to_under_no_grad(use, write):
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = USES[use](x)
    with tg.no_grad():
        write(x)

    def backward():
        y.backward()
        return x.grad.numpy()

    _refused_or(_gradient(USES[use], [1.0, 2.0, 3.0]), backward)


def test_leaf_that_is_gone():
    w = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    for share, write in ((lambda x: x.detach(), lambda d: d.zero_()), (lambda x: x.detach().numpy(), lambda a: a.fill(0.0))):
        x = tg.tensor([4.0, 5.0, 6.0], requires_grad=True)
        shared = share(x)
        y = np.sum(x * w)
        del x
        gc.collect()
        write(shared)

        def backward(y=y):
            w.grad = None
            y.backward()
            return w.grad.numpy()

        _refused_or([4.0, 5.0, 6.0], backward)


def test_tensor_that_a_parameter_shares_memory_with():
    for write in (lambda t: t.zero_(), lambda t: t[1:].fill_(3.0)):
        t = tg.tensor([1.0, 2.0, 3.0])
        p = tg.Parameter(t)
        y = np.sum(p * p)
        write(t)

        def backward(p=p, y=y):
            y.backward()
            return p.grad.numpy()

        _refused_or([2.0, 4.0, 6.0], backward)


@pytest.mark.parametrize("route", ["create_graph", "retained", "autograd.grad", "Tape", "grad_fn", "second derivative"])
def test_all_passes_look(route):
    base = np.arange(1.0, 4.0)
    x = _leaf_of(base)
    with tg.Tape():
        y = np.sum(x * x * x)

    def backward():
        if route == "create_graph":
            y.backward(create_graph=True)
            return x.grad.detach().numpy()
        if route == "autograd.grad":
            return tg.autograd.grad(y, x)[0].numpy()
        if route == "grad_fn":
            (g,) = y.grad_fn(tg.tensor(1.0)),
            g = y.grad_fn.next_functions[0][0](g)[1]
            return g.numpy() * 3.0
        y.backward()
        return x.grad.numpy()

    if route == "retained":
        y.backward(retain_graph=True)
        x.grad = None
    if route == "second derivative":
        x.grad = None
        y = np.sum(x * x * x)
        y.backward(create_graph=True)
        g, x.grad = x.grad, None
        base[1] = 50.0

        def second():
            np.sum(g).backward()
            return x.grad.numpy()

        return _refused_or([6.0, 12.0, 18.0], second)
    base[1] = 50.0
    _refused_or([3.0, 12.0, 27.0], backward)


def _vjp(f, at):
    return lambda pullback=tg.vjp(f, at)[1]: pullback(1.0)[0]


def _vjp_tracked(f, at):
    pullback = tg.vjp(f, at)[1]
    return lambda: pullback(tg.tensor(1.0, requires_grad=True))[0].detach().numpy()


def _linearize(f, at):
    push = tg.linearize(f, at)[1]
    return lambda: np.array([push(row) for row in np.eye(3)])


def _linearize_tracked(f, at):
    push = tg.linearize(f, at)[1]
    return lambda: np.array([push(tg.tensor(row, requires_grad=True)).detach().numpy() for row in np.eye(3)])


def _vjp_of_tensor(f, at):
    pullback = tg.vjp(f, tg.tensor(at, requires_grad=True))[1]
    return lambda: pullback(1.0)[0].detach().numpy()


def _linearize_of_tensor(f, at):
    push = tg.linearize(f, tg.tensor(at, requires_grad=True))[1]
    return lambda: np.array([push(row).detach().numpy() for row in np.eye(3)])


WAYS = [_vjp, _vjp_tracked, _linearize, _linearize_tracked, _vjp_of_tensor, _linearize_of_tensor]


@every("way", WAYS)
@every("size", [3, 3000])
@every("what", ["array", "Fortran", "tensor", "leaf", "matrix"])
def test_captured_array_changed_before_the_pullback(way, what, size):
    n = size // 3
    W = np.ones((n, 3))
    if what == "Fortran":
        W = np.asfortranarray(W)
    held = tg.from_numpy(W) if what == "tensor" else _leaf_of(W) if what == "leaf" else W
    f = (lambda x: np.sum(held @ (x * x)) / n) if what == "matrix" else (lambda x: np.sum(held * x * x) / n)
    derivative = way(f, np.ones(3))
    W[:] = 2.0
    _refused_or([2.0, 2.0, 2.0], derivative)


@pytest.mark.parametrize("way", WAYS)
def test_argument_changed_before_the_pullback(way):
    at = np.ones(3)
    derivative = way(lambda x: np.sum(x * x * x), at)
    at[:] = 5.0
    np.testing.assert_array_equal(derivative(), [3.0, 3.0, 3.0])


@pytest.mark.parametrize("make, index", [
    (lambda x, i: x[i], [0, 2]), (lambda x, i: np.take(x, i), [0, 2]), (lambda x, i: np.take_along_axis(x, i, 0), [0, 2, 2]),
    (lambda x, i: np.where(i, x, 2.0 * x), [True, False, True]), (lambda x, i: x[i], [True, False, True]),
    (lambda x, i: np.compress(i, x), [True, False, True]), (lambda x, i: np.choose(i, [x, 2.0 * x]), [0, 1, 0]),
    (lambda x, i: np.repeat(x, i), [1, 2, 1]),
])  # fmt: skip
def test_index_arrays(make, index):
    i = np.array(index)
    expected = _gradient(lambda x: np.sum(make(x, np.array(index)) ** 2), [1.0, 2.0, 3.0])
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = np.sum(make(x, i) ** 2)
    i[0] = not i[0] if i.dtype == bool else 1 - i[0]

    def backward():
        y.backward()
        return x.grad.numpy()

    _refused_or(expected, backward)


@pytest.mark.parametrize("by", ["older view", "thawed", "thawed and frozen again", "view of a frozen one"])
def test_frozen_constants(by):
    W = np.arange(1.0, 4.0)
    view = W[:]
    W.flags.writeable = False
    given = W[:] if by == "view of a frozen one" else W
    x = tg.tensor(np.ones(3), requires_grad=True)
    y = np.sum(given * x * x)
    if by == "older view" or by == "view of a frozen one":
        view[:] = 7.0
    else:
        W.flags.writeable = True
        W[:] = 7.0
        W.flags.writeable = by == "thawed"

    def backward():
        y.backward()
        return x.grad.numpy()

    _refused_or([2.0, 4.0, 6.0], backward)


def test_custom_primitive_whose_function_keeps_what_it_is_handed():
    kept = []
    square = tg.primitive(lambda x: (kept.append(x), x * x)[1])
    tg.custom_vjp(square, lambda g, result, x: (2.0 * g * x,))
    x = tg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = np.sum(square(x * 1.0))
    _thaw(kept[0])[:] = 9.0
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0, 6.0])


@pytest.mark.parametrize("door", ["from_numpy", "detach().numpy()", "data.numpy()", "Parameter of a tensor"])
def test_writing_between_steps_is_allowed(door):
    x, array = DOORS[door]()
    other = tg.tensor(1.0, requires_grad=True)
    alive = np.exp(other) * other  # keeps the tape
    for _ in range(4):
        x.grad = None
        y = np.sum(x * x)
        y.backward()
        np.testing.assert_array_equal(x.grad.numpy(), 2.0 * array)
        array -= 0.25 * x.grad.numpy()
    alive.backward()


def test_error_names_the_variable():
    base = np.arange(3.0)
    weights = _leaf_of(base)
    y = np.sum(weights * weights)
    base[1] = 5.0
    with pytest.raises(ModifiedInPlaceError, match="'weights'"):
        y.backward()


def _written(w, k):
    w[:] = k


def _view_written(w, k):
    v = w[1:]
    v[:] = k


def _added(w, k):
    w[: len(w) // 2] += k


def _of_a_column(w, x):
    columns = np.broadcast_to(w[:, None], (len(w), 2))
    return np.sum(columns.T * (x * x))


WRITES = [_written, _view_written, _added, lambda w, k: np.add(w, k, out=w)]
READS = [
    lambda w, x: np.sum(w * x * x), lambda w, x: np.sum(w[1:] * x[1:] ** 2), lambda w, x: np.sum(w[::-1] * x**2), lambda w, x: np.sum(w[::2] * x[::2] ** 2),
    lambda w, x: np.dot(w, x * x), _of_a_column,
]  # fmt: skip
MAKERS = {
    "NumPy": np.zeros, "tg": tg.zeros, "tensor": lambda n: tg.tensor(np.zeros(n)), "computed": lambda n: tg.ones(n) - 1.0, "tapegrad.numpy": tapegrad.numpy.zeros,
    "strided": lambda n: np.zeros((n, 2))[:, 1], "Fortran": lambda n: np.zeros((2, n), order="F")[0], "backwards": lambda n: np.zeros(n)[::-1],
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("size", [6, 2000])
def test_constant_used_overwritten_and_used_again(maker, size):
    x, d, make = np.linspace(0.5, 1.5, size), np.cos(np.arange(size)), MAKERS[maker]
    for write in WRITES:
        for read in READS:
            for written_before in (True, False):

                def loss(x, make=make, write=write, read=read, written_before=written_before):
                    w, total = make(size), 0.0
                    if written_before:
                        write(w, 0.5)
                    for k in (1.0, 2.0, 3.0):
                        total = total + read(w, x)
                        write(w, k)
                    return total + read(w, x)

                expected = (loss(x + 1e-5 * d, np.zeros) - loss(x - 1e-5 * d, np.zeros)) / 2e-5
                first = tg.grad(loss), lambda x, loss=loss: tg.vjp(loss, x)[1](1.0)[0]
                second = lambda x, loss=loss: tg.hessian(loss)(x) @ x if size < 100 else tg.grad(loss)(x)  # noqa: E731
                for gradient in (*first, second):
                    try:
                        found = gradient(x) @ d
                    except ModifiedInPlaceError:
                        assert size > 100 and maker in ("NumPy", "strided", "Fortran", "backwards")
                        continue
                    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_constants_that_share_memory_stay_together():
    """What tapes keep are copies: a view, and an array that shares memory, see each write."""
    x = np.linspace(0.5, 1.5, 2000)

    def function(x, probe):
        base = np.zeros(2000)
        w = tg.from_numpy(base) if probe else tg.zeros(2000)
        view, total = w[5:10], np.sum(w * x)
        w[:] = 2.0
        assert view[0].item() == 2.0 and (base[7] == 2.0) == probe
        total = total + np.sum(w * x * x) + np.sum(view * x[5:10])
        view[:] = 7.0
        assert w[6].item() == 7.0
        return total + np.sum(w * x)

    inside = np.zeros(2000)
    inside[5:10] = 1.0
    for probe in (False, True):
        np.testing.assert_allclose(tg.grad(function)(x, probe), 4.0 * x + 2.0 * inside + 2.0 + 5.0 * inside)


def test_only_memory_that_was_handed_out_is_watched():
    x = tg.tensor(np.ones(3), requires_grad=True)
    with tg.Tape() as tape:
        np.sum(np.exp(x) * x * np.sin(x[1:2]))
        assert len(tape.store.watched) == 0


@pytest.mark.parametrize("through", [tg.vjp, tg.linearize])
@pytest.mark.parametrize("derived", [lambda w: w + 1.0, lambda w: w * 2.0, np.exp, lambda w: w.copy(), lambda w: w.sum()], ids=range(5))
def test_what_is_made_of_a_captured_array_is_of_its_time_where_the_function_runs_again(through, derived):
    W, x = np.ones(3), np.array([1.0, 2.0, 3.0])
    f = lambda x: derived(W) * x * x  # noqa: E731
    expected = derived(W) * 2.0 * x
    _, call = through(f, x)
    t = tg.tensor(np.ones(3), requires_grad=True)
    first = call(t)
    np.testing.assert_allclose(np.asarray((first[0] if isinstance(first, tuple) else first).detach()), expected)
    W[1] += 1.0
    with pytest.raises(ModifiedInPlaceError, match="'W', which '<lambda>' reads, has changed"):
        call(t)


@pytest.mark.parametrize("through", [tg.vjp, tg.linearize])
def test_a_number_of_the_closure_is_what_it_was_where_the_function_runs_again(through):
    scale = 2.0
    _, call = through(lambda x: scale * x * x, 3.0)
    scale = 5.0
    result = call(tg.tensor(1.0, requires_grad=True))
    assert (result[0] if isinstance(result, tuple) else result).item() == 12.0
