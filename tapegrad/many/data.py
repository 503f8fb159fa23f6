"""Data as chunks of rows.

A *source* gives pieces, one for each chunk, in order, as often as it is asked.  A piece is small where the data stay elsewhere (a
range of a mapped file, a row group of a Parquet file, a partition of Dask's): it may be sent to another process, and its rows are in
memory only while the result of `load` is referenced.  Where chunks begin depends on the data and on ``chunk=`` alone.
"""

import math
import mmap
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import partial
from itertools import islice

import numpy as np

from ..common.errors import DtypeError, MissingPackageError, OptionError, ShapeError, StructureError
from ..common.tree import array_of, flatten, leaf_names, unflatten
from ..common.uninterrupted import imported
from ..transforms.argnums import is_number

#: Bytes of a chunk whose number of rows is not given: it stays in a processor's cache while it is read several times, and takes
#: longer than to call what computes with it.
BYTES = 1 << 21


class _Buffers(threading.local):
    """Memory of each thread that chunks are copied to."""

    #: How many chunks are being computed on this thread: in the function of a chunk there may be another sum over data.
    depth = 0

    def __enter__(self):
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1


#: In ``with BUFFERS`` what `Piece.load` gives stays as it is to the end.
BUFFERS = _Buffers()


class ChunkRows:
    """The rows of a chunk, in memory.

    Attributes
    ----------
    name : str
        How messages call it.
    """

    def __init__(self, name, rows):
        self.name, self._rows = name, rows

    def load(self):
        """Its rows: arrays, or containers of them."""
        return self._rows

    def at(self, client):
        """What a task of a cluster is handed for it: this, or what the cluster puts in its place."""
        return self


class Source(ABC):
    """Data in chunks.

    Attributes
    ----------
    count : int or None
        Chunks, if that is known before they are read.
    sent : float
        Bytes that are sent with a piece (inf: it is at a worker already, or there is no telling).
    why : str
        Why it has chunks of its own; empty if it has not.
    """

    count: int | None = None
    sent, why = math.inf, ""

    @abstractmethod
    def pieces(self):
        """A `ChunkRows` for each chunk, in order; may be asked for again."""

    def samples(self):
        """Pieces like which all are in their shapes, as far as that is known."""
        return islice(self.pieces(), 1)


class _Listed(Source):
    """Chunks of which there is a list."""

    def __init__(self, pieces, why, sent=math.inf):
        self._pieces, self.count, self.why, self.sent = pieces, len(pieces), why, sent

    def pieces(self):
        return iter(self._pieces)


def source_of(data, chunk=None):
    """The source of what a user has; `chunk` as of `sum_over`."""
    if chunk is not None and not (is_number(chunk) and chunk >= 1):
        raise OptionError(f"chunk={chunk!r}: give the number of rows of a chunk, at least 1")
    source = _of_file(data) or _of_dask(data) or _of_arrays(data, chunk) or _of_chunks(data)
    if source is None:
        raise StructureError(
            f"data is of type {type(data).__name__}; give arrays (or containers of them) with a common first axis, a DataFrame, the path of a "
            "Parquet file, a collection of Dask's, or what gives chunks when it is iterated, each time from the first one"
        )
    if chunk is not None and source.why:
        raise OptionError(f"chunk={chunk} is for arrays and DataFrames; {source.why}")
    return source


# ---- arrays ----------------------------------------------------------------------------


