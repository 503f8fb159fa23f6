"""Derivatives of a function as a whole: `vjp`, `linearize`, `jacfwd`, `jacrev`, `jacobian`.

`jacobian` runs the function on a tape, or under `jit` replays what was recorded (`tapegrad.transforms.replay`);
then each unit adjoint has a sweep down (reverse mode, a row of the Jacobian), or each unit tangent a pass up (forward mode, a
column); or both have from where the function is narrow, and the Jacobian is a product (`program.cuts`).  `vjp` and `linearize` run the function once,
on a tape of its own, which the function they return holds.  The user's tape and
every ``.grad`` stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

from ..array.forward import columns, recorded
from ..array.record import normalise
from ..array.tensor import Tensor
from ..array.typing import Argnums, Between, Mode, OfJacobian
from ..autograd import nested
from ..autograd.recording import RealPart, as_plain
from ..common.errors import HigherOrderError, OptionError, SeedShapeError, StructureError
from ..common.tree import alike, conjugated, flatten, leaf_names, own, unflatten
from ..program.recording import Recording
from ..tape.store import thread_state
from .choosing import predict
from .contents import Contents
from .functional import Transformed, chosen
from .replay.answers import MISS, written
from .replay.gathered import of_directions

_RUN_AGAIN = "since tg.vjp or tg.linearize was called: the derivative of what they return runs the function again"

R = TypeVar("R", bound=Any)
X = TypeVar("X", bound=Any)

MODES = ("auto", "forward", "reverse")


def _fitted(container, structure, ports, what, of):
    """Seeds for `ports`, in a container of `structure`, as normalised values."""
    leaves, seed_structure = flatten(container)
    if seed_structure != structure and len(leaves) == len(ports) == 1:
        seed_structure = structure
    if len(leaves) != len(ports):
        raise SeedShapeError(f"{what}: {of} has {len(ports)} parts but the seed has {len(leaves)}")
    if seed_structure != structure and not alike(seed_structure, structure):
        raise StructureError(f"{what} is {seed_structure} but {of} is {structure}")
    seeds = []
    for p, seed, name in zip(ports, leaves, leaf_names(structure)):
        seed = np.asarray(seed._v if isinstance(seed, Tensor) else seed)
        if seed.shape != p.shape:
            raise SeedShapeError(f"{what}{name} has the shape {seed.shape} but {of}{name} has {p.shape}")
        if seed.dtype.kind not in "fiub":
            raise SeedShapeError(f"{what}{name} is of dtype {seed.dtype}; give floats")
        seeds.append(normalise(np.array(seed, p.char, order="C")))
    return seeds


def _value(recording):
    return unflatten(recording.structure, [as_plain(normalise(np.array(p.value))) for p in recording.outputs])


def _recorded(f, primals):
    recording = Recording(f, primals, tuple(range(len(primals))))
    if thread_state().enabled:
        recording.refuse_captured(f)
    return recording


def _replayed(f, primals):
    """The value, and what has it: recorded for a replay or, where that cannot be, on a tape."""
    from .replay.function import Replayed  # `import tapegrad` does without it

    outcome, recording = Replayed(f, tuple(range(len(primals))), scalar=False).replayed_once(primals, {})
    if recording is None:
        recording = _recorded(f, primals)
        return _value(recording), recording
    return unflatten(outcome.structure, [as_plain(v) for v in outcome.values]), recording


def vjp(f: Callable[..., R], *primals: Any) -> tuple[R, Callable[[Any], tuple[Any, ...]]]:
    """The value of a function, and a function that pulls adjoints back through it.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a number, an array, or containers of them.
    *primals : float, ndarray, or containers of them

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
    StructureError
        ... that does not have its containers; or `f` returns None or text.
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
    if nested.is_nested(primals, {}):
        return nested.vjp(f, primals)
    return nested.beside(_vjp, nested.vjp, f, primals)


def _vjp(f, primals):
    primals = own(primals)
    before, recording = Contents(f), _recorded(f, primals)

    def pullback(cotangent):
        if nested.is_nested((cotangent,), {}):
            recording.check()
            return _once_more(nested.vjp, before, primals)(cotangent)
        seeds = _fitted(cotangent, recording.structure, recording.outputs, "the cotangent", "the value")
        return unflatten(flatten(primals)[1], recording.pull(seeds))

    return _value(recording), pullback


def _once_more(transformation, before, primals):
    """The linear function of a function that is run again, as it was."""
    with before.streams.restored():
        return transformation(before.restored(_RUN_AGAIN), primals)[1]


