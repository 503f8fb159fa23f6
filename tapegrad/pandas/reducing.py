"""Reductions, running sums, groups and functions of elements, with pandas' defaults: missing values are passed over, ``std`` divides by n - 1."""

from functools import partial

import numpy as np
import pandas as pd

from ..array.objects import TENSORS, stacked
from ..common.errors import UnsupportedFunctionError

_IN_NUMPY = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "min": np.min, "max": np.max, "median": np.median}
_SPREAD = {
    "var": lambda ddof: lambda a, axis: np.var(a, axis=axis, ddof=ddof),
    "std": lambda ddof: lambda a, axis: np.std(a, axis=axis, ddof=ddof),
    "sem": lambda ddof: lambda a, axis: np.std(a, axis=axis, ddof=ddof) / np.sqrt(a.shape[axis]),
}


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
        return self._reduced(_SPREAD[name](ddof), ddof + 1, axis, skipna)

    return method


for _name in (*_IN_NUMPY, *_SPREAD):
    setattr(Reductions, _name, _reduction(_name))
