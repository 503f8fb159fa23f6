"""Functions of `tapegrad.numpy` that do more than NumPy's: those that make arrays, and those that are given functions.

While this thread differentiates, what makes an array of floats makes a constant tensor with that memory, to which
numbers that carry a derivative can be assigned.  The memory is shared with nothing, so nothing else can change it; a tensor
that is left when the derivative is done is a constant as any other.  Arrays of integers, and of other numbers that carry no derivative,
stay NumPy's own; so does everything outside of a differentiation.
"""

import functools

import numpy as np

from ..array.differentiable import Differentiable
from ..array.dual import running
from ..array.objects import PLAIN, holds_tensors, in_objects, joined, operand
from ..array.record import guard_on, normalise, plain
from ..array.tensor import tensor
from ..array.whole import is_whole
from ..common.host_functions import host_function
from ..numpy_api.dispatch import FUNCTIONS, any_tracked, taking_lists
from ..numpy_api.own_code import private_code
from ..numpy_api.shaping import cast
from ..tape.store import thread_state


def differentiates():
    """Whether this thread is differentiating: inside of a function under a transformation, or of a ``with tg.Tape()``."""
    return running.level or thread_state().tapes


def fillable(array):
    """`array`, new memory that is not shared: as a constant tensor if this thread is differentiating."""
    if (running.level or thread_state().tapes) and array.__class__ is np.ndarray and array.flags.writeable:
        if array.dtype.char in "df" and array.dtype.isnative:
            return plain(normalise(array))
        return tensor(array) if array.dtype.char in "FD" else array
    return array


def making(function):
    """`function`, which makes a new array."""

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        return fillable(function(*args, **kwargs))

    return call


@functools.wraps(np.arange, updated=())
def arange(*args, **kwargs):
    things = (args, kwargs)
    return _arange(*args, **kwargs) if any_tracked(things) and not is_whole(things) else fillable(np.arange(*args, **kwargs))


@host_function
def _steps(start, stop, step):
    return np.maximum(0, np.ceil((stop - start) / step)).astype(int)


def _arange(start, stop=None, step=1, dtype=None):
    start, stop = (0.0, start) if stop is None else (start, stop)
    result = start + step * np.arange(guard_on(_steps(), start, stop, step))
    return result if dtype is None else cast(result, dtype) if isinstance(result, Differentiable) else result.astype(dtype)


@functools.wraps(np.full, updated=())
def full(shape, fill_value, dtype=None, order="C", **options):
    value = operand(fill_value)
    if isinstance(value, Differentiable):
        return FUNCTIONS[np.full](shape, value, dtype)
    return fillable(np.full(shape, fill_value, dtype, order, **options))


_full_like = taking_lists(np.full_like)


@functools.wraps(np.full_like, updated=())
def full_like(a, fill_value, *args, **kwargs):
    value = operand(fill_value)
    if isinstance(value, Differentiable):
        a = operand(a)
        return FUNCTIONS[np.full_like](a if isinstance(a, Differentiable) else np.asarray(a), value, *args, **kwargs)
    return fillable(_full_like(a, fill_value, *args, **kwargs))


def joining(function):
    """``np.array`` and its kin, which also take tensors, and lists that hold tensors; a tensor itself is copied only by ``np.array``."""

    name, ours = "object" if function is np.array else "a", FUNCTIONS.get(function, FUNCTIONS[np.asarray])

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        thing = args[0] if args else kwargs.get(name)
        kind = thing.__class__
        plain = PLAIN.issuperset(map(type, thing)) if kind is list or kind is tuple else kind in PLAIN
        if not plain and (kind is not np.ndarray or thing.dtype.char == "O") and holds_tensors(thing):
            return ours(thing, *args[1:], **{key: value for key, value in kwargs.items() if key != name})
        array = function(*args, **kwargs)
        if array is thing or not (running.level or thread_state().tapes):  # as in `fillable`, whose call costs as much as all this
            return array
        return fillable(array) if array.flags.owndata else array

    return call


class _ArrayClass(type):
    """Of `ndarray`: to be asked for the class of an array, or to make one of it, is all that it is for."""

    def __call__(cls, *args, **kwargs):
        array = (np.ndarray if cls is ndarray else super().__call__)(*args, **kwargs)
        return fillable(array) if array.flags.owndata else array

    def __instancecheck__(cls, thing):
        return isinstance(thing, np.ndarray) if cls is ndarray else super().__instancecheck__(thing)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, np.ndarray) if cls is ndarray else super().__subclasscheck__(kind)

    def __eq__(cls, other):
        return cls is other or cls is ndarray and other is np.ndarray

    def __hash__(cls):
        return hash(np.ndarray) if cls is ndarray else super().__hash__()


