"""Objects of other libraries around arrays: tables of pandas, labelled arrays of xarray, sparse matrices of SciPy.

None of these libraries is imported here: who has such an object has imported its library.
"""

from __future__ import annotations

import sys

#: Library -> its classes that are labels around an array, and how to get at that.
_LABELLED = {
    "pandas": (("Series", "DataFrame", "Index"), lambda table: table.to_numpy()),
    "xarray": (("DataArray", "Variable"), lambda labelled: labelled.data),
    f"{__package__.partition('.')[0]}.pandas": (("Labelled",), lambda labelled: labelled.to_numpy()),
}


def array_of(thing):
    """The array in a table or labelled array; anything else as it is."""
    for library, (names, array) in _LABELLED.items():
        if isinstance(thing, _classes(library, names)):
            return array(thing)
    return thing


def is_table(thing):
    """Whether it is a Series, a DataFrame or an Index of pandas."""
    return "pandas" in sys.modules and isinstance(thing, _classes("pandas", _LABELLED["pandas"][0]))


def labelled_as(thing, array):
    """`array` with the labels of `thing`, a table or labelled array; as it is where `thing` is neither."""
    if isinstance(thing, _classes("xarray", _LABELLED["xarray"][0])):
        return thing.copy(data=array)
    if isinstance(thing, _classes("pandas", ["Series"])):
        return type(thing)(array, index=thing.index, name=thing.name)
    return type(thing)(array, index=thing.index, columns=thing.columns) if isinstance(thing, _classes("pandas", ["DataFrame"])) else array


def is_sparse(thing):
    """Whether it is a sparse matrix or array of SciPy's."""
    return isinstance(thing, _classes("scipy.sparse", ["sparray", "spmatrix"]))


def is_matrix(thing):
    """Whether it is a sparse matrix, of which ``*`` is the matrix product."""
    return isinstance(thing, _classes("scipy.sparse", ["spmatrix"]))


def _classes(library, names):
    module = sys.modules.get(library)
    return () if module is None else tuple([getattr(module, name) for name in names if hasattr(module, name)])
