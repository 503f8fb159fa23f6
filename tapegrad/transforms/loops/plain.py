"""Loops on plain numbers and arrays: the Python loops that they stand for, so that a debugger steps through them."""

import contextlib
import operator

import numpy as np

from ...array.differentiable import Differentiable
from ...common.errors import StructureError
from ...common.tree import flatten, flatten_result, leaf_names, rearranged, unflatten
from ...tape.store import thread_state

NOTHING = contextlib.nullcontext()


def described(leaf):
    """Shape and dtype of a leaf, as text."""
    return f"{np.shape(leaf)} {getattr(leaf, 'dtype', None) or type(leaf).__name__}"


def fitting(before, after, what):
    """The leaves of `after`, a carry that the body gave; raises if it is no container like `before`, or its arrays have other shapes.

    Parameters
    ----------
    before : (list, Structure)
    after : object
    what : str
        How the body is named in messages.
    """
    leaves, structure = flatten(after)
    leaves = rearranged(leaves, structure, before[1])
    if leaves is None:
        raise StructureError(f"{what} returned the carry {structure} for the carry {before[1]}; return a container like the one it was given")
    for k, (one, other) in enumerate(zip(before[0], leaves)):
        if getattr(one, "shape", ()) != getattr(other, "shape", ()):
            name = leaf_names(before[1])[k]
            raise StructureError(
                f"{what} changes the shape of the carry{name}: it was {described(one)} and is {described(other)}; a carry keeps its shape"
            )
    return leaves


def turns_of(xs, length, loop):
    """Leaves and structure of `xs`, and the number of iterations; raises, naming the `loop`, if the leaves disagree."""
    leaves, structure = ([], None) if xs is None else flatten(xs)
    for name, leaf in zip(leaf_names(structure) if leaves else (), leaves):
        if np.ndim(leaf) == 0:
            raise StructureError(f"xs{name} is a number; {loop} takes arrays, and goes along their first axis")
        if length is None:
            length = len(leaf)
        elif len(leaf) != length:
            raise StructureError(f"xs{name} has {len(leaf)} elements along its first axis, and there are {length} iterations")
    if length is None:
        raise StructureError(f"without xs {loop} does not know how many iterations there are: give xs (or, to scan, length=)")
    try:
        iterations = operator.index(length)
    except TypeError:
        iterations = -1
    if iterations < 0:
        raise StructureError(f"length={length!r} is not a number of iterations; give an integer, 0 or more")
    return leaves, structure, iterations


def stacked(results):
    """The results of all iterations, each leaf with a first axis for the iterations; None stays None."""
    leaves, structures = zip(*map(flatten_result, results))
    other = next((s for s in structures if s != structures[0]), None)
    if other is not None:
        raise StructureError(f"the body returned the result {structures[0]} in one iteration and {other} in another; return one kind of container")
    return unflatten(structures[0], [np.stack(parts) for parts in zip(*leaves)])


def pair(output):
    """What the body of a scan has returned."""
    if type(output) is not tuple or len(output) != 2:
        raise StructureError(f"the body of a scan returns a pair, (carry, result), not {type(output).__name__}; the result may be None")
    return output


class NeedsRecording(Exception):
    """The body of a loop on plain numbers has used a tensor: the loop is to be recorded."""


def watched(iteration, output):
    """`output`, raising if that of the first iteration has tensors."""
    if iteration == 0 and any(isinstance(leaf, Differentiable) for leaf in flatten(output)[0]):
        raise NeedsRecording
    return output


def _named(what):
    """For an iteration: what looks for numbers that are not finite is told which one it is."""
    checking = thread_state().checking
    return NOTHING if checking is None else checking.within(what)


def _by_rows(container, leaves, structure):
    """`container` with its arrays row by row, as a recorded body sees them: what shares memory with what depends on that."""
    if all([leaf.__class__ is not np.ndarray or leaf.flags.c_contiguous for leaf in leaves]):
        return container
    return unflatten(structure, [np.ascontiguousarray(leaf) if leaf.__class__ is np.ndarray else leaf for leaf in leaves])


def scan(f, init, leaves, structure, iterations, reverse, watch, body, unit="iteration"):
    """`api.scan` iteration by iteration; `watch`: whether to raise `NeedsRecording`; `body` is the name of `f` in messages."""
    before, results = flatten(init), [None] * iterations
    carry = _by_rows(init, *before)
    leaves = [np.ascontiguousarray(leaf) if leaf.__class__ is np.ndarray else leaf for leaf in leaves]
    for iteration, k in enumerate(reversed(range(iterations)) if reverse else range(iterations)):
        x = None if structure is None else unflatten(structure, [leaf[k] for leaf in leaves])
        with _named(f"{unit} {k}"):
            carry, results[k] = watched(iteration if watch else -1, pair(f(carry, x)))
        carry = _by_rows(carry, fitting(before, carry, body), before[1])
    return carry, stacked(results) if iterations else None


def while_loop(condition, body, init, watch):
    """`api.while_loop` iteration by iteration."""
    before, iteration = flatten(init), 0
    value = _by_rows(init, *before)
    while watched(iteration if watch else -1, condition(value)):
        with _named(f"iteration {iteration}"):
            value = watched(iteration if watch else -1, body(value))
        iteration += 1
        value = _by_rows(value, fitting(before, value, "the body of the while loop"), before[1])
    return value
