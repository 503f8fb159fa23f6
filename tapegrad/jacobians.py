"""Derivatives of a function as a whole, from one recording of it: `vjp`, `jacrev`, `jacobian`.

The function is run once, on a tape of its own; the user's tape and every
``.grad`` stay as they are.  The sweeps then carry up to 16 seeds at once
through that tape: unit adjoints down (reverse mode, a chunk of rows of the
Jacobian at a time) or unit tangents up (forward mode, a chunk of columns).
"""

from __future__ import annotations

import functools

import numpy as np

from .errors import SeedShapeError
from .record import normalise
from .recording import Recording, as_plain, flatten
from .tensor import Tensor

MODES = ("auto", "forward", "reverse")


def positions(argnums, args):
    """`argnums` as a tuple of positions."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    for k in numbers:
        if not isinstance(k, (int, np.integer)) or not -len(args) <= k < len(args):
            raise ValueError(f"argnums={argnums!r}, but the function was called with {len(args)} positional arguments")
    return tuple(int(k) % len(args) for k in numbers)


def vjp(f, *primals):
    """The value of a function, and a function that pulls adjoints back through it.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a number, an array, or a list, tuple or
        dict of them.
    *primals : float or ndarray

    Returns
    -------
    value
        ``f(*primals)`` as plain NumPy data.
    pullback : callable
        ``pullback(cotangent)`` takes adjoints shaped like the value and returns
        a tuple, one adjoint per primal; it may be called any number of times.

    Raises
    ------
    SeedShapeError
        From the pullback, for a cotangent that does not have the value's shape.
    HigherOrderError
        If a primal is a tensor that requires a gradient.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> value, pullback = tg.vjp(lambda x, y: x * np.sin(y), np.array([1.0, 2.0]), 0.0)
    >>> value
    array([0., 0.])
    >>> pullback(np.array([1.0, 10.0]))
    (array([0., 0.]), np.float64(21.0))
    """
    recording = Recording(f, primals, tuple(range(len(primals))))
    outputs = recording.outputs
    value = recording.rebuild([as_plain(normalise(np.array(p.value))) for p in outputs])

    def pullback(cotangent):
        given, _ = flatten(cotangent)
        if len(given) != len(outputs):
            raise SeedShapeError(f"the function has {len(outputs)} outputs but the cotangent has {len(given)} parts")
        seeds = []
        for k, (p, seed) in enumerate(zip(outputs, given)):
            seed = np.asarray(seed._v if isinstance(seed, Tensor) else seed)
            if seed.shape != p.shape:
                raise SeedShapeError(f"cotangent {k} has the shape {seed.shape} but output {k} has {p.shape}")
            seed = np.array(seed, p.char, order="C")
            seeds.append(float(seed) if type(p.value) is float else seed)
        return tuple(recording.pull(seeds))

    return value, pullback


def jacrev(f, argnums=0):
    """The Jacobian of `f` by reverse mode; see `jacobian`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jacrev(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return jacobian(f, argnums, mode="reverse")


def jacobian(f, argnums=0, mode="auto", explain=False):
    """A function that gives the Jacobian of `f`.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or a list, tuple or dict of them.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers or
        arrays of floats.
    mode : {"auto", "forward", "reverse"}
        Forward mode carries one tangent per element of the inputs over the tape,
        reverse mode one adjoint per element of the outputs.  "auto" predicts the
        cost of both from the recorded tape (`tapegrad.costs`); `tg.compare` runs both.
    explain : bool
        Print the mode taken and the reason.

    Returns
    -------
    callable
        Gives, for arguments of `f`, an array of shape ``f(x).shape + x.shape``
        (a number for scalars), in float64, or float32 where both are; a tuple of
        them if `argnums` is a tuple, all in the container that `f` returns.

    Raises
    ------
    HigherOrderError
        If an argument to differentiate with respect to is itself tracked.
    DtypeError
        For an integer or complex array.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    if mode not in MODES:
        raise ValueError(f"mode={mode!r} is not one of {', '.join(MODES)}")

    @functools.wraps(f, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def derivative(*args, **kwargs):
        numbers = positions(argnums, args)
        recording = Recording(f, args, numbers, kwargs)
        chosen = mode
        if mode == "auto" or explain:
            from .costs import predict

            prediction = predict(recording)
            chosen = prediction.mode if mode == "auto" else mode
            if explain:
                print(prediction.reason if mode == "auto" else f"{mode} mode was asked for; {prediction.reason}")
        blocks = by_columns(recording) if chosen == "forward" else by_rows(recording)
        single = not isinstance(argnums, tuple)
        return recording.rebuild([row[0] if single else tuple(row) for row in blocks])

    return derivative


def _shaped(block, output, given):
    """One block of the Jacobian, in its shape and dtype."""
    block = block.reshape(output.shape + given.shape)
    char = "f" if output.char == given.char == "f" else "d"
    if block.dtype.char != char:
        block = block.astype(char)
    return block if block.ndim else block[()]


def by_columns(recording):
    """Blocks ``[output][input]`` by tangent sweeps."""
    found = []
    for output, columns in zip(recording.outputs, recording.columns()):
        row, at = [], 0
        for given in recording.inputs:
            row.append(_shaped(columns[at : at + given.size].T, output, given))
            at += given.size
        found.append(row)
    return found


def by_rows(recording):
    """Blocks ``[output][input]`` by reverse sweeps."""
    found, at = [], 0
    rows = recording.rows()
    for output in recording.outputs:
        found.append([_shaped(r[at : at + output.size], output, given) for r, given in zip(rows, recording.inputs)])
        at += output.size
    return found
