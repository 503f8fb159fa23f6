"""Reading inputs of the suite: each function checks what a message has under a name, and says what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np


def entry(given: Any, name: str) -> Any:
    """What an input has under a name.

    Raises
    ------
    ValueError
        If the input is no JSON object or has no such entry.
    """
    if not isinstance(given, dict):
        raise ValueError(f"the input is {shown(given)}: it must be an object with {name}")
    if name not in given:
        raise ValueError(f"the input has no {name}")
    return given[name]


def number(value: Any, name: str = "the input") -> float:
    """A number; a truth value or a text is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {shown(value)}: it must be a number")
    return float(value)


def count(given: Any, name: str, least: int = 1) -> int:
    """An integer of at least `least`."""
    value = entry(given, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {shown(value)}: it must be an integer of at least {least}")
    return value


def array(given: Any, name: str, *shape: int | None) -> np.ndarray:
    """Lists of numbers, as many deep as `shape` is long; None is any length but 0."""
    value = entry(given, name)
    found = np.array(value)  # raises for rows of different lengths
    wanted = " by ".join("one or more" if n is None else str(n) for n in shape)
    if found.ndim == 1 and found.size == 0 and 0 in shape:
        found = np.zeros(shape)
    if found.dtype.kind == "O" and all(type(x) in (int, float) for x in found.flat):
        found = found.astype(float)  # integers of more than 64 bits
    if found.dtype.kind not in "iuf" or found.ndim != len(shape):
        raise ValueError(f"{name} is {shown(value)}: it must be numbers, {wanted}")
    if any(n != k and (n is not None or k == 0) for n, k in zip(shape, found.shape)):
        raise ValueError(f"{name} has shape {found.shape}: it must be {wanted}")
    return found.astype(float)


def shown(value: Any) -> str:
    """A value for a message, cut short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
