"""The operators of tensors: ``+ - * / ** % // @``, comparisons, and their reflected forms.

The four arithmetic ones are written for speed on scalars: one comparison
(`store.ident`) says that the operand is on a live tape of this very thread, and
the instruction is appended to the store's staging lists.  Anything else goes to
`tapegrad.array.record`.  Importing this module puts the operators on `Differentiable`, and the
fast arithmetic on `Tensor`.
"""

import operator
import sys
from _thread import get_ident

import numpy as np

from ..common.observers import LISTENERS, notify
from ..common.registry import attach, registry
from ..common.tree import is_matrix, is_sparse, is_table
from ..rules import BY_NAME
from ..tape.places import PACKAGE
from .differentiable import Differentiable
from .functions.groups import sparse_product
from .leaving import not_in_pandas
from .record import apply, plain, record_nondiff
from .tensor import Parameter, Tensor

#: Source of the operations on numbers (`recording`): of these operators, of an element of a vector (`indexing`), and of NumPy's
#: functions (`numpy_api.dispatch`).  Written out for each because a call of a Python function costs as much as a tenth of the
#: whole operation.  What follows the computation of `value` is the same in all.  The token (`tape.store`) is the number again, as a new object: that takes an
#: operator 3 % of its time, a bare object and a list of values 12 %, a weak reference to the tensor 28 %.
_APPEND = """
            tokens = store.tokens
            index = len(tokens)
            if index >= store.limit:
                store.make_room()
                return {slow}
            frame = {frame}
            if frame.f_code is not store.code:
                store.note_code(frame)
            store.ops.append({opcode})
            store.lefts.append({left})
            store.rights.append({right})
            store.offsets.append(frame.f_lasti)
            t = Tensor()
            t._k = token = 1.0 * value
            tokens.append(token)
            t._v = value
            t._t = store
            t._i = index
            return t
    return {slow}
"""

#: The square has an instruction of its own.
_POWER = """
def __pow__(self, other):
    store = self._t
    if store is not None and store.ident == get_ident():
        x = self._v
        kind = type(other)
        if type(x) is float and (kind is int or kind is float or kind is float64):
            if other == 2:
                value = x * x
                opcode, right = {square}, 0
            else:
                try:
                    right = float(other)
                    value = pow(x, right)
                except (ArithmeticError, ValueError):
                    return {slow}
                opcode = {power}
"""

_UNARY = """
def {method}(self):
    store = self._t
    if store is not None and store.ident == get_ident():
        x = self._v
        if type(x) is float:
            value = {value}
"""

_FAST_PATH = """
def {method}(self, other):
    store = self._t
    if store is not None and store.ident == get_ident():
        {own} = self._v
        if type({own}) is float:
            kind = type(other)
            if kind is float:
                {theirs} = operand = other
            elif kind is Tensor or kind is Parameter:
                {theirs} = other._v
                if type({theirs}) is not float:
                    return binary(row, {order})
                theirs = other._t
                if theirs is store:
                    operand = other._i
                elif theirs is not None:
                    return binary(row, {order})
                elif other._r:
                    try:
                        operand = store.leaves[other._k]
                    except KeyError:
                        operand = store.enter(other)
                else:
                    operand = {theirs}
            elif kind is int or kind is float64:
                {theirs} = operand = float(other)
            else:
                return binary(row, {order})
            try:
                value = x {symbol} y
            except ArithmeticError:
                return binary(row, {order})
"""


def _accepts(other):
    # xarray's arrays have their own way with a tensor, and keep their labels.
    return isinstance(other, (Differentiable, float, int, np.ndarray, np.generic, list, tuple, complex))


#: Types that need no closer look.
_KNOWN = {float, int, np.ndarray, np.float64, Tensor, Parameter}
_NUMBERS = _KNOWN - {np.ndarray}


def _binary(row, a, b):
    """The slow path of an operator, for a row of two operands."""
    if a.__class__ is float and b.__class__ is Tensor and b._t is None and not b._r and b._v.__class__ is np.ndarray and b._v.ndim:
        # A gradient times a number, for each parameter at each step of an optimiser.
        return plain(row.value(a, b._v))
    if "pandas" in sys.modules:
        not_in_pandas((a, b))
    if (a.__class__ in _KNOWN or _accepts(a)) and (b.__class__ in _KNOWN or _accepts(b)):
        return apply(row, (a, b), depth=4)
    if row.name == "matmul" and (is_sparse(a) or is_sparse(b)) or row.name == "multiply" and (is_matrix(a) or is_matrix(b)):
        return sparse_product(a, b)
    return registry.beside_table(getattr(np, row.name), a, b) if is_table(a) or is_table(b) else NotImplemented


def _arithmetic(row, reflected):
    def method(self, other):
        return _binary(row, other, self) if reflected else _binary(row, self, other)

    return method


