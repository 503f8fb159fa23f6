"""Numbers on the tape inside of NumPy's arrays: ``np.array([[np.cos(a), 0.0], [0.0, np.sin(a)]])``.

NumPy asks an element of a list for ``__array_struct__``, ``__array_interface__`` and ``__array__``, then for its length, and
takes what has none of them for an object.  A number that carries a derivative has none (`Differentiable.__array__`),
so NumPy makes an array of objects of it.  What NumPy computes with such an array alone it computes by the operators and methods of the
elements.  Where it meets a tensor, a function of this library, or is a result or an argument of a differentiated function,
`joined` makes a tensor of it: one instruction, `stack`, and one for its shape.  So it is with the tables of pandas, which hold arrays of
objects, and with xarray's arrays, which hold the tensor itself.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ..common.dtypes import check_class
from ..common.errors import ComplexOperandError, DtypeError, LeaveTapeError
from ..common.host_functions import host_function
from ..common.registry import registry
from ..common.tree import array_of, is_table
from .complex import OFFERED, ComplexTensor, split
from .differentiable import Differentiable
from .functions import stack
from .record import guard_on
from .typing import DTypeLike


def joined(thing: Any, plain_numbers: bool = False) -> Any:
    """`thing`, but an array of objects that holds tensors or dual numbers as one tensor or dual number.

    With `plain_numbers` an array of objects that holds only numbers, as parts of the others do, becomes an array of these.
    """
    if not isinstance(thing, np.ndarray):
        array = _array_of(thing)
        return joined(array) if array is not thing and holds_tensors(array) else thing
    if thing.dtype.char != "O":
        return thing
    elements = thing.ravel().tolist()
    if not any([isinstance(e, TENSORS) for e in elements]):
        if plain_numbers and all([isinstance(e, _NUMBERS) for e in elements]):
            return np.array(thing.tolist()).reshape(thing.shape)
        return thing
    check_class(thing, "an array of tensors")
    for e in elements:
        if isinstance(e, TENSORS):
            if e.shape:
                raise LeaveTapeError(
                    f"an array of objects has a tensor of shape {tuple(e.shape)} as an element, where only numbers can be computed "
                    "with; to join tensors write np.stack([u, v]), or np.concatenate"
                )
        elif not isinstance(e, _NUMBERS):
            raise DtypeError(f"an array of tensors also holds an object of type {type(e).__name__}; only numbers can stand beside tensors")
    whole = _stacked(elements)
    return whole if whole.shape == thing.shape else whole.reshape(thing.shape)


_NUMBERS = (float, int, complex, np.number, np.bool)
TENSORS = (Differentiable, ComplexTensor)
#: What most lists of numbers hold.
PLAIN = frozenset((float, int, bool, np.float64, np.int64, np.bool, type(None), str, slice))


def _array_of(thing):
    return thing if isinstance(thing, TENSORS) or type(thing) in PLAIN else array_of(thing)


@host_function
def _any_nan(values):
    return np.isnan(values).any()


#: Whether there is a NaN in an array.
any_nan = _any_nan()


def held_by_pandas(tensor: Any, frame: Any) -> Any:
    """`in_objects`, asked for by pandas: by a method of a table that computes with it, or to be put into one."""
    lacks = False
    while frame.f_globals.get("__name__", "").startswith("pandas.") and frame.f_code.co_name not in ("_sanitize_column", "assign", "insert"):
        table = frame.f_locals.get("self")
        # A new one has no elements yet.
        lacks = lacks or frame.f_code.co_name != "__init__" and is_table(table) and np.any(table.isna())
        frame = frame.f_back
    if lacks or guard_on(any_nan, tensor):
        raise LeaveTapeError(
            "pandas holds the elements of a tensor one by one, and does not see which of them are NaN, as here some are or would be; "
            "write df.to_numpy() @ v for df @ v, s * t for s.mul(t), or fill missing values before"
        )
    return in_objects(tensor)


def in_objects(tensor: Any) -> Any:
    """The elements of a tensor as an array of objects: what is put into one that there is."""
    elements = np.empty(tensor.shape, object)
    for k in np.ndindex(elements.shape):
        elements[k] = tensor[k]
    return elements


def holds_tensors(thing: Any) -> bool:
    """Whether there are tensors or dual numbers in nested lists and arrays."""
    if isinstance(thing, (list, tuple)):
        return not PLAIN.issuperset(map(type, thing)) and any([holds_tensors(part) for part in thing])
    if isinstance(thing, np.ndarray):
        return thing.dtype.char == "O" and holds_tensors(thing.ravel().tolist())
    return isinstance(thing, TENSORS)


def array(nested: Any, dtype: DTypeLike | None = None) -> Any:
    """Make a tensor from nested lists of tensors, numbers and arrays; plain data give a plain array, as with ``np.array``.

    Parameters
    ----------
    nested : number, array-like, Tensor, or nested lists and tuples of them
        Their shapes must be those that ``np.array`` takes; arrays are copied.
    dtype : dtype, optional
        By default the dtype that NumPy chooses for such numbers.

    Returns
    -------
    Tensor or ndarray

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> x = tg.tensor([1.0, 2.0], requires_grad=True)
    >>> tg.array([x, [x[0] * x[1], 0.5]])
    tensor([[1.0000, 2.0000],
            [2.0000, 0.5000]], grad_fn=<StackBackward0>)
    >>> tg.array([[1, 2], [3, 4]])
    array([[1, 2],
           [3, 4]])
    """
    nested = _array_of(nested)
    if not holds_tensors(nested):
        return np.array(nested, dtype)
    whole = stacked(nested)
    if dtype is not None and whole.dtype != dtype:
        return whole.astype(dtype)
    return whole.clone() if whole is nested else whole


def stacked(nested: Any) -> Any:
    """`array` of what holds tensors, by as few instructions as there are shapes."""
    if not isinstance(nested, (list, tuple)):
        return joined(nested)
    leaves: list[Any] = []
    shape = _numbers_in(nested, leaves)
    if shape is None:
        return _stacked([stacked(part) if holds_tensors(part) else np.asarray(part) for part in nested])
    whole = _stacked(leaves)
    return whole if len(shape) == 1 else whole.reshape(shape)


def _stacked(parts):
    if not any([p.dtype.kind in "fc" if isinstance(p, TENSORS) else isinstance(p, (float, complex)) for p in parts]):
        # Beside integers ints stay what they are.
        parts = [np.asarray(p) if isinstance(p, int) else p for p in parts]
    try:
        return stack(parts)
    except ComplexOperandError:
        halves = zip(*(split(p) or (p, 0.0) for p in parts))
        return ComplexTensor(*(stack(list(half)) for half in halves))


def _numbers_in(nested, leaves):
    """The shape of nested lists of numbers, which are added to `leaves`; None if anything else stands in them, or lists of other lengths."""
    if not isinstance(nested, (list, tuple)):
        leaves.append(nested)
        return () if np.ndim(nested) == 0 else None
    shapes = {_numbers_in(part, leaves) for part in nested}
    return (len(nested), *shapes.pop()) if len(shapes) == 1 and None not in shapes else None


def operand(thing: Any) -> Any:
    """`thing`, but what holds tensors as one tensor."""
    if isinstance(thing, np.ndarray):
        return joined(thing)
    if isinstance(thing, (list, tuple)):
        return stacked(thing) if holds_tensors(thing) else thing
    array = _array_of(thing)
    return thing if array is thing else operand(array)


registry.objects = SimpleNamespace(
    joined=joined, stacked=stacked, holds_tensors=holds_tensors, operand=operand, held_by_pandas=held_by_pandas, **OFFERED
)  # fmt: skip
