"""A tape that comes from a file, when it is run: whatever it cannot do is a `TapeFileError`."""

from __future__ import annotations

import numpy as np

from ...common.errors import REPORT, InternalError, TapeFileError, TapegradError, said_by
from ...common.host_functions import HostFunction
from ...program.finish import FinishedTape
from ...program.trace import Host


class LoadedTape(FinishedTape):
    """A `FinishedTape` whose rows may refuse their operands, as they were never run on them.

    Attributes
    ----------
    nbytes_of_values : int
        Bytes of records and values, with those of the tapes that its loops hold.
    """

    nbytes_of_values = 0

    def _run(self, arguments, backward):
        try:
            return super()._run(arguments, backward)
        except Exception as error:
            if isinstance(error, (TapegradError, np.linalg.LinAlgError, MemoryError)) and not isinstance(error, InternalError):
                raise
            raise TapeFileError(f"the loaded tape cannot be run: {type(error).__name__}: {said_by(error).removesuffix(REPORT)}") from error


class LoadedHost(Host):
    """A host function of a loaded tape; positions that it gives are looked at before they are used.

    Attributes
    ----------
    limit : int or None
        Positions must be in ``range(limit)``.
    """

    limit = None

    @property
    def trusted(self):
        """As of a `Host`: not if its data, or what depends on its result, say where to read or write."""
        return self.limit is None and isinstance(self.function, HostFunction) and self.function.name in ("truth", "cast", "all_finite")

    def __call__(self, *values):
        try:
            result = super().__call__(*values)
        except Exception as error:
            raise TapeFileError(f"{self.__name__}, which the loaded tape calls, failed: {said_by(error)}") from error
        if self.limit is not None and result.size and not (result.min() >= 0 and result.max() < self.limit):
            raise TapeFileError(f"{self.__name__} of a loaded tape gives positions outside an array of {self.limit} elements")
        return result
