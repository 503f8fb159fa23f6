"""Tables of pandas beside tensors: `Labelled`, a tensor with the labels of the Series or DataFrame that it was computed from.

Imports: common, array.

A program that computes with a Series relies on pandas: rows are matched by their labels, missing values are passed over,
``std`` divides by n - 1, the mean of a DataFrame has a number for each column.  A tensor knows none of this.  So what comes of a
tensor beside a table is a `Labelled`, which holds

_storage   a tensor: the elements that are there, in the order of rows; of the table's shape if none is missing;
_places    a Series or DataFrame of pandas with the table's labels, in which stands the position in `_storage` of each
           element, NaN where it is missing.

*What moves elements is done by pandas itself*, to `_places`: ``shift``, ``loc``, ``unstack`` or an addition of two tables give
positions again, at which the tensor is read.  No rule for labels is written here.  What computes (reductions, running
sums, groups) is written here, of the elements that are there.  Nothing is ever computed of a missing value, so no
NaN is multiplied by an adjoint of zero.  What has neither (``rolling``, ``ewm``, ``sort_values``) is refused, and so is a
NaN that the program itself has computed, where pandas would pass it over: its derivative would be NaN.

Two other ways lose something.  A Series that holds numbers on the tape as objects is slow, microseconds an element, and
pandas does not see that such an object is NaN: it adds it.  An extension array around a tensor leaves through ``__array__`` in
``np.where(mask, s, 0.0)``, ``rolling`` and ``ewm``, because a Series has no ``__array_function__``; and a subclass of Series that
has one depends on which of pandas' methods, in which version, give the subclass back.

``import tapegrad`` does not load this folder: the first operator between a tensor and a table does.
"""

from ..common.public import only_public
from .labelled import Labelled, calculated

__all__ = ["Labelled", "calculated"]
__dir__ = only_public(__name__)