def linearize(f: Callable[..., R], *primals: Any) -> tuple[R, Callable[..., R]]:
    """The value of a function, and its derivative as a linear function of tangents.

    Parameters
    ----------
    f : callable
        Takes the primals and returns a number, an array, or containers of them.
    *primals : float, ndarray, or containers of them

    Returns
    -------
    value
        ``f(*primals)`` as plain NumPy data.
    push : callable
        ``push(*tangents)`` takes one tangent per primal, of its shapes, and
        returns the tangent of the value; it may be called any number of times
        and does not run `f`.

    Raises
    ------
    SeedShapeError, StructureError
        From `push`, for tangents that do not fit their primals.
    HigherOrderError
        If a primal is a tensor that requires a gradient.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> value, push = tg.linearize(lambda x: x * np.sum(x), np.array([1.0, 2.0]))
    >>> value
    array([3., 6.])
    >>> push(np.array([1.0, 0.0]))
    array([4., 2.])
    """
    if nested.is_nested(primals, {}):
        return nested.linearize(f, primals)
    return nested.beside(_linearize, nested.linearize, f, primals)


def _linearize(f, primals):
    primals = own(primals)
    before = Contents(f)
    value, recording = _replayed(f, primals)
    structures = [flatten(primal)[1] for primal in primals]

    def push(*tangents):
        if nested.is_nested(tangents, {}):
            recording.check()
            return _once_more(nested.linearize, before, primals)(*tangents)
        if len(tangents) != len(primals):
            raise StructureError(f"the function was linearized at {len(primals)} arguments but got {len(tangents)} tangents")
        seeds, at = [], 0
        for k, (tangent, structure) in enumerate(zip(tangents, structures)):
            ports = recording.inputs[at : at + structure.count]
            seeds += _fitted(tangent, structure, ports, f"tangent {k}", f"argument {k}")
            at += structure.count
        return unflatten(recording.structure, recording.push(seeds))

    return value, push


@overload
def jacrev(f: Between[X, R], argnums: Literal[0] = 0) -> Jacobian[X, R]: ...
@overload
def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None
) -> Transformed[Any]: ...  # fmt: skip
def jacrev(
    f: Callable[..., Any], argnums: Argnums = 0, *, argnum: Argnums | None = None, kernel: None = None
) -> Transformed[Any]:
    """The Jacobian of `f` by reverse mode; see `jacobian`.

    Parameters
    ----------
    f : callable
    argnums : int or tuple of int
        Also called `argnum`.
    kernel : None
        An option of `jit`; here it is refused.

    Returns
    -------
    callable
        Takes the arguments of `f`, returns its Jacobian.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jacrev(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return jacobian(f, chosen(argnums, argnum, kernel), mode="reverse")


@overload
def jacobian(
    f: Between[X, R], argnums: Literal[0] = 0, mode: Mode = "auto", explain: bool = False
) -> Jacobian[X, R]: ...
@overload
def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None, holomorphic: bool = False,
) -> Transformed[Any]: ...  # fmt: skip
def jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto", explain: bool = False, *,
    argnum: Argnums | None = None, kernel: None = None, holomorphic: bool = False,
) -> Transformed[Any]:  # fmt: skip
    """A function that gives the Jacobian of `f`.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or containers of them.
    argnums : int or tuple of int
        The positional arguments to differentiate with respect to: numbers,
        arrays of floats, or containers of them.  Also called `argnum`.
    mode : {"auto", "forward", "reverse"}
        Forward mode carries one tangent per element of the inputs over the tape,
        reverse mode one adjoint per element of the outputs.  "auto" predicts the
        cost of both from the recorded tape (`tapegrad.transforms.choosing`), and that of multiplying
        the Jacobian out where few numbers connect inputs and outputs; `tg.compare` runs them all.
    explain : bool
        Print the mode taken and the reason.
    kernel : None
        An option of `jit`; here it is refused.
    holomorphic : bool
        `f` is a holomorphic function of complex arrays: its complex derivatives.

    Returns
    -------
    callable
        Gives, for arguments of `f`, an array of shape ``f(x).shape + x.shape``
        (a number for scalars), in float64, or float32 where both are; a tuple of
        them if `argnums` is a tuple, in the containers of the arguments; all in the
        container that `f` returns.  Its ``stats()`` says how often `f` was run, recorded and replayed.
        Called with ``out=a``, an array of the shape and dtype of the answer, it writes that to `a`, and returns `a`.

    Raises
    ------
    HigherOrderError
        If an argument to differentiate with respect to is itself tracked.
    ShapeError, DtypeError, OptionError
        From a call: `out` does not fit, or there are several arrays to write.
    DtypeError
        For an array of integers.
    StructureError
        `argnums` names no argument, `f` returns None or text, or both arguments and results are complex, without `holomorphic`.

    Examples
    --------
    >>> import numpy as np, tapegrad as tg
    >>> tg.jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0]))
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    if mode not in MODES:
        raise OptionError(f"mode={mode!r} is not one of {', '.join(MODES)}")

    argnums = chosen(argnums, argnum, kernel)
    if holomorphic:
        return HolomorphicJacobian(RealPart(f), argnums, mode, explain)
    return (_FromTheEnd if any(k < 0 for k in _positions(argnums)) else JacobianFunction)(f, argnums, mode, explain)


