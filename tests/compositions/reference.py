"""What programs of compositions should give: nested dual numbers on Python's numbers, and plain loops.

Nothing of tapegrad's is used.  A program is Python text that names `np` and `tg`; run with `numpy` and `tg` of
this file in their places, it computes the same by other means:

- `Dual` is a number with partial derivatives in one level of differentiation, which its `tag` names: ``v + sum(d[i] e_i)``
  with ``e_i e_j = 0``.  Value and partials may be duals of outer levels, whose tags are smaller.  An operation
  takes apart the operands of the largest tag, and computes with what it finds inside by the same operations: so
  any order comes from first derivatives, and no two levels can be confused.
- Arrays are NumPy's, of dtype object where numbers carry derivatives, so indices, views, changes in place, `@` and sums
  are NumPy's own.  `numpy` below is NumPy, but for functions that NumPy would ask each number for.
- `tg.scan`, `tg.vmap` and the like are loops, `tg.jit` and `tg.checkpoint` are the function, and each derivative is read
  off a dual number.

Each decision (a comparison, `abs`, `floor`) notes how near its two sides are: `Decisions.margin`.  Points at which a program
decides too closely are moved by whoever draws them.
"""

import cmath
import math
from types import SimpleNamespace

import numpy as onp

plain = (bool, int, float, complex)


class Decisions:
    """How near the nearest decision was, relative to the numbers compared; and how large the largest."""

    margin = math.inf

    @classmethod
    def note(cls, a, b=0.0):
        a, b = primal(a), primal(b)
        near = abs(a - b) / (1.0 + abs(b))
        if near < cls.margin:
            cls.margin = near


class Dual:
    """``v`` with partial derivatives ``d`` (a dict, missing ones are zero) in the level of `tag`."""

    __slots__ = ("tag", "v", "d")

    def __init__(self, tag, v, d):
        self.tag, self.v, self.d = tag, v, d

    __add__ = __radd__ = lambda a, b: add(a, b)
    __mul__ = __rmul__ = lambda a, b: mul(a, b)
    __sub__ = lambda a, b: add(a, mul(-1.0, b))
    __rsub__ = lambda a, b: add(b, mul(-1.0, a))
    __truediv__ = lambda a, b: div(a, b)
    __rtruediv__ = lambda a, b: div(b, a)
    __pow__ = lambda a, b: power(a, b)
    __rpow__ = lambda a, b: power(b, a)
    __neg__ = lambda a: mul(-1.0, a)
    __pos__ = lambda a: a
    __abs__ = lambda a: absolute(a)
    __mod__ = lambda a, b: mod(a, b)
    __floordiv__ = lambda a, b: floor(div(a, b))
    __repr__ = lambda a: f"Dual({a.tag}, {a.v!r}, {a.d!r})"
    real = property(lambda a: real(a))
    imag = property(lambda a: imag(a))
    ndim, shape, size, dtype = 0, (), 1, onp.dtype(float)

    def _compare(op):  # noqa: N805
        def compare(a, b):
            if not isinstance(b, (*plain, Dual, onp.generic)):
                return NotImplemented
            Decisions.note(a, b)
            return op(primal(a), primal(b))

        return compare

    __lt__, __le__ = _compare(lambda a, b: a < b), _compare(lambda a, b: a <= b)
    __gt__, __ge__ = _compare(lambda a, b: a > b), _compare(lambda a, b: a >= b)
    __eq__, __ne__ = _compare(lambda a, b: a == b), _compare(lambda a, b: a != b)
    __hash__ = None
    __bool__ = lambda a: a != 0.0
    sum = copy = ravel = lambda a, *args, **options: a

    def item(self):
        return primal(self)

    def conjugate(self):
        return conj(self)

    def backward(self, create_graph=False):
        leaf = Leaf.LAST[-1]
        leaf.grad = leaf.derivative(self, None, create_graph)


def primal(a):
    while type(a) is Dual:
        a = a.v
    return a


def number(a):
    """A NumPy scalar or 0-d array as a number of Python's."""
    return a.item() if isinstance(a, (onp.generic, onp.ndarray)) else a


def split(a, tag):
    return (a.v, a.d) if type(a) is Dual and a.tag == tag else (a, None)


def operation(value, *partials):
    """An operation on numbers and duals from its value on numbers and its partial derivatives, ``partial(*operands, result)``."""

    def op(*operands):
        operands = [a if type(a) in kinds else number(a) for a in operands]
        tag = max([a.tag for a in operands if type(a) is Dual], default=0)
        if not tag:
            return value(*operands)
        values, parts = zip(*[split(a, tag) for a in operands])
        result, d = op(*values), {}
        for part, partial in zip(parts, partials):
            if part:
                slope = partial(*values, result)
                for i, s in part.items():
                    t = mul(slope, s)
                    d[i] = add(d[i], t) if i in d else t
        return Dual(tag, result, d)

    return op


