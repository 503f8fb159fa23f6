"""Types for annotations: a public name of `tapegrad.array.typing`."""
from .array.typing import *  # noqa: F403
