"""NumPy's functions where lists and tuples may hold tensors: ``np.sum([t, u])``, ``np.concatenate([[t], [u, 0.0]])``.

NumPy asks tensors among its arguments what to do (`tapegrad.numpy_api.dispatch`), but not tensors in a list that stands for an
array.  `taking_lists` makes of a function one that has such a list stacked first, and then calls it.  Which arguments stand
for arrays follows from the names of NumPy's parameters: `SEQUENCES` are lists of arrays, each of which may be a
list again; `NO_ARRAYS` say how long and where.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np

from ..array.objects import PLAIN, holds_tensors, operand

#: Parameters that are lists of arrays.
SEQUENCES = {"arrays", "tup", "condlist", "choicelist", "choices", "funclist", "keys", "sample"}
#: Parameters that are shapes, axes and the like: in a recording they may hold integers, one by one.
NO_ARRAYS = {"shape", "newshape", "new_shape", "axis", "axes", "reps", "window_shape", "out"}

#: Of lists of these only NumPy makes the arrays; an array of objects is one that NumPy computes with.
_all_plain = (PLAIN | {np.ndarray}).issuperset


def taking_lists(function):
    """`function` of NumPy, or a method of a ufunc, with a tensor in place of each list that holds tensors and stands for an array."""
    if function is np.block:
        # Its lists are no arrays, they say where arrays are; NumPy asks the tensors in them.
        return function

    @functools.wraps(function, updated=())
    def call(*args, **kwargs):
        for a in (*args, *kwargs.values()) if kwargs else args:
            if (a.__class__ is list or a.__class__ is tuple) and not _all_plain(map(type, a)):
                args = [_stacked(a, names[k] if k < len(names) else "") for k, a in enumerate(args)]
                kwargs = {name: _stacked(a, name) for name, a in kwargs.items()}
                break
        return function(*args, **kwargs)

    names = () if isinstance(function, np.ufunc) else parameters(function)
    return call


@functools.cache
def parameters(function):
    """The names of the parameters of a function that can be given by position."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _stacked(argument, name):
    if name in NO_ARRAYS or not isinstance(argument, (list, tuple)) or not holds_tensors(argument):
        return argument
    return type(argument)([operand(part) for part in argument]) if name in SEQUENCES else operand(argument)


#: The code of each such function: what is recorded while it runs belongs to the line that has called it.
CODE = taking_lists(np.positive).__code__
