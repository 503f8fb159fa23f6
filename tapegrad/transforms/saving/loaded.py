"""A tape that comes from a file, when it is run: whatever it cannot do is a `TapeFileError`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from ...common.errors import REPORT, InternalError, TapeFileError, reason
from ...common.host_functions import HostFunction
from ...program.finish import FinishedTape

#: Functions of our own whose data, and what depends on the result, do not say where to read or write.
_HARMLESS = ("truth", "cast", "all_finite")


@contextmanager
def _refusing(what):
    try:
        yield
    except Exception as error:
        ours = type(error).__module__.startswith("tapegrad") and not isinstance(error, InternalError)
        if ours or isinstance(error, (np.linalg.LinAlgError, MemoryError)):
            raise
        raise TapeFileError(f"{what} cannot be run: {reason(error).removesuffix(REPORT)}") from error


@dataclass(eq=False)
class LoadedTape(FinishedTape):
    """A `FinishedTape` whose rows may refuse their operands, as they were never run on them.

    Attributes
    ----------
    nbytes_of_values : int
        Bytes of records and values, with those of the tapes that its loops hold.
    """

    nbytes_of_values: int = 0

    def _run(self, arguments, backward):
        with _refusing("the loaded tape"):
            return super()._run(arguments, backward)

    def _applied(self, arguments):
        with _refusing("the loaded tape"):
            return super()._applied(arguments)


class Checked:
    """A function without derivative of a loaded tape, which kernels do not compute in their own way: that believes its data.

    Attributes
    ----------
    function : callable
    limit : int or None
        What it gives are positions, which must be in ``range(limit)``: that is looked at before they are used.
    """

    limit = None

    @classmethod
    def of(cls, function):
        """The function, checked if it has to be."""
        return function if isinstance(function, HostFunction) and function.name in _HARMLESS else cls(function)

    def __init__(self, function):
        self.function, self.__name__, self.__module__ = function, function.__name__, getattr(function, "__module__", "")

    def keep_below(self, limit):
        """Positions are in an array of this many elements, too."""
        self.limit = limit if self.limit is None else min(limit, self.limit)

    def __call__(self, *args, **kwargs):
        with _refusing(f"{self.__name__} of a loaded tape"):
            result = self.function(*args, **kwargs)
        if self.limit is not None and np.size(result) and not (np.min(result) >= 0 and np.max(result) < self.limit):
            raise TapeFileError(f"{self.__name__} of a loaded tape gives positions outside an array of {self.limit} elements")
        return result
