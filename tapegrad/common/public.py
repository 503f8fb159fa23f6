"""What public modules and functions show: their names, their signatures, and what to write for a keyword that other libraries have."""

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def answers(**known: str) -> Callable[[F], F]:
    """Decorator: a call with one of these keywords raises a TypeError that says what to write."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in known.keys() & kwargs.keys() if kwargs else ():
                raise TypeError(f"{function.__name__}() takes no {name}=; {known[name]}")
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function; one without parameters where Python knows none, as of some that are compiled."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.Signature()


def only_public(module: str) -> Callable[[], list[str]]:
    """``__dir__`` of the module of this name, which editors list, too: the names in its ``__all__``, and nothing that it needs."""
    return lambda: sorted([*sys.modules[module].__all__, "__doc__", "__file__", "__name__"])
