"""`Labelled`, its reductions and groups, and the arithmetic of tables and tensors (`calculated`)."""

import inspect
import operator
import sys
from functools import partial

import numpy as np
import pandas as pd

from ..array.differentiable import Differentiable
from ..array.functions import where
from ..array.objects import TENSORS, any_nan, joined, operand, stacked
from ..array.record import guard_on
from ..array.whole import IntTensor
from ..common.errors import ComplexOperandError, DtypeError, LeaveTapeError, UnsupportedFunctionError
from ..common.registry import registry

# Names of pandas and NumPy, by how `Labelled` answers them.

#: Operators -> ufuncs.
OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide, "mod": np.remainder,
    "pow": np.power, "matmul": np.matmul,
}  # fmt: skip
COMPARISONS = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}
LOGICAL = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
#: What pandas does with two tables of booleans for a ufunc.
OF_BOOLEANS = {getattr(np, f"{kind}_{name}"): getattr(operator, f"__{name}__") for kind in ("logical", "bitwise") for name in LOGICAL}
#: Methods that stand for operators -> ufuncs.
FLEXIBLE = {name: f for name, f in OPERATORS.items() if name != "matmul"} | {
    "subtract": np.subtract, "multiply": np.multiply, "div": np.true_divide, "divide": np.true_divide,
}  # fmt: skip
#: ufuncs of two operands whose result is NaN wherever an operand is.
PROPAGATES = set(OPERATORS.values()) - {np.power} | set(COMPARISONS.values()) | {np.maximum, np.minimum, np.arctan2, np.fmod}
#: ufuncs of one operand whose results are no numbers.
PREDICATES = {np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_not}
#: What pandas answers from the labels alone.
LABELS = frozenset("index columns name shape ndim size axes empty keys".split())
#: Methods of pandas that move elements and compute nothing.
SELECTIONS = frozenset(
    "head tail shift reindex reindex_like sort_index drop droplevel set_axis rename rename_axis take truncate squeeze stack unstack "
    "transpose swaplevel reorder_levels dropna ffill bfill repeat add_prefix add_suffix between_time at_time tz_localize tz_convert "
    "to_frame xs filter sample asfreq reset_index to_timestamp to_period copy".split()
)  # fmt: skip
#: Of these, those that look for missing values.
LOOKING = frozenset("dropna ffill bfill stack".split())
#: Arguments that are values of the table, or put something into it: positions do not answer these.
NOT_POSITIONS = frozenset("fill_value inplace weights downcast".split())
#: Methods without derivative: pandas answers them from the values.
VALUES = frozenset(
    "idxmax idxmin argmax argmin argsort isna isnull notna notnull nunique count duplicated is_unique is_monotonic_increasing "
    "is_monotonic_decreasing first_valid_index last_valid_index hasnans any all isin rank searchsorted between equals round".split()
)  # fmt: skip
#: Of NumPy's functions that call a method, those that give it ``axis=None``.
REDUCTIONS = frozenset("sum prod mean std var min max".split())
#: NumPy's functions that call a method of what they are given.
METHODS_OF_NUMPY = {
    getattr(np, name): name
    for name in "sum prod mean std var max min any all cumsum cumprod clip round argmax argmin argsort take repeat squeeze transpose "
    "searchsorted".split()
} | {np.amax: "max", np.amin: "min"}  # fmt: skip


def around(like, array):
    """`array` with the labels of `like`, a Series or DataFrame."""
    if like.ndim == 1:
        return pd.Series(array, index=like.index, name=like.name)
    return pd.DataFrame(array, index=like.index, columns=like.columns)


def numbers(missing):
    """Positions counted from 0 in the order of rows, NaN where `missing`."""
    return np.where(missing, np.nan, (np.cumsum(~missing) - 1.0).reshape(missing.shape))