if TYPE_CHECKING:

    class Jacobian(OfJacobian[X, R], Transformed[Any]):
        """What type checkers are told that `jacobian` returns."""


class OfDirections(Transformed[Any]):
    """What reads its answer off a recording, which it asks for derivatives in several directions: ``_read(recording, structure)``.

    `structure` is that of ``(args, kwargs)``.  A call may name an array `out`, to which the answer is written (of a sparse array
    the values), and which is returned.
    """

    def __call__(self, *args, out=None, **kwargs):
        replayed = self._replayed
        answer = replayed.quick(args, kwargs, out) if replayed.recent else MISS
        if answer is not MISS:
            return answer
        if out is None:
            return self._answered(args, kwargs)
        if nested.is_nested(args, kwargs):
            raise HigherOrderError(
                "out= is memory that carries no derivative: inside of another derivative, and of tensors that require a gradient, call without it"
            )
        return written(self._answered(args, kwargs), out)

    def _asked(self, args, kwargs):
        structure = flatten((args, kwargs))[1]
        return lambda recording: self._read(recording, structure)

    def _ordinary(self, args, kwargs):
        return self._replayed.call(args, kwargs, self._asked(args, kwargs)).gradients

    def _planned(self, kept, structure):
        return of_directions(kept, lambda recording: self._read(recording, structure))

    def _structures(self, structure):
        """Those of the arguments that are differentiated."""
        return [structure.parts[0].parts[k] for k in self._argnums_in_order]


class JacobianFunction(OfDirections):
    """What `jacobian` returns."""

    def __init__(self, function, argnums, mode, explain):
        self._mode, self._explain = mode, explain
        super().__init__(function, argnums)

    def _planned(self, kept, structure):
        # What explains itself does so at each call.
        return None if self._explain else super()._planned(kept, structure)

    def _read(self, recording, structure):
        structures = self._structures(structure)
        return unflatten(recording.structure, [self._contained(structures, row) for row in self._blocks(recording)])

    #: As of `nested.jacobian`.
    _sooner: Any = None

    def _inside(self, args, kwargs):
        self._replayed.check_positions(args)
        blocks, structure = nested.jacobian(self._replayed.function, args, self._argnums, kwargs, self._sooner)
        rows = [row[self._argnums[0]] if self._one else tuple(row[k] for k in self._argnums) for row in blocks]
        return unflatten(structure, rows)

    def _blocks(self, recording):
        """Blocks ``[output][input]`` by the mode that was asked for, or is cheaper."""
        mode = self._mode
        ways = [c for c in recording.compressed() or () if c is not None and mode in ("auto", "forward" if c.forward else "reverse")]
        if ways:
            one = min(ways, key=lambda c: c.count)
            if self._explain:
                way = "forward mode: its columns have" if one.forward else "reverse mode: its rows have"
                print(f"{way} {one.count} colours, each of which shares no place in the Jacobian")
            return _from_colours(recording, one)
        if mode in ("auto", "product") or self._explain:
            if recording.prediction is None:
                recording.prediction = predict(recording, mode == "product")
            prediction = recording.prediction
            mode = prediction.mode if mode == "auto" else mode
            if self._explain:
                print(prediction.reason if self._mode == "auto" else f"{mode} mode was asked for; {prediction.reason}")
        if mode == "forward":
            return by_columns(recording)
        return by_rows(recording, recording.prediction.cut if mode == "product" else False)


class HolomorphicJacobian(JacobianFunction):
    """The conjugate of that of the real part."""

    def _planned(self, kept, structure):
        return None

    def _answered(self, args, kwargs):
        return conjugated(super()._answered(args, kwargs))


