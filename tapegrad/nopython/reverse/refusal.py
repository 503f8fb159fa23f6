"""What stops the transformation: an operation that it does not follow."""

from __future__ import annotations


class Refused(Exception):
    """No derivative of a statement; `loc` is where it stands in the user's source, `advice` what to do."""

    def __init__(self, reason, loc, advice="write this step in loops over numbers and arrays, or ask for mode=\"forward\""):
        super().__init__(reason)
        self.reason, self.loc, self.advice = reason, loc, advice