def read(storage, places):
    """The elements of `storage` at `places`, positions or NaN in an array; of that shape if all are there, else in the order of rows."""
    there = ~np.isnan(places)
    chosen = places[there].astype(np.int64)
    flat = storage.reshape(-1)
    if not np.array_equal(chosen, np.arange(flat.shape[0])):
        flat = flat[chosen]
    return flat.reshape(places.shape) if there.all() else flat


def labelled(thing):
    """A Series or DataFrame as a `Labelled`; the array in an Index; anything else as it is."""
    if isinstance(thing, pd.Index):
        table = labelled(thing.to_series())
        if table._is_partial:
            raise DtypeError("an Index with missing values stands beside a tensor; take them out with .dropna()")
        return table._storage
    if not isinstance(thing, (pd.Series, pd.DataFrame)):
        return thing
    for column in [thing] if thing.ndim == 1 else [thing.iloc[:, k] for k in range(thing.shape[1])]:
        kind, named = column.dtype, "a Series" if column.name is None else f"column {column.name!r}"
        if not pd.api.types.is_object_dtype(kind) and not pd.api.types.is_numeric_dtype(kind):
            raise DtypeError(f"write s.to_numpy(float) for numbers: {named} beside a tensor is of dtype {kind}")
        if not isinstance(kind, np.dtype) and column.isna().any():
            raise DtypeError(f"write s.astype(float), which makes missing values NaN: beside a tensor {named} has some of pandas' own dtype {kind}")
    missing, values = thing.isna().to_numpy(), thing.to_numpy()
    storage = joined(values[~missing] if missing.any() else values, plain_numbers=True)
    return Labelled(storage, around(thing, numbers(missing)))


def _positions(thing):
    """Storage and positions of an operand; without labels if it has none."""
    if isinstance(thing, Labelled):
        return thing._storage, thing._places
    missing = np.isnan(thing) if isinstance(thing, np.ndarray) and thing.dtype.kind == "f" else np.zeros(thing.shape, bool)
    return thing[~missing] if missing.any() else thing, numbers(missing)


def matched(a, b, add=operator.add):
    """What pandas computes with when it meets two operands: elements, elements, and the places of the result.

    `add` is how it meets them: an operator, or a method of pandas with its arguments.
    """
    a, b = (x if isinstance(x, (Labelled, Differentiable, float, int)) else np.asarray(x)[()] for x in (a, b))
    one, other = isinstance(a, Labelled), isinstance(b, Labelled)
    if one and other and add is operator.add and a._places.ndim == b._places.ndim and a._places.equals(b._places):
        alike = a._places.ndim == 2 or a._places.name == b._places.name
        return a._storage, b._storage, a._places if alike else a._places.rename(None)
    if not (one and other) and np.ndim(b if one else a) == 0:
        return (a._storage, b, a._places) if one else (a, b._storage, b._places)
    (x, left), (y, right) = _positions(a), _positions(b)
    left, right = add(left, 0.0 * right), add(0.0 * left, right)
    return read(x, left.to_numpy()), read(y, right.to_numpy()), around(left, numbers(left.isna().to_numpy()))


def calculated(ufunc, a, b, add=operator.add):
    """``ufunc(a, b)`` where one is a table, or was: `Labelled`, or of a comparison a table of booleans."""
    a, b = (labelled(x) if not isinstance(x, (list, tuple)) else operand(x) for x in (a, b))
    if not isinstance(a, Labelled) and not isinstance(b, Labelled):
        # An Index counts by position.
        return ufunc(a, b)
    if ufunc is np.matmul:
        return a.dot(b) if isinstance(a, Labelled) else b.T.dot(np.transpose(a)).T
    if ufunc in OF_BOOLEANS:
        return OF_BOOLEANS[ufunc](_on_values(a), _on_values(b))
    compares = ufunc in COMPARISONS.values()
    if compares and add is operator.add:
        # With other labels pandas raises.
        ufunc(*(x._places if isinstance(x, Labelled) else np.zeros(np.shape(x))[()] for x in (a, b)))
    x, y, places = matched(a, b, add)
    lacks = bool(places.isna().to_numpy().any())
    if lacks and ufunc not in PROPAGATES and not (ufunc is np.power and isinstance(y, (float, int, np.number)) and y != 0):
        raise refused(f"np.{ufunc.__name__} on missing values, which it turns into numbers,", "take missing values out with .dropna() or .fillna(0.0)")
    result = ufunc(x, y)
    if not compares or isinstance(result, IntTensor) and not lacks:
        return Labelled(result, places)
    full = np.full(places.shape, ufunc is np.not_equal)
    full[places.notna().to_numpy()] = np.reshape(_content(result), -1)
    return around(places, full)


