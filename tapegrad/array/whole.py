"""Integers and booleans of a recording: labels, indices, masks, and what is computed from them.

No derivative passes through them, so NumPy itself computes everything that is done to them alone: the same function on the
same operands, noted as a host function (`program.trace`), with NumPy's dtypes and errors.  Views and sums are rows of the
table, as those of floats are; and what has a float beside it is an operation on that float.

Python's own questions (``int(n)``, ``range(n)``, ``d[label]``, ``str(n)``), and methods of arrays that tensors do not have,
are answered by the content, which is then guarded.

Outside of recordings integers are plain arrays, or constant tensors.
"""

import operator

import numpy as np

from ..common.errors import DtypeError
from ..common.registry import attach, registry
from ..common.tree import is_table, mapped, parts_of
from .differentiable import Differentiable
from .indexing import is_basic, setitem
from .operators import argument_changed, is_argument
from .record import failed, trace_of
from .tensor import Tensor
from .views import note_view, root_of, views_of


class IntTensor(Tensor):
    """A live integer or boolean tensor: a result or an argument of a functional recording."""

    __slots__ = ()

    def content(self):
        """The value, read-only; a replay guards it."""
        value = np.asarray(self._let_out("the content of integers")).view()
        value.flags.writeable = False
        return value

    def __getattr__(self, name):
        # Only what a tensor does not have.
        if name[0] == "_" or not hasattr(np.ndarray, name):
            raise AttributeError(f"an array of integers has no attribute {name!r}")
        return getattr(self.content(), name)

    def __str__(self):
        return str(self.content())

    def __repr__(self):
        return repr(self.content())

    def __format__(self, spec):
        return format(self.content()[()], spec)

    def __reduce__(self):
        return np.array, (self.content(),)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    @property
    def _numba_type_(self):
        raise self._t.trace.refused("a function compiled by Numba is called with integers that are an argument of a recorded function")

    def __setitem__(self, key, value):
        value = registry.objects.operand(value)
        if isinstance(value, Differentiable) and not is_whole((self, value)):
            raise self._no_float()
        if is_basic(key):
            setitem(self, key, value)
            return
        self._change(by_numpy(_assigned, (self, key, value), {}))

    def _no_float(self):
        return DtypeError(
            f"a value that may carry a derivative is put into a tensor of dtype {self.dtype}, which would round it "
            "and cut its derivative; make that tensor with tg.zeros or .astype(float)"
        )

    def _change(self, result):
        """Have the elements of `result` from now on."""
        if is_argument(root_of(self)[0]):
            raise argument_changed()
        if root_of(self)[0] is not self or self._v.base is not None or views_of(self):
            setitem(self, Ellipsis, result)
        else:
            self._become(result)


def _assigned(array, key, value):
    changed = np.array(array)
    changed[key] = value
    return changed


def _written(array, at, function, args, kwargs):
    changed = np.array(array)
    function(*[changed] * at, *args, **kwargs, **({} if at else {"out": changed}))
    return changed


def is_whole(things):
    """Whether there are live integers among things in lists, tuples and dicts, and nothing else that may carry a derivative."""
    some = False
    for thing in parts_of(things, Differentiable):
        if thing.__class__ is IntTensor:
            some = True
        elif thing._t is not None or thing._r or thing._is_dual:
            return False
    return some


def _settled(thing):
    """`thing` with the ends of slices as Python numbers: they say how long something is."""
    if isinstance(thing, slice):
        return slice(*[operator.index(p) if isinstance(p, Differentiable) else p for p in (thing.start, thing.stop, thing.step)])
    return mapped(_settled, thing)


def _value(thing):
    """`thing` with the read-only values of tensors in their places."""
    if isinstance(thing, Differentiable):
        value = np.asarray(thing._v).view()
        value.flags.writeable = False
        return value
    return mapped(_value, thing)


def _content(thing):
    """The same, guarded."""
    return thing.content() if thing.__class__ is IntTensor else _value(thing) if isinstance(thing, Differentiable) else mapped(_content, thing)


