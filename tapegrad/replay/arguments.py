"""The arguments of a call, sorted: inputs of the tape, and everything else, which is static and part of the key."""

from __future__ import annotations

import numpy as np

from ..errors import DtypeError, HigherOrderError, StructureError
from ..record import _Types
from ..tape.meta import readable
from ..tensor import Tensor
from ..tree import flatten, leaf_names

#: Mark of an array argument that is not C-contiguous.
REORDERED = "*"


def sort_arguments(args, kwargs, argnums):
    """Inputs as arrays, the key of their kind, and all leaves: ``(inputs, key, leaves)``.

    `argnums` are the positions of the arguments that are differentiated.
    """
    leaves, structure = flatten((args, kwargs))
    inputs, static = [], []
    differentiated = _differentiated(args, structure, argnums)
    for k, leaf in enumerate(leaves):
        want = differentiated[k]
        kind = type(leaf)
        if kind is np.memmap or kind is np.ndarray and readable(leaf) is not leaf:
            leaf, kind = readable(np.asarray(leaf)), np.ndarray
        if kind is float:
            inputs.append(np.array(leaf))
            static.append(("f", want))
        elif kind is np.ndarray and leaf.dtype.char in "df":
            inputs.append(leaf if leaf.flags.c_contiguous else np.ascontiguousarray(leaf).reshape(leaf.shape))
            # In another order than C it is another kind: a function may look at the order.
            static.append((leaf.shape, leaf.dtype.char if leaf.flags.c_contiguous else leaf.dtype.char + REORDERED, want))
        elif isinstance(leaf, Tensor):
            if leaf.requires_grad:
                raise _nested(k, structure, "a tensor that requires a gradient")
            value = np.asarray(leaf._v)
            inputs.append(np.ascontiguousarray(value).reshape(value.shape))
            static.append((value.shape, value.dtype.char if value.flags.c_contiguous else value.dtype.char + REORDERED, want))
        elif isinstance(leaf, _Types.Dual):
            raise _nested(k, structure, "a dual number, which carries a derivative")
        elif want:
            inputs.append(_wanted(leaf, k, structure))
            static.append((inputs[-1].shape, inputs[-1].dtype.char, want))
        elif isinstance(leaf, (np.ndarray, np.generic)) and np.asarray(leaf).dtype.kind in "f":
            value = np.array(leaf, np.float64 if np.asarray(leaf).dtype.itemsize > 4 else np.float32)
            inputs.append(value)
            static.append((value.shape, value.dtype.char, want))
        elif isinstance(leaf, np.ndarray):
            static.append((leaf.shape, leaf.dtype.str, leaf.tobytes()))
        else:
            static.append(_static(leaf))
    key = (structure, tuple(static))
    return inputs, key, leaves


def _differentiated(args, structure, argnums):
    counts = [p.count for p in structure.parts[0].parts]
    found = []
    for k, count in enumerate(counts):
        found += [k in argnums] * count
    return found + [False] * (structure.count - len(found))


def _wanted(leaf, k, structure):
    """An argument to be differentiated that is neither a float nor a float array."""
    where = _argument(k, structure)
    if isinstance(leaf, (int, np.floating)) and not isinstance(leaf, bool):
        return np.array(float(leaf)) if not isinstance(leaf, np.float32) else np.array(leaf)
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "iub":
        raise DtypeError(
            f"{where} is an array of {leaf.dtype}, which has no derivative; pass it as .astype(float)"
        )
    if isinstance(leaf, (np.integer, np.bool)):
        raise DtypeError(f"{where} is a number of {leaf.dtype}, which has no derivative; pass it as float(...)")
    if isinstance(leaf, np.ndarray) and type(leaf) is not np.ndarray and leaf.dtype.kind == "f":
        raise DtypeError(f"{where} is a {type(leaf).__name__}, whose operations are not those of arrays; pass it as np.asarray(...)")
    if isinstance(leaf, (np.ndarray, np.generic)):
        raise DtypeError(f"{where} has dtype {np.asarray(leaf).dtype}, which cannot be differentiated")
    raise StructureError(f"{where} is of type {type(leaf).__name__}, which cannot be differentiated")


def _argument(k, structure):
    """The name of leaf `k` of ``(args, kwargs)``: ``argument 0['a']``."""
    name = leaf_names(structure)[k]
    first, _, rest = name[4:].partition("]")
    return f"argument {first}{rest}" if name.startswith("[0]") else f"keyword argument {first}{rest}"


def _nested(k, structure, what):
    return HigherOrderError(
        f"{_argument(k, structure)} is {what}: the derivative of this function is computed by a sweep and would not be "
        "recorded, so derivatives of derivatives cannot be nested here. Pass its value (x.detach()), or use forward mode "
        "inside (tg.grad(tg.derivative(f)))"
    )


def _static(leaf):
    try:
        hash(leaf)
    except TypeError:
        raise TypeError(
            f"an argument of type {type(leaf).__name__} is neither a float array nor hashable, so it can be neither an input "
            "of the tape nor part of its key; pass arrays, numbers, or containers of them"
        ) from None
    return (type(leaf), leaf)


def objects(leaves):
    """Static arguments that may change inside: (number, object)."""
    fixed = (int, float, str, bytes, complex, type(None), np.ndarray, np.generic, Tensor)
    return [(k, leaf) for k, leaf in enumerate(leaves) if not isinstance(leaf, fixed)]


def read_only(leaf):
    """A static argument: an array in it cannot be changed by the function, because replays would not change it."""
    if isinstance(leaf, np.ndarray):
        leaf = leaf.view()
        leaf.flags.writeable = False
    return leaf
