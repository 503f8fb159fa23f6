"""Derivatives of solutions: a public name of `tapegrad.transforms.implicit`."""
from .transforms.implicit import *  # noqa: F403
