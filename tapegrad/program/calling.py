"""What a user does with a finished tape by itself: call it, differentiate it, save it.

`FinishedTape` (`finish`) has these methods by inheritance.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array.differentiable import Differentiable
from ..array.record import normalise
from ..common.errors import GradientError, GuardError, ShapeError
from ..common.registry import registry
from ..common.tree import unflatten
from ..common.uninterrupted import cached_property, uninterrupted
from .pool import Pool

if TYPE_CHECKING:
    from .planned import MemoryPlan


class Callable:
    """Methods of `FinishedTape` that need nothing of the function it was recorded from."""

    outputs: list[Any]
    structure: Any

    @cached_property
    def kept(self):
        """Its pool of workspaces."""
        return Pool(self)

    @cached_property
    def compressions(self):
        """Pattern and colourings of its Jacobian."""
        with uninterrupted:
            from .sparsity.compressed import Compressions

        return Compressions(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tape to a file, for `tapegrad.load_tape`.

        Parameters
        ----------
        path : str or path-like
            Conventionally ends in ``.npz``.

        Raises
        ------
        TapeFileError
            If the tape holds what cannot be written (the rule of a custom primitive, a result of a class of your own);
            says which instruction, and where it was recorded.
        """
        registry.files.save(self, path)

    def plan(self) -> MemoryPlan:
        """What a replay with its gradient takes in memory, before it is run.

        Returns
        -------
        MemoryPlan
            Bytes of `values`, what each of its `loops` keeps and computes again, and the `peak`; print it.

        Examples
        --------
        >>> import numpy as np, tapegrad as tg
        >>> f = lambda x: tg.scan(lambda y, t: (y + np.sin(y) * t, None), x, np.ones(1000), memory=1024)[0]
        >>> print(tg.grad(f).tape(0.5).plan().loops[0])
        the body of the scan: 1000 iterations, keeps 96 carries (every 30th before iteration 936, then each), 768 bytes; computed again at a time: 240 bytes
        """
        with uninterrupted:
            from .planned import memory_plan

        return memory_plan(self)

    def __reduce__(self):
        return registry.files.from_bytes, (registry.files.to_bytes(self),)

    def __call__(self, *arguments: Any) -> Any:
        """The value at these arguments: the arrays and floats of the recorded call, in order.

        Like any function it is taken by `tapegrad.grad`, `jit`, `vmap` and the other transformations, and by the bodies of loops.

        Raises
        ------
        GuardError
            If the function would take another path there than the one recorded; names the line.
        ShapeError
            If there are other arguments, or they have other shapes or dtypes, than at the recording.
        """
        if any(isinstance(a, Differentiable) for a in arguments):
            return unflatten(self.structure, self._applied(self._checked(arguments)))
        return self._run(arguments, False)[0]

    def value_and_grad(self, *arguments: Any) -> tuple[Any, Any]:
        """The value, and the gradient of the arguments that were differentiated (a tuple if there are several).

        Raises
        ------
        GuardError, ShapeError
            As of a call.
        GradientError
            If the first result is not one number.
        """
        first: Any = self.outputs[0][1] if self.outputs else None
        if not self.outputs or np.shape(first) != () and getattr(first, "shape", None) != ():
            raise GradientError("the tape does not give one number, so it has no gradient")
        value, gradients = self._run(arguments, True)
        return value, gradients[0] if len(gradients) == 1 else tuple(gradients)

    def _applied(self, arguments):
        from .applied import applied

        return applied(self, arguments)

    def _run(self, arguments, backward):
        arrays = self._checked(arguments)
        workspace = self.kept.take()
        missed = workspace.run(arrays, backward)
        if missed >= len(self.guards):
            if isinstance(workspace.refused, GuardError):
                raise workspace.refused
            raise GuardError("a value has another shape here than when the tape was recorded; record the function at this point")
        if missed >= 0:
            self.kept.give(workspace)
            raise GuardError(f"the recorded path does not hold here: {self.guards[missed]}; record the function at this point")
        values = [workspace.output(k) for k in range(len(self.outputs))]
        gradients = [normalise(g.copy()) for g in workspace.gradients] if backward else None
        self.kept.give(workspace)
        return unflatten(self.structure, values), gradients

    def _checked(self, arguments):
        if len(arguments) != len(self.inputs):
            raise ShapeError(f"the tape takes {len(self.inputs)} arrays, got {len(arguments)}")
        arrays = []
        for k, (argument, meta) in enumerate(zip(arguments, self.inputs)):
            a = argument if isinstance(argument, Differentiable) else np.asarray(argument)
            if a.shape != meta.shape or not np.can_cast(a.dtype, meta.char, "same_kind"):
                raise ShapeError(
                    f"argument {k} has shape {a.shape} and dtype {a.dtype}, the tape was recorded with "
                    f"{meta.shape} and {np.dtype(meta.char)}"
                )
            if isinstance(a, np.ndarray):
                arrays.append(np.ascontiguousarray(a, meta.char).reshape(meta.shape))
            else:
                arrays.append(a if a.dtype == meta.char else a.astype(meta.char))
        return arrays
