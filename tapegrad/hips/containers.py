"""autograd's ``builtins``, its ``misc`` (containers as vectors, optimisers, fixed points), and its ``scipy.signal.convolve``."""

import builtins
import functools

import numpy as np

from .. import numpy as tnp
from ..array.differentiable import Differentiable
from ..array.trees import ravel
from ..common import tree
from ..transforms.implicit import fixed_point as _fixed_point
from .extend import getval

__all__ = ["adam", "convolve", "dict", "fixed_point", "flatten", "flatten_func", "isinstance", "list", "rmsprop", "sgd", "tuple", "type", "unflatten_optimizer"]

# Containers hold tensors as they are.
dict, list, tuple = builtins.dict, builtins.list, builtins.tuple


def isinstance(x, A):  # noqa: A001
    """Whether a value, also that of a tensor, is of a class."""
    return builtins.isinstance(x, A) or builtins.isinstance(getval(x), A)


def type(*args):  # noqa: A001
    """The class of a value, also of that of a tensor."""
    return builtins.type(getval(args[0])) if len(args) == 1 else builtins.type(*args)


def of_iterables(function):
    """A function that joins arrays, also those of a generator, a map or the values of a dict, as autograd's does."""

    @functools.wraps(function)
    def joined(arrays, *args, **kwargs):
        given = arrays if builtins.isinstance(arrays, (np.ndarray, Differentiable)) else builtins.list(arrays)
        return function(given, *args, **kwargs)

    return joined


def _by_name(x):
    """A container, with dicts in the order of their sorted keys."""
    if builtins.type(x) is dict:
        return {key: _by_name(x[key]) for key in sorted(x)}
    return builtins.type(x)(map(_by_name, x)) if builtins.type(x) in (list, tuple) else x


def flatten(value):
    """The numbers of containers as one vector, those of dicts in the order of their sorted keys, and the function that makes the containers of a vector."""
    vector, unravel = ravel(_by_name(value))
    form = tree.flatten(value)[1]

    def unflatten(vector):
        leaves, found = tree.flatten(unravel(vector))
        return tree.unflatten(form, tree.rearranged(leaves, found, form))

    return vector, unflatten


def flatten_func(func, example):
    """`func` of vectors; how containers are made of them; and the vector of `example`."""
    vector, unflattened = flatten(example)
    return (lambda x, *args: flatten(func(unflattened(x), *args))[0]), unflattened, vector


def unflatten_optimizer(optimize):
    """An optimiser of vectors as one of containers."""

    @functools.wraps(optimize)
    def of_containers(grad, x0, callback=None, *args, **kwargs):
        vector, unflattened = flatten(x0)
        of_vector = lambda x, i: flatten(grad(unflattened(x), i))[0]  # noqa: E731
        called = callback and (lambda x, i, g: callback(unflattened(x), i, unflattened(g)))
        return unflattened(optimize(of_vector, vector, called, *args, **kwargs))

    return of_containers


def _optimizer(iterations, *starts):
    """Decorator: ``step(i, g, *state)``, which gives the step of iteration `i` and the state behind it, as autograd's optimiser."""

    def made(step):
        def optimize(grad, x, callback=None, num_iters=iterations, *args, **kwargs):
            state = [np.full(len(x), start) for start in starts]
            for i in range(num_iters):
                g = grad(x, i)
                if callback:
                    callback(x, i, g)
                change, *state = step(i, g, *state, *args, **kwargs)
                x = x + change
            return x

        optimize.__name__, optimize.__doc__ = step.__name__, step.__doc__
        return unflatten_optimizer(optimize)

    return made


@_optimizer(200, 0.0)
def sgd(i, g, velocity, step_size=0.1, mass=0.9):
    """Gradient descent with momentum; ``grad(x, i)`` is the gradient of iteration `i`."""
    velocity = mass * velocity - (1.0 - mass) * g
    return step_size * velocity, velocity