class Mapped:
    """Part of an array in a file."""

    def __init__(self, path, dtype, offset, shape):
        self.path, self.dtype, self.offset, self.shape = path, dtype, offset, shape

    def __getitem__(self, rows):
        width = self.dtype.itemsize * math.prod(self.shape[1:])
        return Mapped(self.path, self.dtype, self.offset + rows.start * width, (rows.stop - rows.start, *self.shape[1:]))

    def read(self, array):
        """Read the file into an array: pages of a mapping would stay, and count as this process's memory."""
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset)
            rest = memoryview(array).cast("B")
            while rest and (count := file.readinto(rest)):
                rest = rest[count:]
        if rest:
            raise ShapeError(f"{self.path} has become shorter since its array was mapped")

    @classmethod
    def of(cls, array):
        """Where a mapped array is in its file; None for one in memory, and for one that the file does not have as it is."""
        if not isinstance(array, np.memmap) or not array.filename or array.mode == "c" or not array.flags.c_contiguous or not array.size:
            return None
        base = array.base
        while base is not None and not isinstance(base, mmap.mmap):
            base = getattr(base, "base", None)
        if base is None:
            return None
        # A part of a mapped array has the offset of the whole.
        within = array.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
        return cls(os.path.abspath(array.filename), array.dtype, array.offset - array.offset % mmap.ALLOCATIONGRANULARITY + within, array.shape)


class _RowsOf(ChunkRows):
    """A range of rows of arrays, mapped or in memory."""

    def load(self):
        leaves, structure = self._rows
        return unflatten(structure, [_copied(k, leaf) for k, leaf in enumerate(leaves)])


def _copied(k, leaf):
    """Leaf number `k` in memory of this thread, until the next chunk of the same sum is there.

    A copy is in the cache: kernels read several rows at a time, which takes four times as long from memory.  Memory that
    is new for each chunk would have to be cleared by the system.
    """
    size, buffers = leaf.dtype.itemsize * math.prod(leaf.shape), vars(BUFFERS)
    buffer = buffers.get((BUFFERS.depth, k))
    if buffer is None or buffer.size < size:
        buffer = np.empty(size, np.uint8)
        if size <= 4 * BYTES:
            buffers[BUFFERS.depth, k] = buffer
    array = buffer[:size].view(leaf.dtype).reshape(leaf.shape)
    if isinstance(leaf, Mapped):
        leaf.read(array)
    else:
        np.copyto(array, leaf)
    return array


