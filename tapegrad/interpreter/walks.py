"""The compiled walks for code that must not load them when it is imported: `load` does, once.

The tape reaches them through the registry: it packs its staged records, forgets what nobody can reach, and
digests large arrays by compiled code, as soon as there is any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.registry import registry
from ..common.uninterrupted import uninterrupted
from . import reclaim as _reclaim


class Walks:
    """What `tape.store`, `tape.watch` and the table of rows use of this folder and of `codegen`.

    Attributes
    ----------
    pack : function or None
        `native.pack`, once it is loaded.
    """

    def __init__(self) -> None:
        self.pack: Any = None
        self._native: Any = None
        self._digest: Any = None

    def load(self) -> Any:
        """The module `native`, imported (and compiled) at the first call."""
        if self._native is None:
            from . import native

            self._native, self.pack = native, native.pack
        return self._native

    def digest(self, array: Any) -> int:
        """See `codegen.digest.digest`: of a C-contiguous array."""
        if self._digest is None:
            with uninterrupted:
                from ..codegen.addresses import data_address
                from ..codegen.digest import digest

                self._digest = lambda array: digest(data_address(array), array.nbytes)
        return self._digest(array)

    def on_arrays(self, name: str, *operands: Any) -> Any:
        """The value of the row of that name: the function of `codegen.gamma` on arrays."""
        from ..codegen.library import compiled_function

        values = np.vectorize(compiled_function(name), otypes=[float])(*operands)
        return values.astype(np.float32) if getattr(operands[-1], "dtype", None) == np.float32 else values

    def reclaim(self, store: Any) -> Any:
        """See `reclaim.reclaim`."""
        return _reclaim.reclaim(store)

    def let_go(self, store: Any) -> None:
        """See `reclaim.let_go`."""
        _reclaim.let_go(store)


walks = registry.walks = Walks()