@_optimizer(100, 1.0)
def rmsprop(i, g, average, step_size=0.1, gamma=0.9, eps=10**-8):
    """RMSprop (T. Tieleman, G. Hinton, 2012)."""
    average = average * gamma + g**2 * (1 - gamma)
    return -step_size * g / (np.sqrt(average) + eps), average


@_optimizer(100, 0.0, 0.0)
def adam(i, g, m, v, step_size=0.001, b1=0.9, b2=0.999, eps=10**-8):
    """Adam (D. P. Kingma, J. Ba, 2015)."""
    m, v = (1 - b1) * g + b1 * m, (1 - b2) * g**2 + b2 * v
    return -step_size * (m / (1 - b1 ** (i + 1))) / (np.sqrt(v / (1 - b2 ** (i + 1))) + eps), m, v


def fixed_point(f, a, x0, distance, tol):
    """The x with ``f(a)(x) = x``, to which iteration from `x0` leads until ``distance(x, previous) <= tol``; differentiable in `a`."""

    def solver(step, x0):
        x, before = step(x0), x0
        while distance(x, before) > tol:
            x, before = step(x), x
        return x

    # What is left of the iteration is as large as the tolerance that was asked for.
    return _fixed_point(lambda x, a: f(a)(x), x0, a, solver=solver, tol=max(tol, 1e-12) * 1e3)


#: By mode: how many zeros stand before and behind the array that is convolved with n elements.
_ZEROS = {"full": lambda n: (n - 1, n - 1), "same": lambda n: (n // 2, (n - 1) // 2), "valid": lambda n: (0, 0)}


def convolve(A, B, axes=None, dot_axes=((), ()), mode="full"):
    """Convolve two arrays over some axes, summed over some others, of all combinations of the rest.

    Parameters
    ----------
    A, B : array_like
    axes : pair of sequence of int, optional
        The axes of `A` and of `B` along which they are convolved, in pairs; all by default.
    dot_axes : pair of sequence of int
        Axes that are multiplied and summed over.
    mode : {"full", "valid", "same"}

    Returns
    -------
    ndarray
        The axes of `A` that are in neither, those of `B`, then the convolved ones.
    """
    if mode not in _ZEROS:
        raise ValueError(f"mode={mode!r}: choose 'full', 'valid' or 'same'")
    m, n = np.ndim(A), np.ndim(B)
    a_axes, b_axes = axes or (range(m), range(n))
    # Axes by number, as `einsum` takes them: those of the result that are convolved, and those of the windows that are summed over, come last.
    a_labels, b_labels = list(range(m)), list(range(m, m + n))
    rest = [*(k for k in range(m) if k not in (*a_axes, *dot_axes[0])), *(m + k for k in range(n) if k not in (*b_axes, *dot_axes[1]))]
    for i, j in zip(*dot_axes, strict=True):
        b_labels[j] = a_labels[i]
    convolved = list(range(m + n, m + n + len(a_axes)))
    inside = [len(convolved) + k for k in convolved]
    longer, shorter = (A, a_axes, a_labels), (B, b_axes, b_labels)
    pairs = [(np.shape(A)[i], np.shape(B)[j]) for i, j in zip(a_axes, b_axes, strict=True)]
    if mode == "valid" and any(p < q for p, q in pairs):
        if any(p > q for p, q in pairs):
            raise ValueError("mode='valid': one of the arrays must be as long as the other along all axes")
        longer, shorter = shorter, longer
    (A, a_axes, a_labels), (B, b_axes, b_labels) = longer, shorter
    sizes, zeros = [np.shape(B)[j] for j in b_axes], [(0, 0)] * np.ndim(A)
    for k, (i, j) in enumerate(zip(a_axes, b_axes)):
        a_labels[i], b_labels[j], zeros[i] = convolved[k], inside[k], _ZEROS[mode](sizes[k])
    windows = np.lib.stride_tricks.sliding_window_view(tnp.pad(A, zeros), sizes, list(a_axes))
    return tnp.einsum(windows, [*a_labels, *inside], tnp.flip(B, list(b_axes)), b_labels, [*rest, *convolved])