def by_numpy(function, args, kwargs):
    """The result of NumPy's `function` for integers, as a live tensor; anything but an array of numbers as it is, behind guards."""
    if function is np.power:
        # Its loop raises (integers to negative powers), the operator's host function may.
        function = operator.pow
    args, kwargs = _settled(tuple(args)), _settled(kwargs)
    whole = [t for t in parts_of((args, kwargs), Differentiable) if t.__class__ is IntTensor]
    at, out = getattr(function, "__name__", "") == "at", kwargs.get("out")
    target = args[0] if at else out[0] if isinstance(out, tuple) else out
    if target.__class__ is IntTensor:
        target._change(by_numpy(_written, (target, at, function, args[at:], {k: v for k, v in kwargs.items() if k != "out"}), {}))
        return None if at else target
    if target is not None:
        # NumPy writes to an array of the function's own.
        return function(*_content(args), **_content(kwargs))
    try:
        result = function(*_value(args), **_value(kwargs))
    except Exception as error:
        failed(error, None, whole)
        raise
    if isinstance(result, tuple) and type(result) is not tuple:
        _content((args, kwargs))
        return result
    live = trace_of(whole).host(function, args, kwargs, result)
    for t in whole:
        for one in live if isinstance(live, (tuple, list)) else (live,):
            if isinstance(one, Tensor) and one is not t and np.may_share_memory(one._v, t._v):
                note_view(t, one)
    return live


def _numpy_operator(name, function, reflected):
    """An operator: `function` of the values, noted as such; beside a float that of tensors."""
    base = getattr(Tensor, name, None)

    def method(self, other):
        if is_table(other):
            return registry.later.beside_table(np.power if function is operator.pow else function, *((other, self) if reflected else (self, other)))
        other = registry.objects.operand(other)
        if isinstance(other, Differentiable):
            if not is_whole((self, other)):
                return NotImplemented if base is None else base(self, other)
        elif isinstance(other, (float, int)):
            pass
        elif base is not None and (isinstance(other, registry.objects.Complex) or np.iscomplexobj(other)):
            return base(self.astype(np.float64), other)
        elif not isinstance(other, (np.ndarray, np.generic, list, tuple)):
            return NotImplemented
        return by_numpy(function, (other, self) if reflected else (self, other), {})

    method.__name__ = name
    return method


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": operator.pow, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "lshift": np.left_shift, "rshift": np.right_shift,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
#: Methods that are rows of the table, as those of floats: views, copies and sums; and what is answered by the value at once.
_AS_TENSORS = frozenset(
    "T mT reshape ravel flatten squeeze transpose swapaxes diagonal copy astype sum take repeat sort partition fill put item tolist "
    "shape dtype ndim size itemsize nbytes strides real imag".split()
)


def _updated(name, function):
    def update(self, other):
        if not self.shape and not is_argument(self):
            # As a NumPy number: the name is bound to another one.
            return NotImplemented
        other = registry.objects.operand(other)
        if isinstance(other, Differentiable) and not is_whole((self, other)):
            raise self._no_float()
        result = by_numpy(function, (self, other), {})
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast ufunc '{function.__name__}' output from {result.dtype!r} to {self.dtype!r} with casting rule 'same_kind'"
            )
        self._change(result if result.dtype == self.dtype else result.astype(self.dtype))
        return self

    update.__name__ = name
    return update


def _numpy_method(name):
    function = getattr(np.ndarray, name)
    base = getattr(Tensor, name)

    def method(self, *args, **kwargs):
        if not is_whole((self, args, kwargs)):
            return base(self, *args, **kwargs)
        return by_numpy(function, (self, *args), kwargs)

    method.__name__, method.__doc__ = name, f"``numpy.ndarray.{name}`` of integers."
    return method


def _methods():
    methods = {}
    for name, function in _BINARY.items():
        methods[f"__{name}__"] = _numpy_operator(f"__{name}__", function, False)
        methods[f"__r{name}__"] = _numpy_operator(f"__r{name}__", function, True)
        methods[f"__i{name}__"] = _updated(f"__i{name}__", function)
    for name, function in _UNARY.items():
        methods[f"__{name}__"] = lambda self, function=function: by_numpy(function, (self,), {})
    for name in dir(np.ndarray):
        if name[0] != "_" and name not in _AS_TENSORS and hasattr(Tensor, name) and callable(getattr(np.ndarray, name)):
            methods[name] = _numpy_method(name)
    return methods


attach(IntTensor, _methods())
registry.IntTensor = IntTensor