def _content(thing):
    """The numbers in a tensor, which leave the tape; a recording guards them."""
    return np.asarray(thing._let_out("a table of pandas")) if isinstance(thing, Differentiable) else thing


def _on_values(thing):
    """What is or was a table, as pandas has it, without derivative."""
    if not isinstance(thing, Labelled):
        return _content(thing)
    full = np.full(thing.shape, np.nan, thing.dtype) if thing._is_partial else np.empty(thing.shape, thing.dtype)
    full[thing._places.notna().to_numpy()] = np.reshape(_content(thing._storage), -1)
    return around(thing._places, full)


def _is_nan(thing):
    return np.isnan(thing._v if isinstance(thing, Differentiable) else thing)


def _as_tensors(thing):
    if isinstance(thing, dict):
        return {k: _as_tensors(v) for k, v in thing.items()}
    return type(thing)(map(_as_tensors, thing)) if isinstance(thing, (list, tuple)) else thing.to_numpy() if isinstance(thing, Labelled) else thing


# -- reductions, running sums, groups and functions of elements, with pandas' defaults: missing values are passed over -----------------

_IN_NUMPY = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max, "median": np.median}
_SPREAD = {"var": np.var, "std": np.std, "sem": lambda a, axis, ddof: np.std(a, axis, ddof=ddof) / np.sqrt(a.shape[axis])}


def refused(name, instead="compute with the tensor in it, s.to_numpy(), which counts by position"):
    """The error for what is not offered of pandas."""
    return UnsupportedFunctionError(f"{instead}: {name} of a table of pandas that was computed from a tensor has no rule in tapegrad")


