"""Cases of every structural row: calls of NumPy's (or tapegrad's) functions that record it.

Each case is ``(function, operands[, reference])``: the function takes tensors or
arrays; the reference, where `function` itself does not take arrays, is the same
function on arrays.
"""

import itertools

import numpy as np
import scipy.linalg
import scipy.special as special

import tapegrad as tg
import tapegrad.scipy.linalg as scipy_linalg
from tapegrad.array.record import apply
from tapegrad.common.tree import flatten
from tapegrad.rules.reductions import recurrence_value
from tapegrad.transforms.loops import running
from tests.rules.checker import generator

RNG = generator(6)
V = RNG.uniform(0.5, 2.0, 5)
M = RNG.uniform(0.5, 2.0, (3, 4))
C = RNG.uniform(0.5, 2.0, (2, 3, 4))
S = RNG.uniform(0.5, 2.0, (4, 4))
REGULAR = S + np.diag([1.0, 2.0, 4.0, 6.0])
STACK = np.stack([REGULAR, REGULAR.T[::-1, ::-1] + 1.0])
#: With no zero, one, and several in a line.
ZEROS = np.array([[1.0, 2.0, 0.5, 3.0], [1.0, 0.0, 2.0, 0.5], [0.0, 3.0, 0.0, 2.0]])
AXES = {
    (5,): [None, 0, -1, (0,), ()],
    (3, 4): [None, 0, 1, -1, -2, (0, 1), (1, 0), (-1, 0), (1,)],
    (2, 3, 4): [None, 0, 1, 2, -3, (0, 2), (2, 0), (1, 2), (0, 1, 2), (-1, -3)],
}


def reduction_cases(function, reference=None):
    found = []
    for x in (V, M, C):
        for axis in AXES[x.shape]:
            for keepdims in (False, True):
                found.append(
                    (
                        lambda t, a=axis, k=keepdims: function(t, axis=a, keepdims=k),
                        (x,),
                        lambda t, a=axis, k=keepdims: (reference or function)(t, axis=a, keepdims=k),
                    )
                )
    return found


def moment_cases(name):
    f = getattr(np, name)
    found = reduction_cases(f)
    for ddof in (0, 1, 2):
        for axis in (None, 0, -1, (0, 1)):
            found.append((lambda t, a=axis, d=ddof: f(t, axis=a, ddof=d), (M,)))
    return found


def norm_reference(x, axis=None, keepdims=False):
    return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))


MATMUL_SHAPES = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)),
    ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)),
    ((1, 2, 3), (5, 3, 4)), ((2, 1, 2, 3), (1, 3, 3, 2)), ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((1, 1), (1, 1)),
]  # fmt: skip


def array(shape, seed=0):
    return generator(seed).uniform(-1.0, 1.0, shape)


def assigned(x, v, key):
    """``x.copy()`` with ``[key] = v``, for arrays and tensors."""
    if isinstance(x, tg.Differentiable) or isinstance(v, tg.Differentiable):
        y = tg.as_tensor(x) * 1.0
    else:
        y = np.array(x)
    y[key] = v
    return y


BASIC_KEYS = {
    "int": (2,), "negative": (-1,), "pair": (1, -2), "slice": slice(1, 3), "step": slice(None, None, 2),
    "reversed": slice(None, None, -1), "backwards": (slice(3, 0, -2), slice(None, None, -1)), "ellipsis": (..., 1),
    "none": (None, slice(None), 0, None), "all": Ellipsis, "empty": slice(2, 2), "nothing": (),
    "mixed": (1, ..., slice(0, 3, 2)), "beyond": slice(-100, 100), "numpy int": (np.int64(1),),
}  # fmt: skip
ADVANCED_KEYS = {
    "list": [0, 2], "array": np.array([2, 0]), "negative array": np.array([-1, 0]), "matrix": np.array([[0, 1], [2, 3]]),
    "two arrays": (np.array([0, 1, 3]), np.array([1, 0, 3])), "arrays broadcast": (np.array([[0], [2]]), np.array([1, 3])),
    "mask": np.array([True, False, True, True]), "full mask": np.eye(4, dtype=bool), "no mask": np.zeros((4, 4), bool),
    "slice and array": (slice(1, 3), np.array([0, 2])), "array and slice": (np.array([0, 2]), slice(None, None, -2)),
    "int and array": (1, np.array([0, 2])), "array and none": (np.array([0, 1]), None), "mask and int": (np.array([True, False, True, True]), 1),
    "empty array": np.array([], int), "ellipsis and array": (..., np.array([3, 1])), "uint8": np.array([1, 2], np.uint8),
}  # fmt: skip
REPEATED_KEYS = {
    "repeated": np.array([0, 2, 0, 0]), "repeated pairs": (np.array([0, 0, 1]), np.array([1, 1, 1])),
    "repeated columns": (slice(None), [1, 1, 3]),
}  # fmt: skip


