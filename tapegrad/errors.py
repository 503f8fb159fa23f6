"""The errors tapegrad raises: a public name of `tapegrad.common.errors`."""
from .common.errors import *  # noqa: F403
