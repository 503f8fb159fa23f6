"""The arguments of a call, sorted, and what its answer is.

An argument is an input of the tape, or static and part of the key, which is the structure of the arguments and a *mark* for each leaf.
So of ``f(x, 2.0, "left")`` with ``x = np.ones((3, 4))``, differentiated by `x`::

    x         ((3, 4), "d", True)     input: shape, dtype, whether it is differentiated
    2.0       ("f", False)            input: a float
    "left"    (str, "left")           static: its type and itself

An array of integers or booleans is an input, which is never differentiated: ``((3,), "l", False)``.  What is static is
compared by type and value where that is exact, and else by identity (`common.exact`).

What the answer is: an `Outcome`; or, in terms of an executable's outputs, what a `CallSite` writes out; or that there is none.

An answer is a `Structure` and a list of leaves.  A leaf is an `OutputLeaf`, a `GatherLeaf`, a `MapLeaf`, or anything else: a
constant (of an array, each call gets a copy).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ...array.dual import Dual
from ...array.tensor import Tensor
from ...autograd.recording import differentiable
from ...common.dtypes import by_rows, check_class, has_own_arithmetic
from ...common.errors import DtypeError, OptionError, ShapeError, StructureError
from ...common.exact import exact, is_labelled
from ...common.tree import LEAF, NOTHING, Structure, flatten, leaf_names, unflatten
from ...program.ports import OTHER

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
            continue
        if isinstance(leaf, Tensor) or (
            kind is np.ndarray and leaf.dtype.isnative and (leaf.dtype.char in "df" or leaf.dtype.kind in "biu" and not want)
        ):
            if kind is not np.ndarray:
                leaf = np.asarray(differentiable(leaf, argument_name(k, structure)) if want or leaf.requires_grad else leaf._v)
        elif want or isinstance(leaf, Dual):
            leaf = np.asarray(differentiable(leaf, argument_name(k, structure)))
        elif isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind == "f" or _is_other_integers(leaf):
            check_class(leaf, argument_name(k, structure))
            dtype = leaf.dtype.newbyteorder("=") if leaf.dtype.kind != "f" else np.float64 if leaf.dtype.itemsize > 4 else np.float32
            leaf = np.asarray(leaf, dtype)
        else:
            static.append(_static(leaf))
            continue
        inputs.append(leaf if leaf.flags.c_contiguous else np.ascontiguousarray(leaf).reshape(leaf.shape))
        # In another order than C it is another kind: which arrays share memory depends on the order.
        static.append((leaf.shape, leaf.dtype.char if leaf.flags.c_contiguous else leaf.dtype.char + in_memory(leaf), want))
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
        if not isinstance(leaf, (np.ndarray, slice)) and not is_labelled(type(leaf)):
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


def in_memory(leaf):
    """The order in which the axes of an array that is not C-contiguous lie in memory, as its mark says it."""
    return REORDERED + ",".join(map(str, by_rows(leaf)[1]))


def order_of(mark):
    """What a mark says of the order in memory: nothing of that of C."""
    return "".join(mark[1].partition(REORDERED)[1:]) if len(mark) == 3 else ""


def _laid_out(value, mark):
    """A copy of an input in the order in memory that the argument has."""
    order = order_of(mark)
    if not order:
        return np.array(value)
    axes = [int(axis) for axis in order[1:].split(",")]
    return value.transpose(axes).copy().transpose(np.argsort(axes))


def with_inputs(leaves, marks, inputs, live):
    """The leaves of a call with ``live(value)`` in the place of each input, of which it gets a copy."""
    remaining = iter(inputs)
    return [live(_laid_out(next(remaining), mark)) if is_input(mark) else read_only(leaf) for leaf, mark in zip(leaves, marks)]


@dataclasses.dataclass(slots=True)
class Outcome:
    """The answer to one call: the values of the results, and gradients of the wanted inputs."""

    values: list
    structure: object
    gradients: list
    tape: object = None

    def value(self):
        """The result of the function, which is the caller's own."""
        # Of a tape the results may be constants.
        values = self.values if self.tape is None else [v.copy() if isinstance(v, np.ndarray) else v for v in self.values]
        return values[0] if self.structure is LEAF else unflatten(self.structure, values)


