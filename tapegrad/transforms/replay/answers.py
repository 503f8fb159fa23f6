"""What the answer of a call is: an `Outcome`; or, in terms of an executable's outputs, what a `CallSite` writes out; or that there is none.

An answer is a `Structure` and a list of leaves.  A leaf is an `OutputLeaf`, a `GatherLeaf`, a `MapLeaf`, or anything else: a
constant (of an array, each call gets a copy).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ...common.errors import DtypeError, OptionError, ShapeError
from ...common.tree import LEAF, Structure, unflatten
from ...program.ports import OTHER


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
