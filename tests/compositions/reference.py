"""What programs of compositions should give: derivatives by nested dual numbers (`duals`), and plain loops.

Nothing of tapegrad's is used.  A program is Python text that names `np` and `tg`; run with `numpy` of `duals` and `tg` of
this file in their places, it computes the same by other means: `tg.scan`, `tg.vmap` and the like are loops, `tg.jit` and
`tg.checkpoint` are the function, and each derivative is read off a dual number.

Points at which a program decides too closely (`Decisions.margin`) are moved by the code that draws them.
"""

import dataclasses
import inspect
import math
from types import SimpleNamespace

import numpy as onp

from .duals import Decisions, Dual, add, mul, number, numpy, packed, power, primal
from .scipy_names import scipy_names

# ---- containers


def leaves(tree):
    if dataclasses.is_dataclass(tree):
        tree = vars(tree)
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


def rebuilt(tree, of_leaf):
    if dataclasses.is_dataclass(tree):
        return type(tree)(**rebuilt(vars(tree), of_leaf))
    if isinstance(tree, dict):
        return {key: rebuilt(part, of_leaf) for key, part in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(rebuilt(part, of_leaf) for part in tree)
    return None if tree is None else of_leaf(tree)


def stacked(trees, axis=0):
    """Trees of one form as one tree of arrays that have an axis more."""
    if isinstance(trees[0], dict):
        return {key: stacked([t[key] for t in trees], axis) for key in trees[0]}
    if isinstance(trees[0], (list, tuple)):
        return type(trees[0])(stacked([t[j] for t in trees], axis) for j in range(len(trees[0])))
    return None if trees[0] is None else onp.stack([_array(t) for t in trees], axis)


def _array(a):
    return onp.array(a, object) if type(a) is Dual else onp.asarray(a)


def numbers(leaf):
    """The numbers of a leaf in C order."""
    return _array(leaf).ravel().tolist()


def lane(tree, j, axis=0):
    return rebuilt(tree, lambda a: number(onp.take(a, j, axis)) if onp.ndim(a) == 1 else onp.take(a, j, axis))


# ---- derivatives


class Level:
    """One level of differentiation: the argument with a partial derivative for each of its numbers."""

    last = 0

    def __init__(self, x):
        Level.last += 1
        self.tag, self.x, self.count = Level.last, x, 0
        self.argument = rebuilt(x, self._lifted)

    def _lifted(self, leaf):
        lifted = []
        for a in numbers(leaf):
            lifted.append(Dual(self.tag, float(a) if type(a) in (bool, int) else a, {self.count: 1.0}))
            self.count += 1
        return packed(lifted, onp.shape(leaf))

    def partials(self, a):
        """The partial derivatives of a number, one for each number of the argument."""
        while type(a) is Dual and a.tag > self.tag:
            a = a.v
        d = a.d if type(a) is Dual and a.tag == self.tag else {}
        return [d.get(i, 0.0) for i in range(self.count)]

    def without(self, a):
        while type(a) is Dual and a.tag >= self.tag:
            a = a.v
        return a

    def values(self, tree):
        return rebuilt(tree, lambda leaf: packed([self.without(a) for a in numbers(leaf)], onp.shape(leaf)))

    def like_x(self, flat):
        """Numbers, as many as the argument has, in its containers."""
        flat = iter(flat)
        return rebuilt(self.x, lambda leaf: packed([next(flat) for _ in numbers(leaf)], onp.shape(leaf)))

    def pulled(self, y, seed):
        """The transposed Jacobian times `seed`."""
        total = [0.0] * self.count
        for leaf, weights in zip(leaves(y), leaves(seed)):
            for a, weight in zip(numbers(leaf), numbers(weights)):
                total = [add(t, mul(p, weight)) for t, p in zip(total, self.partials(a))]
        return self.like_x(total)

    def pushed(self, y, tangent):
        """The Jacobian times `tangent`."""
        way = [t for leaf in leaves(tangent) for t in numbers(leaf)]

        def along(a):
            total = 0.0
            for p, t in zip(self.partials(a), way):
                total = add(total, mul(p, t))
            return total

        return rebuilt(y, lambda leaf: packed([along(a) for a in numbers(leaf)], onp.shape(leaf)))

    def jacobian(self, y):
        def of(leaf):
            rows = [self.partials(a) for a in numbers(leaf)]
            (x,) = leaves(self.x)
            return packed([p for row in rows for p in row], onp.shape(leaf) + onp.shape(x))

        return rebuilt(y, of)


def scalar(y):
    (a,) = numbers(y)
    return a


def value_and_grad(f, argnums=0, has_aux=False, via=None):
    def call(*args):
        k = [*inspect.signature(f).parameters].index(argnums) if isinstance(argnums, str) else argnums % len(args)
        level = Level(args[k])
        y = f(*args[:k], level.argument, *args[k + 1 :])
        return level.values(y), level.like_x(level.partials(scalar(y)))

    return call


def grad(f, argnums=0, via=None):
    return lambda *args: value_and_grad(f, argnums)(*args)[1]


def jacobian(f):
    def call(x, *args):
        level = Level(x)
        return level.jacobian(f(level.argument, *args))

    return call


def hessian(f):
    return jacobian(grad(f))


def hessian_diag(f):
    def call(x, *args):
        h = onp.asarray(hessian(f)(x, *args))
        n = onp.size(x)
        return packed([h.reshape(n, n)[i, i] for i in range(n)], onp.shape(x))

    return call


def laplacian(f):
    return lambda *args: sum(numbers(hessian_diag(f)(*args)))


def elementwise_grad(f):
    def call(x, *args):
        level = Level(x)
        y = f(level.argument, *args)
        return level.pulled(y, rebuilt(y, lambda leaf: onp.ones(onp.shape(leaf))))

    return call


def vjp(f, *primals):
    level = Level(primals)
    y = f(*level.argument)
    return level.values(y), lambda seed: level.pulled(y, seed)


def jvp(f, primals, tangents):
    level = Level(primals)
    y = f(*level.argument)
    return level.values(y), level.pushed(y, tangents)


def linearize(f, *primals):
    level = Level(primals)
    y = f(*level.argument)
    return level.values(y), lambda *tangents: level.pushed(y, tangents)


def hvp(f):
    return lambda *args: jvp(lambda x: grad(f)(x, *args[1:-1]), (args[0],), (args[-1],))[1]


def jet(f, primals, series):
    """Derivatives of ``f(x(t))`` by t, one level of differentiation for each order."""
    order = len(series[0])

    def along(t):
        curve = []
        for x, coefficients in zip(primals, series):
            for j, c in enumerate(coefficients, 1):
                x = x + c * (power(t, j) * (1.0 / math.factorial(j)))
            curve.append(x)
        return f(*curve)

    derivatives, g = [], along
    for _ in range(order):
        g = (lambda g: lambda t: jvp(g, (t,), (1.0,))[1])(g)
        derivatives.append(g(0.0))
    return along(0.0), derivatives


class Lanes:
    """Lanes and rows, of which some may be independent of a leaf of which others are not: there its derivative is zero."""

    depth = 0

    def __enter__(self):
        Lanes.depth += 1

    def __exit__(self, *_):
        Lanes.depth -= 1


def vmap(f, in_axes=0, out_axes=0):
    def call(*args):
        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        count = next(onp.shape(leaves(a)[0])[axis] for a, axis in zip(args, axes) if axis is not None)
        with Lanes():
            return stacked([f(*[a if axis is None else lane(a, j, axis) for a, axis in zip(args, axes)]) for j in range(count)], out_axes)

    return call


def sum_over(f, data, chunk):
    count = len(leaves(data)[0])

    def total(theta):
        with Lanes():
            return sum(f(theta, rebuilt(data, lambda a: a[j : j + chunk])) for j in range(0, count, chunk))

    return total


class Sparse:
    def __init__(self, array):
        self.toarray = lambda: array


def sparse_jacobian(f):
    def call(x, *args):
        j = jacobian(f)(x, *args)
        return Sparse(onp.reshape(onp.asarray(j, float), (-1, onp.size(x))))

    return call


# ---- loops


def scan(f, init, xs=None, length=None, reverse=False, memory=None):
    turns = list(range(length if xs is None else len(leaves(xs)[0])))
    carry, ys = init, []
    for j in turns[::-1] if reverse else turns:
        carry, y = f(carry, None if xs is None else lane(xs, j))
        ys.append(y)
    if not ys:  # those of one turn at zeros, without rows
        margin = Decisions.margin
        (_, y), Decisions.margin = f(init, rebuilt(xs, lambda a: 0.0 if onp.ndim(a) == 1 else onp.zeros(onp.shape(a)[1:], object))), margin
        return init, rebuilt(y, lambda a: onp.empty((0, *onp.shape(a)), object))
    return carry, stacked(ys[::-1] if reverse else ys)


def fori_loop(lower, upper, body, init):
    for i in range(lower, upper):
        init = body(i, init)
    return init


def while_loop(cond, body, init, memory=None):
    while cond(init):
        init = body(init)
    return init


def switch(index, branches, *operands):
    return branches[min(max(int(primal(number(index))), 0), len(branches) - 1)](*operands)


# ---- define-by-run


class Independent(Exception):
    """A derivative of what does not depend on the leaf: tapegrad raises, or gives zeros where it cannot know."""


class Leaf(onp.ndarray):
    """What `tg.tensor(x, requires_grad=True)` is: constant for every level outside, with `ORDER` levels of its own."""

    LAST, ORDER = [], 2
    # (Those of an array of objects are no parts of its elements.)
    real, imag = property(lambda a: numpy.real(a)), property(lambda a: numpy.imag(a))
    __hash__ = lambda a: hash(a.item())  # noqa: E731  of a comparison, as a key

    def __array_wrap__(self, made, context=None, return_scalar=False):
        """What is made of it is no leaf.  (A sum would be an array of one number; stored in an array of objects, `+=` would change it.)"""
        return onp.asarray(made)[()]

    @staticmethod
    def of(x, requires_grad=False):
        x = numpy.stop(x)
        if not requires_grad:
            return numpy.array(x)
        levels = []
        for _ in range(Leaf.ORDER):
            levels.append(Level(x))
            x = levels[-1].argument
        leaf = onp.asarray(x, object).view(Leaf)
        leaf.levels, leaf.grad = levels, None
        Leaf.LAST.append(leaf)
        return leaf

    def backward(self, create_graph=False):
        self.item().backward(create_graph)

    def derivative(self, y, seed, create_graph):
        level = self.levels[-1]
        if not Lanes.depth and not any(any(level.partials(a)) for leaf in leaves(y) for a in numbers(leaf)):
            raise Independent("the output does not depend on the leaf")
        g = level.pulled(y, 1.0 if seed is None else seed)
        if not create_graph:
            return numpy.stop(g)
        self.levels = self.levels[:-1]
        return g


def _backward(y, create_graph=False):
    leaf = Leaf.LAST[-1]
    leaf.grad = leaf.derivative(y, None, create_graph)


#: A number that was computed: its `backward` is that of the last leaf.
Dual.backward = _backward


def autograd_grad(y, p, seed=None, create_graph=False, retain_graph=False):
    return (p.derivative(y, seed, create_graph),)


class Function:
    @classmethod
    def apply(cls, *args):
        return cls.forward(SimpleNamespace(save_for_backward=lambda *saved: None), *args)


def custom_vjp(f, rule=None):
    """The function: as a decorator also with a place for its rules."""
    f.defvjp = lambda forward, backward: None
    return f


def ravel(tree):
    return onp.array([a for leaf in leaves(dict(sorted(tree.items()))) for a in numbers(leaf)], object), None


def map_(f, xs):
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]


tg = SimpleNamespace(
    grad=grad, value_and_grad=value_and_grad, jacfwd=jacobian, jacrev=jacobian, jacobian=jacobian, hessian=hessian, hvp=hvp, vjp=vjp, jvp=jvp,
    jet=jet, linearize=linearize, vmap=vmap, elementwise_grad=elementwise_grad, hessian_diag=hessian_diag, laplacian=laplacian, sum_over=sum_over,
    sparse_jacobian=sparse_jacobian, jit=lambda f, **options: f, checkpoint=lambda f: f, derivative=grad, scan=scan, fori_loop=fori_loop,
    while_loop=while_loop, cond=lambda p, a, b, *operands: a(*operands) if p else b(*operands), switch=switch,
    map=map_, associative_scan=None, stop_gradient=numpy.stop,
    custom_vjp=custom_vjp, tree=SimpleNamespace(ravel=ravel), custom_jvp=lambda f, rule: f, zeros=lambda n: onp.zeros(n, object), tensor=Leaf.of, array=numpy.array,
    scipy=scipy_names, config=SimpleNamespace(), autograd=SimpleNamespace(grad=autograd_grad, Function=Function),
)  # fmt: skip
