"""Types for annotations: a public name of `tapegrad.common.typing`."""
from .common.typing import *  # noqa: F403
