"""Functions that NumPy writes in Python: its own code computes them here too.

`np.tensordot`, `np.gradient`, `np.polyfit` and many more are Python functions over a few that are compiled.  Called with a
tensor they only have to be kept from making plain arrays of it: their code runs with names of its own, in which ``asarray`` gives
a tensor back as it is and ``empty`` makes a constant tensor that can be filled.  Whatever else they call, NumPy hands to
`dispatch`, and what is compiled refuses tensors; so a derivative cannot get lost, whatever a version of NumPy does.

A function belongs here if its code computes new arrays, or fills arrays of at least one dimension; what changes the element
``a[..., 0]`` of a vector in place (`np.cross`) does not, for that is no window on the vector here.

``np.einsum`` is one of them, as matrix products.  NumPy's own code finds the order of the contractions; what it has compiled is
`contracted` here: diagonals, sums and transposes of one operand, and, where it leaves them to that (before NumPy 2.4 always), products of
a pair, each as one batched product of matrices.
"""

import types
import warnings
from collections.abc import Hashable
from functools import cache
from operator import index as as_index
from threading import RLock

import numpy as np

from ..array import functions as F
from ..array.differentiable import Differentiable
from ..array.objects import holds_tensors
from ..array.record import guard_on, normalise, plain
from .dispatch import FUNCTIONS, implements, of_numpy, refuse, values_of
from .shaping import cast, rearranged


def contracted(subscripts, *tensors):
    """NumPy's compiled ``einsum``: of one operand, or of several at once, where the first two are one product."""
    left, result = subscripts.split("->")
    first, *others = left.split(",")
    x = tensors[0]
    if others:
        rest = "".join(others[1:]) + result
        kept = "".join(label for label in dict.fromkeys(first + others[0]) if label in rest)
        x = _of_two(first, others[0], kept, x, tensors[1])
        return contracted(",".join([kept, *others[1:]]) + f"->{result}", x, *tensors[2:])
    for label in dict.fromkeys(first):
        while first.count(label) > 1:
            i = first.index(label)
            j = first.index(label, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"einsum() dimensions of {label!r} in one operand differ: {x.shape[i]} and {x.shape[j]}")
            x = F.diagonal(x, 0, i, j)
            first = first[:i] + first[i + 1 : j] + first[j + 1 :] + label
    summed = tuple(k for k, label in enumerate(first) if label not in result)
    if summed:
        x, first = F.sum(x, axis=summed), "".join(label for label in first if label in result)
    x = x if first == result else F.transpose(x, tuple(map(first.index, result)))
    return F.clone(x) if x is tensors[0] else x


def _of_two(first, second, result, x, y):
    """``einsum`` of two operands with these labels, as a product of matrices."""
    # What stands in one of them alone goes first; an axis of extent 1 is none beside one that is longer.
    first, x = _without(first, x, "".join(dict.fromkeys(label for label in first if label in second + result)))
    second, y = _without(second, y, "".join(dict.fromkeys(label for label in second if label in first + result)))
    extents = [dict(zip(labels, a.shape)) for labels, a in ((first, x), (second, y))]
    longer = [{label for label in first if label in second and own[label] == 1 < other[label]} for own, other in (extents, extents[::-1])]
    if any(longer):
        (first, x), (second, y) = (
            (kept := "".join(label for label in labels if label not in short), F.reshape(a, tuple([own[label] for label in kept])))
            for labels, a, own, short in zip((first, second), (x, y), extents, longer)
        )
        return _of_two(first, second, result, x, y)
    shared = [label for label in first if label in second]
    batch, summed = ("".join(label for label in shared if (label in result) is there) for there in (True, False))
    left, right = ("".join(label for label in labels if label not in shared) for labels in (first, second))
    sizes = extents[0] | extents[1]
    outside, ours, inner, theirs = (tuple([sizes[label] for label in labels]) for labels in (batch, left, summed, right))
    (_, x), (_, y) = _without(first, x, batch + left + summed), _without(second, y, batch + summed + right)
    size = [int(np.prod(extent, dtype=np.int64)) for extent in (ours, inner, theirs)]
    product = F.matmul(F.reshape(x, (*outside, size[0], size[1])), F.reshape(y, (*outside, size[1], size[2])))
    return _without(batch + left + right, F.reshape(product, (*outside, *ours, *theirs)), result)[1]


