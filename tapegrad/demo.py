"""The model of hares and lynxes: a public name of `tapegrad.tools.demo`."""
from .tools.demo import *  # noqa: F403