class _ArraySource(Source):
    def __init__(self, leaves, structure, chunk):
        self._structure = structure
        self._rows = rows_of(leaves, structure, "data")
        if not self._rows:
            raise ShapeError("data has no rows")
        self._chunk = chunk or max(1, BYTES // max(1, sum(leaf.nbytes for leaf in leaves) // self._rows))
        self._leaves = [Mapped.of(leaf) or leaf for leaf in leaves]
        self.count = -(-self._rows // self._chunk)
        self.sent = self._chunk * sum(leaf.nbytes // self._rows for leaf in self._leaves if not isinstance(leaf, Mapped))

    def pieces(self):
        return map(self._piece, range(self.count))

    def samples(self):
        return map(self._piece, {0, self.count - 1})

    def _piece(self, k):
        rows = slice(k * self._chunk, min((k + 1) * self._chunk, self._rows))
        return _RowsOf(f"rows {rows.start} to {rows.stop - 1}", ([leaf[rows] for leaf in self._leaves], self._structure))


def rows_of(leaves, structure, what):
    """How many rows arrays have; an error that names two that differ, or one that is none."""
    if leaves and all([type(leaf) is np.ndarray and leaf.ndim and leaf.dtype.char in "df" and len(leaf) == len(leaves[0]) for leaf in leaves]):
        return len(leaves[0])
    names = [f"{what}{name}" for name in leaf_names(structure)]
    for leaf, name in zip(leaves, names):
        if not isinstance(leaf, np.ndarray) or not leaf.ndim:
            raise StructureError(f"{name} is {type(leaf).__name__ if np.ndim(leaf) else 'a number'}; give arrays with an axis of rows, or containers of them")
        if leaf.dtype.kind not in "fbiu" or not leaf.dtype.isnative:
            raise DtypeError(f"{name} has dtype {leaf.dtype}; give numbers or truth values")
        if len(leaf) != len(leaves[0]):
            raise ShapeError(f"{name} has {len(leaf)} rows, {names[0]} has {len(leaves[0])}; they need a common first axis")
    if not leaves:
        raise StructureError(f"{what} has no arrays")
    return len(leaves[0])


def _of_arrays(data, chunk):
    if class_of(data, "pandas", "DataFrame"):
        data = _columns(data)
    leaves, structure = flatten(data)
    leaves = list(map(array_of, leaves))
    if structure.kind is not None or isinstance(data, np.ndarray) or array_of(data) is not data:
        return _ArraySource(leaves, structure, chunk)
    return None


def class_of(thing, library, name):
    """Whether it is an object of this class of a library, which then has been imported."""
    return any(kind.__name__ == name and kind.__module__.partition(".")[0] == library for kind in type(thing).__mro__)


def _columns(table, names="columns"):
    return {name: table[name].to_numpy() for name in getattr(table, names)}


# ---- chunks that come by themselves ----------------------------------------------------------


class _ChunkSource(Source):
    why = "what is iterated gives chunks as they are"

    def __init__(self, begin):
        self._begin, self._known = begin, None

    def pieces(self):
        count = 0
        for count, rows in enumerate(self._begin(), 1):
            yield ChunkRows(f"chunk {count - 1}", _columns(rows) if class_of(rows, "pandas", "DataFrame") else rows)
        if self._known not in (None, count):
            raise StructureError(
                f"data gave {count} chunks, but {self._known} the first time; each pass needs the same ones. If an iterator was used up, give a "
                "function that returns a new one"
            )
        self._known = count


def _of_chunks(data):
    if isinstance(data, Iterable):
        if iter(data) is data:
            raise StructureError(
                f"data is an iterator ({type(data).__name__}), which can be read once, but each value and each derivative reads all chunks; give a "
                "function that returns a new one: tg.sum_over(f, lambda: chunks(...))"
            )
        return _ChunkSource(data.__iter__)
    return _ChunkSource(lambda: iter(data())) if callable(data) else None


# ---- files ---------------------------------------------------------------------------------


class _RowGroup(ChunkRows):
    def load(self):
        path, group = self._rows
        return _columns(_parquet(path).read_row_group(group), "column_names")


def _parquet(path):
    try:
        return imported("pyarrow.parquet").ParquetFile(path)
    except ImportError as error:
        raise MissingPackageError("Parquet files are read by pyarrow, which is not installed; pip install pyarrow") from error


def _of_file(data):
    if not isinstance(data, (str, os.PathLike)):
        return None
    path = os.path.abspath(data)
    groups = [_RowGroup(f"row group {k} of {path}", (path, k)) for k in range(_parquet(path).num_row_groups)]
    return _Listed(groups, "a Parquet file has chunks of its own, its row groups", 0)


# ---- Dask's collections -----------------------------------------------------------------------


class _Partition(ChunkRows):
    def load(self):
        return self._rows.compute(scheduler="synchronous")

    def at(self, client):
        return client.compute(self._rows)


def _of_dask(data):
    parts = _dask_parts(data)
    why = "a collection of Dask's has chunks of its own; use its rechunk or repartition"
    return None if parts is None else _Listed([_Partition(f"partition {k}", part) for k, part in enumerate(parts)], why)


def _dask_parts(data):
    if class_of(data, "dask", "DataFrame"):
        return [imported("dask").delayed(_columns)(part) for part in data.to_delayed()]
    leaves, structure = flatten(data)
    arrays = [class_of(leaf, "dask", "Array") for leaf in leaves]
    if not any(arrays):
        return None
    names = leaf_names(structure, "data")
    if not all(arrays):
        raise StructureError(f"{names[arrays.index(False)]} is not a Dask array, but {names[arrays.index(True)]} is one; give all of them in Dask's chunks")
    for leaf, name in zip(leaves, names):
        if not np.array_equal(leaf.chunks[0], leaves[0].chunks[0], equal_nan=True):
            raise ShapeError(f"{name} has chunks of {leaf.chunks[0]} rows, {names[0]} of {leaves[0].chunks[0]}; rechunk one of them")
    blocks = [leaf.rechunk(dict.fromkeys(range(1, leaf.ndim), -1)).to_delayed().ravel() for leaf in leaves]
    return [imported("dask").delayed(partial(unflatten, structure))(list(parts)) for parts in zip(*blocks)]