def _without(labels, x, result):
    """Labels and array after sums and transposes of one operand."""
    return result, x if labels == result else contracted(f"{labels}->{result}", x)


_NAMES = """
linalg.outer linalg.tensordot tensordot kron polyfit vander diff ediff1d gradient cov linalg.multi_dot linalg.matrix_power
linalg.tensorinv linalg.cond linalg.cross logspace ptp trapezoid cumulative_sum cumulative_prod nancumsum nancumprod
rollaxis ix_ vstack hstack dstack column_stack append hsplit vsplit dsplit unstack
fliplr flipud rot90 resize fft.fftshift fft.ifftshift trim_zeros apply_along_axis apply_over_axes
tril triu matrix_transpose linalg.matrix_transpose linalg.diagonal linalg.trace linalg.vector_norm linalg.matrix_norm linalg.svdvals
fix real_if_close extract corrcoef einsum_path block atleast_1d atleast_2d atleast_3d
"""


def _converting(function):
    """``np.array`` and its kin, which give tensors as tensors."""

    own = {np.ascontiguousarray: "C", np.asfortranarray: "F"}.get(function)

    def convert(thing, dtype=None, *args, ndmin=0, **kwargs):
        if not isinstance(thing, Differentiable) and not holds_tensors(thing):
            return np.array(function(thing, dtype, *args, **kwargs), copy=None, ndmin=ndmin)
        whole = F.lift(thing)
        if dtype is not None:
            whole = cast(whole, dtype)
        order = args[0] if args else kwargs.get("order", own)
        if order in ("C", "F") and not np.asarray(whole._v).flags[order]:
            whole = F.copied(whole, order)
        elif whole is thing and kwargs.get("copy", function is np.array):
            whole = F.clone(whole)
        return whole if whole.ndim >= ndmin else F.reshape(whole, (1,) * (ndmin - whole.ndim) + tuple(whole.shape))

    return convert


# With ``like=`` NumPy asks a tensor to make one.
for _function in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray):
    FUNCTIONS[_function] = lambda *args, function=_function, **kwargs: F.lift(_converting(function)(*args, **kwargs))


def _making(function):
    """`function`, which makes a new array, as a constant tensor if it is one of floats."""

    def make(*args, **kwargs):
        array = function(*args, **kwargs)
        return plain(normalise(array)) if array.dtype.char in "df" else array

    return make


class _Converter:
    """NumPy's class of that name, for tensors."""

    def __init__(self, *things):
        self.arrays = [thing if isinstance(thing, (int, float)) else _REPLACED[np.asarray](thing) for thing in things]
        # Numbers have no dtype that counts, neither Python's nor those on the tape.
        self.kinds = [value if isinstance(value := getattr(x, "_v", x), (int, float)) else value.dtype for x in self.arrays]

    def as_arrays(self):
        return self.arrays

    def __getitem__(self, k):
        return self.arrays[k]

    def result_type(self, ensure_inexact):
        return np.result_type(*self.kinds, 0.0)

    def wrap(self, result):
        return result


class _ReplacedNames:
    """A module of NumPy's with the replaced names."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        vars(self)[name] = thing = _replaced(name, getattr(self._module, name))
        return thing


#: A function that NumPy's code calls -> its replacement here.
_REPLACED = {
    **{function: _converting(function) for function in (np.array, np.asarray, np.asanyarray)},
    **{function: _making(function) for function in (np.zeros, np.ones, np.empty, np.eye)},
    np.broadcast: lambda *arrays: np.broadcast(*[np.broadcast_to(0.0, np.shape(a)) for a in arrays]),
    np.ndarray: (np.ndarray, Differentiable),  # of isinstance
    # The frames of `dispatch` and of what stands for a function here lie between NumPy's code and the caller.
    warnings: types.SimpleNamespace(warn=lambda text, kind=None, stacklevel=1: warnings.warn(text, kind, stacklevel + 3)),
}
#: The same for what has no public name, by the name that it has there.
_REPLACED_BY_NAME = {
    "_array_converter": _Converter,
    "_concatenate": np.concatenate,
    "c_einsum": contracted,
    "_makearray": lambda array: (F.lift(array), lambda result: result),
    "inv": lambda array, signature: np.linalg.inv(array),
    "svd": lambda array, signature: np.linalg.svdvals(array),
}


def _replaced(name, thing):
    if name in _REPLACED_BY_NAME and not hasattr(thing, "_implementation"):
        return _REPLACED_BY_NAME[name]
    if isinstance(thing, types.ModuleType) and thing.__name__.startswith("numpy"):
        return _ReplacedNames(thing)
    if isinstance(thing, types.FunctionType) and thing.__module__.startswith("numpy"):
        return _REPLACED.get(thing) or (thing if hasattr(thing, "_implementation") else private_code(thing))
    return _REPLACED.get(thing, thing) if isinstance(thing, Hashable) else thing


#: Module -> its names as replaced.  They refer to each other, so they are published when all are made.
_NAMESPACES = {}
_making_names = RLock()


@cache
def private_code(function):
    """A copy of a Python function of NumPy's, or of SciPy's, in which ``asarray`` and its like (`_REPLACED`) keep tensors as tensors."""
    there = function.__globals__
    with _making_names:
        names = _NAMESPACES.get(there["__name__"])
        if names is None:
            names = _NAMESPACES[there["__name__"]] = {}
            names.update({name: _replaced(name, thing) for name, thing in there.items()})
    made = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def own_code(function):
    """NumPy's code of a public function, for tensors."""
    return private_code(function._implementation)


