"""The tape a user can hold: `Tape`, a name for a store.

Nobody needs one: every thread records on its anonymous store.  Inside
``with tg.Tape() as tape:`` operations on leaves are recorded here instead, where
they can be counted, printed and cleared.  A held tape forgets nothing by itself.

The methods that show it import `tapegrad.autograd.inspect` and `tapegrad.autograd.draw` when they are called: the
tape itself knows no rules, with which those compute.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..tape.places import caller_place
from ..tape.store import Store, thread_state

if TYPE_CHECKING:
    from ..array.tensor import Tensor
    from ..common.typing import TensorLike
    from .graph import Instruction
    from .inspect import Path


class Tape:
    """An explicit tape.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor(2.0, requires_grad=True)
    >>> with tg.Tape() as tape:
    ...     y = x * x + 1.0
    >>> len(tape)
    2
    """

    def __init__(self) -> None:
        self.store = Store(thread_state(), explicit=True)

    def __enter__(self) -> Tape:
        state = thread_state()
        if self.store.thread is not state or self.store.retired is not None:
            if len(self):
                raise RuntimeError("a tape that holds instructions cannot be entered by another thread")
            self.store = Store(state, explicit=True)
        state.tapes.append(self)
        state.store = self.store
        return self

    def __exit__(self, *exc: object) -> None:
        state = thread_state()
        state.tapes.remove(self)
        state.store = state.tapes[-1].store if state.tapes else state.anonymous

    def __len__(self) -> int:
        """Number of instructions (leaves are not instructions)."""
        return len(self.store)

    def clear(self) -> None:
        """Forget every instruction; tensors that were computed on the tape can no longer be differentiated."""
        from .backward import retire

        old = self.store
        retire(old, caller_place())
        if self.store is old:
            self.store = Store(old.thread, explicit=True)
            self.store.ident = old.thread.quick_ident

    def memory(self) -> dict[str, int]:
        """Bytes held, as a dict with ``records``, ``tokens``, ``saved`` and ``total``."""
        parts = self.store.memory()
        return {**parts, "total": sum(parts.values())}

    @property
    def instructions(self) -> list[Instruction]:
        """The instructions in order, each with slot, row, operands, value and place."""
        from .inspect import instructions

        return instructions(self.store)

    def trace(self, y: Tensor | None = None, seed: TensorLike = 1.0, tangents: dict[Tensor, TensorLike] | None = None) -> str:
        """The textbook table: one line an instruction with primal, adjoint and, where asked, tangent.

        Parameters
        ----------
        y : Tensor, optional
            Output to seed; the last instruction by default.
        seed : float or array-like
            Adjoint of `y`.
        tangents : dict of Tensor to array-like, optional
            Tangents of leaves; adds the tangent column.

        Returns
        -------
        str
        """
        from .inspect import trace

        return trace(self.store, y, seed, tangents)

    def paths(self, y: Tensor, x: Tensor) -> list[Path]:
        """All paths from output `y` back to input `x`, with the partial on each edge.

        The derivative of `y` with respect to `x` is the sum over the paths of
        the product of their edges (scalars only).

        Returns
        -------
        list of Path
        """
        from .inspect import paths

        return paths(self.store, y, x)

    def leaves_of(self, y: Tensor) -> list[Tensor]:
        """The leaves that output `y` depends on, in order of first use."""
        from .inspect import leaves_of

        return leaves_of(y)

    def draw(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw the graph of the tape, as SVG.

        Parameters
        ----------
        path : str or path-like, optional
            Where to write it, by custom a name that ends in ``.svg``.

        Returns
        -------
        str
            The SVG text.

        Raises
        ------
        OptionError
            If the tape has more than 300 instructions and leaves.

        Examples
        --------
        >>> import tapegrad as tg
        >>> x = tg.tensor(2.0, requires_grad=True)
        >>> with tg.Tape() as tape:
        ...     y = x * x
        >>> tape.draw().startswith("<svg")
        True
        """
        from .draw import write
        from .inspect import named_rows

        return write(named_rows(self.store), path)

    def _repr_html_(self):
        from .draw import html
        from .inspect import named_rows

        return html(named_rows(self.store), str(self))

    def __str__(self):
        from .inspect import listing

        return listing(self.store)

    def __repr__(self):
        return f"<Tape of {len(self)} instructions>"
