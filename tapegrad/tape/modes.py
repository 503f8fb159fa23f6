"""Switching recording off and on, for the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, Self, TypeVar, overload

from .store import thread_state

F = TypeVar("F", bound=Callable[..., Any])


class _Mode(ContextDecorator):
    """A context manager and decorator that sets recording to a fixed state."""

    enabled = True
    _before: list[bool]

    def __enter__(self) -> Self:
        state = thread_state()
        try:
            self._before.append(state.enabled)
        except AttributeError:
            self._before = [state.enabled]
        if state.enabled is not self.enabled:
            state.set_enabled(self.enabled)
        state.switched_off += not self.enabled
        return self

    def __exit__(self, *exc: object) -> None:
        state, before = thread_state(), self._before.pop()
        if state.enabled is not before:
            state.set_enabled(before)

    def _recreate_cm(self) -> Self:
        # Each call of a decorated function has its own, in whatever thread it is.
        return type(self)()


def recording(function, *args):
    """``function(*args)``, with recording on."""
    if thread_state().enabled:
        return function(*args)
    with enable_grad():
        return function(*args)


class _DecoratorMode(_Mode):
    """A mode that is also a decorator without brackets: ``@tg.no_grad``."""

    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]
    @overload
    def __new__(cls, function: None = None) -> Self: ...
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        return made(function) if callable(function) else made


class no_grad(_DecoratorMode):
    """Turn recording off: context manager (``with tg.no_grad():``) or decorator.

    Parameters
    ----------
    function : callable, optional
        As a decorator: the function to run without recording.

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.tensor(1.0, requires_grad=True)
    >>> with tg.no_grad():
    ...     (w * 2.0).requires_grad
    False
    """

    enabled = False


class enable_grad(_DecoratorMode):
    """Turn recording on again inside a `no_grad` block: context manager or decorator.

    Parameters
    ----------
    function : callable, optional
        As a decorator: the function to run with recording.

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.tensor(1.0, requires_grad=True)
    >>> with tg.no_grad(), tg.enable_grad():
    ...     (w * 2.0).requires_grad
    True
    """

    enabled = True


class set_grad_enabled(_Mode):
    """Turn recording on or off: immediately, for a block, or for a function.

    Parameters
    ----------
    mode : bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> w = tg.tensor(1.0, requires_grad=True)
    >>> with tg.set_grad_enabled(False):
    ...     (w * 2.0).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        self.enabled = bool(mode)
        # As in PyTorch the call itself switches; leaving a block switches back.
        state = thread_state()
        self._before = [state.enabled]
        state.set_enabled(self.enabled)
        state.switched_off += not self.enabled

    def __enter__(self) -> Self:
        return self

    def __call__(self, function: F) -> F:
        thread_state().set_enabled(self._before.pop())
        return super().__call__(function)

    def _recreate_cm(self) -> Self:
        return type(self)(self.enabled)


def is_grad_enabled() -> bool:
    """Tell whether operations of this thread are being recorded.

    Returns
    -------
    bool

    Examples
    --------
    >>> import tapegrad as tg
    >>> with tg.no_grad():
    ...     tg.is_grad_enabled()
    False
    """
    return thread_state().enabled
