"""The arguments of a call, sorted: inputs of the tape, and everything else, which is static and part of the key.

The key is the structure of the arguments and a *mark* for each leaf.  So of ``f(x, 2.0, "left")`` with
``x = np.ones((3, 4))``, differentiated by `x`::

    x         ((3, 4), "d", True)     input: shape, dtype, whether it is differentiated
    2.0       ("f", False)            input: a float
    "left"    (str, "left")           static: its type and itself

An array of integers or booleans is an input, which is never differentiated: ``((3,), "l", False)``.  What is static is
compared by type and value where that is exact, and else by identity (`common.exact`).
"""

import numpy as np

from ...array.dual import Dual
from ...array.tensor import Tensor
from ...autograd.recording import differentiable
from ...common.dtypes import check_class, has_own_arithmetic
from ...common.errors import StructureError
from ...common.exact import exact
from ...common.tree import NOTHING, flatten, leaf_names

#: Mark of an array argument that is not C-contiguous.
REORDERED = "*"


def sort_arguments(args, kwargs, argnums):
    """Inputs as arrays, the key of their kind, and all leaves: ``(inputs, key, leaves)``.

    `argnums` are the positions of the arguments that are differentiated.
    """
    leaves, structure = flatten((args, kwargs))
    inputs, static = [], []
    differentiated = _differentiated(structure, argnums)
    for k, leaf in enumerate(leaves):
        want = differentiated[k]
        kind = type(leaf)
        if kind is float:
            inputs.append(np.array(leaf))
            static.append(("f", want))
        elif isinstance(leaf, Tensor) or (
            kind is np.ndarray and leaf.dtype.isnative and (leaf.dtype.char in "df" or leaf.dtype.kind in "biu" and not want)
        ):
            if kind is not np.ndarray:
                leaf = np.asarray(differentiable(leaf, argument_name(k, structure)) if want or leaf.requires_grad else leaf._v)
            inputs.append(leaf if leaf.flags.c_contiguous else np.ascontiguousarray(leaf).reshape(leaf.shape))
            # In another order than C it is another kind: a function may look at the order.
            static.append((leaf.shape, leaf.dtype.char if leaf.flags.c_contiguous else leaf.dtype.char + REORDERED, want))
        elif want or isinstance(leaf, Dual):
            inputs.append(np.array(differentiable(leaf, argument_name(k, structure)), order="C"))
            static.append((inputs[-1].shape, inputs[-1].dtype.char, want))
        elif isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind == "f" or _is_other_integers(leaf):
            check_class(leaf, argument_name(k, structure))
            dtype = leaf.dtype.newbyteorder("=") if leaf.dtype.kind != "f" else np.float64 if leaf.dtype.itemsize > 4 else np.float32
            inputs.append(np.array(leaf, dtype, order="C"))
            static.append((inputs[-1].shape, inputs[-1].dtype.char, want))
        else:
            static.append(_static(leaf))
    key = (structure, tuple(static))
    return inputs, key, leaves


def _is_other_integers(leaf):
    """Whether it is an array of integers or booleans of another class, as one that is mapped from a file, or in another order of bytes."""
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biu" and not has_own_arithmetic(leaf)


def _differentiated(structure, argnums):
    counts = [p.count for p in structure.parts[0].parts]
    flags = []
    for k, count in enumerate(counts):
        if k in argnums and structure.parts[0].parts[k] is NOTHING:
            raise StructureError(f"argument {k} is of type NoneType, which cannot be differentiated")
        flags += [k in argnums] * count
    return flags + [False] * (structure.count - len(flags))


def argument_name(k, structure):
    """The name of leaf `k` of ``(args, kwargs)``: ``argument 0['a']``."""
    name = leaf_names(structure)[k]
    first, _, rest = name[4:].partition("]")
    return f"argument {first}{rest}" if name.startswith("[0]") else f"keyword argument {first}{rest}"


def _static(leaf):
    """The mark of a static leaf, ``(type, what is compared)``."""
    try:
        hash(leaf)
    except TypeError:
        if not isinstance(leaf, (np.ndarray, slice)):
            raise TypeError(
                f"an argument of type {type(leaf).__name__} is neither an array nor hashable, so it can be neither an input "
                "of the tape nor part of its key; pass arrays, numbers, or containers of them"
            ) from None
    return exact(leaf)


def read_only(leaf):
    """A static argument: an array in it cannot be changed by the function, because replays would not change it."""
    if isinstance(leaf, np.ndarray):
        leaf = leaf.view()
        leaf.flags.writeable = False
    return leaf


# ---- reading a key -------------------------------------------------------------------------


def is_input(mark):
    """Whether a leaf with this mark is an input of the tape; the last word of the mark then says if it is differentiated."""
    return mark[0] == "f" or len(mark) == 3 and isinstance(mark[-1], bool)


def is_reordered(mark):
    """Whether a leaf with this mark is an array in another order than C."""
    return len(mark) == 3 and mark[1].endswith(REORDERED)


def with_inputs(leaves, marks, inputs, live):
    """The leaves of a call with ``live(value)`` in the place of each input, of which it gets a copy."""
    remaining = iter(inputs)
    return [live(np.array(next(remaining))) if is_input(mark) else read_only(leaf) for leaf, mark in zip(leaves, marks)]