class ndarray(np.ndarray, metaclass=_ArrayClass):
    __doc__ = np.ndarray.__doc__


@functools.wraps(np.fromiter, updated=())
def fromiter(iterable, dtype, count=-1, **options):
    items = list(iterable)
    if not holds_tensors(items):
        return fillable(np.fromiter(items, dtype, count, **options))
    whole = operand(items[: None if count < 0 else count])
    if whole.ndim != 1:
        raise ValueError("np.fromiter makes one axis of numbers; to join arrays write np.stack(list(iterable))")
    return cast(whole, dtype)


def either_way(function):
    """``np.sort`` or ``np.argsort`` with `descending`, as the array API standard has them: equal elements stay in their order."""
    made = taking_lists(function)

    @functools.wraps(function, updated=())
    def call(a, axis=-1, *args, descending=False, **kwargs):
        if not descending:
            return made(a, axis, *args, **kwargs)
        order = np.flip(made(np.flip(operand(a), axis), axis, *args, **kwargs), axis)
        return order if function is np.sort else order.shape[-1 if axis is None else axis] - 1 - order

    return call


class Joiner:
    """``np.r_`` and ``np.c_``: of tensors by NumPy's code for them."""

    def __init__(self, source):
        self.source, self.__doc__ = source, source.__doc__

    def __getitem__(self, key):
        parts = key if isinstance(key, tuple) else (key,)
        if not holds_tensors(parts):
            return fillable(self.source[key])
        return private_code(type(self.source).__getitem__)(self.source, key)

    def __len__(self):
        return 0


def of_lines(function, place):
    """A function that calls another one on parts of the array at position `place`: while this thread differentiates, on parts of tensors."""
    made = taking_lists(function)

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        if differentiates() and len(args) > place and not isinstance(args[place], Differentiable):
            args = [plain(normalise(np.array(operand(a), float))) if k == place else a for k, a in enumerate(args)]
        return made(*args, **kwargs)

    return call


class vectorize(np.vectorize):
    """NumPy's class; the function may be called with 0-d tensors (with a `signature`, tensors of its dimensions) and return such."""

    def __call__(self, *args, **kwargs):
        if not differentiates() and not holds_tensors([*args, *kwargs.values()]):
            results = super().__call__(*args, **kwargs)
            return tuple(map(joined, results)) if isinstance(results, tuple) else joined(results)
        args = [self._elements(k, a) for k, a in enumerate(args)]
        kwargs = {name: self._elements(name, a) for name, a in kwargs.items()}
        if self.signature is not None:
            count = self.signature.split("->")[1].count("(")
            results = np.vectorize(self._on_parts, "O" * count, None, self.excluded, False, self.signature)(*args, **kwargs)
            parts = tuple([self._arranged(part.ravel().tolist(), k, part.shape) for k, part in enumerate(results if count > 1 else [results])])
            return parts if count > 1 else parts[0]
        # NumPy arranges the results, whatever they are: each is what a function returns.
        cells = np.vectorize(lambda *a, **k: (lambda result: lambda: result)(self.pyfunc(*a, **k)), "O", None, self.excluded)(*args, **kwargs)
        results = [cell() for cell in cells.ravel().tolist()]
        if not results or not isinstance(results[0], tuple):
            return self._arranged(results, 0, cells.shape)
        return tuple([self._arranged(part, k, cells.shape) for k, part in enumerate(zip(*results))])

    def _elements(self, key, argument):
        argument = operand(argument)
        return in_objects(argument) if key not in self.excluded and isinstance(argument, Differentiable) else argument

    def _on_parts(self, *args, **kwargs):
        results = self.pyfunc(*map(joined, args), **kwargs)
        return tuple(map(_objects, results)) if isinstance(results, tuple) else _objects(results)

    def _arranged(self, results, k, shape):
        whole = operand([r.item() if isinstance(r, np.ndarray) else r for r in results])
        dtype = self.otypes[k] if self.otypes else None
        if isinstance(whole, Differentiable):
            return np.reshape(whole if dtype is None else cast(whole, dtype), shape)
        return np.array(whole, np.asarray(whole[0]).dtype if dtype is None and whole else dtype).reshape(shape)


def _objects(result):
    result = operand(result)
    return in_objects(result) if isinstance(result, Differentiable) else result
