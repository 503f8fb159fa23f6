"""Which arguments are differentiated: by position, from the end, by name."""

import inspect

import numpy as np

from ..common.errors import StructureError
from ..tape.places import placed_name


def is_number(value):
    """Whether `value` can be the position of an argument."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def by_position(function, argnums):
    """`argnums` with the positions of arguments in the place of their names."""
    if argnums.__class__ is int or not any(isinstance(one, str) for one in _each(argnums)):
        return argnums
    names, found = [p.name for p in _positional(function)], []
    for one in _each(argnums):
        if isinstance(one, str) and one not in names:
            raise StructureError(f"argnums={one!r}: {placed_name(function)} has no positional argument of this name; there are {', '.join(names)}")
        found.append(names.index(one) if isinstance(one, str) else one)
    return tuple(found) if isinstance(argnums, (tuple, list)) else found[0]


def resolved(function, argnums):
    """Whether `argnums` is one argument, and all of them as positions from the front; by name, or from the end, where that is certain."""
    if argnums.__class__ is int and argnums >= 0:
        return True, (argnums,)
    found = _from_front(function, by_position(function, argnums))
    if not _each(found) or not all(map(is_number, _each(found))):
        raise StructureError(f"argnums={argnums!r} is not the position of an argument, or a tuple of them")
    return is_number(found), tuple(int(one) for one in _each(found))


def _from_front(function, argnums):
    if not any(is_number(one) and one < 0 for one in _each(argnums)):
        return argnums
    places, count = _positional(function), len(inspect.signature(function).parameters)
    fixed = len(places) == count and all(p.default is p.empty for p in places)
    for one in _each(argnums):
        if is_number(one) and one < 0 and (not fixed or -one > count):
            raise StructureError(f"argnums={one}: how many arguments {placed_name(function)} takes is not certain; count from the front, from 0, or name it")
    found = [one + count if is_number(one) and one < 0 else one for one in _each(argnums)]
    return tuple(found) if isinstance(argnums, (tuple, list)) else found[0]


def positions(argnums, count):
    """`argnums`, which may count from the end, as positions among `count` arguments."""
    if any(not is_number(one) or not -count <= one < count for one in _each(argnums)):
        raise StructureError(f"argnums={argnums!r}, but the function was called with {count} positional arguments")
    return tuple(one % count for one in _each(argnums))


def check_given(argnums, args):
    """Raise if one of the arguments to differentiate is missing."""
    for k in argnums:
        if k >= len(args):
            raise StructureError(f"argnums={argnums} asks for argument {max(argnums)}, but the function was called with {len(args)} positional arguments")


def _each(argnums):
    return argnums if isinstance(argnums, (tuple, list)) else (argnums,)


def _positional(function):
    """The parameters that can be given by position."""
    return [p for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