class Reductions:
    """What `Labelled` computes of all, of each column, or up to each row."""

    def _reduced(self, function, least, axis=0, skipna=True):
        """``function(array, axis)`` of what is there, NaN where less than `least` is; of all elements if `axis` is None."""
        places = self._places
        if places.ndim == 1 or axis is None:
            flat = self._storage.reshape(-1)
            return np.nan if flat.shape[0] < least or self._is_partial and not skipna else self._checked(function(flat, 0))
        axis = places._get_axis_number(axis)
        labels = places.columns if axis == 0 else places.index
        if not self._is_partial and places.shape[axis] >= least:
            return type(self)(self._checked(function(self._storage, axis)), pd.Series(np.arange(float(len(labels))), index=labels))
        parts = [places.iloc[:, k] if axis == 0 else places.iloc[k] for k in range(len(labels))]
        return self._gathered([self._selected(p)._reduced(function, least, skipna=skipna) for p in parts], labels)

    def _gathered(self, numbers, labels, name=None):
        """Numbers and tensors as a Series; a plain NaN is missing."""
        if not all(isinstance(n, (float, int, np.number, *TENSORS)) and np.ndim(n) == 0 for n in numbers):
            raise refused("a function whose result is not a number")
        there = np.array([isinstance(n, TENSORS) or n == n for n in numbers], bool)
        storage = stacked([n for n, t in zip(numbers, there) if t]) if there.any() else np.zeros(0)
        return type(self)(storage, pd.Series(np.where(there, np.cumsum(there) - 1.0, np.nan), index=labels, name=name))

    def _by_columns(self, function):
        """The DataFrame of ``function(column)`` of each column."""
        parts = [function(self.iloc[:, k]) for k in range(self.shape[1])]
        starts = np.cumsum([0] + [p._storage.shape[0] for p in parts])
        frame = pd.DataFrame(np.column_stack([p._places.to_numpy() + n for p, n in zip(parts, starts)]), parts[0]._places.index, self._places.columns)
        return type(self)(np.concatenate([p._storage for p in parts]), None)._selected(frame)

    def _running(self, function, axis):
        axis = self._checked()._places._get_axis_number(axis)
        if self._places.ndim == 1 or not self._is_partial:
            return type(self)(function(self._storage, axis), self._places)
        return self.T._running(function, 0).T if axis else self._by_columns(lambda column: column._running(function, 0))

    def cumsum(self, axis=0):
        return self._running(np.cumsum, axis)

    def cumprod(self, axis=0):
        return self._running(np.cumprod, axis)

    def diff(self, periods=1, axis=0):
        return self - self.shift(periods, axis=axis)

    def quantile(self, q=0.5, axis=0, *, interpolation="linear"):
        if np.ndim(q):
            raise refused(".quantile of several numbers", "ask for one after the other")
        found = self._reduced(lambda a, axis: np.quantile(a, q, axis=axis, method=interpolation), 1, axis)
        return type(self)(found._storage, found._places.rename(q)) if isinstance(found, type(self)) else found

    # -- functions of the user's ----------------------------------------------------
    def apply(self, function, axis=0):
        if isinstance(function, (str, np.ufunc)):
            return self.agg(function) if isinstance(function, str) else function(self)
        if self._places.ndim == 1:
            results = [function(self.iloc[k]) for k in range(len(self))]
            return self._gathered(results, self._places.index, self._places.name)
        if self._places._get_axis_number(axis):
            turned = self.T.apply(function)
            return turned.T if turned._places.ndim == 2 else turned
        results = [function(self.iloc[:, k]) for k in range(self.shape[1])]
        if all(isinstance(r, type(self)) and r._places.ndim == 1 and r.index.equals(results[0].index) for r in results):
            columns = iter(results)
            return self._by_columns(lambda column: next(columns))
        return self._gathered(results, self._places.columns)

    def map(self, function):
        return self.apply(lambda x: function(x)) if self._places.ndim == 1 else self._by_columns(lambda column: column.map(function))

    def agg(self, name):
        if not isinstance(name, str):
            raise refused(".agg of anything but a name")
        return getattr(self, name)()

    def items(self):
        return ((label, self.iloc[:, k] if self._places.ndim == 2 else self.iloc[k]) for k, label in enumerate(self._places.keys()))

    def groupby(self, by=None, *, level=None):
        return Groups(self, by, level)


class Groups:
    """A `Labelled` in the groups of rows that pandas makes, each of which is reduced by itself."""

    def __init__(self, table, by, level):
        self.table, self.by, self.level = table, by, level
        columns = table._places.columns if table._places.ndim == 2 else ()
        for one in by if isinstance(by, list) else [by]:
            if isinstance(one, type(table)) or isinstance(one, (str, int, tuple)) and one in columns:
                raise refused(".groupby on a column computed from a tensor", "give the groups as a plain Series, .groupby(df.k)")
        self.groups = table._places.groupby(by, level=level, observed=True)

    def __getitem__(self, column):
        return self.table[column].groupby(self.by, level=self.level)

    def __getattr__(self, name):
        if name not in {**_IN_NUMPY, **_SPREAD}:
            raise refused(f".{name} of groups", "write tg.segment_sum(s.to_numpy(), codes), and divide by np.bincount(codes) for means")
        return partial(self.agg, name)

    def agg(self, name, **options):
        table = self.table
        if table._places.ndim == 2:
            return table._by_columns(lambda column: column.groupby(self.by, level=self.level).agg(name, **options))
        parts = [getattr(table._selected(part), name)(**options) for _, part in self.groups]
        return table._gathered(parts, self.groups.sum().index, table._places.name)

    def transform(self, name):
        if self.table._places.ndim == 2:
            return self.table._by_columns(lambda column: column.groupby(self.by, level=self.level).transform(name))
        result, codes = self.agg(name), self.groups.ngroup().to_numpy(float)
        rows = [np.nan if np.isnan(k) or k < 0 else result._places.iloc[int(k)] for k in codes]
        return result._selected(pd.Series(rows, index=self.table.index, name=self.table.name))