def index_cases(keys):
    return [(lambda t, k=k: t[k] * 1.5 if isinstance(t, tg.Differentiable) else t[k] * 1.5, (S,)) for k in keys.values()]


def assignment_cases(keys):
    found = []
    for key in keys.values():
        part = S[key]
        v = array(np.shape(part), 7)
        found.append((lambda x, v, k=key: assigned(x, v, k), (S, v)))
        found.append((lambda x, v, k=key: assigned(x, v, k), (S, 0.5)))
        found.append((lambda x, k=key, v=v: assigned(x, v, k), (S,)))
        found.append((lambda v, k=key: assigned(S, v, k), (v,)))
        if part.ndim and part.shape[-1] > 1:
            found.append((lambda x, v, k=key: assigned(x, v, k), (S, array(part.shape[-1:], 8))))
            if getattr(key, "dtype", None) == np.bool_:
                continue
            found.append((lambda x, v, k=key: assigned(x, v, k), (S, array((1, *part.shape[:-1], 1), 9))))
    return found


def bce(x, y, reduction="mean"):
    loss = np.logaddexp(0, x) - x * y
    return {"mean": np.mean, "sum": np.sum, "none": lambda a: a}[reduction](loss)


def log_softmax(x, axis=-1):
    return special.log_softmax(x, axis=axis)


CLASSES = np.array([0, 3, 1])


def cross_entropy(x, reduction):
    found = -log_softmax(x)[np.arange(3), CLASSES]
    return {"mean": np.mean, "sum": np.sum, "none": lambda a: a}[reduction](found)


def recurrence_cases():
    for operands in ((M, M[::-1] * ZEROS), (M, M[0]), (C, C * 0.5)):
        for axis, reverse, lag in itertools.product((0, 1), (False, True), (False, True)):
            k = dict(axis=axis, reverse=reverse, lag=lag)
            yield (
                lambda b, f, k=k: apply("recurrence", (b, f), tuple(k.items())), operands,
                lambda b, f, k=k: recurrence_value(b, f, **k),
            )  # fmt: skip


def loop_cases():
    """Loops that go along arrays, with a captured value and two paths, and such that end when a condition says so; and their ways back."""
    carry, captured, xs = V[:3] * 0.2, V[2:], C[0, :, :3]
    k, programs, write = tg.tensor(captured, requires_grad=True), [], running.apply

    def along(c, x):
        return (np.sin(c) * k + x, c * x, False) if (c * c).sum() > 1.0 else (c * 1.3 + k, c - x, False)

    def until(c, _):
        return (c * 1.5 + k, None, False) if (c * c).sum() < 50.0 else (c, None, True)

    def noted(row, operands, attrs, value=None):
        if row == "loop":
            programs.append(dict(attrs)["program"])
        return write(row, operands, attrs, value=value)

    running.apply, before, tg.config.memory = noted, tg.config.memory, 0
    try:
        # Nothing is kept for the way back.
        running.loop(along, carry, ([xs], flatten(xs)[1]), len(xs), False, None, "body")
        running.loop(until, carry, None, None, False, None, "body")
    finally:
        running.apply, tg.config.memory = write, before
    forward, back = [], []
    for program, rows in zip(programs, (xs, np.zeros((0, 0)))):
        attrs = (("program", program),)

        def loop(c, k, x, attrs=attrs):
            return apply("loop_results", (c, k, x, apply("loop", (c, k, x), attrs)), attrs)

        def pull(g, c, k, x, attrs=attrs):
            return apply("loop_pull", (g, c, k, x, apply("loop", (c, k, x), attrs)), attrs)

        operands = carry, captured, rows
        z, seeds = program.run(*operands), RNG.standard_normal(program.outputs)
        forward.append((loop, operands))
        back += [(pull, (seeds, *operands)), (lambda g, o=operands, z=z, a=attrs: apply("loop_pull", (g, *o, z), a), (seeds,))]
    return {"loop_results": forward, "loop_pull": back}