class Miss(int):
    """What a call site answers if it has no answer: the status of its executable."""


#: The call is not one of those that are answered here.
MISS = Miss(OTHER)


@dataclasses.dataclass(frozen=True)
class OutputLeaf:
    """A leaf of an answer: output `number` of the executable."""

    number: int


@dataclasses.dataclass(frozen=True)
class GatherLeaf:
    """A leaf of an answer: ``results[number][index]`` of the results of the `CallPlan`, whose element 0 is zero.

    `single`: a Python float.
    """

    number: int
    index: np.ndarray | int
    single: bool = False


@dataclasses.dataclass(frozen=True)
class MapLeaf:
    """A leaf of an answer: what `function` makes of another one."""

    function: Callable[..., Any]
    leaf: OutputLeaf | GatherLeaf


@dataclasses.dataclass(frozen=True)
class CallPlan:
    """How an executable is called for one answer, if not simply once.

    Attributes
    ----------
    results : list of (tuple, str)
        Shapes and dtypes of the arrays into which outputs go.
    runs : list of (list, list)
        For each run of the executable the arrays that it is given as further inputs (C-contiguous, kept), and for each of
        its outputs ``(result, element)``, where it goes, or None, if it is not used.
    """

    results: list
    runs: list


def of_gradients(tape, structure, argnums, one, has_aux=False, has_value=True):
    """The answer of `value_and_grad` (or `grad`) by an executable with gradients, as a `CallSite` takes it.

    Parameters
    ----------
    tape : FinishedTape
    structure : Structure
        Of ``(args, kwargs)``.
    argnums : tuple of int
    one : bool
        Whether the gradient is that of one argument, not a tuple.
    has_aux, has_value : bool
        Whether the tape returns a pair; whether its results go first, or only what is besides the value, last.
    """
    number, by_position = len(tape.outputs), {}
    for k in sorted(set(argnums)):
        part = structure.parts[0].parts[k]
        by_position[k] = part, [OutputLeaf(number + j) for j in range(part.count)]
        number += part.count
    parts = [by_position[k] for k in argnums]
    gradients = parts[0] if one else joined(*parts)
    values = tape.structure, values_of(tape)
    if has_value:
        return joined(values, gradients)
    if not has_aux:
        return gradients
    first, aux = tape.structure.parts
    return joined(gradients, (aux, values[1][first.count :]))


def values_of(tape):
    """The leaves of an answer that are the results of `tape`."""
    return [OutputLeaf(k) if slot else what for k, (slot, what) in enumerate(tape.outputs)]


def joined(*answers):
    """The tuple of several answers."""
    structures, leaves = zip(*answers)
    return Structure(tuple, (None,) * len(answers), structures), [leaf for some in leaves for leaf in some]


def fitting(out, shape, dtype):
    """`out`, where an answer of this shape and dtype is to be written; an error if it cannot be."""
    if not isinstance(out, np.ndarray):
        raise OptionError(f"out is of type {type(out).__name__}; give an array of {dtype} of the shape {shape}")
    if out.shape != shape:
        raise ShapeError(f"out has the shape {out.shape}, but the result has {shape}")
    if out.dtype != dtype:
        raise DtypeError(f"out is an array of {out.dtype}, but the result is of {dtype}")
    if not out.flags.carray:
        raise OptionError("out must be writable and C-contiguous; give np.empty(shape), or a copy")
    return out


def written(answer, out):
    """`out` with an array in it, or with the values of a sparse one."""
    values = answer.data if hasattr(answer, "indptr") else answer
    if isinstance(values, (tuple, list, dict)):
        raise OptionError("out takes one array, but there are several: give one argument to differentiate by, and let the function return one")
    values = np.asarray(values)
    fitting(out, values.shape, values.dtype)[...] = values
    return out


def inner(leaf):
    """The leaf that is taken from a result."""
    return leaf.leaf if isinstance(leaf, MapLeaf) else leaf