for _function in of_numpy(_NAMES):
    FUNCTIONS[_function] = lambda *args, function=_function, **kwargs: own_code(function)(*args, **kwargs)


def _lifting(function, count):
    def call(*args, **kwargs):
        return own_code(function)(*map(F.lift, args[:count]), *args[count:], **kwargs)

    return call


#: These write into arrays like the first ones, which may be plain: that of ``np.gradient(y, t)``, say.
FUNCTIONS |= {function: _lifting(function, count) for function, count in ((np.gradient, 1), (np.ediff1d, 1), (np.polyfit, 2))}


@implements(np.average)
def _average(a, *args, **kwargs):
    # NumPy asks for the product of integers in floats, which are made here before.
    a = F.lift(a)
    return own_code(np.average)(F.astype(a, np.float64) if a.dtype.kind in "iub" else a, *args, **kwargs)


@implements(np.linspace)
def _linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    # NumPy's code looks whether a step is zero, which would be a decision about values.
    if (num := as_index(num)) < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    # Numbers stay what they are: Python floats are weak beside arrays, NumPy's are not.
    start, stop = (v if isinstance(v, (float, np.generic)) or np.shape(v) == () else F.lift(v) for v in (start, stop))
    delta, gaps = stop - start, num - 1 if endpoint else num
    step = delta / float(gaps) if gaps > 0 else delta * np.nan
    counts = np.arange(num, dtype=delta.dtype).reshape((-1,) + (1,) * delta.ndim)
    values = (step * counts if gaps > 0 else delta * counts) + start
    if endpoint and num > 1:
        values = np.concatenate([values[:-1], np.broadcast_to(cast(F.lift(stop), values.dtype), delta.shape)[None]])
    values = np.moveaxis(values if dtype is None else cast(values, dtype), 0, axis)
    return (values, step) if retstep else values


@implements(np.geomspace)
def _geomspace(start, stop, *args, **kwargs):
    if not guard_on(lambda a, b: np.all(np.sign(a) * np.sign(b) > 0), F.lift(start), F.lift(stop)):
        raise ValueError("geomspace needs ends of the same sign, and neither of them 0")
    return own_code(np.geomspace)(start, stop, *args, **kwargs)


@implements(np.pad)
def _pad(array, pad_width, mode="constant", **kwargs):
    pad_width = values_of(pad_width)
    if mode in ("constant", "empty"):
        constant = F.lift(kwargs.pop("constant_values", 0.0) if mode == "constant" else 0.0)
        np.pad(np.empty(0), 0, mode, **kwargs)  # refuses other arguments
        return rearranged(lambda p, c: np.pad(p, pad_width, "constant", constant_values=c), array, constant, dtype=array.dtype)
    if not isinstance(mode, str):
        raise refuse(np.pad, " with a function as mode, which would fill plain memory; join with np.concatenate")
    if mode in ("edge", "wrap", "reflect", "symmetric") and kwargs.get("reflect_type", "even") == "even":
        return rearranged(lambda p: np.pad(p, pad_width, mode, **kwargs), array)
    return own_code(np.pad)(F.lift(array), pad_width, mode, **kwargs)