kinds = (Dual, float, int, bool, complex)


def add(a, b):
    if type(a) is type(b) is float:
        return a + b
    if isinstance(b, onp.ndarray) and b.ndim:
        return NotImplemented
    a, b = number(a), number(b)
    if type(a) is not Dual and type(b) is not Dual:
        return a + b
    tag = max(a.tag if type(a) is Dual else 0, b.tag if type(b) is Dual else 0)
    (av, ad), (bv, bd) = split(a, tag), split(b, tag)
    d = dict(ad or ())
    for i, s in (bd or {}).items():
        d[i] = add(d[i], s) if i in d else s
    return Dual(tag, add(av, bv), d)


def mul(a, b):
    if type(a) is type(b) is float:
        return a * b
    if isinstance(b, onp.ndarray) and b.ndim:
        return NotImplemented
    a, b = number(a), number(b)
    ta, tb = type(a) is Dual, type(b) is Dual
    if not ta and not tb:
        return a * b
    tag = max(a.tag if ta else 0, b.tag if tb else 0)
    (av, ad), (bv, bd) = split(a, tag), split(b, tag)
    d = {i: mul(s, bv) for i, s in ad.items()} if ad else {}
    for i, s in (bd or {}).items():
        t = mul(av, s)
        d[i] = add(d[i], t) if i in d else t
    return Dual(tag, mul(av, bv), d)