@overload
def jacfwd(f: Between[X, R], argnums: Literal[0] = 0) -> OfJacobian[X, R]: ...
@overload
def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]: ...
def jacfwd(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The Jacobian of a function, in forward mode: a pass for every 16 inputs.

    Parameters
    ----------
    f : callable
        Returns a number, an array, or nested tuples, lists and dicts of them.
    argnums : int or tuple of int
        The arguments to differentiate in: numbers or arrays.

    Returns
    -------
    callable
        ``jacobian(*args, **kwargs)``: for each array that `f` returns one of shape
        ``f(x).shape + x.shape``; for a tuple `argnums` a tuple of these.

    Raises
    ------
    StructureError
        An argument that is not a number or array, or such a result.
    DtypeError
        An array of integers.

    Notes
    -----
    Several directions (4, 8 or 16) share one pass: the partial derivatives of
    each operation are computed once.  Use it where outputs outnumber inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jacfwd(lambda x: np.stack([x[0] * x[1], x[0]]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [1., 0.]])
    """
    if isinstance(argnums, (int, np.integer)) and argnums >= 0:
        return _Jacfwd(f, argnums)
    return recorded(columns(f, argnums), f, lambda f: jacfwd(f, argnums))


class _Jacfwd(JacobianFunction):
    """What `jacfwd` returns: passes on dual numbers, and under `jit` the columns of a recording."""

    def __init__(self, function, argnums):
        super().__init__(function, argnums, "forward", False)
        self._plainly = columns(self.__wrapped__, argnums)

    def _answered(self, args, kwargs):
        return self._plainly(*args, **kwargs) if self._replayed.jit is None else super()._answered(args, kwargs)

    def _ordinary(self, args, kwargs):
        answer = super()._ordinary(args, kwargs)
        return self._plainly(*args, **kwargs) if answer is None else answer

    def _inside(self, args, kwargs):
        return self._plainly(*args, **kwargs)


class _FromTheEnd(JacobianFunction):
    """The same for positions that count from the end: which arguments they are is known when it is called."""

    def __init__(self, function, argnums, mode, explain):
        super().__init__(function, 0, mode, explain)
        #: By the number of arguments.
        self._numbers, self._counted = argnums, {}

    def _with(self, args):
        if len(args) not in self._counted:
            numbers = positions(self._numbers, len(args))
            (function, _, *how), _ = self._made_of
            made = JacobianFunction(function, numbers if isinstance(self._numbers, (tuple, list)) else numbers[0], *how)
            made._replayed.stats = self._replayed.stats
            self._counted[len(args)] = made
        return self._counted[len(args)]

    def _answered(self, args, kwargs):
        return self._with(args)(*args, **kwargs)

    def tape(self, *args, **kwargs):
        return self._with(args).tape(*args, **kwargs)

    def kernel(self, *args, **kwargs):
        return self._with(args).kernel(*args, **kwargs)


def positions(argnums, count):
    """`argnums`, which may count from the end, as positions among `count` arguments."""
    numbers = _positions(argnums)
    if any(not -count <= k < count for k in numbers):
        raise StructureError(f"argnums={argnums!r}, but the function was called with {count} positional arguments")
    return tuple(k % count for k in numbers)


def _positions(argnums):
    numbers = argnums if isinstance(argnums, (tuple, list)) else (argnums,)
    return tuple(k for k in numbers if isinstance(k, (int, np.integer))) if len(numbers) else ()


def _shaped(block, output, argument):
    """One block of the Jacobian, in its shape and dtype."""
    block = block.reshape(output.shape + argument.shape)
    char = "f" if output.char == argument.char == "f" else "d"
    if block.dtype.char != char:
        block = block.astype(char)
    return block if block.ndim else block[()]


def _from_colours(recording, compressed):
    """Blocks ``[output][input]`` from one seed per colour."""
    results = np.concatenate(recording.many(compressed.forward, compressed.seeds), axis=1)
    collected, seeded = compressed.coordinates
    outputs, inputs = (np.cumsum([p.size for p in ports]) for ports in (recording.outputs, recording.inputs))
    whole = np.zeros((outputs[-1], inputs[-1]), results.dtype)
    whole[(collected, seeded) if compressed.forward else (seeded, collected)] = results[compressed.colour[seeded], collected]
    return [
        [_shaped(block, output, argument) for argument, block in zip(recording.inputs, np.split(rows, inputs[:-1], axis=1))]
        for output, rows in zip(recording.outputs, np.split(whole, outputs[:-1]))
    ]


def by_columns(recording):
    """Blocks ``[output][input]`` by tangent sweeps."""
    ends = np.cumsum([p.size for p in recording.inputs])
    return [
        [_shaped(columns[end - argument.size : end].T, output, argument) for argument, end in zip(recording.inputs, ends)]
        for output, columns in zip(recording.outputs, recording.many(True, None))
    ]


def by_rows(recording, cut=False):
    """Blocks ``[output][input]`` by reverse sweeps, or multiplied out at a `Cut`."""
    ends, rows = np.cumsum([p.size for p in recording.outputs]), recording.many(cut, None)
    return [
        [_shaped(r[end - output.size : end], output, argument) for r, argument in zip(rows, recording.inputs)]
        for output, end in zip(recording.outputs, ends)
    ]
