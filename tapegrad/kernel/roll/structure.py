"""What rolling finds: a tree of instruction templates and loops.

Walking the tree in execution order visits the instructions 0, 1, 2, ... of the
tape, each once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(eq=False)
class Line:
    """One instruction template.

    Attributes
    ----------
    members : ndarray of int32
        The instructions it stands for, in the order in which they are executed.
    """

    members: np.ndarray


@dataclass(eq=False)
class Repeat:
    """A loop, which runs at least once whenever it is reached.

    Attributes
    ----------
    extent : int, or ndarray of int64
        Iterations of every execution, or one number for each execution.
    body : list of Line and Repeat
    """

    extent: object
    body: list = field(default_factory=list)


@dataclass(eq=False)
class Structure:
    """The whole program.

    Attributes
    ----------
    nodes : list of Line and Repeat
    """

    nodes: list
