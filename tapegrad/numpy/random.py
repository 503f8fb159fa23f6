"""`numpy.random`: random numbers are plain arrays, and drawn as NumPy draws them."""

from typing import TYPE_CHECKING

from .names import namespace

if TYPE_CHECKING:
    from numpy.random import *  # noqa: F403

__all__, __getattr__, __dir__ = namespace(__name__)