def _compare(name, ufunc):
    function = getattr(operator, name)

    def method(self, other):
        if other.__class__ not in _NUMBERS:
            if not _accepts(other):
                return registry.beside_table(ufunc, self, other) if is_table(other) else NotImplemented
            if "pandas" in sys.modules:
                not_in_pandas((other,))
            other = registry.objects.operand(other)
        if LISTENERS:
            notify(f"comparison ({ufunc.__name__})", self, other)
        result = function(self._v, other._v if isinstance(other, Differentiable) else other)
        return record_nondiff(ufunc, (self, other), result)

    return method


def _bitwise(function, reflected):
    def method(self, other):
        if is_table(other):
            pair = (other, self) if reflected else (self, other)
            return registry.beside_table(function, *pair)
        pair = self, registry.objects.operand(other)
        if reflected:
            pair = pair[::-1]
        return record_nondiff(function, pair, function(*[getattr(p, "_v", p) for p in pair]))

    return method


def _bitwise_update(function):
    # A number is never changed in Python: the name goes on with another one.
    return lambda self, other: function(self, registry.objects.operand(other), out=self) if self.shape else NotImplemented


def __neg__(self):
    return apply("negative", (self,))


def __pos__(self):
    return self


def __abs__(self):
    return apply("absolute", (self,))


def __pow__(self, other):
    if not _accepts(other):
        return _binary(BY_NAME["power"], self, other)
    kind = type(other)
    # A number of NumPy is float64 beside an array, too.
    if (kind is int or kind is float or kind is np.float64 and type(self._v) is float) and other == 2:
        return apply("power2", (self,))
    return apply("power", (self, other))


def __divmod__(self, other):
    return self // other, self % other


def __rdivmod__(self, other):
    return other // self, other % self


def __invert__(self):
    return record_nondiff(np.invert, (self,), np.invert(self._v))


#: Operators: the rows of binary ones, and the functions of those without derivative.
_ROWS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "mod": "remainder", "floordiv": "floor_divide",
    "matmul": "matmul", "pow": "power",
}  # fmt: skip
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift}

_SCOPE = {
    "Tensor": Tensor, "Parameter": Parameter, "_frame": sys._getframe, "binary": _binary, "get_ident": get_ident,
    "float64": np.float64, "pow": BY_NAME["power"].scalar,
}  # fmt: skip


def _install_operators():
    """Put the operators on `Differentiable`; those of tensors for ``+ - * /`` come from the template `_FAST_PATH`."""
    methods = {f"__{method}__": _arithmetic(BY_NAME[name], False) for method, name in _ROWS.items()}
    methods |= {f"__r{method}__": _arithmetic(BY_NAME[name], True) for method, name in _ROWS.items()}
    methods |= {f"__{name}__": _compare(name, ufunc) for name, ufunc in _COMPARISONS.items()}
    for name, function in _BITWISE.items():
        methods |= {f"__{name}__": _bitwise(function, False), f"__r{name}__": _bitwise(function, True), f"__i{name}__": _bitwise_update(function)}
    methods |= {name: globals()[name] for name in ("__neg__", "__pos__", "__abs__", "__pow__", "__divmod__", "__rdivmod__", "__invert__")}
    attach(Differentiable, methods)
    fast = {}
    for method, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/")):
        row = BY_NAME[_ROWS[method]]
        for reflected in (False, True):
            name, order = f"__{'r' if reflected else ''}{method}__", "other, self" if reflected else "self, other"
            own, theirs, left, right = ("y", "x", "operand", "self._i") if reflected else ("x", "y", "self._i", "operand")
            fast[name] = recording(
                name, _FAST_PATH, {"row": row}, f"binary(row, {order})", row.opcode, left, right,
                method=name, symbol=symbol, own=own, theirs=theirs, order=order,
            )  # fmt: skip
    opcodes = {"square": BY_NAME["power2"].opcode, "power": BY_NAME["power"].opcode}
    fast["__pow__"] = recording("__pow__", _POWER, {"power": __pow__}, "power(self, other)", "opcode", "self._i", "right", **opcodes)
    for row, name, value in (("negative", "__neg__", "-x"), ("absolute", "__abs__", "abs(x)")):
        fast[name] = recording(name, _UNARY, {"long": globals()[name]}, "long(self)", BY_NAME[row].opcode, "self._i", method=name, value=value)
    attach(Tensor, fast)


def recording(name, head, scope, slow, opcode, left, right="0", frame="_frame(1)", **parts):
    """The function `name` whose source is `head`, which computes `value` if it can, and the recording of that (`_APPEND`).

    Parameters
    ----------
    name, head : str
    scope : dict
        What the source refers to, besides what is the same in all.
    slow, opcode, left, right, frame : str
        Expressions: the answer where `value` was not computed, what is recorded, and the frame of the user's code.
    **parts : str
        What `head` has in braces.
    """
    source = (head.rstrip() + _APPEND).format(slow=slow, opcode=opcode, left=left, right=right, frame=frame, **parts)
    scope = {**_SCOPE, **scope}
    exec(compile(source, f"{PACKAGE}<operators>", "exec"), scope)
    return scope[name]


_install_operators()