def _reduction(name):
    def method(self, axis=0, skipna=True, *, numeric_only=False, ddof=1, min_count=0):
        if axis is None and self._places.ndim == 2 and pd.__version__ < "3" and name in ("sum", "prod", *_SPREAD):
            raise refused(f".{name} with axis=None, by which this version of pandas means axis=0 and later ones all elements,", "give the axis")
        if name in _IN_NUMPY:
            return self._reduced(_IN_NUMPY[name], min_count if name in ("sum", "prod") else 1, axis, skipna)
        return self._reduced(partial(_SPREAD[name], ddof=ddof), ddof + 1, axis, skipna)

    return method


for _name in (*_IN_NUMPY, *_SPREAD):
    setattr(Reductions, _name, _reduction(_name))


# -- tables ---------------------------------------------------------------------------------------


class Labelled(Reductions):
    """A tensor with the labels of a Series or DataFrame, and with pandas' rules for them and for missing values.

    Attributes
    ----------
    _storage : Tensor or ndarray
        The elements that are there.
    _places : Series or DataFrame
        Where they are in `_storage`; NaN where one is missing.

    Examples
    --------
    >>> import pandas
    >>> import tapegrad as tg
    >>> s = pandas.Series([1.0, None, 3.0], index=["a", "b", "c"])
    >>> value, slope = tg.value_and_grad(lambda p: (p * s).mean())(2.0)
    >>> print(value, slope)
    4.0 2.0
    """

    __pandas_priority__ = 6000
    __hash__ = None

    def __init__(self, storage, places):
        if isinstance(storage, registry.objects.Complex):
            raise ComplexOperandError("complex numbers stand beside a table of pandas; compute with s.to_numpy()")
        self._storage, self._places = storage, places

    def _selected(self, places):
        """What pandas gives of a table of these elements when it gives `places` of one of positions."""
        if isinstance(places, (pd.Series, pd.DataFrame)):
            found = places.to_numpy(float)
            return Labelled(read(self._storage, found), around(places, numbers(np.isnan(found))))
        if isinstance(places, float):
            return np.nan if np.isnan(places) else self._storage.reshape(-1)[int(places)]
        raise refused(f"a selection that gives {type(places).__name__}")

    def _checked(self, result=None):
        """Itself, if no NaN was computed; or `result`, which would be NaN if one were: that is looked at first, as it is small."""
        if self.dtype.kind == "f" and guard_on(any_nan, self._storage if result is None else result):
            if result is None or self._checked() is None:
                raise LeaveTapeError("a table has a NaN that was computed from a tensor, and pandas passes over it: leave such rows out before it is computed")
        return self if result is None else result

    def to_numpy(self):
        """The tensor, by position; NaN where a value is missing."""
        if not self._is_partial:
            return self._storage
        places = self._places.to_numpy()
        if not self._storage.shape[0]:
            return np.full(self.shape, np.nan)
        return where(np.isnan(places), np.nan, self._storage[np.nan_to_num(places).astype(np.int64)])

    values = property(to_numpy)
    dtype = property(lambda self: self._storage.dtype)
    T = property(lambda self: self._selected(self._places.T))
    _is_partial = property(lambda self: self._storage.shape != self._places.shape, doc="Whether elements are missing.")

    # -- NumPy and Python ---------------------------------------------------------
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if method != "__call__" or kwargs or len(inputs) > 2 or ufunc.nout > 1:
            raise refused(f"np.{ufunc.__name__} with its method or arguments")
        if len(inputs) == 2:
            return calculated(ufunc, *inputs)
        return ufunc(_on_values(self)) if ufunc in PREDICATES else Labelled(ufunc(self._storage), self._places)

    def __array_function__(self, function, types, args, kwargs):
        method = METHODS_OF_NUMPY.get(function)
        if method is None or not (args and isinstance(args[0], Labelled)):
            return function(*_as_tensors(args), **_as_tensors(kwargs))
        # Where NumPy itself has another default than pandas, it says so.
        given = ({"axis": None} if method in REDUCTIONS and len(args) == 1 else {}) | ({"ddof": 0} if method in ("std", "var") else {})
        return getattr(args[0], method)(*args[1:], **given | {k: v for k, v in kwargs.items() if v is not None or k == "axis"})

    @property
    def __array__(self):
        self._stay("conversion to an ndarray")
        return self.to_numpy().__array__

    def _stay(self, how):
        # pandas would take it for a sequence without labels.
        if sys._getframe(2).f_globals.get("__name__", "").startswith("pandas."):
            raise LeaveTapeError(
                "keep a table that was computed from a tensor out of pandas' own (write z = p * df.x for df['z'] = p * df.x), or give pandas "
                f"s.to_numpy(), by position, np.asarray(mask) of a mask under tg.jit: in {how} pandas loses its labels and derivative"
            )

    def __iter__(self):
        self._stay("iteration")
        return iter(self.to_numpy() if self._places.ndim == 1 else self._places)

    def __len__(self):
        return len(self._places)

    def __contains__(self, label):
        return label in self._places

    def __bool__(self):
        raise ValueError("the truth value of a table is ambiguous; use .any() or .all()")

    def __repr__(self):
        return f"{self._storage!r}\nin the places\n{self._places!r}"

    def __invert__(self):
        return Labelled(~self._storage, self._places) if isinstance(self._storage, IntTensor) else ~_on_values(self)

    # -- selection ----------------------------------------------------------------
    def __getitem__(self, key):
        return self._at(self._places, key)

    def _at(self, indexer, key):
        parts = [_on_values(k(self) if callable(k) else k) for k in (key if isinstance(key, tuple) else (key,))]
        return self._selected(indexer[tuple(parts) if isinstance(key, tuple) else parts[0]])

    def __setitem__(self, key, value):
        raise refused("assignment into elements", "write s.where(mask, value) or s.fillna(value)")

    def __getattr__(self, name):
        places = self.__dict__["_places"]
        if name.startswith("_"):
            raise AttributeError(name)
        if name in LABELS:
            return getattr(places, name)
        if hasattr(type(places), name):
            if name in VALUES or isinstance(self._storage, IntTensor):
                return getattr(_on_values(self), name)
            if name in ("loc", "iloc", "at", "iat"):
                return _Indexer(self, getattr(places, name))
            if name in SELECTIONS:
                return partial(self._moved, name)
            raise refused(f".{name}", *(["write np.lib.stride_tricks.sliding_window_view(s.to_numpy(), n)"] if name == "rolling" else []))
        return self[name] if name in (places.columns if places.ndim == 2 else places.index) else getattr(self.to_numpy(), name)

    def _moved(self, name, *args, **kwargs):
        method = getattr(self._places, name)
        signature = inspect.signature(method)
        given = signature.bind(*args, **kwargs).arguments
        wrong = [k for k in NOT_POSITIONS & given.keys() if not any(given[k] is x for x in (False, None, signature.parameters[k].default))]
        if wrong or name == "reset_index" and not given.get("drop"):
            raise refused(f".{name} with {wrong[0] if wrong else 'drop=False'}")
        return (self._checked() if name in LOOKING else self)._selected(method(*args, **kwargs))

    # -- choices ------------------------------------------------------------------
    def where(self, cond, other=np.nan):
        cond = self._condition(cond)
        if isinstance(cond, Labelled) and not self._is_partial and cond._places.equals(self._places) and np.ndim(other) == 0 and not _is_nan(other):
            return Labelled(where(cond._storage, self._storage, other), self._places)
        kept = self._places.fillna(-1.0).where(_on_values(cond)).notna().to_numpy()
        other = labelled(other)
        if isinstance(other, Labelled):
            if other._places.ndim != self._places.ndim:
                raise refused(".where of a DataFrame with a Series")
            other = other._selected(other._places.reindex_like(self._places)).to_numpy()
        missing = np.where(kept, self._places.isna().to_numpy(), _is_nan(other))
        order = np.where(missing, np.nan, np.arange(float(missing.size)).reshape(missing.shape))
        return Labelled(where(kept, self.to_numpy(), other), None)._selected(around(self._places, order))

    def mask(self, cond, other=np.nan):
        return self.where(~self._condition(cond), other)

    def _condition(self, cond):
        cond = cond(self) if callable(cond) else cond
        return np.asarray(cond) if isinstance(cond, list) else _content(cond)

    def fillna(self, value):
        return self._checked().where(self._places.notna(), value)

    def clip(self, lower=None, upper=None):
        if any(bound is not None and np.ndim(bound) for bound in (lower, upper)):
            raise refused(".clip with bounds that are not numbers", "write np.maximum(s, bound) and np.minimum(s, bound)")
        return Labelled(np.clip(self._storage, lower, upper), self._places)

    def dot(self, other):
        other = labelled(other)
        # The labels that are summed over have to be the same; pandas raises where they are not.
        shape = self._places.dot(other._places if isinstance(other, Labelled) else np.zeros(np.shape(other)))
        if isinstance(other, Labelled):
            other = other._selected(other._places.reindex(self._places.columns if self._places.ndim == 2 else self._places.index))
        if self._is_partial or isinstance(other, Labelled) and other._is_partial or isinstance(other, np.ndarray) and np.isnan(other).any():
            raise refused(".dot with missing values", "take missing values out with .dropna() or .fillna(0.0)")
        result = np.matmul(self._storage, other._storage if isinstance(other, Labelled) else other)
        return Labelled(result, around(shape, numbers(np.zeros(shape.shape, bool)))) if isinstance(shape, (pd.Series, pd.DataFrame)) else result


