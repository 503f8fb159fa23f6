"""Functions that others want called: the handle of a hook, and the listeners for values that leave the tape.

There is a listener only inside `explain_zero`, `explain_jumps` and `to_python`; loops run in Python then.  The places where a
result is given without derivative (comparisons, ``.item()``, operations under ``no_grad``) look at `LISTENERS`, and call
`notify` if there is one.
"""

import contextlib
import itertools

#: Functions of (how, operands, keywords), called in the thread in which it happens.
LISTENERS = []


@contextlib.contextmanager
def listening(listener):
    """For the time inside, call `listener`, too."""
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)


def notify(how, *operands, **kwargs):
    """Tell every listener that the values of `operands` were used without derivative."""
    for listener in tuple(LISTENERS):
        listener(how, operands, kwargs)


class RemovableHandle:
    """The handle of a registered hook; `remove` takes the hook away again."""

    _numbers = itertools.count()

    def __init__(self, table, hook):
        self._table = table
        self._number = next(self._numbers)
        table[self._number] = hook

    def remove(self) -> None:
        """Remove the hook; doing it twice does no harm."""
        self._table.pop(self._number, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()
