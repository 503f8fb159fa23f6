"""Containers as a whole: a public name of `tapegrad.array.trees`."""
from .array.trees import *  # noqa: F403
