"""Parameters and other plain data in files: `save` and `load`, in the format of saved tapes, of which nothing can be executed."""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO

import numpy as np

from ...array.differentiable import Differentiable
from ...array.tensor import Parameter, Tensor, rebuilt
from ...common.errors import TapeFileError, reason, said_by
from ...common.tree import flatten, unflatten
from .archive import MAX_BYTES, decoded, encoded, need, packed, unpacked
from .save import read, write

_FORMAT, _KINDS = "tapegrad data", {"Tensor": Tensor, "Parameter": Parameter}


def save(obj: Any, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write numbers, strings, arrays, tensors, and lists, tuples and dicts of them to a file.

    Parameters
    ----------
    obj : object
        For example the `state_dict` of a model, an optimiser or a schedule.
    f : str, path-like or file
        The file at a path is written as a whole or not at all.

    Returns
    -------
    None

    Raises
    ------
    TapeFileError
        For any other object; for a model, save its ``state_dict()``.

    Examples
    --------
    >>> import io, tapegrad as tg
    >>> file = io.BytesIO()
    >>> tg.save({"weight": tg.Parameter([1.0, 2.0]), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> tg.load(file)["epoch"]
    3
    """
    leaves, structure = flatten(obj)
    kinds = [[type(leaf).__name__, leaf.requires_grad] if isinstance(leaf, Differentiable) else None for leaf in leaves]
    arrays: list[Any] = []
    values = [np.asarray(leaf.detach()) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    header = {"format": _FORMAT, "version": 1, "data": encoded(unflatten(structure, values), arrays), "kinds": kinds}
    members = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    write(packed(members | {f"array_{k}": a for k, a in enumerate(arrays)}), f)


def load(f: str | os.PathLike[str] | BinaryIO, max_bytes: int = MAX_BYTES) -> Any:
    """Read a file that `save` has written. Nothing in the file is executed.

    Parameters
    ----------
    f : str, path-like or file
    max_bytes : int
        Largest size of the file, in bytes.

    Returns
    -------
    object
        Tensors are leaves, which require a gradient if the saved ones did.

    Raises
    ------
    TapeFileError
        If `save` did not write the file, or it is damaged or larger.

    Examples
    --------
    >>> import os, tempfile, tapegrad as tg
    >>> layer, other = tg.nn.Linear(3, 2), tg.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "layer.npz")
    ...     tg.save(layer.state_dict(), path)
    ...     _ = other.load_state_dict(tg.load(path))
    >>> bool((other.weight == layer.weight).all())
    True
    """
    try:
        members = unpacked(read(f, max_bytes))
        need("header" in members, "it does not say that it is one")
        header = json.loads(members["header"].tobytes().decode())
        need(type(header) is dict and header.get("format") == _FORMAT and header.get("version") == 1, "it does not say that it is one")
        arrays = [np.array(members[f"array_{k}"]) for k in range(len(members) - 1)]
        leaves, structure = flatten(decoded(header["data"], arrays, math.inf))
        kinds = header["kinds"]
        need(len(kinds) == len(leaves), "its tensors")
        return unflatten(structure, [_made(leaf, kind) for leaf, kind in zip(leaves, kinds)])
    except Exception as error:
        what = said_by(error) if isinstance(error, TapeFileError) else reason(error)
        raise TapeFileError(f"this file was not written by tg.save: {what}") from error


def _made(leaf, kind):
    if kind is None:
        return leaf
    need(isinstance(leaf, np.ndarray) and kind[0] in _KINDS and type(kind[1]) is bool, "a tensor of an unknown kind")
    value = leaf if leaf.shape or leaf.dtype.char != "d" else float(leaf)
    return rebuilt(_KINDS[kind[0]], value, kind[1], None)
