"""What stops the transformation: an operation that it does not follow."""

from __future__ import annotations


class Refused(Exception):
    """No derivative of a statement; `loc` is where it stands in the user's source."""

    def __init__(self, reason, loc):
        super().__init__(reason)
        self.reason, self.loc = reason, loc
