"""`numpy.fft`: the same functions, which also take lists of tensors."""

from typing import TYPE_CHECKING

from .names import namespace

if TYPE_CHECKING:
    from numpy.fft import *  # noqa: F403

__all__, __getattr__, __dir__ = namespace(__name__)