def whole(x):
    """The complex array whose parts are along the last axis."""
    return x[..., 0] + 1j * x[..., 1]


def parts(z):
    return np.stack([z.real, z.imag], -1)


PARTS = generator(11).uniform(-1.0, 1.0, (2, 3, 3, 2)) + parts(np.diag([1.0, 3.0, 5.0]) + 0j)


def hermitian(x):
    """The parts of a matrix and its conjugate transpose."""
    return x + np.swapaxes(x, -3, -2) * np.array([1.0, -1.0])


def eigenvalues(x, kind):
    return np.linalg.eigvalsh(whole(hermitian(x)), kind) if kind else np.linalg.eigvals(whole(x)).real


def fourier_cases():
    for axes, forward, source, target in itertools.product(((-1,), (-2,), (-2, -1)), (True, False), ("real", "complex"), ("real", "complex")):

        def on_arrays(x, axes=axes, forward=forward, source=source, target=target):
            z = np.fft.fftn(x if source == "real" else whole(x), axes=axes) if forward else np.fft.ifftn(x if source == "real" else whole(x), axes=axes, norm="forward")
            return z.real if target == "real" else parts(z)

        attrs = (("axes", axes), ("forward", forward), ("source", source), ("target", target), ("n", 0), ("twofold", False))
        x = M if source == "real" else array((3, 4, 2), 3)
        yield lambda x, a=attrs: apply("fourier", (x,), a), (x,), on_arrays
    for n, twofold in itertools.product((1, 4, 5), (False, True)):
        weights = np.where((np.arange(n // 2 + 1) == 0) | (2 * np.arange(n // 2 + 1) == n) | (not twofold), 1.0, 2.0)
        attrs = (("axes", (-1,)), ("forward", True), ("source", "real"), ("target", "half"), ("n", n), ("twofold", twofold))
        yield lambda x, a=attrs: apply("fourier", (x,), a), (array((2, n), 4),), lambda x, w=weights: parts(np.fft.rfft(x) * w)

        def signal(x, n=n, w=weights):
            angles = 2.0 * np.pi * np.outer(np.arange(n // 2 + 1), np.arange(n)) / n
            return ((whole(x) * w) @ np.exp(1j * angles)).real

        attrs = (("axes", (-1,)), ("forward", False), ("source", "half"), ("target", "real"), ("n", n), ("twofold", twofold))
        yield lambda x, a=attrs: apply("fourier", (x,), a), (array((2, n // 2 + 1, 2), 5),), signal


def placement_cases():
    """Windows of every kind: steps, reversed, overlapping, broadcast, one element, nothing."""
    found = []
    for x, shape, strides, offset in (
        (V, (12,), (2,), 1), (V, (2, 6), (-2,), 11), (M, (4, 5), (5, 1), 6), (M, (3, 4), (1, 3), 0), (V, (3,), (0,), 2),
        (M, (6,), (1, 1), 0), (V, (8,), (1,), 1), (1.5, (2, 2), (), 3), (V[:0], (2, 3), (1,), 0), (C, (4, 6), (0, 6, 1), 2),
    ):  # fmt: skip
        def on_arrays(t, shape=shape, strides=strides, offset=offset):
            whole = np.zeros(int(np.prod(shape)), np.asarray(t).dtype)
            for where in np.ndindex(np.shape(t)):
                whole[offset + sum(i * s for i, s in zip(where, strides))] += np.asarray(t)[where]
            return whole.reshape(shape)

        attrs = (("shape", shape), ("strides", strides))
        found.append((lambda t, a=attrs, o=offset: apply("place", (t,), a, integer=o), (x,), on_arrays))
    return found


def scatter_cases():
    found = []
    for x, positions, shape in (
        (V, [3, 0, 3, 5, 0], (2, 3)), (M, list(range(12))[::-1], (12,)), (V[:0], [], (2,)), (1.5, [1], (3,)),
    ):  # fmt: skip
        positions = np.array(positions, np.int64)

        def on_arrays(t, positions=positions, shape=shape):
            whole = np.zeros(int(np.prod(shape)), np.asarray(t).dtype)
            np.add.at(whole, positions, np.ravel(t))
            return whole.reshape(shape)

        found.append((lambda t, p=positions, s=shape: apply("scatter", (t, p), (("shape", s),)), (x,), on_arrays))
    return found


def window_cases():
    """`add_window`: distinct, reversed, overlapping and repeated elements."""
    found = []
    for x, v, strides, offset in (
        (V, array((2,)), (2,), 1), (M, array((2, 2)), (M.shape[1], 1), 1), (V, array((3,)), (-1,), 3), (V, array((2, 2)), (1, 1), 0),
        (V, array((3,)), (0,), 2), (V, 0.75, (), 1), (M, np.zeros((0,)), (1,), 0),
    ):  # fmt: skip
        attrs = (("shape", np.shape(v)), ("strides", strides))

        def on_arrays(x, v, a=attrs, o=offset):
            x = np.array(x)
            positions = np.arange(x.size)[o:]
            where = np.lib.stride_tricks.as_strided(positions, a[0][1], [8 * s for s in a[1][1]]) if np.size(v) else positions[:0]
            np.add.at(x.reshape(-1), where.reshape(-1), np.reshape(v, -1))
            return x

        found.append((lambda x, v, a=attrs, o=offset: apply("add_window", (x, v), a, integer=o), (x, v), on_arrays))
    return found


def add_at_cases():
    """`add_at`: distinct and repeated positions."""
    found = []
    for x, v, positions in ((V, array((3,)), [2, 0, 1]), (V, array((4,)), [1, 1, 0, 1]), (M, array((2, 2)), [3, 0, 3, 2]), (V, np.zeros(0), [])):
        index = np.array(positions, int)

        def on_arrays(x, v, p=index):
            x = np.array(x)
            np.add.at(x.reshape(-1), p, np.reshape(v, -1))
            return x

        found.append((lambda x, v, p=index: apply("add_at", (x, v, p)), (x, v), on_arrays))
    return found


#: Structural row -> cases (function, operands[, reference]).
CASES = {
    "sum": [*reduction_cases(np.sum), (np.sum, (2.0,)), (np.sum, (np.zeros((0, 2)),)), (lambda x: np.sum(x, 0), (np.zeros((0, 2)),)),
            (lambda x: np.sum(x, -1), (1.5,)), (lambda x: sum(x), (V,)), (lambda x: np.add.reduce(x, axis=1), (M,))],
    "mean": [*reduction_cases(np.mean), (np.mean, (2.0,))],
    "max": [*reduction_cases(np.max), (np.max, (2.0,)), (lambda x: np.maximum.reduce(x), (M,))],
    "min": [*reduction_cases(np.min), (np.min, (2.0,)), (lambda x: np.minimum.reduce(x, axis=1), (M,))],
    "prod": [*reduction_cases(np.prod), (np.prod, (2.0,)), (np.prod, (np.zeros(0),)), (lambda x: np.prod(x, axis=1), (np.zeros((2, 0)),)),
             (np.prod, (np.array([0.0, 2.0, 3.0]),)), (np.prod, (np.array([0.0, 2.0, 0.0]),)), (np.prod, (np.zeros(3),)),
             (lambda x: np.prod(x, axis=1), (np.array([[0.0, 2.0], [3.0, -1.0], [0.0, 0.0]]),))],
    "var": [*moment_cases("var"), (np.var, (2.0,))],
    "std": moment_cases("std"),
    "norm": [*reduction_cases(tg.norm, norm_reference), (np.linalg.norm, (V,)), (lambda x: np.linalg.norm(x, axis=1), (M,)),
             (lambda x: np.linalg.norm(x, "fro"), (M,)), (tg.norm, (-2.0,), abs),
             (lambda x: np.linalg.norm(x, 2, axis=0, keepdims=True), (M,))],
    "logsumexp": [*reduction_cases(tg.logsumexp, special.logsumexp), (tg.logsumexp, (2.0,), special.logsumexp)],
    "cumsum": [*((lambda x, a=a: np.cumsum(x, axis=a), (x,)) for x in (V, M, C) for a in (None, *range(-x.ndim, x.ndim))),
               (np.cumsum, (2.0,)), (np.cumsum, (np.zeros((0, 3)),)), (lambda x: np.add.accumulate(x), (M,))],
    "matmul": [(np.matmul, (array(a, 1), array(b, 2))) for a, b in MATMUL_SHAPES]
    + [(lambda b: M @ b, (array((4, 2)),)), (lambda a: a @ M, (array((2, 3)),)), (np.dot, (V, V)), (np.dot, (M, array((4, 2)))),
       (np.dot, (2.0, M)), (np.dot, (M, 3.0)), (np.dot, (C, array((5, 4, 2)))), (np.dot, (V, array((2, 5, 3)))), (np.dot, (C, array(4))),
       (lambda a, b: a.T @ b.T, (M, array((2, 3)))), (lambda a, b: a[::-1, ::2] @ b[::-1], (M, array((2, 5)))),
       (lambda a: a @ a.T, (M,)), (lambda a: a @ np.ones((4, 2), int), (M,)), (np.outer, (V, M)), (np.outer, (V, V)),
       (lambda a: np.broadcast_to(a, (3, 2, 5)) @ V, (V,))],
    "absolute_matmul": [(lambda a, b: apply("absolute_matmul", (a, b)), (array(a, 1), array(b, 2)), np.matmul) for a, b in MATMUL_SHAPES],
    "getitem": index_cases(BASIC_KEYS) + [(lambda x: x[None] * 1.0, (2.0,), lambda x: np.asarray(x)[None]), (lambda x: x[...] * 2.0, (2.0,), lambda x: 2 * x),
                                          (lambda x: list(x), (M,)), (lambda x: [r[0] for r in x], (C,))],
    "select": [(lambda x: x[1], (V,)), (lambda x: x[-1] * x[0], (V,)), (lambda x: x[1, 2] * x[0, -1], (M,)), (lambda x: list(x), (V,)),
               (lambda x: x[(1,)], (V,))],
    "broadcast_to": [(lambda x, s=s: np.broadcast_to(x, s), (np.ones(o),)) for o, s in
                     [((3,), (2, 3)), ((3, 1), (3, 4)), ((1,), (5,)), ((2, 1, 3), (2, 4, 3)), ((1, 1), (2, 3, 4)), ((3,), (3,)), ((1,), (0,))]]
    + [(lambda x: np.broadcast_to(x, (2, 3)), (2.0,)), (lambda x: np.broadcast_to(x.T, (2, 4, 3)), (M,)), (lambda x: tg.expand(x, 3, -1), (V,), lambda x: np.broadcast_to(x, (3, 5)))],
    "diagonal": [(lambda x, k=k: np.diagonal(x, k), (x,)) for x in (S, M, M.T) for k in (0, 1, -1, 2, -2, 9)]
    + [(lambda x: np.diagonal(x, 1, 2, 0), (C,)), (lambda x: np.diagonal(x, -1, -1, 0), (C,)), (lambda x: np.trace(x), (M,)),
       (lambda x: np.trace(x, 1), (M,)), (lambda x: np.trace(x, 0, 1, 2), (C,)), (lambda x: x.trace(), (S,)), (lambda x: np.diag(x, -1), (S,))],
    "as_strided": [(lambda x: apply("as_strided", (x,), (("shape", (3, 2)), ("strides", (1, 1)))), (V,),
                    lambda x: np.stack([x[0:3], x[1:4]], 1))],
    "reshape": [(lambda x: x.reshape(2, 6), (M,)), (lambda x: x.reshape((4, -1)), (M,)), (lambda x: x.T.reshape(-1), (M,)), (np.ravel, (C,)),
                (lambda x: np.reshape(x, (6, 4)), (C,)), (lambda x: tg.reshape(x, (1, 1)), (2.0,), lambda x: np.reshape(x, (1, 1))),
                (lambda x: x[:1].reshape(()), (V,)), (lambda x: x.reshape(0, 5), (np.zeros((5, 0)),)), (lambda x: tg.flatten(x), (M,), np.ravel)],
    "squeeze": [(np.squeeze, (C[:1],)), (lambda x: np.squeeze(x, axis=1), (M[:, None],)), (lambda x: np.squeeze(x, axis=(0, -1)), (M[None, ..., None],)),
                (np.squeeze, (np.ones((1, 1)),))],
    "expand_dims": [(lambda x, a=a: np.expand_dims(x, a), (M,)) for a in (0, 1, -1, (0, 3), (-1, 0))] + [(lambda x: np.expand_dims(x, 0), (2.0,))],
    "transpose": [(np.transpose, (M,)), (np.transpose, (C,)), (lambda x: np.transpose(x, (2, 0, 1)), (C,)), (lambda x: np.transpose(x, (-1, 0, -2)), (C,)),
                  (lambda x: np.swapaxes(x, 0, -1), (C,)), (lambda x: np.moveaxis(x, 0, -1), (C,)), (lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (C,)),
                  (np.transpose, (V,)), (lambda x: x.T, (M,)), (lambda x: x.mT, (C,)), (lambda x: x.T.T * x, (M,)), (np.transpose, (2.0,))],
    "t": [(lambda x: tg.t(x) * 1.0, (M,), np.transpose), (lambda x: tg.t(x) * 1.0, (V,), lambda x: x)],
    "flip": [(np.flip, (M,)), (lambda x: np.flip(x, 0), (C,)), (lambda x: np.flip(x, (0, -1)), (C,)), (np.flip, (V,))],
    "gather": index_cases(ADVANCED_KEYS) + index_cases(REPEATED_KEYS) + [
        (lambda x: np.take(x, [1, 1, 0]), (M,)), (lambda x: np.take(x, [[1, -1], [0, 0]], axis=1), (M,)), (lambda x: np.take(x, 1, axis=0), (C,)),
        (lambda x: tg.take(x, [0, 0]), (2.0,), lambda x: np.take(x, [0, 0])), (lambda x: x[np.array(1)], (V,)), (lambda x: x[[True, False] * 2 + [True]], (V,))],
    "roll": [(lambda x: np.roll(x, 2), (M,)), (lambda x: np.roll(x, -1, axis=1), (C,)), (lambda x: np.roll(x, (1, 2), axis=(0, 1)), (C,))],
    "repeat": [(lambda x: np.repeat(x, 3), (M,)), (lambda x: np.repeat(x, [1, 0, 2], axis=0), (M,)), (lambda x: np.repeat(x, 2, axis=-1), (C,)),
               (lambda x: np.repeat(x, 2), (2.0,))],
    "tile": [(lambda x: np.tile(x, 3), (V,)), (lambda x: np.tile(x, (2, 1, 3)), (M,)), (lambda x: np.tile(x, 2), (1.5,))],
    "concatenate": [(lambda x, y: np.concatenate([x, y]), (V, array(3))), (lambda x, y: np.concatenate([x, y, x], axis=-1), (M, array((3, 2)))),
                    (lambda x: np.concatenate([x, np.ones((3, 4), int), x * x], axis=0), (M,)), (lambda x, y: np.concatenate((x, y), axis=None), (M, V)),
                    (lambda x: np.concatenate([x]), (V,)), (lambda x: np.concatenate([x[:0], x, x[3:]]), (V,)),
                    (lambda x: np.concatenate([x * k for k in range(1, 70)]), (V,)), (lambda x: np.concatenate([x, x], axis=1), (C,))],
    "stack": [(lambda x, y: np.stack([x, y]), (V, array(5))), (lambda x, y: np.stack([x, y, x], axis=-1), (M, array((3, 4)))), (lambda x, y: np.stack([x, y]), (1.0, 2.0)),
              (lambda x: np.stack([x, np.zeros(5)], axis=1), (V,)), (lambda x: np.stack([x * k for k in range(1, 300)]), (1.5,)),
              (lambda x: np.stack([x * k for k in range(1, 80)], axis=1), (V,))],
    "diag": [(lambda x, k=k: np.diag(x, k), (V,)) for k in (0, 1, -2)],
    "setitem": assignment_cases(BASIC_KEYS),
    "put": assignment_cases(ADVANCED_KEYS),
    "place": placement_cases(),
    "scatter": scatter_cases(),
    "add_window": window_cases(),
    "add_at": add_at_cases(),
    "astype": [(lambda x: (x.astype("f").astype("d") if isinstance(x, tg.Differentiable) else x) * 2.0, (np.array([0.5, 0.25]),))],
    "softmax": [(lambda x, a=a: tg.softmax(x, axis=a), (x,), lambda x, a=a: special.softmax(x, axis=a)) for x in (V, M, C) for a in (-1, 0)]
    + [(lambda x: tg.softmax(x) * x, (1.5,), lambda x: x)],
    "log_softmax": [(lambda x, a=a: tg.log_softmax(x, axis=a), (x,), lambda x, a=a: log_softmax(x, a)) for x in (V, M, C) for a in (-1, 0, -x.ndim)],
    "binary_cross_entropy_with_logits": [
        (lambda x, y, r=r: tg.nn.functional.binary_cross_entropy_with_logits(x, y, r), (x, generator(9).random(np.shape(x))), lambda x, y, r=r: bce(x, y, r))
        for x in (V - 1.0, M - 1.0) for r in ("mean", "sum", "none")] + [
        (lambda x, y: tg.nn.functional.binary_cross_entropy_with_logits(x, y), (0.3, 0.75), bce)],
    "cross_entropy": [(lambda x, r=r: tg.nn.functional.cross_entropy(x, CLASSES, r), (M,), lambda x, r=r: cross_entropy(x, r)) for r in ("mean", "sum", "none")],
    "inv": [(np.linalg.inv, (REGULAR,)), (np.linalg.inv, (STACK,))],
    "solve": [(np.linalg.solve, (REGULAR, V[:4])), (np.linalg.solve, (STACK, array((2, 4, 3)))), (np.linalg.solve, (REGULAR, array((4, 3)))), (np.linalg.solve, (REGULAR, array((2, 4, 1))))],
    "det": [(np.linalg.det, (REGULAR,)), (np.linalg.det, (STACK,)), (np.linalg.det, (np.ones((3, 3)),))],
    "cofactors": [
        (lambda x: apply("cofactors", (x,)), (x,), lambda x: np.linalg.det(x) * np.linalg.inv(x).T) for x in (REGULAR, REGULAR.T)
    ],
    "underived": [
        (lambda x, a=a: apply("underived", (x, a), (("of", "jv"), ("position", 0))), (x,), lambda x: x * 1.0) for x, a in ((M, np.arange(4)), (V, np.array(2)), (1.5, np.array(2)))
    ],
    "fourier": list(fourier_cases()),
    "complex_det": [(lambda x: apply("complex_det", (x,)), (x,), lambda x: parts(np.linalg.det(whole(x)))) for x in (PARTS, PARTS[0])],
    "complex_erf": [
        (lambda x, k=k: apply("complex_erf", (x,), (("kind", k),)), (PARTS[0],), lambda x, k=k: parts(getattr(scipy.special, k)(whole(x)))) for k in ("erf", "erfc")
    ],
    # The lengths of eigenvectors are given, their phases are LAPACK's.
    "complex_eig": [
        (lambda x, k=k: apply("complex_eig", (hermitian(x) if k else x,), (("kind", k),))[..., 0, :, 0], (x,), lambda x, k=k: eigenvalues(x, k))
        for x, k in ((PARTS, ""), (PARTS[0], ""), (PARTS, "L"), (PARTS[0], "U"))
    ],
    "logabsdet": [(lambda x: np.linalg.slogdet(x)[1], (REGULAR,)), (lambda x: np.linalg.slogdet(x)[1], (-STACK,))],
    # Packed rows have symmetric operands and free signs: see also tests/numpy_api/test_linalg.py.
    "cholesky": [(lambda x: np.linalg.cholesky(x @ x.mT), (REGULAR,)), (lambda x: np.linalg.cholesky(x @ x.mT, upper=True), (STACK,))],
    "eigh": [(lambda x: np.linalg.eigvalsh(x + x.mT), (REGULAR,)), (lambda x: np.linalg.eigh(x + x.mT)[1], (STACK,))],
    "svd": [(lambda x: np.linalg.svd(x, compute_uv=False), (M,)), (lambda x: np.linalg.svd(x, full_matrices=False)[2], (M,)), (lambda x: np.linalg.svd(x)[0], (STACK,))],
    "qr": [(lambda x: np.linalg.qr(x)[0], (M.T,)), (lambda x: np.linalg.qr(x)[1], (STACK,))],
    "cumprod": [*((lambda x, a=a: np.cumprod(x, axis=a), (x,)) for x in (V, M, C, ZEROS) for a in (None, *range(-x.ndim, x.ndim))),
                (np.cumprod, (2.0,)), (lambda x: np.cumprod(x, axis=1), (np.zeros((2, 0)),))],
    "recurrence": list(recurrence_cases()),
    "solve_triangular": [(scipy_linalg.solve_triangular, (REGULAR, M.T), scipy.linalg.solve_triangular)],
    **loop_cases(),
    "pinv": [(np.linalg.pinv, (M,)), (np.linalg.pinv, (STACK,))],
}  # fmt: skip
