"""Why a tape has no kernel."""

from __future__ import annotations


class NotLowered(Exception):
    """This tape cannot become a kernel; the message names the instruction and where it was recorded."""