def _div(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        with onp.errstate(all="ignore"):
            return (onp.asarray(a, onp.result_type(type(a), float)) / b).item()


div = operation(_div, lambda a, b, r: div(1.0, b), lambda a, b, r: mul(-1.0, div(r, b)))


def power(a, b):
    b = number(b)
    if type(b) is Dual:
        return exp(mul(b, log(a)))
    return 1.0 if b == 0 else a if b == 1 else _power(b)(a)


def _power(b):
    return operation(lambda a: onp.power(a, b).item() if a == 0 else a**b, lambda a, r: mul(b, power(a, b - 1)))


def by(real_function, complex_function=None):
    """A function of numbers, real or complex, which overflows to infinity."""

    def value(a):
        try:
            return complex_function(a) if type(a) is complex else real_function(a)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return value


sin = operation(by(math.sin, cmath.sin), lambda a, r: cos(a))
cos = operation(by(math.cos, cmath.cos), lambda a, r: mul(-1.0, sin(a)))
exp = operation(by(math.exp, cmath.exp), lambda a, r: r)
log = operation(by(lambda a: math.log(a) if a else -math.inf, cmath.log), lambda a, r: div(1.0, a))
log1p = operation(by(math.log1p), lambda a, r: div(1.0, add(1.0, a)))


def _inverse_square_of_cosh(a):
    # (1 - tanh(a)**2 has no digits left far out.)
    cosh = mul(0.5, add(exp(a), exp(mul(-1.0, a))))
    return div(1.0, mul(cosh, cosh))


tanh = operation(by(math.tanh, cmath.tanh), lambda a, r: _inverse_square_of_cosh(a))
arctan = operation(by(math.atan), lambda a, r: div(1.0, add(1.0, mul(a, a))))
sqrt = operation(by(math.sqrt, cmath.sqrt), lambda a, r: div(0.5, r))
floor = operation(lambda a: (Decisions.note(a, round(a)), float(math.floor(a)))[1], lambda a, r: 0.0)


def linear(value):
    """A function that is linear over real numbers, of complex ones."""

    def op(a):
        a = number(a)
        return Dual(a.tag, op(a.v), {i: op(s) for i, s in a.d.items()}) if type(a) is Dual else value(a)

    return op


real, imag, conj = linear(lambda a: a.real), linear(lambda a: a.imag), linear(lambda a: a.conjugate())


def absolute(a):
    p = primal(a)
    if type(p) is complex:
        x, y = real(a), imag(a)
        return sqrt(add(mul(x, x), mul(y, y)))
    Decisions.note(a)
    return a if p > 0 else mul(-1.0, a) if p < 0 else mul(p, a)


def sign(a):
    Decisions.note(a)
    return float((primal(a) > 0) - (primal(a) < 0))


def mod(a, b):
    return add(a, mul(-1.0, mul(b, floor(div(a, b)))))


def maximum(a, b):
    return a if primal(a) != primal(a) or a >= b else b


def minimum(a, b):
    return a if primal(a) != primal(a) or a <= b else b


def is_dual(a):
    return type(a) is Dual or isinstance(a, onp.ndarray) and a.dtype == object


def each(function, usual):
    """`function` of each number where any carries a derivative, otherwise NumPy's."""

    def of_arrays(*arrays, **options):
        if not any(map(is_dual, arrays)):
            # (Of integers of 8 bits half precision, which a float64 number widens, and not a Python number.)
            found = usual(*arrays, **options)
            return onp.float64(found) if getattr(found, "dtype", None) in (onp.float16, onp.float32) else found
        if all(not isinstance(a, onp.ndarray) or a.ndim == 0 for a in arrays):
            return function(*map(number, arrays))
        parts = onp.broadcast_arrays(*[a if isinstance(a, onp.ndarray) else onp.array(a, object) for a in arrays])
        return packed([function(*map(number, row)) for row in zip(*[p.ravel().tolist() for p in parts])], parts[0].shape)

    return of_arrays


def packed(numbers, shape):
    """An array of numbers, or the number itself if the shape is (). It is one of objects, so that duals may be written to it."""
    if shape == ():
        return numbers[0]
    array = onp.empty(len(numbers), object)
    array[:] = numbers
    return array.reshape(shape)


class Numpy:
    """NumPy, where functions of single numbers take duals, too, and new arrays have room for them."""

    def __getattr__(self, name):
        return getattr(onp, name)

    for _name, _function in dict(
        sin=sin, cos=cos, exp=exp, log=log, log1p=log1p, tanh=tanh, arctan=arctan, sqrt=sqrt, floor=floor, real=real, imag=imag, conj=conj,
        abs=absolute, absolute=absolute, sign=sign, maximum=maximum, minimum=minimum, square=lambda a: mul(a, a),
        isnan=lambda a: primal(a) != primal(a), isfinite=lambda a: math.isfinite(primal(a)),
        clip=lambda a, low, high: minimum(maximum(a, low), high),
        stop=lambda a: primal(a),
    ).items():  # fmt: skip
        locals()[_name] = staticmethod(each(_function, getattr(onp, _name, lambda a: a)))

    @staticmethod
    def array(a):
        a = onp.array(a)
        return a.astype(object) if a.dtype.kind == "f" else a

    @staticmethod
    def zeros(n):
        return onp.zeros(n, object)

    @staticmethod
    def float32(a):
        return float(onp.float32(a))

    @staticmethod
    def zeros_like(a):
        return 0.0 if type(a) is Dual else onp.zeros_like(a)

    @staticmethod
    def ones_like(a):
        return 1.0 if type(a) is Dual else onp.full(onp.shape(a), 1.0)

    @staticmethod
    def mean(a, axis=None):
        return a.sum(axis) / (a.size if axis is None else a.shape[axis]) if is_dual(a) else onp.mean(a, axis)

    @staticmethod
    def where(condition, a, b):
        r = onp.where(condition, a, b)
        return r.item() if r.ndim == 0 and r.dtype == object else r


numpy = Numpy()


# ---- containers


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for key in tree for leaf in leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


def rebuilt(tree, of_leaf):
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
        level = Level(args[argnums])
        y = f(*args[:argnums], level.argument, *args[argnums + 1 :])
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


def autograd_grad(y, p, seed=None, create_graph=False, retain_graph=False):
    return (p.derivative(y, seed, create_graph),)


class Function:
    @classmethod
    def apply(cls, *args):
        return cls.forward(SimpleNamespace(save_for_backward=lambda *saved: None), *args)


def map_(f, xs):
    return scan(lambda carry, x: (carry, f(x)), None, xs)[1]


tg = SimpleNamespace(
    grad=grad, value_and_grad=value_and_grad, jacfwd=jacobian, jacrev=jacobian, jacobian=jacobian, hessian=hessian, hvp=hvp, vjp=vjp, jvp=jvp,
    jet=jet, linearize=linearize, vmap=vmap, elementwise_grad=elementwise_grad, hessian_diag=hessian_diag, laplacian=laplacian, sum_over=sum_over,
    sparse_jacobian=sparse_jacobian, jit=lambda f, **options: f, checkpoint=lambda f: f, derivative=grad, scan=scan, fori_loop=fori_loop,
    while_loop=while_loop, cond=lambda p, a, b, *operands: a(*operands) if p else b(*operands), switch=switch,
    map=map_, associative_scan=None, stop_gradient=numpy.stop,
    custom_vjp=lambda f, rule: f, custom_jvp=lambda f, rule: f, zeros=lambda n: onp.zeros(n, object), tensor=Leaf.of, array=numpy.array,
    config=SimpleNamespace(), autograd=SimpleNamespace(grad=autograd_grad, Function=Function),
)  # fmt: skip
