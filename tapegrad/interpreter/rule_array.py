"""The language that rules are written in, on whatever holds the numbers.

A rule (`Row.vjp`, `Row.jvp`, a partial derivative) is Python over objects that offer arithmetic, the functions of
`tapegrad.rules.lang`, and some thirty operations on arrays: movement, reductions, scans, products.  Here each of these is
written once, as a call of a *row* of the table: ``x.flip(axes)`` is the row ``flip`` with the attribute ``axes``, and
``x.narrow(...)`` the row ``as_strided``.  What becomes of the call is up to the store, which is what subclasses are:

===========  ===================================  ===========================================================================
store        class                                a call of a row
===========  ===================================  ===========================================================================
none         `array.recorded.Recorded` of arrays  is computed by NumPy at once
live         the same of tensors, dual numbers    is recorded (or carried forward) as if the user had written it, so what a
                                                  rule computes can be differentiated again
series       `array.series.Series`                is computed on the coefficients of power series, by the row's own rule
abstract     `kernel.terms.Term`                  is an instruction of a new tape: the row says shape and dtype (`Row.shape`)
planned      `symbolic.Sym`                       grows an expression, changes a window, or is a step of a program or a loop of a
                                                  kernel (`planner`)
===========  ===================================  ===========================================================================

A store says how a row is called (`_call`), how an element-wise operation is done (`_apply`), what a constant is, and little
besides.  A new operation is written here, and there in all of them.

*Lanes*: an operand may have one leading axis of several tangents or adjoints, which the rule does not see.  Operations count
axes, windows and positions behind it; what does not depend on a lane is computed once.

What a rule adds to *part* of its operand's adjoint, a window or single positions, it says by `RuleArray.place` and
`RuleArray.scatter`; the caller that accumulates adjoints decides whether that becomes zeros with the part in them, or an addition to what
is known already (`Windowed`, `Scattered`).
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from ..rules import lang as L
from ..rules.linalg import joined, packed, results
from ..rules.shapes import axes_of, taken_apart
from ..rules.shaping import logical_view
from ..tape.layout import c_strides

#: The rows of reductions, by what they do with two elements.
REDUCTIONS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}


class RuleArray(L.Operators, ABC):
    """The operations that all stores share, as calls of rows.

    Attributes
    ----------
    shape : tuple of int
        What the rule sees: without the axis of the lanes.
    lanes : int or None
        Extent of a leading axis that the rule does not see.
    plain : bool
        Whether it is memory of NumPy's, which may be written to by who made it.
    recorded : bool
        Whether what a rule computes from this may be differentiated again.
    """

    __slots__ = ()
    __array_ufunc__ = None
    lanes = None
    plain = recorded = False
    #: The row of ``x @ y``: in derivatives zero is absolute.
    _PRODUCT = "absolute_matmul"

    # -- what a store says --------------------------------------------------------------
    @abstractmethod
    def _call(self, name, operands, attrs=(), integer=0, compute=None):
        """The result of a row, with the lanes of this.

        Parameters
        ----------
        name : str
        operands : tuple of RuleArray
            Taken with their lanes, as the arrays they are.
        attrs, integer
            Attributes of the row.
        compute : callable, optional
            The value on plain arrays where that of the row is not quite meant: it would raise, or is slower.
        """

    @abstractmethod
    def constant(self, array):
        """A constant array in the dtype of this."""

    @abstractmethod
    def cast(self, char):
        """This in another dtype."""

    @abstractmethod
    def _lift(self, number):
        """A number, or what is a rule's array already, as one of this store."""

    def own(self):
        """This as it is, whatever becomes of the memory it may look at."""
        return self

    # -- lanes ----------------------------------------------------------------------------
    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def lead(self):
        """Number of axes that the rule does not see."""
        return 0 if self.lanes is None else 1

    def _front(self, shape):
        return tuple(shape) if self.lanes is None else (self.lanes, *shape)

    def _axes(self, axes):
        ndim, lead = self.ndim, self.lead
        return tuple([int(axis) % ndim + lead for axis in axes])

    def aligned(self, ndim):
        """This with axes of extent 1 between the lanes and the rest, for `ndim` axes that the rule sees."""
        return self if self.lanes is None or self.ndim == ndim else self.reshape((1,) * (ndim - self.ndim) + self.shape)

    def laned(self, lanes, shape=None):
        """This with an axis for `lanes`, and broadcast to `shape`."""
        shape = self.shape if shape is None else tuple(shape)
        if self.lanes == lanes:
            return self.broadcast_to(shape)
        return self.broadcast_to((lanes, *shape))._seen(lanes)

    def of_lane(self, k):
        """The array of one lane, as the rule sees it; itself without lanes."""
        return self if self.lanes is None else self._seen(None).narrow(0, k, k + 1).reshape(self.shape)

    def in_lanes(self, each):
        """Arrays like this, one for each lane, as one with lanes."""
        return self._call("stack", tuple(each), (("axis", 0),))._seen(len(each))

    def _seen(self, lanes):
        """The same array, of which the first axis is that of `lanes`, or none is."""
        return self

    def row(self, name, *others, **attrs):
        """The result of the row `name`, of this and `others`: for rows that the language has no word for."""
        operands = (self, *others)
        lanes = lanes_of(operands)
        if lanes is None:
            return self._call(name, operands, tuple(attrs.items()))
        return self.in_lanes([self._seen(None)._call(name, tuple(x.of_lane(k) for x in operands), tuple(attrs.items())) for k in range(lanes)])

    # -- products and matrices ---------------------------------------------------------------
    def product(self, other):
        """The matrix product as NumPy computes it: zero times infinity is NaN."""
        return self._call("matmul", (self, other))

    def __matmul__(self, other):
        x, y = self, other
        if x.lanes is None and y.lanes is None:
            return x._call(self._PRODUCT, (x, y))
        together = _one_product(x, y)
        if together is not None:
            return together
        row, column = x.ndim == 1, y.ndim == 1
        x = x.expand_dims([0]) if row else x
        y = y.expand_dims([1]) if column else y
        ndim = max(x.ndim, y.ndim)
        result = (x if y.lanes is None else y)._call(self._PRODUCT, (x.aligned(ndim), y.aligned(ndim)))
        shape = result.shape
        if row:
            shape = (*shape[:-2], shape[-1])
        return result.reshape(shape[:-1] if column else shape)

    def _matrices(self, name, *others):
        operands = (self, *others)
        ndim = max(x.ndim for x in operands)
        of = next((x for x in operands if x.lanes is not None), self)
        return of._call(name, tuple(x.aligned(ndim) for x in operands), compute=lambda *arrays: results(name, *arrays)[0])

    def inv(self):
        """The inverses of matrices."""
        return self._matrices("inv")

    def det(self):
        """The determinants of matrices."""
        return self._matrices("det")

    def logabsdet(self):
        """The logarithms of the absolute values of the determinants of matrices."""
        return self._call("logabsdet", (self,))

    def cholesky(self, upper):
        """The triangular factors of positive definite matrices."""
        return self._call("cholesky", (self,), (("upper", upper),))

    def solve(self, other):
        """The solutions X of ``self @ X = other``."""
        return self._matrices("solve", other)

    def cofactors(self):
        """The cofactors of matrices."""
        return self._call("cofactors", (self,), compute=lambda a: joined(*results("svd", a)))

    def fourier(self, **attrs):
        """A discrete Fourier transform (`rules.complex`)."""
        return self._call("fourier", (self,), tuple(attrs.items()))

    def svd(self):
        """The reduced singular value decomposition ``U, s, Vh``."""
        (m, n), axis = self.shape[-2:], self.ndim - 2
        u, values, v = taken_apart(self._call("svd", (self,), compute=lambda a: packed(*results("svd", a))), (m, 1, n), axis)
        return [u, values.reshape((*self.shape[:-2], min(m, n))), v.swapaxes(-1, -2)]

    # -- views --------------------------------------------------------------------------------
    def transpose(self, axes):
        """The axes in another order."""
        axes = (*range(self.lead), *self._axes(axes))
        return self if axes == (*range(len(axes)),) else self._call("transpose", (self,), (("axes", axes),))

    def swapaxes(self, i, j):
        """Two axes exchanged."""
        axes = list(range(self.ndim))
        axes[i], axes[j] = axes[j], axes[i]
        return self.transpose(axes)

    def reshape(self, shape):
        """The same elements in another shape."""
        shape = tuple(int(n) for n in shape)
        return self if shape == self.shape else self._call("reshape", (self,), (("shape", self._front(shape)),))

    def expand_dims(self, axes):
        """New axes of extent 1 at `axes` (positions in the result, sorted)."""
        shape = list(self.shape)
        for axis in axes:
            shape.insert(axis, 1)
        return self.reshape(shape)

    def flip(self, axes):
        """The order along axes reversed."""
        return self._call("flip", (self,), (("axes", self._axes(axes)),))

    def broadcast_to(self, shape):
        """Repeated along new axes and those of extent 1."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        x, front = self.aligned(len(shape)), self._front(shape)
        own = x._front(x.shape)
        strides = tuple(0 if n == 1 else s for n, s in zip(own, c_strides(own, 1)))
        attrs = (("shape", front), ("strides", (0,) * (len(front) - len(own)) + strides))
        return x._call("broadcast_to", (x,), attrs, compute=lambda a: np.broadcast_to(a, front))

    def narrow(self, axis, start, stop):
        """The part ``start:stop`` along `axis`."""
        shape, strides = list(self.shape), c_strides(self.shape, 1)
        axis %= self.ndim
        shape[axis] = stop - start
        if start == 0 and tuple(shape) == self.shape:
            return self
        part = (slice(None),) * (axis + self.lead) + (slice(start, stop),)
        return self._window("as_strided", (self,), shape, strides, start * strides[axis], lambda a: a[part])

    def strided(self, shape, strides, offset):
        """The window of `shape` with strides in elements of the whole, C-ordered array; `offset` is in elements."""
        shape, strides = tuple(shape), tuple(strides)
        if offset == 0 and shape == self.shape and strides == c_strides(shape, 1):
            return self
        whole = self._front(shape), self._steps(strides, self.size)
        return self._window(
            "select" if whole[0] == () else "as_strided", (self,), shape, strides, offset, lambda a: logical_view(a, *whole, offset).copy()
        )

    def _steps(self, strides, count):
        """Strides into an array of `count` elements, for every lane."""
        return tuple(strides) if self.lanes is None else (count, *strides)

    def _window(self, name, operands, shape, strides, offset, compute=None):
        """A row on a window of this."""
        attrs = (("shape", self._front(shape)), ("strides", self._steps(strides, self.size)))
        return self._call(name, operands, attrs, offset, compute)

    # -- parts of arrays ------------------------------------------------------------------------
    def place(self, shape, strides, offset):
        """Contribution: this array added into a window of zeros of `shape`."""
        source, strides = once(self, strides)
        return source.reshape(shape) if fills(source, shape, strides, offset) else Windowed(source, shape, strides, offset)

    def scatter(self, index, shape):
        """Contribution: this array added at flat positions `index` of zeros of `shape`."""
        return Scattered(self, index, shape)

    def placed(self, shape, strides, offset):
        """`place` as an array that the rule may go on with."""
        attrs = (("shape", self._front(shape)), ("strides", self._steps(strides, math.prod(shape))))
        return self._call("place", (self,), attrs, offset)

    def scattered(self, index, shape):
        """`scatter` as an array that the rule may go on with."""
        positions = self._positions(index, math.prod(shape))
        return self._call("scatter", (self, positions), (("shape", self._front(shape)),))

    def gather(self, index, shape):
        """The elements at flat positions `index`, in `shape`."""
        return self._call("gather", (self, self._positions(index, self.size)), (("shape", self._front(shape)),))

    def _positions(self, index, count):
        """Flat positions `index` into arrays of `count` elements, for every lane."""
        return index

    def add_window(self, other, strides, offset):
        """This with `other` added into a window."""
        whole, other = _side_by_side(self, other)
        return whole._window("add_window", (whole, other), other.shape, strides, offset)

    def add_at(self, other, index):
        """This with `other` added at flat positions `index`."""
        whole, other = _side_by_side(self, other)
        return whole._call("add_at", (whole, other, whole._positions(index, whole.size)))

    def zeroed(self, shape, strides, offset):
        """This with a window set to zero."""
        return self._window("setitem", (self, self._lift(0.0)), shape, strides, offset)

    def zeroed_at(self, index):
        """This with flat positions set to zero."""
        return self.put_at(index, None)

    def put_at(self, index, value):
        """This with `value` (None: zero) at the flat positions `index`, each of which occurs once."""
        whole, value = (self, self._lift(0.0)) if value is None else _side_by_side(self, value)
        positions, value = whole._positions(index, whole.size), value._seen(None)
        value = value if value.shape == () else value.reshape((value.size,))
        return whole._call("put", (whole, value, positions), (("shape", (positions.size,)),))

    def assemble(self, shape, parts):
        """Zeros, in the dtype of this, with windows ``(value, shape, strides, offset)`` written in order.

        Strides None are those of the whole.
        """
        lanes = lanes_of([value for value, *_ in parts])
        whole = self.constant(np.zeros(tuple(shape) if lanes is None else (lanes, *shape)))._seen(lanes)
        for value, extents, strides, offset in parts:
            value = self._lift(value).aligned(len(extents))
            if strides is None and not value.plain and value.lanes == lanes and value.shape == whole.shape:
                whole = value
            elif 0 not in extents:
                strides = c_strides(shape, 1) if strides is None else strides
                if whole.plain and value.plain:
                    window = whole.a.reshape(-1)[offset:], whole._front(extents), whole._steps(strides, whole.size)
                    _strided(*window)[...] = value.a
                else:
                    whole = whole._window("setitem", (whole, value), extents, strides, offset)
        return whole

    # -- reductions and scans ---------------------------------------------------------------------
    def reduce(self, how, axis=None, keepdims=False):
        """One of ``"add"``, ``"mul"``, ``"max"``, ``"min"`` over axes."""
        axes = tuple(a + self.lead for a in axes_of(self, axis))
        return self._call(REDUCTIONS[how], (self,), (("axis", axes), ("keepdims", bool(keepdims)))) if axes else self

    def sum(self, axis=None, keepdims=False):
        """The sum over axes."""
        return self.reduce("add", axis, keepdims)

    def scan(self, axis, how="add", reverse=False, exclusive=False):
        """Cumulative sum or product along `axis`; exclusive: of what comes before each element."""
        axis = int(axis) % self.ndim
        result = self.flip([axis]) if reverse else self
        result = result._call("cumsum" if how == "add" else "cumprod", (result,), (("axis", axis + self.lead),))
        if exclusive:
            result = result._delayed(axis, 0.0 if how == "add" else 1.0)
        return result.flip([axis]) if reverse else result

    def recur(self, factors, axis, reverse=False, lag=False, exclusive=False):
        """First-order linear recurrence ``y[k] = self[k] + factors[k] * y[k - 1]`` along `axis`.

        Parameters
        ----------
        factors : RuleArray
        axis : int
        reverse : bool
            From the last element to the first.
        lag : bool
            The factor is that of the element before: ``factors[k - 1]``.
        exclusive : bool
            Gives what each element is about to receive instead of the sum: ``y[k - 1]``.
        """
        shape, lanes = np.broadcast_shapes(self.shape, factors.shape), lanes_of((self, factors))
        axis = int(axis) % len(shape)
        b, f = self.laned(lanes, shape), factors.laned(lanes, shape)
        result = b._call("recurrence", (b, f), (("axis", axis + b.lead), ("reverse", reverse), ("lag", lag)))
        if exclusive:
            result = L.absolute_product(f, result) if lag else result
            result = result.flip([axis])._delayed(axis, 0.0).flip([axis]) if reverse else result._delayed(axis, 0.0)
        return result

    def _delayed(self, axis, first):
        """Moved on by one place along `axis`; the first place becomes `first`."""
        if not self.shape[axis]:
            return self
        shape = self._front(1 if k == axis else n for k, n in enumerate(self.shape))
        parts = self.constant(np.full(shape, first)), self.narrow(axis, 0, self.shape[axis] - 1)
        return self._call("concatenate", parts, (("axis", axis + self.lead),))

    # -- derivatives ------------------------------------------------------------------------------
    def as_adjoint(self, meta, lanes=None):
        """A contribution, which may have the broadcast shape of the result or lack axes, as one to an operand described by `meta`."""
        shape = meta.shape
        x = self if self.lanes == lanes else self.laned(lanes)
        if x.shape != shape:
            whole = np.broadcast_shapes(x.shape, shape)
            if whole == shape:
                return x.cast(meta.char).broadcast_to(shape)
            x = x.broadcast_to(whole)
            lead = x.ndim - len(shape)
            x = x.sum([d for d in range(x.ndim) if d < lead or shape[d - lead] == 1 and x.shape[d] != 1]).reshape(shape)
        return x.cast(meta.char)

    def as_tangent(self, meta, lanes=None):
        """The tangent that a rule has returned, of a value described by `meta`."""
        return (self if self.lanes == lanes else self.laned(lanes)).cast(meta.char).broadcast_to(meta.shape)


def accumulated(adjoint, part, meta, lanes=None):
    """The adjoint of an operand, which so far is `adjoint` (None: zero), with one contribution more."""
    if isinstance(part, (Windowed, Scattered)):
        source = part.source
        return part.joined(adjoint, (source if source.lanes == lanes else source.laned(lanes)).cast(meta.char))
    part = part.as_adjoint(meta, lanes)
    return part if adjoint is None else adjoint + part


def _one_product(x, y):
    """The products of one matrix with what every lane has, as a single product of matrices; None if it is not that."""
    if y.lanes is None and y.ndim == 2 and x.ndim in (1, 2):
        rows = x._seen(None).reshape((x.lanes * math.prod(x.shape[:-1]), x.shape[-1]))
        return (rows @ y).reshape((x.lanes, *x.shape[:-1], y.shape[-1]))._seen(x.lanes)
    if x.lanes is None and x.ndim == 2 and (y.ndim == 1 or y.ndim == 2 and y.shape[-1] == 1):
        vectors = y._seen(None).reshape((y.lanes, y.shape[0]))
        return (vectors @ x.transpose((1, 0))).reshape((y.lanes, x.shape[0], *y.shape[1:]))._seen(y.lanes)
    return None


def _strided(flat, shape, strides):
    """A window into consecutive elements, for writing."""
    return np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in strides])


def _side_by_side(x, y):
    """Both with the same lanes."""
    lanes = lanes_of((x, y))
    return x if x.lanes == lanes else x.laned(lanes), y if y.lanes == lanes else y.laned(lanes)


def lanes_of(operands):
    """The lanes of the first operand that has any."""
    for x in operands:
        if isinstance(x, RuleArray) and x.lanes is not None:
            return x.lanes
    return None


class Windowed:
    """A contribution that is added into a window of its operand's adjoint."""

    def __init__(self, source, shape, strides, offset):
        self.source, self.shape, self.strides, self.offset = source, tuple(shape), tuple(strides), offset

    def joined(self, adjoint, source):
        """The `adjoint` (None: zero) with this contribution, whose array is by now `source`."""
        if adjoint is None:
            return source.placed(self.shape, self.strides, self.offset)
        return adjoint.add_window(source, self.strides, self.offset)


class Scattered:
    """A contribution that is added at positions of its operand's adjoint."""

    def __init__(self, source, index, shape):
        self.source, self.index, self.shape = source, index, tuple(shape)

    def joined(self, adjoint, source):
        """As `Windowed.joined`."""
        return source.scattered(self.index, self.shape) if adjoint is None else adjoint.add_at(source, self.index)


def once(x, strides):
    """`x` summed over the axes along which a window stays where it is, and the strides of the others."""
    repeated = [k for k, (n, s) in enumerate(zip(x.shape, strides)) if s == 0 and n != 1]
    if repeated and x.size:
        x, strides = x.reduce("add", repeated), [s for k, s in enumerate(strides) if k not in repeated]
    return x, tuple(strides)


def fills(x, shape, strides, offset):
    """Whether a window that `x` is written to is all of an array of `shape`, in order."""
    if offset or x.size != math.prod(shape):
        return False
    return all(s == c for n, s, c in zip(x.shape, strides, c_strides(x.shape, 1)) if n != 1)
