"""`sum_over` and `mean_over`: sums over data as functions, with derivatives.

A `Sum` gives, of the function of a chunk, values, values with gradients, products with Hessians, and Hessians: each by one pass
over the data (`total`).  For a derivative it is three custom primitives, so that it may stand anywhere in
another function, and every transformation sees it as one instruction::

    both(theta)                            value, gradient and the pass's number, one pass
    gradient(theta, gradient, number)      the gradient again, without a pass; it is what has a derivative
    product(theta, v, number)              a product with the Hessian, one pass

A caller that asks for a second product at the same point is about to ask for all columns of the Hessian (`tapegrad.hessian` does), so the second
one makes the whole Hessian, in one pass; the pass's number says that it is the same point and the same data.
"""

from __future__ import annotations

import functools
import itertools
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..array.differentiable import Differentiable
from ..autograd import nested
from ..autograd.custom import Primitive
from ..common import config, pool
from ..common.errors import HigherOrderError, OptionError, ShapeError, StructureError
from ..common.tree import flatten, unflatten
from ..common.uninterrupted import remade, uninterrupted
from ..transforms.argnums import is_number
from ..transforms.contents import OBJECTS, Contents
from ..transforms.transformed import Transformed, of_another
from .chunkwise import ChunkWork, PartialSum, laid_out
from .data import source_of
from .engines import engine_of

#: Numbers in theta up to which a whole Hessian is made.
WIDE = 2048
#: Passes whose Hessians are kept.
KEPT = 4


class Threads:
    """Computes chunks on threads of this process.

    Parameters
    ----------
    count : int, optional
        At most so many; by default as many as `tapegrad.config.threads`.
    """

    def __init__(self, count=None):
        if count is not None and not (is_number(count) and 1 <= count <= config.MOST_THREADS):
            raise OptionError(f"threads={count!r}: give a number of threads from 1 to {config.MOST_THREADS}")
        self._count = count

    def collect(self, work, arguments, source, ended):
        """What `work` gives of all pieces of a source: the sum, and the names of those of which that is not a number.

        `ended` is an event that is set where the result is no longer wanted, and here.
        """
        numbered, tree, notes, lock, awaited = enumerate(source.pieces()), PartialSum(), [], threading.Lock(), uninterrupted.listener()

        def iterations(_):
            try:
                while not ended.is_set() and not awaited():
                    with lock:
                        number, piece = next(numbered, (0, None))
                    if piece is None:
                        ended.set()
                        return
                    part, strange = work.of(piece, arguments)
                    tree.add(0, number, part)
                    if strange:
                        notes.append((number, piece.name))
            except BaseException:
                ended.set()
                raise

        count = config.threads if self._count is None else self._count
        while not ended.is_set():
            pool.run(iterations, count if source.count is None else min(count, source.count))
        return tree.total(), [name for _, name in sorted(notes)]


