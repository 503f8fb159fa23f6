"""The rules' language (`interpreter.rule_array`) on truncated power series: Taylor coefficients of any order from first derivatives.

A row says how a result z = f(x, y) changes with its operands: ``z' = f_x x' + f_y y'`` (`Row.tangent`).  With series in the
place of numbers this is a recurrence: the coefficient of order k of z' is k + 1 times that of order k + 1 of z, and f_x and f_y,
which may read z, are needed to order k only (A. Griewank and A. Walther, *Evaluating Derivatives*, 2008, chapter 13).  So the
rule of a row is run once, on series that give their coefficients when asked, each computed from lower ones.  A rule that calls
another row gives a series of that row, found again when it is called again: cos(x), the partial derivative of the sine, has that
same sine for its own.

What is done without a derivative, because it takes fewer operations: rows that are linear in what varies are applied to each
order; products are Cauchy sums; quotients, of numbers and of matrices, are solved for the highest order.
"""

from functools import cache

import numpy as np

from ..common.errors import HigherOrderError
from ..interpreter.rule_array import RuleArray
from ..rules import BY_NAME
from ..rules import lang as L
from .recorded import LOGICAL, partials_of, row_of


class Calls(dict):
    """The results of rows that were called on series, by row and operands.

    As a context it lets go of them at its end: series refer to each other in circles.
    """

    def __init__(self):
        super().__init__()
        self.series = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.clear()
        for series in self.series:
            series.term = series._rate = None
        self.series.clear()


class Series(RuleArray):
    """A power series in one variable, whose coefficients are arrays of another store.

    Parameters
    ----------
    first : RuleArray
        The coefficient of order 0.
    table : Calls
        All series of a computation share one.
    term : callable, optional
        ``term(k)`` gives the coefficient of order k > 0 once those below it are known, or None for zero; without it
        the series is a constant.
    """

    __slots__ = ("coefficients", "table", "term", "_rate")

    recorded = True

    def __init__(self, first, table, term=None):
        self.coefficients, self.table, self.term, self._rate = [first], table, term, None
        table.series.append(self)

    @property
    def first(self):
        """The coefficient of order 0."""
        return self.coefficients[0]

    @property
    def shape(self):
        return self.first.shape

    def coefficient(self, k):
        """The coefficient of order `k`; None if it is zero at any values."""
        if self.term is None:
            return None if k else self.first
        while len(self.coefficients) <= k:
            self.coefficients.append(self.term(len(self.coefficients)))
        return self.coefficients[k]

    def rate(self):
        """The derivative of the series; None for a constant."""
        if self.term is None:
            return None
        if self._rate is None:
            first = self.coefficient(1)
            first = self.first.constant(np.zeros(self.shape)) if first is None else first
            self._rate = Series(first, self.table, lambda k: _scaled(self.coefficient(k + 1), k + 1.0))
        return self._rate

    # -- the store ------------------------------------------------------------------------
    def _call(self, name, operands, attrs=(), integer=0, compute=None):
        row = BY_NAME[name]

        def value(first, *others):
            return first._call(name, (first, *others), attrs, integer, compute)

        return self._found(row, operands, row.keywords(attrs, integer), (name, attrs, integer), value)

    def _apply(self, name, *args):
        def value(*values):
            return self.first._apply(name, *values)

        return self._found(row_of(name), [self._lift(a) for a in args], {}, (name,), value)

    def _found(self, row, operands, attrs, key, compute):
        """The result of a row that may have been called before; its operands stay in the table, so that none has the address of another."""
        key = (*key, *map(id, operands))
        if key not in self.table:
            value = compute(*(o.first for o in operands))
            if all(o.term is None for o in operands) or key[0] in LOGICAL:
                result = Series(value, self.table)
            elif any(operands[k].term is not None for k in row.refused):
                raise HigherOrderError(f"{key[0]}, which a derivative of it is written with, has no series: {'; '.join(row.refused.values())}")
            elif not row.slots(len(operands)):
                result = Series(value, self.table)
            else:
                result = series_of(row, operands, value, attrs, self.table)
            self.table[key] = result, operands
        return self.table[key][0]

    def constant(self, array):
        return Series(self.first.constant(array), self.table)

    def cast(self, char):
        first = self.first.cast(char)
        if first is self.first:
            return self
        return Series(first, self.table, self.term and (lambda k: _mapped(self.coefficient(k), lambda c: c.cast(char))))

    def _lift(self, number):
        if isinstance(number, Series):
            return number
        # 0.0, -0.0 and False are equal, and not the same.
        key = repr(number)
        if key not in self.table:
            self.table[key] = Series(self.first._lift(number), self.table)
        return self.table[key]

    def _positions(self, index, count):
        return Series(self.first._positions(index.first, count), self.table)


def series_of(row, operands, value, attrs, table):
    """The series that a row makes of series.

    Parameters
    ----------
    row : Row
    operands : sequence of Series
    value : RuleArray
        The result at order 0.
    attrs : dict
        All attributes, the dynamic one included.
    table : Calls
    """
    z = Series(value, table)
    varying = [operands[k] for k in row.slots(len(operands))]
    shape, char = value.shape, value.a.dtype.char
    firsts = [o.first for o in operands]
    rates = []

    def fitted(coefficient):
        return _mapped(coefficient, lambda c: c.cast(char).broadcast_to(shape))

    def each(k):
        tangents = [o.coefficient(k) for o in varying]
        return fitted(row.tangent(tangents, firsts, value, attrs))

    def cauchy(k):
        x, y = varying
        return fitted(_convolved(product, x, y, range(k + 1), k))

    def quotient(k):
        above, below = varying[::-1] if row.name == "solve" else varying
        rest, known = above.coefficient(k), _convolved(product, below, z, range(1, k + 1), k)
        rest = rest if known is None else -known if rest is None else rest - known
        # As the partial derivative says it: zero over zero is zero.
        return fitted(_mapped(rest, below.first.solve if row.name == "solve" else lambda c: product(c, 1.0 / below.first)))

    def by_rule(k):
        if not rates:
            rates.append(row.tangent([o.rate() for o in varying], operands, z, attrs))
        return None if rates[0] is None else _scaled(fitted(rates[0].coefficient(k - 1)), 1.0 / k)

    product = L.absolute_product if row.elementwise else lambda x, y: x @ y
    if any(o.term is not None for o in varying):
        if row.name in ("divide", "solve"):
            z.term = quotient
        elif row.effect == "product" or row.elementwise and _is_product(row):
            z.term = cauchy
        else:
            z.term = each if row.linear or row.elementwise and _is_linear(row) else by_rule
    return z


def _convolved(product, x, y, orders, k):
    """The sum over `orders` i of the products of coefficient i of `x` with k - i of `y`; None if it is zero at any values."""
    total = None
    for i in orders:
        a, b = x.coefficient(i), y.coefficient(k - i)
        if a is not None and b is not None:
            total = product(a, b) if total is None else total + product(a, b)
    return total


def _mapped(coefficient, function):
    return None if coefficient is None else function(coefficient)


def _scaled(coefficient, factor):
    return coefficient if coefficient is None or factor == 1.0 else coefficient * factor


@cache
def _is_linear(row):
    """Whether an element-wise row is linear in what has a derivative: the partial derivatives read nothing but the rest."""
    return all(set(partial.leaves()) <= set(row.constants) for partial in partials_of(row).values())


@cache
def _is_product(row):
    """Whether an element-wise row is the product of its two operands: the partial derivative in each is the other."""
    return row.arity == 2 and {k: p.args for k, p in partials_of(row).items() if p.op == "arg"} == {0: (1,), 1: (0,)}
