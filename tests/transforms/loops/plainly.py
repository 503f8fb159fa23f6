"""Plain Python loops under the names and with the arguments of `tg.scan` and its kin: what these must agree with.

Written for these tests alone: nothing is shared with the package but `tg.stack` and `tg.concatenate`, where there are tensors.
Containers are dicts, lists, tuples, namedtuples and dataclasses.
"""

import copy
import dataclasses

import numpy as np

import tapegrad as tg


def leaves_of(thing):
    """The leaves of a container, in order; those of a dict by its keys, as JAX has them."""
    if isinstance(thing, dict):
        return [leaf for key in sorted(thing, key=str) for leaf in leaves_of(thing[key])]
    if isinstance(thing, (list, tuple)):
        return [leaf for value in thing for leaf in leaves_of(value)]
    if dataclasses.is_dataclass(thing):
        return [leaf for field in dataclasses.fields(thing) for leaf in leaves_of(getattr(thing, field.name))]
    return [thing]


def mapped(function, *things):
    """`function` of leaves that stand in the same place, in such a container."""
    first = things[0]
    if isinstance(first, dict):
        return {key: mapped(function, *(thing[key] for thing in things)) for key in first}
    if isinstance(first, (list, tuple)):
        parts = [mapped(function, *each) for each in zip(*things, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if dataclasses.is_dataclass(first):
        made = copy.copy(first)
        for field in dataclasses.fields(first):
            object.__setattr__(made, field.name, mapped(function, *(getattr(thing, field.name) for thing in things)))
        return made
    return function(*things)


def stacked(*parts):
    if all(part is None for part in parts):
        return None
    return tg.stack(list(parts)) if any(isinstance(part, tg.Differentiable) for part in parts) else np.stack(parts)


def scan(f, init, xs=None, length=None, reverse=False, memory=None):
    iterations = length if xs is None else len(leaves_of(xs)[0])
    carry, results = init, [None] * iterations
    for k in range(iterations - 1, -1, -1) if reverse else range(iterations):
        carry, results[k] = f(carry, None if xs is None else mapped(lambda leaf: leaf[k], xs))
    return carry, mapped(stacked, *results) if iterations else None


def while_loop(cond, body, init, memory=None):
    value = init
    while cond(value):
        value = body(value)
    return value


def fori_loop(lower, upper, body, init):
    value = init
    for i in range(lower, upper):
        value = body(i, value)
    return value


def cond(pred, true_fun, false_fun, *operands):
    if pred:
        return true_fun(*operands)
    return false_fun(*operands)


def switch(index, branches, *operands):
    return branches[max(0, min(int(index), len(branches) - 1))](*operands)


def map(f, xs):
    return mapped(stacked, *[f(mapped(lambda leaf: leaf[k], xs)) for k in range(len(leaves_of(xs)[0]))])


def associative_scan(fn, elems, reverse=False, axis=0):
    count = leaves_of(elems)[0].shape[axis]
    at = lambda k: mapped(lambda leaf: leaf[(slice(None),) * axis + (slice(k, k + 1),)], elems)
    results = [at(count - 1 if reverse else 0)]
    for k in range(count - 2, -1, -1) if reverse else range(1, count):
        results.append(fn(results[-1], at(k)))
    return mapped(lambda *parts: _joined(parts, axis), *(reversed(results) if reverse else results))


def _joined(parts, axis):
    if any(isinstance(part, tg.Differentiable) for part in parts):
        return tg.concatenate(list(parts), axis=axis)
    return np.concatenate(parts, axis=axis)
