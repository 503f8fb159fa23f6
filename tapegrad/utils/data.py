"""Data in batches, with the names of ``torch.utils.data``: over arrays in memory, memory-mapped files, and whatever has a length and items.

Batches are made in this process, by indexing: of arrays a whole batch at once, and of a memory-mapped file only the rows of the batch are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..array import trees
from ..array.tensor import Tensor, tensor
from ..common.errors import OptionError, ShapeError, StructureError, noted
from ..common.public import only_public

__all__ = ["DataLoader", "Dataset", "Subset", "TensorDataset", "random_split"]
__dir__ = only_public(__name__)


class Dataset:
    """Base class of data with ``len(data)`` and ``data[k]``, a sample: a number, an array, or a container of them."""

    def __getitem__(self, k: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no items: write def __getitem__(self, k), the sample of number k")


class TensorDataset(Dataset):
    """Rows of arrays that belong together.

    Parameters
    ----------
    *tensors : array_like or Tensor
        With a first axis of the same length. Arrays stay where they are, in memory or in a file (`numpy.memmap`).

    Raises
    ------
    ShapeError
        They differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad.utils.data import TensorDataset
    >>> data = TensorDataset(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]))
    >>> len(data), data[1]
    (3, (array([2., 3.]), np.int64(1)))
    """

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple(t.detach().numpy() if isinstance(t, Tensor) else t if isinstance(t, np.ndarray) else np.asarray(t) for t in tensors)
        if not self.tensors or len({len(t) for t in self.tensors}) > 1:
            raise ShapeError(f"TensorDataset takes arrays of one length, not {', '.join(str(len(t)) for t in self.tensors) or 'none'}")

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, k: Any) -> tuple[Any, ...]:
        return tuple(t[k] for t in self.tensors)


class Subset(Dataset):
    """Some samples of a data set, by their numbers."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, np.asarray(indices)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, k: Any) -> Any:
        return self.dataset[self.indices[k]]


def random_split(dataset: Any, lengths: Sequence[float], generator: np.random.Generator | int | None = None) -> list[Subset]:
    """Split data by chance into parts that do not overlap.

    Parameters
    ----------
    dataset : Dataset, or what has a length and items
    lengths : sequence of int, or of fractions that add up to 1
    generator : numpy Generator or int, optional
        Or a seed.

    Returns
    -------
    list of Subset

    Raises
    ------
    OptionError
        The lengths do not add up.
    """
    total = len(dataset)
    if abs(sum(lengths) - 1.0) < 1e-9:
        ends = np.rint(np.cumsum(lengths) * total).astype(int)
    else:
        ends = np.cumsum([int(length) for length in lengths])
    if not len(ends) or ends[-1] != total or min(lengths) < 0:
        raise OptionError(f"lengths={list(lengths)!r} do not add up to the {total} samples; give numbers from 0 on that do, or fractions of 1")
    order = np.random.default_rng(generator).permutation(total)
    return [Subset(dataset, part) for part in np.split(order, ends[:-1])]


class DataLoader:
    """Batches of a data set, once through it for each loop over the loader.

    Parameters
    ----------
    dataset : Dataset, array, or what has a length and items
    batch_size : int
    shuffle : bool
        Whether samples come in another order in each epoch.
    sampler : iterable of int, optional
        The numbers of the samples, in their order; instead of `shuffle`.
    drop_last : bool
        Whether a last batch that is not full is left out.
    collate_fn : callable, optional
        Makes a batch of a list of samples; by default arrays are stacked, in the containers of a sample.
    generator : numpy Generator or int, optional
        That, or the seed, by which samples are shuffled: with the same seed come the same epochs.
    num_workers : int
        0: batches are made in this process.

    Raises
    ------
    OptionError
        A batch of less than one sample, workers, or `shuffle` beside a `sampler`.
    StructureError
        `dataset` has no length or no items; an iterable is made a list first.

    Notes
    -----
    Floats come as tensors, so that PyTorch's methods work on them, and integers and anything else as arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from tapegrad.utils.data import DataLoader, TensorDataset
    >>> loader = DataLoader(TensorDataset(np.arange(5.0), np.arange(5)), batch_size=2)
    >>> for x, k in loader:
    ...     print(x, k)
    tensor([0., 1.]) [0 1]
    tensor([2., 3.]) [2 3]
    tensor([4.]) [4]
    """

    def __init__(
        self, dataset: Any, batch_size: int = 1, shuffle: bool = False, sampler: Iterable[int] | None = None, drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None, generator: np.random.Generator | int | None = None, num_workers: int = 0,
    ) -> None:  # fmt: skip
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise StructureError(f"DataLoader takes data with a length and items, not {type(dataset).__name__}; make a list of an iterable")
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise OptionError(f"batch_size={batch_size!r}: give a number of samples from 1 on")
        if num_workers:
            raise OptionError(f"num_workers={num_workers!r}: batches are made in this process; leave it out")
        if shuffle and sampler is not None:
            raise OptionError("shuffle=True and sampler= both say the order; give one")
        self.dataset, self.batch_size, self.shuffle, self.sampler, self.drop_last = dataset, int(batch_size), shuffle, sampler, drop_last
        self.collate_fn, self.generator = collate_fn, np.random.default_rng(generator)

    def _order(self):
        if self.sampler is not None:
            return np.fromiter(self.sampler, np.int64)
        return self.generator.permutation(len(self.dataset)) if self.shuffle else np.arange(len(self.dataset))

    def __len__(self) -> int:
        # (To ask a sampler for its numbers might use them up, or draw others for the next epoch.)
        count = len(self.dataset if self.sampler is None else self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        order, size = self._order(), self.batch_size
        for begin in range(0, len(order) // size * size if self.drop_last else len(order), size):
            yield self._batch(order[begin : begin + size])

    def _batch(self, which):
        whole = self.dataset
        while isinstance(whole, Subset):
            whole, which = whole.dataset, whole.indices[which]
        if self.collate_fn is None and type(whole) in (TensorDataset, np.ndarray, np.memmap):
            rows = whole[which]
            return tuple(map(_as_batch, rows)) if isinstance(rows, tuple) else _as_batch(rows)
        samples = [whole[int(k)] for k in which]
        return _collated(samples) if self.collate_fn is None else self.collate_fn(samples)


def _collated(samples):
    """Samples as one batch: arrays stacked, in the containers of the first."""

    def stacked(*leaves):
        shapes = [np.shape(leaf) for leaf in leaves]
        for k, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ShapeError(f"samples of a batch have different shapes, {shapes[0]} and {shape} (sample {k}); pad them, or give collate_fn=")
        return _as_batch(np.stack([leaf.detach().numpy() if isinstance(leaf, Tensor) else leaf for leaf in leaves]))

    with noted("while samples became a batch; of samples in different containers collate_fn= makes one"):
        return trees.map(stacked, *samples)


def _as_batch(array):
    array = np.asarray(array)
    return tensor(array) if array.dtype.char in "fd" else array