class _Indexer:
    """``s.loc``, ``s.iloc``, ``s.at`` and ``s.iat``."""

    def __init__(self, table, indexer):
        self.table, self.indexer = table, indexer

    def __getitem__(self, key):
        return self.table._at(self.indexer, key)

    __setitem__ = Labelled.__setitem__


def _flexible(name, ufunc, reflected):
    """``s.add(other, axis=0)`` and its kin."""

    def method(self, other, *, axis="columns", level=None, fill_value=None):
        if fill_value is not None:
            raise refused(f".{name} with fill_value")
        options = {"axis": 0 if self._places.ndim == 1 else axis, "level": level}

        def add(a, b):
            # What has no labels, or fewer, is the argument of the method.
            return a.add(b, **options) if isinstance(a, type(self._places)) else b.add(a, **options)

        plain = ufunc not in COMPARISONS.values() and level is None and (self._places.ndim == 1 or axis in ("columns", 1))
        return calculated(ufunc, *((other, self) if reflected else (self, other)), operator.add if plain else add)

    return method


def _operator(ufunc, reflected):
    return (lambda self, other: calculated(ufunc, other, self)) if reflected else lambda self, other: calculated(ufunc, self, other)


for _name, _ufunc in (FLEXIBLE | COMPARISONS).items():
    setattr(Labelled, _name, _flexible(_name, _ufunc, False))
    if _name in FLEXIBLE:
        setattr(Labelled, f"r{_name}", _flexible(f"r{_name}", _ufunc, True))
for _name, _ufunc in (OPERATORS | COMPARISONS | LOGICAL).items():
    setattr(Labelled, f"__{_name}__", _operator(_ufunc, False))
    if _name not in COMPARISONS:
        setattr(Labelled, f"__r{_name}__", _operator(_ufunc, True))
for _name in ("neg", "pos", "abs"):
    setattr(Labelled, f"__{_name}__", lambda self, function=getattr(operator, _name): Labelled(function(self._storage), self._places))
Labelled.abs = Labelled.__abs__
