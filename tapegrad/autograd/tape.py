"""The tape a user can hold: `Tape`, a name for a store.

A program needs none: every thread records on its anonymous store.  Inside
``with tg.Tape() as tape:`` operations on leaves are recorded here instead, where
they can be counted, printed and cleared.  A held tape forgets nothing by itself.

The methods that show it are in `tapegrad.autograd.inspect` and `tapegrad.autograd.draw`: the
tape itself knows no rules, with which those compute.
"""

from __future__ import annotations

import os

from ..array.record import store_of
from ..array.tensor import Tensor
from ..array.typing import TensorLike
from ..common.printing import Picture, PlainTable
from ..tape.places import caller_place
from ..tape.store import CALL_ENDED, TapeStore, thread_state
from . import draw, inspect
from .reading import retire


class Tape:
    """An explicit tape, which records the operations inside its ``with`` block.

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
        self.store = TapeStore(thread_state(), explicit=True)

    @classmethod
    def of(cls, tensor: Tensor) -> Tape | None:
        """The tape that a computed tensor is on (``tensor.tape``); None for a leaf or a constant."""
        if tensor._t is None:
            return None
        tape = cls.__new__(cls)
        tape.store = store_of(tensor)
        return tape

    def __enter__(self) -> Tape:
        state = thread_state()
        if self.store.thread is not state or self.store.retired is not None:
            if len(self):
                raise RuntimeError("a tape that holds instructions cannot be entered by another thread")
            self.store = TapeStore(state, explicit=True)
        state.tapes.append(self)
        state.store = self.store
        return self

    def __exit__(self, *exc: object) -> None:
        state = thread_state()
        state.tapes.remove(self)
        state.store = state.tapes[-1].store if state.tapes else state.anonymous
        if self.store.trace is not None and not self.store.trace.depth:
            # Tensors that the function has left somewhere can no longer be differentiated.
            self.store.retired, self.store.ident = CALL_ENDED, -1

    def __len__(self) -> int:
        """Number of instructions (leaves are not instructions)."""
        return len(self.store)

    def clear(self) -> None:
        """Forget every instruction; tensors that were computed on the tape can no longer be differentiated."""
        old = self.store
        retire(old, caller_place())
        if self.store is old:
            self.store = TapeStore(old.thread, explicit=True)
            self.store.ident = old.thread.quick_ident

    def memory(self) -> dict[str, int]:
        """Bytes held, as a dict with ``records``, ``saved`` and ``total``."""
        parts = self.store.memory()
        return {**parts, "total": sum(parts.values())}

    @property
    def instructions(self) -> list[inspect.Instruction]:
        """The instructions in order, each with slot, row, operands, value and place."""
        return [i for i in inspect.entries_of(self.store) if i.row is not None]

    def trace(self, y: Tensor | None = None, seed: TensorLike = 1.0, tangents: dict[Tensor, TensorLike] | None = None) -> PlainTable:
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
            A notebook shows it as it is printed.
        """
        return inspect.trace(self.store, y, seed, tangents)

    def paths(self, y: Tensor, x: Tensor) -> list[inspect.Path]:
        """All paths from output `y` back to input `x`, with the partial on each edge.

        The derivative of `y` with respect to `x` is the sum over the paths of
        the product of their edges (scalars only).

        Returns
        -------
        list of Path
        """
        return inspect.paths(self.store, y, x)

    def leaves_of(self, y: Tensor) -> list[Tensor]:
        """The leaves that output `y` depends on, in order of first use."""
        return inspect.leaves_of(y)

    def draw(self, y: Tensor | str | os.PathLike[str] | None = None, path: str | os.PathLike[str] | None = None) -> Picture:
        """Draw the graph of the tape, as SVG, which a notebook shows.

        Parameters
        ----------
        y : Tensor, optional
            Draw what it depends on, with adjoints in the boxes and the partials of numbers at the lines; by default the whole tape is drawn. (A path
            may stand here, too.)
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
        >>> "adjoint 4" in tape.draw(y)
        True
        """
        if isinstance(y, (str, os.PathLike)):
            y, path = None, y
        return draw.write(path, *((inspect.named_rows(self.store),) if y is None else inspect.drawn(self.store, y)))

    def _repr_html_(self):
        return draw.html(inspect.named_rows(self.store), str(self))

    def __str__(self):
        return inspect.listing(self.store)

    def __repr__(self):
        return f"<Tape of {len(self)} instructions>"