class Sum:
    """A function summed over data; made by `sum_over` and `mean_over`.

    Call it with theta.  All transformations take it as a function of one argument.
    """

    def __init__(self, function, source, mean, engine):
        if not callable(function):
            raise StructureError(f"expected a function of theta and rows, got {type(function).__name__}")
        self._function, self._source, self._mean, self._engine = function, source, mean, engine
        self.__name__ = f"{'mean' if mean else 'sum'} of {getattr(function, '__name__', 'a function')}"
        from ..transforms.replay.running import EagerTime  # loads what makes code

        # It does not run at every call: chunks are recorded.
        EagerTime.of(self).seconds = float("-inf")
        self._works, self._numbers, self._curvatures = {}, itertools.count(1), {}
        self._lock = remade(threading.Lock())
        self._both, self._gradient, self._product = both, gradient, product = [
            _SumRow(f, self.__name__) for f in (self._both_of, lambda *args, call: args[len(args) // 2 : -1], self._product_of)
        ]

        def pull(g, result, *theta, call):
            return tuple([_shaped(g[0], ()) * part for part in gradient(*theta, *result[1:], call=call)])

        def push(tangents, result, *theta, call):
            parts = gradient(*theta, *result[1:], call=call)
            # The gradient that came with the value is handed on for its value alone.
            return _shaped(sum([np.sum(part * t) for part, t in zip(parts, tangents)]), np.shape(result[0])), *[np.zeros(np.shape(r)) for r in result[1:]]

        def again(directions, result, *args, call):
            return product(*args[: len(args) // 2], *directions[: len(args) // 2], args[-1], call=call)

        def third(*args, call):
            raise HigherOrderError(f"the {self.__name__} has first and second derivatives; a third one was asked for")

        both.defvjp(pull)
        both.defjvp(push)
        gradient.defvjp(lambda g, result, *args, call: (*again(g, result, *args, call=call), *[None] * (len(g) + 1)))
        gradient.defjvp(again)
        product.defvjp(third)
        product.defjvp(third)

    def __repr__(self):
        return f"<{self.__name__} over data>"

    def __call__(self, theta: Any) -> Any:
        leaves, structure = flatten(theta)
        if any(isinstance(leaf, Differentiable) for leaf in leaves):
            call = _SumCall(structure)
            result = self._both(*leaves, call=call)[0]
            call.read = Contents(self._function, OBJECTS)
            return result
        total, structure = self.total("value", theta)
        return unflatten(structure, [leaf if leaf.ndim else leaf.item() for leaf in map(np.asarray, total)])

    def on(self, engine):
        """The same sum, computed by an engine."""
        return Sum(self._function, self._source, self._mean, engine)

    def total(self, kind, *arguments, function=None, works=None):
        """What `kind` asks of the chunks, summed: its leaves, and their structure; of a `function` as it was, with its own `works`."""
        works = self._works if works is None else works
        with self._lock:
            if kind not in works:
                works[kind] = ChunkWork(function or self._function, kind)
            work = works[kind]
        total, names = self._apart(work, laid_out(arguments))
        if not total:
            raise ShapeError("data has no rows: there is nothing to sum")
        rows, *leaves = total
        if names:
            some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            warnings.warn(f"the {self.__name__} over {some} of the data is not a number", RuntimeWarning, stacklevel=3)
        return ([leaf / rows for leaf in leaves] if self._mean else leaves), work.structure

    def _apart(self, work, arguments):
        ended = threading.Event()
        call = functools.partial(self._engine.collect, work, arguments, self._source, ended)
        if not nested.inside():
            return call()
        # Chunks are recorded for themselves: on this thread they would be part of what is being recorded.
        with ThreadPoolExecutor(1) as other:
            try:
                return other.submit(call).result()
            finally:
                ended.set()

    # -- as primitives ------------------------------------------------------------------
    def _of_call(self, call, kind, *arguments):
        """The leaves of `total`, of the function as it was at a call."""
        return self.total(kind, *[unflatten(call.structure, leaves) for leaves in arguments], **call.asks())[0]

    def _both_of(self, *theta, call):
        return *self._of_call(call, "both", theta), float(next(self._numbers))

    def _product_of(self, *args, call):
        count = len(args) // 2
        theta, v, number = args[:count], args[count:-1], args[-1]
        with self._lock:
            curvature = self._curvatures.setdefault(number, [])
            while len(self._curvatures) > KEPT:
                del self._curvatures[min(self._curvatures)]
            curvature.append(None)
            asked = len(curvature)
        if asked < 2 or sum(map(np.size, theta)) > WIDE:
            return tuple(self._of_call(call, "product", theta, v))
        if curvature[0] is None:
            curvature[0] = self._of_call(call, "hessian", theta)
        blocks = iter(curvature[0])
        return tuple([sum(np.tensordot(next(blocks), t, np.ndim(t)) for t in v) for _ in theta])


class _SumCall:
    """A call of a sum: it reads variables of a loop, say, as they were then, also where a derivative or a replay asks for another pass.

    Attributes
    ----------
    structure : Structure
        Of theta.
    read : Contents or None
        What the function had read, once it has been called.
    as_it_was : callable or None
        Once its variables are bound to something else, a copy of the function, whose `works` are made once.
    """

    def __init__(self, structure):
        self.structure, self.read, self.as_it_was, self.works = structure, None, None, {}

    def asks(self):
        """Keywords for `Sum.total`; raises if something has changed that cannot be bound again."""
        if self.read is None:
            return {}
        function = self.read.restored("between the call of a sum over data and its derivative or replay, for which the data are read again")
        if function is self.read.function:
            return {}
        self.as_it_was = self.as_it_was or function
        return {"function": self.as_it_was, "works": self.works}


def _shaped(x, shape):
    """A sum or its adjoint: an array of one element, as a function of a chunk gives it, is differentiated as that number."""
    return x if np.shape(x) == shape else np.reshape(x, shape)


class _SumRow(Primitive):
    closed = "it reads data in chunks"


def sum_over(function: Callable[..., Any], data: Any, chunk: int | None = None, threads: int | None = None, *, client: Any = None) -> Sum:
    """Make a function that sums another one over the rows of data, one chunk at a time.

    Parameters
    ----------
    function : callable
        ``function(theta, rows)`` returns the sum over some rows: a number, or arrays whose shape does not depend on the number of rows.
        `theta` is a number, an array or a container of them; `rows` has the containers of `data`, with the arrays of one chunk.
    data : array, containers of arrays, DataFrame, path of a Parquet file, collection of Dask's, or chunks
        Arrays with a common first axis (memory-mapped arrays, too, which are read one chunk at a time).  A DataFrame, or a row group of a
        Parquet file, becomes a dict of its columns; Dask's arrays and DataFrames have their own chunks.  Chunks come from any iterable that
        can be read again and is not a list, tuple or dict, or from a function that returns an iterator.
    chunk : int, optional
        Rows per chunk, for arrays and DataFrames.  By default as many as stay in a processor's cache.
    threads : int, optional
        Number of threads that compute chunks, at most ``tg.config.threads``, which is the default.
    client : optional
        What computes the chunks instead, as in `distribute`.

    Returns
    -------
    Sum
        A function of theta.  ``tg.value_and_grad``, ``tg.grad``, ``tg.hessian``, ``tg.hvp`` and the optimisers take it, and other functions
        may call it.  Value and gradient take one pass over the data, a Hessian of at most 2048 numbers three
        (of more, one for each column), a Hessian-vector product two.

    Raises
    ------
    ShapeError, StructureError, DtypeError
        If arrays differ in length (the message names them), data is an iterator, which can be read only once, or columns are not numbers.
        From a call: if a chunk is not like the first one, or the number of chunks changes.
    OptionError
        If `chunk` or `threads` is not a number from 1 on, or does not apply to such data.
    MissingPackageError
        If data is a Parquet file and pyarrow is not installed.

    Warns
    -----
    RuntimeWarning
        If the result for a chunk is not a number; the message names the chunk.

    Notes
    -----
    Only the chunks that are being computed are in memory.  Chunks and the order of additions depend only on data and `chunk`: results are the
    same to the last bit for every number of threads and workers.  The function is recorded as by `jit`, and may itself be a result of `jit`.
    There are no third derivatives.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> data = {"x": np.arange(6.0), "y": 2.0 * np.arange(6.0) + 1.0}
    >>> def squares(theta, rows):
    ...     return np.sum((theta[0] + theta[1] * rows["x"] - rows["y"]) ** 2)
    >>> total = tg.sum_over(squares, data, chunk=4)
    >>> total(np.array([1.0, 1.0])), tg.grad(total)(np.array([1.0, 1.0]))
    (55.0, array([ -30., -110.]))
    >>> tg.hessian(total)(np.zeros(2))
    array([[ 12.,  30.],
           [ 30., 110.]])
    """
    return _made(function, data, chunk, threads, client, False)


def mean_over(function: Callable[..., Any], data: Any, chunk: int | None = None, threads: int | None = None, *, client: Any = None) -> Sum:
    """Make the function of `sum_over`, divided by the number of rows.

    Parameters
    ----------
    function, data, chunk, threads, client
        As in `sum_over`: `function` returns the sum over the rows that it is given, not their mean.

    Returns
    -------
    Sum
        A function of theta.

    Raises
    ------
    ShapeError, StructureError, DtypeError, OptionError, MissingPackageError
        If the data, `chunk` or `threads` do not fit; the message says which, and what to give.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> mean = tg.mean_over(lambda theta, x: np.sum((x - theta) ** 2), np.arange(5.0), chunk=2)
    >>> mean(0.0), tg.grad(mean)(0.0)
    (6.0, -4.0)
    """
    return _made(function, data, chunk, threads, client, True)


def _made(function, data, chunk, threads, client, mean):
    if client is not None and threads is not None:
        raise OptionError("threads= is for chunks that are computed here; client= says who computes them")
    return Sum(function, source_of(data, chunk), mean, Threads(threads) if client is None else engine_of(client))


def distribute(function: Callable[..., Any], client: Any) -> Any:
    """Compute a sum over data, or a derivative of one, on the workers of a cluster.

    Parameters
    ----------
    function : callable
        A result of `sum_over` or `mean_over`, or what ``tg.value_and_grad``, ``tg.grad``, ``tg.hessian``, ... make of it.
    client : distributed.Client, concurrent.futures.Executor, callable or joblib.Parallel
        A callable makes an executor; it is called again if a worker ends and takes the executor with it.

    Returns
    -------
    callable
        The same function, to the last bit.

    Raises
    ------
    StructureError
        If `function` is not a sum over data, or cannot be pickled.
    OptionError
        If `client` is none of these.
    WorkerError
        From a call: if a worker has no tapegrad, or another version of it, or workers end again and again.

    Notes
    -----
    Each worker gets the function (by pickle; with cloudpickle, if that is installed) and the object code of its kernels once, and again where
    `jit` would record again.  Both need the trust that a pickle needs.  Workers read mapped arrays and Parquet files themselves, at the same
    paths; Dask's collections stay where they are; each task carries the rows that are in memory here.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> total = tg.sum_over(lambda theta, x: np.sum((x - theta) ** 2), np.arange(5.0), chunk=2)
    >>> with ThreadPoolExecutor(2) as executor:
    ...     tg.distribute(tg.value_and_grad(total), executor)(1.0)
    (15.0, -10.0)
    """
    if isinstance(function, Sum):
        return function.on(engine_of(client))
    if isinstance(function, Transformed):
        return of_another(function, lambda inner: distribute(inner, client))
    raise StructureError(f"{getattr(function, '__name__', type(function).__name__)} is not a sum over data; make one by tg.sum_over or tg.mean_over")


def computed_by(function, client):
    """`function`, distributed if there is a client."""
    return function if client is None else distribute(function, client)
