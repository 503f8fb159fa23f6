"""Which arguments are differentiated: by position, from the end, by name."""

import inspect

import numpy as np

from ..common.errors import StructureError
from ..common.registry import registry
from ..tape.places import placed_name


def is_number(value):
    """Whether `value` can be the position of an argument."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def resolved(function, argnums):
    """Whether `argnums` is one argument, and all of them as positions from the front; by name, or from the end, where that is certain."""
    if argnums.__class__ is int and argnums >= 0:
        return True, (argnums,)
    wanted = argnums if isinstance(argnums, (tuple, list, range)) else (argnums,)
    if not wanted or not all(is_number(one) or isinstance(one, str) for one in wanted):
        raise StructureError(
            f"argnums={argnums!r} is not the position of an argument, or a tuple of them; the arguments are given to the function that is returned, "
            "tg.grad(f)(x)"
        )
    return wanted is not argnums, tuple(_position(function, one) for one in wanted)


def _position(function, one):
    """The position from the front of an argument by position from either end, or by name."""
    if is_number(one) and one >= 0:
        return int(one)
    parameters = inspect.signature(function).parameters.values()
    # Those that can be given by position.
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names, count = [p.name for p in places], len(parameters)
    if isinstance(one, str) and one not in names:
        raise StructureError(f"argnums={one!r}: {placed_name(function)} has no positional argument of this name; there are {', '.join(names)}")
    if isinstance(one, str):
        return names.index(one)
    if len(places) < count or any(p.default is not p.empty for p in places) or -one > count:
        raise StructureError(f"argnums={one}: how many arguments {placed_name(function)} takes is not certain; count from the front, from 0, or name it")
    return int(one) + count


def check_given(argnums, args, more=""):
    """Raise if one of the arguments to differentiate is missing; `more`, in words, is what was given besides."""
    for k in argnums:
        if k >= len(args):
            raise StructureError(
                f"argnums={argnums} asks for argument {max(argnums)}, but the function was called with {len(args)} positional arguments{more}; "
                "what is differentiated is given by position"
            )


def check_function(function, purpose=""):
    """Raise if something is not a function; `purpose` says in words what for."""
    if not callable(function):
        instead = "; write tg.autograd.grad(y, x) for the derivatives of a tensor" if isinstance(function, registry.Tensor) else ""
        raise StructureError(f"expected a function{purpose}, got {type(function).__name__}{instead}")
