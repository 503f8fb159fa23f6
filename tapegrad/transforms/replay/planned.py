"""How calls that are like an earlier one are answered: what a transformation tells `Replayed`, of which a `Short` is made.

Each function here gives a callable ``planned(kept, structure)``: for a tape that is kept and the structure of ``(args, kwargs)``
the executable, its plan and the answer, as `Site` takes them; or None, if such calls go the long way.  (What these are made
of is compiled code, which `import tapegrad` does not load.)
"""

from __future__ import annotations

from ...common.tree import LEAF
from .directions import lanes_of


def of_gradients(argnums, one, has_aux, has_value):
    """Gradients by kernel, or by sweep as long as there is none; arguments as of `answers.of_gradients`."""

    def planned(kept, structure):
        from ...program.replayed import Replay
        from .answers import of_gradients

        executable = kept.kernels.get(True)
        if executable is None:
            if kept.replay is None:
                kept.replay = Replay(kept.tape, pool=kept)
            executable = kept.replay
        return executable, None, of_gradients(kept.tape, structure, argnums, one, has_aux, has_value)

    return planned


def of_values(pick=lambda structure, leaves: (structure, leaves)):
    """The results of a tape by kernel, or what `pick` takes of them."""

    def planned(kept, structure):
        from .answers import values_of

        executable = kept.kernels.get(False)
        return None if executable is None else (executable, None, pick(kept.tape.structure, values_of(kept.tape)))

    return planned


def of_directions(read, kernel_of=None, then=None):
    """What is read off a recording, by kernels of several directions.

    ``read(recording, structure)`` gives the result; ``kernel_of(tape, forward, count)`` the kernel and its lanes, if that is
    not one of several directions; ``then(leaf)`` is the answer, if it is not what is read, which is one leaf.
    """

    def planned(kept, structure):
        from ...program.swept import ReplayedRecording
        from .answers import Applied
        from .gathered import gathered

        def of(forward, count):
            if kernel_of is not None:
                return kernel_of(kept.tape, forward, count)
            lanes = lanes_of(kept.tape, count)
            kernel = kept.kernels.get((forward, lanes))
            return None if kernel is None else (kernel, lanes)

        base = kept.kernels.recording
        if base is None:
            workspace = kept.take()
            base = ReplayedRecording.of(workspace)
            kept.give(workspace)
        found = gathered(base, lambda recording: read(recording, structure), of)
        if found is None or then is None:
            return None if found is None else (found[0], found[1], found[2:])
        executable, plan, _, leaves = found
        return (executable, plan, (LEAF, [Applied(then, leaves[0])])) if len(leaves) == 1 else None

    return planned
