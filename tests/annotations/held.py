"""`assert_type`, which at run time looks whether the value is of the type that it was said to be."""

from __future__ import annotations

import types
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing import assert_type as assert_type
else:

    def assert_type(value, kind):
        """Raise unless `value` is of `kind`: a class, an array of a dtype, a container of such, or `Any`."""
        assert holds(value, kind), f"{value!r} is no {kind}"
        return value


def holds(value: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if kind is None:
        return value is None
    if origin in (Union, types.UnionType):
        return any(holds(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is np.ndarray or origin is get_origin(NDArray[Any]):
        # Since NumPy 2.5 the alias is an origin of its own.
        dtype = get_args(parts[1])[0] if origin is np.ndarray else parts[0]
        return isinstance(value, np.ndarray) and (isinstance(dtype, type) and issubclass(value.dtype.type, dtype) or dtype is Any)
    if origin is tuple:
        if parts[1:] == (...,):
            return isinstance(value, tuple) and all(holds(v, parts[0]) for v in value)
        return isinstance(value, tuple) and len(value) == len(parts) and all(map(holds, value, parts))
    if origin is list:
        return isinstance(value, list) and all(holds(v, parts[0]) for v in value)
    if origin in (dict, Counter):
        return isinstance(value, origin) and all(holds(k, parts[0]) for k in value)
    if origin is not None:
        return callable(value) if origin.__module__ == "collections.abc" else isinstance(value, origin)
    return isinstance(value, kind)
